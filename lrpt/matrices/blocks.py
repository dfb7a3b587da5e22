"""Matrices made of blocks on the diagonal, and products of two of them with a permutation between."""

from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from lrpt.matrices.fitting import checked
from lrpt.matrices.operator import Call, Composite, Work
from lrpt.matrices.rows import over_rows
from lrpt.pytrees import register_fields


@checked
@register_fields
@dataclass(frozen=True, eq=False)
class BlockDiagonal:
    r"""A block-diagonal matrix W = diag(B_1, ..., B_k): k groups of components that do not see each other.

    .. math:: y_{c} = v_{c} B_c

    for the c-th of k equal pieces of v and y. Parameters: n_in n_out / k, and as many multiplications. These are the recurrent matrices of
    grouped recurrent networks (Kuchaiev and Ginsburg 2017, section 3).
    """

    slowness: ClassVar[float] = 4.0
    blocks: Float[Array, "k p q"]

    @property
    def shape(self) -> tuple[int, int]:
        k, p, q = self.blocks.shape
        return k * p, k * q

    @property
    def degrees_of_freedom(self) -> int:
        """Return n_in n_out / k."""
        return self.blocks.size

    @property
    def diagonal_freedom(self) -> int:
        """Return n: the blocks hold the diagonal."""
        return self.shape[0]

    @property
    def dense_products(self) -> int:
        return 0

    def work(self, share: Any = 1) -> Work:
        return Work(self.blocks.size * share)

    def apply(self, v: Float[Array, "*b i"]) -> Float[Array, "*b o"]:
        y = jnp.einsum("...kp,kpq->...kq", self._pieces(v), self.blocks)
        return y.reshape(*v.shape[:-1], self.shape[1])

    def gradient(self, v: Float[Array, "*b i"], cotangent: Float[Array, "*b o"]) -> "BlockDiagonal":
        return BlockDiagonal(jax.vmap(over_rows, (-2, -2))(self._pieces(v), self._pieces(cotangent)))

    def _pieces(self, v: Float[Array, "*b n"]) -> Float[Array, "*b k m"]:
        k = self.blocks.shape[0]
        return v.reshape(*v.shape[:-1], k, v.shape[-1] // k)

    def to_dense(self) -> Float[Array, "i o"]:
        return jax.scipy.linalg.block_diag(*self.blocks)


@checked
@register_fields
@dataclass(frozen=True, eq=False)
class Monarch(Composite):
    r"""A Monarch matrix: two block-diagonal factors with a permutation between them (Dao et al. 2022, section 3.1, M = P L P^T R).

    .. math:: W_{(a, i), (b, j)} = F_a[i, j] \, S_j[a, b]

    for component i of piece a of the input and component j of piece b of the output. F are k blocks of n_in / k x n_out / k, S are
    n_out / k blocks of k x k. Every output sees every input. Parameters and multiplications: n_in n_out / k + n_out k.
    """

    slowness: ClassVar[float] = 6.0
    first: Float[Array, "k p q"]
    second: Float[Array, "q k k"]

    @property
    def shape(self) -> tuple[int, int]:
        return BlockDiagonal(self.first).shape

    @property
    def degrees_of_freedom(self) -> int:
        """Return k m_out (m_in + k - 1) with m = n / k: each of k m_out slices W[(a, :), (:, j)] is a matrix of rank one."""
        k, p, q = self.first.shape
        return k * q * (p + k - 1)

    @property
    def dense_products(self) -> int:
        return self.shape[0] * self.shape[1]

    def work(self, share: Any = 1) -> Work:
        """Return the work for one row. A share of the state saves nothing, as the permutation spreads it over all blocks."""
        return Work(self.first.size + self.second.size)

    def apply_by(self, call: Call, v: Float[Array, "*b i"]) -> Float[Array, "*b o"]:
        k, _, q = self.first.shape
        u = call(BlockDiagonal(self.first), v)
        y = call(BlockDiagonal(self.second), _transposed(u, k, q))
        return _transposed(y, q, k)

    def to_dense(self) -> Float[Array, "i o"]:
        return jnp.einsum("aij,jab->aibj", self.first, self.second).reshape(self.shape)


def _transposed(v: Float[Array, "*b n"], rows: int, columns: int) -> Float[Array, "*b n"]:
    """Permute components as a transposition of `rows` x `columns` does."""
    return jnp.swapaxes(v.reshape(*v.shape[:-1], rows, columns), -1, -2).reshape(v.shape)
