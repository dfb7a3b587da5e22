"""Recurrent networks as Flax modules: a cell with its parameters, initial state, loop over time and readout."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Self, Unpack, get_args

import flax.linen as nn
import jax
import jax.numpy as jnp
from flax.serialization import from_state_dict, to_state_dict
from jaxtyping import Array, Bool, Float, Int

from lrpt.cells import CELLS, Cell, CellSpec, cell_named, stacked, title_of
from lrpt.errors import UsageError, check_at_least, check_choice, check_integers
from lrpt.initialization import INITIALIZATIONS, of_readout
from lrpt.matrices import Bias, Dense, LowRank, Operator
from lrpt.networks.configuration import (
    EmbeddingConfig,
    InitialConfig,
    InputStorageConfig,
    SequenceLoopConfig,
    ShortNames,
    TiedStorageConfig,
)
from lrpt.networks.dropout import Affine, DropoutConfig, Masked, biases_with_inputs, draw_mask, draw_word_weights, mask_role
from lrpt.networks.layers import split_by_layer
from lrpt.networks.protocol import Reads, Start, Steady, in_precision_of, shapes_of, start_from
from lrpt.parametrizations import ADAPTERS, FROZEN, MatrixConfig, Parameters, label_of
from lrpt.recurrence import KERNEL, Step, recur
from lrpt.recurrence.kernels.plan import MAX_RANK, MAX_SIZE
from lrpt.recurrence.materialize import materialized
from lrpt.settings import OneOf, accepts_short_names, check_choices, check_groups
from lrpt.symbols import Weighted, check_symbols, rows_of


@accepts_short_names
@dataclass(frozen=True)
class ModelConfig(Steady):
    """Configuration of a recurrent network: its cell and its size. Further settings are in groups."""

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
    embeddings: EmbeddingConfig = field(default_factory=EmbeddingConfig)
    initial: InitialConfig = field(default_factory=InitialConfig)
    dropout: DropoutConfig = field(default_factory=DropoutConfig)
    loop: SequenceLoopConfig = field(default_factory=SequenceLoopConfig)

    if TYPE_CHECKING:  # type checkers do not see what `accepts_short_names` adds to the constructor

        def __init__(
            self,
            cell: str = ...,
            size: int = ...,
            depth: int = ...,
            layers: int = ...,
            shared_layers: bool = ...,
            matrices: TiedStorageConfig = ...,
            inputs: InputStorageConfig = ...,
            embeddings: EmbeddingConfig = ...,
            initial: InitialConfig = ...,
            dropout: DropoutConfig = ...,
            loop: SequenceLoopConfig = ...,
            **settings: Unpack[ShortNames],
        ) -> None: ...

    def __post_init__(self) -> None:
        check_choices(self, "model")
        check_groups(self, "model")
        check_integers(self, "model.depth")
        check_at_least(1, self, "model.size", "model.layers")
        deep = cell_named(self.cell).deep
        if self.depth < 1 or (self.depth > 1 and not deep):
            raise UsageError(f"model.depth is {self.depth}: expected 1{' or more' * deep} for {self.cell}")
        self._check_embedding()
        self._check_dropout()

    def _check_embedding(self) -> None:
        for name in ("rank", "tied"):
            if getattr(self.embeddings, name) and self.embedding_width is None:
                value = getattr(self.embeddings, name)
                raise UsageError(f"model.embeddings.{name} is {value}, and there is no embedding: give --model.embeddings.width")

    def _check_dropout(self) -> None:
        if self.dropout.drops and self.needs_gpu:
            raise UsageError("model.loop.kind is kernel, which knows no dropout: choose fast, or dropouts of 0")
        if self.dropout.states and not CELLS[self.cell].has_recurrent_matrices:
            raise UsageError(f"model.dropout.states is {self.dropout.states}, and {self.cell} has no matrices it could act on: choose 0")

    @property
    def unused(self) -> dict[str, str]:
        """Return the settings that have no effect, and why. Groups know their own (`lrpt.settings.unused_settings`)."""
        cell, storage = CELLS[self.cell], ("kind", "rank", "blocks", "density", "tied")
        lacking = [group for role, group in (("recurrent", "matrices"), ("input", "inputs")) if role not in cell.roles]
        of_cell = [f"{group}.{name}" for group in lacking for name in storage] + ["initial.carry_bias"] * (not cell.has_carry_bias)
        return {
            **({"shared_layers": "model.layers is 1"} if self.layers == 1 else {}),
            **({"loop.materialize": "model.matrices.kind is dense"} if self.matrices.kind == "dense" else {}),
            **dict.fromkeys(of_cell, f"model.cell is {self.cell}"),
        }

    @property
    def layer(self) -> Cell:
        """Return the cell of each layer."""
        return CELLS[self.cell]

    @property
    def network(self) -> Cell:
        """Return the cell, or the stack of cells."""
        return self.stack(self.layer)

    def stack(self, layer: Cell) -> Cell:
        """Stack a cell to the number of layers of this network."""
        return layer if self.layers == 1 else stacked(layer, self.layers, self.shared_layers)

    @property
    def embedding_width(self) -> int | None:
        """Return the width of the embedding, or None if there is none."""
        needed = CELLS[self.cell].input_size
        if self.embeddings.width is not None or needed is None:
            return self.embeddings.width
        return needed(CellSpec(self.size, self.size, depth=self.depth))

    @property
    def recurrent_matrices(self) -> MatrixConfig:
        return self.matrices.started(self.initial, self.matrices.tied)

    @property
    def input_matrices(self) -> MatrixConfig:
        return replace(self.recurrent_matrices, **asdict(self.inputs))

    def owner(self, template: Any, name: str | None = None) -> Parameters:
        """Return the module that owns the parameters of a cell's template."""
        return Parameters(template, self.recurrent_matrices, self.input_matrices, name=name)

    @property
    def compiled(self) -> Self:
        """Return the part that the compiled program depends on: all but settings that only affect the initialization."""
        return replace(self, initial=InitialConfig(trainable_state=self.initial.trainable_state))

    @property
    def needs_gpu(self) -> bool:
        """Return whether the network runs on a GPU only."""
        return self.loop.kind == KERNEL

    def build(self, input_size: int, output_size: int, reads: Reads, axis_name: str | None = None, sharers: int = 1) -> "SequenceModel":
        """Return the network for a task. `axis_name` is ignored, because the network computes nothing across examples.

        Raises:
          UsageError: `reads` is neither 'last' nor 'all'.
        """
        check_choice("reads", reads, get_args(Reads))
        return SequenceModel(self, input_size, output_size, reads, sharers)

    def parameter_shapes(self, input_size: int, output_size: int) -> Any:
        """Return the shapes of the parameters.

        Raises:
          UsageError: the settings contradict each other, for example a rank above the size.
        """
        example = jax.ShapeDtypeStruct((1, 1), jnp.int32)
        traced = self if self.needs_gpu else replace(self, loop=replace(self.loop, kind="plain"))  # in half the time of the fast loop
        return shapes_of(traced.build(input_size, output_size, "last"), example)

    @property
    def label(self) -> str:
        """Return a short name for tables and plots: 'LRD-GRU 128/24'."""
        cell, stored = CELLS[self.cell], self.recurrent_matrices
        prefix, suffix = label_of(stored) if cell.has_recurrent_matrices else ("", "")
        deep = f" depth {self.depth}" * cell.deep + f" {self.layers} layers" * (self.layers > 1)
        tied = " tied" * (stored.tied and cell.has_recurrent_matrices)
        marks = deep + tied + " weight norm" * stored.weight_norm + " dropout" * self.dropout.drops
        return f"{prefix}{title_of(self.cell)} {self.size}{suffix}{marks}"


class Recurrent(nn.Module):
    """A cell with its parameters, in a loop over time.

    Attributes:
      config: cell, size and storage of its matrices.
      input_size: width m of the inputs, or the number of symbols if they are integers.
      sharers: devices that run the network at the same time and share a cache.
    """

    config: ModelConfig
    input_size: int
    sharers: int = 1

    @property
    def cell(self) -> Cell:
        return self.config.network

    @property
    def spec(self) -> CellSpec:
        return CellSpec(self.input_size, self.config.size, self.config.initial.carry_bias, self.config.depth)

    @nn.compact
    def __call__(
        self,
        xs: Any,
        mask: Bool[Array, "t b"] | None = None,
        start: Start | None = None,
        *,
        train: bool = False,
        outputs: Any = "all",
        step: Step | None = None,
        readout: Operator | None = None,
    ) -> tuple[Any, Any]:
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
        carry = start_from(start, self.initial_carry(rows, jax.tree.leaves((params, read))))
        if train and config.dropout.drops:
            params = self._masked(template, params, rows)
        tuning = config.loop.tuning(self.sharers)
        step = step or self.cell.step
        return recur(step, params, carry, xs, mask, outputs=outputs, loop=config.loop.kind, tuning=tuning, readout=readout)

    def _masked(self, template: Any, params: Any, rows: int) -> Any:
        """Return the parameters with dropout masks of this sequence before the matrices."""
        drawn: dict[Any, Array] = {}
        config, deep = self.config.dropout, self.cell.deep

        def mask(role: str, rate: float, key: Any, width: int) -> Array:
            if (role, key) not in drawn:
                drawn[role, key] = draw_mask(self.make_rng("dropout"), rate, (rows, width))
            return drawn[role, key]

        for role, rate in (("input", config.inputs), ("recurrent", config.states)):
            if rate:
                params = mask_role(template, params, role, partial(mask, role, rate), config.gate_masks, deep)
        return biases_with_inputs(params) if config.biases else params

    def initial_carry(self, batch: int, arrays: Sequence[Array]) -> Any:
        """Return the state before the first step, one row for each example: zeros, or a trainable row that the cell initializes.

        The state has the type of the products of `arrays`, parameters and inputs: bfloat16 if all of these are bfloat16. A trainable row
        counts as one of them.
        """
        zeros = jax.tree.map(jnp.zeros, self.cell.carry(self.spec))
        row = zeros
        if self.config.initial.trainable_state:
            row = as_state(self.param("initial_state", self._draw_state, zeros), zeros)
            arrays = [*arrays, *jax.tree.leaves(row)]
        return _in_rows(row, batch, arrays)

    def _draw_state(self, key: Array, zeros: Any) -> Any:
        leaves, treedef = jax.tree.flatten(zeros)
        spread = self.cell.initial_spread(self.spec)
        keys = jax.random.split(key, len(leaves))
        return treedef.unflatten(jax.random.uniform(k, a.shape, a.dtype, -spread, spread) for k, a in zip(keys, leaves, strict=True))


def recurrent_of(config: ModelConfig, input_size: int, sharers: int = 1) -> Recurrent:
    """Return the recurrent part of a network for inputs of this width, or this number of symbols, which may have an embedding."""
    return Recurrent(config, config.embedding_width or input_size, sharers)


def cell_params(params: Any, network: Recurrent, settings: Any = None, frozen: Any = None) -> Any:
    """Return the parameters for the step of the network's cell.

    Args:
      params: parameters of the network: the part 'recurrent' of the parameters of a `SequenceModel`.
      network: the trained network.
      settings: the same part of the collection 'settings', for cells that have settings; by default the final values.
      frozen: the same part of the collection 'frozen', for networks with adapters.

    Raises:
      UsageError: the network has adapters, and what is frozen is not given.
    """
    if frozen is None and {network.config.matrices.kind, network.config.inputs.kind} & ADAPTERS.keys():
        raise UsageError(f"{network.config.label} has adapters: merge them with its frozen matrices first (experiments.fine_tune does)")
    given = {"params": params, "settings": settings, FROZEN: frozen}
    collections = {name: part for name, part in given.items() if part is not None}
    return network.config.owner(network.cell.template(network.spec)).apply({name: part["cell"] for name, part in collections.items()})


def initial_carry(params: Any, network: Recurrent, rows: int) -> Any:
    """Return the state before the first step of `rows` sequences, from the same parameters and in their type."""
    zeros = jax.tree.map(jnp.zeros, network.cell.carry(network.spec))
    return _in_rows(as_state(params.get("initial_state", zeros), zeros), rows, jax.tree.leaves(params))


def _in_rows(row: Any, rows: int, arrays: Sequence[Array]) -> Any:
    """Repeat the state of one sequence, in the type of the products of `arrays`."""
    return jax.tree.map(lambda h: jnp.broadcast_to(h, (rows, *h.shape)), in_precision_of(arrays, row))


def as_state(row: Any, own: Any) -> Any:
    """Return a stored state in the structure of the cell's own. Without a target, Orbax and msgpack restore tuples as dicts and lists."""
    return row if jax.tree.structure(row) == jax.tree.structure(own) else from_state_dict(own, to_state_dict(row))


class Embedding(nn.Module):
    """A vector for each symbol: a row of a table (V, e), or of a product of tables (V, d) and (d, e). Vectors are multiplied by it.

    Numbers that are no symbols have vectors of zeros.
    """

    config: ModelConfig
    symbols: int

    def setup(self) -> None:
        initial, rank = self.config.initial, self.config.embeddings.rank
        start = INITIALIZATIONS[initial.kind]

        def draw(key: Array, shape: tuple[int, int]) -> Array:
            return start.matrix(key, shape, initial.scale)

        def draw_table(key: Array, shape: tuple[int, int]) -> Array:
            return (start.table or start.matrix)(key, shape, initial.scale)

        width = self.config.embedding_width
        self.table = self.param("table", draw_table, (self.symbols, rank or width))
        self.spread = self.param("spread", draw, (rank, width)) if rank else None

    def __call__(self, xs: Float[Array, "*b v"] | Int[Array, "*b"]) -> Float[Array, "*b e"]:
        rows = rows_of(self.table, xs) if jnp.issubdtype(xs.dtype, jnp.integer) else xs @ self.table
        return rows if self.spread is None else rows @ self.spread

    def transposed(self) -> Operator:
        """Return E^T, which maps an output to its inner products with the vectors of all symbols."""
        return Dense(self.table.T) if self.spread is None else LowRank(self.table.T, self.spread)


def suits_kernel(model: Any) -> bool:
    """Return whether the kernel for low-rank GRUs can run a configured network."""
    return (
        isinstance(model, ModelConfig)
        and (model.cell, model.layers, model.dropout.drops) == ("gru", 1, False)
        and model.matrices.kind in ("low_rank", "low_rank_plus_diagonal")
        and model.size <= MAX_SIZE
        and model.matrices.rank <= MAX_RANK
    )


class SequenceModel(nn.Module):
    """A recurrent network with a biased readout of the last output, or of every one.

    Attributes:
      config: the recurrent network.
      input_size: width of the inputs, or the number of symbols if they are integers. Larger symbols are refused, but not noticed inside
        of `jax.jit`.
      output_size: width of the predictions: classes, or regressed values.
      reads: 'last' predicts once for each sequence (classifier, regressor), 'all' at every step (tagger, language model).
      sharers: devices that run the network at the same time and share a cache.
    """

    config: ModelConfig
    input_size: int
    output_size: int
    reads: Reads = "last"
    sharers: int = 1

    def setup(self) -> None:
        config = self.config
        check_choice("reads", self.reads, get_args(Reads))
        check_at_least(1, self, "input_size", "output_size")
        self.recurrent = recurrent_of(config, self.input_size, self.sharers)
        if config.embedding_width is not None:
            self.embedding = Embedding(config, self.input_size)
        kernel, bias = of_readout(config.initial.kind, config.initial.scale, self.recurrent.cell.output_size(self.recurrent.spec))
        if config.embeddings.tied:
            self._check_tied()
            self.readout_bias = self.param("readout_bias", bias, (self.output_size,))
        else:
            self.readout = nn.Dense(self.output_size, kernel_init=kernel, bias_init=bias)

    def _check_tied(self) -> None:
        width = self.recurrent.cell.output_size(self.recurrent.spec)
        if self.config.embedding_width != width or self.output_size != self.input_size:
            raise UsageError(
                f"model.embeddings.tied needs an embedding of the outputs' width and as many classes as symbols, and there are "
                f"{self.config.embedding_width} against {width}, {self.output_size} against {self.input_size}: "
                f"change --model.embeddings.width"
            )

    def by_layer(self, params: Any) -> dict[int, list[Array]]:
        """Return the arrays of each layer of a tree like the parameters, by the layer's number from 0."""
        spec = CellSpec(self.config.embedding_width or self.input_size, self.config.size, depth=self.config.depth)
        return split_by_layer(self.config.network.template(spec), params["recurrent"]["cell"])

    def __call__(
        self, inputs: Float[Array, "b t m"] | Int[Array, "b t"], mask: Bool[Array, "b t"] | None = None, *, train: bool = False
    ) -> Float[Array, "b *t o"]:
        """Return predictions (b, o), or (b, t, o) if every step is read. `mask` is true for steps that count.

        In training, dropout needs the random numbers `dropout`.
        """
        return self.advance(inputs, mask, train=train)[0]

    def advance(
        self,
        inputs: Float[Array, "b t m"] | Int[Array, "b t"],
        mask: Bool[Array, "b t"] | None = None,
        start: Start | None = None,
        *,
        train: bool = False,
    ) -> tuple[Float[Array, "b *t o"], Any]:
        """Return (predictions, the state after the last step). `start` has the final state of an earlier sequence.

        Raises:
          UsageError: inputs, mask or state do not have the shapes of this network, or symbols are too large.
        """
        self._check_inputs(inputs, mask)
        xs, counts = self._inputs(jnp.swapaxes(inputs, 0, 1), train), None if mask is None else mask.T
        carry, predictions = self.run(xs, counts, start, inputs, train)
        return predictions if self.reads == "last" else jnp.swapaxes(predictions, 0, 1), carry

    def _check_inputs(self, inputs: Any, mask: Any) -> None:
        for name, given in {"inputs": inputs, "mask": mask}.items():
            if isinstance(given, list | tuple):
                raise UsageError(f"{name} is a {type(given).__name__}: give an array, such as jnp.asarray({name})")
        is_symbols = jnp.issubdtype(inputs.dtype, jnp.integer)
        if inputs.ndim != 3 - is_symbols or (not is_symbols and inputs.shape[2] != self.input_size):
            raise UsageError(
                f"inputs are {inputs.dtype} of shape {inputs.shape}: expected floats of shape (batch, time, {self.input_size}), or "
                f"integers of shape (batch, time) for symbols below {self.input_size}"
            )
        check_symbols(inputs, self.input_size)
        if mask is not None and mask.shape != inputs.shape[:2]:
            raise UsageError(f"the mask has shape {mask.shape}: expected {inputs.shape[:2]}, batch and time of the inputs")

    def run(self, xs: Any, mask: Bool[Array, "t b"] | None, start: Start | None, inputs: Array, train: bool) -> tuple[Any, Array]:
        """Return (the state after the last step, time-major predictions). `xs` are the embedded, time-major `inputs`."""
        return self.recurrent(xs, mask, start, train=train, outputs=self.reads, readout=self.reading(inputs.shape[0], train))

    def reading(self, rows: int, train: bool) -> Operator:
        """Return the readout as an operator, with dropout masks of the outputs in training."""
        width, rate = self.recurrent.cell.output_size(self.recurrent.spec), self.config.dropout.outputs
        if self.config.embeddings.tied:
            readout = Affine(self.embedding.transposed(), Bias(self.readout_bias))
        else:
            if self.is_initializing():
                self.readout(jnp.zeros((1, width)))
            params = self._readout_of(width)
            readout = Affine(Dense(params["kernel"]), Bias(params["bias"]))
        return Masked(readout, draw_mask(self.make_rng("dropout"), rate, (rows, width))) if train and rate else readout

    def _readout_of(self, width: int) -> Any:
        """Return the arrays of the readout. Flax checks the shapes of all parameters but these, which its layer does not apply."""
        params = self.readout.variables.get("params", {})
        given = {name: jnp.shape(params[name]) for name in ("kernel", "bias") if name in params}
        expected = {"kernel": (width, self.output_size), "bias": (self.output_size,)}
        if given != expected:
            raise UsageError(
                f"the readout has arrays of shapes {given}: expected {expected}; give the variables that `init` of this model returned, "
                f"with the collection 'params'"
            )
        return params

    def _inputs(self, xs: Array, train: bool) -> Any:
        """Embed time-major inputs, if there is an embedding, and apply word dropout."""
        dropout, integer = self.config.dropout, jnp.issubdtype(xs.dtype, jnp.integer)
        embedded = self.config.embedding_width is not None
        self._check_dropout_of(integer, embedded)
        vectors = self.embedding(xs) if embedded else xs
        if not (train and dropout.words):
            return vectors
        places = xs if integer else xs[..., 0]
        weights = draw_word_weights(self.make_rng("dropout"), dropout.words, dropout.word_masks, places, self.input_size)
        weighted = Weighted(xs, weights)
        return weighted if integer and not embedded else weighted.weights(vectors.dtype) * vectors

    def _check_dropout_of(self, integer: bool, embedded: bool) -> None:
        """Raise a UsageError if dropout of inputs, words or biases does not fit the inputs of this task."""
        dropout = self.config.dropout
        if not integer and dropout.word_masks == "types" and dropout.words:
            raise UsageError("model.dropout.word_masks is types, and the inputs of this task are vectors: choose positions")
        if dropout.biases and (embedded or not integer):
            raise UsageError(
                "model.dropout.biases is True, and cells see vectors here, not symbols that can take biases with them: choose False"
            )
        if integer and not embedded and dropout.inputs:
            raise UsageError("model.dropout.inputs drops components of vectors: give symbols vectors with --model.embeddings.width")
