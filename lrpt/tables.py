"""Tables of entries by name, to which users add their own."""

from typing import TypeVar

import jax

T = TypeVar("T")


class Table(dict[str, T]):
    """Entries by name. An entry that replaces another one clears the caches of JAX.

    Configurations, and so Flax modules, hold names. A function that was compiled for a module with a name would otherwise run the old entry
    for a module with the new one, as in a notebook whose cell is run again. Only `table[name] = entry` does so, not `update`, and not an
    entry under a name that was deleted before.
    """

    def __setitem__(self, name: str, entry: T) -> None:
        if name in self and self[name] is not entry:
            jax.clear_caches()
        super().__setitem__(name, entry)
