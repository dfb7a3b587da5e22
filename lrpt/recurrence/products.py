"""What a step does with its matrices, as a list of products, and the operators of these products ready for a loop."""

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array

from lrpt.matrices import Dense, Projection, apart, beside, stored_both_ways
from lrpt.recurrence.leaves import is_rows

COSTLY = 256
"""A component of a product with vectors of so many components takes longer to compute than to store and to read again."""


class Part(NamedTuple):
    """An operator that is not made of others, by the places of its arrays among those of the parameters."""

    treedef: Any
    places: tuple[int, ...]

    def of(self, arrays: Sequence[Any]) -> Any:
        """The operator itself."""
        return self.treedef.unflatten([arrays[i] for i in self.places])


class Product(NamedTuple):
    """A part; or several projections of the same vector, as one whose outputs stand side by side: a wider product takes less time."""

    parts: tuple[Part, ...]

    def of(self, arrays: Sequence[Any]) -> Any:
        """The operator itself."""
        operators = [part.of(arrays) for part in self.parts]
        return operators[0] if len(operators) == 1 else beside(operators)

    def by_place(self, gradient: Any, arrays: Sequence[Any]) -> Iterator[tuple[int, Any]]:
        """The gradient of each array, with its place among those of the parameters."""
        if len(self.parts) > 1:
            gradient = apart(gradient, [arrays[part.places[0]].shape[0] for part in self.parts])
        places = [i for part in self.parts for i in part.places]
        yield from zip(places, jax.tree.leaves(gradient), strict=True)


class Ready(NamedTuple):
    """An operator ready for a loop, with copies that are made before it.

    A few rows times a matrix takes a CPU up to 1.8 times as long if the matrix is stored as its transpose. So it is stored both ways: one
    for the steps forward, the other for those of the backward pass, which multiply by the transpose.
    """

    operator: Any
    kernel: Array | None
    transpose: Array | None

    @staticmethod
    def of(operator: Any) -> "Ready":
        return Ready(operator, *stored_both_ways(operator))

    def apply(self, v: Any) -> Any:
        """operator.apply(v)."""
        return v @ self.kernel if self._multiplies(v) else self.operator.apply(v)

    def linearized(self, v: Any, y: Any = None) -> Any:
        """The same with a derivative that multiplies by `transpose`; y, if it is known, saves making it."""
        if self._multiplies(v):
            return _product(v, self.transpose, self.apply(v) if y is None else y)
        return self.operator.apply(v)

    def _multiplies(self, v: Any) -> bool:
        return self.kernel is not None and is_rows(v)


@jax.custom_jvp
def _product(v: Array, transpose: Array, y: Array) -> Array:
    """y, which is v @ transpose.T, with the derivative of that by v."""
    return y


@_product.defjvp
def _product_jvp(primals: tuple[Array, Array, Array], tangents: tuple[Array, Any, Any]) -> tuple[Array, Array]:
    _, transpose, y = primals
    return y, jnp.tensordot(tangents[0], transpose, ((-1,), (1,)))


class Calls(NamedTuple):
    """What a step does with its matrices, which is the same at every step.

    Attributes:
      products: in the order in which they are needed first.
      outputs: what each gives.
      pieces: of each call, in order: which product answers it, and with which of its outputs.
      kept: the products whose outputs the backward pass is given, as to have them again costs more than to store them.
    """

    products: list[Product]
    outputs: list[jax.ShapeDtypeStruct]
    pieces: list[tuple[int, slice]]
    kept: list[int]

    def kept_outputs(self) -> list[jax.ShapeDtypeStruct]:
        """What the products give whose outputs are kept."""
        return [self.outputs[number] for number in self.kept]

    def values(self) -> int:
        """Values of the largest output: batch size times width."""
        return max((math.prod(output.shape) for output in self.outputs), default=1)

    def operators(self, arrays: Sequence[Any]) -> list[Ready]:
        """Those of the products."""
        return [Ready.of(product.of(arrays)) for product in self.products]


def is_costly(operator: Any, v: Any, y: Any) -> bool:
    """Whether the product of a vector and a full matrix is kept: it makes little of much, or much of very much."""
    return isinstance(operator, Dense | Projection) and is_rows(v) and v.shape[-1] >= min(2 * y.shape[-1], COSTLY)
