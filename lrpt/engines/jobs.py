"""Jobs of an engine: named runs without duplicates, in units that one process trains."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from lrpt.devices.processes import Distributed
from lrpt.runs.environment import command
from lrpt.runs.imports import imported
from lrpt.training.loop import Job, numbers_of

MOST_STACKED = 16
"""runs that one process trains together, unless `--stack` says otherwise"""


class NamedJob(NamedTuple):
    """One run, with the names ('experiment' and 'preset') that its result records."""

    job: Job
    names: Mapping[str, str]


@dataclass(frozen=True, eq=False)
class Unit:
    """Runs that one process trains together, or one run that several processes share.

    Attributes:
      jobs: runs of one program; one only if there are several processes.
      names: 'experiment' and 'preset' of all runs.
      devices: number of devices of each process (None: all visible ones).
      distributed: addresses of the processes of the run.
      command: command line of the program that asks for the runs, which they record.
      imports: modules of the user's that a process imports before it trains, because they register cells and the like.
    """

    jobs: tuple[Job, ...]
    names: Mapping[str, str]
    devices: int | None = 1
    distributed: Distributed = field(default_factory=Distributed)
    command: str = field(default_factory=command)
    imports: tuple[str, ...] = field(default_factory=imported)

    @property
    def paths(self) -> tuple[Path, ...]:
        """Return the run directories."""
        return tuple(job.path for job in self.jobs)

    def rank(self, index: int, of: int, address: str) -> "Unit":
        """Return the part of one process among several."""
        return replace(self, distributed=Distributed(address, of, index))


def distinct(jobs: Sequence[NamedJob]) -> list[NamedJob]:
    """Return the first of all jobs that train the same numbers, in the given order."""
    found: dict[Any, NamedJob] = {}
    for one in jobs:
        found.setdefault((one.names.get("experiment"), numbers_of(one.job)), one)
    return list(found.values())


def units(jobs: Sequence[NamedJob], stack: int, devices: int | None) -> list[Unit]:
    """Split jobs into units of at most `stack` runs that share a program, in the order of their first jobs."""
    programs: dict[Any, list[NamedJob]] = {}
    for one in jobs:
        programs.setdefault((one.job.config.compilation_key, tuple(sorted(one.names.items()))), []).append(one)
    found = [
        Unit(tuple(one.job for one in together[start : start + stack]), together[0].names, devices)
        for together in programs.values()
        for start in range(0, len(together), stack)
    ]
    position = {one.job.path: index for index, one in enumerate(jobs)}
    return sorted(found, key=lambda unit: position[unit.jobs[0].path])


def even_stack(jobs: Sequence[NamedJob], accelerators: int) -> int:
    """Return how many runs of the largest program each accelerator trains if all get equally many, at most `MOST_STACKED`."""
    programs = Counter(one.job.config.compilation_key for one in jobs)
    return min(math.ceil(max(programs.values(), default=1) / max(accelerators, 1)), MOST_STACKED)
