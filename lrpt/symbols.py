"""Symbols as inputs: integers that stand for one-hot row vectors, multiples of such vectors, and symbols with the unit that they complete.

All handling of symbols is here. A matrix that can select its rows (`selects_rows`) is given symbols as they are; `input_for` turns them
into vectors for every other matrix. So a parametrization needs to know about vectors only.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.typing import DTypeLike
from jaxtyping import Array, Bool, Float, Inexact, Int

from lrpt.errors import UsageError
from lrpt.precision import array_types, at_least_32_bits


class Weighted(NamedTuple):
    """Symbols with weights: each stands for its one-hot vector times its weight."""

    symbols: Int[Array, "*b"]
    weight: Float[Array, "*b"]

    def weights(self, dtype: DTypeLike) -> Float[Array, "*b 1"]:
        """Return the weights as factors of row vectors, cast to the type of the vectors, so that the products keep this type."""
        return self.weight[..., None].astype(dtype)


type_of_input = Float[Array, "*b i"] | Int[Array, "*b"] | Weighted


def is_symbols(v: Any) -> bool:
    """Return whether an input is symbols, with or without weights."""
    return isinstance(v, Weighted) or jnp.issubdtype(jnp.result_type(v), jnp.integer)


def is_vectors(v: Any) -> bool:
    """Return whether an input is an array of real or complex row vectors."""
    return isinstance(v, jax.Array) and jnp.issubdtype(v.dtype, jnp.inexact)


def batch_shape(v: type_of_input) -> tuple[int, ...]:
    """Return the shape of a batch of symbols or vectors, without the axis of a vector's components."""
    if isinstance(v, Weighted):
        return v.symbols.shape
    return v.shape if is_symbols(v) else v.shape[:-1]


def check_symbols(v: type_of_input, number: int) -> None:
    """Check that all symbols are numbers from 0 to below `number`. Vectors pass, and so do traced symbols.

    Every other number stands for a vector of zeros, in every matrix, and for no parameter's gradient.

    Raises:
      UsageError: a symbol is too small or too large.
    """
    symbols = v.symbols if isinstance(v, Weighted) else v
    if not is_symbols(symbols) or isinstance(symbols, Tracer) or not jnp.size(symbols):
        return
    values = np.asarray(symbols)
    for symbol in (values.min(), values.max()):
        if not 0 <= symbol < number:
            raise UsageError(f"the inputs contain the symbol {symbol}: expected numbers from 0 to {number - 1}")


def as_vectors(v: type_of_input, width: int, dtype: DTypeLike) -> Inexact[Array, "*b i"]:
    """Return the row vectors that symbols stand for; vectors are returned as they are."""
    if isinstance(v, Weighted):
        return v.weights(dtype) * _one_hot(v.symbols, width, dtype)
    return _one_hot(v, width, dtype) if is_symbols(v) else v


def _one_hot(symbols: Int[Array, "*b"], width: int, dtype: DTypeLike) -> Inexact[Array, "*b i"]:
    return jax.nn.one_hot(at_least_32_bits(symbols), width, dtype=dtype)


def select(kernel: Float[Array, "i o"], v: Int[Array, "*b"] | Weighted) -> Float[Array, "*b o"]:
    """Return the products of symbols with a dense matrix: its rows, times the weights if there are any."""
    return v.weights(kernel.dtype) * _rows(kernel, v.symbols) if isinstance(v, Weighted) else _rows(kernel, v)


def rows_of(table: Inexact[Array, "i o"], symbols: Int[Array, "*b"]) -> Inexact[Array, "*b o"]:
    """Return the rows of a table that symbols stand for. Numbers that are no symbols get rows of zeros, and give no gradient."""
    return jnp.asarray(table).at[symbols].get(mode="fill", fill_value=0, wrap_negative_indices=False)


@jax.custom_jvp
def _rows(kernel: Float[Array, "i o"], v: Int[Array, "*b"]) -> Float[Array, "*b o"]:
    """Select rows, with the derivative of a product by one-hot vectors: its transpose is a product, where that of indexing is a scatter."""
    return rows_of(kernel, v)


@_rows.defjvp
def _rows_jvp(primals: tuple[Array, Array], tangents: tuple[Array, Any]) -> tuple[Array, Array]:
    (kernel, v), (d_kernel, _) = primals, tangents
    return _rows(kernel, v), as_vectors(v, kernel.shape[0], kernel.dtype) @ d_kernel


def input_for(operator: Any, v: Any) -> Any:
    """Return an input as an operator takes it: symbols as vectors, unless the operator selects rows or is no matrix."""
    if not is_symbols(v) or getattr(operator, "selects_rows", False) or not hasattr(operator, "shape"):
        return v
    return as_vectors(v, operator.shape[0], dtype_of(operator))


def dtype_of(operator: Any) -> DTypeLike:
    """Return the type to which JAX promotes the real and complex arrays of an operator; float if it has none."""
    types = array_types(operator)
    return jnp.result_type(*types) if types else float


def codes_of(symbols: int, units: int) -> int:
    """Return the number of input codes of a task with this many symbols and units: V (1 + U).

    A unit is a word, or a character of several bits. An input is the code s + V c, where s is one of V symbols. c is 0 if s completes no
    unit, and 1 + u if it completes unit u.
    """
    return symbols * (1 + units)


def units_of(codes: int, symbols: int) -> int:
    """Return the number of units of a task with this many input codes and output symbols, as in `codes_of`; 0 if inputs say no units."""
    return max(codes // symbols - 1, 0) if symbols > 0 and codes % symbols == 0 else 0


def decode(codes: Int[Array, "*b"], symbols: int) -> tuple[Int[Array, "*b"], Int[Array, "*b"], Bool[Array, "*b"]]:
    """Split codes into symbols, units, and whether a unit is complete; where none is, the unit is 0.

    Args:
      codes: inputs s + V c, as in `codes_of`.
      symbols: V, the number of symbols.
    """
    codes = at_least_32_bits(codes)
    return codes % symbols, jnp.maximum(codes // symbols - 1, 0), codes >= symbols
