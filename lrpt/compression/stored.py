"""The matrices of a trained network, each with the cell's specification of it."""

from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float, PyTree

from lrpt.matrices import Matrix
from lrpt.networks.recurrent import Recurrent, cell_params
from lrpt.recurrence.leaves import Leaves
from lrpt.specs import MatrixSpec, name_of


class Stored(NamedTuple):
    """A matrix, and the cell's specification of it."""

    spec: MatrixSpec
    matrix: Matrix


def full_matrices(
    params: PyTree, network: Recurrent, role: str = "recurrent", frozen: Any = None
) -> dict[str, tuple[MatrixSpec, Float[np.ndarray, "i o"]]]:
    """Return the specification and the dense form of each matrix of a role, by gate. `frozen` is as for `cell_params`."""
    return {name: (spec, full_form(matrix)) for name, (spec, matrix) in stored_matrices(params, network, role, frozen).items()}


def full_form(matrix: Matrix) -> Float[np.ndarray, "i o"]:
    """Return the dense form of a matrix."""
    with jax.default_matmul_precision("highest"):
        return np.asarray(matrix.to_dense(), np.float64)


def specs_of(network: Recurrent, role: str) -> dict[int, tuple[str, MatrixSpec]]:
    """Return the name and the specification of each matrix of a role, by its index among the cell's operators."""
    leaves = enumerate(jax.tree_util.tree_leaves_with_path(network.cell.template(network.spec)))
    return {i: (name_of(path, spec), spec) for i, (path, spec) in leaves if isinstance(spec, MatrixSpec) and spec.role == role}


def stored_matrices(params: PyTree, network: Recurrent, role: str, frozen: Any = None) -> dict[str, Stored]:
    """Return the matrices of a role by gate."""
    operators = Leaves.of(cell_params(params, network, frozen=frozen)).leaves
    return {name: Stored(spec, operators[i]) for i, (name, spec) in specs_of(network, role).items()}
