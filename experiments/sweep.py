"""Trains presets x seeds as runs of their own, which any number of workers share: start this command on as many machines as there are.

    python -m experiments.sweep copy_memory --presets paper-variable-length paper-variable-lag --seeds 5 --workdir DIR
    python -m experiments.sweep adding --seeds 3 --workdir DIR -- --train.updates 1000 --vary model.rank=8,24
    python -m experiments.supervise -- python -m experiments.sweep ...            the same, through failures

All workers see DIR and are given the same command. Each takes runs that nobody trains, one after the other, in DIR/<preset>-seed<k>, and
goes on where another one was lost: its claims in DIR/claims no longer beat. What is finished is left alone; a run that fails, or is lost
several times in a row without a new checkpoint, is named and left out. `experiments.report --collect DIR` reads whatever there is.

Exit status: 0 all runs are finished, 1 some have failed, 2 a flag is wrong, 128 + n on signal n.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import experiments
from lrpt.cli.command import leaving_with_a_line, planned
from lrpt.cli.experiment import Experiment
from lrpt.cli.flags import combinations, parse_dataclass
from lrpt.cli.summary import summarize
from lrpt.devices import parallel
from lrpt.errors import UsageError, check_at_least, check_distinct
from lrpt.runs.claims import Claim, Claims
from lrpt.runs.console import Console
from lrpt.runs.run_directory import InUse, RunDirectory
from lrpt.runs.signals import Interrupted
from lrpt.training.loop import Job, check, fit_all, is_finished

PROGRAM = "python -m experiments.sweep"
BEATS = 4
"""in the time after which a claim counts as stale"""


@dataclass(frozen=True)
class Options:
    """What a command line says between the experiment and '--'; what follows is given to the experiment."""

    presets: tuple[str, ...] = ("quick",)
    """configurations to train"""
    seed: int = 0
    """the first one"""
    seeds: int = 1
    """how many of each configuration"""
    workdir: Path | None = None
    """where run directories go, the same for all workers (None: runs/<experiment>)"""
    stale: float = 120.0
    """seconds without a beat after which the run of another worker is taken over"""
    tries: int = 3
    """how many workers in a row may be lost with a run before it counts as failed"""
    again: bool = False
    """try runs that have failed once more"""

    def __post_init__(self) -> None:
        check_distinct("presets", self.presets)
        check_at_least(1, self, "seeds", "tries", "stale")


class Task(NamedTuple):
    """One run of the sweep."""

    job: Job
    names: Mapping[str, str]

    @property
    def name(self) -> str:
        return self.job.path.name

    @property
    def finished(self) -> bool:
        """Whether its directory holds what the sweep asks for.

        Raises:
          UsageError: it holds another run, or files that are damaged.
        """
        return (self.job.path / "result.json").exists() and is_finished(self.job, self.names)

    @property
    def progress(self) -> int:
        """The newest checkpoint."""
        names = (path.name for path in RunDirectory(self.job.path).checkpoints.glob("*"))
        return max((int(name) for name in names if name.isdigit()), default=0)


class Worker:
    """Takes one run after the other until all are finished or have failed.

    Args:
      tasks: all of them, whoever trains them.
      claims: this worker's.
      options: how patient to be.
      devices: as the experiment's flag.
      console: is told of every run.
    """

    def __init__(self, tasks: Sequence[Task], claims: Claims, options: Options, devices: int | None, console: Console) -> None:
        self.tasks, self.claims, self.options = tasks, claims, options
        self.devices, self.console = devices, console

    def run(self) -> dict[str, str]:
        """Works to the end; returns the reasons of those that failed, by name."""
        while open_tasks := [task for task in self.tasks if not task.finished and self.claims.failure(task.name) is None]:
            if not sum(map(self._try, open_tasks)):
                time.sleep(min(self.options.stale / BEATS, 5))  # all are in other hands: wait whether these live
        reasons = {task.name: self.claims.failure(task.name) for task in self.tasks if not task.finished}
        return {name: reason for name, reason in reasons.items() if reason is not None}

    def _try(self, task: Task) -> bool:
        """Trains a run if it is free. Returns whether anything is now other than before."""
        if task.finished or (claim := self.claims.take(task.name, task.progress)) is None:
            return False
        if claim.tries > self.options.tries:
            self._fail(claim, f"{claim.tries - 1} workers in a row were lost with it, and none wrote a checkpoint")
            return True
        try:
            with beating(self.claims, claim, self.options.stale / BEATS):
                fit_all([task.job], names=task.names, devices=self.devices, console=self.console)
        except InUse as error:
            self.console.warn(str(error))
            self.claims.release(claim)
            return False
        except UsageError as error:
            self._fail(claim, str(error))
            return True
        except (Interrupted, KeyboardInterrupt, OSError):
            if not self.claims.beat(claim):
                return False  # it was taken over while this worker slept
            self.claims.release(claim)
            raise
        self.claims.release(claim)
        return True

    def _fail(self, claim: Claim, reason: str) -> None:
        self.console.warn(f"{claim.name} has failed: {reason}")
        self.claims.fail(claim, reason)


@contextmanager
def beating(claims: Claims, claim: Claim, every: float) -> Iterator[None]:
    """Beats while a run is trained; where it was lost to another worker, asks for an end as SIGTERM does."""
    over = threading.Event()

    def beat() -> None:
        while not over.wait(every):
            try:
                alive = claims.beat(claim)
            except OSError:  # a full disk: training finds out for itself
                continue
            if not alive:
                os.kill(os.getpid(), signal.SIGTERM)
                return

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def tasks_of(experiment: Experiment[Any], options: Options, flags: Sequence[str]) -> tuple[list[Task], int | None]:
    """Every run of the sweep, the seeds of a configuration far apart so that each is early covered by one; and --devices."""
    tasks, devices = [], None
    taken = [word for word in flags if word.partition("=")[0] in ("--preset", "--seed", "--seeds", "--workdir")]
    if taken:
        raise UsageError(f"{taken[0]} stands behind --, and decides which runs there are: give it before --")
    for preset in options.presets:
        own = ["--preset", preset, "--seed", str(options.seed), "--seeds", str(options.seeds), "--workdir", str(root(experiment, options))]
        commands = combinations(experiment, [*flags, *own])
        first = next(iter(commands.values()))
        if first.distributed.wanted:
            raise UsageError("a run of a sweep is trained by one process: leave --distributed out, and start a worker for each")
        devices = first.devices
        names = {"experiment": experiment.name, "preset": preset}
        tasks += [Task(job, names) for job in planned(experiment, commands, several=True)]
    return sorted(tasks, key=lambda task: task.job.seed), devices


def root(experiment: Experiment[Any], options: Options) -> Path:
    """Where the run directories are."""
    return options.workdir or Path("runs") / experiment.name


def sweep(experiment: Experiment[Any], options: Options, flags: Sequence[str], console: Console) -> int:
    """Works as one worker, and summarizes what is finished then. Returns the exit status."""
    tasks, devices = tasks_of(experiment, options, flags)
    claims = Claims(root(experiment, options) / "claims", options.stale)
    if options.again:
        claims.forget_failures()
    parallel.request_devices(devices, 1, tasks[0].job.config.train.batch_size)
    _check(tasks, devices)
    failed = Worker(tasks, claims, options, devices, console).run()
    finished = [task for task in tasks if task.finished]
    if finished:
        results = [result for task in finished if (result := RunDirectory(task.job.path).result())]
        title = f"{experiment.name}, {len(finished)} of {len(tasks)} runs"
        summarize(root(experiment, options), experiment.score, results, [task.job.path for task in finished], title, console)
    for name, reason in failed.items():
        console.error(f"{name} has failed: {reason}; --again tries it once more")
    return 1 if failed else 0


def _check(tasks: Sequence[Task], devices: int | None) -> None:
    """Raises the UsageError that would come once a worker takes a run, before any is claimed."""
    for task in tasks:
        is_finished(task.job, task.names)
    for task in {task.job.config: task for task in tasks}.values():
        check([task.job], task.names, devices)


def experiment_named(name: str) -> Experiment[Any]:
    """The experiment of a module.

    Raises:
      UsageError: there is none.
    """
    held = getattr(experiments.module(name), "EXPERIMENT", None) if name in experiments.names() else None
    if held is None:
        raise UsageError(f"'{name}' is no experiment: `python -m experiments` lists them")
    return held


def main(arguments: Sequence[str] | None = None) -> None:
    """Reads the command line and works."""
    words, console = list(sys.argv[1:] if arguments is None else arguments), Console()
    at = words.index("--") if "--" in words else len(words)
    with leaving_with_a_line(console):
        named = [] if not words or words[0].startswith("-") else words[:1]
        about = "Presets x seeds, shared by any number of workers: ... EXPERIMENT --presets ... --seeds ... [-- flags of the experiment]"
        options = parse_dataclass(Options, words[len(named) : at], PROGRAM, about, Options())
        if not named:
            raise UsageError("no experiment is named: `python -m experiments` lists them")
        code = sweep(experiment_named(named[0]), options, words[at + 1 :], console)
    sys.exit(code)


if __name__ == "__main__":
    main()
