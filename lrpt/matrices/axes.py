"""Axes of stored arrays, by field name: the axis along a row of the papers' matrix, and the axes that are as long as the matrix is wide."""

from typing import Any

import jax
from jaxtyping import Array

from lrpt.errors import UsageError
from lrpt.matrices.operator import Operator

# The axis of a stored factor along which the entries of one row of the paper's matrix lie (its W v orientation). Weight normalization and
# the max-norm constraint act on such rows. They leave factors alone that are not listed (diagonals, biases). Axes count from the last, so
# that they hold for stacks of matrices.
ROW_AXIS = {"kernel": -2, "left": -2, "right": -1, "blocks": -2, "entries": -1}

ROW_NORMS = {role: f"{role}_scale" for role in ("recurrent", "input")}
"""Role of matrices -> name of the module that owns their trainable row norms under weight normalization. Arrays have the same names."""

NORMS_OF_LAYER = "scale", "matrix"
"""Name of that module, and of the matrix, in a layer with one matrix, such as `lrpt.interop.linen.Linear`."""

WIDE_AXES = {"kernel": (0, 1), "left": (1,), "right": (1,), "diagonal": (0,), "bias": (0,)}
"""The axes of each stored array that are as long as the matrix is wide."""


def field_of(path: tuple[Any, ...]) -> str:
    """Return the name of the field at the end of a path in an operator, '' if there is none."""
    return str(getattr(path[-1], "name", "")) if path else ""


def leading_block(operator: Operator, size: int) -> Operator:
    """Return the upper left block of a square matrix, in the same form of storage, or the first components of a bias.

    Args:
      operator: an operator all of whose arrays stand in `WIDE_AXES`, such as `Dense`, `Diagonal`, `LowRank` and `Bias`,
        or a sum of them.
      size: rows and columns of the block.

    Raises:
      UsageError: an operator of another kind.
    """
    stored = {field_of(path) for path, _ in jax.tree_util.tree_leaves_with_path(operator)}
    if not stored <= WIDE_AXES.keys():
        raise UsageError(f"a {type(operator).__name__} matrix has no leading block: its arrays {sorted(stored)} are not all in WIDE_AXES")

    def cut(path: tuple[Any, ...], array: Array) -> Array:
        wide = WIDE_AXES[field_of(path)]
        return array[tuple(slice(size) if axis in wide else slice(None) for axis in range(array.ndim))]

    return jax.tree_util.tree_map_with_path(cut, operator)
