"""Products of reflections (Householder), real and complex."""

from dataclasses import dataclass
from typing import Any, ClassVar

import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Bool, Complex, Float

from lrpt.matrices.diagonal import as_complex
from lrpt.matrices.fitting import checked
from lrpt.matrices.operator import Work
from lrpt.matrices.rows import broadcastable
from lrpt.precision import at_least_single, complex_if
from lrpt.pytrees import register_fields


def too_short(square: Float[Array, "*b"]) -> Bool[Array, "*b"]:
    r"""Return whether :math:`\|u\|^2` is 0, or so small that the gradient of :math:`1 / \|u\|^2` would overflow."""
    return square < float(jnp.finfo(square.dtype).tiny) ** 0.5


@checked
@register_fields
@dataclass(frozen=True, eq=False)
class Reflection:
    r"""A unitary matrix :math:`W = I - 2 u u^* / \|u\|^2` for complex row vectors, u a column (Householder): v u becomes -v u.

    Acting on columns as the papers write it, it reflects in the conjugate of u. Stored as the real parts of u, then the imaginary ones.
    If u is zero, or so short that the gradient of :math:`1 / \|u\|^2` would overflow, W is the identity.
    """

    vector: Float[Array, " n2"]

    @property
    def shape(self) -> tuple[int, int]:
        return self.vector.size // 2, self.vector.size // 2

    def factors(self) -> tuple[Complex[Array, " n"], Complex[Array, " n"]]:
        r"""Return u and :math:`w = -2 u^* / \|u\|^2`, with which W = I + u w."""
        n = self.vector.size // 2
        u = as_complex(self.vector[:n], self.vector[n:])
        square = jnp.sum(jnp.square(at_least_single(self.vector)))
        short = too_short(square)
        return u, complex_if(jnp.where(short, 0, -2 / jnp.where(short, 1, square)), u) * jnp.conj(u)

    def apply(self, v: Complex[Array, "*b n"]) -> Complex[Array, "*b n"]:
        u, w = self.factors()
        return v + (v @ u)[..., None] * broadcastable(w, v)


@checked
@register_fields
@dataclass(frozen=True, eq=False)
class Householder:
    r"""An orthogonal matrix as a product of k reflections :math:`W = H(u_1) \cdots H(u_k)` (Mhammedi et al. 2017, eq. 5).

    .. math::
        H(u) = I - 2 u u^T / \|u\|^2, \quad W = I - U^T T U, \quad T^{-1} = \mathrm{triu}(U U^T) - \tfrac12 \mathrm{diag}(U U^T)

    with the normalized vectors as rows of U (compact form, Joffrain et al. 2006). The compact form needs two thin products, not k steps one
    after the other. n reflections reach every orthogonal matrix of determinant (-1)^n. If u is zero or very short, as in `Reflection`, H(u)
    is the identity. Parameters: k n. Multiplications: 2 k n + k^2.
    """

    slowness: ClassVar[float] = 2.5
    vectors: Float[Array, "k n"]

    @property
    def shape(self) -> tuple[int, int]:
        return self.vectors.shape[1], self.vectors.shape[1]

    @property
    def degrees_of_freedom(self) -> int:
        """Return k n - k (k + 1) / 2: the orthogonal matrices that move k dimensions. A k above n counts as n."""
        k, n = self.vectors.shape
        k = min(k, n)
        return k * n - k * (k + 1) // 2

    @property
    def dense_products(self) -> int:
        k, n = self.vectors.shape
        return k * n * n + k * k * n

    def work(self, share: Any = 1) -> Work:
        """Return the work for one row. A share of the state saves the products with other components."""
        k, n = self.vectors.shape
        return Work(2 * k * n * share + k * k)

    def apply(self, v: Float[Array, "*b n"]) -> Float[Array, "*b n"]:
        units = self._units()
        return v - ((v @ units.T) @ self._middle(units)) @ units

    def _units(self) -> Float[Array, "k n"]:
        """Return U. Squares of half precision would overflow or be rough, so the vectors are normalized in single precision."""
        vectors = at_least_single(self.vectors)
        square = jnp.sum(jnp.square(vectors), axis=1, keepdims=True)
        short = too_short(square)
        return jnp.where(short, 0, vectors / jnp.sqrt(jnp.where(short, 1, square))).astype(self.vectors.dtype)

    def _middle(self, units: Float[Array, "k n"]) -> Float[Array, "k k"]:
        """Return T, computed in single precision. Rows of zeros in U, which T does not matter for, count as normalized."""
        units = at_least_single(units)  # XLA solves no half precision on a GPU
        gram = units @ units.T
        square = jnp.diagonal(gram)
        matrix = jnp.triu(gram, 1) + jnp.diag(jnp.where(square > 0, square, 1) / 2)
        return solve_triangular(matrix, jnp.eye(len(gram), dtype=gram.dtype)).astype(self.vectors.dtype)

    def to_dense(self) -> Float[Array, "n n"]:
        return self.apply(jnp.eye(self.vectors.shape[1], dtype=self.vectors.dtype))
