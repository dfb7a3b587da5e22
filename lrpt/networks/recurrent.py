"""A cell with its parameters and initial state, in a loop over time, as a Flax module."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Annotated, Any, Self

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, PyTree

from lrpt.cells import CELLS, Cell, CellSpec, cell_named, stacked, title_of
from lrpt.errors import UsageError, check_at_least, check_integers
from lrpt.matrices import Operator
from lrpt.networks.configuration import InitialConfig, InputStorageConfig, SequenceLoopConfig, TiedStorageConfig
from lrpt.networks.dropout import DropoutConfig, biases_with_inputs, draw_mask, mask_role
from lrpt.networks.protocol import NetworkDefaults, Start, as_state, as_stored, in_precision_of, start_from
from lrpt.parametrizations import ADAPTERS, FROZEN, MatrixConfig, Parameters, label_of
from lrpt.parametrizations.unfit import UNFIT, in_short
from lrpt.recurrence import KERNEL, Step, recur
from lrpt.recurrence.arguments import of_width
from lrpt.recurrence.materialize import can_merge, materialized, merged
from lrpt.settings import OneOf, accepts_short_names, check_choices, check_groups
from lrpt.symbols import Weighted


@accepts_short_names
@dataclass(frozen=True)
class RecurrentConfig(NetworkDefaults):
    """Configuration of a cell in a loop over time: the cell, its size, and how its matrices are stored."""

    cell: Annotated[
        str,
        OneOf(
            "cell",
            CELLS,
            notes="gru multiplies by the reset gate before the matrix, gru_cudnn has a second bias, and the unitary cells ignore "
            "model.matrices and the carry bias",
        ),
    ] = "gru"
    size: int = 128
    """n: width of the state"""
    depth: int = 1
    """transitions within a step, for cells that can have several (rhn, dt_rnn and their variants)"""
    layers: int = 1
    """number of stacked layers"""
    shared_layers: bool = False
    """all layers have the same parameters"""
    matrices: TiedStorageConfig = field(default_factory=lambda: TiedStorageConfig("low_rank_plus_diagonal"))
    inputs: InputStorageConfig = field(default_factory=InputStorageConfig)
    initial: InitialConfig = field(default_factory=InitialConfig)
    dropout: DropoutConfig = field(default_factory=DropoutConfig)
    loop: SequenceLoopConfig = field(default_factory=SequenceLoopConfig)

    def __post_init__(self) -> None:
        check_choices(self, "model")
        check_groups(self)
        check_integers(self, "model.depth")
        check_at_least(1, self, "model.size", "model.layers")
        deep = cell_named(self.cell).deep
        if self.depth < 1 or (self.depth > 1 and not deep):
            raise UsageError(f"model.depth is {self.depth}: expected 1{' or more' if deep else ''} for {self.cell}")
        self._check_dropout()

    def _check_dropout(self) -> None:
        if self.dropout.drops and self.needs_gpu:
            raise UsageError("model.loop.kind is kernel, which has no dropout: choose fast, or dropouts of 0")
        if self.dropout.states and not CELLS[self.cell].has_recurrent_matrices:
            raise UsageError(f"model.dropout.states is {self.dropout.states}, and {self.cell} has no matrices it could act on: choose 0")

    @property
    def unused(self) -> dict[str, str]:
        """Return the settings that have no effect, and why. Groups know their own (`lrpt.settings.unused_settings`)."""
        cell, storage = CELLS[self.cell], ("kind", "rank", "blocks", "density", "tied")
        lacking = [group for role, group in (("recurrent", "matrices"), ("input", "inputs")) if role not in cell.roles]
        of_cell = [f"{group}.{name}" for group in lacking for name in storage] + (["initial.carry_bias"] if not cell.has_carry_bias else [])
        is_dense = {self.matrices.kind, self.inputs.kind} == {"dense"} and not can_merge(cell.template(self.cell_spec(self.size)))
        return {
            **({"shared_layers": "model.layers is 1"} if self.layers == 1 else {}),
            **({"loop.materialize": "all matrices are dense"} if is_dense else {}),
            **dict.fromkeys(of_cell, f"model.cell is {self.cell}"),
        }

    @property
    def layer_cell(self) -> Cell:
        """Return the cell of each layer."""
        return CELLS[self.cell]

    @property
    def stacked_cell(self) -> Cell:
        """Return the cell of the network: a stack of cells if there are several layers."""
        return self.stack_cell(self.layer_cell)

    def stack_cell(self, layer: Cell) -> Cell:
        """Return a stack of a cell, with as many layers as this network."""
        return layer if self.layers == 1 else stacked(layer, self.layers, self.shared_layers)

    def cell_spec(self, input_size: int) -> CellSpec:
        """Return the sizes of the cell for inputs of this width, or this number of symbols."""
        return CellSpec(input_size, self.size, self.initial.carry_bias, self.depth)

    @property
    def recurrent_matrices(self) -> MatrixConfig:
        """Return how recurrent matrices are stored and initialized."""
        return self.matrices.started(self.initial, self.matrices.tied)

    @property
    def input_matrices(self) -> MatrixConfig:
        """Return how input matrices are stored and initialized."""
        return replace(self.recurrent_matrices, **asdict(self.inputs))

    def owner(self, template: PyTree, name: str | None = None) -> Parameters:
        """Return the module that owns the parameters of a cell's template."""
        return Parameters(template, self.recurrent_matrices, self.input_matrices, name=name)

    @property
    def without_initialization(self) -> Self:
        """Return the configuration with defaults for the settings that only affect the initialization. Programs depend on the others."""
        return replace(self, initial=InitialConfig(trainable_state=self.initial.trainable_state))

    @property
    def needs_gpu(self) -> bool:
        """Return whether the network runs on a GPU only."""
        return self.loop.kind == KERNEL

    @property
    def label(self) -> str:
        """Return a short name for tables and plots: 'LRD-GRU 128/24'."""
        cell, stored = CELLS[self.cell], self.recurrent_matrices
        prefix, suffix = label_of(stored) if cell.has_recurrent_matrices else ("", "")
        deep = (f" depth {self.depth}" if cell.deep else "") + (f" {self.layers} layers" if self.layers > 1 else "")
        tied = " tied" if stored.tied and cell.has_recurrent_matrices else ""
        marks = deep + tied + (" weight norm" if stored.weight_norm else "") + (" dropout" if self.dropout.drops else "")
        return f"{prefix}{title_of(self.cell)} {self.size}{suffix}{marks}"


class Recurrent(nn.Module):
    """A cell with its parameters, in a loop over time.

    Attributes:
      config: cell, size and storage of its matrices.
      input_size: width m of the inputs, or the number of symbols if they are integers.
    """

    config: RecurrentConfig
    input_size: int

    @property
    def cell(self) -> Cell:
        """Return the cell, a stack if there are several layers."""
        return self.config.stacked_cell

    @property
    def spec(self) -> CellSpec:
        """Return the sizes of the cell."""
        return self.config.cell_spec(self.input_size)

    @nn.compact
    def __call__(
        self,
        xs: PyTree,
        mask: Bool[Array, "t b"] | None = None,
        start: Start | None = None,
        *,
        train: bool = False,
        outputs: Any = "all",
        step: Step | None = None,
        readout: Operator | None = None,
    ) -> tuple[PyTree, PyTree]:
        """Run over time-major inputs (t, b, m), (t, b) or `Weighted` ones, from `start` or the initial state. Return the result of `recur`.

        `step` replaces the step of the cell; it takes the same parameters. `readout` is applied to the outputs.
        """
        config = self.config
        template = self.cell.template(self.spec)
        params = config.owner(template, name="cell")()
        if train and self.cell.penalty is not None:
            self.sow("penalties", "cell_penalty", self.cell.penalty(params))
        steps, rows = jax.tree.leaves(xs)[0].shape[:2]
        if not config.needs_gpu:
            params = materialized(params, config.loop.materialize, steps * rows)
        read = xs.symbols if isinstance(xs, Weighted) else xs  # neither weights nor masks of dropout decide the type of the state
        carry = start_from(start, self._first_carry(rows, jax.tree.leaves((params, read))), rows)
        if train and config.dropout.drops:
            params = self._masked(template, params, rows)
        if not config.needs_gpu:
            params = merged(params, config.loop.materialize, steps)
        tuning = config.loop.tuning()
        step = step or self.cell.step
        if not config.needs_gpu:  # the kernel knows cells by their steps
            step = of_width(step, self.cell.output_size(self.spec))
        return recur(step, params, carry, xs, mask, outputs=outputs, loop=config.loop.kind, tuning=tuning, readout=readout)

    def _masked(self, template: PyTree, params: PyTree, rows: int) -> Any:
        """Return the parameters with dropout masks of this sequence before the matrices."""
        drawn: dict[Any, Array] = {}
        config, deep = self.config.dropout, self.cell.deep

        def mask(role: str, rate: float, key: Any, width: int) -> Array:
            if (role, key, width) not in drawn:
                drawn[role, key, width] = draw_mask(self.make_rng("dropout"), rate, (rows, width))
            return drawn[role, key, width]

        for role, rate in (("input", config.inputs), ("recurrent", config.states)):
            if rate:
                params = mask_role(template, params, role, partial(mask, role, rate), config.gate_masks, deep)
        return biases_with_inputs(params) if config.biases else params

    def _first_carry(self, batch: int, arrays: Sequence[Array]) -> Any:
        """Return the state before the first step, one row for each example: zeros, or a trainable row that the cell initializes.

        The state has the type of the products of `arrays`, parameters and inputs: bfloat16 if all of these are bfloat16. A trainable row
        counts as one of them, and is stored `as_stored`.
        """
        zeros = self.cell.zero_carry(self.spec)
        row = zeros
        if self.config.initial.trainable_state:
            row = as_state(self.param("initial_state", self._draw_state, zeros), zeros)
            arrays = [*arrays, *jax.tree.leaves(row)]
        return _in_rows(row, batch, arrays)

    def _draw_state(self, key: Array, zeros: Any) -> Any:
        leaves, treedef = jax.tree.flatten(zeros)
        spread = self.cell.initial_spread(self.spec)
        keys = jax.random.split(key, len(leaves))
        drawn = [jax.random.uniform(k, a.shape, a.dtype, -spread, spread) for k, a in zip(keys, leaves, strict=True)]
        return as_stored(treedef.unflatten(drawn))


def cell_params(params: PyTree, network: Recurrent, settings: Any = None, frozen: Any = None) -> Any:
    """Return the parameters for the step of the network's cell.

    Args:
      params: parameters of the network: the part 'recurrent' of the parameters of a `SequenceModel`.
      network: the trained network.
      settings: the same part of the collection 'settings', for cells that have settings. By default settings have the initial values of
        the cell's template, which differ from those after training.
      frozen: the same part of the collection 'frozen', for networks with adapters.

    Raises:
      UsageError: the network has adapters, and what is frozen is not given; it is no `Recurrent`; or the parameters are not its own.
    """
    if not isinstance(network, Recurrent):
        raise UsageError(f"the network is a {type(network).__name__}: give a Recurrent, such as lrpt.load(DIRECTORY).recurrent")
    if "cell" not in params:
        raise UsageError(f"params have the parts {', '.join(params)}, and none is 'cell': give params['recurrent'] of a SequenceModel")
    if frozen is None and {network.config.matrices.kind, network.config.inputs.kind} & ADAPTERS.keys():
        raise UsageError(f"{network.config.label} has adapters: merge them with its frozen matrices first (experiments.fine_tune does)")
    given = {"params": params, "settings": settings, FROZEN: frozen}
    collections = {name: part for name, part in given.items() if part is not None}
    owner = network.config.owner(network.cell.template(network.spec))
    try:
        return owner.apply({name: part["cell"] for name, part in collections.items()})
    except UNFIT as error:
        raise UsageError(
            f"the parameters are not those of {network.config.label}: give the network the cell, size and parametrization that it was "
            f"trained with ({in_short(error)})"
        ) from error


def initial_row(params: PyTree, network: Recurrent) -> Any:
    """Return the state before the first step of one sequence, in the structure of the cell's own: from the same parameters, or zeros."""
    zeros = network.cell.zero_carry(network.spec)
    return as_state(params.get("initial_state", zeros), zeros)


def initial_carry(params: PyTree, network: Recurrent, rows: int, settings: Any = None, frozen: Any = None, xs: Any = None) -> Any:
    """Return the state before the first step of `rows` sequences, in the type of the same collections as those of `cell_params`.

    The type of the inputs `xs` counts, too, if they are given.
    """
    return _in_rows(initial_row(params, network), rows, jax.tree.leaves((params, settings, frozen, xs)))


def _in_rows(row: Any, rows: int, arrays: Sequence[Array]) -> Any:
    """Repeat the state of one sequence, in the type of the products of `arrays`."""
    return jax.tree.map(lambda h: jnp.broadcast_to(h, (rows, *h.shape)), in_precision_of(arrays, row))
