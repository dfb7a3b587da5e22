"""Tables of entries by name, to which users add their own."""

from collections import UserDict
from collections.abc import Collection, Mapping
from typing import Any, NoReturn, Self, TypeVar

import jax

from lrpt.errors import UnknownName, listed

T = TypeVar("T")


_tables: list["Table[Any]"] = []
"""All tables, in the order of their definition."""


def entries_named(names: Collection[str]) -> list[Any]:
    """Return the entries that have one of these names, from all tables."""
    return [table.data[name] for table in _tables for name in sorted(names) if name in table.data]


class UnknownEntry(UnknownName, KeyError):
    """A name that was looked up in a table and is not in it."""

    __str__ = UnknownName.__str__  # that of a KeyError quotes the message


class Table(UserDict[str, T]):
    """Entries by name. Replacing or removing an entry clears the caches of JAX.

    Configurations, and so Flax modules, hold names. A function that was compiled for a module with a name would otherwise run the old entry
    for a module with the new one, as in a notebook whose cell is run again. Adding an entry under a new name clears nothing.

    It is a `UserDict`, not a `dict`, because `update`, `pop` and the other methods of a `dict` would not call the two methods below.
    """

    def __init__(self, entries: Mapping[str, T] | None = None) -> None:
        super().__init__(entries or {})
        _tables.append(self)

    def __missing__(self, name: str) -> NoReturn:
        """Raise an UnknownEntry that lists the names, or the closest ones."""
        raise UnknownEntry(f"the name is {name!r}: choose from {listed(name, self.data)}")

    def __setitem__(self, name: str, entry: T) -> None:
        if name in self.data and self.data[name] is not entry:
            jax.clear_caches()
        self.data[name] = entry

    def __delitem__(self, name: str) -> None:
        del self.data[name]
        jax.clear_caches()  # another entry may get this name later

    def __ior__(self, others: Mapping[str, T]) -> Self:  # type: ignore[override]  # that of `UserDict` adds to `data` at once
        self.update(others)
        return self
