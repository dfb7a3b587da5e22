"""Another form of parameters that are used many times: structured matrices multiplied out, operators merged, if that is less work."""

from typing import Any, Literal

import jax
from jaxtyping import PyTree

from lrpt.matrices import Dense, is_operator
from lrpt.recurrence.explicit import replicated
from lrpt.recurrence.interception import is_of_its_apply
from lrpt.recurrence.loops import is_known

Materialize = Literal["auto", "always", "never"]

ADVANTAGE = 0.7
"""A dense product runs as fast as two thin products of 0.7 times as much work (measured on a CPU at n = 128)."""


def materialized(params: PyTree, choice: str, rows: Any) -> PyTree:
    """Replace structured matrices by dense ones. The function stays the same, and gradients reach the factors through `to_dense`.

    Matrices without matrix products, such as diagonals, stay as they are. A matrix that does not know its costs (`work` and
    `dense_products`, see `lrpt.matrices`) is multiplied out by 'always' only. A matrix stays as it is if it, or a part of it, overrides the
    `apply` of its `to_dense`.

    Args:
      params: a cell's parameters.
      choice: 'always', 'never', or 'auto': multiply out if `to_dense` and dense products take less work than structured ones. For low rank,
        many rows and a square matrix that is the case for 2d > 0.7 n.
      rows: rows that each matrix will be applied to: steps times batch. 'auto' multiplies nothing out if they are symbolic (`jax.export`).
    """
    if choice == "never":
        return params

    def full(matrix: Any) -> Any:
        return Dense(replicated(_to_dense, matrix)) if _has_products(matrix) and (choice == "always" or _pays(matrix, rows)) else matrix

    return jax.tree.map(full, params, is_leaf=_has_dense)


def merged(params: PyTree, choice: str, steps: Any) -> PyTree:
    """Replace a cell's parameters by others of the same function in fewer operations per step, where they have a method `merged`.

    Args:
      params: a cell's parameters.
      choice: 'always', 'never', or 'auto': merge them unless there is a single step.
      steps: steps for which the merged parameters will be used. 'auto' merges nothing if their number is symbolic (`jax.export`).
    """
    if choice == "never" or (choice == "auto" and not (is_known(steps) and steps > 1)):
        return params
    return jax.tree.map(lambda node: replicated(_merge, node) if _can_merge(node) else node, params, is_leaf=_can_merge)


def can_merge(params: PyTree) -> bool:
    """Return whether a cell's parameters, or their template, have a method `merged`."""
    return any(map(_can_merge, jax.tree.leaves(params, is_leaf=_can_merge)))


def _to_dense(matrix: Any) -> Any:
    return matrix.to_dense()


def _merge(node: Any) -> Any:
    return node.merged()


def _can_merge(node: Any) -> bool:
    return callable(getattr(node, "merged", None))


def _has_dense(node: Any) -> bool:
    return callable(getattr(node, "to_dense", None)) and not isinstance(node, Dense)


def _knows_costs(matrix: Any) -> bool:
    """Return whether a matrix knows its costs. A sum does if all its terms do: its `dense_products` asks them."""
    return hasattr(matrix, "work") and hasattr(matrix, "dense_products")


def _is_its_dense(matrix: Any) -> bool:
    """Return whether `to_dense` multiplies out what `apply` computes, in the matrix and in the operators that it is made of."""
    if hasattr(matrix, "to_dense") and not is_of_its_apply(type(matrix), "to_dense"):
        return False
    parts = jax.tree.leaves(matrix, is_leaf=lambda node: node is not matrix and is_operator(node))
    return all(_is_its_dense(part) for part in parts if is_operator(part) and part is not matrix)


def _has_products(matrix: Any) -> bool:
    return _has_dense(matrix) and _is_its_dense(matrix) and not (_knows_costs(matrix) and not matrix.work().products)


def _pays(matrix: Any, rows: Any) -> bool:
    if not (_knows_costs(matrix) and is_known(rows)):
        return False
    n_in, n_out = matrix.shape
    structured = matrix.work().products * getattr(matrix, "slowness", 1.0)
    return rows * (structured - ADVANTAGE * n_in * n_out) > matrix.dense_products
