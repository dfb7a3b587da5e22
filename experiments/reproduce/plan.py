"""Plan of a reproduction: chosen claims, the configurations that they need, one run for each seed, and how far each run is."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from experiments.report.claims import Planned
from experiments.report.matching import configuration, is_over, runs_of
from experiments.report.paper import Paper
from experiments.report.planning import Need, distinct_runs, needs
from experiments.report.records import FAILURE, Record
from experiments.sweep import experiment_named
from lrpt.cli.experiment import Experiment
from lrpt.engines.jobs import NamedJob, distinct
from lrpt.engines.schedule import newest_checkpoint
from lrpt.errors import UsageError
from lrpt.training.config import RunConfig
from lrpt.training.loop import Job, is_finished


@dataclass(frozen=True)
class Data:
    """Places of the data."""

    dir: Path | None = None
    """directory of the data sets, as --data.dir of the experiments"""
    file: Path | None = None
    """the text that commands call BOOK.txt"""


@dataclass(frozen=True, eq=False)
class Configuration:
    """Command of a claim, for all of its seeds.

    Attributes:
      planned: experiment, flags and seeds.
      claims: names of the claims that its runs bear on.
      data: where its data are.
    """

    planned: Planned
    claims: Sequence[str]
    data: Data

    @property
    def is_study(self) -> bool:
        """Return whether the command is a study, which has a subcommand and trains many models."""
        return not self.planned.flags.startswith("--")

    @property
    def command(self) -> str:
        """Return the command line without the seed, with the places of the data."""
        places = {"DIR": self.data.dir, "BOOK.txt": self.data.file}
        return " ".join(str(places.get(word) or word) for word in self.planned.command.split(" "))

    @cached_property
    def experiment(self) -> Experiment[Any]:
        """Return the experiment that trains the run."""
        return experiment_named(self.planned.experiment)

    @cached_property
    def config(self) -> RunConfig[Any]:
        """Return the configuration that the flags give, with the places of the data."""
        config = configuration(self.experiment, self.planned.flags)
        places = {field.name for field in fields(config.data)}
        changes = {name: path for name, path in (("dir", self.data.dir), ("file", self.data.file)) if path and name in places}
        if "file" in changes and config.data.file is None:
            del changes["file"]
        return replace(config, data=replace(config.data, **changes))

    @cached_property
    def _settings(self) -> dict[str, str]:
        """Return the flags with their values: 'model.rank' -> '4'."""
        return dict(re.findall(r"--(\S+?)(?:[ =](?!--)(\S+))?(?=\s|$)", self.planned.flags))

    @property
    def preset(self) -> str:
        """Return the preset that the flags name."""
        return self._settings.get("preset", "quick")

    @property
    def name(self) -> str:
        """Return the name of the run directories, without the seed: '--preset paper --model.rank 4' -> 'paper-rank4'."""
        if self.is_study:
            return self.planned.flags.partition(" ")[0]
        shown = {flag.rpartition(".")[2].replace("-", "_"): value for flag, value in self._settings.items() if flag != "preset"}
        return "-".join([self.preset, *(f"{flag}{value.replace('/', '_')}" for flag, value in shown.items())])

    def jobs(self, workdir: Path) -> list[NamedJob]:
        """Return the run of each seed."""
        names = {"experiment": self.experiment.name, "preset": self.preset}
        root = workdir / self.experiment.name
        return [NamedJob(Job(self.config, seed, root / f"{self.name}-seed{seed}"), names) for seed in self.planned.seeds]


class State(NamedTuple):
    """Progress of a run.

    Attributes:
      done: whether nothing is left to train.
      updates: how many were made in its run directory.
      problem: why its run directory cannot be used, or an empty string.
    """

    done: bool
    updates: int = 0
    problem: str = ""


@dataclass(frozen=True, eq=False)
class PlannedRun:
    """One seed of a configuration, and how far it is."""

    of: Configuration
    job: NamedJob
    state: State

    @property
    def share(self) -> float:
        """Return the share of updates that is left."""
        return 0.0 if self.state.done else max(0.0, 1 - self.state.updates / self.of.config.train.updates)


def chosen(papers: Sequence[Paper], names: Sequence[str], claims: Sequence[str], seeds: int) -> list[Need]:
    """Return the claims of some papers (all if none is named) whose names contain one of `claims`.

    Raises:
      UsageError: a paper or claim is unknown, or nothing here runs what was chosen.
    """
    known = [paper.name for paper in papers]
    for name in names:
        if name not in known:
            raise UsageError(f"unknown paper '{name}': choose from {', '.join(known)}")
    found = needs([paper for paper in papers if not names or paper.name in names], range(seeds))
    for word in claims:
        if not any(word.lower() in need.claim.lower() for need in found):
            places = dict.fromkeys(need.claim.partition(":")[0] for need in found)
            raise UsageError(f"unknown claim '{word}': give a part of a claim's name; the places are {', '.join(places)}")
    found = [need for need in found if not claims or any(word.lower() in need.claim.lower() for word in claims)]
    if not any(need.runs for need in found):
        raise UsageError(f"nothing here runs '{found[0].claim}'{_others(len(found) - 1)}: docs/reproduction says why; choose other claims")
    return found


def _others(count: int) -> str:
    return f" and {count} other claims" if count else ""


def configurations(found: Sequence[Need], data: Data) -> list[Configuration]:
    """Return every configuration that claims need, once."""
    return [Configuration(planned, claims, data) for planned, claims in distinct_runs(found).items()]


def runs(
    plan: Sequence[Configuration], records: Sequence[Record], workdir: Path, problems: Mapping[Path, str] | None = None
) -> list[PlannedRun]:
    """Return every run of the plan, without those that train the same numbers as an earlier one.

    Args:
      plan: the configurations.
      records: kept runs.
      workdir: where run directories are.
      problems: why a run that is not kept cannot be trained, by its run directory.
    """
    jobs = {configuration: configuration.jobs(workdir) for configuration in plan}
    once = {one.job.path for one in distinct([job for of_seeds in jobs.values() for job in of_seeds])}
    found = [run for one, of_seeds in jobs.items() for run in _states(one, of_seeds, records, problems or {})]
    return [run for run in found if run.job.job.path in once]


def _states(one: Configuration, jobs: Sequence[NamedJob], records: Sequence[Record], problems: Mapping[Path, str]) -> Iterator[PlannedRun]:
    kept = runs_of(one.config, one.experiment, records, one.planned.best)
    for job in jobs:
        record = kept.get(job.job.seed)
        is_kept = record is not None and (is_over(one.config, record) or record.failure is not None)
        problem = problems.get(job.job.path)
        open_state = State(done=False, problem=problem) if problem else state_of(job)
        yield PlannedRun(one, job, State(done=True) if is_kept else open_state)


def state_of(one: NamedJob) -> State:
    """Return how far a run is in its run directory. One that diverged is done: it would diverge again."""
    try:
        return State((one.job.path / FAILURE).exists() or is_finished(one.job, one.names), newest_checkpoint(one.job.path))
    except UsageError as error:
        return State(done=False, problem=str(error))
