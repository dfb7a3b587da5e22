"""Sums of Kronecker products of two small matrices."""

from dataclasses import dataclass
from typing import Any, ClassVar

import jax.numpy as jnp
from jaxtyping import Array, Float

from lrpt.matrices.fitting import checked
from lrpt.matrices.operator import Work
from lrpt.pytrees import register_fields


@checked
@register_fields
@dataclass(frozen=True, eq=False)
class Kronecker:
    r"""A sum of Kronecker products :math:`W = \sum_{t=1}^{r} A_t \otimes B_t`.

    With one term these are the matrices of Kronecker recurrent units (Jose et al. 2018, section 3, with two factors). With r terms this is
    a tensor train of two cores and rank r (Novikov et al. 2015, eq. 4). The outer factors A are k x k for a square matrix, the inner
    factors B n/k x n/k. Parameters: r (k^2 + (n/k)^2). Multiplications: r n (k + n/k).
    """

    slowness: ClassVar[float] = 1.4
    outer: Float[Array, "r i1 o1"]
    inner: Float[Array, "r i2 o2"]

    @property
    def shape(self) -> tuple[int, int]:
        (_, i1, o1), (_, i2, o2) = self.outer.shape, self.inner.shape
        return i1 * i2, o1 * o2

    @property
    def _sizes(self) -> tuple[int, int, int]:
        """Return the number of terms, and the sizes of a term's factors."""
        rank = self.outer.shape[0]
        return rank, self.outer.size // rank, self.inner.size // rank

    @property
    def degrees_of_freedom(self) -> int:
        """Return r (p + q - r) for factors of p and q entries: the entries of W, rearranged, are a p x q matrix of rank r.

        More terms than p or q count as the smaller of these.
        """
        rank, p, q = self._sizes
        rank = min(rank, p, q)
        return rank * (p + q - rank)

    @property
    def diagonal_freedom(self) -> int:
        """Return n - min(k, p - r) min(n/k, q - r): 0 unless a factor is about as small as the rank."""
        rank, p, q = self._sizes
        k, m = self.outer.shape[1], self.inner.shape[1]
        return k * m - min(k, p - rank) * min(m, q - rank)

    @property
    def dense_products(self) -> int:
        return self.outer.shape[0] * self.shape[0] * self.shape[1]

    def work(self, share: Any = 1) -> Work:
        """Return the work for one row. A share of the state saves nothing, as it is no Kronecker product."""
        (rank, i1, o1), (_, i2, o2) = self.outer.shape, self.inner.shape
        return Work(rank * i1 * o2 * (i2 + o1))

    def apply(self, v: Float[Array, "*b i"]) -> Float[Array, "*b o"]:
        pieces = v.reshape(*v.shape[:-1], self.outer.shape[1], self.inner.shape[1])
        u = jnp.einsum("...ai,tij->...atj", pieces, self.inner)
        return jnp.einsum("...atj,tab->...bj", u, self.outer).reshape(*v.shape[:-1], self.shape[1])

    def to_dense(self) -> Float[Array, "i o"]:
        return jnp.einsum("tab,tij->aibj", self.outer, self.inner).reshape(self.shape)
