"""The simple recurrent network: no gate, no passthrough."""

from typing import NamedTuple

from jax.numpy import tanh
from jaxtyping import Array, Float, PyTree

from lrpt.cells.cell import Cell, CellSpec, Gate, gate_spec
from lrpt.symbols import type_of_input


class ElmanParams(NamedTuple):
    """Parameters of a simple recurrent network."""

    candidate: Gate


def elman(
    params: ElmanParams, h: Float[Array, "*b n"], x: type_of_input
) -> tuple[Float[Array, "*b n"], tuple[Float[Array, "*b n"], tuple[()]]]:
    r"""Compute one step of a simple recurrent network (Elman 1990; Jernite et al. 2017, eq. 3, without bias there).

    .. math::
        h' = \tanh(x W + h U + b)

    Args:
      params: its one affine function; every matrix maps row vectors.
      h: state, (batch, n).
      x: input, (batch, m) floats, or (batch,) integers that stand for one-hot vectors.

    Returns:
      h', (y, ()): the new state and the output y = h'. The cell has no gates.
    """
    h = tanh(params.candidate(x, h))
    return h, (h, ())


def _template(spec: CellSpec) -> PyTree:
    return ElmanParams(gate_spec(spec))


ELMAN = Cell(elman, _template)
