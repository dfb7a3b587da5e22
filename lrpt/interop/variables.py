"""Checks of inputs against the variables of a layer. Flax would report the shape of an inner array, or nothing."""

from collections.abc import Iterator, Mapping
from math import prod
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from lrpt.errors import UsageError
from lrpt.parametrizations import ADAPTERS, ALL_FORMS, FROZEN, MatrixConfig
from lrpt.specs import MatrixSpec, name_of, shared_name

AXES = {
    "kernel": (0,),
    "right": (1,),
    "diagonal": (0,),
    "blocks": (0, 1),
    "first": (0, 1),
    "first_row": (0,),
    "circulant": (1,),
    "vectors": (1,),
}
"""Axes of an array of a matrix whose sizes multiply to the width of its inputs, by field. A sparse matrix stores no such array."""


def check_storage(**given: Any) -> None:
    """Raise a UsageError unless the storage of matrices is a `MatrixConfig`."""
    for name, value in given.items():
        if not isinstance(value, MatrixConfig):
            raise UsageError(f"{name} is {value!r}: give a MatrixConfig, such as MatrixConfig('low_rank', 24)")


def check_frozen(layer: nn.Module, *configs: MatrixConfig) -> None:
    """Raise a UsageError if a layer has adapters, and is applied without the matrices under them."""
    kinds = sorted({config.kind for config in configs} & ADAPTERS.keys())
    if kinds and FROZEN not in layer.variables and not layer.is_mutable_collection(FROZEN):
        raise UsageError(
            f"the variables have no collection '{FROZEN}', which matrices of the kind {kinds[0]} need: pass all variables, as in "
            f"apply({{'params': params, '{FROZEN}': variables['{FROZEN}']}}, ...)"
        )


def stored_width(kind: str, arrays: Mapping[str, Any]) -> int | None:
    """Return the width of the inputs of a matrix. None if its arrays do not tell, or its kind is none of this library.

    Args:
      kind: name of the parametrization.
      arrays: its arrays by field.
    """
    if kind not in ALL_FORMS:
        return None
    shapes = {field: jnp.shape(array) for field, array in arrays.items()}
    if {"outer", "inner"} <= shapes.keys():
        return shapes["outer"][1] * shapes["inner"][1]
    known = ((shape, AXES[field]) for field, shape in shapes.items() if field in AXES)
    return next((prod(shape[axis] for axis in axes) for shape, axes in known if len(shape) > max(axes)), None)


def other_width(kind: str, stored: Mapping[str, Any], template: PyTree, width: int) -> int | None:
    """Return the width of inputs that the stored input matrices of a cell take. None if it is the given one, or they do not tell.

    Args:
      kind: name of the parametrization of input matrices.
      stored: arrays by name of the matrix, then by field.
      template: the cell's template for inputs of the given width.
      width: the given width.
    """
    if kind not in ALL_FORMS:
        return None
    widths = (stored_width(kind, arrays) for arrays in _of_inputs(stored, template, width))
    return next((found for found in widths if found not in (None, width)), None)


def _of_inputs(stored: Mapping[str, Any], template: PyTree, width: int) -> Iterator[dict[str, Any]]:
    """Yield the arrays of the matrices that the inputs are multiplied by. Tied ones share an array."""
    for path, spec in jax.tree_util.tree_leaves_with_path(template):
        if isinstance(spec, MatrixSpec) and spec.role == "input" and spec.n_in == width:
            yield {**stored.get(shared_name(spec), {}), **stored.get(name_of(path, spec), {})}


def check_vectors(inputs: Any, drawn_for: int | None, *, symbols: bool = False) -> None:
    """Raise a UsageError if the parameters of a layer were drawn for vectors of another width.

    Args:
      inputs: the inputs.
      drawn_for: width of the inputs that the parameters were drawn for. None if it is unknown.
      symbols: whether the layer could take integers as symbols.
    """
    shape = jnp.shape(inputs)
    if drawn_for is not None and shape[-1:] != (drawn_for,):
        remedy = ", or make the cell with symbols= if they are symbols" if symbols and jnp.issubdtype(inputs.dtype, jnp.integer) else ""
        raise UsageError(
            f"inputs are {inputs.dtype} of shape {shape}, and the parameters were drawn for width {drawn_for}: give inputs of that "
            f"width{remedy}"
        )
