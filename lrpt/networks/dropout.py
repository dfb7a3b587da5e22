"""Variational dropout (Gal and Ghahramani 2016): masks that are drawn once for a sequence.

A mask is 0 with the dropped share as probability, else 1 / (kept share). Masks act on the inputs of matrices, never on the state that
passes through a cell. New masks are drawn for every batch, and so for every window of a stream. Evaluation uses no masks.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int, PyTree

from lrpt.cells.cell import Gate, StateGate
from lrpt.errors import UsageError, check_shares
from lrpt.matrices import Bias, Call, Composite, Operator, is_operator
from lrpt.pytrees import register_fields
from lrpt.settings import OneOf, check_choices
from lrpt.specs import MatrixSpec, steps_of
from lrpt.symbols import Weighted, type_of_input

GateMasks = Literal["each", "candidate_apart", "shared"]
CANDIDATES = "candidate", "projected"
"""Prefixes of the names of affine functions that are not gates but compute new states."""

WordMasks = Literal["positions", "types"]


@dataclass(frozen=True, kw_only=True)
class DropoutConfig:
    """Dropout in training."""

    words: float = 0.0
    """share of the symbols (or input vectors) dropped, drawn again at each step"""
    word_masks: Annotated[
        str, OneOf("masks of symbols", get_args(WordMasks), notes="types drops a symbol everywhere in the sequence or nowhere")
    ] = "positions"
    biases: bool = False
    """dropping a symbol also drops the biases of the gates, as in dl4mt-lm"""
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
    def unused(self) -> dict[str, str]:
        """Return the settings that have no effect, and why."""
        of_words = {} if self.words else dict.fromkeys(("word_masks", "biases"), "model.dropout.words is 0")
        gates = self.inputs or self.states
        return of_words | ({} if gates else {"gate_masks": "model.dropout.inputs and model.dropout.states are 0"})

    @property
    def drops(self) -> bool:
        """Return whether anything is dropped."""
        return any((self.words, self.inputs, self.states, self.outputs))


@register_fields
@dataclass(frozen=True, eq=False)
class Masked(Composite):
    """An operator that multiplies its input by a mask with one row for each row of the batch."""

    operator: Operator
    mask: Float[Array, "b i"]

    def of_rows(self, rows: slice | Int[Array, " r"]) -> "Masked":
        """Return the operator for these rows of the batch."""
        return Masked(self.operator, self.mask[rows])

    def apply_by(self, call: Call, v: Float[Array, "*s b i"]) -> Float[Array, "*s b o"]:
        mask = lax.stop_gradient(self.mask).astype(v.dtype)  # a mask must not widen the products of a bfloat16 network
        return call(self.operator, v * mask.reshape((1,) * (v.ndim - mask.ndim) + mask.shape))


@register_fields
@dataclass(frozen=True, eq=False)
class Affine(Composite):
    """The affine map v W + b as one operator. The weight of an input multiplies the whole output."""

    matrix: Operator
    bias: Operator

    def apply_by(self, call: Call, v: type_of_input) -> Float[Array, "*b o"]:
        y = call(self.matrix, v.symbols if isinstance(v, Weighted) else v)
        y = y + call(self.bias, y)
        return v.weights(y.dtype) * y if isinstance(v, Weighted) else y


def draw_mask(key: Array, rate: float, shape: tuple[int, ...]) -> Float[Array, "..."]:
    """Draw a mask that is 0 with probability `rate`, else 1 / (1 - rate)."""
    return jax.random.bernoulli(key, 1 - rate, shape).astype(float) / (1 - rate)


def draw_word_weights(key: Array, rate: float, kind: str, symbols: Int[Array, "t b"], types: int) -> Float[Array, "t b"]:
    """Draw a weight for each symbol, by which the symbol is multiplied.

    With 'types', a row of the batch draws one weight for each type. This has the same distribution as the TensorFlow code of Zilly et al.
    (2017), whose `noise_x` copies the mask of the previous occurrence in the same window and row. Their Torch code and lowrank-lstm are
    meant to do the same, but compare whole rows by mistake, so that they draw masks by position.

    Args:
      key: PRNG key.
      rate: probability of a weight of 0.
      kind: 'positions' or 'types'.
      symbols: numbers of symbols, below `types`. Larger numbers, which stand for vectors of zeros, get weights of 0.
      types: number of symbols.
    """
    if kind == "positions":
        return draw_mask(key, rate, symbols.shape)
    by_type = draw_mask(key, rate, (symbols.shape[1], types))
    return jnp.take_along_axis(by_type, symbols.T, axis=1, mode="fill", fill_value=0).T


def biases_with_inputs(params: PyTree) -> Any:
    """Move the bias of each gate into the operator that is applied to the input.

    Raises:
      UsageError: a bias belongs to no `Gate`.
    """

    def moved(gate: Any) -> Any:
        if isinstance(gate, Bias):
            raise UsageError("model.dropout.biases is True, and this cell has biases apart from its gates: choose another cell, or False")
        if not isinstance(gate, Gate):
            return gate  # an operator, or a gate without input
        return gate._replace(input=Affine(gate.input, gate.bias), bias=Bias(jax.tree.leaves(jax.tree.map(jnp.zeros_like, gate.bias))[0]))

    return jax.tree.map(moved, params, is_leaf=lambda node: isinstance(node, Gate | StateGate) or is_operator(node))


def mask_role(template: PyTree, params: PyTree, role: str, mask: Callable[[Hashable, int], Array], gate_masks: str, deep: bool) -> Any:
    """Return the parameters with a mask before each matrix of a role.

    Args:
      template: template of the cell.
      params: parameters of the cell.
      role: 'recurrent' or 'input'.
      mask: `(key, width) -> mask`; matrices with the same `key` and width share a mask.
      gate_masks: which gates share masks, as in `DropoutConfig`.
      deep: whether the transitions inside a step share masks, as in the original codes of recurrent highway networks.
    """
    leaves, treedef = jax.tree_util.tree_flatten_with_path(template)
    operators = treedef.flatten_up_to(params)

    def masked(path: tuple[Any, ...], spec: Any, operator: Operator) -> Operator:
        if not (isinstance(spec, MatrixSpec) and spec.role == role):
            return operator
        return Masked(operator, mask(_sharing(path, role, gate_masks, deep), spec.n_in))

    return treedef.unflatten(masked(path, spec, op) for (path, spec), op in zip(leaves, operators, strict=True))


def _sharing(path: tuple[Any, ...], role: str, gate_masks: str, deep: bool) -> Hashable:
    """Return the key of the mask before the matrix at a path. (0, 'candidate', 'recurrent') is the path of the first layer's candidate."""
    names = steps_of(path)
    *above, gate = names[:-1] if len(names) > 1 and names[-1] == role else names
    if deep:
        above = above[:-1]
    if gate_masks == "each":
        return *above, gate
    return (*above, gate.startswith(CANDIDATES)) if gate_masks == "candidate_apart" else tuple(above)
