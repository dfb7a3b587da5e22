"""Studies of many runs: a table, plots and a JSON file of the finished runs."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar

from lrpt.cli.command import concluding
from lrpt.devices import parallel
from lrpt.errors import UsageError
from lrpt.runs.configuration import to_json
from lrpt.runs.console import Console
from lrpt.runs.files import write_json
from lrpt.runs.layout import ENVIRONMENT
from lrpt.runs.run_directory import RunDirectory
from lrpt.training.loop import Job, fit_all, is_finished

Row = dict[str, Any]


DIVERGED = "diverged"
"""Entry of a summary: the runs whose training diverged, which have no row."""


class StudyOptions(Protocol):
    """A dataclass with the flags that every study has."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def workdir(self) -> Path: ...

    @property
    def devices(self) -> int | None: ...


O = TypeVar("O", bound=StudyOptions)  # noqa: E741


class Finished(NamedTuple):
    """A finished run, the content of its `result.json`, and its row in the study."""

    job: Job
    result: dict[str, Any]
    row: Row


@dataclass(frozen=True)
class StudyCommand(Generic[O]):
    """A study of many runs, each in a directory below `--workdir`.

    Attributes:
      experiment: name of the experiment that the runs record.
      preset: options -> name of the preset that the runs record.
      summary: name of the JSON file in `--workdir`. It holds `head`, 'options', 'environment', the rows, 'diverged' (the identity of each
        run whose training diverged, and the update), and what `show` adds.
      rows: key of the rows in the JSON file.
      together: options -> (largest number of models that train together, batch size), by which devices are requested.
      jobs: options -> the runs.
      keep: options, job and result -> the row of a run.
      show: prints the table of the finished runs and draws the plots; returns further entries of the JSON file.
      identify: options and job -> the fields of a run's row that are known before it is trained and tell it from the others.
      head: first entries of the JSON file.
    """

    experiment: str
    preset: Callable[[O], str]
    summary: str
    rows: str
    together: Callable[[O], tuple[int, int]]
    jobs: Callable[[O], Sequence[Job]]
    keep: Callable[[O, Job, Mapping[str, Any]], Row]
    show: Callable[[O, Sequence[Finished], Console], Mapping[str, Any]]
    identify: Callable[[O, Job], Row]
    head: Mapping[str, Any] = field(default_factory=dict)

    def run(self, options: O, console: Console) -> None:
        """Train the unfinished runs. Conclude with the finished ones, even after an interruption."""
        parallel.request_devices(options.devices, *self.together(options))  # before `jobs`, which may start JAX
        jobs = self.jobs(options)
        with concluding(partial(self.conclude, options, jobs, console), console):
            fit_all(jobs, names=self.names(options), devices=options.devices, console=console)

    def names(self, options: O) -> dict[str, str]:
        """Return the names that the runs record."""
        return {"experiment": self.experiment, "preset": self.preset(options)}

    def conclude(self, options: O, jobs: Sequence[Job], console: Console) -> None:
        """Show the finished runs and write the JSON file, if there are finished runs. Warn of directories that cannot be read."""
        ends = {job: self._is_finished(options, job, console) for job in jobs}
        readable = [job for job in jobs if ends[job] is not None]
        results = [(job, RunDirectory(job.path).result()) for job in readable if ends[job]]
        found = [Finished(job, result, self.keep(options, job, result)) for job, result in results if result is not None]
        if not found:
            return
        more = self.show(options, found, console)
        path, rows, diverged = options.workdir / self.summary, [one.row for one in found], self.diverged(options, readable)
        write_json(path, {**self.head, **origin(options, found[0].job), self.rows: rows, DIVERGED: diverged, **more})
        counts = f"{len(found)} of {len(jobs)} runs are finished" + (f", {len(diverged)} diverged" if diverged else "")
        console.say(f"{counts}   summary: {path}   figures: {options.workdir / 'figures'}")

    def _is_finished(self, options: O, job: Job, console: Console) -> bool | None:
        """Return whether a run is finished, or warn and return None if its directory cannot be read."""
        try:
            return is_finished(job, self.names(options))
        except UsageError as error:
            console.warn(f"{error}; {self.summary} leaves it out")
            return None

    def diverged(self, options: O, jobs: Sequence[Job]) -> list[Row]:
        """Return for each run whose training diverged what tells it from the others, and 'update', the update at which it did."""
        found = [(job, RunDirectory(job.path).divergence()) for job in jobs]
        return [{**self.identify(options, job), "update": failure["update"]} for job, failure in found if failure is not None]

    def described(self, options: O) -> dict[str, Any]:
        """Return the first entries of the JSON file and the options."""
        return {**self.head, "options": to_json(options)}

    def is_among(self, options: O, job: Job, rows: Sequence[Mapping[str, Any]]) -> bool:
        """Return whether one of the rows of a study with the same options is that of a job."""
        known = self.identify(options, job)
        return any(known.items() <= row.items() for row in rows)


def origin(options: Any, job: Job) -> dict[str, Any]:
    """Return the options of a study, and the environment of one of its runs, as its summary has them."""
    return {"options": to_json(options), "environment": json.loads((job.path / ENVIRONMENT).read_text())}


def grouped(rows: Sequence[Mapping[str, Any]], *keys: str) -> dict[Any, Any]:
    """Group rows by the value of the first key, each group by the value of the second key, and so on. The rows keep their order."""
    first, *others = keys
    groups: dict[Any, list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault(row[first], []).append(row)
    return {name: grouped(own, *others) for name, own in groups.items()} if others else groups
