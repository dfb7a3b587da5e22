"""Sums of matrices, such as low rank plus diagonal."""

import operator
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Any, ClassVar

from jaxtyping import Array, Float

from lrpt.matrices.diagonal import Diagonal
from lrpt.matrices.fitting import checked, terms_of
from lrpt.matrices.low_rank import LowRank
from lrpt.matrices.operator import Call, Composite, Work
from lrpt.pytrees import register_fields


@checked
@register_fields
@dataclass(frozen=True, eq=False)
class Sum(Composite):
    r"""A sum of matrices of one shape, each stored in its own way: :math:`W = \sum_t W_t`.

    Low rank plus diagonal is one (`low_rank_plus_diagonal`), and so is a frozen dense matrix with a trainable adapter.
    """

    selects_rows: ClassVar[bool] = True
    terms: tuple[Any, ...]

    @property
    def shape(self) -> tuple[int, int]:
        return terms_of(self)[0].shape

    @property
    def degrees_of_freedom(self) -> int:
        """Return the sum over terms, less what a diagonal has in common with another term, and at most n_in n_out.

        Several diagonals count as one. Other terms are taken to have nothing in common.
        """
        diagonals = [term for term in self.terms if isinstance(term, Diagonal)]
        others = [term for term in self.terms if not isinstance(term, Diagonal)]
        total = sum(term.degrees_of_freedom for term in [*others, *diagonals[:1]])
        if diagonals:
            total -= max((getattr(term, "diagonal_freedom", 0) for term in others), default=0)
        return min(total, self.shape[0] * self.shape[1])

    @property
    def dense_products(self) -> int:
        return sum(term.dense_products for term in self.terms)

    @property
    def slowness(self) -> float:
        """Return the mean of the terms' slowness, by their work."""
        works = [term.work().products for term in self.terms]
        slow = sum(work * getattr(term, "slowness", 1.0) for work, term in zip(works, self.terms, strict=True))
        return slow / (sum(works) or 1)

    def work(self, share: Any = 1) -> Work:
        return Work(*(sum(costs) for costs in zip(*(term.work(share) for term in terms_of(self)), strict=True)))

    def apply_by(self, call: Call, v: Any) -> Float[Array, "*b o"]:
        return reduce(operator.add, (call(term, v) for term in self.terms))

    def apply_between(self, between: Callable[[Array], Array], v: Float[Array, "*b i"]) -> Float[Array, "*b o"]:
        return reduce(
            operator.add,
            (term.apply_between(between, v) if isinstance(term, Composite) else term.apply(v) for term in self.terms),
        )

    def to_dense(self) -> Float[Array, "i o"]:
        return reduce(operator.add, (term.to_dense() for term in self.terms))


def low_rank_plus_diagonal(left: Float[Array, "d n"], right: Float[Array, "d n"], diagonal: Float[Array, " n"]) -> Sum:
    """Return the square matrix W = right^T left + diag(diagonal), with 2 n d + n parameters (Miceli Barone 2018, eq. 4).

    Args:
      left: L, (d, n).
      right: the transpose of R, (d, n).
      diagonal: entries of D, (n,).
    """
    return Sum((LowRank(left, right), Diagonal(diagonal)))
