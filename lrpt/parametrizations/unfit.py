"""Errors of Flax about parameters that a module does not find, or finds in another shape: those of another network."""

from collections.abc import Iterator
from contextlib import contextmanager

import jax.numpy as jnp
from flax import errors
from jaxtyping import Array

from lrpt.errors import UsageError

UNFIT = (
    errors.ScopeParamShapeError,
    errors.ScopeParamNotFoundError,
    errors.ScopeVariableNotFoundError,
    errors.ScopeCollectionNotFound,
)


def in_short(error: Exception) -> str:
    """Return what an error of Flax says, without the address of its explanation."""
    return str(error).partition(" (http")[0].strip().rstrip(".")


@contextmanager
def variables_for(inputs: Array, *, may_be_symbols: bool = False) -> Iterator[None]:
    """Turn errors of Flax about the variables of a network or layer into one line about its inputs.

    Args:
      inputs: the inputs.
      may_be_symbols: whether the layer takes integers as symbols if it is made with `symbols`.

    Raises:
      UsageError: the variables were drawn for inputs of another width or for other matrices, or are not all there.
    """
    try:
        yield
    except UNFIT as error:
        symbols = may_be_symbols and jnp.issubdtype(inputs.dtype, jnp.integer)
        raise UsageError(
            f"inputs are {inputs.dtype} of shape {inputs.shape}, and the variables do not fit them: give inputs of the width (symbols: of "
            f"the number) that `init` had, the same cell and matrices, and all collections of variables that it returned"
            f"{', or make the cell with symbols= if they are symbols' if symbols else ''} ({in_short(error)})"
        ) from error
