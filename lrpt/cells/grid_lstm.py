"""Grid LSTM in two dimensions: an LSTM along time and one along depth, with common hidden states and separate memories.

The input x is the hidden state h1 of the depth dimension, from the layer below; its memory m1 is zero below the first layer. The state is
that of the time dimension, (m2, h2). The layers of a stack pass on (h1, m1), and the last layer outputs h1 (`lrpt.cells.stacked`, which
also ties layers). All are of width n, and every gate acts on [h1; h2]: by an `input` matrix on h1, by a `recurrent` matrix on h2.

`grid_lstm` follows the equations: both dimensions see the old states. In the original code of the lattice units (chahuja/lru, model.py) the
time dimension sees h1', which is `grid_lstm_depth_first`. That code also feeds m1 of the last layer back into the first one at the same
offset of the next window of a sequence. This is not implemented here.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from lrpt.cells.cell import Cell, CellSpec, Stream, as_wide_as_the_state, check_width, in_group
from lrpt.cells.lstm import LSTM, LSTMCarry, LSTMInfo, LSTMParams, lstm


class GridLSTMParams(NamedTuple):
    """Parameters of the LSTM of each dimension: the paper's W_1 is depth, its W_2 time."""

    depth: LSTMParams
    time: LSTMParams


class GridLSTMInfo(NamedTuple):
    """Gates of both LSTMs in one step."""

    depth: LSTMInfo
    time: LSTMInfo


class DepthStream(NamedTuple):
    """Stream from one layer to the next."""

    h: Float[Array, "*b n"]
    m: Float[Array, "*b n"]


Layer = tuple[LSTMCarry, tuple[DepthStream, GridLSTMInfo]]
Step = tuple[LSTMCarry, tuple[Float[Array, "*b n"], GridLSTMInfo]]
LayerStep = Callable[[GridLSTMParams, LSTMCarry, DepthStream], Layer]


def grid_lstm_layer(params: GridLSTMParams, carry: LSTMCarry, stream: DepthStream) -> Layer:
    r"""Compute one step of one layer (Kalchbrenner et al. 2016; Ahuja and Morency 2018, eqs. 5 and 6). Both dimensions see the old states.

    .. math::
        (h_1', m_1') = LSTM(h_1, h_2, m_1, W_1), \quad (h_2', m_2') = LSTM(h_1, h_2, m_2, W_2)

    where LSTM(h1, h2, m, W) has the gates and the memory of `lrpt.cells.lstm` with x = h1, h = h2 and c = m. Its output is that of the
    usual LSTM, o ⊙ tanh(m'), as in Ahuja and Morency.

    Args:
      params: both LSTMs; every matrix is square and maps row vectors.
      carry: m2 and h2, each (batch, n).
      stream: h1 and m1, each (batch, n).

    Returns:
      carry, (stream, info): the new m2 and h2, h1' and m1', and the gates.
    """
    (m1, h1), (_, depth) = lstm(params.depth, LSTMCarry(stream.m, carry.h), stream.h)
    carry, (_, time) = lstm(params.time, carry, stream.h)
    return carry, (DepthStream(h1, m1), GridLSTMInfo(depth, time))


def grid_lstm_layer_depth_first(params: GridLSTMParams, carry: LSTMCarry, stream: DepthStream) -> Layer:
    """Compute `grid_lstm_layer` with gates of the time dimension that see h1' instead of h1, as in the code of the lattice units."""
    (m1, h1), (_, depth) = lstm(params.depth, LSTMCarry(stream.m, carry.h), stream.h)
    carry, (_, time) = lstm(params.time, carry, h1)
    return carry, (DepthStream(h1, m1), GridLSTMInfo(depth, time))


def grid_lstm_layer_time_first(params: GridLSTMParams, carry: LSTMCarry, stream: DepthStream) -> Layer:
    """Compute `grid_lstm_layer` with gates of the depth dimension that see h2' instead of h2, as in coreylynch/grid-lstm."""
    carry, (_, time) = lstm(params.time, carry, stream.h)
    (m1, h1), (_, depth) = lstm(params.depth, LSTMCarry(stream.m, carry.h), stream.h)
    return carry, (DepthStream(h1, m1), GridLSTMInfo(depth, time))


def grid_lstm(params: GridLSTMParams, carry: LSTMCarry, x: Float[Array, "*b n"]) -> Step:
    """Run `grid_lstm_layer` as a cell: the memory of the depth dimension starts at zero, and y = h1'."""
    return _alone(grid_lstm_layer, params, carry, x)


def grid_lstm_depth_first(params: GridLSTMParams, carry: LSTMCarry, x: Float[Array, "*b n"]) -> Step:
    """Run `grid_lstm_layer_depth_first` as a cell."""
    return _alone(grid_lstm_layer_depth_first, params, carry, x)


def grid_lstm_time_first(params: GridLSTMParams, carry: LSTMCarry, x: Float[Array, "*b n"]) -> Step:
    """Run `grid_lstm_layer_time_first` as a cell."""
    return _alone(grid_lstm_layer_time_first, params, carry, x)


def _alone(layer: LayerStep, params: GridLSTMParams, carry: LSTMCarry, x: Array) -> Step:
    carry, (stream, info) = layer(params, carry, _enter(x))
    return carry, (_leave(stream), info)


def _enter(x: Array) -> DepthStream:
    return DepthStream(x, jnp.zeros_like(x))


def _leave(stream: DepthStream) -> Array:
    return stream.h


def _template(spec: CellSpec) -> PyTree:
    check_width("grid_lstm", spec)
    return GridLSTMParams(*(in_group(LSTM.template(spec), dimension) for dimension in GridLSTMParams._fields))


def _cell(step: Callable[..., Step], layer: LayerStep) -> Cell:
    return Cell(step, _template, LSTM.carry, input_size=as_wide_as_the_state, stream=Stream(layer, _enter, _leave))


GRID_LSTM = _cell(grid_lstm, grid_lstm_layer)
GRID_LSTM_DEPTH_FIRST = _cell(grid_lstm_depth_first, grid_lstm_layer_depth_first)
GRID_LSTM_TIME_FIRST = _cell(grid_lstm_time_first, grid_lstm_layer_time_first)
