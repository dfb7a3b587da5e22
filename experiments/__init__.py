"""Experiments of the papers and the tools beside them: every entry is a command, `python -m experiments.NAME`."""

import importlib
import pkgutil
from types import ModuleType


def names() -> list[str]:
    """Return the names of all commands, sorted."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__) if not module.name.startswith("_"))


def module(name: str) -> ModuleType:
    """Import the module that holds the code of a command: `experiments.NAME`, or `experiments.NAME.command` where NAME is a folder."""
    found = importlib.import_module(f"{__name__}.{name}")
    return importlib.import_module(f"{found.__name__}.command") if hasattr(found, "__path__") else found
