"""Products and sums over the rows of a batch, in the forms that CPUs compute fast."""

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import Array, Float, Inexact

from lrpt.precision import promoted
from lrpt.symbols import Weighted, as_vectors, is_symbols, select, type_of_input


def product(v: type_of_input, kernel: Float[Array, "i o"]) -> Float[Array, "*b o"]:
    """Return v @ kernel. Symbols select rows; one or two inputs need no matrix product."""
    if is_symbols(v):
        return select(kernel, v)
    if kernel.shape[0] not in (1, 2):
        return v @ kernel  # type: ignore[operator]
    rows = kernel.reshape((kernel.shape[0],) + (1,) * (v.ndim - 1) + (kernel.shape[1],))  # type: ignore[union-attr]
    first = v[..., :1] * rows[0]  # type: ignore[call-overload]
    return first if kernel.shape[0] == 1 else first + v[..., 1:] * rows[1]  # type: ignore[call-overload]


def over_rows(u: Inexact[Array, "*b i"], v: Inexact[Array, "*b o"]) -> Inexact[Array, "i o"]:
    """Return u^T v over all rows of a batch.

    Reverse mode computes v^T u and transposes it, which takes CPUs up to four times as long.
    """
    if u.shape[-1] > v.shape[-1]:
        return over_rows(v, u).T
    batch = tuple(range(u.ndim - 1))
    return jax.lax.dot_general(u, v, ((batch, batch), ((), ())))


def over_inputs(u: type_of_input, v: Inexact[Array, "*b o"], width: int, dtype: DTypeLike) -> Inexact[Array, "i o"]:
    """Return u^T v over all rows of a batch, where u may be symbols.

    A CPU adds each row of v to the row of its symbol, which takes between a half and a sixth of the time of a product with one-hot vectors.
    Accelerators would add rows in any order, so they compute the product.

    Args:
      u: inputs of a matrix.
      v: output cotangents of the matrix.
      width: number of symbols, or width of the inputs.
      dtype: type of the vectors that symbols stand for.
    """
    if not is_symbols(u) or jax.default_backend() != "cpu":
        return over_rows(as_vectors(u, width, dtype), v)
    symbols, weighted = (u.symbols, u.weights(v.dtype) * v) if isinstance(u, Weighted) else (u, v)
    rows = weighted.reshape((-1, v.shape[-1])).astype(promoted(v.dtype, jnp.float32))  # sums of many rows
    sums = jnp.zeros((width, v.shape[-1]), rows.dtype)
    return sums.at[jnp.ravel(symbols)].add(rows, mode="drop", wrap_negative_indices=False).astype(v.dtype)


def sum_of_rows(v: Inexact[Array, "*b n"]) -> Inexact[Array, " n"]:
    """Sum rows by a product with ones, which CPUs do several times faster than a sum down the columns."""
    batch = tuple(range(v.ndim - 1))
    ones = jnp.ones((*v.shape[:-1], 1), v.dtype)
    return jax.lax.dot_general(ones, v, ((batch, batch), ((), ())), precision=jax.lax.Precision.HIGHEST)[0]


def by_row(values: Array, v: Array) -> Array:
    """Return one value for each row of v, or a single one, with trailing axes of length one, so that it broadcasts against v."""
    return values.reshape(values.shape + (1,) * (v.ndim - values.ndim))


def broadcastable(u: Array, v: Array) -> Array:
    """Return u with a leading axis of length one for each batch axis of v, so that the two broadcast."""
    return u.reshape((1,) * (v.ndim - 1) + u.shape)
