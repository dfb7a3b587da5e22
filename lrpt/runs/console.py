"""Messages, tables and progress of commands: a live bar on a terminal, plain lines on a pipe. No other file uses rich.

Text is shown as it is: brackets in it are no markup.
"""

import itertools
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from types import TracebackType
from typing import Any, Self

from rich.console import Console as RichConsole
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

SHOWN = 3
"""Metrics in the line of an evaluation."""

PIPE_WIDTH = 160
"""Width of a table on a pipe in characters, because no terminal gives a width."""


def in_series(words: Sequence[str]) -> str:
    """Return 'a', 'a and b', or 'a, b and c'."""
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))


class Console:
    """Output of a program. Metrics go to standard output, warnings to standard error.

    Args:
      quiet: whether standard output stays empty.
      notes: whether a quiet console prints notes, to standard error.
    """

    def __init__(self, quiet: bool = False, notes: bool = False) -> None:
        plain = partial(RichConsole, highlight=False, markup=False, emoji=False)  # a directory may be called `runs/[old]`
        self.out = plain(soft_wrap=True, quiet=quiet)
        self.err = plain(stderr=True, soft_wrap=True)
        self._notes = self.err if quiet and notes else self.out
        self._tables = self.out if self.out.is_terminal else plain(quiet=quiet, width=PIPE_WIDTH)

    def say(self, text: str) -> None:
        """Print one line."""
        self.out.print(text)

    def note(self, text: str) -> None:
        """Print a line that a caller from Python should see, too."""
        self._notes.print(text)

    def warn(self, text: str) -> None:
        """Print a warning in one line. The run goes on."""
        self.err.print(f"lrpt: warning: {text}")

    def error(self, text: str) -> None:
        """Print an error in one line."""
        self.err.print(f"lrpt: error: {' '.join(text.split())}")

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[str]], title: str | None = None, left: int = 1) -> None:
        """Print a table. Columns after the first `left` ones are aligned to the right."""
        table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False, padding=(0, 2, 0, 0))
        for i, name in enumerate(columns):
            table.add_column(name, justify="left" if i < left else "right", no_wrap=i < left)
        for row in rows:
            table.add_row(*row)
        self._tables.print(table)

    def bar(self, title: str, total: int, done: int) -> "Bar":
        """Return a progress bar of one training run; use it in a `with` statement."""
        return Bar(self.out, title, total, done)

    def busy(self, text: str) -> AbstractContextManager[Any]:
        """Return a context that shows on a terminal what is going on; use it in a `with` statement."""
        return self.out.status(Text(text)) if self.out.is_terminal else nullcontext()

    def live(self, title: str, columns: Sequence[str]) -> "LiveTable":
        """Return a table that is drawn again in place; use it in a `with` statement."""
        return LiveTable(self.out, title, columns)


class Bar:
    """A live bar with loss, updates per second and time left; on a pipe, lines at evaluations only."""

    def __init__(self, out: RichConsole, title: str, total: int, done: int) -> None:
        self.out, self.title, self.done, self.total = out, title, done, total
        self.speed = Speed()
        self.progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=30),
            MofNCompleteColumn(),
            TextColumn("{task.fields[detail]}", markup=False),
            TimeRemainingColumn(),
            console=out,
            disable=not out.is_terminal,
            transient=True,
        )
        self.task = self.progress.add_task(title, total=total, completed=done, detail="compiling")

    def __enter__(self) -> Self:
        self.progress.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.progress.stop()

    def advance(self, update: int, loss: float) -> None:
        """Show the number of updates so far, and the loss of the last batches."""
        self.speed.count(update - self.done)
        self.done = update
        self.progress.update(self.task, completed=update, detail=f"loss {loss:.4g}  {self.speed}")

    def evaluated(self, update: int, label: str, metrics: Mapping[str, Any]) -> None:
        """Print the first metrics of an evaluation in one line. `metrics.jsonl` has all."""
        shown = itertools.islice(metrics.items(), SHOWN)
        text = "  ".join(f"{name} {value:.5g}" for name, value in shown)
        self.out.print(f"{label}  update {update}/{self.total}  {text}  {self.speed}")


class Speed:
    """Updates per second since the first call returned, so that compilation does not count."""

    def __init__(self) -> None:
        self.start: float | None = None
        self.counted = 0

    def count(self, updates: int) -> None:
        """Add the updates made since the last call. The first call only starts the clock."""
        if self.start is None:
            self.start = time.monotonic()
        else:
            self.counted += updates

    def __str__(self) -> str:
        elapsed = time.monotonic() - self.start if self.start is not None else 0.0
        return f"{self.counted / elapsed:.1f} updates/s" if self.counted else "... updates/s"


class LiveTable:
    """A table that is drawn again in place on a terminal; a pipe gets the lines of `say` alone."""

    def __init__(self, out: RichConsole, title: str, columns: Sequence[str]) -> None:
        self.out, self.columns = out, columns
        self.is_shown = out.is_terminal
        self._live = Live(title, console=out, transient=True, auto_refresh=False)

    def __enter__(self) -> Self:
        if self.is_shown:
            self._live.start()
        return self

    def __exit__(self, *failure: object) -> None:
        self._live.stop()

    def say(self, text: str) -> None:
        """Print a line above the table."""
        self.out.print(text)

    def draw(self, title: str, rows: Sequence[Sequence[str]]) -> None:
        """Replace the rows that are shown by these."""
        table = Table(*self.columns, title=title, title_justify="left", box=None, pad_edge=False, padding=(0, 2, 0, 0))
        for row in rows:
            table.add_row(*row)
        self._live.update(table, refresh=True)
