"""Subcommands of an experiment, such as `sample`: the first word of a command line selects one, and nothing is trained."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from lrpt.cli.experiment import Subcommand
from lrpt.cli.flags import chosen_preset, parse_dataclass
from lrpt.errors import UsageError
from lrpt.runs.console import Console


def dispatch(subcommands: Mapping[str, Subcommand], words: Sequence[str], program: str, console: Console) -> None:
    """Run the subcommand that the first word names, with the options in the others.

    Raises:
      UsageError: there is no such subcommand, or an option does not fit.
    """
    name = first_word(words, subcommands, program)
    found = subcommands[name]
    found.run(options_of(found, words[1:], f"{program} {name}"), console)


def first_word(words: Sequence[str], subcommands: Collection[str], program: str) -> str:
    """Return the subcommand that the first word names.

    Raises:
      UsageError: there is no word, or no such subcommand.
    """
    if words and words[0] in subcommands:
        return words[0]
    given = f"'{words[0]}' is no subcommand of {program}" if words else f"{program} needs a subcommand"
    raise UsageError(f"{given}: choose from {', '.join(subcommands)}; see {program} --help")


def options_of(subcommand: Subcommand, words: Sequence[str], program: str) -> Any:
    """Parse the options of a subcommand. --preset, if it has presets, selects the values of flags that are not given.

    Raises:
      UsageError: there is no such preset, or an option does not fit.
    """
    default, rest = subcommand.default, list(words)
    if subcommand.presets:
        presets = {default.preset: default, **subcommand.presets}
        name, rest = chosen_preset(presets, rest, program, program.rpartition(" ")[2])
        default = presets[name]
    return parse_dataclass(subcommand.options, rest, program, subcommand.about, default)
