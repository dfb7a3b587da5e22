"""The training loop: several seeds of one configuration, side by side where there are devices for them."""

import math
import time
from collections.abc import Mapping
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from lrpt.counting import count
from lrpt.data.order import batch_indices
from lrpt.models import SequenceModel
from lrpt.training import parallel
from lrpt.training.config import RunConfig
from lrpt.training.console import Bar, Console
from lrpt.training.group import Group, Program
from lrpt.training.interrupts import Interrupted, StopRequests
from lrpt.training.run import Run


def fit(
    config: RunConfig[Any],
    directories: Mapping[int, Path],
    *,
    names: Mapping[str, str] | None = None,
    devices: int | None = None,
    console: Console | None = None,
) -> list[dict[str, Any]]:
    """Trains a configuration for each seed, and resumes whatever stands in the directories.

    Args:
      config: model, optimizer, training, task.
      directories: seed -> run directory.
      names: 'experiment' and 'preset', for the record.
      devices: how many to use; by default all there are.
      console: where progress is told; by default nowhere.

    Returns:
      The content of each run's `result.json`, in the order of `directories`.

    Raises:
      UsageError: anything the user can put right, before or during training; a loss that is not finite.
      Interrupted: SIGINT or SIGTERM came; the checkpoints are written.
    """
    console = console or Console(quiet=True)
    check(config, directories, names=names, devices=devices)
    with ExitStack() as stack:
        runs = [stack.enter_context(closing(run)) for run in _runs(config, directories, names, console)]
        unfinished = [run for run in runs if not run.finished()]
        if unfinished:
            _train_all(unfinished, parallel.layout(len(runs), config.train.batch_size, devices), console)
        return [run.result for run in runs]


def check(
    config: RunConfig[Any], directories: Mapping[int, Path], *, names: Mapping[str, str] | None = None, devices: int | None = None
) -> None:
    """What `fit` would find wrong before it trains; nothing is written. Arguments as there.

    Raises:
      UsageError: a directory holds another run; data are missing; model, batches or devices do not fit.
    """
    runs = _runs(config, directories, names, Console(quiet=True))
    if not [run for run in runs if not run.finished()]:
        return
    task, train = runs[0].task, config.train
    count(config.model, task.input_size, task.output_size)
    batch_indices(train.order, task.splits["train"].size, train.batch_size, runs[0].seed, 0, 1)
    parallel.layout(len(runs), train.batch_size, devices)


def _runs(config: RunConfig[Any], directories: Mapping[int, Path], names: Mapping[str, str] | None, console: Console) -> list[Run]:
    names = names or {"experiment": "custom", "preset": "custom"}
    return [Run(names, config, seed, path, console) for seed, path in directories.items()]


def _train_all(runs: list[Run], layout: parallel.Layout, console: Console) -> None:
    """Runs that stand at the same update train side by side, as many as there are devices; whoever is behind catches up first."""
    config, task = runs[0].config, runs[0].task
    optimizer = config.optim.build()
    model = SequenceModel(config.model, task.input_size, task.output_size, task.reads)
    for run in runs:
        run.prepare(model, optimizer)
    program = Program(model, task, optimizer, config.train, layout)
    with StopRequests() as stop:
        while runs:
            runs.sort(key=lambda run: run.update)
            level = [run for run in runs if run.update == runs[0].update]
            ahead = [run.update for run in runs[len(level) :]]
            _train_group(Group(level[: layout.models], program), console, stop, min(ahead, default=math.inf))
            runs = [run for run in runs if not run.result]


def _train_group(group: Group, console: Console, stop: StopRequests, until: float) -> None:
    """Trains until a run of the group is finished, and writes the results of those that are; or up to the update `until`."""
    title = ", ".join(run.label for run in group.runs)
    with console.bar(title, group.config.updates, group.update) as bar:
        while not any(run.stopped for run in group.runs) and group.update < until:
            _heed(stop, group)
            if group.update < group.config.updates:
                _train_call(group, bar)
            if group.at_evaluation():
                _evaluate(group, bar)
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
        run.trained(group.update, own, seconds)
    bar.advance(group.update, float(figures[0]["loss"][-1]))


def _evaluate(group: Group, bar: Bar) -> None:
    start = time.monotonic()
    figures = group.validate()
    seconds = time.monotonic() - start
    group.collect()
    for run, own in zip(group.runs, figures, strict=True):
        run.evaluated(own, seconds)
        bar.evaluated(group.update, run.label, own)


def _heed(stop: StopRequests, group: Group) -> None:
    """If a signal came: writes checkpoints where there are none of this update, and leaves."""
    if stop.received is None:
        return
    group.collect()
    for run in group.runs:
        if run.saved != run.update:
            run.save()
    raise Interrupted(stop.received, group.update)
