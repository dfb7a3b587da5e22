"""Training of jobs: several seeds, learning rates and initializations of one program, side by side if there are enough devices."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import is_dataclass
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

from lrpt.devices import compilation, hardware, parallel, processes
from lrpt.errors import WRONG_FLAG, RemoteFailure, UsageError, check_seed
from lrpt.networks.counting import count
from lrpt.networks.sequence_model import suits_kernel
from lrpt.runs.configuration import effective, flatten, to_json
from lrpt.runs.console import Console
from lrpt.runs.named_arrays import load_arrays
from lrpt.runs.signals import Interrupted, StopRequests
from lrpt.tasks.order import batch_indices
from lrpt.tasks.task import Task
from lrpt.training.config import RunConfig
from lrpt.training.observers import Observer
from lrpt.training.program import Program
from lrpt.training.run import Run
from lrpt.training.step import TrainState
from lrpt.training.trainer import Trainer


class SomeFailed(UsageError):
    """Failure of some of several runs. By directory, `errors` holds their errors, and `results` the results of the other runs."""

    def __init__(self, errors: Mapping[Path, Exception], results: Mapping[Path, dict[str, Any]]) -> None:
        super().__init__("; ".join(map(str, errors.values())), code=1)
        self.errors, self.results = errors, results


class Job(NamedTuple):
    """One run to be trained: its configuration, its seed, and its run directory."""

    config: RunConfig[Any]
    seed: int
    path: Path


def numbers_of(job: Job) -> tuple[int, str]:
    """Return what decides the numbers of a run: its seed, and the settings that have an effect. It is equal for repetitions."""
    return job.seed, repr(effective(job.config))


def fit(config: RunConfig[Any], directories: Mapping[int, str | Path], **options: Any) -> list[dict[str, Any]]:
    """Train a configuration for each seed; `directories` maps seeds to run directories. The options are those of `fit_all`.

    Raises:
      UsageError: `directories` is no mapping of seeds to paths; the model or the task is no frozen dataclass of plain values; the errors
        of `fit_all`.
    """
    _check_parts(config)
    if not isinstance(directories, Mapping):
        raise UsageError(f"directories is {directories!r}: give {{seed: directory}}, such as {{0: 'runs/mine'}}")
    if not directories:
        raise UsageError("directories is empty: give {seed: directory}, such as {0: 'runs/mine'}")
    for seed, path in directories.items():
        check_seed(seed, "a seed of directories")
        if not isinstance(path, str | PathLike):
            raise UsageError(f"directories[{seed!r}] is {path!r}: give the path of a run directory, such as 'runs/mine'")
    return fit_all([Job(config, int(seed), Path(path)) for seed, path in directories.items()], **options)


def _check_parts(config: RunConfig[Any]) -> None:
    """Raise a UsageError if the model or the task cannot be compared with others, or written to `config.json`."""
    for name, part in {"model": config.model, "data": config.data}.items():
        try:
            hash(part)
            is_plain = is_dataclass(part) and not isinstance(part, type)
            found = f"is {part!r}, and no dataclass"
        except TypeError as error:
            is_plain, found = False, f"is a {type(part).__name__} that cannot be hashed ({error})"
        if not is_plain:
            raise UsageError(f"{name} {found}: give a frozen dataclass whose fields are numbers, strings, paths or tuples of these")


def fit_all(
    jobs: Sequence[Job],
    *,
    names: Mapping[str, str] | None = None,
    devices: int | None = None,
    console: Console | None = None,
    observers: Sequence[Observer] = (),
) -> list[dict[str, Any]]:
    """Train every job, and resume runs whose directories exist.

    Jobs of one program train together: their configurations differ only in learning rate, initialization, or start file. The other jobs
    train one after another. All jobs are checked before the first one trains.

    Args:
      jobs: what to train.
      names: 'experiment' and 'preset', as `result.json` records them.
      devices: number of devices to use; by default all.
      console: where progress is shown; by default nowhere.
      observers: called on the primary process after each evaluation.

    Returns:
      The content of each run's `result.json`, in the order of the jobs.

    Raises:
      UsageError: an error that the user can correct, before or during training; a loss that is not finite.
      RemoteFailure: on the other processes, if the primary process raises an error.
      Interrupted: a process received SIGINT or SIGTERM; the checkpoints are written.
    """
    if console is None or not processes.is_primary():
        console = Console(quiet=True, notes=True)
    names = names or {"experiment": "custom", "preset": "custom"}
    _check_paths(jobs)
    processes.check_alike([(devices, job.seed, {**flatten(to_json(job.config)), "data.dir": None}) for job in jobs])
    waiting = [_RunGroup([Run(names, *job, console) for job in group], devices) for group in _by_program(jobs)]
    _tell_apart([run for together in waiting for run in together.runs])
    with console.busy("reading data"):
        for number, together in enumerate(waiting):
            together.check()
            if number:  # the data of all programs may not fit into memory together
                together.free_data()
    results, errors = _train_each(waiting, console, observers)
    if errors:
        first = next(iter(errors.values()))
        raise first if len(jobs) == 1 or isinstance(first, RemoteFailure) else SomeFailed(errors, results)
    return [results[job.path] for job in jobs]


def _train_each(
    waiting: list["_RunGroup"], console: Console, observers: Sequence[Observer]
) -> tuple[dict[Path, dict[str, Any]], dict[Path, UsageError | RemoteFailure]]:
    """Train groups of runs one after another. Return the results and the errors of runs by directory."""
    results: dict[Path, dict[str, Any]] = {}
    errors: dict[Path, UsageError | RemoteFailure] = {}
    while waiting:
        together = waiting.pop(0)  # so that its data are freed before other runs train
        try:
            together.train(console, observers)
        except Interrupted:  # it is raised in place of what has failed so far
            for error in (errors | together.errors).values():
                console.warn(str(error))
            raise
        errors |= together.errors
        results |= {run.path: run.result for run in together.runs if run.result}
        if waiting:
            compilation.free_programs()
    return results, errors


def _check_paths(jobs: Sequence[Job]) -> None:
    """Raise a UsageError if two jobs have one directory."""
    repeated = [path for path, count in Counter(job.path for job in jobs).items() if count > 1]
    if repeated:
        raise UsageError(f"two runs have the directory {repeated[0]}: give each run one of its own")


def _tell_apart(runs: Sequence[Run]) -> None:
    """Add the names of their directories to the labels of runs that have the same label, as with several learning rates."""
    counts = Counter(run.label for run in runs)
    for run in runs:
        run.mark = f" ({run.path.name})" if counts[run.label] > 1 else ""


def _by_program(jobs: Sequence[Job]) -> list[list[Job]]:
    """Return the jobs in groups that share a program, in the order of the first job of each group."""
    groups: dict[RunConfig[Any], list[Job]] = {}
    for job in jobs:
        groups.setdefault(job.config.compilation_key, []).append(job)
    return list(groups.values())


def most_together(jobs: Sequence[Job]) -> int:
    """Return the size of the largest group that trains together."""
    return max(map(len, _by_program(jobs)))


def is_finished(job: Job, names: Mapping[str, str]) -> bool:
    """Return whether the directory of a job holds the result of this job.

    Raises:
      UsageError: the directory holds another run, or files that are damaged.
    """
    return Run(names, *job, Console(quiet=True)).finished()


def check(jobs: Sequence[Job], names: Mapping[str, str], devices: int | None) -> None:
    """Raise the UsageError that training these jobs of one program would raise. Write nothing."""
    _RunGroup([Run(names, *job, Console(quiet=True)) for job in jobs], devices).check()


class _RunGroup:
    """Runs of one program."""

    def __init__(self, runs: Sequence[Run], devices: int | None) -> None:
        self.runs, self.devices = list(runs), devices
        self.unfinished = self.runs

    def check(self) -> None:
        """Leave out finished runs, and check that the others can be trained.

        Raises:
          UsageError: a run cannot be trained.
        """
        try:
            self.unfinished = [run for run in self.runs if not run.finished()]
        except UsageError as error:
            if error.code == WRONG_FLAG:
                self._check_values(self.runs[0])  # else a wrong value is called a difference from the run that the directory holds
            raise
        if self.unfinished:
            task = self.unfinished[0].task  # built by all processes, before the primary one checks
            processes.on_primary(self._check, self.unfinished[0], task)

    def free_data(self) -> None:
        """Free the data that the check has read. Training reads them again."""
        for run in self.unfinished:
            run.free_data()

    def _check_values(self, run: Run) -> None:
        """Raise the error of values that no directory would make right. Only the primary process gets here."""
        start = run.config.train.start
        if start is not None and not start.exists() and run.directory.start_digest() is None:
            load_arrays(start)  # raises the error of a file that is missing
        self._check(run, run.config.build_task(run.seed))

    def _check(self, run: Run, task: Task) -> None:
        config = run.config
        if config.model.needs_gpu:
            hardware.check_gpu()
        if task.streams != (config.train.order == "stream"):
            how = "windows of a stream are" if task.streams else "only a stream is"
            raise UsageError(f"train.order is {config.train.order}: {how} read in order stream")
        if config.train.fresh_every is not None and not task.streams:
            raise UsageError(f"train.fresh_every is {config.train.fresh_every}, and only order stream carries states: leave it out")
        if config.train.order == "lengths" and task.splits["train"].lengths is None:
            raise UsageError(
                "train.order is lengths, and this task does not say how long its examples are, as sentences, music and files of sequences "
                "do: choose epochs"
            )
        count(config.model, task.input_size, task.output_size)
        batch_indices(config.train.order, task.splits["train"].size, config.train.batch_size, run.seed, 0, 1)
        self._layout()

    def _layout(self) -> parallel.Layout:
        return parallel.layout(len(self.runs), self.unfinished[0].config.train.batch_size, self.devices)

    @property
    def errors(self) -> dict[Path, UsageError | RemoteFailure]:
        """Return the errors of the runs that have failed, by directory."""
        return {run.path: run.error for run in self.unfinished if run.error is not None}

    def train(self, console: Console, observers: Sequence[Observer]) -> None:
        """Train to the end. Runs that fail have `errors`; the other runs go on without them."""
        if not self.unfinished:
            return
        with ExitStack() as stack:
            for run in self.unfinished:
                stack.enter_context(closing(run))
            _train_all(self.unfinished, self._layout(), console, observers)


def _train_all(runs: list[Run], layout: parallel.Layout, console: Console, observers: Sequence[Observer]) -> None:
    """Train runs at the same update side by side, as many as there are devices. Runs with the fewest updates train first."""
    states: dict[Run, TrainState] = {}
    for run in runs:
        with run.failing_alone():
            states[run] = run.start()
    if states and suits_kernel(runs[0].config.model) and not runs[0].config.model.needs_gpu and hardware.on_hopper():
        console.say("on this GPU, --model.recurrence kernel trains this network several times as fast, with products rounded to TF32")
    program = Program(runs[0].config, runs[0].task, layout)
    with StopRequests() as stop:
        while states:
            updates = sorted({int(state.update) for state in states.values()})
            level = [run for run, state in states.items() if int(state.update) == updates[0]]
            trainer = Trainer(program, {run: states[run] for run in level[: layout.models]}, observers)
            states |= trainer.train(updates[1] if len(updates) > 1 else math.inf, console, stop)
            states = {run: state for run, state in states.items() if not run.result and run.error is None}
