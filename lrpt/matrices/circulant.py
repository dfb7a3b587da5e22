"""Circulant matrices, and Toeplitz-like ones as sums of products of circulant and skew-circulant matrices: products by FFT."""

from dataclasses import dataclass
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike
from jaxtyping import Array, Complex, Float

from lrpt.errors import UsageError
from lrpt.matrices.fitting import checked
from lrpt.matrices.operator import Work
from lrpt.matrices.rows import broadcastable
from lrpt.precision import at_least_single, complex_if
from lrpt.pytrees import register_fields


def _transforms(n: int, count: int) -> int:
    """Return the real multiplications of `count` FFTs of n real numbers, by radix 2."""
    return count * n * max(1, (n - 1).bit_length())


def _rfft(x: Float[Array, "*b n"]) -> Complex[Array, "*b k"]:
    """Return the Fourier transform of real numbers along the last axis, of half-precision ones in single precision.

    Raises:
      UsageError: the numbers are complex.
    """
    if jnp.iscomplexobj(x):
        raise UsageError(f"vectors are {x.dtype}, and circulant and Toeplitz-like matrices multiply real ones: give each part alone")
    return jnp.fft.rfft(at_least_single(x))


def _places(n: int) -> np.ndarray:
    """Return (j - i) mod n for entry (i, j): where a circulant matrix has it in its first row."""
    return (np.arange(n)[None] - np.arange(n)[:, None]) % n


@checked
@register_fields
@dataclass(frozen=True, eq=False)
class Circulant:
    r"""A circulant matrix :math:`W_{ij} = c_{(j - i) \bmod n}`: every row is the one above, shifted by one.

    A product is a circular convolution, v W = irfft(rfft(v) rfft(c)) (Cheng et al. 2015, eq. 3). Parameters: n. Multiplications: about
    2n log2 n + 2n.
    """

    slowness: ClassVar[float] = 6.0
    first_row: Float[Array, " n"]

    @property
    def shape(self) -> tuple[int, int]:
        return self.first_row.size, self.first_row.size

    @property
    def degrees_of_freedom(self) -> int:
        """Return n."""
        return self.first_row.size

    @property
    def diagonal_freedom(self) -> int:
        """Return 1: all entries of the diagonal are equal."""
        return 1

    @property
    def dense_products(self) -> int:
        return 0

    def work(self, share: Any = 1) -> Work:
        """Return the work for one row. A share of the state saves nothing, as a transform needs all of it."""
        n = self.first_row.size
        return Work(_transforms(n, 2) + 2 * n)

    def apply(self, v: Float[Array, "*b n"]) -> Float[Array, "*b n"]:
        y = jnp.fft.irfft(_rfft(v) * broadcastable(_rfft(self.first_row), v), v.shape[-1])
        return y.astype(jnp.result_type(v, self.first_row))

    def to_dense(self) -> Float[Array, "n n"]:
        return self.first_row[_places(self.first_row.size)]


@checked
@register_fields
@dataclass(frozen=True, eq=False)
class ToeplitzLike:
    r"""A Toeplitz-like matrix of displacement rank r: :math:`W = \tfrac12 \sum_{t=1}^{r} Z_1(g_t) Z_{-1}(h_t)`.

    Z_1(g) is the circulant matrix with the first row g. Z_{-1}(h) is the skew-circulant one: circulant, with the entries below the diagonal
    negated. Toeplitz matrices and their inverses have a displacement rank of at most 2 (Sindhwani et al. 2015, section 3 and eq. 6).
    Parameters: 2 n r. Multiplications: about (3 + 3 r) n log2 n + (6 r + 2) n.
    """

    slowness: ClassVar[float] = 7.0
    circulant: Float[Array, "r n"]
    skew: Float[Array, "r n"]

    @property
    def shape(self) -> tuple[int, int]:
        return self.skew.shape[1], self.skew.shape[1]

    @property
    def degrees_of_freedom(self) -> int:
        """Return r (2n - r): W is a linear, invertible function of its displacement, any matrix of rank r. More than n counts as n."""
        rank, n = self.skew.shape
        rank = min(rank, n)
        return rank * (2 * n - rank)

    @property
    def dense_products(self) -> int:
        return self.skew.shape[1] * self.work().products

    def work(self, share: Any = 1) -> Work:
        """Return the work for one row. A share of the state saves nothing, as a transform needs all of it."""
        rank, n = self.skew.shape
        return Work(_transforms(n, 3 + 3 * rank) + 6 * rank * n + 2 * n)

    def apply(self, v: Float[Array, "*b n"]) -> Float[Array, "*b n"]:
        n = v.shape[-1]
        spectra = _rfft(v)[..., None, :] * broadcastable(_rfft(self.circulant), v)
        twist = _twist(n, spectra.dtype)
        u = jnp.fft.fft(complex_if(jnp.fft.irfft(spectra, n), twist) * broadcastable(twist, spectra))
        total = jnp.sum(u * broadcastable(jnp.fft.fft(complex_if(self.skew, twist) * twist[None]), v), -2)
        y = 0.5 * jnp.real(jnp.fft.ifft(total) * broadcastable(jnp.conj(twist), v))
        return y.astype(jnp.result_type(v, self.skew))

    def to_dense(self) -> Float[Array, "n n"]:
        return self.apply(jnp.eye(self.skew.shape[1], dtype=self.skew.dtype))


def _twist(n: int, dtype: DTypeLike) -> Complex[Array, " n"]:
    r"""Return :math:`e^{i \pi k / n}`, by which a skew-circulant product becomes a circulant one."""
    return jnp.asarray(np.exp(1j * np.pi * np.arange(n) / n), dtype)
