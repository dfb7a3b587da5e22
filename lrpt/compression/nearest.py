"""Nearest low-rank and low-rank-plus-diagonal matrices.

The nearest matrix of rank d is the truncated singular value decomposition (Eckart and Young 1936). For R L + D there is no closed form,
but there is one for either part if the other is given: R L is the truncated decomposition of W - D, and D is the diagonal of W - R L.
Alternating between the parts never increases the error but converges slowly. Iterations are therefore extrapolated; an extrapolation that
does not help is undone. The alternation may end in a local minimum, so it is tried from several starts.

The error can also be measured on rows v that are multiplied by W. With their second moments C = E[v v^T],

    E |v W - v W'|^2 = |C^(1/2) (W - W')|^2

can be minimized in the same way (reduced-rank regression, Izenman 1975; the case without a diagonal is DRONE, Chen et al. 2021).

Everything here is NumPy in float64.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from threadpoolctl import threadpool_limits

from lrpt.errors import UsageError, is_integer

TOLERANCE = 1e-9
"""Alternation ends when an iteration reduces the error by less than this fraction."""
SCREENING = 1e-3
"""Tolerance while starts are compared."""
LIMIT = 1_000
"""Largest number of iterations."""
MEMORY = 8
"""Number of past iterations for extrapolation."""
THREADED = 512
"""Smallest width of a matrix that is decomposed with several BLAS threads. For smaller ones, waiting threads cost twenty times the work."""
RIDGE = 1e-10
"""White noise that makes singular second moments regular, as a fraction of their mean."""


SYMMETRY = 1e-4
"""Largest difference between second moments and their transpose, as a fraction of the largest moment. They may be rounded to float32."""


class Fit(NamedTuple):
    """A structured matrix W' = right^T left + D near W, in the orientation of `lrpt.matrices`.

    Attributes:
      left: (d, o), with the same singular values as `right`.
      right: (d, i).
      diagonal: (o,), or None without D.
      residual: `relative_error` of W', with the moments of the fit.
      iterations: singular value decompositions of the alternation from the best start; 1 without D.
    """

    left: Float[np.ndarray, "d o"]
    right: Float[np.ndarray, "d i"]
    diagonal: Float[np.ndarray, " o"] | None
    residual: float
    iterations: int

    def to_dense(self) -> Float[np.ndarray, "i o"]:
        """Return W'."""
        dense = self.right.T @ self.left
        if self.diagonal is not None:
            dense[_on_diagonal(dense)] += self.diagonal
        return dense

    def split(self, widths: Sequence[int]) -> "list[Fit]":
        """Split the fit of concatenated matrices with these numbers of columns. The parts share R and the residual."""
        edges = np.cumsum(widths)[:-1]
        lefts = np.split(self.left, edges, axis=1)
        diagonals = [None] * len(widths) if self.diagonal is None else np.split(self.diagonal, edges)
        return [self._replace(left=left, diagonal=diagonal) for left, diagonal in zip(lefts, diagonals, strict=True)]


def fit(W: Float[np.ndarray, "i o"], rank: int, *, diagonal: bool = True, moments: Float[np.ndarray, "i i"] | None = None) -> Fit:
    """Find the matrix R L + D nearest to W. With D it is the best of three local minima (`_starts`).

    Args:
      W: a matrix that acts on row vectors. With a diagonal it must be a square matrix, or several concatenated ones [W_1 ... W_k], which
        share the projection R and have their own diagonals.
      rank: d, columns of R and rows of L.
      diagonal: whether there is a D. Without D the result is optimal and takes one decomposition.
      moments: C, the second moments of the rows that W multiplies. By default all entries of W have equal weights.

    Raises:
      UsageError: the rank does not fit, W does not have the form above, or the moments are no second moments of rows of W.
    """
    W = np.asarray(W)
    _check(W, rank, diagonal)
    moments = None if moments is None else checked_moments(moments, W.shape[0])
    with threadpool_limits(1 if min(W.shape) < THREADED else None, "blas"):
        problem = _Problem(W, moments)
        if diagonal:
            screened = (problem.alternate(start, rank, SCREENING) for start in _starts(problem, rank))
            best = min(screened, key=lambda turns: turns.error)
            last = problem.alternate(best.diagonal, rank, TOLERANCE)
            found = problem.balanced(last.diagonal, rank, best.iterations + last.iterations)
        else:
            found = problem.balanced(np.zeros(W.shape[1]), rank, 1)._replace(diagonal=None)
        return found._replace(residual=relative_error(W, found.to_dense(), moments))


def check_error(error: float) -> None:
    """Raise a UsageError unless an allowed error is a part of the norm of a matrix."""
    if not 0 < error < 1:
        raise UsageError(f"error is {error}: expected a part of the norm, above 0 and below 1")


def rank_for(
    W: Float[np.ndarray, "i o"],
    error: float,
    *,
    diagonal: bool = True,
    moments: Float[np.ndarray, "i i"] | None = None,
    least: int = 1,
) -> int:
    """Find the smallest rank from `least` on at which the residual of `fit` is at most `error`.

    Raises:
      UsageError: the error is not between 0 and 1, or W does not fit.
    """
    check_error(error)
    W = np.asarray(W)
    return smallest(lambda rank: fit(W, rank, diagonal=diagonal, moments=moments).residual <= error, least, min(W.shape))


def smallest(enough: Callable[[int], bool], least: int, most: int) -> int:
    """Find the smallest sufficient rank from `least` to `most` by bisection.

    `most` must be sufficient, and so must every rank above a sufficient one.
    """
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
    """Return |W - W'| / |W| in Frobenius norms, or with moments the root of E|v W - v W'|^2 / E|v W|^2 over rows v. 0 / 0 is 0."""
    W, approximation = np.asarray(W, np.float64), np.asarray(approximation, np.float64)  # squares of half precision may overflow

    def square(A: np.ndarray) -> float:
        return max(float(np.sum(A * (A if moments is None else moments @ A))), 0.0)

    return float(np.sqrt(square(W - approximation) / (square(W) or 1.0)))


class _Turns(NamedTuple):
    """The result of an alternation: D, and the error norm of D with the best R L."""

    diagonal: np.ndarray
    error: float
    iterations: int


class _Problem:
    """The matrix W, and the norm that measures errors."""

    def __init__(self, W: np.ndarray, moments: np.ndarray | None) -> None:
        self.W = np.asarray(W, np.float64)
        self.moments = None if moments is None else _regular(moments)
        self.root = None if self.moments is None else _root(self.moments)

    def low_rank(self, diagonal: np.ndarray, rank: int) -> tuple[np.ndarray, np.ndarray, float]:
        """Return the best P Q for W - D, with orthonormal rows of Q, and the norm of the error.

        The rows of W - D are projected on the first right singular vectors of C^(1/2) (W - D), which needs no inverse of C.
        """
        rest = self.W.copy()
        rest[_on_diagonal(rest)] -= diagonal
        _, values, vectors = np.linalg.svd(rest if self.root is None else self.root @ rest, full_matrices=False)
        return rest @ vectors[:rank].T, vectors[:rank], float(np.linalg.norm(values[rank:]))

    def diagonal(self, low_rank: np.ndarray) -> np.ndarray:
        """Return the best D for W - R L: its diagonal, or d_j = (C (W - R L))_jj / C_jj."""
        rest = self.W - low_rank
        row, column = _on_diagonal(rest)
        if self.moments is None:
            return rest[row, column]
        return np.einsum("ij,ij->j", self.moments[:, row], rest) / self.moments[row, row]

    def alternate(self, diagonal: np.ndarray, rank: int, tolerance: float) -> _Turns:
        """Alternate from a start until the error stops decreasing.

        Each iteration starts from an extrapolation of the last ones. If that fails, it is replaced by a plain iteration.
        """
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
        """Return the best R L for D, with the roots of its singular values in both factors."""
        P, Q, _ = self.low_rank(diagonal, rank)
        U, values, V = np.linalg.svd(P, full_matrices=False)
        scale = np.sqrt(values)[:, None]
        return Fit(scale * (V @ Q), scale * U.T, diagonal, 0.0, iterations)


def _extrapolated(turns: Sequence[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """Extrapolate iterations D -> G(D) to a fixed point, as if G were affine (Anderson acceleration, Walker and Ni 2011).

    A single iteration gives G(D).
    """
    points, images = (np.stack(part) for part in zip(*turns, strict=True))
    moves = images - points
    weights = np.linalg.lstsq(np.diff(moves, axis=0).T, moves[-1], rcond=None)[0]
    return images[-1] - weights @ np.diff(images, axis=0)


def _starts(problem: _Problem, rank: int) -> Iterator[np.ndarray]:
    """Yield starts of the alternation: D = 0, D = diag(W), and a D found with increasing ranks.

    From D = 0 a large diagonal becomes a part of R L and stays there. From diag(W) it does not. Increasing the rank completes the diagonal
    from the entries beside it.
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
    """Return rows and columns of the diagonals of concatenated square matrices."""
    column = np.arange(W.shape[1])
    return column % W.shape[0], column


def _regular(moments: np.ndarray) -> np.ndarray:
    """Make second moments positive definite, so that they have a Cholesky factor. Zero moments become white."""
    moments = np.asarray(moments, np.float64)
    return moments + (RIDGE * np.trace(moments) / len(moments) or 1.0) * np.eye(len(moments))


def _root(moments: np.ndarray) -> np.ndarray:
    """Return C^(1/2), the transposed Cholesky factor."""
    try:
        return np.linalg.cholesky(moments).T
    except np.linalg.LinAlgError:
        least = np.linalg.eigvalsh(moments)[0]
        raise UsageError(
            f"moments have the eigenvalue {least:.3g}: expected none below 0; give means of v^T v over rows v, as second_moments does"
        ) from None


def checked_moments(moments: Any, size: int, named: str = "moments") -> Float[np.ndarray, "i i"]:
    """Return second moments C in float64.

    Args:
      moments: C.
      size: i, number of rows of the matrix.
      named: what the error calls them.

    Raises:
      UsageError: they are no symmetric matrix of this size of finite numbers.
    """
    own = np.asarray(moments, np.float64)
    if own.shape != (size, size):
        raise UsageError(f"{named} have shape {own.shape}: expected {(size, size)}, as the matrix has {size} rows")
    if not np.isfinite(own).all():
        raise UsageError(
            f"{named} are not finite, so they cannot weight errors: give --examples 0 (in Python no moments) for equal weights, or a "
            f"network whose states are finite"
        )
    if np.abs(own - own.T).max() > SYMMETRY * np.abs(own).max():
        raise UsageError(f"{named} are not symmetric: give means of v^T v over rows v, as second_moments returns them")
    return own


def _check(W: np.ndarray, rank: int, diagonal: bool) -> None:
    if W.ndim != 2 or not W.size or not np.isfinite(W).all():
        raise UsageError(f"an array of shape {W.shape} is not a matrix of finite numbers: only such a matrix can be compressed")
    if diagonal and W.shape[1] % W.shape[0]:
        raise UsageError(f"a diagonal needs square matrices, and a matrix is {W.shape[0]} x {W.shape[1]}: choose low_rank for it")
    if not is_integer(rank):
        raise UsageError(f"rank is {rank}: expected an integer from 1 to {min(W.shape)}")
    if not 1 <= rank <= min(W.shape):
        raise UsageError(f"rank {rank} does not fit a matrix of {W.shape[0]} x {W.shape[1]}: choose one from 1 to {min(W.shape)}")
