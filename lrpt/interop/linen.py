"""Drop-in layers for `flax.linen`: every cell of the table as an `RNNCellBase`, and an RNN layer that runs the fast loop.

Replace

    nn.RNN(nn.GRUCell(features=128))

by

    lrpt.interop.linen.RNN(lrpt.interop.linen.Cell("gru", features=128, matrices=MatrixConfig("low_rank_plus_diagonal", 24)))

and, in any network,

    nn.Dense(512)

by

    lrpt.interop.linen.Linear(512, MatrixConfig("low_rank", 24))
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from lrpt.cells import Cell as TableCell
from lrpt.cells import CellSpec
from lrpt.errors import UsageError, check_counts, check_finite
from lrpt.interop.sequences import Order, as_own, check_carry, check_cell, check_first, network_cell, run
from lrpt.matrices import NORMS_OF_LAYER, Bias
from lrpt.networks.configuration import SequenceLoopConfig
from lrpt.networks.protocol import in_precision_of
from lrpt.parametrizations import MatrixConfig, Parameters, create_matrices
from lrpt.parametrizations.checks import check_storage
from lrpt.parametrizations.unfit import variables_for
from lrpt.specs import MatrixSpec
from lrpt.symbols import check_symbols, rows_of

Bidirectional = nn.Bidirectional
"""Both directions of a sequence: Flax's own layer, which runs the two layers that it is given."""


class Cell(nn.RNNCellBase):
    """A cell of the table, or a stack of it, as a Flax cell. It also runs inside `flax.linen.RNN`.

    Its parameters are those of `lrpt.networks.recurrent.Recurrent`. A state keeps the structure in which it was given, so a tuple
    (c, h) stays one. Cells whose inputs must be as wide as their state get a trainable linear map before them if they are not.

    Attributes:
      cell: a name in `lrpt.CELLS`.
      features: n, width of the state.
      matrices: storage of the recurrent matrices.
      inputs: storage of the input matrices.
      depth: transitions within a step, for cells that can have several.
      layers: stacked layers, all within one step.
      carry_bias: initial bias of the gate that passes the state on.
      symbols: number of symbols, if the inputs are integers; None for vectors.

    Raises:
      UsageError: there is no such cell, a size is no integer, the sizes do not fit the cell, a storage is no `MatrixConfig`, or the bias is
        no number.
    """

    cell: str
    features: int
    matrices: MatrixConfig = MatrixConfig()
    inputs: MatrixConfig = MatrixConfig()
    depth: int = 1
    layers: int = 1
    carry_bias: float = 1.0
    symbols: int | None = None

    def __post_init__(self) -> None:
        network_cell(self.cell, self.features, self.depth, self.layers)
        if self.symbols is not None:
            check_counts(symbols=self.symbols)
        check_finite(self, "carry_bias")
        check_storage(matrices=self.matrices, inputs=self.inputs)
        super().__post_init__()

    @property
    def network(self) -> TableCell:
        """Return the cell of this library."""
        return network_cell(self.cell, self.features, self.depth, self.layers)

    @property
    def num_feature_axes(self) -> int:
        return 1 if self.symbols is None else 0

    @nn.nowrap
    def spec(self, width: int) -> CellSpec:
        """Return the sizes of the cell for inputs of a given width."""
        return CellSpec(width, self.features, self.carry_bias, self.depth)

    @nn.nowrap
    def bound_spec(self, shape: tuple[int, ...]) -> CellSpec:
        """Return the sizes of the cell for inputs of a given shape, which are embedded if the cell needs another width."""
        given = self.spec(shape[-1] if self.symbols is None else self.symbols)
        return self.spec(self.network.input_size(given)) if self.network.input_size else given

    @nn.nowrap
    def initialize_carry(self, rng: Any, input_shape: tuple[int, ...]) -> PyTree:
        """Return a state of zeros for inputs of one step, (*batch, features). The key is not used.

        The state is as precise as the parameters, and at least float32, because inputs may be more precise than parameters. If both are
        bfloat16, cast the state, too: otherwise it makes the outputs float32. Parameters that are still to be drawn have the default
        precision.
        """
        batch = tuple(input_shape[: len(input_shape) - self.num_feature_axes])
        params = [] if self.scope is None else jax.tree.leaves(self.variables.get("params", {}))
        return self.network.zero_carry(self.bound_spec(input_shape), batch, jnp.result_type(jnp.float32, *(params or [jnp.zeros(())])))

    @nn.compact
    def bind_to(self, inputs: Float[Array, "*b m"] | Int[Array, "*b"]) -> tuple[PyTree, Array]:
        """Return the parameters of the cell's step, and the inputs as the cell takes them, for any number of steps at once.

        Raises:
          UsageError: the variables were drawn for inputs of another width, or are not all there; and as `_checked` does.
        """
        given = jnp.asarray(inputs)
        with variables_for(given, may_be_symbols=self.symbols is None):
            return self._bound(self._checked(given))

    def _bound(self, inputs: Array) -> tuple[PyTree, Array]:
        """Create or find the parameters, and map the inputs to the width that the cell needs."""
        given = inputs.shape[-1] if self.symbols is None else self.symbols
        needed = (spec := self.bound_spec(inputs.shape)).input_size
        if self.network.input_size and self.symbols is not None:
            inputs = rows_of(nn.Embed(given, needed, name="embedding").embedding, inputs)
        elif needed != given:
            inputs = nn.Dense(needed, use_bias=False, name="embedding")(inputs)
        parameters = Parameters(self.network.template(spec), self.matrices, self.inputs)
        nn.share_scope(self, parameters)
        return parameters(), inputs

    def _checked(self, inputs: Array) -> Array:
        """Return vectors as floating-point numbers, as Flax does, and symbols as they are.

        Raises:
          UsageError: the cell takes symbols, and the inputs are no integers, or known to be out of range.
        """
        inputs = jnp.asarray(inputs)
        if self.symbols is None:
            return inputs if jnp.issubdtype(inputs.dtype, jnp.inexact) else inputs.astype(float)
        if not jnp.issubdtype(inputs.dtype, jnp.integer):
            raise UsageError(f"inputs are {inputs.dtype}, and the cell has symbols={self.symbols}: give integers, or leave symbols out")
        check_symbols(inputs, self.symbols)
        return inputs

    def __call__(self, carry: PyTree, inputs: Float[Array, "*b m"] | Int[Array, "*b"]) -> tuple[PyTree, Float[Array, "*b n"]]:
        """Return (new state, output) of one step, as precise as the most precise of state, inputs and parameters.

        Raises:
          UsageError: the state is none of this cell, or has other rows than the inputs.
        """
        params, x = self.bind_to(inputs)
        shape = jnp.shape(inputs)
        widths = self.network.carry(self.bound_spec(shape))
        own = as_own(carry, widths)
        check_carry(own, widths, shape[: len(shape) - self.num_feature_axes])
        new, (y, _) = self.network.step(params, own, x)
        return as_own(new, carry), y


class RNN(nn.Module):
    """A cell over a sequence, with the arguments of `flax.linen.RNN` and the loops of this library.

    The loss of `unitary_without_fourier` has a penalty, which `apply` returns if `mutable` names the collection 'penalties'.

    Attributes:
      cell: the cell.
      time_major: whether inputs and outputs are (time, *batch, features) and not (*batch, time, features).
      return_carry: return (final state, outputs) and not only the outputs.
      reverse: read each sequence from its end.
      keep_order: return the outputs of a reversed sequence in the order of the inputs.
      loop: the loop over time, such as `SequenceLoopConfig("plain")`.
    """

    cell: Cell
    time_major: bool = False
    return_carry: bool = False
    reverse: bool = False
    keep_order: bool = False
    loop: SequenceLoopConfig = SequenceLoopConfig()

    @nn.compact
    def __call__(
        self,
        inputs: Float[Array, "..."] | Int[Array, "..."],
        *,
        initial_carry: PyTree = None,
        init_key: Any = None,
        seq_lengths: Int[Array, "*batch"] | None = None,
        resets: Bool[Array, "..."] | None = None,
        return_carry: bool | None = None,
        time_major: bool | None = None,
        reverse: bool | None = None,
        keep_order: bool | None = None,
    ) -> Any:
        """Return the outputs of all steps, or (final state, outputs). Arguments other than None replace the attributes.

        Args:
          inputs: (*batch, time, features); without the last axis if the cell takes symbols.
          initial_carry: state before the first step (None: zeros).
          init_key: key for the initial state, which no cell uses.
          seq_lengths: number of steps of each sequence. The final state is that after the last of them. Outputs behind it are not zeroed.
          resets: true at the first steps of episodes, which begin with a state of zeros; booleans of the shape of the inputs without
            features. In reverse, the last steps of episodes do. (Flax has no such argument.)
          return_carry: whether to return the final state.
          time_major: whether time is the first axis.
          reverse: whether to read from the end.
          keep_order: whether the outputs of reversed sequences have the order of the inputs.

        Raises:
          UsageError: inputs, initial state, lengths or resets do not fit the cell or each other, or variables are missing.
        """
        check_cell(self.cell, Cell)
        attributes = {"time_major": time_major, "reverse": reverse, "keep_order": keep_order}
        chosen = {name: getattr(self, name) if value is None else value for name, value in attributes.items()}
        returns = self.return_carry if return_carry is None else return_carry
        params, xs = self.cell.bind_to(inputs)
        self._sow_penalty(params)
        order = Order(**chosen, feature_axes=int(jnp.issubdtype(xs.dtype, jnp.inexact)))
        own = self.cell.network.zero_carry(self.cell.bound_spec(jnp.shape(inputs)), order.batch(xs))
        first = in_precision_of(jax.tree.leaves((params, xs)), own) if initial_carry is None else as_own(initial_carry, own)
        check_first(first, own)
        carry, ys = run(self.cell.network.step, params, first, xs, order, seq_lengths, resets=resets, loop=self.loop, with_carry=returns)
        return (as_own(carry, own if initial_carry is None else initial_carry), ys) if returns else ys

    def _sow_penalty(self, params: PyTree) -> None:
        """Sow what the source of the cell adds to the loss. Initialization does not: what it returned would be among the variables."""
        penalty = self.cell.network.penalty
        if penalty is not None and self.is_mutable_collection("penalties") and not self.is_initializing():
            self.sow("penalties", "cell_penalty", penalty(params))


class Layers(nn.Module):
    """RNN layers, one after another, for the same lengths of sequences. (`flax.linen.Sequential` gives them to the first layer only.)

    Attributes:
      layers: the layers, `RNN` or `Bidirectional`, which return outputs of all steps.
    """

    layers: Sequence[nn.Module]

    def __call__(
        self, inputs: Float[Array, "*b t m"], *, seq_lengths: Int[Array, "*b"] | None = None, **others: Any
    ) -> Float[Array, "*b t o"]:
        """Return the outputs of the last layer. Those behind the end of a sequence are not zeroed.

        Raises:
          UsageError: there are other arguments, or a layer does not return outputs alone.
        """
        if others:
            raise UsageError(f"Layers takes seq_lengths only, and not {', '.join(others)}: call its layers one after another")
        outputs: Any = inputs
        for number, layer in enumerate(self.layers):
            outputs = layer(outputs, seq_lengths=seq_lengths)  # type: ignore[operator]
            if isinstance(outputs, tuple):
                raise UsageError(f"layer {number} of Layers returns its final state, too: make it without return_carry=True")
        return outputs


class Linear(nn.Module):
    """A linear map with a structured matrix, y = x W + b, in the place of `flax.linen.Dense`.

    Its parameters are the arrays of W, such as `matrix/left`, and `bias`. With weight normalization, `matrix` has the directions of the
    rows and `scale` their norms. b starts at zero, and W as `matrices` says: by default, each array is uniform as Glorot and Bengio (2010)
    draw a matrix of its shape. A dense square matrix then has the variance 1/n of `flax.linen.Dense`. W of rank d starts smaller: if it
    is n x n, its outputs are about 2 sqrt(d/n) / (1 + d/n) times as large as those of a dense one.

    Attributes:
      features: width of the outputs.
      matrices: storage of W. `tied` has no effect, because there is one matrix.
      use_bias: whether there is a b.

    Raises:
      UsageError: the width is no integer, 1 or more, or the storage is no `MatrixConfig`.
    """

    features: int
    matrices: MatrixConfig = MatrixConfig()
    use_bias: bool = True

    def __post_init__(self) -> None:
        check_counts(features=self.features)
        check_storage(matrices=self.matrices)
        super().__post_init__()

    @nn.compact
    def __call__(self, inputs: Float[Array, "*b m"]) -> Float[Array, "*b n"]:
        """Return x W + b, as precise as the more precise of inputs and parameters.

        Raises:
          UsageError: inputs are no vectors of floating-point numbers, or the parameters were drawn for another width; W does not fit its
            storage (some kinds need a square matrix), or the matrix under an adapter is missing.
        """
        x = self._checked(jnp.asarray(inputs))
        with variables_for(x):
            norms, name = NORMS_OF_LAYER
            specs = {name: MatrixSpec(x.shape[-1], self.features, "input")}
            y = create_matrices(specs, replace(self.matrices, tied=False), "storage", norms, within=self)[name].apply(x)
            return y + Bias(self.param("bias", nn.initializers.zeros, (self.features,))).apply(x) if self.use_bias else y

    def _checked(self, inputs: Array) -> Array:
        if not inputs.ndim or not jnp.issubdtype(inputs.dtype, jnp.inexact):
            raise UsageError(
                f"inputs are {inputs.dtype} of shape {inputs.shape}: expected floating-point numbers of shape (..., width), as "
                f"x.astype(float) makes them of numbers, and nn.Embed of symbols"
            )
        return inputs
