"""Experiments of the papers and the tools beside them: every entry is a command, `python -m experiments.NAME`."""

import gc
import importlib
import json
import math
import os
import pkgutil
import signal
import sys
from functools import cache
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

COSTS = Path(__file__).parent / "results" / "costs.json"
"""what each preset costs: written by `experiments.costs`"""

UNITS = {"year": 8766, "day": 24, "hour": 1, "minute": 1 / 60}
"""hours"""

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


@cache
def read_costs(path: Path) -> dict[str, Any]:
    """Return the content of a file of costs. It is empty if the file is missing or damaged, because no command needs costs."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        costs = [cost for presets in content["presets"].values() for cost in presets.values()]
        intact = bool(_source(content)) and all(0 < cost[name] < math.inf for cost in costs for name in ("hours", "ratio", "update"))
    except (OSError, ValueError, TypeError, LookupError, AttributeError):
        return {}
    return content if intact else {}


def costs_of(name: str) -> dict[str, str]:
    """Return what the presets of an experiment cost, in words: {'paper': '5 hours on a core'}."""
    costs = read_costs(COSTS).get("presets", {}).get(name, {})
    return {preset: _in_words(cost["hours"], cost["measured"]) for preset, cost in costs.items()}


def source_of_costs() -> str:
    """Return a sentence on where the costs come from, or an empty string if there are none."""
    content = read_costs(COSTS)
    return _source(content) if content else ""


def _source(content: dict[str, Any]) -> str:
    return (
        f"Costs: processor time of one seed, with all updates and evaluations, without start and compilation, measured on "
        f"{_machine(content)}, beside other work, so two costs may differ threefold by chance; 'about' is an estimate from counts of "
        f"operations."
    )


def machine_of_costs() -> str:
    """Return where and when the costs were measured: 'a core (AMD EPYC) until 2026-11-23'; an empty string if there are none."""
    content = read_costs(COSTS)
    return _machine(content) if content else ""


def _machine(content: dict[str, Any]) -> str:
    return f"a core ({content['processor']}) until {content['date']}"


def _in_words(hours: float, measured: bool) -> str:
    """Return '12 minutes on a core', or 'about 12 minutes on a core' if it was not measured."""
    unit, size = next((one for one in UNITS.items() if hours >= one[1]), ("second", 1 / 3600))
    value = hours / size
    number = max(round(value), 1) if 3 <= value < 100 or unit == "second" else float(f"{value:.2g}")
    return f"{'' if measured else 'about '}{number:,g} {unit}{'s' if number != 1 else ''} on a core"
