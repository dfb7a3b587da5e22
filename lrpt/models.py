"""Flax modules that put a cell to work: parameters, initial state, loop over time, readout."""

import math
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from lrpt.cells import CELLS, Cell, CellSpec
from lrpt.errors import UsageError, check_choice
from lrpt.materialize import Materialize, materialized
from lrpt.parametrizations import MatrixConfig, Parameters, glorot_uniform
from lrpt.recurrence import KERNEL, LOOPS, Store, Tuning, recur


@dataclass(frozen=True)
class ModelConfig:
    """A recurrent network: which cell, how large, and how its matrices are stored."""

    cell: str = "gru"
    """gru (reset gate before the product), gru_reset_after, gru_cudnn (with its second bias), lstm, rhn, rhn_uncoupled, dt_rnn, dts_rnn
    (these four of any depth), elman, unitary or unitary_without_fourier (these two ignore parametrization, rank and carry bias)"""
    size: int = 128
    """n: width of the state"""
    depth: int = 1
    """transitions within a step, for cells that have several"""
    parametrization: str = "low_rank_plus_diagonal"
    """recurrent matrices: dense, low_rank or low_rank_plus_diagonal"""
    rank: int = 24
    """d: maximum rank of each recurrent matrix"""
    tied: bool = False
    """one projection R for all recurrent matrices"""
    weight_norm: bool = False
    """weight normalization of all matrices but the output"""
    input_parametrization: str = "dense"
    """input matrices: dense or low_rank"""
    input_rank: int = 1
    """rank of each low-rank input matrix"""
    input_tied: bool = False
    """one projection R for all input matrices"""
    carry_bias: float = 1.0
    """start of the bias of the carry (update) gate"""
    trainable_initial_state: bool = True
    """learn the state before the first step (else it is zero)"""
    recurrence: str = "fast"
    """loop over time: fast (weight gradients once for each chunk of steps), plain (lax.scan), checkpoint (chunks recomputed), or kernel
    (low-rank GRUs on NVIDIA Hopper GPUs; not yet run on hardware)"""
    chunk: int | None = None
    """steps that the backward pass takes at once (None: about 700 rows of the batch, 4 to 64 steps)"""
    store: str = "auto"
    """states that the fast loop keeps: all, boundaries (of chunks), or auto (all, up to 256 MiB)"""
    materialize: str = "auto"
    """multiply out low-rank recurrent matrices before the loop: always, never, or auto (where that takes less work)"""

    def __post_init__(self) -> None:
        check_choice("model.cell", self.cell, CELLS)
        check_choice("model.recurrence", self.recurrence, (*LOOPS, KERNEL))
        check_choice("model.store", self.store, get_args(Store))
        check_choice("model.materialize", self.materialize, get_args(Materialize))
        if self.chunk is not None and self.chunk < 1:
            raise UsageError(f"model.chunk is {self.chunk}: a chunk has at least one step")
        if self.size < 1:
            raise UsageError(f"model.size is {self.size}: the state needs at least one component")
        if self.depth < 1 or (self.depth > 1 and not CELLS[self.cell].deep):
            raise UsageError(f"model.depth is {self.depth}: expected 1{' or more' * CELLS[self.cell].deep} for {self.cell}")
        if not math.isfinite(self.carry_bias):
            raise UsageError(f"model.carry_bias is {self.carry_bias}: expected a finite number")

    @property
    def recurrent_matrices(self) -> MatrixConfig:
        return MatrixConfig(self.parametrization, self.rank, self.tied, self.weight_norm)

    @property
    def input_matrices(self) -> MatrixConfig:
        return MatrixConfig(self.input_parametrization, self.input_rank, self.input_tied, self.weight_norm)

    def _has_recurrent_matrices(self) -> bool:
        template = CELLS[self.cell].template(CellSpec(1, self.size, depth=self.depth))
        return any(getattr(leaf, "role", "") == "recurrent" for leaf in jax.tree.leaves(template))

    @property
    def label(self) -> str:
        """A short name for tables and figures: 'LRD-GRU 128/24'."""
        if not self._has_recurrent_matrices():
            return f"{self.cell.upper().replace('_', ' ')} {self.size}"
        kind = {"dense": "", "low_rank": "LR-", "low_rank_plus_diagonal": "LRD-"}.get(self.parametrization, f"{self.parametrization}-")
        rank = f"/{self.rank}" if self.parametrization.startswith("low_rank") else ""
        deep = f" depth {self.depth}" * CELLS[self.cell].deep
        marks = deep + " tied" * self.tied + " weight norm" * self.weight_norm
        return f"{kind}{self.cell.upper().replace('_', ' ')} {self.size}{rank}{marks}"


class Start(NamedTuple):
    """Where a sequence begins that continues another one.

    Attributes:
      carry: the state that the other one ended in, each leaf (b, ...).
      fresh: whether the network begins in its own initial state all the same.
    """

    carry: Any
    fresh: Bool[Array, ""]


class Recurrent(nn.Module):
    """A cell over time, with the parameters it asks for.

    Attributes:
      config: which cell, how large, how its matrices are stored.
      input_size: width m of the inputs, or the number of symbols where they are integers.
    """

    config: ModelConfig
    input_size: int

    @property
    def cell(self) -> Cell:
        return CELLS[self.config.cell]

    @property
    def spec(self) -> CellSpec:
        return CellSpec(self.input_size, self.config.size, self.config.carry_bias, self.config.depth)

    @nn.compact
    def __call__(
        self, xs: Array, mask: Bool[Array, "t b"] | None = None, start: Start | None = None, *, outputs: Any = "all"
    ) -> tuple[Any, Any]:
        """Runs over time-major inputs (t, b, m) or (t, b), from `start` or the initial state. Returns as `lrpt.recurrence.recur`."""
        config = self.config
        template = self.cell.template(self.spec)
        params = Parameters(template, config.recurrent_matrices, config.input_matrices, name="cell")()
        if config.recurrence != KERNEL:
            params = materialized(params, config.materialize, xs.shape[0] * xs.shape[1])
        carry = self.initial_carry(xs.shape[1])
        if start is not None:
            carry = jax.tree.map(lambda own, other: jnp.where(start.fresh, own, other), carry, start.carry)
        tuning = Tuning(config.chunk, config.store)  # type: ignore[arg-type]
        return recur(self.cell.step, params, carry, xs, mask, outputs=outputs, loop=config.recurrence, tuning=tuning)

    def initial_carry(self, batch: int) -> Any:
        """The state before the first step, one row for each example: zeros, or a trainable row that starts as the cell says."""
        zeros = jax.tree.map(jnp.zeros, self.cell.carry(self.spec))
        row = self.param("initial_state", self._draw_state, zeros) if self.config.trainable_initial_state else zeros
        return jax.tree.map(lambda h: jnp.broadcast_to(h, (batch, *h.shape)), row)

    def _draw_state(self, key: Array, zeros: Any) -> Any:
        leaves, treedef = jax.tree.flatten(zeros)
        spread = self.cell.initial_spread(self.spec)
        keys = jax.random.split(key, len(leaves))
        return treedef.unflatten(jax.random.uniform(k, a.shape, a.dtype, -spread, spread) for k, a in zip(keys, leaves, strict=True))


class SequenceModel(nn.Module):
    """A recurrent network with a dense, biased readout of the last output, or of every one.

    Attributes:
      config: the recurrent network.
      input_size: width of the inputs, or the number of symbols where they are integers.
      output_size: width of the predictions: classes, or regressed values.
      reads: 'last' predicts once for each sequence (classifier, regressor), 'all' at every step (tagger, language model).
    """

    config: ModelConfig
    input_size: int
    output_size: int
    reads: Literal["last", "all"] = "last"

    def __call__(self, inputs: Float[Array, "b t m"] | Int[Array, "b t"], mask: Bool[Array, "b t"] | None = None) -> Float[Array, "b *t o"]:
        """Predictions (b, o), or (b, t, o) where every step is read. `mask` is true where a step counts."""
        return self.advance(inputs, mask)[0]

    @nn.compact
    def advance(
        self, inputs: Float[Array, "b t m"] | Int[Array, "b t"], mask: Bool[Array, "b t"] | None = None, start: Start | None = None
    ) -> tuple[Float[Array, "b *t o"], Any]:
        """(predictions, the state after the last step), from the state that an earlier sequence ended in."""
        time_major, counts = jnp.swapaxes(inputs, 0, 1), None if mask is None else mask.T
        carry, y = Recurrent(self.config, self.input_size, name="recurrent")(time_major, counts, start, outputs=self.reads)
        predictions = nn.Dense(self.output_size, kernel_init=glorot_uniform, name="readout")(y)
        return predictions if self.reads == "last" else jnp.swapaxes(predictions, 0, 1), carry
