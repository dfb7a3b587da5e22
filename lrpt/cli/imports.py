"""The flag `--import MODULE` of every command: a module of the user's that registers cells, parametrizations or optimizers."""

from collections.abc import Sequence

from lrpt.errors import UsageError
from lrpt.runs.imports import import_module, imported

FLAG = "--import"
ABOUT = f"{FLAG} MODULE (repeatable): first import a module of yours, which registers a cell, a parametrization or an optimizer."


def without_imports(arguments: Sequence[str]) -> list[str]:
    """Import what `--import` names, and return the other arguments: choices of flags depend on what is registered.

    Raises:
      UsageError: a flag without a module, or a module that cannot be imported.
    """
    words, others = iter(arguments), []
    for word in words:
        flag, equals, name = word.partition("=")
        if flag != FLAG:
            others.append(word)
            continue
        name = name if equals else next(words, "")
        if not name or name.startswith("-"):
            raise UsageError(f"{FLAG} names no module: give one, as in {FLAG} mine")
        import_module(name)
    return others


def flags_of_imports() -> list[str]:
    """Return the words with which a command that is proposed to the user imports what this one has imported."""
    return [word for name in imported() for word in (FLAG, name)]
