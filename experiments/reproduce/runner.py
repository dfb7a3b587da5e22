"""Printing or training of the plan."""

import heapq
import statistics
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass
from pathlib import Path

from experiments import machine_of_costs
from experiments.report.command import ROOT
from experiments.report.kept.collecting import collect
from experiments.report.kept.records import load
from experiments.report.wording.markdown import RESULTS
from experiments.report.writing import PAPERS
from experiments.reproduce import archives
from experiments.reproduce.costs import Cost, Costs
from experiments.reproduce.options import Options
from experiments.reproduce.plan import Configuration, PlannedRun, chosen, configurations, runs, state_of, unplanned
from lrpt.datasets.sources import without_downloads
from lrpt.engines.engine import Engine
from lrpt.engines.jobs import Unit
from lrpt.engines.schedule import open_engine, train_all
from lrpt.engines.worker import check_programs
from lrpt.errors import UsageError
from lrpt.runs.console import Console
from lrpt.runs.layout import FAILURE, RESULT

MODULE = "python -m experiments."
LINE = "{:>6}  {:>8}  {:>20}  {:>11}  {:>11}  {}"
COLUMNS = ("claims", "done", "updates", "hours each", "hours left", "run")


@dataclass(frozen=True)
class Plan:
    """Chosen runs with their costs, and the directory they are trained in."""

    studies: Sequence[Configuration]
    runs: Sequence[PlannedRun]
    costs: Costs
    slots: int

    def hours(self, run: PlannedRun) -> float:
        """Return the hours until a run is finished."""
        return self.cost(run).hours(run.config.train.updates) * run.share

    def cost(self, run: PlannedRun) -> Cost:
        """Return the cost of an update."""
        return self.costs.of(run.config, run.of.planned.experiment)

    @property
    def startable(self) -> Sequence[PlannedRun]:
        """Return the runs that can start: not done, with a usable directory; first seeds first, then the cheapest."""
        open_runs = [run for run in self.runs if not run.state.done and not run.state.problem]
        return sorted(open_runs, key=lambda run: (run.job.job.seed, self.hours(run)))


def reproduce(options: Options, console: Console) -> int:
    """Print or train the plan. Return the exit status."""
    needed = chosen(PAPERS, options.paper, options.claims, options.seeds, options.scale)
    console.say("comparing the claims with what is kept; this takes half a minute ...")
    plan = configurations(needed, options.data)
    folder = None if options.list else options.unfinished
    damaged = {} if folder is None else _restore(plan, options, folder, console)
    with without_downloads() if options.list else nullcontext():
        lacking = unplanned(plan, options.workdir)
    plan = [one for one in plan if one not in lacking]
    planned = runs(plan, load(ROOT / RESULTS), options.workdir, ROOT / RESULTS, damaged)
    with closing(open_engine(options)) as engine:
        costs = Costs(engine)
        found = Plan([one for one in plan if one.is_study], planned, costs, engine.slots)
        if options.measure:
            _measure(found, console)
        if options.list:
            _list(found, lacking, console)
            if options.hours is not None:
                console.say(_within(found, options.hours))
            return 0
        begin = fitting(found, options.hours)
        _write_starts(begin, console)
        ready, refused = _ready(begin, engine, console)
    for run in planned:
        if run.state.problem:
            console.error(run.state.problem)
    for one, reason in lacking.items():
        console.error(f"{_title(one)} is skipped: {reason}")
    if options.hours is not None and found.startable and not begin:
        console.say(_within(found, options.hours))
    failed = _train(ready, found, options, console)
    return 1 if failed or refused or lacking or any(run.state.problem for run in planned) else 0


def fitting(plan: Plan, hours: float | None) -> list[PlannedRun]:
    """Return the runs that are finished within some hours if each process takes the next one when it is free."""
    if hours is None:
        return list(plan.startable)
    busy, found = [0.0] * plan.slots, []
    for run in plan.startable:
        end = busy[0] + plan.hours(run)
        if end <= hours:
            heapq.heapreplace(busy, end)
            found.append(run)
    return found


def _within(plan: Plan, hours: float) -> str:
    """Return one line on how many open runs are finished within some hours."""
    count, each = len(fitting(plan, hours)), [plan.hours(run) for run in plan.startable]
    why = f"; the shortest takes {min(each):,.2f} h" if each and not count else ""
    return f"{count} of {len(each)} open runs are finished within {hours:g} h{why}"


def _measure(plan: Plan, console: Console) -> None:
    """Measure every configuration that has something to train. Name those that cannot be trained. Runs of studies differ: they are not."""
    first = {run.of: run for run in reversed(plan.startable) if not run.of.is_study}
    _write_starts(list(first.values()), console)
    for of, run in first.items():
        if problem := plan.costs.measure(run.job):
            console.error(f"{_title(of)} cannot be measured: {problem}")


def _write_starts(begin: Sequence[PlannedRun], console: Console) -> None:
    """Write the start files that runs name and that are missing. A run whose file could not be written says so when it begins."""
    for planned, start in dict.fromkeys((run.of.planned, run.config.train.start) for run in begin):
        if not planned.before or start is None or start.exists():
            continue
        if subprocess.run([sys.executable, "-m", *planned.before], check=False).returncode:
            console.error(f"{start} was not written: {planned.lines[0]}")


def _list(plan: Plan, lacking: Mapping[Configuration, str], console: Console) -> None:
    """Print a line for each configuration and study, the studies whose data are missing, and the sum."""
    by_configuration: dict[Configuration, list[PlannedRun]] = {}
    for run in plan.runs:
        by_configuration.setdefault(run.of, []).append(run)
    if by_configuration:
        for row in (COLUMNS, *(_row(one, own, plan) for one, own in by_configuration.items())):
            console.say(LINE.format(*row))
    for one, reason in lacking.items():
        console.say(f"{_title(one)}: its runs cannot be counted: {reason}")
    if any(plan.cost(run).listed for run in plan.runs):
        console.say(f"hours of presets without ~ were measured on {machine_of_costs()}, unless they were measured here")
    for run in plan.runs:
        if run.state.problem:
            console.error(run.state.problem)
    console.say(rest_in_words(plan))


def _row(one: Configuration, own: Sequence[PlannedRun], plan: Plan) -> list[str]:
    """Return the cells of a configuration, or of a study, whose runs may have several lengths: its hours are means."""
    costs, done = [plan.cost(run) for run in own], sum(run.state.done for run in own)
    mark = "" if all(cost.measured for cost in costs) else "~"
    lengths = sorted({run.config.train.updates for run in own})
    updates = " to ".join(f"{length:,}" for length in dict.fromkeys((lengths[0], lengths[-1])))
    begun = [f"{run.state.updates:,}" for run in own if run.state.updates and not run.state.done]
    if begun and not one.is_study:
        updates = f"{' and '.join(begun)} of {updates}"
    each = statistics.mean(cost.hours(run.config.train.updates) for cost, run in zip(costs, own, strict=True))
    left = sum(plan.hours(run) for run in own)
    return [str(len(one.claims)), f"{done} of {len(own)}", updates, f"{mark}{each:,.2f}", f"{mark}{left:,.2f}", _title(one)]


def _title(one: Configuration) -> str:
    return f"study {one.command.removeprefix(MODULE)}" if one.is_study else f"{one.planned.experiment} {one.name}"


def rest_in_words(plan: Plan) -> str:
    """Return one line on what is left."""
    left = [run for run in plan.runs if not run.state.done]
    if not left:
        return f"all {len(plan.runs)} runs are done"
    each = [plan.hours(run) for run in left]
    estimated = any(not plan.cost(run).measured for run in left)
    about = " (~: estimated from counts of operations; --measure measures)" if estimated else ""
    wall = max([*each, sum(each) / plan.slots])
    return f"{len(left)} of {len(plan.runs)} runs are left: {sum(each):,.1f} hours, at least {wall:,.1f} with {plan.slots} at a time{about}"


def _ready(begin: Sequence[PlannedRun], engine: Engine, console: Console) -> tuple[list[PlannedRun], bool]:
    """Return the runs that can be trained here, and whether some cannot. Name those in a line for each program."""
    first = {run.config.compilation_key: run for run in reversed(begin)}
    units = [Unit((run.job.job,), run.job.names) for run in first.values()]
    reasons = dict(zip(first, engine.call(refusals, units), strict=True)) if units else {}
    for program, reason in reasons.items():
        if reason:
            count = Counter(run.config.compilation_key for run in begin)[program]
            console.error(f"{_title(first[program].of)} is skipped ({count} runs): {reason}")
    return [run for run in begin if not reasons[run.config.compilation_key]], any(reasons.values())


def refusals(units: Sequence[Unit]) -> list[str]:
    """Return for each unit why it cannot be trained, or an empty string."""
    return [check_programs([unit]) or "" for unit in units]


def _train(ready: Sequence[PlannedRun], plan: Plan, options: Options, console: Console) -> bool:
    """Train runs, collect them and conclude studies, also after a signal. Return whether some have failed, or were not kept."""
    console.say(
        f"{len(ready)} of {len(plan.startable)} open runs are trained in {options.workdir}" if ready else "there is nothing to train"
    )
    missed: list[Path] = []
    collect_run = _collector(options, [run.job.job.path for run in plan.runs if not run.of.is_study], missed, console)
    try:
        failed = train_all([run.job for run in ready], options, console, ended=collect_run).failed if ready else {}
        for path, reason in failed.items():
            console.error(f"{path.name} has failed: {reason}")
    finally:
        for run in plan.runs:  # those that ended in an earlier command, too
            collect_run(run.job.job.path)
        missed += _conclude(plan.studies, options, console)
        # A run whose archive is damaged keeps that problem, which is named already, and is not packed in place of the archive.
        now = [PlannedRun(run.of, run.job, run.state if run.state.done or run.state.problem else state_of(run.job)) for run in plan.runs]
        if options.unfinished is not None:
            missed += _keep([run for run in now if not run.of.is_study], options.unfinished, console)
        console.say(rest_in_words(Plan(plan.studies, now, plan.costs, plan.slots)))
    return bool(failed or missed)


def _conclude(studies: Sequence[Configuration], options: Options, console: Console) -> list[Path]:
    """Write the summaries of the finished runs of studies, and collect them. Return the directories of those that could not be."""
    missed = []
    for one in studies:
        folder = one.options(options.workdir).workdir
        try:
            one.conclude(options.workdir, console)
            if options.collect is not None and any(folder.glob("*.json")):
                collect(folder, options.collect, console, options.data.dir)
        except (UsageError, OSError) as error:
            console.error(f"the summary of {_title(one)} is not kept: {error}")
            missed.append(folder)
    return missed


def _restore(plan: Sequence[Configuration], options: Options, folder: Path, console: Console) -> dict[Path, str]:
    """Unpack the archives of runs that went further than the work directory. Return for each run that cannot be unpacked why not."""
    problems = {}
    for config, path in ((job.job.config, job.job.path) for one in plan if not one.is_study for job in one.jobs(options.workdir)):
        try:
            found = archives.restore(path, folder, config)
        except UsageError as error:
            problems[path] = str(error)
            continue
        if found is not None:
            aside = f"; what was there did not come as far, and is now {found.aside}" if found.aside else ""
            console.say(f"{path}: unpacked, at update {found.update:,}{aside}")
    return problems


def _keep(planned: Sequence[PlannedRun], folder: Path, console: Console) -> list[Path]:
    """Pack the runs that have begun and are not done; remove the archives of those that are. Return the runs that cannot be packed.

    An archive that went at least as far as the run directory stays.
    """
    missed = []
    for run in planned:
        path = run.job.job.path
        try:
            if run.state.done:
                archives.archive_of(path, folder).unlink(missing_ok=True)
            elif run.state.updates and not run.state.problem:
                console.say(f"{archives.keep(path, folder, console.warn)}: update {archives.newest(path, folder):,}")
        except (UsageError, OSError) as error:
            console.error(f"{path}: {error}" if isinstance(error, OSError) else str(error))
            missed.append(path)
    return missed


def _collector(options: Options, wanted: Collection[Path], missed: list[Path], console: Console) -> Callable[[Path], None]:
    """Return a function that collects a run once if it has ended. It names a run that cannot be collected, so that the others go on.

    Args:
      options: where runs are collected.
      wanted: the runs that are collected; those of a study are not.
      missed: is given the runs that cannot be collected.
      console: where they are named.
    """
    left = set(wanted)

    def collect_run(path: Path) -> None:
        if options.collect is not None and path in left and any((path / name).exists() for name in (RESULT, FAILURE)):
            left.remove(path)
            try:
                collect(path, options.collect, console, options.data.dir)
            except (UsageError, OSError) as error:
                console.error(f"{path} is not collected: {error}")
                missed.append(path)

    return collect_run
