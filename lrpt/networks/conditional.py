"""Conditional recurrent network as a language model: `lrpt.cells.conditional` and a readout of its fast state.

Bojanowski et al. (2015); Jernite et al. (2017) compare with it in Table 3, on characters with words (CRNN-500, 1.46 bits per character) and
on bits with characters (CRNN-100, 0.222 bits per bit). The task says where words or characters end (`NextSymbol.words`,
`NextBit.characters`) in its inputs (`lrpt.symbols.codes_of`). Training in the authors' code also predicts the next word, with a
share of the loss. Here it predicts symbols only.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from lrpt.cells import Cell, CellSpec, ConditionalInput, conditional_cell
from lrpt.errors import UsageError, check_at_least
from lrpt.networks.configuration import DrawConfig, LoopConfig, StorageConfig
from lrpt.networks.operations import paper_equivalent
from lrpt.networks.protocol import (
    NetworkDefaults,
    Reads,
    Start,
    check_inputs,
    check_rows,
    in_precision_of,
    params_of,
    shapes_of,
    start_from,
)
from lrpt.parametrizations import MatrixConfig, Parameters, label_of
from lrpt.parametrizations.initialization import of_readout
from lrpt.recurrence import recur
from lrpt.settings import accepts_short_names, check_groups
from lrpt.symbols import codes_of, decode, units_of


@accepts_short_names
@dataclass(frozen=True)
class ConditionalConfig(NetworkDefaults):
    """Configuration of a conditional network: the widths of its two levels. Further settings are in groups."""

    size: int = 100
    """n: width of the fast state, which steps with each symbol"""
    slow_size: int | None = None
    """width of the slow state, which steps with each word or character (None: width of the fast state)"""
    matrices: StorageConfig = field(default_factory=StorageConfig)
    initial: DrawConfig = field(default_factory=DrawConfig)
    loop: LoopConfig = field(default_factory=LoopConfig)

    def __post_init__(self) -> None:
        check_groups(self)
        check_at_least(1, self, "model.size", "model.slow_size")

    @property
    def recurrent_matrices(self) -> MatrixConfig:
        """Return how recurrent matrices are stored and initialized."""
        return self.matrices.started(self.initial)

    @property
    def input_matrices(self) -> MatrixConfig:
        """Return how input matrices are stored and initialized."""
        return replace(self.recurrent_matrices, kind="dense")

    @property
    def without_initialization(self) -> "ConditionalConfig":
        """Return the configuration with defaults for the initialization, on which compiled programs do not depend."""
        return replace(self, initial=DrawConfig())

    def summarize(self, metrics: Mapping[str, float]) -> dict[str, float]:
        """Add 'paper_equivalent_size', "RNN-d" of Jernite et al. (2017), if both levels have one size and dense matrices."""
        alike = self.slow_size in (None, self.size) and self.matrices.kind == "dense"
        return {**metrics} | ({"paper_equivalent_size": paper_equivalent("conditional", self.size)} if alike else {})

    def build(self, input_size: int, output_size: int, reads: Reads, axis_name: str | None = None) -> "ConditionalNetwork":
        """Return the network for a task whose inputs are codes of symbols and of the units that they complete.

        Raises:
          UsageError: the task is of another kind.
        """
        units = units_of(input_size, output_size)
        if units < 1 or reads != "all":
            raise UsageError(
                f"a conditional network reads which word or character a symbol completes, and this task has {input_size} inputs for "
                f"{output_size} symbols: give --data.words 2, or --data.characters for bits"
            )
        return ConditionalNetwork(self, output_size, units)

    def parameter_shapes(self, input_size: int, output_size: int) -> Any:
        """Return the shapes of the parameters.

        Raises:
          UsageError: the settings contradict each other, or they do not fit the task.
        """
        example = jax.ShapeDtypeStruct((1, 1), jnp.int32)
        return shapes_of(self.build(input_size, output_size, "all"), example)

    @property
    def label(self) -> str:
        """Return a short name for tables and plots: 'CRNN 100-100'."""
        stored = self.recurrent_matrices
        label = label_of(stored)
        return f"{label.prefix}CRNN {self.size}-{self.slow_size or self.size}{label.suffix}{' weight norm' if stored.weight_norm else ''}"


class ConditionalNetwork(nn.Module):
    r"""A conditional network that predicts the next symbol from symbols and the units that they complete.

    .. math::
        s_t = x_t \bmod V, \quad u_t = \lfloor x_t / V \rfloor, \quad o_t = h_t O + b

    A unit is complete if u_t is not 0. It is then number u_t - 1 of the slow level's table.

    Attributes:
      config: configuration of both levels.
      symbols: V, number of symbols, of inputs and of predictions.
      units: the number of words or characters.
    """

    config: ConditionalConfig
    symbols: int
    units: int

    @property
    def cell(self) -> Cell:
        """Return the cell of both levels."""
        return conditional_cell(self.units, self.config.slow_size)

    @property
    def spec(self) -> CellSpec:
        """Return the sizes of the cell."""
        return CellSpec(self.symbols, self.config.size)

    def __call__(self, inputs: Int[Array, "b t"], mask: Bool[Array, "b t"] | None = None, *, train: bool = False) -> Float[Array, "b t v"]:
        """Return predictions for every step. `mask` is true for steps that count."""
        return self.advance(inputs, mask, train=train)[0]

    @nn.compact
    def advance(
        self, inputs: Int[Array, "b t"], mask: Bool[Array, "b t"] | None = None, start: Start | None = None, *, train: bool = False
    ) -> tuple[Float[Array, "b t v"], PyTree]:
        """Return (predictions, the states after the last step). `start` has the final states of an earlier sequence.

        Raises:
          UsageError: an input is no code of a symbol and a unit; inputs or mask are not (b, t); `start` has no states of this network.
        """
        check_inputs(inputs, mask, codes_of(self.symbols, self.units), symbols_only=True)
        config, xs = self.config, ConditionalInput(*decode(inputs.T, self.symbols))
        params = Parameters(self.cell.template(self.spec), config.recurrent_matrices, config.input_matrices, name="cell")()
        carry = start_from(start, self._zeros(inputs.shape[0], params), inputs.shape[0])
        tuning = config.loop.tuning()
        counts = None if mask is None else mask.T
        carry, y = recur(self.cell.step, params, carry, xs, counts, loop=config.loop.kind, tuning=tuning)
        return jnp.swapaxes(self.readout(y), 0, 1), carry

    def initial_carry(self, rows: int) -> Any:
        """Return the states before the first step of `rows` sequences, for `Start`: zeros, in the type of the parameters.

        Raises:
          UsageError: the number of rows is no integer, or below 1; there are no parameters.
        """
        check_rows(rows)
        return self._zeros(rows, params_of(self.variables)["cell"])

    def _zeros(self, rows: int, params: PyTree) -> Any:
        return in_precision_of(jax.tree.leaves(params), self.cell.zero_carry(self.spec, (rows,)))

    def readout(self, y: Float[Array, "t b n"]) -> Float[Array, "t b v"]:
        """Return the predictions of the outputs, time-major."""
        kernel, bias = of_readout(self.config.initial.kind, self.config.initial.scale, self.config.size)
        return nn.Dense(self.symbols, kernel_init=kernel, bias_init=bias, name="readout")(y)
