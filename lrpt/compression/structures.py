"""Nearest matrices of each structure, by closed forms.

For most structures the nearest matrix in the Frobenius norm is known: a part of the entries (block-diagonal, sparse), a mean over wrapped
diagonals (circulant), a truncated singular value decomposition of the rearranged entries (Kronecker products, Van Loan and Pitsianis 1993),
or of each slice (Monarch, Dao et al. 2022, section 3.3). Two results are not the nearest: for Toeplitz-like matrices the displacement is
truncated, and for products of reflections the polar factor. Both may be farther from the matrix than the zero matrix is. Alternation finds
a diagonal and never increases the error.

Low rank, with and without a diagonal, is in `lrpt.compression.nearest`. Everything here is NumPy in float64.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import jax
import numpy as np
import scipy.linalg
from jaxtyping import Float

from lrpt.analysis.budgets import known_form
from lrpt.compression.nearest import fit
from lrpt.errors import UsageError
from lrpt.parametrizations import FORMS, MatrixConfig, SumForm, form_of
from lrpt.specs import MatrixSpec

Arrays = dict[str, np.ndarray]
LIMIT, TOLERANCE = 300, 1e-7
"""Largest number of turns between a structure and its diagonal, and the relative gain below which they end."""


def nearest(W: Float[np.ndarray, "i o"], name: str, spec: MatrixSpec, config: MatrixConfig) -> Arrays:
    """Return the arrays of the matrix nearest to W in the form `config.kind`, by field.

    Args:
      W: a matrix that acts on row vectors.
      name: its name, which decides the places of a sparse matrix.
      spec: its size and role.
      config: form and sizes.

    Raises:
      UsageError: the form does not fit, or nothing is known about it.
    """
    form = form_of(config.kind)
    kind = config.kind.removesuffix("_plus_diagonal")
    if form is None or kind not in PROJECTIONS:
        raise UsageError(f"nothing is known about the nearest matrix of kind '{config.kind}': choose from {', '.join(PROJECTIONS)}")
    form.arrays(name, spec, config)  # raises if the sizes do not fit

    def project(rest: np.ndarray) -> Arrays:
        return PROJECTIONS[kind](rest, name, spec, config)

    def dense(arrays: Arrays) -> np.ndarray:
        return to_dense(arrays, name, spec, replace(config, kind=kind))

    if not isinstance(form, SumForm):
        return project(W)
    if kind == "low_rank":
        found = fit(W, config.rank)
        return {"left": found.left, "right": found.right, "diagonal": np.asarray(found.diagonal)}
    return min((_alternated(W, start, project, dense) for start in (np.zeros(len(W)), np.diag(W).copy())), key=lambda turn: turn[0])[1]


def _alternated(
    W: np.ndarray, diagonal: np.ndarray, project: Callable[[np.ndarray], Arrays], dense: Callable[[Arrays], np.ndarray]
) -> tuple[float, Arrays]:
    """Alternate between the structure and its diagonal until the error stops decreasing. Return the error and the arrays."""
    best: tuple[float, Arrays] = (np.inf, {})
    for _ in range(LIMIT):
        arrays = project(W - np.diag(diagonal))
        rest = W - dense(arrays)
        diagonal = np.diag(rest).copy()
        error = float(np.linalg.norm(rest - np.diag(diagonal)))
        gained = error < (1 - TOLERANCE) * best[0]
        if error < best[0]:
            best = error, {**arrays, "diagonal": diagonal}
        if not gained:
            break
    return best


def to_dense(arrays: Mapping[str, np.ndarray], name: str, spec: MatrixSpec, config: MatrixConfig) -> Float[np.ndarray, "i o"]:
    """Return the dense matrix that arrays of a form stand for, in double precision."""
    with jax.enable_x64(True):
        return np.asarray(known_form(config.kind).matrix(name, spec, config, arrays).to_dense())  # type: ignore[arg-type]


def _low_rank(W: np.ndarray, name: str, spec: MatrixSpec, config: MatrixConfig) -> Arrays:
    found = fit(W, config.rank, diagonal=False)
    return {"left": found.left, "right": found.right}


def _dense(W: np.ndarray, name: str, spec: MatrixSpec, config: MatrixConfig) -> Arrays:
    return {"kernel": W}


def _block_diagonal(W: np.ndarray, name: str, spec: MatrixSpec, config: MatrixConfig) -> Arrays:
    k = config.blocks
    each = np.arange(k)
    return {"blocks": _in_blocks(W, k)[each, :, each]}


def _in_blocks(W: np.ndarray, k: int) -> np.ndarray:
    """Return W with its rows and columns in k pieces: (k, n_in / k, k, n_out / k)."""
    return W.reshape(k, W.shape[0] // k, k, W.shape[1] // k)


def _monarch(W: np.ndarray, name: str, spec: MatrixSpec, config: MatrixConfig) -> Arrays:
    slices = _in_blocks(W, config.blocks).transpose(0, 3, 1, 2)  # (a, j), each a matrix over (i, b)
    U, values, V = np.linalg.svd(slices, full_matrices=False)
    scale = np.sqrt(values[..., :1])
    return {"first": np.swapaxes(U[..., 0] * scale, 1, 2), "second": np.swapaxes(V[..., 0, :] * scale, 0, 1)}


def _kronecker(W: np.ndarray, name: str, spec: MatrixSpec, config: MatrixConfig) -> Arrays:
    k, terms = config.blocks, config.rank if config.kind.startswith("tensor_train") else 1
    rearranged = _in_blocks(W, k).transpose(0, 2, 1, 3).reshape(k * k, -1)
    U, values, V = np.linalg.svd(rearranged, full_matrices=False)
    scale = np.sqrt(values[:terms])
    outer, inner = (U[:, :terms] * scale).T, V[:terms] * scale[:, None]
    return {"outer": outer.reshape(terms, k, k), "inner": inner.reshape(terms, W.shape[0] // k, W.shape[1] // k)}


def _circulant(W: np.ndarray, name: str, spec: MatrixSpec, config: MatrixConfig) -> Arrays:
    n = len(W)
    rows = np.arange(n)
    return {"first_row": np.array([W[rows, (rows + shift) % n].mean() for shift in range(n)])}


def _toeplitz_like(W: np.ndarray, name: str, spec: MatrixSpec, config: MatrixConfig) -> Arrays:
    """Truncate the displacement Z_1 W - W Z_{-1} = sum_t J g_t h_t^T to the rank, where J reverses."""
    ahead = np.roll(W, 1, axis=1)  # W Z: columns move to the right, and Z_{-1} negates the one that wraps around
    ahead[:, 0] *= -1
    U, values, V = np.linalg.svd(np.roll(W, -1, axis=0) - ahead)
    scale = np.sqrt(values[: config.rank])[:, None]
    return {"circulant": U.T[: config.rank, ::-1] * scale, "skew": V[: config.rank] * scale}


def _sparse(W: np.ndarray, name: str, spec: MatrixSpec, config: MatrixConfig) -> Arrays:
    stored = FORMS["sparse"].arrays(name, spec, config)["entries"]
    matrix: Any = FORMS["sparse"].matrix(name, spec, config, {"entries": np.zeros(stored.shape)})  # type: ignore[dict-item]
    return {"entries": W[matrix.places, np.arange(W.shape[1])[:, None]]}


def _householder(W: np.ndarray, name: str, spec: MatrixSpec, config: MatrixConfig) -> Arrays:
    """Keep the planes in which the polar factor turns most. A rotation takes two reflections, an eigenvalue of -1 takes one.

    Spare reflections share one vector, so that pairs of them cancel. The vector lies in the first plane that was left out, or is the first
    Schur vector if none was.
    """
    U, _, V = np.linalg.svd(W)
    schur: Any = scipy.linalg.schur(U @ V, output="real")
    T, Z = schur
    vectors: list[np.ndarray] = []
    fixed: list[np.ndarray] = []
    for _, plane in sorted(_planes(T, Z), key=lambda found: -found[0]):
        if len(vectors) + len(plane) <= config.rank:
            vectors += plane
        else:
            fixed.append(plane[0])
    left = config.rank - len(vectors)
    spare = fixed[0] if fixed else Z[:, 0]
    return {"vectors": np.stack(vectors + [spare] * left)}


def _planes(T: np.ndarray, Z: np.ndarray) -> list[tuple[float, list[np.ndarray]]]:
    """Return (gain, vectors of reflections) for each plane that an orthogonal matrix rotates, and for each eigenvalue -1.

    The gain is the squared distance from the identity for each reflection. A rotation is two reflections whose vectors enclose half of its
    angle.

    Args:
      T: real Schur form of the matrix.
      Z: its Schur vectors, as columns.
    """
    found, i = [], 0
    while i < len(T):
        if i + 1 < len(T) and abs(T[i + 1, i]) > 1e-9:
            half = np.arctan2(T[i + 1, i], T[i, i]) / 2
            between = np.cos(half) * Z[:, i] + np.sin(half) * Z[:, i + 1]
            found.append((2 * (1 - T[i, i]), [between, Z[:, i]]))
            i += 2
        else:
            if T[i, i] < 0:
                found.append((4.0, [Z[:, i]]))
            i += 1
    return found


Projection = Callable[[np.ndarray, str, MatrixSpec, MatrixConfig], Arrays]

PROJECTIONS: dict[str, Projection] = {
    "dense": _dense,
    "low_rank": _low_rank,
    "block_diagonal": _block_diagonal,
    "monarch": _monarch,
    "kronecker": _kronecker,
    "tensor_train": _kronecker,
    "circulant": _circulant,
    "toeplitz_like": _toeplitz_like,
    "householder": _householder,
    "sparse": _sparse,
}
"""Nearest matrices by parametrization, without the diagonal of its sum."""
