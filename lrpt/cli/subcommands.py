"""First words of a command line that do something else than train."""

from collections.abc import Mapping, Sequence

from lrpt.cli.experiment import Subcommand
from lrpt.cli.flags import parse_dataclass
from lrpt.errors import UsageError
from lrpt.runs.console import Console


def dispatch(subcommands: Mapping[str, Subcommand], words: Sequence[str], program: str, console: Console) -> None:
    """Run the subcommand that the first word names, with the options in the others.

    Raises:
      UsageError: there is no such subcommand, or an option does not fit.
    """
    if not words or words[0] not in subcommands:
        given = f"'{words[0]}' is no subcommand of {program}" if words else f"{program} needs a subcommand"
        raise UsageError(f"{given}: choose from {', '.join(subcommands)}; see {program} --help")
    found = subcommands[words[0]]
    found.run(parse_dataclass(found.options, words[1:], f"{program} {words[0]}", found.about, found.default), console)
