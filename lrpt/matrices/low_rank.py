"""Matrices of low rank: products of two thin factors."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from jaxtyping import Array, Float

from lrpt.matrices.dense import Dense, Projection
from lrpt.matrices.fitting import checked
from lrpt.matrices.operator import Call, Composite, Work
from lrpt.pytrees import register_fields
from lrpt.symbols import type_of_input


@checked
@register_fields
@dataclass(frozen=True, eq=False)
class LowRank(Composite):
    r"""A matrix of rank at most d, stored as two thin factors.

    .. math::
        W = R L

    with R = right^T (n_in, d) and L = left (d, n_out). For column vectors, Miceli Barone 2018 (eq. 3) writes
    :math:`\theta^U = \theta^L \theta^R`, with :math:`\theta^L` = left^T and :math:`\theta^R` = right.
    """

    selects_rows: ClassVar[bool] = True
    left: Float[Array, "d o"]
    right: Float[Array, "d i"]

    @property
    def shape(self) -> tuple[int, int]:
        return self.right.shape[1], self.left.shape[1]

    @property
    def degrees_of_freedom(self) -> int:
        """Return d (n_in + n_out) - d^2, for a square matrix 2nd - d^2: L and R are unique up to an invertible d x d matrix (section 2.2).

        A d above n_in or n_out counts as the smaller of these, the rank of a dense matrix.
        """
        rank = min(self.left.shape[0], *self.shape)
        return rank * (sum(self.shape) - rank)

    @property
    def dense_products(self) -> int:
        return self.shape[0] * self.shape[1] * self.left.shape[0]

    def work(self, share: Any = 1) -> Work:
        return Work(self.left.shape[0] * sum(self.shape) * share)

    def apply_by(self, call: Call, v: type_of_input) -> Float[Array, "*b o"]:
        return call(Dense(self.left), call(Projection(self.right), v))

    def apply_between(self, between: Callable[[Array], Array], v: type_of_input) -> Float[Array, "*b o"]:
        return Dense(self.left).apply(between(Projection(self.right).apply(v)))

    def to_dense(self) -> Float[Array, "i o"]:
        return self.right.T @ self.left
