"""One table of progress for all runs, read from their directories, wherever they are trained."""

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lrpt.engines.jobs import NamedJob
from lrpt.runs.console import Console
from lrpt.runs.files import parsed_object
from lrpt.runs.layout import METRICS

COLUMNS = ("run", "", "update", "valid loss")
TAIL = 4096
"""bytes at the end of metrics.jsonl in which the last evaluation is looked for"""

ROWS = 30
"""largest number of runs that the table shows"""


def labels(paths: Sequence[Path]) -> dict[Path, str]:
    """Return the part of each run directory that tells it from the others: its name, or more if two have the same name."""
    if len({path.name for path in paths}) == len(paths):
        return {path: path.name for path in paths}
    common = os.path.commonpath([path.absolute() for path in paths])
    return {path: os.path.relpath(path, common) for path in paths}


def last_evaluation(path: Path) -> dict[str, Any]:
    """Return the newest line of validation metrics in a run directory, or an empty dictionary."""
    try:
        with (path / METRICS).open("rb") as file:
            file.seek(max(file.seek(0, 2) - TAIL, 0))
            lines = file.read().decode(errors="replace").splitlines()
    except OSError:
        return {}
    for line in reversed(lines):
        if (found := parsed_object(line)) and found.get("split") == "valid":
            return found
    return {}


class Board:
    """States of all runs. A terminal shows a table that changes; a pipe gets a line whenever a run begins or ends.

    Args:
      jobs: all runs.
      console: where it is shown.
    """

    def __init__(self, jobs: Sequence[NamedJob], console: Console) -> None:
        self.jobs = {one.job.path: one for one in jobs}
        self.labels = labels(list(self.jobs))
        self.states = dict.fromkeys(self.jobs, "waiting")
        self._table = console.live(self._title(), COLUMNS)

    def __enter__(self) -> "Board":
        self._table.__enter__()
        return self

    def __exit__(self, *failure: Any) -> None:
        self._table.__exit__(*failure)

    def set(self, path: Path, state: str, reason: str = "") -> None:
        """Note the state of a run."""
        if self.states[path] != state:
            self.states[path] = state
            self._table.say(f"{self.labels[path]}: {state}{f' ({reason})' if reason else ''}; {self._title()}")

    def refresh(self) -> None:
        """Draw the table again, with the runs that are neither waiting, queued nor finished."""
        if self._table.is_shown:
            shown = [path for path, state in self.states.items() if state not in ("waiting", "queued", "finished")]
            self._table.draw(self._title(), [self._row(path) for path in shown[:ROWS]])

    def _row(self, path: Path) -> list[str]:
        line, total = last_evaluation(path), self.jobs[path].job.config.train.updates
        loss = line.get("loss")
        return [self.labels[path], self.states[path], f"{line.get('update', 0):,}/{total:,}", "" if loss is None else f"{loss:.5g}"]

    def _title(self) -> str:
        counts = Counter(self.states.values())
        return f"{len(self.jobs)} runs: " + ", ".join(f"{count} {state}" for state, count in sorted(counts.items()))
