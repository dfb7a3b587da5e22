"""Commands that read a trained run: `python -m experiments.NAME COMMAND RUN_DIRECTORY ...`."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import tyro

from lrpt.cli.command import OF_A_READER, leaving_with_a_line
from lrpt.cli.experiment import Subcommand
from lrpt.cli.trained import read_run
from lrpt.errors import check_at_least
from lrpt.runs.console import Console
from lrpt.training.loading import Loaded, State, is_kept_result


@dataclass(frozen=True)
class Reading:
    """Options of every command that reads a run."""

    run: tyro.conf.Positional[Path]
    """run directory, finished or not, or directory of a kept result"""
    state: State = "best"
    """best: lowest validation loss; last: where training stopped, as where a schedule makes what is learned harder with time"""
    data_dir: Annotated[Path | None, tyro.conf.arg(name="data.dir")] = None
    """where the data sets are (None: where they were in training)"""

    counts: ClassVar[tuple[str, ...]] = ()
    """the fields of a command that are numbers of something"""

    def __post_init__(self) -> None:
        check_at_least(1, self, *self.counts)

    def read(self, console: Console) -> Loaded:
        """Read the run.

        Raises:
          UsageError: the directory holds no run, or nothing of it is intact.
        """
        return read_run(self.run, console, self.state, self.data_dir)


@dataclass(frozen=True)
class OnRun(Reading):
    """Options of commands that also write figures and numbers."""

    output: Path | None = None
    """where figures and numbers go (None: the run directory, or the current directory for a kept result)"""

    @property
    def figures(self) -> Path:
        """Where plots go."""
        return self.run / "figures" if self._in_run else self.output or Path()

    @property
    def numbers(self) -> Path:
        """Where files of numbers go."""
        folder = self.run if self._in_run else self.output or Path()
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    @property
    def _in_run(self) -> bool:
        return self.output is None and not is_kept_result(self.run)


def on_run(kind: type[Reading], show: Callable[[Any, Loaded, Console], Path | None], about: str | None = None) -> Subcommand:
    """Return a subcommand that reads a run and shows something of it.

    Args:
      kind: its options; the docstring says what it does if `about` does not.
      show: prints, and returns the path of the figure that it drew.
    """

    def run(options: Reading, console: Console) -> None:
        with leaving_with_a_line(console, OF_A_READER):
            figure = show(options, options.read(console), console)
        if figure is not None:
            console.say(f"figure: {figure}")

    return Subcommand(kind, run, kind(Path()), about or kind.__doc__ or "")
