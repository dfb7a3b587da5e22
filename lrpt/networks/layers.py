"""Parameters of a stack, layer by layer."""

from typing import Any, Protocol, runtime_checkable

import jax
from jaxtyping import Array, PyTree

from lrpt.cells.stacked import layer_of
from lrpt.specs import paths_by_name


@runtime_checkable
class Layered(Protocol):
    """A network that can sort its parameters by layer."""

    def by_layer(self, params: PyTree) -> dict[int, list[Array]]:
        """Return the arrays of each layer, by its number from 0, of a tree like the network's parameters, such as gradients."""
        ...


def split_by_layer(template: PyTree, stored: Any) -> dict[int, list[Array]]:
    """Return the arrays of each layer of a stack by the layer's number; an empty dict for a cell that is no stack.

    Args:
      template: the template of the cell.
      stored: a tree with the structure of its `Parameters`: arrays below role and name.
    """
    paths = paths_by_name(template)
    found: dict[int, list[Array]] = {}
    for keys, leaf in jax.tree_util.tree_leaves_with_path(stored):
        layer = layer_of(template, next(paths[key.key] for key in keys if getattr(key, "key", None) in paths))
        if layer is not None:
            found.setdefault(layer, []).append(leaf)
    return found
