"""The low-rank and low-rank-plus-diagonal matrices that are nearest to a given one.

The nearest matrix of rank d is the truncated singular value decomposition (Eckart and Young 1936). For L R + D there is no closed form, but
either part has one when the other is given: L R is the truncated decomposition of W - D, D is the diagonal of W - L R. Taken in turns they
never move away from W, but slowly: turns are extrapolated, and taken back where that does not help. They may end in a local minimum, so
several starts are tried.

Near can mean near on the rows v that W is applied to. With their second moments C = E[v v^T],

    E |v W - v W'|^2 = |C^(1/2) (W - W')|^2

is as easy to lower (reduced-rank regression, Izenman 1975; the case without a diagonal is DRONE, Chen et al. 2021).

Everything here is NumPy in float64.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from lrpt.errors import UsageError

TOLERANCE = 1e-9
"""Alternation ends when a turn lowers the error by less than this part of it."""
SCREENING = 1e-3
"""The same while starts are compared."""
LIMIT = 1_000
"""The most turns."""
MEMORY = 8
"""Turns that are extrapolated from."""
RIDGE = 1e-10
"""White noise, as a part of their mean, that makes singular second moments regular."""


class Fit(NamedTuple):
    """A structured matrix W' = right^T left + D that is near to W, in the orientation of `lrpt.matrices`.

    Attributes:
      left: (d, o), of the same singular values as `right`.
      right: (d, i).
      diagonal: (o,), or None where there is none.
      residual: `relative_error` of W', by the moments that the fit was given.
      iterations: singular value decompositions of the alternation that led here.
    """

    left: Float[np.ndarray, "d o"]
    right: Float[np.ndarray, "d i"]
    diagonal: Float[np.ndarray, " o"] | None
    residual: float
    iterations: int

    def to_dense(self) -> Float[np.ndarray, "i o"]:
        """W'."""
        dense = self.right.T @ self.left
        if self.diagonal is not None:
            dense[_on_diagonal(dense)] += self.diagonal
        return dense

    def split(self, widths: Sequence[int]) -> "list[Fit]":
        """The fits of matrices that lie side by side, of so many columns each. They have R and the residual in common."""
        edges = np.cumsum(widths)[:-1]
        lefts = np.split(self.left, edges, axis=1)
        diagonals = [None] * len(widths) if self.diagonal is None else np.split(self.diagonal, edges)
        return [self._replace(left=left, diagonal=diagonal) for left, diagonal in zip(lefts, diagonals, strict=True)]


def fit(W: Float[np.ndarray, "i o"], rank: int, *, diagonal: bool = True, moments: Float[np.ndarray, "i i"] | None = None) -> Fit:
    """The matrix L R + D that is nearest to W, or the nearest of three local minima: see `_starts`.

    Args:
      W: a matrix that acts on row vectors; with a diagonal, one square matrix or several side by side, [W_1 ... W_k], which then share the
        projection R and have a diagonal each.
      rank: d, columns of L and rows of R.
      diagonal: whether there is a D; without it the result is optimal, and one decomposition is all it takes.
      moments: C, the second moments of the rows that W is applied to; by default all entries of W weigh alike.

    Raises:
      UsageError: the rank does not fit, or W is not what is described above.
    """
    _check(W, rank, diagonal)
    problem = _Problem(W, moments)
    if diagonal:
        screened = (problem.alternate(start, rank, SCREENING) for start in _starts(problem, rank))
        best = min(screened, key=lambda turns: turns.error)
        last = problem.alternate(best.diagonal, rank, TOLERANCE)
        found = problem.balanced(last.diagonal, rank, best.iterations + last.iterations)
    else:
        found = problem.balanced(np.zeros(W.shape[1]), rank, 1)._replace(diagonal=None)
    return found._replace(residual=relative_error(W, found.to_dense(), moments))


def rank_for(
    W: Float[np.ndarray, "i o"],
    error: float,
    *,
    diagonal: bool = True,
    moments: Float[np.ndarray, "i i"] | None = None,
    least: int = 1,
) -> int:
    """The smallest rank from `least` on at which the residual of `fit` is at most `error`.

    Raises:
      UsageError: the error is not between 0 and 1, or W does not fit.
    """
    if not 0 < error < 1:
        raise UsageError(f"error is {error}: expected a part of the norm, above 0 and below 1")

    return smallest(lambda rank: fit(W, rank, diagonal=diagonal, moments=moments).residual <= error, least, min(W.shape))


def smallest(enough: Callable[[int], bool], least: int, most: int) -> int:
    """The smallest rank from `least` on that is enough, by bisection; `most` is, and whatever is above one that is."""
    if enough(least):
        return least
    low, high = least + 1, most
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle + 1, high)
    return low


def relative_error(
    W: Float[np.ndarray, "i o"], approximation: Float[np.ndarray, "i o"], moments: Float[np.ndarray, "i i"] | None = None
) -> float:
    """|W - W'| / |W| in Frobenius norms, or the root of E|v W - v W'|^2 / E|v W|^2 for rows v of these second moments; 0 / 0 is 0."""

    def square(A: np.ndarray) -> float:
        return max(float(np.sum(A * (A if moments is None else moments @ A))), 0.0)

    return float(np.sqrt(square(W - approximation) / (square(W) or 1.0)))


class _Turns(NamedTuple):
    """Where an alternation ended: D, and the norm of what it and the best L R for it leave over."""

    diagonal: np.ndarray
    error: float
    iterations: int


class _Problem:
    """W, and how the distance from it is measured."""

    def __init__(self, W: np.ndarray, moments: np.ndarray | None) -> None:
        self.W = np.asarray(W, np.float64)
        self.moments = None if moments is None else _regular(moments)
        self.root = None if self.moments is None else np.linalg.cholesky(self.moments).T

    def low_rank(self, diagonal: np.ndarray, rank: int) -> tuple[np.ndarray, np.ndarray, float]:
        """P and Q of the best P Q for W - D, Q with orthonormal rows, and the norm of what is left over.

        The rows of W - D are projected on the first right singular vectors of C^(1/2) (W - D), which takes no inverse of C.
        """
        rest = self.W.copy()
        rest[_on_diagonal(rest)] -= diagonal
        _, values, vectors = np.linalg.svd(rest if self.root is None else self.root @ rest, full_matrices=False)
        return rest @ vectors[:rank].T, vectors[:rank], float(np.linalg.norm(values[rank:]))

    def diagonal(self, low_rank: np.ndarray) -> np.ndarray:
        """The best D for W - L R: its diagonal, or d_j = (C (W - L R))_jj / C_jj."""
        rest = self.W - low_rank
        row, column = _on_diagonal(rest)
        if self.moments is None:
            return rest[row, column]
        return np.einsum("ij,ij->j", self.moments[:, row], rest) / self.moments[row, row]

    def alternate(self, diagonal: np.ndarray, rank: int, tolerance: float) -> _Turns:
        """From a start to where a turn gains little: first by extrapolation over the last turns, and where that fails, by a plain one."""
        best = _Turns(diagonal, np.inf, 0)
        turns: list[tuple[np.ndarray, np.ndarray]] = []
        count = 0
        while count < LIMIT:
            count += 1
            P, Q, error = self.low_rank(diagonal, rank)
            gained = error < (1 - tolerance) * best.error
            if error < best.error:
                best = _Turns(diagonal, error, count)
            if gained:
                turns = [*turns[-MEMORY:], (diagonal, self.diagonal(P @ Q))]
                diagonal = _extrapolated(turns)
            elif len(turns) > 1:
                turns = turns[-1:]
                diagonal = _extrapolated(turns)
            else:
                break
        return best._replace(iterations=count)

    def balanced(self, diagonal: np.ndarray, rank: int, iterations: int) -> Fit:
        """The best L R for D, with the roots of its singular values on either side."""
        P, Q, _ = self.low_rank(diagonal, rank)
        U, values, V = np.linalg.svd(P, full_matrices=False)
        scale = np.sqrt(values)[:, None]
        return Fit(scale * (V @ Q), scale * U.T, diagonal, 0.0, iterations)


def _extrapolated(turns: Sequence[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """Where turns D -> G(D) lead if G is affine (Anderson acceleration, Walker and Ni 2011); for a single turn G(D)."""
    points, images = (np.stack(part) for part in zip(*turns, strict=True))
    moves = images - points
    weights = np.linalg.lstsq(np.diff(moves, axis=0).T, moves[-1], rcond=None)[0]
    return images[-1] - weights @ np.diff(images, axis=0)


def _starts(problem: _Problem, rank: int) -> Iterator[np.ndarray]:
    """Where alternation begins: D = 0, D = diag(W), and what growing the rank leads to.

    From D = 0 a large diagonal is taken for a part of L R, and stays there. From diag(W) it is not; a rank that grows completes the
    diagonal from what is beside it.
    """
    own = problem.W[_on_diagonal(problem.W)]
    yield np.zeros_like(own)
    yield own
    grown = own
    for smaller in (2**k for k in range(rank.bit_length()) if 2**k < rank):
        for _ in range(3):
            P, Q, _ = problem.low_rank(grown, smaller)
            grown = problem.diagonal(P @ Q)
    yield grown


def _on_diagonal(W: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows and columns of the diagonals of square matrices that lie side by side."""
    column = np.arange(W.shape[1])
    return column % W.shape[0], column


def _regular(moments: np.ndarray) -> np.ndarray:
    """Second moments that have a Cholesky factor; white ones in place of none at all."""
    moments = np.asarray(moments, np.float64)
    return moments + (RIDGE * np.trace(moments) / len(moments) or 1.0) * np.eye(len(moments))


def _check(W: np.ndarray, rank: int, diagonal: bool) -> None:
    if W.ndim != 2 or not W.size or not np.isfinite(W).all():
        raise UsageError(f"an array of shape {W.shape} is no matrix of finite numbers: only such a matrix can be compressed")
    if diagonal and W.shape[1] % W.shape[0]:
        raise UsageError(f"a diagonal needs square matrices, and {W.shape[0]} x {W.shape[1]} is not one or several: choose low_rank for it")
    if not 1 <= rank <= min(W.shape):
        raise UsageError(f"rank {rank} does not fit a matrix of {W.shape[0]} x {W.shape[1]}: choose one from 1 to {min(W.shape)}")
