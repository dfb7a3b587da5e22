"""The training loop: several seeds, learning rates and starts of one program, side by side where there are devices for them."""

import math
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from lrpt.devices import parallel, processes
from lrpt.errors import Elsewhere, UsageError
from lrpt.networks.counting import count
from lrpt.runs import pulse
from lrpt.runs.configuration import flatten, to_json
from lrpt.runs.console import Bar, Console
from lrpt.runs.signals import Interrupted, StopRequests
from lrpt.tasks.order import batch_indices
from lrpt.training.config import RunConfig
from lrpt.training.group import Group, Program
from lrpt.training.run import Run


class SomeFailed(UsageError):
    """Of several runs some could not go on; `results` are those of the others, by directory."""

    def __init__(self, errors: Sequence[Exception], results: Mapping[Path, dict[str, Any]]) -> None:
        super().__init__("; ".join(map(str, errors)), code=1)
        self.results = results


class Job(NamedTuple):
    """One run to be trained: its configuration, its seed, and its run directory."""

    config: RunConfig[Any]
    seed: int
    path: Path


def fit(config: RunConfig[Any], directories: Mapping[int, Path], **options: Any) -> list[dict[str, Any]]:
    """Trains a configuration for each seed; `directories` maps seeds to run directories. As `fit_all`, which takes the same options."""
    return fit_all([Job(config, seed, path) for seed, path in directories.items()], **options)


def fit_all(
    jobs: Sequence[Job], *, names: Mapping[str, str] | None = None, devices: int | None = None, console: Console | None = None
) -> list[dict[str, Any]]:
    """Trains every job, and resumes whatever stands in the directories.

    Jobs that one program serves train together: their configurations differ in nothing but learning rate, start of the biases, or start
    file. The others follow one another.

    Args:
      jobs: what to train.
      names: 'experiment' and 'preset', for the record.
      devices: how many to use; by default all there are.
      console: where progress is told; by default nowhere.

    Returns:
      The content of each run's `result.json`, in the order of the jobs.

    Raises:
      UsageError: anything the user can put right, before or during training; a loss that is not finite.
      Elsewhere: of several processes the first has raised something.
      Interrupted: SIGINT or SIGTERM came, to whichever process; the checkpoints are written.
    """
    if console is None or not processes.is_first():
        console = Console(quiet=True)
    names = names or {"experiment": "custom", "preset": "custom"}
    processes.check_alike([(devices, job.seed, {**flatten(to_json(job.config)), "data.dir": None}) for job in jobs])
    for together in _by_program(jobs):
        processes.by_first(partial(check, together, names, devices))
    results: dict[Path, dict[str, Any]] = {}
    errors: list[UsageError | Elsewhere] = []
    for together in _by_program(jobs):
        with ExitStack() as stack:
            runs = [stack.enter_context(closing(Run(names, *job, console))) for job in together]
            unfinished = [run for run in runs if not run.finished()]
            if unfinished:
                errors += _train_all(unfinished, parallel.layout(len(runs), runs[0].config.train.batch_size, devices), console)
            results |= {job.path: run.result for job, run in zip(together, runs, strict=True) if run.result}
    if errors:
        raise errors[0] if len(jobs) == 1 or isinstance(errors[0], Elsewhere) else SomeFailed(errors, results)
    return [results[job.path] for job in jobs]


def _by_program(jobs: Sequence[Job]) -> list[list[Job]]:
    """The jobs in groups that share a program, in order of their first."""
    groups: dict[RunConfig[Any], list[Job]] = {}
    for job in jobs:
        groups.setdefault(job.config.program, []).append(job)
    return list(groups.values())


def most_together(jobs: Sequence[Job]) -> int:
    """The size of the largest group that trains together."""
    return max(map(len, _by_program(jobs)))


def is_finished(job: Job, names: Mapping[str, str]) -> bool:
    """Whether the directory of a job holds the result that it asks for.

    Raises:
      UsageError: the directory holds another run, or files that are damaged.
    """
    return Run(names, *job, Console(quiet=True), reading=True).finished()


def check(jobs: Sequence[Job], names: Mapping[str, str], devices: int | None) -> None:
    """Raises the UsageError that would come once these jobs of one program are trained; nothing is written."""
    runs = [Run(names, *job, Console(quiet=True), reading=True) for job in jobs]
    if not [run for run in runs if not run.finished()]:
        return
    task, config = runs[0].task, runs[0].config
    if config.model.needs_gpu:
        parallel.check_gpu()
    if task.streams != (config.train.order == "stream"):
        raise UsageError(
            f"train.order is {config.train.order}: {'windows of a stream are' if task.streams else 'only a stream is'} read in order stream"
        )
    count(config.model, task.input_size, task.output_size)
    batch_indices(config.train.order, task.splits["train"].size, config.train.batch_size, runs[0].seed, 0, 1)
    parallel.layout(len(runs), config.train.batch_size, devices)


def _train_all(runs: list[Run], layout: parallel.Layout, console: Console) -> list[UsageError | Elsewhere]:
    """Runs that stand at the same update train side by side, as many as there are devices; whoever is behind catches up first.

    Returns:
      What kept runs from going on, which the others then do without them.
    """
    for run in runs:
        run.prepare()
    errors: list[UsageError | Elsewhere] = []
    program = Program(runs[0].config, runs[0].task, layout)
    with StopRequests() as stop:
        while runs:
            runs.sort(key=lambda run: run.update)
            level = [run for run in runs if run.update == runs[0].update]
            ahead = [run.update for run in runs[len(level) :]]
            _train_group(Group(level[: layout.models], program), console, stop, min(ahead, default=math.inf))
            errors += [run.error for run in runs if run.error is not None]
            runs = [run for run in runs if not run.result and run.error is None]
    return errors


def _train_group(group: Group, console: Console, stop: StopRequests, until: float) -> None:
    """Trains until a run of the group is finished, or cannot go on, or up to the update `until`. Writes the results of those finished."""
    title = ", ".join(run.label for run in group.runs)
    with console.bar(title, group.config.updates, group.update) as bar:
        while not any(run.stopped or run.error for run in group.runs) and group.update < until:
            _heed(stop, group)
            if group.update < group.config.updates:
                _train_call(group, bar)
            if group.at_evaluation():
                _evaluate(group, bar)
    if any(run.error for run in group.runs):
        group.collect()
        return
    _heed(stop, group)
    group.collect()
    if any(run.stopped for run in group.runs):
        for run, test in zip(group.runs, group.test(), strict=True):
            if run.stopped:
                run.finish(test)
    _heed(stop, group)


def _train_call(group: Group, bar: Bar) -> None:
    start = time.monotonic()
    figures = group.train()
    seconds = time.monotonic() - start
    for run, own in zip(group.runs, figures, strict=True):
        with run.failing_alone():
            run.trained(group.update, own, seconds)
    pulse.beat()
    bar.advance(group.update, float(figures[0]["loss"][-1]))


def _evaluate(group: Group, bar: Bar) -> None:
    start = time.monotonic()
    figures = group.validate()
    seconds = time.monotonic() - start
    pulse.beat()
    group.collect()
    changed = False
    for run, own in zip(group.runs, figures, strict=True):
        with run.failing_alone():
            if run.error is None:
                changed |= run.evaluated(own, seconds)
                bar.evaluated(group.update, run.label, own)
    if changed:
        group.place()


def _heed(stop: StopRequests, group: Group) -> None:
    """If a signal came, to whichever process, or the last checkpoint is long ago: writes checkpoints where there are none of this update.

    After a signal it leaves.
    """
    due = any(run.is_due for run in group.runs)
    number, due = divmod(processes.highest(2 * (stop.received or 0) + due), 2)
    if not (number or due):
        return
    group.collect()
    for run in group.runs:
        if run.saved != run.update:
            run.save()
    if number:
        raise Interrupted(number, group.update)
