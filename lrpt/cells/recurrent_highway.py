"""Recurrent highway networks: several Highway layers inside each step. The first layer sees the input."""

from typing import Any, NamedTuple

from jax.nn import sigmoid
from jax.numpy import tanh
from jaxtyping import Array, Float, PyTree

from lrpt.cells.cell import Cell, CellSpec, Gate, StateGate, gate_spec, state_gate_spec
from lrpt.symbols import type_of_input


class RHNLayer(NamedTuple):
    """Parameters of one highway layer whose carry gate is 1 - transform: candidate is the paper's H, transform its T."""

    candidate: Gate | StateGate
    transform: Gate | StateGate


class UncoupledRHNLayer(NamedTuple):
    """Parameters of one highway layer with a carry gate of its own, the paper's C."""

    candidate: Gate | StateGate
    transform: Gate | StateGate
    carry: Gate | StateGate


class RHNInfo(NamedTuple):
    """The gates of one layer in one step, each of shape (batch, n)."""

    candidate: Float[Array, "*b n"]
    transform: Float[Array, "*b n"]
    carry: Float[Array, "*b n"]


def rhn(
    params: tuple[RHNLayer, ...], s: Float[Array, "*b n"], x: type_of_input
) -> tuple[Float[Array, "*b n"], tuple[Float[Array, "*b n"], tuple[RHNInfo, ...]]]:
    r"""Compute one step of a recurrent highway network with coupled gates (Zilly et al. 2017, eqs. 6 to 8, c = 1 - t).

    For l = 1, ..., L:

    .. math::
        h_l = \tanh([l = 1] x W_H + s_{l-1} R_{Hl} + b_{Hl}), \quad t_l = \sigma([l = 1] x W_T + s_{l-1} R_{Tl} + b_{Tl}), \\
        s_l = h_l \odot t_l + s_{l-1} \odot (1 - t_l)

    s_0 is the state before the step, y = s_L the state after it. The biases of the transform gates start at minus the carry bias. If
    matrices are tied, the gates of one layer share a projection R. Each layer has its own, since it sees another state.

    Each layer has one bias for each gate, as in the paper and the authors' TensorFlow code; their Torch code has two in the first layer.
    The TensorFlow code has a carry bias of 2 on the Penn Treebank, and 4 on enwik8 and text8; the paper's main text has none there for the
    Penn Treebank.

    Args:
      params: the layers, first to last. Only the first has input matrices.
      s: state, (batch, n).
      x: input, (batch, m) floats, or (batch,) integers that stand for one-hot vectors.

    Returns:
      s_L, (y, info): the new state, the output y = s_L, and the gates of each layer.
    """
    info = []
    for layer in params:
        h, t = tanh(layer.candidate(x, s)), sigmoid(layer.transform(x, s))
        c = 1 - t
        s = h * t + s * c
        info.append(RHNInfo(h, t, c))
    return s, (s, tuple(info))


def rhn_uncoupled(
    params: tuple[UncoupledRHNLayer, ...], s: Float[Array, "*b n"], x: type_of_input
) -> tuple[Float[Array, "*b n"], tuple[Float[Array, "*b n"], tuple[RHNInfo, ...]]]:
    r"""Compute one step of a recurrent highway network with separate carry gates (Zilly et al. 2017, eqs. 6 to 9).

    As `rhn`, but :math:`s_l = h_l \odot t_l + s_{l-1} \odot c_l` with :math:`c_l = \sigma([l = 1] x W_C + s_{l-1} R_{Cl} + b_{Cl})`. The
    state may grow without bound. The authors ran the coupled form only.
    """
    info = []
    for layer in params:
        h, t, c = tanh(layer.candidate(x, s)), sigmoid(layer.transform(x, s)), sigmoid(layer.carry(x, s))
        s = h * t + s * c
        info.append(RHNInfo(h, t, c))
    return s, (s, tuple(info))


def _gate(spec: CellSpec, layer: int, bias: float = 0.0) -> PyTree:
    """Return the specification of a gate. A gate of the first layer is one linear map of input and state in the code of chahuja/lru."""
    if layer:
        return state_gate_spec(spec, bias, group=str(layer))
    return gate_spec(spec, bias, group="0", fan_in=spec.input_size + spec.size)


def _layers(spec: CellSpec) -> PyTree:
    return tuple(RHNLayer(_gate(spec, i), _gate(spec, i, -spec.carry_bias)) for i in range(spec.depth))


def _uncoupled_layers(spec: CellSpec) -> Any:
    return tuple(
        UncoupledRHNLayer(_gate(spec, i), _gate(spec, i, -spec.carry_bias), _gate(spec, i, spec.carry_bias)) for i in range(spec.depth)
    )


RHN = Cell(rhn, _layers, deep=True)
RHN_UNCOUPLED = Cell(rhn_uncoupled, _uncoupled_layers, deep=True)
