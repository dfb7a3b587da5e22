"""Checks of the variables of a layer: their storage, and whether they fit the inputs. Flax would report the shape of an inner array."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array

from lrpt.errors import UsageError
from lrpt.parametrizations import MatrixConfig
from lrpt.parametrizations.unfit import UNFIT, in_short


def check_storage(**given: Any) -> None:
    """Raise a UsageError unless the storage of matrices is a `MatrixConfig`."""
    for name, value in given.items():
        if not isinstance(value, MatrixConfig):
            raise UsageError(f"{name} is {value!r}: give a MatrixConfig, such as MatrixConfig('low_rank', 24)")


@contextmanager
def variables_for(inputs: Array, *, may_be_symbols: bool = False) -> Iterator[None]:
    """Turn errors of Flax about the variables of a layer into one line about its inputs.

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
