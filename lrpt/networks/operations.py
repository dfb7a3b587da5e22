r"""Number of multiplications, and size of the Elman network with the same number: "RNN-d" of Jernite et al. (2017).

The paper prints RNN-d in Tables 1 ("equivalent RNN") and 3, without a formula. Its rows of units with constant computation follow d = f n,
up to the rounding in print (1450 for 1448). f is 1 for the Elman unit, 2 for the LSTM, and :math:`\sqrt 2` for the GRU and the conditional
network. Variable computation multiplies d by the root of the mean of m^2. If matrices are counted, the factor of the GRU is :math:`\sqrt
3`: it has six products of n x n, the Elman unit two. So the paper understates GRUs and VCGRUs, by 18 % in d and a third in operations.
`paper_equivalent` follows the paper; `multiplications` and `equivalent_size` count.
"""

import math
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Float, PyTree

from lrpt.cells import VariableParams
from lrpt.errors import check_choice
from lrpt.matrices import is_operator

PAPER_FACTORS = {
    "elman": 1.0,
    "vcrnn": 1.0,
    "gru": math.sqrt(2),
    "vcgru": math.sqrt(2),
    "lstm": 2.0,
    "vclstm": 2.0,
    "conditional": math.sqrt(2),
}

Proportions = float | Float[Array, "..."] | Float[np.ndarray, "..."]


def paper_equivalent(cell: str, size: int, proportions: Proportions = 1.0) -> float:
    """Return d = f n sqrt(mean m^2), the paper's convention.

    Args:
      cell: a name in `PAPER_FACTORS`.
      size: n; for the conditional network, the size of one of its two equal levels.
      proportions: m of every step of a run, or the share of dimensions with a mask above zero, which the paper counts; 1 for units with
        constant computation.

    Raises:
      UsageError: the cell has no published factor.
    """
    check_choice("the cell with a published equivalent size", cell, PAPER_FACTORS)
    return PAPER_FACTORS[cell] * size * math.sqrt(np.mean(np.square(np.asarray(proportions, np.float64))))


def multiplications(params: PyTree, proportions: Proportions = 1.0) -> Float[np.ndarray, "..."]:
    """Count the multiplications of one step inside its matrices, for each proportion.

    A unit with variable computation uses the first m n rows and columns of its matrices, but its scheduler in full. Inputs count as
    vectors, even if symbols are looked up. Products of gates with states and biases are not counted. A projection R shared by tied matrices
    is counted for each of them. Layers with shared parameters are counted once.

    Args:
      params: a cell's parameters, or their shapes from `jax.eval_shape`.
      proportions: m of every step; 1 for units with constant computation.
    """
    m = np.asarray(proportions, np.float64)
    units, schedulers = _units_and_schedulers(params)
    return _of_operators(units, m) + _of_operators(schedulers, np.ones_like(m))


def are_countable(params: PyTree) -> bool:
    """Return whether all operators of a cell know their multiplications, which `multiplications` needs."""
    operators = jax.tree.leaves(_units_and_schedulers(params), is_leaf=is_operator)
    return all(hasattr(operator, "work") for operator in operators)


def _units_and_schedulers(params: PyTree) -> tuple[PyTree, PyTree]:
    """Split the parameters of a cell. Without variable computation, all of them count as a unit."""
    nodes = jax.tree.leaves(params, is_leaf=lambda node: isinstance(node, VariableParams))
    variable = [node for node in nodes if isinstance(node, VariableParams)]
    return ([node.unit for node in variable], [node.scheduler for node in variable]) if variable else (params, [])


def mean_multiplications(params: PyTree, mean: float, mean_square: float) -> float:
    """Compute the mean of `multiplications` over steps, given only the means of m and of m^2."""
    none, half, full = multiplications(params, np.array([0.0, 0.5, 1.0]))
    # Every count is none + a m + b m^2.
    a, b = 4 * half - full - 3 * none, 2 * (none + full) - 4 * half
    return float(none + a * mean + b * mean_square)


def equivalent_size(per_step: float | Float[np.ndarray, "..."]) -> float:
    """Return the size d of the Elman network whose multiplications, 2 d^2 for an input of width d, equal those of a mean step."""
    return math.sqrt(np.mean(per_step) / 2)


def _of_operators(params: PyTree, m: np.ndarray) -> np.ndarray:
    operators = jax.tree.leaves(params, is_leaf=is_operator)
    return sum((_count(operator, m) for operator in operators), np.zeros_like(m))


def _count(operator: Any, m: np.ndarray) -> np.ndarray:
    if not hasattr(operator, "work"):
        raise TypeError(f"the multiplications of a {type(operator).__name__} are not known: give it a method `work` (see lrpt.matrices)")
    products, elementwise = operator.work(m)
    return np.zeros_like(m) + products + elementwise
