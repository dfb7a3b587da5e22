"""Networks with equal numbers of parameters: the width at which a model is closest to a parameter budget."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax

from lrpt.cells import CELLS, Cell, CellSpec, stacked
from lrpt.errors import UsageError, check_choice
from lrpt.matrices import num_params
from lrpt.parametrizations import MatrixConfig, Parameters
from lrpt.specs import BiasSpec, MatrixSpec, OperatorSpec

DENSE = MatrixConfig()


class Width(NamedTuple):
    """A width, and its number of parameters."""

    width: int
    parameters: int


def closest_width(count: Callable[[int], int], budget: int) -> Width:
    """Find the width whose number of parameters is closest to the budget. The smaller width wins ties.

    Args:
      count: returns the number of parameters at a width of 1 or more; it must increase with the width.
      budget: desired number of parameters.

    Raises:
      UsageError: a width of 1 has more than twice the budget.
    """
    if count(1) > 2 * budget:
        raise UsageError(f"a budget of {budget} parameters is too small: a width of 1 has {count(1)}")
    above = 2
    while count(above) < budget:
        above *= 2
    below = above // 2
    while above - below > 1:
        middle = (below + above) // 2
        below, above = (middle, above) if count(middle) < budget else (below, middle)
    return min((Width(width, count(width)) for width in (below, above)), key=lambda found: abs(found.parameters - budget))


def quadratic(count: Callable[[int], int]) -> Callable[[int], int]:
    """Interpolate the parameter count from three widths. With fixed ranks it is a polynomial of degree two in the width."""
    one, two, three = map(count, (1, 2, 3))
    slope, bend = two - one, three - 2 * two + one
    return lambda width: one + (width - 1) * slope + (width - 1) * (width - 2) // 2 * bend


@dataclass(frozen=True)
class LanguageModelSize:
    """Sizes, other than the width, of a character language model of the lattice paper.

    The model has an embedding of V n parameters, layers of width n, and a softmax of n V + V that is not tied to the embedding (Ahuja and
    Morency 2018; chahuja/lru, model.py).
    """

    symbols: int
    """V, including the symbol for unknown characters"""
    cell: str = "gru"
    """a name in `CELLS`"""
    layers: int = 2
    """number of stacked layers"""
    depth: int = 1
    """transitions within a step, for cells that have several"""
    shared: bool = False
    """share one set of parameters among all layers"""
    recurrent: MatrixConfig = DENSE
    """parametrization of matrices on states"""
    input: MatrixConfig = DENSE
    """parametrization of matrices on inputs"""
    second_biases: bool = False
    """count a second bias beside each: cuDNN and PyTorch have two in GRUs and LSTMs, and so has the original code in its grid LSTM"""

    def __post_init__(self) -> None:
        check_choice("the cell of a budget", self.cell, CELLS)

    def cell_parameters(self, width: int) -> int:
        """Count the parameters of all layers, from the template if all matrices are dense, else from the shapes of the parameters."""
        cell: Cell = stacked(CELLS[self.cell], self.layers, self.shared)
        template = cell.template(CellSpec(width, width, depth=self.depth))
        leaves = jax.tree.leaves(template)
        second = self.second_biases * sum(leaf.size for leaf in leaves if isinstance(leaf, BiasSpec))
        if self.recurrent == self.input == DENSE:  # much faster, and does not initialize a device
            return sum(map(_dense_parameters, leaves)) + second
        module = Parameters(template, self.recurrent, self.input)
        stored: Any = jax.eval_shape(module.init, jax.random.key(0))["params"]
        return num_params(stored) + second

    def parameters(self, width: int) -> int:
        """Count the parameters of the whole model."""
        embedding = softmax = self.symbols * width
        return embedding + self.cell_parameters(width) + softmax + self.symbols


def _dense_parameters(leaf: Any) -> int:
    """Count the parameters of one entry of a template."""
    if isinstance(leaf, MatrixSpec):
        return leaf.n_in * leaf.n_out
    if isinstance(leaf, BiasSpec):
        return leaf.size
    return math.prod(leaf.shape) if isinstance(leaf, OperatorSpec) else 0
