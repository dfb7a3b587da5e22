"""Lattice recurrent units (not the linear recurrent unit): a state through time and a stream through the layers, each with its own gates.

The input x of these cells is the stream h1 that comes from the layer below, or the embedded symbol; their state is h2; their output y is
the stream h1' for the layer above (`lrpt.cells.stacked`). All are of width n. Each gate is an affine function of [h1; h2]: the part of h1
is its `input` matrix, the part of h2 its `recurrent` matrix. The paper leaves out biases for brevity. The original code (chahuja/lru,
model.py) has one for each gate and projected state, as here.

The update gates of the paper keep the old state in PS-LRU and RG-LRU (eqs. 9 and 10), and let in the new one in LRU (eqs. 17 and 18). The
original code lets in the new one in all three: `lru_ps_code` and `lru_rg_code`. They are the same functions if the signs of the
gate's parameters are flipped.
"""

from types import FunctionType
from typing import NamedTuple

from jax.nn import sigmoid
from jax.numpy import tanh
from jaxtyping import Array, Float, PyTree

from lrpt.cells.cell import Cell, CellSpec, Gate, as_wide_as_the_state, check_width, gate_spec


class PSLRUParams(NamedTuple):
    """Parameters of a PS-LRU: two projected states (the paper's h-hat), which share one update gate z and one reset gate r."""

    update: Gate
    reset: Gate
    projected_1: Gate
    projected_2: Gate


class RGLRUParams(NamedTuple):
    """Parameters of an RG-LRU, with reset gates r_1 of h1 and r_2 of h2."""

    update: Gate
    reset_1: Gate
    reset_2: Gate
    projected_1: Gate
    projected_2: Gate


class LRUParams(NamedTuple):
    """Parameters of an LRU, with update gates z_1 of h1 and z_2 of h2, and reset gates r_1 and r_2."""

    update_1: Gate
    update_2: Gate
    reset_1: Gate
    reset_2: Gate
    projected_1: Gate
    projected_2: Gate


Params = PSLRUParams | RGLRUParams | LRUParams


class PSLRUInfo(NamedTuple):
    """The gates of one step, each of shape (batch, n)."""

    update: Float[Array, "*b n"]
    reset: Float[Array, "*b n"]
    projected_1: Float[Array, "*b n"]
    projected_2: Float[Array, "*b n"]


class RGLRUInfo(NamedTuple):
    """The gates of one step, each of shape (batch, n)."""

    update: Float[Array, "*b n"]
    reset_1: Float[Array, "*b n"]
    reset_2: Float[Array, "*b n"]
    projected_1: Float[Array, "*b n"]
    projected_2: Float[Array, "*b n"]


class LRUInfo(NamedTuple):
    """The gates of one step, each of shape (batch, n)."""

    update_1: Float[Array, "*b n"]
    update_2: Float[Array, "*b n"]
    reset_1: Float[Array, "*b n"]
    reset_2: Float[Array, "*b n"]
    projected_1: Float[Array, "*b n"]
    projected_2: Float[Array, "*b n"]


def lru_ps(
    params: PSLRUParams, h2: Float[Array, "*b n"], h1: Float[Array, "*b n"]
) -> tuple[Float[Array, "*b n"], tuple[Float[Array, "*b n"], PSLRUInfo]]:
    r"""Compute one step of the projected state LRU (Ahuja and Morency 2018, eqs. 1, 2 and 7 to 10).

    .. math::
        z = \sigma(h_1 W_z + h_2 U_z + b_z), \quad r = \sigma(h_1 W_r + h_2 U_r + b_r), \\
        \hat h_1 = \tanh(h_1 W_1 + (r \odot h_2) U_1 + b_1), \quad \hat h_2 = \tanh((r \odot h_1) W_2 + h_2 U_2 + b_2), \\
        h_1' = z \odot h_1 + (1 - z) \odot \hat h_2, \quad h_2' = z \odot h_2 + (1 - z) \odot \hat h_1

    Args:
      params: the gates; every matrix is square and maps row vectors.
      h2: state, (batch, n).
      h1: input, (batch, n).

    Returns:
      h2', (y, info): the new state, the output y = h1', and the gates.
    """
    z, r = (sigmoid(gate(h1, h2)) for gate in (params.update, params.reset))
    p1, p2 = _projected(params, h1, h2, r, r)
    return z * h2 + (1 - z) * p1, (z * h1 + (1 - z) * p2, PSLRUInfo(z, r, p1, p2))


def lru_ps_code(
    params: PSLRUParams, h2: Float[Array, "*b n"], h1: Float[Array, "*b n"]
) -> tuple[Float[Array, "*b n"], tuple[Float[Array, "*b n"], PSLRUInfo]]:
    r"""Compute `lru_ps` with the update gate of the original code: :math:`h_1' = z \odot \hat h_2 + (1 - z) \odot h_1`, and h2 alike."""
    z, r = (sigmoid(gate(h1, h2)) for gate in (params.update, params.reset))
    p1, p2 = _projected(params, h1, h2, r, r)
    return z * p1 + (1 - z) * h2, (z * p2 + (1 - z) * h1, PSLRUInfo(z, r, p1, p2))


def lru_rg(
    params: RGLRUParams, h2: Float[Array, "*b n"], h1: Float[Array, "*b n"]
) -> tuple[Float[Array, "*b n"], tuple[Float[Array, "*b n"], RGLRUInfo]]:
    r"""Compute one step of the reset gate LRU (Ahuja and Morency 2018, eqs. 1 and 9 to 14).

    .. math::
        z = \sigma(h_1 W_z + h_2 U_z + b_z), \quad r_k = \sigma(h_1 W_{rk} + h_2 U_{rk} + b_{rk}), \quad k = 1, 2, \\
        \hat h_1 = \tanh(h_1 W_1 + (r_2 \odot h_2) U_1 + b_1), \quad \hat h_2 = \tanh((r_1 \odot h_1) W_2 + h_2 U_2 + b_2), \\
        h_1' = z \odot h_1 + (1 - z) \odot \hat h_2, \quad h_2' = z \odot h_2 + (1 - z) \odot \hat h_1

    Arguments and results are those of `lru_ps`.
    """
    z, r1, r2 = (sigmoid(gate(h1, h2)) for gate in (params.update, params.reset_1, params.reset_2))
    p1, p2 = _projected(params, h1, h2, r1, r2)
    return z * h2 + (1 - z) * p1, (z * h1 + (1 - z) * p2, RGLRUInfo(z, r1, r2, p1, p2))


def lru_rg_code(
    params: RGLRUParams, h2: Float[Array, "*b n"], h1: Float[Array, "*b n"]
) -> tuple[Float[Array, "*b n"], tuple[Float[Array, "*b n"], RGLRUInfo]]:
    r"""Compute `lru_rg` with the update gate of the original code: :math:`h_1' = z \odot \hat h_2 + (1 - z) \odot h_1`, and h2 alike."""
    z, r1, r2 = (sigmoid(gate(h1, h2)) for gate in (params.update, params.reset_1, params.reset_2))
    p1, p2 = _projected(params, h1, h2, r1, r2)
    return z * p1 + (1 - z) * h2, (z * p2 + (1 - z) * h1, RGLRUInfo(z, r1, r2, p1, p2))


def lru(
    params: LRUParams, h2: Float[Array, "*b n"], h1: Float[Array, "*b n"]
) -> tuple[Float[Array, "*b n"], tuple[Float[Array, "*b n"], LRUInfo]]:
    r"""Compute one step of the lattice recurrent unit, also called update gate LRU (Ahuja and Morency 2018, eqs. 11 to 18).

    .. math::
        z_k = \sigma(h_1 W_{zk} + h_2 U_{zk} + b_{zk}), \quad r_k = \sigma(h_1 W_{rk} + h_2 U_{rk} + b_{rk}), \quad k = 1, 2, \\
        \hat h_1 = \tanh(h_1 W_1 + (r_2 \odot h_2) U_1 + b_1), \quad \hat h_2 = \tanh((r_1 \odot h_1) W_2 + h_2 U_2 + b_2), \\
        h_1' = z_1 \odot \hat h_2 + (1 - z_1) \odot h_1, \quad h_2' = z_2 \odot \hat h_1 + (1 - z_2) \odot h_2

    Arguments and results are those of `lru_ps`.
    """
    z1, z2, r1, r2 = (sigmoid(gate(h1, h2)) for gate in (params.update_1, params.update_2, params.reset_1, params.reset_2))
    p1, p2 = _projected(params, h1, h2, r1, r2)
    return z2 * p1 + (1 - z2) * h2, (z1 * p2 + (1 - z1) * h1, LRUInfo(z1, z2, r1, r2, p1, p2))


def _projected(params: Params, h1: Array, h2: Array, r1: Array, r2: Array) -> tuple[Array, Array]:
    """Compute the projected states of eqs. 13 and 14, which are those of eqs. 7 and 8 if both reset gates are the same."""
    return tanh(params.projected_1(h1, r2 * h2)), tanh(params.projected_2(r1 * h1, h2))


def _cell(step: FunctionType, params: type[Params], sign: int) -> Cell:
    """Return a cell whose update biases are initialized to `sign` times the carry bias."""

    def template(spec: CellSpec) -> PyTree:
        check_width(step.__name__, spec)
        return params(*(gate_spec(spec, sign * spec.carry_bias * name.startswith("update")) for name in params._fields))

    return Cell(step, template, input_size=as_wide_as_the_state)


LRU_PS = _cell(lru_ps, PSLRUParams, 1)
LRU_PS_CODE = _cell(lru_ps_code, PSLRUParams, -1)
LRU_RG = _cell(lru_rg, RGLRUParams, 1)
LRU_RG_CODE = _cell(lru_rg_code, RGLRUParams, -1)
LRU = _cell(lru, LRUParams, -1)
