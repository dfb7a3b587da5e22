r"""The conditional recurrent network: a slow level with one step for each unit (a word or a character), which conditions a fast level.

Bojanowski et al. (2015), by their code (facebook/Conditional-character-based-RNN, mixed-rnn/WordModule.cpp). Boundaries are given: the
input of a step says whether its symbol completes a unit, and which one. With characters and words, the symbol that completes a word is the
separator after it. With bits and characters, it is the last bit.
"""

from functools import cache
from typing import NamedTuple

import jax.numpy as jnp
from jax.nn import sigmoid
from jaxtyping import Array, Bool, Float, PyTree

from lrpt.cells.cell import Cell, CellSpec, Gate, gate_spec, in_group
from lrpt.errors import UsageError
from lrpt.matrices import Operator
from lrpt.specs import MatrixSpec
from lrpt.symbols import type_of_input


class ConditionalInput(NamedTuple):
    """Input of a step.

    Attributes:
      symbol: the character, or the bit.
      unit: the word, or the character, that this symbol completes; ignored if it completes none.
      boundary: whether it completes a unit.
    """

    symbol: type_of_input
    unit: type_of_input
    boundary: Bool[Array, "*b"]


class ConditionedGate(NamedTuple):
    """Parameters of an affine function of the symbol, the fast state and the slow state."""

    input: Operator
    recurrent: Operator
    condition: Operator
    bias: Operator


class ConditionalParams(NamedTuple):
    """Parameters of both levels: slow has the code's A_w and R_w, fast has A_c, R_c and Q (condition)."""

    slow: Gate
    fast: ConditionedGate


class ConditionalCarry(NamedTuple):
    """States of both levels: H_w and h_c."""

    slow: Float[Array, "*b s"]
    fast: Float[Array, "*b n"]


def conditional(
    params: ConditionalParams, carry: ConditionalCarry, x: ConditionalInput
) -> tuple[ConditionalCarry, tuple[Float[Array, "*b n"], ConditionalCarry]]:
    r"""Compute one step of the conditional recurrent network (Bojanowski et al. 2015).

    .. math::
        H' = \sigma(w A_w + H R_w + b_w) \text{ where a unit w is complete, else } H, \\
        h' = \sigma(c A_c + h R_c + H' Q + b_c)

    The code has no biases. Here each level has one, initialized to zero. Training in that code also predicts the next word from H', with a
    share of the loss. The info has H' for this purpose.

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
    """Return a conditional network as a cell with inputs `ConditionalInput`. `CellSpec.input_size` is the number of symbols.

    Args:
      units: width of the units, or the number of words or characters.
      slow_size: s, width of the slow state; by default the width of the fast state. Jernite et al. (2017) print one size, which is read
        here as the size of both levels. The authors' defaults are 200 for words and 100 for characters.

    Raises:
      UsageError: a width below one.
    """
    if units < 1 or (slow_size is not None and slow_size < 1):
        raise UsageError(f"units is {units} and slow_size is {slow_size}: expected 1 or more for each")

    def slow(spec: CellSpec) -> int:
        return slow_size or spec.size

    def template(spec: CellSpec) -> PyTree:
        own, condition = gate_spec(spec), MatrixSpec(slow(spec), spec.size, "input", "condition")
        fast = ConditionedGate(own.input, own.recurrent, condition, own.bias)  # type: ignore[arg-type]
        return ConditionalParams(in_group(gate_spec(CellSpec(units, slow(spec))), "slow"), in_group(fast, "fast"))

    def carry(spec: CellSpec) -> PyTree:
        return ConditionalCarry(slow(spec), spec.size)  # type: ignore[arg-type]

    return Cell(conditional, template, carry)
