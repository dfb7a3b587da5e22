"""Leaves of a cell's parameter tree: operators and raw arrays, arrays that occur more than once, differentiable arrays."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.custom_derivatives import SymbolicZero
from jaxtyping import Array, PyTree

from lrpt.errors import UsageError
from lrpt.matrices import is_operator
from lrpt.precision import at_least_single
from lrpt.pytrees import register_fields
from lrpt.recurrence.loops import in_words


@register_fields
@dataclass(frozen=True)
class Static:
    """A constant among the residuals of `jax.custom_vjp`: part of their structure, since JAX traces leaves, and `if` takes no tracer."""

    value: Any = field(metadata={"static": True})


class NotApplied(UsageError, AttributeError):
    """A cell's use of a matrix other than by `apply`. It is an AttributeError so that `hasattr` is False."""


class Intercepted:
    """An operator whose calls go through a function. It has no other attribute than `apply`."""

    __slots__ = ("_call", "_kind")

    def __init__(self, call: Callable[[Any], Any], kind: str) -> None:
        self._call, self._kind = call, kind

    def apply(self, v: Any) -> Any:
        return self._call(v)

    def __getattr__(self, name: str) -> Any:
        raise NotApplied(
            f"a cell read .{name} of a {self._kind} matrix, whose gradient the fast loop would lose: use only apply(v) in a step, "
            f"or run it with {in_words('plain')}"
        )


def accumulators(arrays: PyTree) -> PyTree:
    """Return zeros for sums of gradients of these arrays, of at least 32 bits: a sum of bfloat16 stops growing at 256 times its terms."""
    return jax.tree.map(lambda a: at_least_single(jnp.zeros_like(a)), arrays)


def added(total: PyTree, part: PyTree) -> PyTree:
    """Return a sum in the types of the total, which may have more bits than the part."""
    return jax.tree.map(lambda a, b: a + b.astype(a.dtype), total, part)


class Leaves(NamedTuple):
    """A parameter tree whose leaves are operators and raw arrays."""

    leaves: list[Any]
    treedef: Any

    @staticmethod
    def of(params: PyTree) -> "Leaves":
        """Return the leaves of a tree, with operators as leaves."""
        return Leaves(*jax.tree.flatten(params, is_leaf=is_operator))

    def raw(self) -> list[Any]:
        """Return the leaves that are no operators."""
        return [leaf for leaf in self.leaves if not is_operator(leaf)]

    def intercepted(self, call: Callable[[int, Any, Any], Any], raw: Sequence[Any]) -> Any:
        """Return the tree with operators that are applied by `call(number of the leaf, operator, v)`, and with other raw arrays."""
        rest = iter(raw)
        return self.treedef.unflatten(
            Intercepted(partial(call, i, leaf), type(leaf).__name__) if is_operator(leaf) else next(rest)
            for i, leaf in enumerate(self.leaves)
        )


class Distinct(NamedTuple):
    """The arrays of a tree, each once, and a function that builds the tree from such arrays."""

    arrays: list[Any]
    build: Callable[[Sequence[Any]], Any]


def distinct(params: PyTree) -> Distinct:
    """Separate the arrays of a tree, each once, from its structure."""
    leaves, treedef = jax.tree.flatten(params)
    arrays = list({id(leaf): leaf for leaf in leaves}.values())
    place = index_by_identity(arrays)
    of_leaves = [place[id(leaf)] for leaf in leaves]
    return Distinct(arrays, lambda new: treedef.unflatten([new[i] for i in of_leaves]))


def told_apart(arrays: Sequence[Any]) -> list[Any]:
    """Return the arrays, with a copy in place of every array that occurs a second time, so that each has an index in `index_by_identity`.

    Two arguments of a gradient may be one array object, and each needs its own gradient.
    """
    known: set[int] = set()
    found = []
    for array in arrays:
        found.append(jnp.array(array, copy=True) if id(array) in known else array)
        known.add(id(array))
    return found


def index_by_identity(arrays: Sequence[Any]) -> dict[int, int]:
    """Return the index of each array in a sequence, by the array's identity. The caller keeps the arrays alive."""
    return {id(array): i for i, array in enumerate(arrays)}


def is_inexact(array: Any) -> bool:
    """Return whether an array can be differentiated."""
    return jnp.issubdtype(jnp.result_type(array), jnp.inexact)


def inexact(tree: PyTree) -> tuple[list[Any], Callable[[Sequence[Any]], Any]]:
    """Return the differentiable leaves of a tree, and a function that replaces them."""
    leaves, treedef = jax.tree.flatten(tree)
    floating = [is_inexact(leaf) for leaf in leaves]

    def replace(new: Sequence[Any]) -> Any:
        rest = iter(new)
        return treedef.unflatten(next(rest) if f else leaf for leaf, f in zip(leaves, floating, strict=True))

    return [leaf for leaf, f in zip(leaves, floating, strict=True) if f], replace


def instantiated(cotangents: PyTree) -> list[Any]:
    """Return the cotangents of everything differentiable, with zeros for symbolic zeros."""
    leaves = [leaf for leaf in jax.tree.leaves(cotangents) if leaf.dtype != jax.dtypes.float0]
    return [_zeros(leaf.aval) if isinstance(leaf, SymbolicZero) else leaf for leaf in leaves]


def _zeros(of_type: Any) -> Array:
    """Return zeros of the type that `jax.typeof` returns: the axes of a mesh over which an array varies are part of it."""
    return jnp.zeros_like(jax.eval_shape(lambda a: a, of_type))


def or_none(tree: PyTree, cotangents: list[Any]) -> Any:
    """Return cotangents in the shape of `tree`, None for leaves that are not differentiable."""
    rest = iter(cotangents)
    return jax.tree.map(lambda leaf: next(rest) if is_inexact(leaf) else None, tree)
