"""Diagonal matrices, real and unitary."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Complex, Float, Inexact

from lrpt.matrices.fitting import checked
from lrpt.matrices.operator import Work
from lrpt.matrices.rows import broadcastable, sum_of_rows
from lrpt.precision import complex_if, promoted
from lrpt.pytrees import register_fields


@checked
@register_fields
@dataclass(frozen=True, eq=False)
class Diagonal:
    """A diagonal matrix W = diag(diagonal)."""

    diagonal: Float[Array, " n"]

    @property
    def shape(self) -> tuple[int, int]:
        return self.diagonal.size, self.diagonal.size

    @property
    def degrees_of_freedom(self) -> int:
        """Return n."""
        return self.diagonal.size

    @property
    def dense_products(self) -> int:
        return 0

    def work(self, share: Any = 1) -> Work:
        return Work(0, self.diagonal.size * share)

    def apply(self, v: Inexact[Array, "*b n"]) -> Inexact[Array, "*b n"]:
        return v * complex_if(broadcastable(self.diagonal, v), v)

    def gradient(self, v: Float[Array, "*b n"], cotangent: Float[Array, "*b n"]) -> "Diagonal":
        return Diagonal(sum_of_rows(v * cotangent))

    def to_dense(self) -> Float[Array, "n n"]:
        return jnp.diag(self.diagonal)


def as_complex(real: Float[Array, "*b n"], imaginary: Float[Array, "*b n"]) -> Complex[Array, "*b n"]:
    """Return complex numbers, of half-precision parts in single precision: XLA has no complex numbers of half precision."""
    wide = promoted(jnp.result_type(real, imaginary), jnp.float32)
    return jax.lax.complex(jnp.asarray(real, wide), jnp.asarray(imaginary, wide))


@checked
@register_fields
@dataclass(frozen=True, eq=False)
class Rotation:
    r"""A diagonal unitary matrix W = diag(e^{i \theta}), for complex vectors."""

    angles: Float[Array, " n"]

    @property
    def shape(self) -> tuple[int, int]:
        return self.angles.size, self.angles.size

    def phases(self) -> Complex[Array, " n"]:
        r"""Return the diagonal :math:`e^{i \theta}`."""
        return as_complex(jnp.cos(self.angles), jnp.sin(self.angles))

    def apply(self, v: Complex[Array, "*b n"]) -> Complex[Array, "*b n"]:
        return v * broadcastable(self.phases(), v)
