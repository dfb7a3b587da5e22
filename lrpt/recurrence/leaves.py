"""Parameter trees of a cell taken apart: operators and raw arrays, arrays that stand in several places, what can be differentiated."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from lrpt.matrices import is_operator


class Tapped:
    """An operator whose calls go through a function, and which has nothing but `apply`."""

    __slots__ = ("_call", "_kind")

    def __init__(self, call: Callable[[Any], Any], kind: str) -> None:
        self._call, self._kind = call, kind

    def apply(self, v: Any) -> Any:
        return self._call(v)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"a cell read .{name} of a {self._kind} matrix, whose gradient the fast loop would lose: use only apply(v) in a step, "
            f"or run it with recurrence 'plain'"
        )


class Leaves(NamedTuple):
    """A parameter tree with its operators whole: `leaves` are operators and raw arrays."""

    leaves: list[Any]
    treedef: Any

    @staticmethod
    def of(params: Any) -> "Leaves":
        return Leaves(*jax.tree.flatten(params, is_leaf=is_operator))

    def raw(self) -> list[Any]:
        return [leaf for leaf in self.leaves if not is_operator(leaf)]

    def tapped(self, call: Callable[[int, Any, Any], Any], raw: Sequence[Any]) -> Any:
        """The tree with its operators applied by `call(which leaf, operator, v)` and its raw arrays replaced."""
        rest = iter(raw)
        taps = (
            Tapped(partial(call, i, leaf), type(leaf).__name__) if is_operator(leaf) else next(rest) for i, leaf in enumerate(self.leaves)
        )
        return self.treedef.unflatten(taps)


def distinct(params: Any) -> tuple[list[Any], Callable[[Sequence[Any]], Any]]:
    """The arrays of a tree, those that stand in it more than once only once, and a function that builds the tree from them."""
    leaves, treedef = jax.tree.flatten(params)
    arrays = list({id(leaf): leaf for leaf in leaves}.values())
    place = places(arrays)
    of_leaves = [place[id(leaf)] for leaf in leaves]
    return arrays, lambda new: treedef.unflatten([new[i] for i in of_leaves])


def places(arrays: Sequence[Any]) -> dict[int, int]:
    """Where each array stands, by its identity."""
    return {id(array): i for i, array in enumerate(arrays)}


def is_inexact(array: Any) -> bool:
    """Whether it can be differentiated."""
    return jnp.issubdtype(jnp.result_type(array), jnp.inexact)


def is_rows(v: Any) -> bool:
    """Whether an operator's input is rows of numbers, and not symbols or multiples of one-hot rows."""
    return isinstance(v, jax.Array) and is_inexact(v)


def inexact(tree: Any) -> tuple[list[Any], Callable[[Sequence[Any]], Any]]:
    """The leaves of a tree that can be differentiated, and a function that puts others in their place."""
    leaves, treedef = jax.tree.flatten(tree)
    floating = [is_inexact(leaf) for leaf in leaves]

    def replace(new: Sequence[Any]) -> Any:
        rest = iter(new)
        return treedef.unflatten(next(rest) if f else leaf for leaf, f in zip(leaves, floating, strict=True))

    return [leaf for leaf, f in zip(leaves, floating, strict=True) if f], replace
