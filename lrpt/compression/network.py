"""Compression of a trained network to structured matrices, as a start for further training.

The error of a matrix can be weighted by the second moments of the rows that the cell multiplies by it (`lrpt.compression.moments`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import numpy as np

from lrpt.compression.moments import Moments
from lrpt.compression.nearest import Fit, fit, rank_for, relative_error, smallest
from lrpt.compression.stored import Stored, full_form, full_matrices, stored_matrices
from lrpt.compression.structures import nearest, to_dense
from lrpt.errors import UsageError, check_choice
from lrpt.matrices import Matrix, field_of
from lrpt.networks.recurrent import Recurrent, RecurrentConfig
from lrpt.parametrizations import FORMS, MatrixConfig
from lrpt.specs import MatrixSpec, shared_name

DIAGONAL = {"low_rank": False, "low_rank_plus_diagonal": True}
"""Targets whose errors may be weighted, and whether they have a diagonal."""

TARGETS = [kind for kind in FORMS if kind != "dense"]
"""Parametrizations that a network can be brought to."""

Factors = dict[str, np.ndarray]


@dataclass(frozen=True)
class MatrixReport:
    """The approximation error of one matrix.

    Attributes:
      matrix: its role and gate, such as 'recurrent/update'.
      shape: (n_in, n_out).
      rank: rank of L R, displacement rank, number of reflections or rank of a tensor train; None for other structures.
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


class Compression(NamedTuple):
    """Parameters and configuration of the smaller network, and a report for each matrix."""

    params: Any
    config: RecurrentConfig
    matrices: list[MatrixReport]


def compress(
    params: Any,
    network: Recurrent,
    *,
    rank: int | None = None,
    error: float | None = None,
    parametrization: str = "low_rank_plus_diagonal",
    tied: bool = False,
    input_rank: int | None = None,
    moments: Moments | None = None,
    blocks: int = MatrixConfig.blocks,
    density: float = MatrixConfig.density,
) -> Compression:
    """Replace the recurrent matrices of a network by the nearest ones of another parametrization. All other parameters are kept.

    The network may have any parametrization. Weight normalization is multiplied out: the smaller network has none.

    Args:
      params: the network's parameters, which are the part 'recurrent' of a `SequenceModel`.
      network: the trained network.
      rank: d of every recurrent matrix.
      error: alternative to `rank`: the largest allowed relative error (`MatrixReport.error`) of any matrix. The smallest sufficient rank is
        chosen.
      parametrization: a name in `TARGETS`. Only low rank, with or without a diagonal, may be tied and takes an `error`.
      tied: share one projection R among the matrices of a group.
      input_rank: rank of the input matrices, which are compressed too, each separately and with equal weights for all entries.
      moments: the result of `second_moments`. By default all entries of a matrix have equal weights.
      blocks: k, for parametrizations that have blocks.
      density: share of the entries, for sparse matrices.

    Raises:
      UsageError: rank, error or parametrization do not fit the network, its parameters are not finite or of another network, or moments
        are not finite or zero.
    """
    if "cell" not in params:
        raise UsageError(f"params have the parts {', '.join(params)}, and none is 'cell': give params['recurrent'] of a SequenceModel")
    check_choice("parametrization", parametrization, TARGETS)
    _check_size(parametrization, rank, error, tied)
    _check_moments(moments or {})
    stored = stored_matrices(params, network, "recurrent")
    if not stored:
        raise UsageError(f"cell {network.config.cell} has no recurrent matrices to compress: choose a network with another cell")
    if parametrization in DIAGONAL:
        groups = _groups("recurrent", stored, DIAGONAL[parametrization], tied, moments)
        sizes: dict[str, Any] = {"rank": rank if rank is not None else _common_rank(groups, error or 0.0)}
        recurrent, reports = _fitted(groups, sizes["rank"], tied)
    else:
        given = {"rank": rank, "blocks": blocks, "density": density}
        sizes = {setting: given[setting] for setting in FORMS[parametrization].settings}
        recurrent, reports = _projected(full_matrices(params, network), MatrixConfig(parametrization, **sizes), moments)
    inputs, changes, more = _inputs(params, network, input_rank)
    kept = {name: part for name, part in params["cell"].items() if not name.endswith("_scale")}
    smaller = {**params, "cell": {**kept, "recurrent": recurrent, **inputs}}
    config = replace(network.config, parametrization=parametrization, tied=tied, weight_norm=False, **sizes, **changes)
    return Compression(smaller, config, reports + more)


def _check_size(kind: str, rank: int | None, error: float | None, tied: bool) -> None:
    if kind in DIAGONAL:
        if (rank is None) == (error is None):
            raise UsageError(f"rank is {rank} and error is {error}: give one of them, as in --rank 16 or --error 0.1")
    elif error is not None or tied:
        raise UsageError(f"error is {error} and tied is {tied}, and {kind} knows neither: choose from {', '.join(DIAGONAL)}")
    elif (rank is None) == ("rank" in FORMS[kind].settings):
        raise UsageError(f"rank is {rank}, and {kind} has {' and '.join(FORMS[kind].settings) or 'no size'}: give these, and no other")


def _check_moments(moments: Moments) -> None:
    """Raise a UsageError unless the moments are finite, and not zero: then no error of a matrix would cost anything."""
    for name, own in moments.items():
        finite = np.isfinite(own).all()
        if not (finite and np.any(own)):
            what = "all zero" if finite else "not finite"
            raise UsageError(
                f"the moments of '{name}' are {what}, so they cannot weight errors: give --examples 0 (in Python no moments) for equal "
                f"weights, or a network whose states are finite and move"
            )


def _projected(
    stored: Mapping[str, tuple[MatrixSpec, np.ndarray]], config: MatrixConfig, moments: Moments | None
) -> tuple[dict[str, Factors], list[MatrixReport]]:
    """Bring each matrix to the nearest one of a structure. Return the parameters and a report for each."""
    tree, reports = {}, []
    for name, (spec, W) in stored.items():
        arrays = nearest(W, name, spec, config)
        approximation = to_dense(arrays, name, spec, config)
        rank = config.rank if "rank" in FORMS[config.kind].settings else None
        reports.append(_report(f"recurrent/{name}", W, approximation, None if moments is None else moments[name], rank, 1))
        tree[name] = {field: np.asarray(array, np.float32) for field, array in arrays.items()}
    return tree, reports


def _report(
    matrix: str, W: np.ndarray, approximation: np.ndarray, moments: np.ndarray | None, rank: int | None, iterations: int
) -> MatrixReport:
    output_error = None if moments is None else relative_error(W, approximation, moments)
    return MatrixReport(matrix, (W.shape[0], W.shape[1]), rank, relative_error(W, approximation), output_error, iterations)


class _Group:
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
        found = fit(self.joined, rank, diagonal=self.diagonal, moments=self.mean_moments)
        parts = found.split([W.shape[1] for W in self.dense.values()])
        return {name: (_factors(part), self._report(name, rank, part)) for name, part in zip(self.dense, parts, strict=True)}

    def _report(self, name: str, rank: int, part: Fit) -> MatrixReport:
        return _report(f"{self.role}/{name}", self.dense[name], part.to_dense(), self._moments_of(name), rank, part.iterations)


def _groups(role: str, stored: Mapping[str, Stored], diagonal: bool, tied: bool, moments: Moments | None) -> list[_Group]:
    """Group the matrices that share R: the tied matrices of each group of the cell. Every other matrix is a group of its own."""
    members: dict[str, dict[str, Stored]] = {}
    for name, item in stored.items():
        members.setdefault(item.spec.group if tied else name, {})[name] = item
    return [_Group(role, part, diagonal, moments) for part in members.values()]


def _common_rank(groups: Sequence[_Group], error: float) -> int:
    """Return the smallest rank that is sufficient for every group.

    The error of a group may grow with the rank. So all groups are asked again whenever one of them has raised the rank.
    """
    rank, found = 0, 1
    while found != rank:
        rank = found
        for group in groups:
            found = group.rank_for(error, found)
    return found


def _fitted(groups: Sequence[_Group], rank: int, tied: bool) -> tuple[dict[str, Factors], list[MatrixReport]]:
    """Fit the matrices of a role. Return their parameters and reports."""
    specs = {name: spec for group in groups for name, spec in group.specs.items()}
    found = {name: part for group in groups for name, part in group.fit(rank).items()}
    return _tree({name: factors for name, (factors, _) in found.items()}, specs, tied), [report for _, report in found.values()]


def _inputs(params: Any, network: Recurrent, rank: int | None) -> tuple[dict[str, Any], dict[str, Any], list[MatrixReport]]:
    """Fit the input matrices. Return changes of the cell's parameters and of the configuration, and reports."""
    stored = stored_matrices(params, network, "input")
    if stored and rank is not None:
        tree, reports = _fitted(_groups("input", stored, diagonal=False, tied=False, moments=None), rank, tied=False)
        return {"input": tree}, {"input_parametrization": "low_rank", "input_rank": rank, "input_tied": False}, reports
    if stored and network.config.matrices.weight_norm:
        specs = {name: spec for name, (spec, _) in stored.items()}
        return {"input": _tree({name: _arrays(matrix) for name, (_, matrix) in stored.items()}, specs, network.config.inputs.tied)}, {}, []
    return {}, {}, []


def _tree(factors: Mapping[str, Factors], specs: Mapping[str, MatrixSpec], tied: bool) -> dict[str, Factors]:
    """Build the parameter tree with the names of `lrpt.parametrizations`. Tied matrices of a group store R once."""
    tree = {name: dict(own) for name, own in factors.items()}
    for name, spec in specs.items() if tied else ():
        tree[shared_name(spec)] = {"right": tree[name].pop("right")}
    return tree


def _factors(found: Fit) -> Factors:
    """Return the arrays of a fit by name."""
    arrays = {"left": found.left, "right": found.right, "diagonal": found.diagonal}
    return {name: np.asarray(array, np.float32) for name, array in arrays.items() if array is not None}


def _arrays(matrix: Matrix) -> Factors:
    """Return the stored arrays of a matrix by field."""
    return {field_of(path): np.asarray(array, np.float32) for path, array in jax.tree_util.tree_leaves_with_path(matrix)}
