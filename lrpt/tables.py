"""Tables of entries by name, to which users add their own."""

import sys
from collections import UserDict
from collections.abc import Collection, Mapping
from typing import Any, NoReturn, Self, TypeVar

import jax

from lrpt.errors import UnknownName, listed

T = TypeVar("T")


_tables: list["Table[Any]"] = []
"""The tables of this library."""


def registrars(names: Collection[str]) -> set[str]:
    """Return the names of the modules that registered entries under these names in tables of this library."""
    return {table.registrars[name] for table in _tables for name in names if name in table.data}


def _caller() -> str:
    """Return the name of the module that uses a table."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__") in (__name__, "collections", "collections.abc", "_collections_abc"):
        frame = frame.f_back
    return str(frame.f_globals.get("__name__"))


class UnknownEntry(UnknownName, KeyError):
    """A name that was looked up in a table and is not in it."""

    __str__ = UnknownName.__str__  # that of a KeyError quotes the message


class Table(UserDict[str, T]):
    """Entries by name. Replacing or removing an entry clears the caches of JAX.

    Configurations, and so Flax modules, hold names. A function that was compiled for a module with a name would otherwise run the old entry
    for a module with the new one, as in a notebook whose cell is run again. Adding an entry under a new name clears nothing.

    `registrars` has the name of the module that set each entry.

    It is a `UserDict`, not a `dict`, because `update`, `pop` and the other methods of a `dict` would not call the two methods below.
    """

    def __init__(self, entries: Mapping[str, T] | None = None) -> None:
        self.registrars: dict[str, str] = {}
        super().__init__(entries or {})
        if _caller().partition(".")[0] == "lrpt":
            _tables.append(self)

    def __missing__(self, name: str) -> NoReturn:
        """Raise an UnknownEntry that lists the names, or the closest ones."""
        raise UnknownEntry(f"the name is {name!r}: choose from {listed(name, self.data)}")

    def __setitem__(self, name: str, entry: T) -> None:
        if name in self.data and self.data[name] is entry:
            return
        if name in self.data:
            jax.clear_caches()
        self.data[name], self.registrars[name] = entry, _caller()

    def __delitem__(self, name: str) -> None:
        del self.data[name]
        jax.clear_caches()  # another entry may get this name later

    def __ior__(self, others: Mapping[str, T]) -> Self:  # type: ignore[override]  # that of `UserDict` adds to `data` at once
        self.update(others)
        return self
