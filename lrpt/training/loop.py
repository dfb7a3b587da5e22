"""The training loop: several seeds of one configuration, side by side where there are devices for them."""

import time
from collections.abc import Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

from lrpt.models import SequenceModel
from lrpt.training import parallel
from lrpt.training.config import RunConfig
from lrpt.training.console import Bar, Console
from lrpt.training.group import Group
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
    names = names or {"experiment": "custom", "preset": "custom"}
    runs = [Run(names, config, seed, path, console) for seed, path in directories.items()]
    with StopRequests() as stop:
        unfinished = [run for run in runs if not run.finished()]
        _train_all(unfinished, config, devices, console, stop)
    return [run.result for run in runs]


def _train_all(runs: list[Run], config: RunConfig[Any], devices: int | None, console: Console, stop: StopRequests) -> None:
    """Runs that stand at the same update train side by side, as many as there are devices; whoever is left goes on in a smaller group."""
    if not runs:
        return
    optimizer, task = config.optim.build(), runs[0].task
    model = SequenceModel(config.model, task.input_size, task.output_size, task.reads)
    for run in runs:
        run.prepare(model, optimizer)
    while runs:
        runs.sort(key=lambda run: run.update)
        _, level = next(groupby(runs, key=lambda run: run.update))
        level = list(level)
        layout = parallel.layout(len(level), config.train.batch_size, devices)
        _train_group(Group(level[: layout.models], model, optimizer, layout), console, stop)
        runs = [run for run in runs if not run.result]


def _train_group(group: Group, console: Console, stop: StopRequests) -> None:
    """Trains until at least one run of the group is finished, and writes the results of those that are."""
    title = ", ".join(run.label for run in group.runs)
    with console.bar(title, group.config.updates, group.update) as bar:
        while not any(run.stopped for run in group.runs):
            if group.update < group.config.updates:
                _train_call(group, bar)
            if group.at_evaluation():
                _evaluate(group, bar)
            if stop.received is not None:
                _stop(group, stop.received)
    for run, test in zip(group.runs, group.test(), strict=True):
        if run.stopped:
            run.finish(test)


def _train_call(group: Group, bar: Bar) -> None:
    start = time.monotonic()
    figures = group.train()
    seconds = time.monotonic() - start
    for run, own in zip(group.runs, figures, strict=True):
        run.trained(group.update, own, seconds)
    bar.advance(group.update, float(figures[0]["loss"][-1]))


def _evaluate(group: Group, bar: Bar) -> None:
    start = time.monotonic()
    figures = group.valid(group.state.params)
    seconds = time.monotonic() - start
    group.collect()
    for run, own in zip(group.runs, figures, strict=True):
        run.evaluated(own, seconds)
        bar.evaluated(group.update, run.label, own)


def _stop(group: Group, signal_number: int) -> None:
    """Writes checkpoints where the last evaluation has not just done so, and leaves."""
    if not group.at_evaluation():
        group.collect()
        for run in group.runs:
            run.save()
    raise Interrupted(signal_number, group.update)
