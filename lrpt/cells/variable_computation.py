r"""Variable computation: units that decide in each step how many of their dimensions to update (Jernite et al. 2017).

A scheduler maps the state and the input to a share :math:`m = \sigma(u \cdot h + v \cdot x + b)` (eq. 7). The unit updates about the first
m n of its n dimensions. In training it does so by a soft mask (eqs. 8 and 11), for i = 1, ..., n:

.. math::
    e_i = Thres_\epsilon(\sigma(\lambda (m n - i)))

Thres maps values above 1 - epsilon to 1 and values below epsilon to 0. It is constant there, so the scheduler learns only through the
dimensions between: those within ln((1 - epsilon) / epsilon) / lambda of m n. The sharpness lambda is a setting, which training
may change by a schedule: in the paper it is 0.1 in the first epoch and grows by 0.1 in each, up to 1. The paper does not state epsilon;
`EPSILON` makes the band 23 dimensions wide at lambda = 1.

The units are those of `lrpt.cells.elman`, `gru` and `lstm`, and equal them if the mask is one everywhere. The soft mask is not one
everywhere at m = 1: by eq. 8 its last dimension is one half. In the limit of infinite sharpness, eq. 8 updates floor(m n) dimensions, while
the text says ceil(m n). The paper prints no biases of units. Its update gate z lets in the new state; the one here, as in `gru`, passes the
old one on: z = e (1 - u). Inputs are as wide as the state. Matrices may be stored in any way. The vectors u and v are dense, and start
at zero. So does the bias b unless the initialization draws biases. Hence m starts at 1/2.

In eqs. 9 and 13 the paper prints h_t where h_{t-1} is meant, and in eqs. 9 and 12 it prints i for the masked input x.

The scheduler feeds back on itself: m_t depends on h_{t-1}, and that on m_{t-1}, by about
m (1 - m) n u_i (c_i - h_i) with i = m n. Over long windows these factors can multiply to gradients of 1e14 and more. With `cut`, the
scheduler takes the state as a constant. The values are the same, and the gradient has no such product.

`hard_step` updates exactly the first d dimensions, by the upper left d x d blocks of all matrices (section 4.1). `block_step` computes the
same, and takes less time for smaller d.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import pairwise
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.nn import sigmoid
from jax.typing import ArrayLike
from jaxtyping import Array, Float, PyTree

from lrpt.cells.cell import Cell, CellSpec, Gate, Schedule, as_wide_as_the_state, check_width
from lrpt.cells.elman import ELMAN, ElmanParams, elman
from lrpt.cells.gru import GRU, GRUInfo, GRUParams, gru
from lrpt.cells.lstm import LSTM, LSTMCarry, LSTMInfo, LSTMParams, lstm
from lrpt.errors import UsageError, check_choice
from lrpt.matrices import Dense, is_operator, leading_block
from lrpt.precision import at_least_single
from lrpt.pytrees import register_fields
from lrpt.specs import BiasSpec, OperatorSpec, SettingSpec

EPSILON = 1e-5
"""Threshold of the mask. The paper does not publish a value; this one is chosen here."""

ROUNDINGS = {"ceil": jnp.ceil, "floor": jnp.floor}


class VariableParams(NamedTuple):
    """Parameters of a unit and its scheduler; sharpness is the paper's lambda."""

    unit: ElmanParams | GRUParams | LSTMParams
    scheduler: Gate
    sharpness: Float[Array, ""]


class VariableInfo(NamedTuple):
    """Schedule of one step: m, of shape (batch,), the mask e, (batch, n), and the gates of the unit."""

    proportion: Float[Array, "*b"]
    mask: Float[Array, "*b n"]
    unit: Any


VCStep = tuple[Float[Array, "*b n"], tuple[Float[Array, "*b n"], VariableInfo]]


def vcrnn(params: VariableParams, h: Float[Array, "*b n"], x: Float[Array, "*b n"], epsilon: float = EPSILON, cut: bool = False) -> VCStep:
    r"""Compute one step of the VCRNN (Jernite et al. 2017, eqs. 9 and 13).

    .. math::
        h' = e \odot \tanh((e \odot x) W + (e \odot h) U + b) + (1 - e) \odot h

    Args:
      params: unit, scheduler and sharpness; every matrix is square and maps row vectors.
      h: state, (batch, n).
      x: input, (batch, n).
      epsilon: values of the mask below epsilon become 0, values above 1 - epsilon become 1.
      cut: whether the scheduler takes h as a constant, so that no gradient flows from m to earlier steps.

    Returns:
      h', (y, info): the new state, the output y = h', the schedule and the gates.
    """
    return _step("vcrnn", partial(soft_mask, params.sharpness, epsilon), params, h, x, cut)


def vcgru(params: VariableParams, h: Float[Array, "*b n"], x: Float[Array, "*b n"], epsilon: float = EPSILON, cut: bool = False) -> VCStep:
    r"""Compute one step of the VCGRU (Jernite et al. 2017, eqs. 14 to 16); arguments as for `vcrnn`.

    .. math::
        u = \sigma((e \odot x) W_u + (e \odot h) U_u + b_u), \quad r = \sigma((e \odot x) W_r + (e \odot h) U_r + b_r), \\
        c = \tanh((e \odot x) W_c + (r \odot e \odot h) U_c + b_c), \quad z = e \odot (1 - u), \quad h' = z \odot c + (1 - z) \odot h
    """
    return _step("vcgru", partial(soft_mask, params.sharpness, epsilon), params, h, x, cut)


def vclstm(
    params: VariableParams, carry: LSTMCarry, x: Float[Array, "*b n"], epsilon: float = EPSILON, cut: bool = False
) -> tuple[LSTMCarry, tuple[Float[Array, "*b n"], VariableInfo]]:
    r"""Compute one step of a variable computation LSTM, which the paper leaves to future work (section 6); arguments as for `vcrnn`.

    As in the VCGRU, the gates i, f, g and o see the masked input and the masked h, and the mask reaches the state through the gates:

    .. math::
        c' = e \odot i \odot g + (1 - e \odot (1 - f)) \odot c, \quad h' = e \odot o \odot \tanh(c') + (1 - e) \odot h

    The input of the scheduler is h.
    """
    return _step("vclstm", partial(soft_mask, params.sharpness, epsilon), params, carry, x, cut)


def _update_elman(unit: ElmanParams, h: Array, x: Array, e: Array) -> tuple[Array, tuple[()]]:
    h = e * elman(unit, e * h, e * x)[0] + (1 - e) * h
    return h, ()


def _update_gru(unit: GRUParams, h: Array, x: Array, e: Array) -> tuple[Array, GRUInfo]:
    _, (_, gates) = gru(unit, e * h, e * x)
    z = e * (1 - gates.update)
    h = z * gates.candidate + (1 - z) * h
    return h, gates


def _update_lstm(unit: LSTMParams, carry: LSTMCarry, x: Array, e: Array) -> tuple[LSTMCarry, LSTMInfo]:
    _, (_, gates) = lstm(unit, LSTMCarry(carry.c, e * carry.h), e * x)
    c = e * gates.input * gates.candidate + (1 - e * (1 - gates.forget)) * carry.c
    h = e * gates.output * jnp.tanh(c) + (1 - e) * carry.h
    return LSTMCarry(c, h), gates


class _Unit(NamedTuple):
    """A unit under variable computation: its name in `CELLS`, itself, and `update(params, carry, x, mask) -> (carry, gates)`."""

    base: str
    cell: Cell
    update: Callable[..., tuple[Any, Any]]


_UNITS = {
    "vcrnn": _Unit("elman", ELMAN, _update_elman),
    "vcgru": _Unit("gru", GRU, _update_gru),
    "vclstm": _Unit("lstm", LSTM, _update_lstm),
}

BASE = {name: unit.base for name, unit in _UNITS.items()}
"""The unit with constant computation inside each unit with variable computation."""


def soft_mask(sharpness: ArrayLike, epsilon: float, m: Float[Array, "*b 1"], n: int) -> Float[Array, "*b n"]:
    r"""Compute the soft mask (Jernite et al. 2017, eqs. 8 and 11).

    .. math::
        e_i = Thres_\epsilon(\sigma(\lambda (m n - i))), \quad i = 1, \dots, n

    Args:
      sharpness: lambda.
      epsilon: threshold of rounding: values below epsilon become 0, values above 1 - epsilon become 1.
      m: share of the state to update, (..., 1).
      n: size of the state.

    Returns:
      e, (..., n).
    """
    sharpness = sharpness if isinstance(sharpness, int | float) else at_least_single(jnp.asarray(sharpness))
    e = sigmoid(sharpness * (at_least_single(m) * n - _positions(m, n))).astype(m.dtype)
    return jnp.where(e > 1 - epsilon, 1, jnp.where(e < epsilon, 0, e))


def _hard(rounding: str, m: Array, n: int) -> Array:
    return (_positions(m, n) <= ROUNDINGS[rounding](at_least_single(m) * n)).astype(m.dtype)


def _positions(m: Array, n: int) -> Array:
    """Return 1, ..., n in a shape that broadcasts with m, (batch, 1). Bfloat16 would distinguish neighbours only up to 256."""
    return jnp.arange(1, n + 1, dtype=at_least_single(m).dtype).reshape((1,) * (m.ndim - 1) + (n,))


def _schedule(scheduler: Gate, carry: PyTree, x: Array, cut: bool = False) -> Array:
    """Compute m, (batch, 1)."""
    h = _hidden(carry)
    return sigmoid(scheduler(x, lax.stop_gradient(h) if cut else h))


def _hidden(carry: PyTree) -> Array:
    return carry.h if isinstance(carry, LSTMCarry) else carry


def _step(
    name: str, mask: Callable[[Array, int], Array], params: VariableParams, carry: PyTree, x: Array, cut: bool = False
) -> tuple[PyTree, tuple[Array, PyTree]]:
    m = _schedule(params.scheduler, carry, x, cut)
    e = mask(m, x.shape[-1])
    carry, gates = _UNITS[name].update(params.unit, carry, x, e)
    return carry, (_hidden(carry), VariableInfo(m[..., 0], e, gates))


@cache
def hard_step(name: str, rounding: str = "ceil") -> Callable[..., tuple[Any, tuple[Array, VariableInfo]]]:
    """Return the step of a unit that updates exactly its first d dimensions. It is for evaluation: no gradient reaches the scheduler.

    Args:
      name: 'vcrnn', 'vcgru' or 'vclstm'.
      rounding: 'ceil' updates the d = ceil(m n) dimensions of section 4.1, 'floor' updates floor(m n), the limit of eq. 8 for
        infinite sharpness.

    Raises:
      UsageError: another name, or another rounding.

    Returns:
      The function `(params, carry, x) -> (carry, (y, info))`, as with the soft mask, but with a mask of zeros and ones.
    """
    check_choice("the unit with variable computation", name, _UNITS)
    check_choice("rounding", rounding, ROUNDINGS)
    return partial(_step, name, partial(_hard, rounding))


@register_fields
@dataclass(frozen=True, eq=False)
class Blocks:
    """Parameters of a unit, cut to upper left blocks of several sizes.

    Attributes:
      scheduler: the whole scheduler.
      units: the unit's parameters for each size.
      sizes: rows and columns of the blocks, ascending up to n.
    """

    scheduler: Gate
    units: tuple[Any, ...]
    sizes: tuple[int, ...] = field(metadata={"static": True})


def blocks(params: VariableParams, sizes: Sequence[int]) -> Blocks:
    """Cut the matrices of a unit to blocks, once, before the loop over time.

    Args:
      params: parameters of a unit whose matrices can be cut (`lrpt.matrices.leading_block`).
      sizes: sizes of the blocks, ascending, the last one n.

    Raises:
      UsageError: other sizes, or matrices of another kind.
    """
    n = params.scheduler.recurrent.shape[0]  # type: ignore[attr-defined]
    sizes = tuple(sizes)
    if not sizes or sizes[0] < 1 or sizes[-1] != n or any(a >= b for a, b in pairwise(sizes)):
        raise UsageError(f"sizes is {sizes}: give ascending sizes from 1 on, the last one {n}, the width of the state")
    return Blocks(params.scheduler, tuple(_cut(params.unit, size) for size in sizes), sizes)


def _cut(unit: Any, size: int) -> Any:
    return jax.tree.map(partial(leading_block, size=size), unit, is_leaf=is_operator)


@cache
def block_step(name: str, rounding: str) -> Callable[..., tuple[Any, tuple[Array, VariableInfo]]]:
    """Return `hard_step` for one example at a time, with products by the smallest of several blocks that has the d dimensions.

    It computes the values of `hard_step` with the same rounding, in about the time of a unit of that size. Its parameters are `Blocks`,
    which only the plain loop takes.

    Returns:
      The function `(blocks, carry, x) -> (carry, (y, info))` for a batch of one. The info has no gates: their width changes.

    Raises:
      UsageError: another name or rounding; from the function, a batch that is not one.
    """
    check_choice("the unit with variable computation", name, _UNITS)
    check_choice("rounding", rounding, ROUNDINGS)
    return partial(_block_step, _UNITS[name].update, rounding)


def _block_step(update: Any, rounding: str, params: Blocks, carry: PyTree, x: Array) -> tuple[PyTree, tuple[Array, VariableInfo]]:
    if math.prod(x.shape[:-1]) != 1:
        raise UsageError(f"a batch of shape {x.shape[:-1]} was given to a step with blocks: each example needs another, take one at a time")
    m = _schedule(params.scheduler, carry, x)
    mask = _hard(rounding, m, x.shape[-1])

    def branch(unit: Any, size: int, carry: PyTree) -> Any:
        inner, _ = update(unit, jax.tree.map(lambda a: a[..., :size], carry), x[..., :size], mask[..., :size])
        return jax.tree.map(lambda new, old: jnp.concatenate([new, old[..., size:]], axis=-1), inner, carry)

    smallest = jnp.sum(jnp.sum(mask > 0) > jnp.asarray(params.sizes))  # a count of bfloat16 numbers is exact up to 256 only
    carry = lax.switch(smallest, [partial(branch, *block) for block in zip(params.units, params.sizes, strict=True)], carry)
    return carry, (_hidden(carry), VariableInfo(m[..., 0], mask, ()))


def check_epsilon(flag: str, value: float) -> None:
    """Raise a UsageError unless a threshold of the mask is from 0 to below 1/2, where the two thresholds meet."""
    if not 0 <= value < 0.5:
        raise UsageError(f"{flag} is {value}: expected a number from 0 to below 0.5")


@cache
def variable_cell(name: str, epsilon: float = EPSILON, cut: bool = False) -> Cell:
    """Return a unit with variable computation, 'vcrnn', 'vcgru' or 'vclstm'; `epsilon` and `cut` are those of `vcrnn`.

    Raises:
      UsageError: another name, or a threshold outside 0 to 1/2; from the template, inputs that are not as wide as the state.
    """
    check_choice("the unit with variable computation", name, _UNITS)
    check_epsilon("epsilon", epsilon)
    unit, step = _UNITS[name].cell, {"vcrnn": vcrnn, "vcgru": vcgru, "vclstm": vclstm}[name]

    def template(spec: CellSpec) -> PyTree:
        check_width(name, spec)
        vector: Any = OperatorSpec(Dense, (spec.size, 1))
        scheduler = Gate(vector, vector, BiasSpec(1))  # type: ignore[arg-type]
        return VariableParams(unit.template(spec), scheduler, SettingSpec(1.0))  # type: ignore[arg-type]

    step = step if epsilon == EPSILON and not cut else partial(step, epsilon=epsilon, cut=cut)
    return Cell(step, template, unit.carry, input_size=as_wide_as_the_state, schedule=_schedule_of)


def _schedule_of(info: VariableInfo) -> Schedule:
    return Schedule(info.proportion[..., None], jnp.mean(info.mask > 0, axis=-1, keepdims=True, dtype=info.mask.dtype))


UNITS = {name: variable_cell(name) for name in _UNITS}
"""The units of this file by name, with the default threshold and the full gradient."""

VCRNN, VCGRU, VCLSTM = (UNITS[name] for name in ("vcrnn", "vcgru", "vclstm"))
