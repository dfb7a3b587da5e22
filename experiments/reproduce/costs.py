"""Costs of a run on this machine: measured by a few updates, or estimated from counts of operations."""

import hashlib
import json
import math
import platform
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import experiments
from lrpt.cli import limits
from lrpt.datasets.sources import writable_root
from lrpt.devices import parallel
from lrpt.engines.engine import Engine
from lrpt.engines.jobs import NamedJob
from lrpt.errors import UsageError
from lrpt.runs.configuration import flatten, to_json
from lrpt.runs.console import Console
from lrpt.runs.files import write_json
from lrpt.runs.signals import StopRequests
from lrpt.tasks.images import ImageVectors, PermutedImages
from lrpt.training.config import RunConfig
from lrpt.training.program import Program
from lrpt.training.run import Run
from lrpt.training.trainer import Trainer

CALLS = 2
"""compiled calls that are timed, after one that is not"""

EVALUATION = 1 / 3
"""what an example costs in evaluation, as a share of what it costs in training: there is no backward pass"""

ENDLESS = 10**9
PIXELS = {"digits": 64, "mnist": 784}
"""steps of the images of a source, which are read pixel by pixel"""


class Cost(NamedTuple):
    """Seconds of one update, evaluations included if it was measured."""

    seconds: float
    measured: bool

    def hours(self, updates: float) -> float:
        """Return the hours of some updates."""
        return self.seconds * updates / 3600


class Costs:
    """Costs of configurations on this machine. Measured ones are kept in a file of the user's cache.

    Args:
      engine: measures in a process of its own.
      path: the file (None: `lrpt/costs.json` in the user's cache).
    """

    def __init__(self, engine: Engine, path: Path | None = None) -> None:
        self.engine, self.path = engine, path or writable_root(None) / "costs.json"
        self._machine = f"{platform.node()}, {parallel.cores()} cores, {engine.accelerators} accelerators"
        self._known = _read(self.path)

    def of(self, config: RunConfig[Any], experiment: str = "") -> Cost:
        """Return the measured cost of a configuration, or an estimate, which a measured preset of the experiment calibrates on CPUs."""
        if seconds := self._known.get(self._key(config)):
            return Cost(seconds, measured=True)
        accelerated = bool(self.engine.accelerators)
        seconds = estimate(config, accelerated)
        return Cost(seconds if accelerated else seconds * calibration(experiment, seconds), measured=False)

    def measure(self, one: NamedJob) -> str:
        """Measure the cost of a run's configuration if it is not known. Return why that was impossible, or an empty string."""
        key = self._key(one.job.config)
        if key in self._known:
            return ""
        try:
            found = self.engine.call(measured, one)
        except UsageError as error:  # the process that measured it died
            return str(error)
        if isinstance(found, str):
            return found
        self._known = {**_read(self.path), **self._known, key: found}
        write_json(self.path, self._known)
        return ""

    def _key(self, config: RunConfig[Any]) -> str:
        settings = flatten(to_json(replace(config.program, train=replace(config.train, updates=1, start=None))))
        content = json.dumps([self._machine, {name: value for name, value in settings.items() if name != "data.dir"}], sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()


def _read(path: Path) -> dict[str, float]:
    """Return what a file of costs holds. A damaged one holds nothing: costs can be measured again."""
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return {key: value for key, value in content.items() if isinstance(value, float) and value > 0} if isinstance(content, Mapping) else {}


def estimate(config: RunConfig[Any], accelerated: bool) -> float:
    """Return about how many seconds an update takes: six operations for each recurrent parameter, example and step.

    It reads no data, so it knows neither the vocabulary nor the length of sentences: most runs take 5 to 50 times as long on a core.
    """
    operations = 6 * limits.recurrent_parameters(config.model) * config.train.batch_size * _steps(config.data)
    return operations / parallel.operations_per_second(cpu=not accelerated)


def calibration(experiment: str, seconds: float) -> float:
    """Return the ratio of measured to estimated cost, on a core, of the preset of an experiment whose updates are closest in length.

    Args:
      experiment: name of the experiment.
      seconds: estimate of an update.

    Returns:
      1 if `experiments.costs` has measured no preset of the experiment.
    """
    presets = experiments.read_costs(experiments.COSTS).get("presets", {}).get(experiment, {})
    measured = [cost for cost in presets.values() if cost["measured"]]
    return min(measured, key=lambda cost: abs(math.log(cost["update"] / seconds)))["ratio"] if measured else 1.0


def _steps(data: Any) -> int:
    if isinstance(data, PermutedImages):
        return PIXELS[data.source]
    return 1 if isinstance(data, ImageVectors) else limits.steps(data)


def measured(one: NamedJob) -> float | str:
    """Return the seconds of one update of a run, with its share of an evaluation, or one line on why it cannot be trained.

    A process that is bound to one core of a CPU counts its processor time: what other programs take of the core is no cost of the run.
    """
    try:
        return _timed(one.job.config, one.job.seed)
    except UsageError as error:
        return " ".join(str(error).split())
    except Exception as error:
        if parallel.is_out_of_memory(error):
            return "out of memory"
        raise


def _timed(config: RunConfig[Any], seed: int) -> float:
    parallel.request_devices(1, 1, config.train.batch_size)
    names, quiet = {"experiment": "cost", "preset": "cost"}, Console(quiet=True)
    with tempfile.TemporaryDirectory() as folder:
        run = Run(names, config, seed, Path(folder) / "run", quiet)
        layout = parallel.layout(1, config.train.batch_size, 1)
        calls = Program(config, run.task, layout).updates_per_call
        run.config = replace(config, train=replace(config.train, updates=ENDLESS, evaluate_every=ENDLESS, updates_per_call=calls))
        with closing(run), StopRequests() as stop:
            trainer = Trainer(Program(run.config, run.task, layout), {run: run.start()})
            trainer.train(calls, quiet, stop)
            seconds = _seconds(lambda: trainer.train((1 + CALLS) * calls, quiet, stop)) / (CALLS * calls)
    evaluated = EVALUATION * run.task.splits["valid"].size / config.train.evaluate_every
    return seconds * (1 + evaluated / config.train.batch_size)


def _seconds(function: Callable[[], Any]) -> float:
    clock = time.process_time if parallel.on_cpu() and parallel.cores() == 1 else time.perf_counter
    start = clock()
    function()
    return clock() - start
