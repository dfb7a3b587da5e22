"""Commands that read a trained run: `python -m experiments.NAME COMMAND RUN_DIRECTORY ...`."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import tyro

from lrpt.cli.command import OF_A_READER, leaving_with_a_line
from lrpt.cli.flags import parse_dataclass
from lrpt.cli.trained import Trained
from lrpt.errors import UsageError, check_at_least
from lrpt.runs.console import Console


@dataclass(frozen=True)
class OnRun:
    """What every command line says."""

    run: tyro.conf.Positional[Path]
    """run directory, finished or not"""
    state: Literal["best", "last"] = "best"
    """best: that of the lowest validation loss; last: where training stopped, as where a schedule makes what is learned harder with time"""

    counts: ClassVar[tuple[str, ...]] = ()
    """the fields of a command that are numbers of something"""

    def __post_init__(self) -> None:
        check_at_least(1, self, *self.counts)

    @property
    def figures(self) -> Path:
        """Where what is drawn is put."""
        return self.run / "figures"


Commands = Mapping[str, tuple[type[OnRun], Callable[[Any, Trained, Console], Path | None]]]
"""By its name, the options of a command and what it does with them; it returns the figure that it drew."""


def inspect(commands: Commands, words: Sequence[str], program: str) -> None:
    """Does what the first word names, with the options in the others; exits with 2 where they are wrong, 1 where a file is damaged."""
    console = Console()
    with leaving_with_a_line(console, OF_A_READER):
        if not words or words[0] not in commands:
            raise UsageError(f"expected one of {', '.join(commands)} and a run directory; see {program} --help")
        kind, show = commands[words[0]]
        options = parse_dataclass(kind, words[1:], f"{program} {words[0]}", kind.__doc__ or "", kind(Path()))
        figure = show(options, Trained(options.run, console, options.state), console)
        if figure is not None:
            console.say(f"figure: {figure}")
