"""Sequences whose rows are sharded over the explicit axes of a mesh (`jax.make_mesh` makes explicit axes by default).

With explicit axes, the sharding of an array is part of its type. A scan then needs a state that is sharded as its inputs are, and a product
over a sharded axis needs to be told where its result goes. Here the compiler decides both, as with axes of type Auto.
"""

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec, auto_axes
from jaxtyping import PyTree

from lrpt.recurrence.leaves import distinct


def with_auto_axes(
    run: Callable[..., tuple[Any, Any]], params: PyTree, carry: PyTree, xs: PyTree, mask: Any, *, time: bool
) -> tuple[PyTree, PyTree]:
    """Call `run(params, carry, xs, mask)`. If an argument is sharded over explicit axes, the function sees them as Auto.

    Args:
      run: returns (carry, outputs).
      params: parameters.
      carry: state before the first step, leaves (b, ...).
      xs: inputs, leaves (t, b, ...).
      mask: padding mask (t, b), or None.
      time: whether outputs have an axis of time before that of rows.

    Returns:
      What `run` returns, sharded by rows as the inputs are.
    """
    arguments = params, carry, xs, mask
    mesh = _mesh_of(arguments)
    if mesh is None:
        return run(*arguments)
    rows = next(filter(None, _axes_of_rows(carry, (xs, mask))), None)
    count = jax.tree.leaves(xs)[0].shape[1]

    def shardings(tree: PyTree, axis: int) -> Any:
        def sharding(leaf: Any) -> NamedSharding:
            by_rows = leaf.ndim > axis and leaf.shape[axis] == count
            return NamedSharding(mesh, PartitionSpec(*[None] * axis, rows) if by_rows else PartitionSpec())

        return jax.tree.map(sharding, tree)

    leaves, build = distinct(arguments)  # an array that stands in several places stays one array
    after, ys = jax.eval_shape(lambda leaves: run(*build(leaves)), _unsharded(leaves))
    compiled: Any = auto_axes(lambda leaves: run(*build(leaves)), out_sharding=(shardings(after, 0), shardings(ys, int(time))))
    return compiled(leaves)


def replicated(function: Callable[[PyTree], PyTree], params: PyTree) -> PyTree:
    """Call a function. If a parameter is sharded over explicit axes, the function sees them as Auto, and its results are replicated."""
    mesh = _mesh_of(params)
    if mesh is None:
        return function(params)
    shardings = jax.tree.map(lambda _: NamedSharding(mesh, PartitionSpec()), jax.eval_shape(function, _unsharded(params)))
    compiled: Any = auto_axes(function, out_sharding=shardings)
    return compiled(params)


def _unsharded(tree: PyTree) -> Any:
    return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(jnp.shape(leaf), jnp.result_type(leaf)), tree)


def _mesh_of(tree: PyTree) -> Any:
    """Return the first mesh over whose explicit axes an array of a tree is sharded, None if there is none."""
    arrays = [leaf for leaf in jax.tree.leaves(tree) if isinstance(leaf, jax.Array)]  # a matrix of a user may be no pytree
    return next(filter(None, map(_explicit_mesh, arrays)), None)


def _explicit_mesh(leaf: Any) -> Any:
    """Return the mesh over whose explicit axes an array is sharded, None if there is none."""
    sharding = jax.typeof(leaf).sharding
    named = [name for part in sharding.spec if part is not None for name in (part if isinstance(part, tuple) else (part,))]
    return sharding.mesh if set(named) & set(sharding.mesh.explicit_axes) else None


def _axes_of_rows(carry: PyTree, sequences: Any) -> Iterator[Any]:
    """Yield how each array is sharded along its rows."""
    for axis, tree in ((1, sequences), (0, carry)):
        for leaf in jax.tree.leaves(tree):
            spec = jax.typeof(leaf).sharding.spec
            yield spec[axis] if len(spec) > axis else None
