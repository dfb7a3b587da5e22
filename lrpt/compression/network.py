"""Compression of a trained network to structured matrices, as a start for further training.

The error of a matrix can be weighted by the second moments of the rows that the cell multiplies by it (`lrpt.compression.moments`).
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from lrpt.analysis.budgets import known_form
from lrpt.compression.groups import Factors, MatrixReport, common_rank, fitted, grouped, report_on, tree_of
from lrpt.compression.moments import Moments
from lrpt.compression.nearest import checked_moments
from lrpt.compression.stored import full_matrices, stored_matrices
from lrpt.compression.structures import PROJECTIONS, nearest, to_dense
from lrpt.errors import UsageError, check_choice
from lrpt.matrices import ROW_NORMS, Matrix, field_of
from lrpt.networks.recurrent import Recurrent, RecurrentConfig
from lrpt.parametrizations import PARAMETRIZATIONS, MatrixConfig, form_of
from lrpt.specs import MatrixSpec

DIAGONAL = {"low_rank": False, "low_rank_plus_diagonal": True}
"""Targets whose errors may be weighted, and whether they have a diagonal."""


class Targets(Collection[str]):
    """Names of the parametrizations that a network can be brought to: those with a form and a rule for the nearest matrix.

    They are read when they are needed, so that entries that a user adds to `PROJECTIONS` are there too.
    """

    def __iter__(self) -> Iterator[str]:
        kinds = (kind for kind in PARAMETRIZATIONS if kind != "dense" and kind.removesuffix("_plus_diagonal") in PROJECTIONS)
        return (kind for kind in kinds if form_of(kind) is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __contains__(self, kind: object) -> bool:
        return any(kind == own for own in self)


TARGETS = Targets()


class Compression(NamedTuple):
    """A smaller network.

    Attributes:
      params: its parameters, in float32.
      config: its configuration.
      matrices: a report for each matrix that was compressed.
      input_size: width of its inputs, or number of symbols.
    """

    params: Any
    config: RecurrentConfig
    matrices: list[MatrixReport]
    input_size: int

    @property
    def network(self) -> Recurrent:
        """Return the network of the parameters: `network.apply({"params": params}, xs)`."""
        return Recurrent(self.config, self.input_size)


def compress(
    params: PyTree,
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
    Arrays of other floating-point types become float32.

    Args:
      params: the network's parameters, which are the part 'recurrent' of a `SequenceModel`.
      network: the trained network.
      rank: d of every recurrent matrix.
      error: alternative to `rank`: the largest allowed relative error (`MatrixReport.error`) of any matrix. The smallest sufficient rank is
        chosen.
      parametrization: a name in `TARGETS`. Only low rank, with or without a diagonal, may be tied and takes an `error`.
      tied: share one projection R among the matrices of a group.
      input_rank: rank of the input matrices, which are compressed too, each separately and with equal weights for all entries.
      moments: the result of `second_moments`: C for each recurrent matrix, by gate. Without them, all entries of a matrix have equal
        weights.
      blocks: k, for parametrizations that have blocks.
      density: share of the entries, for sparse matrices.

    Raises:
      UsageError: the network is none of class `Recurrent`; rank, error or parametrization do not fit it; its parameters are not finite or
        of another network; or moments are not those of its matrices, not finite, not symmetric, or zero.
    """
    if not isinstance(network, Recurrent):
        raise UsageError(
            f"the network is a {type(network).__name__}: give a Recurrent, such as lrpt.load(DIRECTORY).recurrent, or for a layer of Flax "
            f"Recurrent(ModelConfig(cell, size, parametrization='dense', trainable_initial_state=False), input_size)"
        )
    check_size(parametrization, rank, error, tied)
    stored = stored_matrices(params, network, "recurrent")
    if not stored:
        raise UsageError(f"cell {network.config.cell} has no recurrent matrices to compress: choose a network with another cell")
    moments = _checked_moments(moments, {name: spec for name, (spec, _) in stored.items()})
    if parametrization in DIAGONAL:
        groups = grouped("recurrent", stored, DIAGONAL[parametrization], tied, moments)
        sizes: dict[str, Any] = {"rank": rank if rank is not None else common_rank(groups, error or 0.0)}
        recurrent, reports = fitted(groups, sizes["rank"], tied)
    else:
        given = {"rank": rank, "blocks": blocks, "density": density}
        sizes = {setting: given[setting] for setting in known_form(parametrization).settings}
        recurrent, reports = _projected(full_matrices(params, network), MatrixConfig(parametrization, **sizes), moments)
    inputs, changes, more = _inputs(params, network, input_rank)
    kept = {name: part for name, part in params["cell"].items() if name not in ROW_NORMS.values()}
    smaller = {**params, "cell": {**kept, "recurrent": recurrent, **inputs}}
    smaller = jax.tree.map(lambda a: np.asarray(a, np.float32) if jnp.issubdtype(a.dtype, jnp.floating) else a, smaller)
    config = replace(network.config, parametrization=parametrization, tied=tied, weight_norm=False, **sizes, **changes)
    return Compression(smaller, config, reports + more, network.input_size)


def check_target(kind: str) -> None:
    """Raise a UsageError unless a network can be brought to a parametrization."""
    if kind in PARAMETRIZATIONS and kind not in TARGETS and kind != "dense":
        raise UsageError(
            f"parametrization is '{kind}', which has no rule for the nearest matrix: give it a form, and add a rule to "
            f"lrpt.compression.structures.PROJECTIONS, or choose from {', '.join(TARGETS)}"
        )
    check_choice("parametrization", kind, TARGETS)


def check_size(kind: str, rank: int | None, error: float | None, tied: bool) -> None:
    """Raise a UsageError if no network can be compressed to a parametrization so. Arguments as in `compress`."""
    check_target(kind)
    if kind in DIAGONAL:
        if (rank is None) == (error is None):
            raise UsageError(f"rank is {rank} and error is {error}: give one of them, as in --rank 16 or --error 0.1")
    elif error is not None or tied:
        raise UsageError(f"error is {error} and tied is {tied}, and {kind} takes neither: choose from {', '.join(DIAGONAL)}")
    elif (rank is None) == ("rank" in (sizes := known_form(kind).settings)):
        raise UsageError(f"rank is {rank}, and {kind} has {' and '.join(sizes) or 'no size'}: give these, and no other")


def _checked_moments(moments: Moments | None, specs: Mapping[str, MatrixSpec]) -> Moments | None:
    """Return the moments of the matrices in float64, or None if there are none.

    Raises:
      UsageError: they are no mapping, have other names than the matrices, or do not fit a matrix.
    """
    if moments is None:
        return None
    if not isinstance(moments, Mapping):
        raise UsageError(f"moments are a {type(moments).__name__}: give a mapping of {', '.join(specs)} to arrays, or None")
    if moments and moments.keys() != specs.keys():
        raise UsageError(f"moments have the names {', '.join(map(str, moments))}: expected {', '.join(specs)}")
    return {name: _checked_weights(name, moments[name], spec.n_in) for name, spec in specs.items()} if moments else None


def _checked_weights(name: str, moments: Any, size: int) -> np.ndarray:
    """Return the moments of one matrix. Raise a UsageError if they do not fit it or are zero: then no error of it would cost anything."""
    own = checked_moments(moments, size, f"the moments of '{name}'")
    if not np.any(own):
        raise UsageError(
            f"the moments of '{name}' are all zero, so they cannot weight errors: give --examples 0 (in Python no moments) for equal "
            f"weights, or a network whose states move"
        )
    return own


def _projected(
    stored: Mapping[str, tuple[MatrixSpec, np.ndarray]], config: MatrixConfig, moments: Moments | None
) -> tuple[dict[str, Factors], list[MatrixReport]]:
    """Bring each matrix to the nearest one of a structure. Return the parameters and a report for each."""
    tree, reports = {}, []
    for name, (spec, W) in stored.items():
        arrays = nearest(W, name, spec, config)
        approximation = to_dense(arrays, name, spec, config)
        rank = config.rank if "rank" in known_form(config.kind).settings else None
        reports.append(report_on(f"recurrent/{name}", W, approximation, None if moments is None else moments[name], rank, 1))
        tree[name] = {field: np.asarray(array, np.float32) for field, array in arrays.items()}
    return tree, reports


def _inputs(params: PyTree, network: Recurrent, rank: int | None) -> tuple[dict[str, Any], dict[str, Any], list[MatrixReport]]:
    """Fit the input matrices. Return changes of the cell's parameters and of the configuration, and reports."""
    stored = stored_matrices(params, network, "input")
    if stored and rank is not None:
        tree, reports = fitted(grouped("input", stored, diagonal=False, tied=False, moments=None), rank, tied=False)
        return {"input": tree}, {"input_parametrization": "low_rank", "input_rank": rank, "input_tied": False}, reports
    if stored and network.config.matrices.weight_norm:
        specs = {name: spec for name, (spec, _) in stored.items()}
        arrays = {name: _arrays(matrix) for name, (_, matrix) in stored.items()}
        form = form_of(network.config.inputs.kind)
        shares = form is not None and bool(form.shared)
        return {"input": tree_of(arrays, specs, tied=shares and network.config.inputs.tied)}, {}, []
    return {}, {}, []


def _arrays(matrix: Matrix) -> Factors:
    """Return the stored arrays of a matrix by field."""
    return {field_of(path): np.asarray(array, np.float32) for path, array in jax.tree_util.tree_leaves_with_path(matrix)}
