"""Training of many runs on an engine: each once, again if a process or a node was lost; other runs go on if one fails."""

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path

from lrpt.engines.engine import Engine, EngineOptions, Handle
from lrpt.engines.jobs import NamedJob, Unit, distinct, even_stack, units
from lrpt.engines.local import LocalEngine
from lrpt.engines.progress import Board
from lrpt.engines.worker import Outcome, check_programs
from lrpt.errors import UsageError
from lrpt.runs.checkpoint import updates_in
from lrpt.runs.console import Console
from lrpt.runs.layout import ENVIRONMENT
from lrpt.runs.run_directory import RunDirectory, check_place
from lrpt.runs.signals import Interrupted, StopRequests
from lrpt.training.loop import Job, is_finished

TICK = 0.5
"""seconds between two updates of the table, and between two checks for signals"""

LOOKED_AT = 100
"""queued units that are checked at once for whether they have begun; the first ones begin first"""

BUSY = 3.0
"""seconds until a run that another command trains is checked again"""


class Stopped(Interrupted):
    """Stop of all runs by a signal."""

    def __init__(self, signal_number: int, done: int, of: int) -> None:
        super().__init__(signal_number, 0)
        self.args = (f"stopped with {done} of {of} runs finished; the same command goes on with the others from their checkpoints",)


@dataclass
class Report:
    """Outcomes of all runs.

    Attributes:
      finished: runs with a result, without duplicates.
      failed: reasons of the failed runs, by run directory.
    """

    finished: list[NamedJob] = field(default_factory=list)
    failed: dict[Path, str] = field(default_factory=dict)


def train_all(
    jobs: Sequence[NamedJob],
    options: EngineOptions,
    console: Console,
    devices: int | None = None,
    ended: Callable[[Path], None] = lambda path: None,
) -> Report:
    """Train every distinct run that is not finished yet.

    Args:
      jobs: the runs; equal ones are trained in the directory of the first.
      options: the engine, its resources, and how often a run whose process died is tried.
      console: where progress is shown.
      devices: number of devices that each process uses; by default one, or all devices of a host if several hosts share a run.
      ended: called with the directory of every run as soon as it has finished or failed.

    Raises:
      UsageError: a run does not fit its directory, or a configuration does not fit together; nothing was trained.
      Stopped: SIGINT, SIGTERM or SIGHUP came; every run is resumable.
    """
    wanted = distinct(jobs)
    if len(wanted) < len(jobs):
        console.say(f"{len(jobs)} runs, of which {len(jobs) - len(wanted)} are equal to others: {len(wanted)} are trained")
    unfinished = [one for one in wanted if not is_finished(one.job, one.names)]
    failed: dict[Path, str] = {}
    if unfinished:
        engine = open_engine(options)
        try:
            failed = _Scheduler(engine, unfinished, options, devices, console, ended).run()
        finally:
            engine.close()
    return Report([one for one in wanted if one.job.path not in failed], failed)


def open_engine(options: EngineOptions) -> Engine:
    """Start the engine that was chosen.

    Raises:
      UsageError: Ray is not installed, or no cluster answers.
    """
    if options.engine == "local":
        return LocalEngine(options.processes)
    try:
        from lrpt.engines.cluster import RayEngine
    except ImportError as error:
        if (error.name or "").partition(".")[0] != "ray":
            raise
        advice = "pip install -e '.[cluster]' in a clone, or choose --engine local"
        raise UsageError(f"engine is ray, which is not installed: {advice}", code=1) from None
    return RayEngine(options)


class _Scheduler:
    """The runs of one command on their way through an engine."""

    def __init__(
        self,
        engine: Engine,
        jobs: Sequence[NamedJob],
        options: EngineOptions,
        devices: int | None,
        console: Console,
        ended: Callable[[Path], None],
    ) -> None:
        self.engine, self.options, self.ended = engine, options, ended
        self.board = Board(jobs, console)
        stack = options.stack or (even_stack(jobs, engine.accelerators) if engine.accelerators and options.hosts == 1 else 1)
        each = devices or (None if options.hosts > 1 else 1)
        self.units = units(jobs, stack, each)
        self.waiting = deque(self.units)
        self.running: dict[Handle, Unit] = {}
        self.queued: dict[Unit, tuple[int, ...]] = {}
        self.busy: list[tuple[float, Unit]] = []
        self.losses: dict[Unit, int] = {}
        self.progress: dict[Unit, int] = {}
        self.failed: dict[Path, str] = {}

    def run(self) -> dict[Path, str]:
        """Train to the end. Return the reasons of the runs that failed, by run directory."""
        self._check()
        with StopRequests() as stop, self.board:
            while self.waiting or self.running or self.busy:
                if stop.received:
                    self._stop(stop.received)
                self._start()
                for handle, outcomes in self.engine.wait(list(self.running), TICK):
                    self._ended(self.running.pop(handle), outcomes)
                self._look_again()
                self._look_at_queue()
                self.board.refresh()
        return self.failed

    def _check(self) -> None:
        """Check the places of all runs, and the first unit of each program, before any is trained.

        Raises:
          UsageError: a unit would fail.
        """
        for root in dict.fromkeys(path.parent for unit in self.units for path in unit.paths):
            check_place(root)
        if self.options.hosts > 1:
            return  # the shape of the devices is known only once the processes have joined
        programs = {unit.jobs[0].config.compilation_key: unit for unit in reversed(self.units)}
        if error := self.engine.call(check_programs, list(programs.values())):
            raise UsageError(error)

    def _start(self) -> None:
        while self.waiting and len(self.running) < self.engine.slots:
            unit = self.waiting.popleft()
            opened = _last_opened(unit)
            self.running[self.engine.submit(unit)] = unit
            if self.engine.queues:
                self.queued[unit] = opened
            self._set(unit, "queued" if self.engine.queues else "training")

    def _look_at_queue(self) -> None:
        """Find which queued units have begun. Their processes open their run directories, which works on every node and engine."""
        for unit, before in list(islice(self.queued.items(), LOOKED_AT)):
            if _last_opened(unit) != before:
                del self.queued[unit]
                self._set(unit, "training")

    def _set(self, unit: Unit, state: str, reason: str = "") -> None:
        for path in unit.paths:
            if self.board.states[path] not in ("finished", "failed"):
                self.board.set(path, state, reason)

    def _ended(self, unit: Unit, outcomes: Sequence[Outcome]) -> None:
        """Record the outcome of each run of a unit. Runs that are to be tried again go to the end of the queue, as a unit of their own."""
        self.queued.pop(unit, None)
        self._settle_all(unit, outcomes)
        for how, again in (("busy", self._busy), ("stopped", self._lost), ("lost", self._lost)):
            left = [(job, one) for job, one in zip(unit.jobs, outcomes, strict=True) if one.how == how]
            if left:
                jobs = tuple(job for job, _ in left)
                again(unit if jobs == unit.jobs else replace(unit, jobs=jobs), left[0][1])

    def _busy(self, unit: Unit, outcome: Outcome) -> None:
        """Train a unit later, which another command is training."""
        self._set(unit, "busy", outcome.reason)
        self.busy.append((time.monotonic() + BUSY, unit))

    def _settle_all(self, unit: Unit, outcomes: Sequence[Outcome]) -> None:
        for path, outcome in zip(unit.paths, outcomes, strict=True):
            if outcome.how in ("finished", "failed"):
                self._settle(path, outcome)

    def _settle(self, path: Path, outcome: Outcome) -> None:
        """Record that a run has finished or failed, and tell the caller."""
        if outcome.how == "failed":
            self.failed[path] = outcome.reason
        self.board.set(path, outcome.how, outcome.reason)
        self.ended(path)

    def _lost(self, unit: Unit, outcome: Outcome) -> None:
        """Train a unit again, unless its process died, or was stopped alone, too often in a row without a new checkpoint.

        Given up, a stacked run whose result was written before the process died has finished all the same.
        """
        stands = sum(newest_checkpoint(path) for path in unit.paths)
        if not outcome.node:
            before = self.losses.get(unit, 0) if self.progress.get(unit) == stands else 0
            self.losses[unit], self.progress[unit] = before + 1, stands
        if self.losses.get(unit, 0) < self.options.tries:
            self._set(unit, outcome.how, outcome.reason)
            self.waiting.append(unit)
            return
        reason = f"{outcome.reason}, {self.options.tries} times in a row without a new checkpoint"
        for job in unit.jobs:
            self._settle(job.path, Outcome("finished") if _has_result(job, unit.names) else Outcome("failed", reason))

    def _look_again(self) -> None:
        """Queue units again when another command has left one of their runs. If it has finished them, training ends at once."""
        for until, unit in self.busy[:]:
            if until <= time.monotonic():
                self.busy.remove((until, unit))
                if all(RunDirectory(path).is_in_use() for path in unit.paths):  # a process would find that out in seconds, after imports
                    self.busy.append((time.monotonic() + BUSY, unit))
                else:
                    self.waiting.append(unit)

    def _stop(self, number: int) -> None:
        """Have checkpoints written, and leave. A process that the signal ends before it can write one is lost, which is no failure.

        Raises:
          Stopped: always.
        """
        self.engine.stop()
        until = time.monotonic() + 60
        while self.running and time.monotonic() < until:
            for handle, outcomes in self.engine.wait(list(self.running), TICK):
                self._settle_all(self.running.pop(handle), outcomes)
        done = sum(state == "finished" for state in self.board.states.values())
        raise Stopped(number, done, len(self.board.jobs))


def _has_result(job: Job, names: Mapping[str, str]) -> bool:
    try:
        return is_finished(job, names)
    except UsageError:  # files that the process damaged as it died
        return False


def _last_opened(unit: Unit) -> tuple[int, ...]:
    """Return when a process last opened each run directory of a unit, as its file system dates it; 0 for one that none did.

    A process does not open the directory of a run that is finished, so the first one does not tell for all.
    """
    return tuple(map(_opened, unit.paths))


def _opened(path: Path) -> int:
    try:
        return (path / ENVIRONMENT).stat().st_mtime_ns
    except OSError:
        return 0


def newest_checkpoint(path: Path) -> int:
    """Return the update of the newest checkpoint of a run directory; 0 if there is none."""
    return next(iter(updates_in(RunDirectory(path).checkpoints)), 0)
