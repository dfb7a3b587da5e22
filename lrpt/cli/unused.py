"""Warnings about flags without effect, and removal of runs that differ only in such flags."""

from collections.abc import Iterable, Iterator

from lrpt.runs.configuration import flatten, to_json
from lrpt.settings import unused_settings
from lrpt.training.config import RunConfig
from lrpt.training.loop import Job, numbers_of


def warnings(preset: RunConfig, commands: Iterable[RunConfig], trained: Iterable[RunConfig]) -> Iterator[str]:
    """Yield a line for each setting that a command line changes, and that no run reads.

    Args:
      preset: the configuration before the flags.
      commands: the configurations after the flags: one, or one for each combination of --vary.
      trained: the configurations of the runs, the variants of a comparison included.
    """
    before = flatten(to_json(preset))
    changed = {name: value for config in commands for name, value in flatten(to_json(config)).items() if value != before.get(name)}
    unused = [unused_settings(config) for config in trained]
    for name, value in changed.items():
        reasons = [found.get(name) for found in unused]
        if all(reasons):
            yield f"{name} is {value}, which has no effect: {reasons[0]}"


def group_by_numbers(jobs: Iterable[Job]) -> dict[Job, list[Job]]:
    """Return the jobs that train different numbers, each with the later jobs that would train the same numbers again."""
    groups: dict[tuple[int, str], list[Job]] = {}
    for job in jobs:
        groups.setdefault(numbers_of(job), []).append(job)
    return {first: others for first, *others in groups.values()}
