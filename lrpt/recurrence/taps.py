"""Seeing what a cell does with its matrices: every call of an operator, its input, and a place to hang the cotangent of its output."""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from lrpt.recurrence.loops import Step


def is_operator(leaf: Any) -> bool:
    """Whether a node of a parameter tree is used by `apply`; everything else is a raw array to the loop."""
    return callable(getattr(leaf, "apply", None))


class Record:
    """The calls of one step, in order.

    Args:
      perturbations: one for each call, added to its output; by default nothing is added.
    """

    def __init__(self, perturbations: Sequence[Any] | None = None) -> None:
        self.perturbations = perturbations
        self.operators: list[int] = []
        self.inputs: list[Any] = []
        self.outputs: list[jax.ShapeDtypeStruct] = []

    def rows(self) -> int:
        """Rows of the widest batch that an operator was called with: the batch size."""
        return max((math.prod(output.shape[:-1]) for output in self.outputs), default=1)

    def call(self, index: int, operator: Any, v: Any) -> Any:
        y = operator.apply(v)
        number = len(self.operators)
        self.operators.append(index)
        self.inputs.append(v)
        self.outputs.append(jax.ShapeDtypeStruct(y.shape, y.dtype))
        return y if self.perturbations is None else y + self.perturbations[number]


class Tapped:
    """An operator whose calls are recorded, and which has nothing but `apply`."""

    __slots__ = ("_call", "_kind")

    def __init__(self, record: Record, index: int, operator: Any) -> None:
        self._call = lambda v: record.call(index, operator, v)
        self._kind = type(operator).__name__

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

    def tapped(self, record: Record, raw: Sequence[Any]) -> Any:
        """The tree with its operators wrapped and its raw arrays replaced."""
        rest = iter(raw)
        wrapped = [Tapped(record, i, leaf) if is_operator(leaf) else next(rest) for i, leaf in enumerate(self.leaves)]
        return self.treedef.unflatten(wrapped)


def trace_calls(step: Step, params: Leaves, carry: Any, x: Any) -> Record:
    """The calls of a step, by tracing it alone.

    Raises:
      AttributeError: the step reads something of an operator other than `apply`.
    """
    record = Record()
    jax.eval_shape(lambda carry, x: step(params.tapped(record, params.raw()), carry, x), carry, x)
    return record


def inexact(tree: Any) -> tuple[list[Any], Callable[[Sequence[Any]], Any]]:
    """The leaves of a tree that can be differentiated, and a function that puts others in their place."""
    leaves, treedef = jax.tree.flatten(tree)
    floating = [jnp.issubdtype(jnp.result_type(leaf), jnp.inexact) for leaf in leaves]

    def replace(new: Sequence[Any]) -> Any:
        rest = iter(new)
        return treedef.unflatten(next(rest) if f else leaf for leaf, f in zip(leaves, floating, strict=True))

    return [leaf for leaf, f in zip(leaves, floating, strict=True) if f], replace
