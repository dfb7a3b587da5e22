r"""The conditional recurrent network: a slow level that steps once for each unit, a word or a character, and a fast one that it conditions.

Bojanowski et al. (2015), by their code (facebook/Conditional-character-based-RNN, mixed-rnn/WordModule.cpp). Boundaries are given: the
input of a step says whether its symbol completes a unit, and which one. So with characters and words, where the symbol that completes a
word is the separator after it, and so with bits and characters.
"""

from functools import cache
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax.nn import sigmoid
from jaxtyping import Array, Bool, Float

from lrpt.cells.cell import Cell, CellSpec, Gate, gate_spec, in_group
from lrpt.errors import UsageError
from lrpt.matrices import Operator
from lrpt.specs import MatrixSpec
from lrpt.symbols import type_of_input


class ConditionalInput(NamedTuple):
    """The input of a step.

    Attributes:
      symbol: the character, or the bit.
      unit: the word, or the character, that this symbol completes; where it completes none, anything.
      boundary: whether it completes one.
    """

    symbol: type_of_input
    unit: type_of_input
    boundary: Bool[Array, "*b"]


class ConditionedGate(NamedTuple):
    """An affine function of the symbol, the fast state and the slow state."""

    input: Operator
    recurrent: Operator
    condition: Operator
    bias: Operator


class ConditionalParams(NamedTuple):
    """Parameters of both levels: slow has the code's A_w and R_w, fast has A_c, R_c and Q (condition)."""

    slow: Gate
    fast: ConditionedGate


class ConditionalCarry(NamedTuple):
    """The state of both levels: H_w and h_c."""

    slow: Float[Array, "*b s"]
    fast: Float[Array, "*b n"]


def conditional(
    params: ConditionalParams, carry: ConditionalCarry, x: ConditionalInput
) -> tuple[ConditionalCarry, tuple[Array, ConditionalCarry]]:
    r"""One step of the conditional recurrent network (Bojanowski et al. 2015).

    .. math::
        H' = \sigma(w A_w + H R_w + b_w) \text{ where a unit w is complete, else } H, \\
        h' = \sigma(c A_c + h R_c + H' Q + b_c)

    The code has no biases; here each level has one, and they start at zero. Its training also predicts the next word from H', with a share
    of the loss, for which the info has H'.

    Args:
      params: both levels; every matrix maps row vectors.
      carry: H, (batch, s), and h, (batch, n).
      x: c, w and the boundary.

    Returns:
      carry, (y, info): the new states, the output y = h', and the new states once more.
    """
    updated = sigmoid(params.slow(x.unit, carry.slow))
    slow = jnp.where(x.boundary[..., None], updated, carry.slow)
    gate = params.fast
    fast = sigmoid(gate.input.apply(x.symbol) + gate.recurrent.apply(carry.fast) + gate.condition.apply(slow) + gate.bias.apply(carry.fast))
    carry = ConditionalCarry(slow, fast)
    return carry, (fast, carry)


@cache
def conditional_cell(units: int, slow_size: int | None = None) -> Cell:
    """A conditional network as a cell, whose inputs are `ConditionalInput`; the specification's input size is that of its symbols.

    Args:
      units: width of the units, or how many words or characters there are.
      slow_size: s, width of the slow state; as wide as the fast one by default, as 100 and 100 for bits of Jernite et al. (2017). The
        authors' defaults are 200 for words and 100 for characters.

    Raises:
      UsageError: a width below one.
    """
    if units < 1 or (slow_size is not None and slow_size < 1):
        raise UsageError(f"a conditional network with {units} units and a slow state of width {slow_size} was asked for: both start at 1")

    def slow(spec: CellSpec) -> int:
        return slow_size or spec.size

    def template(spec: CellSpec) -> Any:
        own, condition = gate_spec(spec), MatrixSpec(slow(spec), spec.size, "input", "condition")
        fast = ConditionedGate(own.input, own.recurrent, condition, own.bias)  # type: ignore[arg-type]
        return ConditionalParams(in_group(gate_spec(CellSpec(units, slow(spec))), "slow"), in_group(fast, "fast"))

    def carry(spec: CellSpec) -> Any:
        return ConditionalCarry(slow(spec), spec.size)  # type: ignore[arg-type]

    return Cell(conditional, template, carry)
