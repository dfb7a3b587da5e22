"""Dense matrices, stored as they are or as their transpose."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from lrpt.matrices.fitting import checked
from lrpt.matrices.operator import Operator, Work
from lrpt.matrices.rows import over_inputs, over_rows, product
from lrpt.pytrees import register_fields
from lrpt.symbols import as_vectors, type_of_input


@checked
@register_fields
@dataclass(frozen=True, eq=False)
class Dense:
    """A dense matrix W = kernel."""

    selects_rows: ClassVar[bool] = True
    kernel: Float[Array, "i o"]

    @property
    def shape(self) -> tuple[int, int]:
        return self.kernel.shape[0], self.kernel.shape[1]

    @property
    def degrees_of_freedom(self) -> int:
        """Return n_in n_out."""
        return self.kernel.size

    @property
    def dense_products(self) -> int:
        return 0

    def work(self, share: Any = 1) -> Work:
        return Work(self.kernel.shape[0] * self.kernel.shape[1] * share**2)

    def apply(self, v: type_of_input) -> Float[Array, "*b o"]:
        return product(v, self.kernel)

    def gradient(self, v: type_of_input, cotangent: Float[Array, "*b o"]) -> "Dense":
        return Dense(over_inputs(v, cotangent, self.shape[0], self.kernel.dtype))

    def to_dense(self) -> Float[Array, "i o"]:
        return self.kernel


@checked
@register_fields
@dataclass(frozen=True, eq=False)
class Projection:
    """A dense matrix stored as its transpose, W = transpose^T: the factor R of a low-rank matrix."""

    selects_rows: ClassVar[bool] = True
    transpose: Float[Array, "o i"]

    @property
    def shape(self) -> tuple[int, int]:
        return self.transpose.shape[1], self.transpose.shape[0]

    def apply(self, v: type_of_input) -> Float[Array, "*b o"]:
        return product(v, self.transpose.T)

    def gradient(self, v: type_of_input, cotangent: Float[Array, "*b o"]) -> "Projection":
        return Projection(over_rows(cotangent, as_vectors(v, self.transpose.shape[1], self.transpose.dtype)))


def stored_both_ways(operator: Operator) -> tuple[Float[Array, "i o"], Float[Array, "o i"]] | tuple[None, None]:
    """Return (W, W^T) of a dense matrix, and (None, None) of other operators and of matrices so thin that they need no matrix product.

    Subclasses count as other operators: their `apply` may be more than the product.
    """
    if type(operator) is Dense and operator.kernel.shape[0] > 2:
        return operator.kernel, operator.kernel.T
    if type(operator) is Projection and operator.transpose.shape[1] > 2:
        return operator.transpose.T, operator.transpose
    return None, None


def beside(projections: Sequence[Projection]) -> Projection:
    """Return one projection whose outputs are those of several, side by side."""
    return Projection(jnp.concatenate([projection.transpose for projection in projections]))


def apart(whole: Projection, widths: Sequence[int]) -> list[Projection]:
    """Split a projection into several of the given widths of output: the inverse of `beside`."""
    return [Projection(rows) for rows in jnp.split(whole.transpose, np.cumsum(widths)[:-1])]
