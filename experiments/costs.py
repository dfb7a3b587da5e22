"""Costs of all presets, which the list of experiments and --help show: measured on one core of this machine, or estimated.

    python -m experiments.costs --data.dir DIR                           every preset; about 20 minutes of processor time
    python -m experiments.costs --presets adding/quick --data.dir DIR    this preset; other measured costs stay as they are
    python -m experiments.costs --no-measure                             estimates of the presets that are not measured; takes a minute

A cost is the processor time of the runs that the command trains: one seed, all updates and evaluations, each variant and learning rate of a
comparison. Start, compilation and checkpoints come on top. A run that meets a criterion earlier costs less. A few updates of each run are
measured, as `experiments.reproduce --measure` does, in a process that is bound to one core. Measurements are stored in the user's cache, so
that the same command goes on after an interruption. The date in the file is that of the last measurement of any preset.

Where updates are long, few presets of each experiment are measured. The other presets, and those whose data are missing, are estimated: the
estimate from counts of operations is multiplied by the ratio of measured to estimated cost of measured presets of the experiment. It is
interpolated between those with the next shorter and the next longer updates, among those that read the same data if there are any.
"""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, fields, replace
from datetime import date
from functools import cached_property
from pathlib import Path
from typing import Any

import experiments
from experiments.benchmark.machine import describe
from experiments.reproduce.costs import Cost, Costs, Measured, comparable, estimate
from experiments.reproduce.costs import ratio as similar_ratio
from lrpt.cli.command import leaving_with_a_line, planned
from lrpt.cli.experiment import Experiment
from lrpt.cli.flags import command_of, parse_dataclass
from lrpt.devices.hardware import bind_to_one_core
from lrpt.engines.jobs import NamedJob
from lrpt.engines.local import LocalEngine
from lrpt.errors import UsageError, check_distinct
from lrpt.runs.console import Console
from lrpt.runs.files import write_json

PROGRAM = "python -m experiments.costs"
USAGE = "Measure what the presets of all experiments cost on one core."
COLUMNS = ("preset", "runs", "updates", "hours on a core", "")
STEP = 4.0
"""ratio of the estimates of successive presets that are measured although their updates are long"""

LONGEST = 3.0
"""seconds of an update by the estimate, above which nothing is measured"""

AGAIN = "the measurements until then are stored, and the same command goes on"


@dataclass(frozen=True)
class Data:
    """Place of the data."""

    dir: Path | None = None
    """directory of the data sets, as --data.dir of the experiments"""


@dataclass(frozen=True)
class Options:
    """Options of the command line."""

    presets: tuple[str, ...] = ()
    """presets to measure, as EXPERIMENT/PRESET, for example adding/quick (empty: all)"""
    measure: bool = True
    """measure presets (--no-measure: keep the measured costs of the file, and estimate the others again, as after a change of presets)"""
    limit: float = 0.05
    """seconds of an update, estimated from counts of operations, up to which all presets are measured; of presets above, only a few are"""
    data: Data = field(default_factory=Data)
    output: Path = experiments.COSTS
    """JSON file to which costs are written"""

    def __post_init__(self) -> None:
        if self.presets:
            check_distinct("presets", self.presets)
            if not self.measure:
                raise UsageError("--presets names what to measure, and --no-measure measures nothing: give only one of them")
        if not self.limit >= 0:
            raise UsageError(f"limit is {self.limit:g}: expected a number of seconds, 0 or more")


@dataclass(frozen=True, eq=False)
class Runs:
    """The runs that a preset trains: one seed of each model and learning rate."""

    experiment: str
    preset: str
    jobs: Sequence[NamedJob]

    @property
    def name(self) -> str:
        """Return the name on the command line: 'adding/quick'."""
        return f"{self.experiment}/{self.preset}"

    @property
    def data(self) -> str:
        """Return the settings of the data that all runs read."""
        return comparable(self.jobs[0].job.config, "data")

    @cached_property
    def updates(self) -> int:
        """Return the updates of all runs."""
        return sum(one.job.config.train.updates for one in self.jobs)

    @cached_property
    def estimate(self) -> float:
        """Return the hours of all runs by counts of operations."""
        return sum(Cost(_estimate(one), measured=False).hours(one.job.config.train.updates) for one in self.jobs)

    @cached_property
    def kind(self) -> tuple[str, str, str, int]:
        """Return what presets share whose updates cost the same: the experiment, data, operations, and the interval of evaluations."""
        return self.experiment, self.data, f"{self.update:.3g}", self.jobs[0].job.config.train.evaluate_every

    def measured(self, costs: Costs) -> float | None:
        """Return the hours of all runs if every one has been measured."""
        found = [(costs.of(one.job.config), one.job.config.train.updates) for one in self.jobs]
        return sum(cost.hours(updates) for cost, updates in found) if all(cost.measured for cost, _ in found) else None

    @property
    def update(self) -> float:
        """Return the seconds of an update by counts of operations, in the mean over all runs."""
        return 3600 * self.estimate / self.updates

    @cached_property
    def longest(self) -> float:
        """Return the seconds of the longest update by counts of operations."""
        return max(map(_estimate, self.jobs))

    def measure(self, costs: Costs) -> str:
        """Measure every run. Return why that was impossible, or an empty string."""
        return next(filter(None, map(costs.measure, self.jobs)), "")


def _estimate(one: NamedJob) -> float:
    return estimate(one.job.config, accelerated=False)


def all_runs(data: Path | None) -> dict[str, Runs]:
    """Return the runs of every preset by its name: 'adding/quick'."""
    held = (getattr(experiments.module(name), "EXPERIMENT", None) for name in experiments.names())
    found = [_runs(experiment, preset, data) for experiment in held if experiment for preset in experiment.presets]
    return {runs.name: runs for runs in found}


def _runs(experiment: Experiment[Any], preset: str, data: Path | None) -> Runs:
    command = command_of(experiment, preset)
    if data and "dir" in {each.name for each in fields(command.data)}:
        command = replace(command, data=replace(command.data, dir=data))
    jobs = planned(experiment, {"": command})
    names = {"experiment": experiment.name, "preset": preset}
    return Runs(experiment.name, preset, [NamedJob(job, names) for job in jobs])


def chosen(names: Sequence[str], known: Mapping[str, Runs]) -> list[Runs]:
    """Return the runs of some presets, or of all if none is named.

    Raises:
      UsageError: a preset is unknown.
    """
    for name in names:
        if name not in known:
            experiment = name.partition("/")[0]
            own = [other for other in known if other.startswith(f"{experiment}/")]
            advice = f"choose from {', '.join(own)}" if own else "give EXPERIMENT/PRESET; `python -m experiments` lists them"
            raise UsageError(f"unknown preset '{name}': {advice}")
    return [known[name] for name in names] or list(known.values())


def kept(path: Path, machine: Mapping[str, Any], known: Mapping[str, Runs]) -> dict[str, float]:
    """Return the measured hours of known presets in a file of costs. A missing or damaged file holds none.

    Raises:
      UsageError: they were measured on another processor.
    """
    content = experiments.read_costs(path)
    if content and content["processor"] != machine["processor"]:
        other = f"{path.name} was measured on {content['processor']}, and this is {machine['processor']}"
        raise UsageError(f"{other}: leave --presets out to measure all on this machine, or name another --output")
    costs = {f"{name}/{preset}": cost for name, presets in content.get("presets", {}).items() for preset, cost in presets.items()}
    return {name: cost["hours"] for name, cost in costs.items() if cost["measured"] and name in known}


def ratio(one: Runs, measured: Mapping[Runs, float]) -> float:
    """Return the ratio of measured and estimated hours of presets similar to `one`, as `experiments.reproduce` does."""
    ratios = {other: hours / other.estimate for other, hours in measured.items()}
    own = [Measured(other.data, other.update, found) for other, found in ratios.items() if other.experiment == one.experiment]
    return similar_ratio(one.data, one.update, own, list(ratios.values()))


def pooled(measured: Mapping[Runs, float]) -> dict[Runs, float]:
    """Return measured hours of presets, with one ratio of measured to estimated hours for all presets of the same kind.

    A few updates of each are measured, so that ratios differ by chance. A longer training must not seem cheaper than a shorter one.
    """
    ratios: dict[tuple[str, str, str, int], list[float]] = {}
    for one, hours in measured.items():
        ratios.setdefault(one.kind, []).append(hours / one.estimate)
    return {one: one.estimate * statistics.median(ratios[one.kind]) for one in measured}


def entries(known: Mapping[str, Runs], measured: Mapping[str, float]) -> dict[str, dict[str, dict[str, Any]]]:
    """Return hours of every preset, whether they were measured, their ratio to the estimate, and the estimated seconds of an update."""
    by_runs = pooled({known[name]: hours for name, hours in measured.items()})
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for name, one in known.items():
        hours = by_runs.get(one) or one.estimate * ratio(one, by_runs)
        figures = {"hours": hours, "ratio": hours / one.estimate, "update": one.update}
        rounded = {figure: float(f"{value:.3g}") for figure, value in figures.items()}
        found.setdefault(one.experiment, {})[one.preset] = {**rounded, "measured": name in measured}
    return found


def measure_each(wanted: Sequence[Runs], costs: Costs, limit: float, console: Console) -> dict[str, str]:
    """Measure presets. Return by name why a preset was not measured, or an empty string if it was.

    Measure all presets whose updates take at most `limit` seconds by the estimate. Among longer ones, measure a ladder of presets for each
    experiment: updates of each are `STEP` times as long as those of the one before, up to `LONGEST` seconds.
    """
    reasons, last = {}, dict.fromkeys((one.experiment for one in wanted), 0.0)
    for number, one in enumerate(sorted(wanted, key=lambda one: one.longest), 1):
        is_next = STEP * last[one.experiment] <= one.longest <= LONGEST
        if one.longest <= limit or is_next or one.measured(costs) is not None:
            with console.busy(f"{one.name}, {number} of {len(wanted)}"):
                reasons[one.name] = one.measure(costs)
        else:
            reasons[one.name] = "long updates"
        if not reasons[one.name]:
            last[one.experiment] = one.longest
    return reasons


def measure(options: Options, console: Console) -> None:
    """Measure presets, write the file of costs, and print them."""
    machine, known = describe(), all_runs(options.data.dir)
    wanted = chosen(options.presets, known)
    if not options.measure:
        estimate_again(options.output, known)
        return
    before = kept(options.output, machine, known) if options.presets else {}
    bind_to_one_core()
    with closing(LocalEngine(1)) as engine:
        costs = Costs(engine)
        reasons = measure_each(wanted, costs, options.limit, console)
        now = {one.name: hours for one in wanted if not reasons[one.name] and (hours := one.measured(costs))}
    found = entries(known, {**before, **now})
    last = None if now else experiments.read_costs(options.output).get("date")
    write_json(options.output, {**machine, "date": last or date.today().isoformat(), "presets": found})
    console.table(COLUMNS, list(_rows(wanted, found, reasons)))


def estimate_again(path: Path, known: Mapping[str, Runs]) -> None:
    """Write the file of costs with the costs that were measured in it, and with new estimates of all others.

    Raises:
      UsageError: there is no such file, or it is damaged.
    """
    content = experiments.read_costs(path)
    if not content:
        raise UsageError(f"{path} is no file of costs, whose measurements could be kept: leave --no-measure out")
    write_json(path, {**content, "presets": entries(known, kept(path, content, known))})


def _rows(wanted: Sequence[Runs], found: Mapping[str, Mapping[str, Any]], reasons: Mapping[str, str]) -> Iterator[list[str]]:
    for one in wanted:
        cost = found[one.experiment][one.preset]
        reason = reasons[one.name].partition(":")[0]
        how = f"estimated: {reason}" if not cost["measured"] else f"measured earlier, not now: {reason}" if reason else "measured"
        yield [one.name, str(len(one.jobs)), f"{one.updates:,}", f"{cost['hours']:,g}", how]


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the command line, and measure."""
    console = Console()
    with leaving_with_a_line(console, AGAIN):
        measure(parse_dataclass(Options, arguments, PROGRAM, USAGE, Options()), console)


if __name__ == "__main__":
    main()
