"""Drop-in layers for `flax.nnx`, with the names and settings of `lrpt.interop.linen`.

Replace

    nnx.RNN(nnx.GRUCell(in_features=32, hidden_features=128, rngs=rngs))

by

    lrpt.interop.nnx.RNN(lrpt.interop.nnx.Cell("gru", 32, 128, MatrixConfig("low_rank_plus_diagonal", 24), rngs=rngs))

and nnx.Linear(128, 512, rngs=rngs) by

    lrpt.interop.nnx.Linear(128, 512, MatrixConfig("low_rank", 24), rngs=rngs)
"""

from typing import Any

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Int, PyTree

from lrpt.errors import UsageError, check_counts
from lrpt.interop import linen
from lrpt.interop.sequences import check_cell
from lrpt.networks.configuration import SequenceLoopConfig
from lrpt.parametrizations import FROZEN, MatrixConfig

DENSE, FAST = MatrixConfig(), SequenceLoopConfig()

Bidirectional = nnx.Bidirectional
"""Both directions of a sequence: Flax's own layer, which runs the two layers that it is given."""


class Setting(nnx.Variable):
    """A non-trainable scalar of a cell, such as the sharpness of the mask of units with variable computation."""


class Frozen(nnx.Variable):
    """An array of a matrix that training leaves alone, such as the dense matrix under an adapter."""


class Cell(nnx.RNNCellBase):
    """A cell of the table, or a stack of it, as a Flax cell. It also runs inside `flax.nnx.RNN`.

    Its parameters have the paths of those of `lrpt.interop.linen.Cell`: `cell.recurrent["update"]["left"]`.

    Args:
      cell: a name in `lrpt.CELLS`.
      in_features: width of the inputs, or number of symbols if `symbols` is true.
      features: n, width of the state.
      matrices: storage of the recurrent matrices.
      inputs: storage of the input matrices.
      depth: transitions within a step, for cells that can have several.
      layers: stacked layers, all within one step.
      carry_bias: initial bias of the gate that passes the state on.
      symbols: whether the inputs are integers that stand for symbols.
      rngs: random numbers to draw parameters with (stream 'params').

    Raises:
      UsageError: a size is no integer, `rngs` are no `nnx.Rngs`, and otherwise as `lrpt.interop.linen.Cell` does.
    """

    def __init__(
        self,
        cell: str,
        in_features: int,
        features: int,
        matrices: MatrixConfig = DENSE,
        inputs: MatrixConfig = DENSE,
        *,
        depth: int = 1,
        layers: int = 1,
        carry_bias: float = 1.0,
        symbols: bool = False,
        rngs: nnx.Rngs,
    ) -> None:
        check_counts(in_features=in_features)
        self.module = linen.Cell(cell, features, matrices, inputs, depth, layers, carry_bias, in_features if symbols else None, parent=None)
        example = jnp.zeros((1,), int) if symbols else jnp.zeros((1, in_features))
        found = self.module.init(_key(rngs), example, method="bind_to")
        self.width = None if symbols else in_features
        self.names = _keep(self, found)

    @property
    def num_feature_axes(self) -> int:
        return self.module.num_feature_axes

    def initialize_carry(self, input_shape: tuple[int, ...], rngs: Any = None, carry_init: PyTree = None) -> PyTree:
        """Return a state of zeros for inputs of one step, (*batch, features). The other arguments are not used."""
        return self.module.apply(self.variables(), None, input_shape, method="initialize_carry")

    def check_width(self, inputs: Any) -> None:
        """Raise a UsageError if inputs are not as wide as those that the parameters were drawn for."""
        if self.width is not None:
            _check_width("cell", self.width, inputs)

    def variables(self) -> dict[str, Any]:
        """Return the variables of the module of `flax.linen`."""
        return _held(self, self.names)

    def __call__(self, carry: PyTree, inputs: Float[Array, "*b m"] | Int[Array, "*b"]) -> tuple[PyTree, Float[Array, "*b n"]]:
        """Return (new state, output) of one step."""
        self.check_width(inputs)
        return self.module.apply(self.variables(), carry, inputs)  # type: ignore[return-value]


class RNN(nnx.Module):
    """A cell over a sequence, with the arguments of `flax.nnx.RNN` and the loops of this library.

    The loss of `unitary_without_fourier` has a penalty, which this layer does not add: compute it from the parameters of the step,
    `lrpt.CELLS["unitary_without_fourier"].penalty(params)` with `params, _ = cell.module.apply(cell.variables(), xs, method="bind_to")`.

    Args:
      cell: the cell.
      time_major: whether inputs and outputs are (time, *batch, features) and not (*batch, time, features).
      return_carry: return (final state, outputs) and not only the outputs.
      reverse: read each sequence from its end.
      keep_order: return the outputs of a reversed sequence in the order of the inputs.
      loop: the loop over time, such as `SequenceLoopConfig("plain")`.

    Raises:
      UsageError: the cell is not a `Cell` of this module.
    """

    def __init__(
        self,
        cell: Cell,
        *,
        time_major: bool = False,
        return_carry: bool = False,
        reverse: bool = False,
        keep_order: bool = False,
        loop: SequenceLoopConfig = FAST,
    ) -> None:
        check_cell(cell, Cell)
        self.cell = cell
        self.time_major, self.return_carry, self.reverse, self.keep_order = time_major, return_carry, reverse, keep_order
        self.loop = loop

    def __call__(
        self,
        inputs: Float[Array, "..."] | Int[Array, "..."],
        *,
        initial_carry: PyTree = None,
        seq_lengths: Int[Array, "*batch"] | None = None,
        resets: Bool[Array, "..."] | None = None,
        return_carry: bool | None = None,
        time_major: bool | None = None,
        reverse: bool | None = None,
        keep_order: bool | None = None,
        rngs: Any = None,
    ) -> Any:
        """Return the outputs of all steps, or (final state, outputs). Arguments are those of `lrpt.interop.linen.RNN`.

        No cell draws its initial state, so `rngs` is not used.
        """
        self.cell.check_width(inputs)
        module = linen.RNN(self.cell.module, self.time_major, self.return_carry, self.reverse, self.keep_order, self.loop, parent=None)
        variables = {collection: {"cell": part} for collection, part in self.cell.variables().items()}
        return module.apply(
            variables,
            inputs,
            initial_carry=initial_carry,
            seq_lengths=seq_lengths,
            resets=resets,
            return_carry=return_carry,
            time_major=time_major,
            reverse=reverse,
            keep_order=keep_order,
        )


class Linear(nnx.Module):
    """A linear map with a structured matrix, y = x W + b, in the place of `flax.nnx.Linear`.

    Its parameters have the paths and the initial values of those of `lrpt.interop.linen.Linear`: `linear.matrix["left"]`.

    Args:
      in_features: width of the inputs.
      features: width of the outputs.
      matrices: storage of W.
      use_bias: whether there is a b.
      rngs: random numbers to draw parameters with (stream 'params').

    Raises:
      UsageError: a width is no integer, 1 or more, W does not fit its storage, or `rngs` are no `nnx.Rngs`.
    """

    def __init__(self, in_features: int, features: int, matrices: MatrixConfig = DENSE, *, use_bias: bool = True, rngs: nnx.Rngs) -> None:
        check_counts(in_features=in_features)
        self.module = linen.Linear(features, matrices, use_bias, parent=None)
        self.width = in_features
        self.names = _keep(self, self.module.init(_key(rngs), jnp.zeros((1, in_features))))

    def variables(self) -> dict[str, Any]:
        """Return the variables of the module of `flax.linen`."""
        return _held(self, self.names)

    def __call__(self, inputs: Float[Array, "*b m"]) -> Float[Array, "*b n"]:
        """Return x W + b.

        Raises:
          UsageError: the inputs are no vectors of floating-point numbers of the width `in_features`.
        """
        _check_width("layer", self.width, inputs)
        return self.module.apply(self.variables(), inputs)  # type: ignore[return-value]


def _key(rngs: Any) -> Array:
    if not isinstance(rngs, nnx.Rngs):
        raise UsageError(f"rngs is {rngs!r}: give nnx.Rngs, such as nnx.Rngs(0)")
    return rngs.params()


def _check_width(layer: str, width: int, inputs: Any) -> None:
    shape = jnp.shape(inputs)
    if shape[-1:] != (width,):
        raise UsageError(f"inputs have shape {shape}, and the {layer} was made with in_features={width}: give inputs of that width")


def _keep(layer: Any, found: Any) -> tuple[str, ...]:
    """Keep the variables of a module of `flax.linen` as variables of a layer. Return the names of its attributes with parameters."""
    for name, part in found["params"].items():
        setattr(layer, name, nnx.data(_variables(nnx.Param, part)))
    layer.settings = nnx.data(_variables(Setting, found.get("settings", {})))
    layer.frozen = nnx.data(_variables(Frozen, found.get(FROZEN, {})))
    return tuple(found["params"])


def _held(layer: Any, names: tuple[str, ...]) -> dict[str, Any]:
    """Return the variables that a layer keeps, for the module of `flax.linen`."""
    params = {name: _arrays(getattr(layer, name)) for name in names}
    return {"params": params, "settings": _arrays(layer.settings), FROZEN: _arrays(layer.frozen)}


def _variables(kind: type[nnx.Variable], tree: PyTree) -> PyTree:
    return {name: _variables(kind, part) for name, part in tree.items()} if isinstance(tree, dict) else kind(tree)


def _arrays(tree: PyTree) -> PyTree:
    return {name: _arrays(part) for name, part in tree.items()} if hasattr(tree, "items") else tree[...]
