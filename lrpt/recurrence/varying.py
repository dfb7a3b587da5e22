"""Arrays within `jax.shard_map`: the axes of the mesh over which they vary.

`shard_map` checks by default over which axes of the mesh each array varies, and a scan over such arrays needs a carry that varies as its
outputs do. A state of zeros, or parameters that are the same on all devices, vary over none.
"""

from typing import Any

import jax
from jax import lax
from jax.core import Tracer


def alike(tree: Any) -> Any:
    """Return the tree with all its arrays varying over the axes over which any of them varies: the same arrays outside of `shard_map`.

    Values stay as they are. In the backward pass, the gradient of an array that varied over fewer axes is summed over the others.
    """
    axes = frozenset[str]().union(*map(_axes, jax.tree.leaves(tree)))
    if not axes:
        return tree
    known: dict[int, tuple[Any, Any]] = {}  # an array that stands in several places stays one array

    def cast(leaf: Any) -> Any:
        if id(leaf) not in known:
            missing = tuple(sorted(axes - _axes(leaf)))
            known[id(leaf)] = leaf, lax.pcast(leaf, missing, to="varying") if missing else leaf
        return known[id(leaf)][1]

    return jax.tree.map(cast, tree)


def _axes(leaf: Any) -> frozenset[str]:
    """Return the axes over which a leaf varies: none if it is a constant, or if JAX does not say."""
    of_type = jax.typeof(leaf) if isinstance(leaf, Tracer) else None
    return getattr(getattr(of_type, "manual_axis_type", None), "varying", frozenset())
