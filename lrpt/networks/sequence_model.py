"""Recurrent networks for sequences, as Flax modules: embedding, cell in a loop over time, and readout."""

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Unpack, get_args

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from lrpt.cells import CELLS
from lrpt.errors import UsageError, check_at_least, check_choice, check_counts, check_integers
from lrpt.matrices import Bias, Dense, Operator
from lrpt.networks.configuration import (
    EmbeddingConfig,
    InitialConfig,
    InputStorageConfig,
    SequenceLoopConfig,
    ShortNames,
    TiedStorageConfig,
)
from lrpt.networks.dropout import Affine, DropoutConfig, Masked, draw_mask, draw_word_weights
from lrpt.networks.embedding import Embedding
from lrpt.networks.layers import split_by_layer
from lrpt.networks.protocol import Reads, Start, check_inputs, check_rows, params_of, shapes_of
from lrpt.networks.recurrent import Recurrent, RecurrentConfig, initial_carry
from lrpt.parametrizations import FROZEN
from lrpt.parametrizations.initialization import of_readout
from lrpt.parametrizations.unfit import variables_for
from lrpt.recurrence.kernels.plan import MAX_RANK, MAX_SIZE
from lrpt.settings import accepts_short_names
from lrpt.symbols import Weighted


@accepts_short_names
@dataclass(frozen=True)
class ModelConfig(RecurrentConfig):
    """Configuration of a recurrent network: its cell and its size. Further settings are in groups.

    Examples:
      Settings of groups may be given by short name: `ModelConfig("gru", size=128, rank=8)` sets `matrices.rank`.
      `ModelConfig.short_names` lists them.
    """

    embeddings: EmbeddingConfig = field(default_factory=EmbeddingConfig)

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
            initial: InitialConfig = ...,
            dropout: DropoutConfig = ...,
            loop: SequenceLoopConfig = ...,
            embeddings: EmbeddingConfig = ...,
            **settings: Unpack[ShortNames],
        ) -> None: ...

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_embedding()

    def _check_embedding(self) -> None:
        for name in ("rank", "tied"):
            if getattr(self.embeddings, name) and self.embedding_width is None:
                value = getattr(self.embeddings, name)
                raise UsageError(f"model.embeddings.{name} is {value}, and there is no embedding: give --model.embeddings.width")

    @property
    def embedding_width(self) -> int | None:
        """Return the width of the embedding, or None if there is none."""
        needed = CELLS[self.cell].input_size
        if self.embeddings.width is not None or needed is None:
            return self.embeddings.width
        return needed(self.cell_spec(self.size))

    def build(self, input_size: int, output_size: int, reads: Reads, axis_name: str | None = None) -> "SequenceModel":
        """Return the network for a task. `axis_name` is ignored, because the network computes nothing across examples.

        Raises:
          UsageError: `reads` is neither 'last' nor 'all', or a size is no integer of 1 or more.
        """
        check_choice("reads", reads, get_args(Reads))
        check_counts(input_size=input_size, output_size=output_size)
        return SequenceModel(self, input_size, output_size, reads)

    def parameter_shapes(self, input_size: int, output_size: int) -> Any:
        """Return the shapes of the parameters.

        Raises:
          UsageError: the settings contradict each other, for example a rank above the size.
        """
        example = jax.ShapeDtypeStruct((1, 1), jnp.int32)
        traced = self if self.needs_gpu else replace(self, loop=replace(self.loop, kind="plain"))  # in half the time of the fast loop
        return shapes_of(traced.build(input_size, output_size, "last"), example)


def recurrent_of(config: ModelConfig, input_size: int) -> Recurrent:
    """Return the recurrent part of a network for inputs of this width, or this number of symbols, which may have an embedding."""
    return Recurrent(config, config.embedding_width or input_size)


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
    """

    config: ModelConfig
    input_size: int
    output_size: int
    reads: Reads = "last"

    def setup(self) -> None:
        config = self.config
        check_choice("reads", self.reads, get_args(Reads))
        check_integers(self, "input_size", "output_size", optional=False)
        check_at_least(1, self, "input_size", "output_size")
        self.recurrent = recurrent_of(config, self.input_size)
        if config.embedding_width is not None:
            self.embedding = Embedding(self.input_size, config.embedding_width, config.embeddings.rank, config.initial)
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

    def by_layer(self, params: PyTree) -> dict[int, list[Array]]:
        """Return the arrays of each layer of a tree like the parameters, by the layer's number from 0."""
        spec = self.config.cell_spec(self.config.embedding_width or self.input_size)
        return split_by_layer(self.config.stacked_cell.template(spec), params["recurrent"]["cell"])

    def __call__(
        self, inputs: Float[Array, "b t m"] | Int[Array, "b t"], mask: Bool[Array, "b t"] | None = None, *, train: bool = False
    ) -> Float[Array, "b *t o"]:
        """Return predictions (b, o), or (b, t, o) if every step is read. `mask` is true for steps that count.

        Predictions at steps that do not count have no meaning. They depend on the other rows of the batch and on the loop: leave them out
        of losses and metrics.

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
    ) -> tuple[Float[Array, "b *t o"], PyTree]:
        """Return (predictions, the state after the last step). `start` has the final state of an earlier sequence.

        Without it, the sequence begins with the state that `initial_carry` returns. Predictions at steps that do not count have no meaning.

        If only the last output is read and no step of a row counts, as in a window behind the end of its sequence, then its prediction is
        that of an output of zeros. The state is right: it is that before the window.

        Raises:
          UsageError: inputs, mask, state or variables do not have the shapes of this network, or symbols are too large.
        """
        check_inputs(inputs, mask, self.input_size, self.reads)
        with variables_for(inputs):
            xs, counts = self._inputs(jnp.swapaxes(inputs, 0, 1), train), None if mask is None else mask.T
            carry, predictions = self.run(xs, counts, start, inputs, train)
        return predictions if self.reads == "last" else jnp.swapaxes(predictions, 0, 1), carry

    def initial_carry(self, rows: int) -> Any:
        """Return the state before the first step of `rows` sequences, for `Start`, in the type of the parameters.

            carry = model.apply(variables, rows, method="initial_carry")
            predictions, carry = model.apply(variables, inputs, None, Start(carry), method="advance")

        Raises:
          UsageError: the number of rows is no integer, or below 1; there are no parameters.
        """
        check_rows(rows)
        own = self.recurrent.variables
        return initial_carry(params_of(own), self.recurrent, rows, own.get("settings"), own.get(FROZEN))

    def run(self, xs: PyTree, mask: Bool[Array, "t b"] | None, start: Start | None, inputs: Array, train: bool) -> tuple[PyTree, Array]:
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
