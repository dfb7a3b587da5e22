"""Gated recurrent units, with the reset gate before or after the recurrent product.

With the reset gate before the product, the low-rank map and the diagonal of the candidate act on the reset state. With the reset gate
after it, the gate multiplies their result. Miceli Barone's experiments on images, copying and adding use the first
(lowrank-gru, models.py), those on language the second (dl4mt-lm, small_lm.py), as do Flax, PyTorch and cuDNN.
"""

from typing import Any, NamedTuple

from jax.nn import sigmoid
from jax.numpy import tanh
from jaxtyping import Array, Float, PyTree

from lrpt.cells.cell import Cell, CellSpec, Gate, gate_spec
from lrpt.matrices import Operator
from lrpt.specs import BiasSpec
from lrpt.symbols import type_of_input


class GRUParams(NamedTuple):
    """Parameters of a GRU: update is the paper's carry gamma, reset its omega, candidate its proposal pi."""

    update: Gate
    reset: Gate
    candidate: Gate


class CandidateWithTwoBiases(NamedTuple):
    """Parameters of a candidate whose recurrent product has a second bias, which is reset with it."""

    input: Operator
    recurrent: Operator
    bias: Operator
    recurrent_bias: Operator


class GRUCuDNNParams(NamedTuple):
    """Parameters of a GRU whose candidate has two biases."""

    update: Gate
    reset: Gate
    candidate: CandidateWithTwoBiases


class GRUInfo(NamedTuple):
    """The gates of one step, each of shape (batch, n)."""

    update: Float[Array, "*b n"]
    reset: Float[Array, "*b n"]
    candidate: Float[Array, "*b n"]


def _pass_through(u: Array, r: Array, m: Array, h: Array) -> tuple[Array, tuple[Array, GRUInfo]]:
    """Compute h' = (1 - u) * m + u * h: eq. 1 of Miceli Barone (2018) with transform tau = 1 - gamma."""
    h = (1 - u) * m + u * h
    return h, (h, GRUInfo(u, r, m))


def gru(params: GRUParams, h: Float[Array, "*b n"], x: type_of_input) -> tuple[Float[Array, "*b n"], tuple[Float[Array, "*b n"], GRUInfo]]:
    r"""Compute one step of the GRU with the reset gate before the product (Miceli Barone 2018, eq. 2; Cho et al. 2014).

    .. math::
        u = \sigma(x W_u + h U_u + b_u), \quad r = \sigma(x W_r + h U_r + b_r), \\
        m = \tanh(x W_m + (h \odot r) U_m + b_m), \quad h' = (1 - u) \odot m + u \odot h

    Args:
      params: the three gates; every matrix maps row vectors.
      h: state, (batch, n).
      x: input, (batch, m) floats, or (batch,) integers that stand for one-hot vectors.

    Returns:
      h', (y, info): the new state, the output y = h', and the gates.
    """
    u = sigmoid(params.update(x, h))
    r = sigmoid(params.reset(x, h))
    m = tanh(params.candidate(x, h * r))
    return _pass_through(u, r, m, h)


def gru_reset_after(
    params: GRUParams, h: Float[Array, "*b n"], x: type_of_input
) -> tuple[Float[Array, "*b n"], tuple[Float[Array, "*b n"], GRUInfo]]:
    r"""Compute one step of the GRU with the reset gate after the product (Miceli Barone 2016, eq. 7).

    As `gru`, but :math:`m = \tanh(x W_m + b_m + r \odot (h U_m))`; the bias is not reset (dl4mt-lm, small_lm.py). `gru_cudnn` has a second
    bias, which is reset.
    """
    u = sigmoid(params.update(x, h))
    r = sigmoid(params.reset(x, h))
    m = tanh(params.candidate.input.apply(x) + params.candidate.bias.apply(h) + r * params.candidate.recurrent.apply(h))
    return _pass_through(u, r, m, h)


def gru_cudnn(
    params: GRUCuDNNParams, h: Float[Array, "*b n"], x: type_of_input
) -> tuple[Float[Array, "*b n"], tuple[Float[Array, "*b n"], GRUInfo]]:
    r"""Compute one step of the GRU of cuDNN, PyTorch and Flax, whose trained weights it can load.

    As `gru_reset_after`, but :math:`m = \tanh(x W_m + b_m + r \odot (h U_m + c_m))`. The update and reset gates
    have one bias here: the sum of the two in cuDNN and PyTorch.
    """
    u = sigmoid(params.update(x, h))
    r = sigmoid(params.reset(x, h))
    of_state = params.candidate.recurrent.apply(h) + params.candidate.recurrent_bias.apply(h)
    m = tanh(params.candidate.input.apply(x) + params.candidate.bias.apply(h) + r * of_state)
    return _pass_through(u, r, m, h)


def _template(spec: CellSpec) -> PyTree:
    return GRUParams(gate_spec(spec, spec.carry_bias), gate_spec(spec), gate_spec(spec))


def _template_cudnn(spec: CellSpec) -> PyTree:
    two_biases: Any = (*gate_spec(spec), BiasSpec(spec.size))
    return GRUCuDNNParams(gate_spec(spec, spec.carry_bias), gate_spec(spec), CandidateWithTwoBiases(*two_biases))


GRU = Cell(gru, _template)
GRU_RESET_AFTER = Cell(gru_reset_after, _template)
GRU_CUDNN = Cell(gru_cudnn, _template_cudnn)
