"""Measurements of the same work with one or two processes or nodes, and with or without an engine."""

import os
import socket
import statistics
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from experiments.adding import EXPERIMENT as ADDING
from experiments.benchmark.machine import describe
from experiments.scaling.processor_time import Descendants, Spent, spend
from lrpt.errors import UsageError
from lrpt.networks.counting import count
from lrpt.runs.console import Console
from lrpt.runs.layout import METRICS
from lrpt.runs.run_directory import RunDirectory

COMMON = ("--no-compare", "--devices", "1", "--data.test-size", "20")
"""flags of all measured runs: one model, one core, and evaluations that take next to no time"""

ALONE = "a command for each run"
ENGINES = (ALONE, "local, 1 process", "local, 2 processes", "ray, 1 node", "ray, 2 nodes")
SIDE_BY_SIDE = {name: 2 if "2" in name else 1 for name in ENGINES}
CALL = 10
"""updates between two evaluations of a timed model"""

SMALL = ("--preset", "paper")
WIDE = ("--preset", "paper", "--model.size", "512", "--train.batch-size", "64", "--data.length", "100")
"""a model with enough work in each update to be worth sharing"""

TIMED = {"small, 1": (SMALL, 1), "wide, 1": (WIDE, 1), "wide, 2": (WIDE, 2)}
"""models of adding, and numbers of processes that train them"""


def take(runs: int, updates: int, turns: int, console: Console) -> dict[str, Any]:
    """Measure engines and processes. Return everything that `show` and the sheets read."""
    watch = Descendants()
    report = {
        "date": datetime.now(UTC).date().isoformat(),
        **describe(),
        "load_before": round(os.getloadavg()[0], 1),
        "runs": runs,
        "engines": engines(runs, updates, turns, watch, console),
        "processes": processes(updates, turns, watch, console),
        **_model(),
    }
    return report | {"load_after": round(os.getloadavg()[0], 1)}


def _model() -> dict[str, float]:
    """Return operations and updates of the small model: the preset 'paper' of adding."""
    config = ADDING.presets["paper"].config
    parameters = count(config.model, 2, 1).true
    operations = 6 * parameters * config.train.batch_size * config.data.length
    return {"operations": operations, "updates": config.train.updates}


def _module(name: str, *words: object) -> list[str]:
    return [sys.executable, "-W", "ignore", "-m", f"experiments.{name}", *map(str, words)]


def engines(runs: int, updates: int, turns: int, watch: Descendants, console: Console) -> dict[str, list[Spent]]:
    """Return what the same runs have spent in each turn: as commands one after another, and on each engine.

    Compiled programs are in the cache before the first turn. Starts of Ray's nodes are not counted.
    """
    from lrpt.engines.cluster import NODE, nodes_here

    flags = [*COMMON, "--train.updates", updates, "--train.evaluate-every", updates]
    found: dict[str, list[Spent]] = {name: [] for name in ENGINES}
    with tempfile.TemporaryDirectory() as folder, nodes_here() as cluster:
        root = Path(folder)
        spend([_module("adding", *flags, "--workdir", root / "compiled")], watch)
        for turn in range(turns):
            for name in ENGINES:
                workdir = root / f"{turn}-{name.replace(' ', '')}"
                second = cluster.add_node(**NODE) if name.startswith("ray, 2") else None
                cluster.wait_for_nodes()
                with console.busy(f"{name}, turn {turn + 1} of {turns}"):
                    found[name].append(_runs(name, runs, flags, workdir, cluster.address, watch))
                if second:
                    cluster.remove_node(second)
    return found


def _runs(name: str, runs: int, flags: list[Any], workdir: Path, address: str, watch: Descendants) -> Spent:
    """Train runs in one of the ways, and check that each has a result."""
    if name == ALONE:
        spent = [spend([_module("adding", *flags, "--seed", k, "--workdir", workdir / f"quick-seed{k}")], watch) for k in range(runs)]
        total = Spent(sum(one.wall for one in spent), sum(one.cpu for one in spent))
    else:
        engine = ["--processes", SIDE_BY_SIDE[name]] if name.startswith("local") else ["--engine", "ray", "--address", address]
        total = spend([_module("sweep", "adding", *engine, "--seeds", runs, "--workdir", workdir, *flags)], watch)
    missing = [k for k in range(runs) if RunDirectory(workdir / f"quick-seed{k}").result() is None]
    if missing:
        raise UsageError(f"{name}: the runs with the seeds {missing} have no result", code=1)
    return total


def processes(updates: int, turns: int, watch: Descendants, console: Console) -> dict[str, list[Spent]]:
    """Return what an update of a model has spent in each turn, on one process or shared by two, each bound to a core."""
    found: dict[str, list[Spent]] = {name: [] for name in TIMED}
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(turns):
            for name, (model, number) in TIMED.items():
                with console.busy(f"{name}, turn {turn + 1} of {turns}"):
                    found[name].append(_shared(number, [*model, *COMMON], updates, Path(folder) / f"{turn}-{name[0]}{number}", watch))
    return found


def _shared(number: int, model: Sequence[str], updates: int, workdir: Path, watch: Descendants) -> Spent:
    """Train one model with several processes, and return what an update spends between the first and the last evaluation."""
    flags = [*model, "--train.updates", updates, "--train.evaluate-every", CALL, "--workdir", workdir]
    address = f"127.0.0.1:{_free_port()}"
    joined = ["--distributed.coordinator-address", address, "--distributed.num-processes", number, "--distributed.process-id"]
    commands = [_bound(k, _module("adding", *flags, *([*joined, k] if number > 1 else []))) for k in range(number)]
    at: dict[int, Spent] = {}
    spend(commands, watch, _by_update(workdir / METRICS, at))
    if len(at) < 2:
        raise UsageError(f"updates is {updates}, too few to be seen apart: choose more", code=1)
    first, last = min(at), max(at)
    return Spent(*((b - a) / (last - first) for a, b in zip(at[first], at[last], strict=True)))


def _bound(core: int, words: list[str]) -> list[str]:
    """Return a command that runs on one of the cores that this process may use."""
    allowed = sorted(os.sched_getaffinity(0))
    return ["taskset", "--cpu-list", str(allowed[core % len(allowed)]), *words]


def _by_update(metrics: Path, at: dict[int, Spent]) -> Callable[[Spent], None]:
    """Return a function that notes what was spent when the metrics of an update were first seen."""

    def note(spent: Spent) -> None:
        if metrics.exists():
            at.setdefault(metrics.read_text().count('"split": "valid"') * CALL, spent)
            at.pop(0, None)

    return note


def _free_port() -> int:
    with closing(socket.socket()) as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def medians(spent: list[Any]) -> Spent:
    """Return the median of each quantity over the turns."""
    return Spent(*(statistics.median(one[i] for one in spent) for i in range(2)))


def engine_seconds(report: Mapping[str, Any], name: str) -> Spent:
    """Return what an engine adds to each run: its time beyond that of single commands, divided by the runs.

    Wall time is that of all places: two that are busy for a second are two seconds.
    """
    alone, here = (medians(report["engines"][one]) for one in (ALONE, name))
    return Spent((here.wall * SIDE_BY_SIDE[name] - alone.wall) / report["runs"], (here.cpu - alone.cpu) / report["runs"])


def show(report: Mapping[str, Any], console: Console) -> None:
    """Print the tables of a measurement."""
    where = f"{report['processor']}, {report['cores']} cores, jax {report['versions']['jax']}, {report['date']}"
    console.say(f"{where}; load {report['load_before']} before, {report['load_after']} after")
    rows = []
    for name in ENGINES:
        spent, added = medians(report["engines"][name]), engine_seconds(report, name)
        more = ["", ""] if name == ALONE else [f"{added.wall:.1f}", f"{added.cpu:.1f}"]
        rows.append([name, f"{spent.wall:.1f}", f"{spent.cpu:.1f}", *more])
    console.table(["", "wall s", "CPU s", "engine, wall s a run", "engine, CPU s a run"], rows, f"{report['runs']} runs of adding")
    base, rows = medians(report["processes"]["wide, 1"]), []
    for name, spent in report["processes"].items():
        one = medians(spent)
        speed = [f"{base.wall / one.wall:.2f}x", f"{base.cpu * TIMED[name][1] / one.cpu:.2f}x"] if name.startswith("wide") else ["", ""]
        rows.append([name, f"{1e3 * one.wall:.1f}", f"{1e3 * one.cpu:.1f}", *speed])
    head = ["model, processes", "wall ms an update", "CPU ms an update", "speed, wall", "speed, CPU"]
    console.table(head, rows, "one model, a core for each process")
