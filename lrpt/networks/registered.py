"""A cache for results that depend on the tables of cells and parametrizations, whose entries may change, as in a notebook."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, wraps
from typing import Any, ParamSpec, TypeVar

from lrpt.cells import CELLS
from lrpt.parametrizations import PARAMETRIZATIONS

P = ParamSpec("P")
R = TypeVar("R")

SIZE = 64
"""Largest number of results that are kept of a function."""


@dataclass(frozen=True, eq=False)
class ByIdentity:
    """A key of a cache that equals another one of the same object only. It keeps the object alive, so that no other has its address."""

    entry: object

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ByIdentity) and self.entry is other.entry

    def __hash__(self) -> int:
        return id(self.entry)


def cached_by_tables(function: Callable[P, R]) -> Callable[P, R]:
    """Return a function that keeps its results by its arguments, and by the entries of both tables.

    Arguments that cannot be hashed, such as a configuration of the user's own with a list in it, are computed each time.
    """

    @lru_cache(maxsize=SIZE)
    def kept(entries: Any, *args: P.args, **kwargs: P.kwargs) -> R:
        return function(*args, **kwargs)

    @wraps(function)
    def found(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            hash((args, *kwargs.values()))
        except TypeError:
            return function(*args, **kwargs)
        return kept(_entries(), *args, **kwargs)

    return found


def _entries() -> tuple[tuple[str, ByIdentity], ...]:
    return tuple((name, ByIdentity(entry)) for table in (CELLS, PARAMETRIZATIONS) for name, entry in table.items())
