"""Lists every experiment: what it reproduces, its presets with what they cost, and the tools beside them.

python -m experiments
"""

import sys
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import experiments
from lrpt.cli.experiment import Experiment
from lrpt.cli.flags import parse_dataclass
from lrpt.runs.console import Console, Explained

PROGRAM = "python -m experiments"
WIDTH = 100


@dataclass(frozen=True)
class Options:
    """What a command line says: nothing but --help."""


def modules() -> list[ModuleType]:
    """Every module of the package, by name."""
    return [experiments.module(name) for name in experiments.names()]


def listing(found: Sequence[ModuleType]) -> Iterator[str]:
    """The lines that are printed.

    Args:
      found: modules; one that holds an `EXPERIMENT` is an experiment, one that has a `main` of its own is a tool.
    """
    held = [module.EXPERIMENT for module in found if hasattr(module, "EXPERIMENT")]
    tools = {module.__name__.split(".")[1]: module for module in found if _is_tool(module)}
    yield f"Experiments: {PROGRAM}.NAME [--preset PRESET] [--help]"
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
    for name, preset in experiment.presets.items():
        yield from _entry(f"    {name:{width}}", f"{preset.about} [{preset.cost}]")


def _entry(start: str, text: str) -> list[str]:
    """`text` beside `start`, broken into lines that begin below each other."""
    return textwrap.wrap(text, WIDTH, initial_indent=f"{start}  ", subsequent_indent=" " * (len(start) + 2))


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the list; exits with 2 where a flag is wrong."""
    with Explained(Console()):
        parse_dataclass(Options, sys.argv[1:] if arguments is None else arguments, PROGRAM, "Lists experiments and tools.", Options())
    print("\n".join(listing(modules())))


if __name__ == "__main__":
    main()
