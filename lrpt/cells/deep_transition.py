"""Deep transition networks: several layers without gates inside each step. The first layer sees the input."""

from typing import Any, NamedTuple

from jax.numpy import tanh
from jaxtyping import Array, Float, PyTree

from lrpt.cells.cell import Cell, CellSpec, Gate, StateGate, gate_spec, state_gate_spec
from lrpt.matrices import Operator
from lrpt.specs import MatrixSpec
from lrpt.symbols import type_of_input


class TransitionLayer(NamedTuple):
    """Parameters of one layer of the transition."""

    candidate: Gate | StateGate


class ShortcutLayer(NamedTuple):
    """Parameters of one layer with a shortcut: a matrix for the state before the step."""

    candidate: StateGate
    shortcut: Operator


class TransitionInfo(NamedTuple):
    """Output of one layer in one step, (batch, n)."""

    candidate: Float[Array, "*b n"]


def dt_rnn(
    params: tuple[TransitionLayer, ...], h: Float[Array, "*b n"], x: type_of_input
) -> tuple[Float[Array, "*b n"], tuple[Float[Array, "*b n"], tuple[TransitionInfo, ...]]]:
    r"""Compute one step of a deep transition RNN (Pascanu et al. 2014, DT-RNN), for l = 1, ..., L.

    .. math::
        z_l = \tanh([l = 1] x W + z_{l-1} U_l + b_l), \quad z_0 = h, \quad h' = z_L

    One layer is an Elman network. The nonlinearity is that of recurrent highway networks (Zilly et al. 2017, eq. 7), with which this
    network is compared there; the main text of that paper (section 5.1) does not say which one it has for this network. The tutorial of
    Pascanu et al. has sigmoids, and feeds x to every layer (GroundHog, `DT_RNN_Tut.py`; the layer of these equations is its
    `RecurrentMultiLayer`). If matrices are tied, every layer has its own projection R, since it sees another state.

    Args:
      params: the layers, first to last. Only the first has an input matrix.
      h: state, (batch, n).
      x: input, (batch, m) floats, or (batch,) integers that stand for one-hot vectors.

    Returns:
      h', (y, info): the new state, the output y = h', and z_l of each layer.
    """
    info = []
    for layer in params:
        h = tanh(layer.candidate(x, h))
        info.append(TransitionInfo(h))
    return h, (h, tuple(info))


def dts_rnn(
    params: tuple[TransitionLayer | ShortcutLayer, ...], h: Float[Array, "*b n"], x: type_of_input
) -> tuple[Float[Array, "*b n"], tuple[Float[Array, "*b n"], tuple[TransitionInfo, ...]]]:
    r"""Compute one step of a deep transition RNN with shortcuts (Pascanu et al. 2014, DT(S)-RNN).

    As `dt_rnn`, but :math:`z_l = \tanh(z_{l-1} U_l + h S_l + b_l)` for l > 1, with dense learned matrices S_l, as in GroundHog's
    `RecurrentMultiLayerShortPath`; they are not identities. If matrices are tied, U_1 and all S_l share one projection R, since they see
    the same state.
    """
    z, info = h, []
    for layer in params:
        a = layer.candidate(x, z)
        z = tanh(a + layer.shortcut.apply(h) if isinstance(layer, ShortcutLayer) else a)
        info.append(TransitionInfo(z))
    return z, (z, tuple(info))


def _layers(spec: CellSpec) -> PyTree:
    first = TransitionLayer(gate_spec(spec, group="0"))
    return first, *(TransitionLayer(state_gate_spec(spec, group=str(i))) for i in range(1, spec.depth))


def _layers_with_shortcuts(spec: CellSpec) -> PyTree:
    first, *rest = _layers(spec)
    shortcut: Any = MatrixSpec(spec.size, spec.size, "recurrent", "0")
    return first, *(ShortcutLayer(layer.candidate, shortcut) for layer in rest)


DT_RNN = Cell(dt_rnn, _layers, deep=True)
DTS_RNN = Cell(dts_rnn, _layers_with_shortcuts, deep=True)
