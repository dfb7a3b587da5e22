"""Equal numbers of parameters: the sizes of a matrix, and the width of a network, that are closest to a parameter budget."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, NamedTuple

import jax

from lrpt.cells import CELLS, Cell, CellSpec, cell_named, stacked
from lrpt.errors import UsageError, check_choice
from lrpt.matrices import num_params
from lrpt.parametrizations import ADAPTERS, PARAMETRIZATIONS, Form, MatrixConfig, Parameters, form_of
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


def parameters_of(spec: MatrixSpec, config: MatrixConfig) -> int:
    """Count the parameters of one matrix that is not tied.

    Raises:
      UsageError: the sizes do not fit the matrix, or the parametrization has no form.
    """
    return sum(math.prod(stored.shape) for stored in known_form(config.kind).arrays("", spec, config).values())


def known_form(kind: str, flag: str = "parametrization") -> Form:
    """Return the form of a parametrization, which says what its matrices store at any size.

    Raises:
      UsageError: there is no such parametrization, it has no form, or it is an adapter, whose size is that of a trained network.
    """
    check_choice(flag, kind, {name: entry for name, entry in PARAMETRIZATIONS.items() if name not in ADAPTERS})
    form = form_of(kind)
    if form is None:
        raise UsageError(f"{flag} is '{kind}', whose sizes cannot be searched: write it as a form (docs/extending.md)")
    return form


def storages(kind: str, spec: MatrixSpec) -> Iterator[MatrixConfig]:
    """Yield the configurations of a form with every size that fits a matrix."""
    settings = known_form(kind).settings
    least = min(spec.n_in, spec.n_out)
    values = {
        "rank": range(1, least + 1),
        "blocks": [k for k in range(1, least + 1) if spec.n_in % k == spec.n_out % k == 0],
        "density": [count / spec.n_in for count in range(1, spec.n_in + 1)],
    }
    for sizes in product(*(values[setting] for setting in settings)):
        config = replace(MatrixConfig(kind), **dict(zip(settings, sizes, strict=True)))
        try:
            parameters_of(spec, config)
        except UsageError:  # the rank of a tensor train is limited by its blocks
            continue
        yield config


def closest_storage(kind: str, spec: MatrixSpec, budget: int) -> MatrixConfig:
    """Find the sizes at which a matrix of a form has the number of parameters closest to a budget. The first wins ties.

    All sizes are tried at which the matrix has fewer parameters than a dense one; all sizes if there are none.

    Raises:
      UsageError: no size fits the matrix, as for a form of square matrices and a matrix that is not square.
    """
    counts = {config: parameters_of(spec, config) for config in storages(kind, spec)}
    fewer = {config: count for config, count in counts.items() if count < spec.n_in * spec.n_out}
    found = min(fewer or counts, key=lambda config: abs(counts[config] - budget), default=None)
    if found is None:
        raise UsageError(f"no {kind} matrix is {spec.n_in} x {spec.n_out}: choose another parametrization")
    return found


@dataclass(frozen=True)
class LanguageModelSize:
    """Sizes, other than the width, of a language model whose embeddings are as wide as its state.

    The model has an embedding of V n parameters, layers of width n, and a softmax of n V + V, as in the lattice paper (Ahuja and Morency
    2018; chahuja/lru, model.py). If the softmax is tied to the embedding, it has V parameters of its own (Zilly et al. 2017, WT).

    Raises:
      UsageError: there is no such cell.
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
    tied: bool = False
    """the softmax uses the transposed embedding matrix"""
    second_biases: bool = False
    """count a second bias beside each: cuDNN and PyTorch have two in GRUs and LSTMs, and so has the original code in its grid LSTM"""

    def __post_init__(self) -> None:
        cell_named(self.cell, "the cell of a budget")

    def cell_parameters(self, width: int) -> int:
        """Count the parameters of all layers: from the template, or from the shapes of the parameters if some are tied or normalized."""
        cell: Cell = stacked(CELLS[self.cell], self.layers, self.shared)
        template = cell.template(CellSpec(width, width, depth=self.depth))
        leaves = jax.tree.leaves(template)
        second = self.second_biases * sum(leaf.size for leaf in leaves if isinstance(leaf, BiasSpec))
        if not (_shares(self.recurrent) or _shares(self.input)):  # much faster, and does not initialize a device
            return sum(self._parameters_of(leaf) for leaf in leaves) + second
        module = Parameters(template, self.recurrent, self.input)
        stored: Any = jax.eval_shape(module.init, jax.random.key(0))["params"]
        return num_params(stored) + second

    def parameters(self, width: int) -> int:
        """Count the parameters of the whole model."""
        return self.cell_parameters(width) + self.symbol_parameters(width)

    def symbol_parameters(self, width: int) -> int:
        """Count the parameters of the embedding and of the softmax."""
        embedding = self.symbols * width
        softmax = 0 if self.tied else embedding
        return embedding + softmax + self.symbols

    def _parameters_of(self, leaf: Any) -> int:
        """Count the parameters of one entry of a template."""
        if isinstance(leaf, MatrixSpec):
            return parameters_of(leaf, self.recurrent if leaf.role == "recurrent" else self.input)
        if isinstance(leaf, BiasSpec):
            return leaf.size
        return math.prod(leaf.shape) if isinstance(leaf, OperatorSpec) else 0


def _shares(config: MatrixConfig) -> bool:
    """Return whether the matrices cannot be counted one by one: they are tied, weight-normalized or adapters, or have no form."""
    return config.tied or config.weight_norm or config.kind in ADAPTERS or form_of(config.kind) is None
