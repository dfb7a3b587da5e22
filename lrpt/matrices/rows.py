"""Products and sums over the rows of a batch, in the forms that CPUs compute fast."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Inexact

from lrpt.symbols import is_symbols, select, type_of_input


def product(v: type_of_input, kernel: Float[Array, "i o"]) -> Float[Array, "*b o"]:
    """Return v @ kernel. Symbols select rows; one or two inputs need no matrix product."""
    if is_symbols(v):
        return select(kernel, v)  # type: ignore[arg-type]
    if kernel.shape[0] > 2:
        return v @ kernel  # type: ignore[operator]
    rows = kernel.reshape((kernel.shape[0],) + (1,) * (v.ndim - 1) + (kernel.shape[1],))  # type: ignore[union-attr]
    product = v[..., :1] * rows[0]  # type: ignore[call-overload]
    return product if kernel.shape[0] == 1 else product + v[..., 1:] * rows[1]  # type: ignore[call-overload]


def over_rows(u: Inexact[Array, "*b i"], v: Inexact[Array, "*b o"]) -> Inexact[Array, "i o"]:
    """Return u^T v over all rows of a batch.

    Reverse mode computes v^T u and transposes it, which takes CPUs up to four times as long.
    """
    if u.shape[-1] > v.shape[-1]:
        return over_rows(v, u).T
    batch = tuple(range(u.ndim - 1))
    return jax.lax.dot_general(u, v, ((batch, batch), ((), ())))


def sum_of_rows(v: Inexact[Array, "*b n"]) -> Inexact[Array, " n"]:
    """Sum rows by a product with ones, which CPUs do several times faster than a sum down the columns."""
    batch = tuple(range(v.ndim - 1))
    ones = jnp.ones((*v.shape[:-1], 1), v.dtype)
    return jax.lax.dot_general(ones, v, ((batch, batch), ((), ())), precision=jax.lax.Precision.HIGHEST)[0]


def row(u: Array, v: Array) -> Array:
    """Return u with leading axes of length one, as many as v has."""
    return u.reshape((1,) * (v.ndim - 1) + u.shape)
