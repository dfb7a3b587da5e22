"""Arrays within `jax.shard_map`: the axes of the mesh over which they vary.

`shard_map` checks by default over which axes of the mesh each array varies, and a scan over such arrays needs a carry that varies as its
outputs do. A state of zeros, or parameters that are the same on all devices, vary over none.
"""

from typing import Any

import jax
from jax import lax
from jax.core import Tracer
from jaxtyping import PyTree

from lrpt.recurrence.leaves import distinct


def alike(tree: PyTree) -> PyTree:
    """Return the tree with all its arrays varying over the axes over which any of them varies: the same arrays outside of `shard_map`.

    Values stay as they are. In the backward pass, the gradient of an array that varied over fewer axes is summed over the others.
    """
    axes = frozenset[str]().union(*map(_axes, jax.tree.leaves(tree)))
    if not axes:
        return tree
    leaves, build = distinct(tree)  # an array that stands in several places stays one array
    return build([lax.pcast(leaf, tuple(sorted(axes - _axes(leaf))), to="varying") for leaf in leaves])


def _axes(leaf: Any) -> frozenset[str]:
    """Return the axes over which a leaf varies: none if it is a constant, or if JAX does not say."""
    of_type = jax.typeof(leaf) if isinstance(leaf, Tracer) else None
    return getattr(getattr(of_type, "manual_axis_type", None), "varying", frozenset())
