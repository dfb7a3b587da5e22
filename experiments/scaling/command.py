"""Costs of growth: time against devices, bytes sent between them, memory against sequence length and state size (docs/scaling.md).

    python -m experiments.scaling traffic       bytes averaged per update, for every published model; no training
    python -m experiments.scaling hosts         requirements of the largest text8 model on many hosts; computed, not measured
    python -m experiments.scaling memory        what fits into the memory of an accelerator, from compiled programs
    python -m experiments.scaling devices       time per update on 1, 2 and 4 CPU devices
    python -m experiments.scaling measure       time on 1 and 2 processes and nodes, and cost of the engines for a run; two minutes
    python -m experiments.scaling sheet         many runs on many nodes, and the text8 model on many hosts, from those measurements

Memory is the memory of temporaries reported by the compiler (`memory_analysis`) for four small programs. It depends on steps T, batch B and
state size n as B T (a n + b) + c n + d. The command solves for the coefficients, prints them, and extrapolates larger sizes.
"""

import json
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from experiments import wiki
from experiments.benchmark.contenders import jax_contender, lrpt_network
from experiments.benchmark.workloads import WORKLOADS
from experiments.parameter_table.command import PUBLISHED
from experiments.scaling import measured, sheet
from experiments.scaling.memory import LOOPS, Fit, fit, largest, longest, recurrent_parameters, temporaries_of
from lrpt.analysis.timing import in_turns
from lrpt.cli.command import leaving_with_a_line
from lrpt.cli.flags import command_line, parse_dataclass
from lrpt.cli.subcommands import first_word
from lrpt.devices import hardware, parallel
from lrpt.errors import UsageError, check_choice
from lrpt.networks.counting import averaged_bytes, count
from lrpt.networks.sequence_model import ModelConfig
from lrpt.runs.console import Console
from lrpt.runs.files import write_text

PROGRAM = "python -m experiments.scaling"
GIB = 2**30
MEASURED = Path(__file__).parents[1] / "results" / "scaling.json"

NUMBERS = (
    *("devices", "rounds", "memory", "batch", "rank", "sizes", "lengths", "hosts", "teraflops", "gigabits"),
    *("turns", "runs", "updates", "many", "nodes", "cores"),
)
"""Options that are numbers above 0."""


@dataclass(frozen=True)
class Options:
    """Command-line options; each names the subcommand it belongs to."""

    devices: tuple[int, ...] = (1, 2, 4)
    """devices: numbers of devices"""
    workload: str = "permuted_mnist"
    """devices: workload of the benchmark to train"""
    rounds: int = 15
    """devices: measurements for each number of devices, taken in turn"""
    memory: tuple[float, ...] = (24.0, 139.0)
    """memory: memory sizes of an accelerator, in GiB"""
    batch: int = 20
    """memory: examples per batch"""
    rank: int = 64
    """memory: rank of the low-rank-plus-diagonal GRU"""
    sizes: tuple[int, ...] = (128, 1024, 8192)
    """memory: state sizes for which to find the longest sequence"""
    lengths: tuple[int, ...] = (100, 1000, 10000)
    """memory: sequence lengths for which to find the largest state"""
    hosts: int = 32
    """hosts, sheet: number of hosts with one accelerator each; in the sheet, with one core each"""
    teraflops: float = 50.0
    """hosts: achieved TFLOP/s of an accelerator"""
    gigabits: tuple[float, ...] = (10.0, 100.0, 400.0)
    """hosts, sheet: network bandwidths between two hosts, in Gbit/s"""
    turns: int = 1
    """measure: measurements of each engine and number of processes, taken in turn"""
    runs: int = 2
    """measure: runs of each engine"""
    updates: int = 60
    """measure: updates of each run"""
    json: Path | None = None
    """measure: file to write the times to"""
    measured: Path = MEASURED
    """sheet: file with times of measure"""
    many: int = 1000
    """sheet: number of runs"""
    nodes: int = 100
    """sheet: number of nodes"""
    cores: tuple[int, ...] = (1, 16)
    """sheet: cores of a node, which are taken not to slow each other down"""

    def __post_init__(self) -> None:
        check_choice("workload", self.workload, WORKLOADS)
        for name in NUMBERS:
            value = getattr(self, name)
            if not value or not np.min(value) > 0:
                raise UsageError(f"{name} is {value}: expected numbers above 0")


def traffic(options: Options, console: Console) -> None:
    """Print the bytes averaged per update for every published model."""
    models = [(p.where, p.config.label, p.config, p.sizes) for p in PUBLISHED]
    rows = [[where, label, f"{count(m, *sizes).true:,}", f"{averaged_bytes(m, *sizes):,}"] for where, label, m, sizes in models]
    console.table(["", "model", "parameters", "bytes averaged per update"], rows)


class Need(NamedTuple):
    """Requirements of one update on each of several hosts.

    Attributes:
      operations: floating-point operations of one host.
      sent: bytes sent by one host in a ring all-reduce.
    """

    operations: float
    sent: float


def need(model: ModelConfig, symbols: int, batch: int, steps: int, hosts: int) -> Need:
    """Compute the requirements of one update.

    It takes six operations per parameter, example and step. A ring sends 2 (N - 1) / N of the averaged bytes, with N hosts.
    """
    operations = 6 * count(model, symbols, symbols).true * batch * steps / hosts
    return Need(operations, 2 * (hosts - 1) / hosts * averaged_bytes(model, symbols, symbols))


def hosts(options: Options, console: Console) -> None:
    """Print the requirements of the largest text8 model, with its batch split among hosts."""
    config = wiki.EXPERIMENT.presets["text8-10x1500"].config
    model, symbols, batch = config.model, wiki.SYMBOLS["text8"], config.train.batch_size
    if batch % options.hosts:
        raise UsageError(f"hosts is {options.hosts}, which does not divide the batch of {batch}: choose another number")
    one = need(model, symbols, batch, config.data.steps, options.hosts)  # type: ignore[arg-type]
    compute = one.operations / (options.teraflops * 1e12)
    rows_each, true = batch // options.hosts, count(model, symbols, symbols).true
    console.say(f"{model.label}: {true:,} parameters, batch {batch}, {rows_each} rows on each host")
    reached = f"{1e3 * compute:,.2f} ms at {options.teraflops:.3g} TFLOP/s"
    console.say(f"each host per update: {one.operations / 1e9:.1f} GFLOP, {reached}; sends {one.sent / 1e6:.0f} MB")
    rows = []
    for gigabits in options.gigabits:
        exchange = one.sent / (gigabits / 8 * 1e9)
        days = config.train.updates * (compute + exchange) / 86400
        rows.append([f"{gigabits:g} Gbit/s", f"{1e3 * exchange:.1f} ms", f"{100 * compute / (compute + exchange):.2g} %", f"{days:,.1f}"])
    console.table(["between hosts", "exchange", "time spent computing", f"days for {config.train.updates:,} updates"], rows)


def memory(options: Options, console: Console) -> None:
    """Print what fits into memory with each way to differentiate the recurrence."""
    parallel.request_devices(1, 1, options.batch)
    for name, (loop, store) in LOOPS.items():
        sizes = 2 * options.rank, 4 * options.rank  # from n = 2d on, the fast loop stores the projected state
        found = fit(temporaries_of(loop, store, options.rank, options.batch), options.batch, sizes)
        console.say(f"{name}: B T ({found.a:.2f} n + {found.b:.1f}) + {found.c:,.0f} n + {found.d:,.0f} bytes")
        rows = [list(_fitting(found, gib * GIB, options)) for gib in options.memory]
        head = [*(f"longest T, n = {n:,}" for n in options.sizes), *(f"largest n, T = {t:,}" for t in options.lengths)]
        console.table(["", *head], [[f"{gib:g} GiB", *row] for gib, row in zip(options.memory, rows, strict=True)])


def _fitting(found: Fit, budget: float, options: Options) -> Iterator[str]:
    for size in options.sizes:
        yield f"{longest(found, recurrent_parameters(size, options.rank), size, options.batch, budget):,}"
    for steps in options.lengths:
        yield f"{largest(found, options.rank, steps, options.batch, budget):,}"


def devices(options: Options, console: Console) -> None:
    """Print the time per update of one model, with its batch split among CPU devices."""
    workload = WORKLOADS[options.workload]
    for number in options.devices:
        parallel.check_devices(number, workload.batch)
    parallel.request_devices(max(options.devices), 1, workload.batch)
    network = lrpt_network(workload.model.loop.kind)
    timed = {n: jax_contender(network, workload, shards=n, updates=4) for n in options.devices}
    trained = {n: contender.train for n, contender in timed.items()}
    for warm_up in trained.values():
        warm_up()
    times = {n: [each / timed[n].updates for each in seconds] for n, seconds in in_turns(trained, options.rounds).items()}
    base = statistics.median(times[options.devices[0]])
    rows = [
        [str(n), *(f"{1e3 * f(values):.1f}" for f in (statistics.median, min, max)), f"{base / statistics.median(values):.2f}x"]
        for n, values in times.items()
    ]
    console.table(["devices", "median ms per update", "min", "max", "speed"], rows, f"{options.workload}, {hardware.cores()} cores")


def measure_growth(options: Options, console: Console) -> None:
    """Measure runs on engines and processes that share a model, print both, and write them to a file on request."""
    report = measured.take(options.runs, options.updates, options.turns, console)
    measured.show(report, console)
    if options.json:
        write_text(options.json, json.dumps(report, indent=1) + "\n")


def paper_sheet(options: Options, console: Console) -> None:
    """Print the estimated times of many runs on many nodes, and of the text8 model on many hosts, from measured times."""
    report = sheet.read(options.measured)
    sheet.show(report, options.many, options.nodes, options.cores, console)
    hosts(replace(options, teraflops=sheet.teraflops(report)), console)


SUBCOMMANDS = {
    "traffic": traffic,
    "hosts": hosts,
    "memory": memory,
    "devices": devices,
    "measure": measure_growth,
    "sheet": paper_sheet,
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a subcommand."""
    words, console = command_line(arguments), Console()
    with leaving_with_a_line(console):
        named = [] if not words or words[0].startswith("-") else words[:1]
        about, rest = "Measure or compute what larger networks and more devices cost.", words[len(named) :]
        options = parse_dataclass(Options, rest, PROGRAM, about, Options(), f"{{{','.join(SUBCOMMANDS)}}}")
        SUBCOMMANDS[first_word(named, SUBCOMMANDS, PROGRAM)](options, console)
