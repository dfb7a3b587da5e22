"""Modules of the user's, which register cells, parametrizations and optimizers when they are imported."""

import importlib
from pathlib import PurePath
from types import ModuleType

from lrpt.errors import UsageError

_imported: dict[str, None] = {}
"""Modules that the user has named in this process, in order, each once."""


def import_module(name: str, *, remember: bool = True) -> ModuleType:
    """Import a module that the user named, and remember its name.

    Raises:
      UsageError: there is no such module.
    """
    try:
        if not name or name.startswith("."):  # importlib has no ImportError for these
            raise ImportError("no name of a module")
        module = importlib.import_module(name)
    except ImportError as error:
        is_path = name.endswith(".py") or "/" in name
        advice = (
            f"give its name, {PurePath(name).stem}, in its folder or with the folder on PYTHONPATH"
            if is_path
            else f"name one that `python -c 'import {name}'` finds"
        )
        raise UsageError(f"module '{name}' cannot be imported ({error}): {advice}") from None
    except Exception as error:
        error.add_note(f"lrpt: module '{name}' failed while it was imported: correct it")  # the traceback says where
        raise
    if remember:
        _imported[name] = None
    return module


def imported() -> tuple[str, ...]:
    """Return the names of all modules that were imported by `import_module`, for other processes that train the same runs."""
    return tuple(_imported)
