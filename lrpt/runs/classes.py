"""Classes of configurations by name, so that `config.json` says what it is read into."""

import importlib
import sys
from pathlib import Path
from typing import Any

from lrpt.errors import UsageError

CLASSES = "classes"
"""The group of `config.json` that names classes. It says how to read the file, and decides no number."""


def class_names(config: Any) -> dict[str, dict[str, str]]:
    """Return the classes of model and task, as `config.json` names them: {'classes': {'model': 'module:Class', 'data': 'module:Class'}}."""
    return {CLASSES: {name: qualified_name(type(getattr(config, name))) for name in ("model", "data")}}


def qualified_name(kind: type) -> str:
    """Return 'module:Class', with a name of the module by which it can be imported."""
    return f"{name_of_module(kind.__module__)}:{kind.__qualname__}"


def name_of_module(name: str) -> str:
    """Return the name by which a module can be imported; only that of the program, '__main__', is another one."""
    if name != "__main__":
        return name
    program = sys.modules["__main__"]
    if program.__spec__:  # python -m parity
        return program.__spec__.name
    return Path(getattr(program, "__file__", "__main__")).stem  # python parity.py; a notebook has no file


def class_of(name: str) -> Any:
    """Import the class of a qualified name.

    Raises:
      UsageError: no module of that name can be imported, or it has no such class.
    """
    module, _, qualified = name.partition(":")
    try:
        # A program that reads its own run must not be executed again under the name by which it can be imported.
        found: Any = sys.modules["__main__"] if module == name_of_module("__main__") else importlib.import_module(module)
        for part in qualified.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, ValueError):
        raise UsageError(
            f"class {name} cannot be imported: give the class itself to lrpt.load (model=, data=), or run where module '{module}' is found"
        ) from None
    return found
