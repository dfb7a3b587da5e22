"""Commands that print a table, or its rows as JSON."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from lrpt.cli.command import leaving_with_a_line
from lrpt.cli.flags import parse_dataclass
from lrpt.runs.console import Console


@dataclass(frozen=True)
class Options:
    """Command-line options of a table."""

    json: bool = False
    """print a JSON list of objects instead of a table"""


def print_table(
    rows: Callable[[], Sequence[Any]],
    show: Callable[[Sequence[Any], Console], None],
    arguments: Sequence[str] | None,
    program: str,
    about: str,
) -> None:
    """Read the command line, and print a table or JSON. Map errors to one line and an exit status.

    Args:
      rows: returns the rows of the table, which are dataclasses.
      show: prints the table of rows.
      arguments: words of the command line (None: those of the process).
      program: how the command is called.
      about: what help says of the command.
    """
    console = Console()
    with leaving_with_a_line(console):
        options = parse_dataclass(Options, arguments, program, about, Options())
        found = rows()
        if options.json:
            print(json.dumps([asdict(row) for row in found], indent=2))
        else:
            show(found, console)
