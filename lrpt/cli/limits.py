"""Estimates of the cost of a command before it starts: runs, transitions to compile, and bytes of memory.

The estimates are approximate for recurrent networks, and the limits are generous for published ones. A command is refused if it would hang
or fill the memory.
"""

import os
from collections.abc import Collection, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from lrpt.errors import UsageError
from lrpt.networks.protocol import NetworkConfig, integer_of
from lrpt.training.config import RunConfig, dense_width

RUNS = 10_000
"""limit of the runs of one command"""

TRANSITIONS = 1_000
"""limit of layers times depth, because transitions are compiled one after another"""

EXAMPLES = 20_000_000
"""limit of the examples that are drawn"""

UNITS = 200_000
"""limit of the units of a state: with more, the first update and its evaluation take minutes on a core"""

BYTES_PER_BYTE_OF_A_FILE = 8
"""bytes of memory for each byte of a file: its text, the symbols as numbers, and copies of both while it is read"""

MATRICES = 3
"""recurrent matrices of a transition, as in a GRU"""

COPIES = 16
"""bytes for each parameter: the parameter, its gradient, and two values of the optimizer"""

KEPT = 36
"""bytes that the backward pass stores for each unit, row and step"""

STEPS = 64
"""steps of a sequence, if the configuration does not give its length"""

HUGE_ADVICE = ", or add --huge to go on"

SETTINGS_OF_SIZE = ("train_size", "test_size", "valid_size", "tunes")
"""settings of data whose sum is the number of examples that are drawn"""

SETTINGS_OF_LENGTH = ("length", "lag", "steps")
"""settings of data that give the length of a sequence; the first that is given counts"""

FALLBACK = 32 * 2**30
"""bytes of memory, if the system does not report it"""

CONTAINER = Path("/sys/fs/cgroup/memory.max")
"""file with the limit of a container on Linux, 'max' if there is none"""


def refuse(what: str, estimate: int, limit: int, unit: str = "", advice: str = "ask for less") -> None:
    """Raise a UsageError if an estimate is above its limit.

    Args:
      what: what the estimate is of.
      estimate: its number.
      limit: the largest number that is allowed.
      unit: written behind both numbers.
      advice: what to do; `--huge`, which every command with limits has, is added to it.
    """
    if estimate > limit:
        raise UsageError(f"{what}: about {_shown(estimate)}{unit}, and the limit is {_shown(limit)}{unit}: {advice}{HUGE_ADVICE}")


def refuse_memory(what: str, estimate: int, advice: str) -> None:
    """Raise a UsageError if what is asked for needs more bytes than there may be. Arguments as in `refuse`."""
    if estimate > memory_limit():
        needed, limit = (_shown(number >> 20) for number in (estimate, memory_limit()))
        raise UsageError(f"{what} would need about {needed} MiB of memory, and the limit is {limit} MiB: {advice}{HUGE_ADVICE}")


def _shown(number: int) -> str:
    return f"{number:,}" if number < 10**15 else f"{number:.1e}"


def check_runs(count: int, huge: bool) -> None:
    """Raise a UsageError if a command asks for too many runs."""
    if not huge:
        refuse("runs", count, RUNS, advice="choose fewer seeds, or fewer settings to combine")


def check_sizes(configs: Iterable[RunConfig[Any]], huge: bool) -> None:
    """Raise a UsageError if a model or its data is too large to compile or to hold.

    Args:
      configs: configurations of runs.
      huge: refuse nothing.
    """
    configs = [] if huge else list(configs)
    for path in dict.fromkeys(path for config in configs if (path := getattr(config.data, "file", None)) is not None):
        refuse_memory(f"data.file is {path}: reading it", file_bytes(path) * BYTES_PER_BYTE_OF_A_FILE, "choose a smaller --data.file")
    for config in configs:
        model, data = config.model, config.data
        refuse("model.layers times model.depth", _transitions(model), TRANSITIONS, advice=smaller(("model", model, ("layers", "depth"))))
        refuse("examples of the data", examples(data), EXAMPLES, advice=smaller(("data", data, SETTINGS_OF_SIZE)))
        refuse_memory("the data", examples(data) * steps(data) * 8, smaller(_length(data), ("data", data, SETTINGS_OF_SIZE)))
        refuse_memory("the network", model_bytes(config), _smaller_network(config))
        refuse("model.size", integer_of(model, "size", 0), UNITS, " units", smaller(("model", model, ("size",))))


Flags = tuple[str, Any, Collection[str]]
"""Settings: the part of their flags before the name, the configuration that has them, and their names, of which some may be missing."""


def _smaller_network(config: RunConfig[Any]) -> str:
    """Return the advice for a network that needs too much memory: the settings that `model_bytes` reads."""
    model = config.model
    widths = ("model", model, ("size",)), ("model.embeddings", getattr(model, "embeddings", None), ("width",))
    return smaller(*widths, ("train", config.train, ("batch_size",)), _length(config.data))


def _length(data: Any) -> Flags:
    """Return the setting that `steps` reads."""
    return "data", data, [name for name in SETTINGS_OF_LENGTH if isinstance(getattr(data, name, None), int)][:1]


def smaller(*settings: Flags) -> str:
    """Return the advice to choose a smaller value of one of these settings: their flags and values."""
    found = {f"--{group}.{name}": getattr(config, name, None) for group, config, names in settings for name in names}
    flags = [f"{flag.replace('_', '-')} ({_shown(value)})" for flag, value in found.items() if isinstance(value, int)]
    *others, last = flags or ["network"]
    return f"choose a smaller {', '.join(others)} or {last}" if others else f"choose a smaller {last}"


SUFFIXES_IN_FOLDERS = (".abc", ".mat")
"""Ends of the names of files that a task reads if it is given their folder."""


def file_bytes(path: Path) -> int:
    """Return the size of a file, or of all files that a task reads from a folder. Unreadable ones count as 0; their reader names them."""
    with suppress(OSError):
        if not path.is_dir():
            return path.stat().st_size
        return sum(each.stat().st_size for each in path.rglob("*") if each.suffix.lower() in SUFFIXES_IN_FOLDERS and each.is_file())
    return 0


def examples(data: Any) -> int:
    """Return the number of examples that are drawn; 0 if they are read from files."""
    return sum(getattr(data, name, None) or 0 for name in SETTINGS_OF_SIZE)


def steps(data: Any) -> int:
    """Estimate the number of steps of a sequence."""
    found = (getattr(data, name, None) for name in SETTINGS_OF_LENGTH)
    return next((number for number in found if isinstance(number, int)), STEPS)


def model_bytes(config: RunConfig[Any]) -> int:
    """Estimate the bytes of the parameters, of a short chunk of steps in training, and of one step of evaluation."""
    model, train, size = config.model, config.train, integer_of(config.model, "size", 0)
    embedded = getattr(getattr(model, "embeddings", None), "width", None) or 0
    width, parameters = max(size, embedded), recurrent_parameters(model) + MATRICES * size * embedded
    rows = 2 * KEPT * _transitions(model) * train.batch_size + COPIES * train.evaluation_rows
    states = 4 * train.batch_size * steps(config.data) // 32  # the fast loop keeps the states between chunks
    return COPIES * parameters + (rows + states) * width


def recurrent_parameters(model: NetworkConfig) -> int:
    """Return about how many parameters the recurrent matrices have."""
    inner = dense_width(model) or 2 * integer_of(getattr(model, "matrices", None), "rank", 0)
    return MATRICES * _transitions(model) * integer_of(model, "size", 0) * inner


def _transitions(model: NetworkConfig) -> int:
    return integer_of(model, "layers", 1) * integer_of(model, "depth", 1)


def memory_limit() -> int:
    """Return half of the memory of this machine, or of its container, in bytes."""
    try:
        machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        machine = FALLBACK
    with suppress(OSError, ValueError):
        return min(machine, int(CONTAINER.read_text())) // 2
    return machine // 2
