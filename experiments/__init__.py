"""Experiments of the papers and the tools beside them: every entry is a command, `python -m experiments.NAME`."""

import gc
import importlib
import os
import pkgutil
import signal
import sys
from types import FrameType, ModuleType

STOPPED = b"lrpt: error: stopped by Ctrl-C: what was written before is intact\n"


def _stop(number: int, frame: FrameType | None) -> None:
    """End the program at once: extension modules that are being imported would turn a KeyboardInterrupt into other errors."""
    os.write(2, STOPPED)
    os._exit(128 + number)


if sys.argv[:1] == ["-m"]:  # `python -m experiments...` is starting
    gc.set_threshold(100_000, *gc.get_threshold()[1:])  # what is imported is never garbage, and looking for it takes a sixth of the start
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _stop)


def names() -> list[str]:
    """Return the names of all commands, sorted."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__) if not module.name.startswith("_"))


def module(name: str) -> ModuleType:
    """Import the module that holds the code of a command: `experiments.NAME`, or `experiments.NAME.command` if NAME is a folder."""
    found = importlib.import_module(f"{__name__}.{name}")
    return importlib.import_module(f"{found.__name__}.command") if hasattr(found, "__path__") else found
