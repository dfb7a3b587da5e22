"""Low-rank fits of groups of matrices: matrices that share R are fitted together, and one rank suffices for all groups."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from lrpt.compression.moments import Moments
from lrpt.compression.nearest import Fit, fit, rank_for, relative_error, smallest
from lrpt.compression.stored import Stored, full_form
from lrpt.specs import MatrixSpec, shared_name

Factors = dict[str, np.ndarray]
"""The arrays of a matrix by field."""


@dataclass(frozen=True)
class MatrixReport:
    """The approximation error of one matrix.

    Attributes:
      matrix: its role and gate, such as 'recurrent/update'.
      shape: (n_in, n_out).
      rank: rank of R L, displacement rank, number of reflections or rank of a tensor train; None for other structures.
      residual: |W' - W| / |W| in Frobenius norms.
      output_error: the root of E|v W' - v W|^2 / E|v W|^2 over rows v with the given moments; None without moments.
      iterations: singular value decompositions of the fit; matrices that share R are fitted together.
    """

    matrix: str
    shape: tuple[int, int]
    rank: int | None
    residual: float
    output_error: float | None
    iterations: int

    @property
    def error(self) -> float:
        """Return the minimized error: the error of outputs if moments were given, else the error of the matrix."""
        return self.residual if self.output_error is None else self.output_error


def report_on(
    matrix: str,
    W: Float[np.ndarray, "i o"],
    approximation: Float[np.ndarray, "i o"],
    moments: Float[np.ndarray, "i i"] | None,
    rank: int | None,
    iterations: int,
) -> MatrixReport:
    """Return the report on a matrix W and its approximation.

    Args:
      matrix: its name in the report.
      W: the matrix.
      approximation: the matrix that replaces it.
      moments: second moments of the rows that W is multiplied by; None for no error of outputs.
      rank: as in the report.
      iterations: as in the report.
    """
    output_error = None if moments is None else relative_error(W, approximation, moments)
    return MatrixReport(matrix, (W.shape[0], W.shape[1]), rank, relative_error(W, approximation), output_error, iterations)


class Group:
    """Matrices that are fitted together: a single one, or several that share R, concatenated."""

    def __init__(self, role: str, stored: Mapping[str, Stored], diagonal: bool, moments: Moments | None) -> None:
        self.role, self.diagonal, self.moments = role, diagonal, moments
        self.specs = {name: spec for name, (spec, _) in stored.items()}
        self.dense = {name: full_form(matrix) for name, (_, matrix) in stored.items()}
        self.joined = np.concatenate(list(self.dense.values()), axis=1)
        self.mean_moments = None if moments is None else np.mean([moments[name] for name in stored], axis=0)

    def rank_for(self, error: float, least: int) -> int:
        """Return the smallest rank from `least` on at which no matrix of the group exceeds the error.

        If the matrices have equal moments, the mean error of the group gives a lower bound of that rank. If not, it gives none, and the
        error of a matrix may grow with the rank. Ranks are then tried one by one, from the largest rank that a matrix needs for itself.
        """
        most = min(self.joined.shape)
        if self._has_equal_moments():
            mean = rank_for(self.joined, error, diagonal=self.diagonal, moments=self.mean_moments, least=least)
            return mean if len(self.dense) == 1 else smallest(lambda rank: self._is_within(error, rank), mean, most)
        own = (rank_for(W, error, diagonal=self.diagonal, moments=self._moments_of(name)) for name, W in self.dense.items())
        return next((rank for rank in range(max(least, *own), most) if self._is_within(error, rank)), most)

    def _has_equal_moments(self) -> bool:
        if self.moments is None:
            return True
        first, *others = (self.moments[name] for name in self.dense)
        return all(np.array_equal(first, other) for other in others)

    def _is_within(self, error: float, rank: int) -> bool:
        return all(report.error <= error for _, report in self.fit(rank).values())

    def _moments_of(self, name: str) -> np.ndarray | None:
        return None if self.moments is None else self.moments[name]

    def fit(self, rank: int) -> dict[str, tuple[Factors, MatrixReport]]:
        """Return the arrays and the report of each matrix at a rank."""
        found = fit(self.joined, rank, diagonal=self.diagonal, moments=self.mean_moments)
        parts = found.split([W.shape[1] for W in self.dense.values()])
        return {name: (_factors(part), self._report(name, rank, part)) for name, part in zip(self.dense, parts, strict=True)}

    def _report(self, name: str, rank: int, part: Fit) -> MatrixReport:
        return report_on(f"{self.role}/{name}", self.dense[name], part.to_dense(), self._moments_of(name), rank, part.iterations)


def grouped(role: str, stored: Mapping[str, Stored], diagonal: bool, tied: bool, moments: Moments | None) -> list[Group]:
    """Group the matrices that share R: the tied matrices of each group of the cell. Every other matrix is a group of its own."""
    members: dict[str, dict[str, Stored]] = {}
    for name, item in stored.items():
        members.setdefault(item.spec.group if tied else name, {})[name] = item
    return [Group(role, part, diagonal, moments) for part in members.values()]


def common_rank(groups: Sequence[Group], error: float) -> int:
    """Return the smallest rank that is sufficient for every group.

    The error of a group may grow with the rank. So all groups are asked again whenever one of them has raised the rank.
    """
    rank, found = 0, 1
    while found != rank:
        rank = found
        for group in groups:
            found = group.rank_for(error, found)
    return found


def fitted(groups: Sequence[Group], rank: int, tied: bool) -> tuple[dict[str, Factors], list[MatrixReport]]:
    """Fit the matrices of a role. Return their parameters and reports."""
    specs = {name: spec for group in groups for name, spec in group.specs.items()}
    found = {name: part for group in groups for name, part in group.fit(rank).items()}
    return tree_of({name: factors for name, (factors, _) in found.items()}, specs, tied), [report for _, report in found.values()]


def tree_of(factors: Mapping[str, Factors], specs: Mapping[str, MatrixSpec], tied: bool) -> dict[str, Factors]:
    """Build the parameter tree with the names of `lrpt.parametrizations`. Tied matrices of a group store R once."""
    tree = {name: dict(own) for name, own in factors.items()}
    for name, spec in specs.items() if tied else ():
        tree[shared_name(spec)] = {"right": tree[name].pop("right")}
    return tree


def _factors(found: Fit) -> Factors:
    """Return the arrays of a fit by name."""
    arrays = {"left": found.left, "right": found.right, "diagonal": found.diagonal}
    return {name: np.asarray(array, np.float32) for name, array in arrays.items() if array is not None}
