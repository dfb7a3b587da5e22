"""Distances of the matrices of a trained network from every structure, at equal numbers of parameters."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from lrpt.analysis.budgets import closest_storage, known_form, parameters_of
from lrpt.compression.nearest import relative_error
from lrpt.compression.network import TARGETS
from lrpt.compression.structures import nearest, to_dense
from lrpt.parametrizations import MatrixConfig
from lrpt.specs import MatrixSpec


class Distance(NamedTuple):
    """The distance of a matrix from a structure.

    Attributes:
      matrix: its name.
      parametrization: name of the structure.
      sizes: rank, blocks or density, those that the structure has.
      parameters: number of parameters of the structured matrix.
      residual: |W' - W| / |W| in Frobenius norms.
    """

    matrix: str
    parametrization: str
    sizes: dict[str, Any]
    parameters: int
    residual: float


def distances(matrices: Mapping[str, tuple[MatrixSpec, Float[np.ndarray, "i o"]]], rank: int) -> list[Distance]:
    """Compute the distance of each matrix from each structure, at the numbers of parameters closest to rank d plus diagonal.

    Args:
      matrices: specification and dense matrix by name; square ones.
      rank: d.

    Raises:
      UsageError: the rank does not fit.
    """
    found = []
    for name, (spec, W) in matrices.items():
        budget = parameters_of(spec, MatrixConfig("low_rank_plus_diagonal", rank))
        for kind in TARGETS:
            config = closest_storage(kind, spec, budget)
            residual = relative_error(W, to_dense(nearest(W, name, spec, config), name, spec, config))
            sizes = {setting: getattr(config, setting) for setting in known_form(kind).settings}
            found.append(Distance(name, kind, sizes, parameters_of(spec, config), residual))
    return found
