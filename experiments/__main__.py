"""List of all experiments with what they reproduce, their presets and costs, and of the tools.

python -m experiments
"""

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import experiments
from lrpt.cli.command import leaving_with_a_line
from lrpt.cli.experiment import Experiment
from lrpt.cli.flags import command_line, parse_dataclass
from lrpt.cli.imports import without_imports
from lrpt.errors import UsageError
from lrpt.runs.console import Console

PROGRAM = "python -m experiments"
WIDTH = 100


@dataclass(frozen=True)
class Options:
    """Flags of the command: only --help."""


def modules() -> list[ModuleType]:
    """Import every module of the package, in order of names."""
    return [experiments.module(name) for name in experiments.names()]


def listing(found: Sequence[ModuleType]) -> Iterator[str]:
    """Yield the lines of the list.

    Args:
      found: modules. A module with an `EXPERIMENT` is an experiment, a module that defines `main` is a tool.
    """
    held = [module.EXPERIMENT for module in found if hasattr(module, "EXPERIMENT")]
    tools = {module.__name__.split(".")[1]: module for module in found if _is_tool(module)}
    yield f"Experiments: {PROGRAM}.NAME [--preset PRESET] [--help]"
    yield from _entry("", experiments.source_of_costs())
    for experiment in held:
        yield from ["", *_experiment(experiment)]
    yield from ["", f"Tools: {PROGRAM}.NAME [--help]", ""]
    width = max(map(len, tools), default=0)
    for name, module in tools.items():
        yield from _entry(f"  {name:{width}}", (module.__doc__ or "").partition("\n")[0])


def _is_tool(module: ModuleType) -> bool:
    return getattr(getattr(module, "main", None), "__module__", None) == module.__name__


def _experiment(experiment: Experiment[Any]) -> Iterator[str]:
    yield experiment.name
    yield from _entry("", experiment.about)
    yield from _entry("", f"Reproduces: {experiment.reproduces}.")
    width = max(map(len, experiment.presets))
    for name in experiment.presets:
        yield from _entry(f"    {name:{width}}", experiment.listed(name))


def _entry(start: str, text: str) -> list[str]:
    """Wrap `text` beside `start`, with all lines of the text aligned."""
    return textwrap.wrap(text, WIDTH, initial_indent=f"{start}  ", subsequent_indent=" " * (len(start) + 2))


def _about_word(word: str) -> str:
    """Return the message for a word that is no flag: how to run the command of this name, if there is one."""
    if word in experiments.names():
        return f"{PROGRAM} takes no '{word}': run it as {PROGRAM}.{word}"
    return f"'{word}' is no experiment: `{PROGRAM}` lists them; run one as {PROGRAM}.NAME"


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the list. Exit with 2 if a flag is wrong."""
    with leaving_with_a_line(Console()):
        words = without_imports(command_line(arguments))
        if words and not words[0].startswith("-"):
            raise UsageError(_about_word(words[0]))
        parse_dataclass(Options, words, PROGRAM, "List experiments and tools.", Options())
        print("\n".join(listing(modules())))


if __name__ == "__main__":
    main()
