"""Products: the operator calls of a step as a list of matrix products, and operators prepared for them."""

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.custom_derivatives import SymbolicZero
from jaxtyping import Array, PyTree

from lrpt.matrices import Dense, Projection, apart, beside, stored_both_ways
from lrpt.symbols import is_vectors

COSTLY = 48
"""Width of vectors from which on a component of a product is more expensive to recompute than to store and read again.

Measured on a CPU: storing is slower at 24 components, and makes an update 1.1 times as fast at 64 and up to 1.2 times at 128.
"""


class Part(NamedTuple):
    """An operator that is not composite: its structure, and the places of its arrays among the arrays of the parameters."""

    treedef: Any
    places: tuple[int, ...]

    def of(self, arrays: Sequence[Any]) -> Any:
        """Return the operator with these arrays of the parameters."""
        return self.treedef.unflatten([arrays[i] for i in self.places])


class Product(NamedTuple):
    """A part, or several projections of the same array as one with their outputs side by side: one wider product takes less time."""

    parts: tuple[Part, ...]

    def of(self, arrays: Sequence[Any]) -> Any:
        """Return the operator with these arrays of the parameters."""
        operators = [part.of(arrays) for part in self.parts]
        return operators[0] if len(operators) == 1 else beside(operators)

    def by_place(self, gradient: Any, arrays: Sequence[Any]) -> Iterator[tuple[int, Any]]:
        """Yield the gradient of each array, with the array's place among the arrays of the parameters."""
        if len(self.parts) > 1:
            gradient = apart(gradient, [arrays[part.places[0]].shape[0] for part in self.parts])
        places = [i for part in self.parts for i in part.places]
        yield from zip(places, jax.tree.leaves(gradient), strict=True)


class PreparedOperator(NamedTuple):
    """An operator with its matrix in both layouts, made before the loop.

    The product of a few rows and a matrix takes a CPU up to 1.8 times as long if the matrix is stored as its transpose. So it is stored
    both ways: the forward pass multiplies by `kernel`, the backward pass by `transpose`. Both are None if the operator is no dense matrix.
    """

    operator: Any
    kernel: Array | None
    transpose: Array | None

    @staticmethod
    def of(operator: Any) -> "PreparedOperator":
        """Prepare an operator."""
        return PreparedOperator(operator, *stored_both_ways(operator))

    def apply(self, v: Any) -> Any:
        """Return operator.apply(v)."""
        return v @ self.kernel if self._multiplies(v) else self.operator.apply(v)

    def linearized(self, v: Any, y: PyTree) -> Any:
        """Return operator.apply(v) with a derivative that multiplies by `transpose`. If y is not None, it is the result."""
        if self._multiplies(v):
            return _product(v, self.kernel, self.transpose, self.apply(v) if y is None else y)
        return self.operator.apply(v)

    def _multiplies(self, v: Any) -> bool:
        return self.kernel is not None and is_vectors(v)


@jax.custom_jvp
def _product(v: Array, kernel: Array, transpose: Array, y: Array) -> Array:
    """Return y, the known value of v @ kernel, with that product's derivatives by v, which multiplies by `transpose`, and by kernel."""
    return y


def _product_jvp(primals: tuple[Array, Array, Array, Array], tangents: tuple[Any, Any, Any, Any]) -> tuple[Array, Array]:
    # The linearization of a step keeps matrices constant. Derivatives of a higher order see the product again, and also vary the kernel.
    (v, _, transpose, y), (d_v, d_kernel, _, _) = primals, tangents
    d_y = jnp.zeros_like(y)
    if not isinstance(d_v, SymbolicZero):
        d_y = jnp.tensordot(d_v, transpose, ((-1,), (1,)))
    return y, d_y if isinstance(d_kernel, SymbolicZero) else d_y + v @ d_kernel


_product.defjvp(_product_jvp, symbolic_zeros=True)


class Calls(NamedTuple):
    """The operator calls of a step, which are the same at every step.

    Attributes:
      products: the products that answer the calls, in the order of their first use.
      outputs: shape and type of each product's output.
      pieces: for each call, in order: the number of the product that answers it, and the components of the product's output.
      kept: numbers of the products whose outputs the forward pass stores: these are more expensive to recompute than to store.
    """

    products: list[Product]
    outputs: list[jax.ShapeDtypeStruct]
    pieces: list[tuple[int, slice]]
    kept: list[int]

    def kept_outputs(self) -> list[jax.ShapeDtypeStruct]:
        """Return shapes and types of the outputs that are stored."""
        return [self.outputs[number] for number in self.kept]

    def largest_output(self) -> int:
        """Return the number of values of the largest output: batch size times width, of which a complex number is two."""
        values = (math.prod(output.shape) * (1 + jnp.issubdtype(output.dtype, jnp.complexfloating)) for output in self.outputs)
        return max(values, default=1)

    def operators(self, arrays: Sequence[Any]) -> list[PreparedOperator]:
        """Return the products' operators, prepared, with these arrays of the parameters."""
        return [PreparedOperator.of(product.of(arrays)) for product in self.products]


def is_costly(operator: Any, v: Any, y: PyTree) -> bool:
    """Return whether a product is stored: its output is much narrower than its input, or its input has at least `COSTLY` components."""
    return type(operator) in (Dense, Projection) and is_vectors(v) and v.shape[-1] >= min(2 * y.shape[-1], COSTLY)
