"""Multiplying out low-rank matrices before they are used many times, where a product with the full matrix is less work."""

from typing import Any, Literal

import jax

from lrpt.matrices import Dense, LowRank, LowRankPlusDiagonal

Materialize = Literal["auto", "always", "never"]

ADVANTAGE = 0.7
"""A full product runs as fast as two thin ones of 0.7 times as much work (measured on a CPU at n = 128)."""


def materialized(params: Any, choice: str, rows: int) -> Any:
    """Parameters in which low-rank matrices are full ones: the same function, and gradients reach the factors through L R + D.

    Args:
      params: a cell's parameters.
      choice: 'always', 'never', or 'auto': where L R and full products take less work than thin products; for many rows and a square
        matrix that is where 2d > 0.7 n.
      rows: rows that each matrix will be applied to: steps times batch.
    """
    if choice == "never":
        return params
    kinds = LowRank, LowRankPlusDiagonal

    def full(matrix: Any) -> Any:
        return Dense(matrix.to_dense()) if isinstance(matrix, kinds) and (choice == "always" or _pays(matrix, rows)) else matrix

    return jax.tree.map(full, params, is_leaf=lambda node: isinstance(node, kinds))


def _pays(matrix: LowRank | LowRankPlusDiagonal, rows: int) -> bool:
    (n_in, n_out), rank = matrix.shape, matrix.left.shape[0]
    return rows * (rank * (n_in + n_out) - ADVANTAGE * n_in * n_out) > n_in * n_out * rank
