"""Exceptions with a message for the user, and checks of configuration values that raise them."""

import difflib
import errno
import math
import os
from collections.abc import Collection, Iterator, Mapping
from numbers import Integral, Real
from pathlib import Path
from typing import Any

WRONG_FLAG = 2
"""exit status"""


class UsageError(ValueError):
    """An error that the user can correct. The message names the given value, what is allowed, and what to do.

    The command line prints the message on one line and exits with `code`. Library callers see an ordinary `ValueError`.
    """

    def __init__(self, message: str, code: int = WRONG_FLAG) -> None:
        super().__init__(message)
        self.code = code


LARGEST = (2 - 2**-23) * 2.0**127
"""the largest number of float32"""

LARGEST_COUNT = 2**31 - 1
"""the largest integer of int32, in which compiled programs count"""

SEEDS = 2**32
"""the number of seeds that JAX distinguishes"""

LISTED = 200
"""Largest number of characters of the names in a message. A longer list is cut to its `CLOSEST` closest names."""

CLOSEST = 5


class UnknownName(UsageError):
    """A name that a table does not have. A module of the user's may add it."""


def check_choice(flag: str, value: str, choices: Collection[str]) -> None:
    """Raise a UsageError unless `value` is one of `choices`; if these are a mapping, an UnknownName. The message names the choices."""
    if not isinstance(value, str) or value not in choices:
        kind = UnknownName if isinstance(choices, Mapping) else UsageError
        raise kind(f"{flag} is '{value}': choose from {listed(value, choices)}")


def listed(value: Any, choices: Collection[str]) -> str:
    """Return the choices as text; of a list that is too long, those closest to the value in any case, first those that it abbreviates."""
    joined = ", ".join(choices)
    if len(joined) <= LISTED:
        return joined
    names = {choice.casefold(): choice for choice in choices}  # users write names of cells as papers do: GRU
    sought = str(value).casefold()
    abbreviated = [name for name in names if _abbreviates(sought, name)]
    closest = dict.fromkeys([*abbreviated, *difflib.get_close_matches(sought, names, CLOSEST, cutoff=0)])
    return f"{', '.join(names[name] for name in [*closest][:CLOSEST])} (the closest of {len(choices)})"


def _abbreviates(short: str, name: str) -> bool:
    """Return whether two letters or more begin words of a name, in their order: lrd, low_rank_plus_diagonal."""
    words = iter(name.split("_"))
    return len(short) > 1 and all(any(word.startswith(letter) for word in words) for letter in short)


def check_distinct(flag: str, values: Collection[str]) -> None:
    """Raise a UsageError if `values` is empty or contains a value twice."""
    if not values or len(set(values)) < len(values):
        raise UsageError(f"{flag} is {' '.join(values) or 'empty'}: give at least one, and none twice")


def check_at_least(least: int, config: object, *flags: str) -> None:
    """Raise a UsageError if the value of one of `flags` is no integer, or below `least`; None is allowed.

    The flag 'train.updates' stands for the field `config.updates`.
    """
    check_integers(config, *flags)
    for flag, value in _values(config, flags):
        if value is not None and not value >= least:
            raise UsageError(f"{flag} is {value}: expected {least} or more")


def check_at_most(most: int, config: object, *flags: str) -> None:
    """Raise a UsageError if the value of one of `flags` is above `most`; None is allowed. Fields as in `check_at_least`."""
    for flag, value in _values(config, flags):
        if value is not None and value > most:
            raise UsageError(f"{flag} is {value}: expected {most} or less")


def check_integers(config: object, *flags: str, optional: bool = True) -> None:
    """Raise a UsageError unless the value of each of `flags` is an integer, and no boolean. Fields as in `check_at_least`.

    Args:
      config: an object with these fields.
      flags: names of the fields.
      optional: whether None is allowed.
    """
    for flag, value in _values(config, flags):
        if not (optional and value is None) and not is_integer(value):
            raise UsageError(f"{flag} is {value!r}: expected an integer")


def is_integer(value: object) -> bool:
    """Return whether a value is an integer of Python or NumPy. Booleans are none."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def in_words(value: object) -> str:
    """Return what a value is, for a message: 'an array', 'None', 'a list'."""
    if value is None or hasattr(value, "dtype"):
        return "None" if value is None else "an array"
    return f"a {type(value).__name__}"


def check_count(name: str, value: object, least: int = 1) -> None:
    """Raise a UsageError unless an argument is an integer, `least` or more."""
    if not is_integer(value) or value < least:  # type: ignore[operator]
        raise UsageError(f"{name} is {value!r}: expected an integer, {least} or more")


def check_counts(**values: object) -> None:
    """Raise a UsageError unless each of these arguments is an integer, 1 or more."""
    for name, value in values.items():
        check_count(name, value)


def check_seed(seed: object, flag: str = "seed") -> None:
    """Raise a UsageError unless a seed is an integer that JAX distinguishes from other seeds. `flag` names it in the message."""
    if not is_integer(seed) or not 0 <= seed < SEEDS:  # type: ignore[operator]
        raise UsageError(f"{flag} is {seed!r}: expected an integer from 0 to {SEEDS - 1}")


def check_booleans(config: object, *flags: str) -> None:
    """Raise a UsageError unless the value of each of `flags` is True or False. Fields as in `check_at_least`."""
    for flag, value in _values(config, flags):
        if not isinstance(value, bool):
            raise UsageError(f"{flag} is {value!r}: expected True or False")


def check_numbers(config: object, *flags: str, optional: bool = False) -> None:
    """Raise a UsageError unless the value of each of `flags` is a real number, and no boolean. Arguments as in `check_integers`."""
    for flag, value in _values(config, flags):
        if not (optional and value is None) and (not isinstance(value, Real) or isinstance(value, bool)):
            raise UsageError(f"{flag} is {value!r}: expected a number")


def check_finite(config: object, *flags: str) -> None:
    """Raise a UsageError unless the value of each of `flags` is finite in float32, as parameters are. Fields as in `check_at_least`."""
    check_numbers(config, *flags)
    for flag, value in _values(config, flags):
        if not abs(value) <= LARGEST:  # false for NaN, too
            raise UsageError(f"{flag} is {value}: expected a finite number of float32, at most {LARGEST:.1e} in size")


def check_positive(config: object, *flags: str) -> None:
    """Raise a UsageError unless the value of each of `flags` is a finite number above 0. Fields as in `check_at_least`."""
    check_numbers(config, *flags)
    for flag, value in _values(config, flags):
        if not 0 < value < math.inf:
            raise UsageError(f"{flag} is {value}: expected a finite number above 0")


def check_not_negative(config: object, *flags: str) -> None:
    """Raise a UsageError unless the value of each of `flags` is a finite number, 0 or more. Fields as in `check_at_least`."""
    check_numbers(config, *flags)
    for flag, value in _values(config, flags):
        if not 0 <= value < math.inf:
            raise UsageError(f"{flag} is {value}: expected a finite number, 0 or more")


def check_shares(config: object, *flags: str) -> None:
    """Raise a UsageError unless the value of each of `flags` is a share: at least 0 and below 1. Fields as in `check_at_least`."""
    check_numbers(config, *flags)
    for flag, value in _values(config, flags):
        if not 0 <= value < 1:
            raise UsageError(f"{flag} is {value}: expected a share from 0 to below 1")


def _values(config: object, flags: Collection[str]) -> Iterator[tuple[str, Any]]:
    return ((flag, getattr(config, flag.rpartition(".")[2])) for flag in flags)


class RemoteFailure(Exception):
    """A failure of the primary process, which has printed it. The other processes end with the same `code` and print nothing."""

    def __init__(self, message: str, code: int = 1) -> None:
        super().__init__(message)
        self.code = code


INTACT = "what was written before is intact, and the same command resumes from it"
"""End of an error message of commands that train."""


def line_of(error: OSError, intact: str = INTACT) -> str:
    """Return the line about a file that cannot be written: the reason, the file, and what to do. `intact` ends it.

    If something of another kind has the name of the file, a command that trains would fail again. The line then says so.
    """
    if intact == INTACT and (obstacle := obstacle_of(error)):
        return f"{obstacle}: remove or rename it, or name another --workdir, and repeat the command"
    where = f" ({error.filename})" if error.filename else ""
    return f"{error.strerror or error}{where}: {'free space there; ' if error.errno == errno.ENOSPC else ''}{intact}"


def obstacle_of(error: OSError) -> str:
    """Return what has the name of a file or directory and is none, such as 'k/metrics.jsonl is a directory'; '' for other errors."""
    kinds = {errno.EISDIR: ("directory",), errno.EINVAL: ("pipe",), errno.EEXIST: ("file", "pipe"), errno.ENOTDIR: ("file", "pipe")}
    if error.errno not in kinds or not isinstance(error.filename, str | bytes | os.PathLike):
        return ""
    path = Path(os.fsdecode(error.filename))
    found = next((each for each in (path, *path.parents) if each.exists()), path) if error.errno == errno.ENOTDIR else path
    kind = "directory" if found.is_dir() else "file" if found.is_file() else "pipe" if found.exists() else ""
    name = {"file": "a file, and no directory", "pipe": "a device or a pipe"}.get(kind, f"a {kind}")
    return f"{found} is {name}" if kind in kinds[error.errno] else ""
