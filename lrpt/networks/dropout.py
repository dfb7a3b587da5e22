"""Variational dropout (Gal and Ghahramani 2016): masks that are drawn once for a sequence, and where they go.

A mask is 0 with the dropped share as probability, else 1 / (kept share). What passes through a cell is never masked, only what its matrices
see. Masks are drawn anew for every batch, and so for every window of a stream. In evaluation there are none.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int

from lrpt.cells.cell import Gate, StateGate
from lrpt.errors import UsageError, check_shares
from lrpt.matrices import Bias, Call, Composite, Operator, is_operator
from lrpt.settings import OneOf, check_choices
from lrpt.specs import MatrixSpec
from lrpt.symbols import Weighted, type_of_input

GateMasks = Literal["each", "candidate_apart", "shared"]
CANDIDATES = "candidate", "projected"
"""How the names of affine functions begin that are no gates proper: new states before any gate has acted."""

WordMasks = Literal["positions", "types"]


@dataclass(frozen=True, kw_only=True)
class DropoutConfig:
    """What is dropped in training."""

    words: float = 0.0
    """share of the symbols (or input vectors) dropped, at each step anew"""
    word_masks: Annotated[
        str, OneOf("masks of symbols", get_args(WordMasks), notes="types drops a symbol everywhere in the sequence or nowhere")
    ] = "positions"
    biases: bool = False
    """a dropped symbol takes the biases of the gates with it, as in dl4mt-lm"""
    inputs: float = 0.0
    """share of the input (or embedding) components dropped, the same at every step"""
    states: float = 0.0
    """share of the state components dropped before the recurrent matrices, the same at every step"""
    outputs: float = 0.0
    """share of the output components dropped before the readout, the same at every step"""
    gate_masks: Annotated[
        str,
        OneOf(
            "which gates share masks of inputs and states",
            get_args(GateMasks),
            notes="each gate has its own, the gates but for the candidate share one, or all do (in a Grid-LSTM all of a dimension)",
        ),
    ] = "each"

    def __post_init__(self) -> None:
        check_choices(self, "model.dropout")
        check_shares(self, "model.dropout.words", "model.dropout.inputs", "model.dropout.states", "model.dropout.outputs")

    @property
    def drops(self) -> bool:
        """Whether anything is dropped."""
        return any((self.words, self.inputs, self.states, self.outputs))


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Masked(Composite):
    """An operator that sees its input through a mask, which has a row for each row of the batch."""

    operator: Operator
    mask: Float[Array, "b i"]

    def apply_by(self, call: Call, v: Float[Array, "*s b i"]) -> Float[Array, "*s b o"]:
        mask = lax.stop_gradient(self.mask)
        return call(self.operator, v * mask.reshape((1,) * (v.ndim - mask.ndim) + mask.shape))


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Affine(Composite):
    """v W + b as one operator, which the weight of an input multiplies as a whole."""

    matrix: Operator
    bias: Operator

    def apply_by(self, call: Call, v: type_of_input) -> Float[Array, "*b o"]:
        y = call(self.matrix, v.symbols if isinstance(v, Weighted) else v)
        y = y + call(self.bias, y)
        return v.weight[..., None] * y if isinstance(v, Weighted) else y


def draw_mask(key: Array, rate: float, shape: tuple[int, ...]) -> Float[Array, "..."]:
    """0 with probability `rate`, else 1 / (1 - rate)."""
    return jax.random.bernoulli(key, 1 - rate, shape) / (1 - rate)


def draw_word_weights(key: Array, rate: float, kind: str, symbols: Int[Array, "t b"], types: int) -> Float[Array, "t b"]:
    """What each symbol is multiplied by.

    Args:
      kind: 'positions' or 'types'.
      symbols: below `types`.

    By types, a row of the batch draws once for each type, which has the distribution of what the original code of Zilly et al. (2017) does
    (`noise_x`: the mask of the previous occurrence in the same window and row is copied). lowrank-lstm means to do it too, and
    compares whole rows by mistake, so that its masks are those of positions.
    """
    if kind == "positions":
        return draw_mask(key, rate, symbols.shape)
    by_type = draw_mask(key, rate, (symbols.shape[1], types))
    return jnp.take_along_axis(by_type, symbols.T, axis=1).T


def biases_with_inputs(params: Any) -> Any:
    """The same gates, with the bias inside of the operator that sees the input.

    Raises:
      UsageError: a bias that is of no `Gate`.
    """

    def moved(gate: Any) -> Any:
        if isinstance(gate, Bias):
            raise UsageError("model.dropout.biases is True, and this cell has biases apart from its gates: choose another cell, or False")
        if not isinstance(gate, Gate):
            return gate  # an operator, or a gate that sees no input
        return gate._replace(input=Affine(gate.input, gate.bias), bias=Bias(jax.tree.leaves(jax.tree.map(jnp.zeros_like, gate.bias))[0]))

    return jax.tree.map(moved, params, is_leaf=lambda node: isinstance(node, Gate | StateGate) or is_operator(node))


def mask_role(template: Any, params: Any, role: str, mask: Callable[[Hashable, int], Array], gate_masks: str, deep: bool) -> Any:
    """The parameters, with a mask before each matrix of a role.

    Args:
      template: of the cell.
      role: 'recurrent' or 'input'.
      mask: `(key, width) -> mask`; matrices for which `key` is the same share one.
      gate_masks: which do, as `DropoutConfig` has it.
      deep: whether the transitions inside a step share masks, as both original codes of recurrent highway networks have it.
    """
    leaves, treedef = jax.tree_util.tree_flatten_with_path(template)
    operators = treedef.flatten_up_to(params)

    def masked(path: tuple[Any, ...], spec: Any, operator: Operator) -> Operator:
        if not (isinstance(spec, MatrixSpec) and spec.role == role):
            return operator
        return Masked(operator, mask(_sharing(path, role, gate_masks, deep), spec.n_in))

    return treedef.unflatten(masked(path, spec, op) for (path, spec), op in zip(leaves, operators, strict=True))


def _sharing(path: tuple[Any, ...], role: str, gate_masks: str, deep: bool) -> Hashable:
    """What the paths of matrices with the same mask have in common: (0, 'candidate', 'recurrent') is the candidate of the first layer."""
    names = [str(getattr(key, "name", getattr(key, "idx", key))) for key in path]
    *above, gate = names[:-1] if len(names) > 1 and names[-1] == role else names
    if deep:
        above = above[:-1]
    if gate_masks == "each":
        return *above, gate
    return (*above, gate.startswith(CANDIDATES)) if gate_masks == "candidate_apart" else tuple(above)
