"""Networks of equal numbers of parameters: the width at which a model comes closest to a budget."""

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
    """A width, and the number of parameters that it gives."""

    width: int
    parameters: int


def closest_width(count: Callable[[int], int], budget: int) -> Width:
    """The width whose number of parameters is closest to the budget; of two that are as close, the smaller.

    Args:
      count: parameters at a width of 1 or more; it must grow with the width.
      budget: parameters wanted.

    Raises:
      UsageError: a width of 1 is more than twice the budget.
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
    """The same counts from three of them: parameters of a network whose ranks are fixed are a polynomial of degree two in its width."""
    one, two, three = map(count, (1, 2, 3))
    slope, bend = two - one, three - 2 * two + one
    return lambda width: one + (width - 1) * slope + (width - 1) * (width - 2) // 2 * bend


@dataclass(frozen=True)
class LanguageModelSize:
    """What, beside the width, decides how many parameters a character language model of the lattice paper has.

    It has an embedding of V n, layers of width n, and a softmax of n V + V, not tied (Ahuja and Morency 2018; chahuja/lru, model.py).
    """

    symbols: int
    """V, with the symbol for unknown ones"""
    cell: str = "gru"
    """a name in `CELLS`"""
    layers: int = 2
    """one above the other"""
    depth: int = 1
    """transitions within a step, for cells that have several"""
    shared: bool = False
    """one set of parameters for all layers"""
    recurrent: MatrixConfig = DENSE
    """how matrices on states are stored"""
    input: MatrixConfig = DENSE
    """how matrices on inputs are stored"""
    second_biases: bool = False
    """a second bias beside each: cuDNN and PyTorch have two in GRUs and LSTMs, and so has the original code in its grid LSTM"""

    def __post_init__(self) -> None:
        check_choice("the cell of a budget", self.cell, CELLS)

    def cell_parameters(self, width: int) -> int:
        """Those of all layers, from the shapes of the parameters themselves, or where all matrices are dense from the template."""
        cell: Cell = stacked(CELLS[self.cell], self.layers, self.shared)
        template = cell.template(CellSpec(width, width, depth=self.depth))
        leaves = jax.tree.leaves(template)
        second = self.second_biases * sum(leaf.size for leaf in leaves if isinstance(leaf, BiasSpec))
        if self.recurrent == self.input == DENSE:  # by far the quickest, and starts no device
            return sum(map(_dense_parameters, leaves)) + second
        module = Parameters(template, self.recurrent, self.input)
        stored: Any = jax.eval_shape(module.init, jax.random.key(0))["params"]
        return num_params(stored) + second

    def parameters(self, width: int) -> int:
        """Those of the whole model."""
        embedding = softmax = self.symbols * width
        return embedding + self.cell_parameters(width) + softmax + self.symbols


def _dense_parameters(leaf: Any) -> int:
    """Those of one entry of a template."""
    if isinstance(leaf, MatrixSpec):
        return leaf.n_in * leaf.n_out
    if isinstance(leaf, BiasSpec):
        return leaf.size
    return math.prod(leaf.shape) if isinstance(leaf, OperatorSpec) else 0
