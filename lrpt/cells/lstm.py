"""Long short-term memory, without peepholes, as the papers on passthrough networks use it."""

from typing import NamedTuple

from jax.nn import sigmoid
from jax.numpy import tanh
from jaxtyping import Array, Float, PyTree

from lrpt.cells.cell import Cell, CellSpec, Gate, gate_spec
from lrpt.symbols import type_of_input


class LSTMParams(NamedTuple):
    """Parameters of an LSTM: input is the paper's transform tau, forget its carry gamma, candidate its proposal pi, output its omega."""

    input: Gate
    forget: Gate
    candidate: Gate
    output: Gate


class LSTMCarry(NamedTuple):
    """The state of an LSTM: c is passed through (the paper's x-hat), h is what the gates see (x-tilde)."""

    c: Float[Array, "*b n"]
    h: Float[Array, "*b n"]


class LSTMInfo(NamedTuple):
    """The gates of one step, each of shape (batch, n)."""

    input: Float[Array, "*b n"]
    forget: Float[Array, "*b n"]
    candidate: Float[Array, "*b n"]
    output: Float[Array, "*b n"]


def lstm(params: LSTMParams, carry: LSTMCarry, x: type_of_input) -> tuple[LSTMCarry, tuple[Float[Array, "*b n"], LSTMInfo]]:
    r"""Compute one step of the LSTM (Miceli Barone 2016, eqs. 8 and 9; Hochreiter and Schmidhuber 1997; Gers et al. 2000).

    .. math::
        i = \sigma(x W_i + h U_i + b_i), \quad f = \sigma(x W_f + h U_f + b_f), \quad o = \sigma(x W_o + h U_o + b_o), \\
        g = \tanh(x W_g + h U_g + b_g), \quad c' = g \odot i + c \odot f, \quad h' = o \odot \tanh(c')

    With tied low-rank matrices this is the LSTM with a recurrent projection layer of Sak et al. (2014), r = h R and U_k = R L_k, without
    their peepholes. They read the output from r; here it is h. Miceli Barone's language model (lowrank-lstm) initializes every parameter,
    biases included, uniformly within +-0.04, without an offset of the forget gate.

    Args:
      params: the four gates; every matrix maps row vectors.
      carry: c and h, each (batch, n).
      x: input, (batch, m) floats, or (batch,) integers that stand for one-hot vectors.

    Returns:
      carry, (y, info): the new c and h, the output y = h', and the gates.
    """
    i = sigmoid(params.input(x, carry.h))
    f = sigmoid(params.forget(x, carry.h))
    g = tanh(params.candidate(x, carry.h))
    o = sigmoid(params.output(x, carry.h))
    c = g * i + carry.c * f
    h = o * tanh(c)
    return LSTMCarry(c, h), (h, LSTMInfo(i, f, g, o))


def _template(spec: CellSpec) -> PyTree:
    return LSTMParams(gate_spec(spec), gate_spec(spec, spec.carry_bias), gate_spec(spec), gate_spec(spec))


def _carry(spec: CellSpec) -> PyTree:
    return LSTMCarry(spec.size, spec.size)  # type: ignore[arg-type]


LSTM = Cell(lstm, _template, _carry)
