"""Seeing what a cell does with its matrices: every call of an operator, its input, and a place to hang the cotangent of its output."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from lrpt.matrices import Composite
from lrpt.recurrence.loops import Step


def is_operator(leaf: Any) -> bool:
    """Whether a node of a parameter tree is used by `apply`; everything else is a raw array to the loop."""
    return callable(getattr(leaf, "apply", None))


class Part(NamedTuple):
    """An operator that is not made of others, by the places of its arrays among those of the parameters."""

    treedef: Any
    places: tuple[int, ...]

    def of(self, arrays: Sequence[Any]) -> Any:
        """The operator itself."""
        return self.treedef.unflatten([arrays[i] for i in self.places])


class Calls(NamedTuple):
    """What a step does with its matrices, which is the same at every step: of each call, in order, the part and what comes out."""

    parts: list[Part]
    outputs: list[jax.ShapeDtypeStruct]

    def values(self) -> int:
        """Values of the largest output: batch size times width."""
        return max((math.prod(output.shape) for output in self.outputs), default=1)


class Record:
    """The calls of one step, with the input of each.

    A part that is applied to the same vector again, as the projection R that several matrices share, counts as one call.

    Args:
      arrays: those of the parameters.
      perturbations: one for each call, added to its output; by default nothing is added.
    """

    def __init__(self, arrays: Sequence[Any], perturbations: Sequence[Any] | None = None) -> None:
        self._places = places(arrays)
        self._perturbations = perturbations
        self._known: dict[tuple[Part, int], Any] = {}
        self.calls = Calls([], [])
        self.inputs: list[Any] = []

    def tapped(self, params: "Leaves", raw: Sequence[Any]) -> Any:
        """The tree with operators whose calls are recorded, and other raw arrays."""
        return params.tapped(lambda _, operator, v: self.call(operator, v), raw)

    def call(self, operator: Any, v: Any) -> Any:
        """operator.apply(v), recorded."""
        if isinstance(operator, Composite):
            return operator.apply_by(self.call, v)
        part = self._part(operator)
        if (part, id(v)) not in self._known:
            self._known[part, id(v)] = self._perturbed(operator.apply(v))
            self.calls.parts.append(part)
            self.inputs.append(v)
        return self._known[part, id(v)]

    def _part(self, operator: Any) -> Part:
        arrays, treedef = jax.tree.flatten(operator)
        if not all(id(array) in self._places for array in arrays):
            raise TypeError(
                f"a matrix is made of a {type(operator).__name__} whose arrays are none of its own, and whose gradient the fast loop would "
                f"lose: give the parts in `apply_by` arrays as they are stored, or run it with recurrence 'plain'"
            )
        return Part(treedef, tuple(self._places[id(array)] for array in arrays))

    def _perturbed(self, y: Any) -> Any:
        number = len(self.calls.outputs)
        self.calls.outputs.append(jax.ShapeDtypeStruct(y.shape, y.dtype))
        return y if self._perturbations is None else y + self._perturbations[number]


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


def trace_calls(step: Step, params: Any, carry: Any, x: Any) -> Calls:
    """The calls of a step, by tracing it alone.

    Raises:
      AttributeError: the step reads something of an operator other than `apply`.
      TypeError: an operator is made of parts that are not stored in it.
    """
    record = Record(distinct(params)[0])
    leaves = Leaves.of(params)
    jax.eval_shape(lambda carry, x: step(record.tapped(leaves, leaves.raw()), carry, x), carry, x)
    return record.calls


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


def inexact(tree: Any) -> tuple[list[Any], Callable[[Sequence[Any]], Any]]:
    """The leaves of a tree that can be differentiated, and a function that puts others in their place."""
    leaves, treedef = jax.tree.flatten(tree)
    floating = [is_inexact(leaf) for leaf in leaves]

    def replace(new: Sequence[Any]) -> Any:
        rest = iter(new)
        return treedef.unflatten(next(rest) if f else leaf for leaf, f in zip(leaves, floating, strict=True))

    return [leaf for leaf, f in zip(leaves, floating, strict=True) if f], replace
