"""Highway layers: the passthrough network over depth instead of time. Each layer has its own parameters and sees the state only."""

from collections.abc import Callable
from typing import NamedTuple

import jax
from jax.nn import relu, sigmoid
from jax.numpy import tanh
from jaxtyping import Array, Float, PyTree

from lrpt.cells.cell import CellSpec, StateGate, state_gate_spec
from lrpt.tables import Table

Activation = Callable[[Array], Array]

ACTIVATIONS: Table[Activation] = Table({"relu": relu, "tanh": tanh})
"""Activation functions g of the candidate that the paper names."""


class HighwayParams(NamedTuple):
    """Parameters of one layer: candidate is the paper's proposal pi, transform its tau; the carry gate is 1 - transform."""

    candidate: StateGate
    transform: StateGate


class HighwayInfo(NamedTuple):
    """Gates of one layer, each of shape (batch, n)."""

    candidate: Float[Array, "*b n"]
    transform: Float[Array, "*b n"]


def highway(params: HighwayParams, x: Float[Array, "*b n"], activation: Activation = relu) -> tuple[Float[Array, "*b n"], HighwayInfo]:
    r"""Compute one Highway layer (Srivastava et al. 2015; Miceli Barone 2016, eqs. 2 and 3).

    .. math::
        h = g(x W_\pi + b_\pi), \quad t = \sigma(x W_\tau + b_\tau), \quad y = t \odot h + (1 - t) \odot x

    The matrices may be any operators. An operator with dropout or normalization between x and x W does not act on the x that is passed
    through.

    Args:
      params: candidate and transform gate.
      x: state, (batch, n).
      activation: g.

    Returns:
      y, info: the new state and the gates.
    """
    h, t = activation(params.candidate(x, x)), sigmoid(params.transform(x, x))
    return t * h + (1 - t) * x, HighwayInfo(h, t)


def highway_stack(layers: HighwayParams, x: Float[Array, "*b n"], activation: Activation = relu) -> Float[Array, "*b n"]:
    """Compute the state after all layers.

    Args:
      layers: parameters of T layers of one shape; every leaf has a leading axis T.
      x: state before the first layer, (batch, n).
      activation: g.

    Returns:
      The state after the last layer, (batch, n).
    """
    return jax.lax.scan(lambda x, params: (highway(params, x, activation)[0], None), x, layers)[0]


def highway_template(size: int, transform_bias: float = -1.0) -> PyTree:
    """Return the template of a layer. The transform bias starts below 0, so that an untrained layer mostly carries its input."""
    spec = CellSpec(size, size)
    return HighwayParams(state_gate_spec(spec), state_gate_spec(spec, transform_bias))
