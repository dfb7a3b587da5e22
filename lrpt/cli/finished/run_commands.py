"""Commands that read a trained run: `python -m experiments.NAME COMMAND RUN_DIRECTORY ...`."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import tyro

from lrpt.cli.command import RUN_UNCHANGED, leaving_with_a_line
from lrpt.cli.experiment import Subcommand
from lrpt.cli.finished.trained import read_run
from lrpt.errors import check_at_least
from lrpt.runs.console import Console
from lrpt.runs.layout import FIGURES
from lrpt.trained.loading import Loaded, State, is_kept_result
from lrpt.trained.recorded import identity_of


@dataclass(frozen=True)
class Reading:
    """Options of every command that reads a run."""

    run: tyro.conf.Positional[Path]
    """run directory, finished or not, or directory of a kept result"""
    state: State = "best"
    """best: state of the lowest validation loss; last: state at the end of training"""
    data_dir: Annotated[Path | None, tyro.conf.arg(name="data.dir")] = None
    """directory of the data sets (None: as in training)"""

    counts: ClassVar[tuple[str, ...]] = ()
    """Fields that must be at least 1."""

    def __post_init__(self) -> None:
        check_at_least(1, self, *self.counts)

    def read(self, console: Console) -> Loaded:
        """Read the run.

        Raises:
          UsageError: the directory has no run, or no intact state of it.
        """
        return read_run(self.run, console, self.state, self.data_dir)


@dataclass(frozen=True)
class OnRun(Reading):
    """Options of commands that also write plots and numbers."""

    output: Path | None = None
    """directory of plots and numbers (None: the run directory, or runs/EXPERIMENT/NAME-kept for a kept result)"""

    @property
    def figures(self) -> Path:
        """Return the directory of plots."""
        return self.run / FIGURES if self._in_run else self._elsewhere

    @property
    def numbers(self) -> Path:
        """Return the directory of files of numbers."""
        return self.run if self._in_run else self._elsewhere

    @property
    def _in_run(self) -> bool:
        return self.output is None and not is_kept_result(self.run)

    @property
    def _elsewhere(self) -> Path:
        """Return `output`, or a directory for what is computed from a kept result, which is not the directory of a run of that name."""
        name = f"{self.run.resolve().name}-kept"
        return self.output or Path("runs") / identity_of(self.run)["experiment"] / name


def on_run(kind: type[Reading], show: Callable[[Any, Loaded, Console], Path | None], about: str | None = None) -> Subcommand:
    """Return a subcommand that reads a run and prints or plots something of it.

    Args:
      kind: class of its options.
      show: prints, and returns the path of its plot or None.
      about: description of the subcommand (None: the docstring of `kind`).
    """

    def run(options: Reading, console: Console) -> None:
        with leaving_with_a_line(console, RUN_UNCHANGED):
            figure = show(options, options.read(console), console)
        if figure is not None:
            console.say(f"figure: {figure}")

    return Subcommand(kind, run, kind(Path()), about or kind.__doc__ or "")
