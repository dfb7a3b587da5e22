"""Plan of a reproduction: chosen claims, the configurations that they need, one run for each seed, and how far each run is."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from functools import cache, cached_property
from pathlib import Path
from typing import Any, NamedTuple

from experiments.report.claims.matching import configuration, is_over, runs_of
from experiments.report.claims.paper import Paper
from experiments.report.claims.planning import Need, distinct_runs, needs
from experiments.report.claims.rows import Planned
from experiments.report.claims.scales import Scale
from experiments.report.kept.records import Record
from experiments.report.kept.summaries import kept_rows
from experiments.reproduce.archives import number_in
from experiments.reproduce.options import Data
from experiments.sweep import experiment_named
from lrpt.cli.experiment import Experiment, ManyRuns
from lrpt.cli.subcommands import first_word, options_of
from lrpt.engines.jobs import NamedJob, distinct
from lrpt.engines.schedule import newest_checkpoint
from lrpt.errors import UsageError
from lrpt.runs.console import Console
from lrpt.runs.layout import FAILURE
from lrpt.training.config import RunConfig
from lrpt.training.loop import Job, is_finished


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
        return replace(config, data=self._placed(config.data))

    def _placed(self, data: Any) -> Any:
        """Return data with the places of this machine."""
        places = {field.name for field in fields(data)}
        changes: dict[str, Path | None] = {name: getattr(self.data, name) for name in ("dir", "file") if name in places}
        if changes.get("dir") is None and getattr(data, "dir", None) != Path("DIR"):  # commands are printed with DIR
            changes.pop("dir", None)
        if changes.get("file") is None or data.file is None:
            changes.pop("file", None)
        return replace(data, **changes)

    @cached_property
    def _study(self) -> tuple[ManyRuns, Any]:
        """Return the study and its options, with the places of the data.

        Raises:
          UsageError: the command is no study.
        """
        words, program = self.planned.flags.split(), self.experiment.program
        found = self.experiment.subcommands[first_word(words, self.experiment.subcommands, program)]
        if found.study is None:
            raise UsageError(f"{program} {words[0]} is no study")
        options = options_of(found, words[1:], f"{program} {words[0]}")
        return found.study, replace(options, data=self._placed(options.data))

    def options(self, workdir: Path) -> Any:
        """Return the options of a study. Studies that share a directory by default, and their data, also share one here."""
        return replace(self._study[1], workdir=workdir / self.experiment.name / self.name)

    def kept(self, workdir: Path, results: Path) -> set[Path]:
        """Return the directories of the runs of a study that are kept, and need not be trained again."""
        study, options = self._study[0], self.options(workdir)
        rows = kept_rows(study.summary, study.described(options), results)
        return {one.job.path for one in self.jobs(workdir) if study.is_among(options, one.job, rows)}

    def conclude(self, workdir: Path, console: Console) -> None:
        """Write the summary of a study's finished runs, if there are any, and say where it is."""
        self._study[0].conclude(self.options(workdir), [one.job for one in self.jobs(workdir)], console)

    @cached_property
    def _settings(self) -> dict[str, str]:
        """Return the flags with their values: 'model.rank' -> '4'."""
        found = re.findall(r"--([^\s=]+)((?:[ =](?!--)\S+)*)", self.planned.flags)
        return {flag: "_".join(re.split(r"[ =]", values.strip(" ="))) for flag, values in found}

    @property
    def preset(self) -> str:
        """Return the preset that the flags name."""
        return self._settings.get("preset", "quick")

    @property
    def name(self) -> str:
        """Return the name of the run directories, without the seed: '--preset paper --model.rank 4' -> 'paper-rank4'.

        Of a study, it is the name of the directory of all runs: that of its work directory, with the settings of the data.
        """
        first, settings = self.preset, {flag: value for flag, value in self._settings.items() if flag != "preset"}
        if self.is_study:
            first = self._study[1].workdir.name
            settings = {flag: value for flag, value in settings.items() if flag.startswith("data.") and flag != "data.dir"}
        shown = {flag.rpartition(".")[2].replace("-", "_"): value for flag, value in settings.items()}
        return "-".join([first, *(f"{flag}{value.replace('/', '_')}" for flag, value in shown.items())])

    def jobs(self, workdir: Path) -> list[NamedJob]:
        """Return the run of each seed, or the runs of a study.

        Raises:
          UsageError: a study reads its data to plan its runs, and they are missing.
        """
        if self.is_study:
            return self._jobs_of_study(workdir)
        names = {"experiment": self.experiment.name, "preset": self.preset}
        root = workdir / self.experiment.name
        return [NamedJob(Job(self.config, seed, root / f"{self.name}-seed{seed}"), names) for seed in self.planned.seeds]

    @cache  # noqa: B019  # a command has few plans, and a study reads its data to plan its runs
    def _jobs_of_study(self, workdir: Path) -> list[NamedJob]:
        study, options = self._study[0], self.options(workdir)
        return [NamedJob(job, study.names(options)) for job in study.jobs(options)]


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
    """One seed of a configuration, or one run of a study, and how far it is."""

    of: Configuration
    job: NamedJob
    state: State

    @property
    def config(self) -> RunConfig[Any]:
        """Return the configuration of the run."""
        return self.job.job.config

    @property
    def share(self) -> float:
        """Return the share of updates that is left."""
        return 0.0 if self.state.done else max(0.0, 1 - self.state.updates / self.config.train.updates)


CLOSE = 3
"""similar names of claims that an error suggests, at most"""


def _elsewhere(word: str, papers: Sequence[Paper], names: Sequence[str]) -> str:
    """Return which other papers have a claim with this part of its name."""
    others = [paper for paper in papers if names and paper.name not in names]
    found = [paper.name for paper in others if any(word.lower() in need.claim.lower() for need in needs([paper], range(1), "all"))]
    return f"; --paper {' and '.join(found)} has it" if found else ""


def chosen(papers: Sequence[Paper], names: Sequence[str], claims: Sequence[str], seeds: int, scale: Scale = "published") -> list[Need]:
    """Return the claims of some papers (all if none is named) whose names contain one of `claims`, with their runs of a scale.

    Raises:
      UsageError: a paper or claim is unknown, or nothing here runs what was chosen.
    """
    known = [paper.name for paper in papers]
    for name in names:
        if name not in known:
            raise UsageError(f"unknown paper '{name}': choose from {', '.join(known)}")
    found = needs([paper for paper in papers if not names or paper.name in names], range(seeds), scale)
    for word in claims:
        if not any(word.lower() in need.claim.lower() for need in found):
            raise UsageError(
                f"unknown claim '{word}': give a part of a name that docs/reproduction lists{_similar(word, found)}"
                f"{_elsewhere(word, papers, names)}"
            )
    found = [need for need in found if not claims or any(word.lower() in need.claim.lower() for word in claims)]
    if not any(need.runs for need in found):
        what = f"'{found[0].claim}'{_others(len(found) - 1)}" + ("" if scale == "all" else f" at --scale {scale}")
        advice = "" if scale == "all" else ", or --scale all"
        raise UsageError(f"nothing here runs {what}: docs/reproduction says why; choose other claims{advice}")
    return found


def _similar(word: str, found: Sequence[Need]) -> str:
    """Return the few places and sentences of claims that resemble a word, as the end of a message; nothing if none does."""
    parts = {part.lower(): part for need in found for part in need.claim.split(": ")}
    close = get_close_matches(word.lower(), parts, CLOSE)
    return f"; similar ones: {', '.join(repr(parts[part]) for part in close)}" if close else ""


def _others(count: int) -> str:
    return f" and {count} other claims" if count else ""


def configurations(found: Sequence[Need], data: Data) -> list[Configuration]:
    """Return every configuration that claims need, once."""
    return [Configuration(planned, claims, data) for planned, claims in distinct_runs(found).items()]


def unplanned(plan: Sequence[Configuration], workdir: Path) -> dict[Configuration, str]:
    """Return the studies whose runs cannot be planned, with the reason: that their data are missing."""
    reasons = {}
    for one in plan:
        try:
            if one.is_study:
                one.jobs(workdir)
        except UsageError as error:
            reasons[one] = " ".join(str(error).split())
    return reasons


def runs(
    plan: Sequence[Configuration], records: Sequence[Record], workdir: Path, results: Path, problems: Mapping[Path, str] | None = None
) -> list[PlannedRun]:
    """Return every run of the plan, without those that train the same numbers as an earlier one.

    Args:
      plan: the configurations.
      records: kept runs.
      workdir: where run directories are.
      results: folder of kept results.
      problems: why a run that is not kept cannot be trained, by its run directory.
    """
    jobs = {configuration: configuration.jobs(workdir) for configuration in plan}
    once = {id(one) for one in distinct([job for of_seeds in jobs.values() for job in of_seeds])}
    kept = {one: one.kept(workdir, results) for one in plan if one.is_study}
    found = [run for one, of_seeds in jobs.items() for run in _states(one, of_seeds, records, kept.get(one, set()), problems or {})]
    return [run for run in found if id(run.job) in once]


def _states(
    one: Configuration, jobs: Sequence[NamedJob], records: Sequence[Record], of_study: Collection[Path], problems: Mapping[Path, str]
) -> Iterator[PlannedRun]:
    kept = {} if one.is_study else runs_of(one.config, one.experiment, records, one.planned.best)
    for job in jobs:
        record = kept.get(job.job.seed)
        is_kept = (record is not None and (is_over(job.job.config, record) or record.failure is not None)) or job.job.path in of_study
        problem = problems.get(job.job.path)
        open_state = State(done=False, problem=problem) if problem else state_of(job)
        yield PlannedRun(one, job, State(done=True) if is_kept else open_state)


def state_of(one: NamedJob) -> State:
    """Return how far a run is in its run directory. One that diverged is done: it would diverge again, unless it went on since then."""
    reached, diverged = newest_checkpoint(one.job.path), number_in(one.job.path / FAILURE, "update", missing=-1)
    try:
        return State(reached <= diverged or is_finished(one.job, one.names), reached)
    except UsageError as error:
        return State(done=False, problem=str(error))
