"""Measured time of variable computation, for one example at a time."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from lrpt.analysis.timing import in_turns
from lrpt.cells import CELLS, VariableParams, block_step, blocks, variable_cell
from lrpt.cells.variable_computation import BASE, EPSILON, ROUNDINGS
from lrpt.matrices import Bias, Dense
from lrpt.networks.operations import multiplications
from lrpt.recurrence import recur


class Timing(NamedTuple):
    """Timing of one cell.

    Attributes:
      name: 'unit' or 'unit of equal operations' (the usual cells), 'masked' (the cell with a mask and all products), 'blocks, m = 0.25' or
        'blocks, as trained' (the same cell computed by blocks).
      proportion: mean m, None for the usual cells.
      multiplications: multiplications of a mean step inside matrices. With blocks, those of the first d dimensions count, where d is m n,
        rounded as the hard mask does.
      microseconds: time per step in microseconds, one value for each round.
    """

    name: str
    proportion: float | None
    multiplications: float
    microseconds: tuple[float, ...]


def block_sizes(n: int, count: int) -> tuple[int, ...]:
    """Return about `count` block sizes, evenly spaced up to n."""
    return tuple(sorted({-(-n * k // count) for k in range(1, count + 1)}))


def at_constant_schedule(params: VariableParams, m: float, rounding: str = "ceil") -> VariableParams:
    """Replace the scheduler of a unit by one whose hard mask always has the dimensions of m.

    The scheduler's own value is in the middle of those with this mask, since that of m itself may be rounded to the other side of m n.
    """
    n = params.scheduler.recurrent.shape[0]  # type: ignore[attr-defined]
    nothing = Dense(jnp.zeros((n, 1)))
    dimensions = float(ROUNDINGS[rounding](round(m * n, 6)))
    middle = (dimensions + (0.5 if rounding == "floor" else -0.5)) / n
    # The logistic function of 40 is 1 in single precision.
    bias = Bias(jnp.full(1, np.log(middle / (1 - middle)) if middle < 1 else 40.0, jnp.float32))
    return params._replace(scheduler=params.scheduler._replace(input=nothing, recurrent=nothing, bias=bias))


def time_steps(
    cell: str,
    params: VariableParams,
    carry: PyTree,
    xs: Float[Array, "t 1 n"],
    proportions: tuple[float, ...],
    *,
    rounding: str = "ceil",
    epsilon: float = EPSILON,
    count: int = 8,
    rounds: int = 9,
) -> list[Timing]:
    """Time the usual cells, the cell with a mask and all products, and the same cell computed by blocks.

    Blocks are timed with constant schedules and with the trained schedule. The usual cells have constant computation. One has the full
    size, the other the size with as many multiplications as the trained schedule.

    Each runs the whole sequence in one compiled loop. They take turns, so that ratios hold under a changing load of the machine.

    Args:
      cell: 'vcrnn', 'vcgru' or 'vclstm'.
      params: the parameters of one layer.
      carry: the state before the first step, with one row.
      xs: inputs.
      proportions: m of the constant schedules.
      rounding: rounding of the network's hard mask, which the blocks compute.
      epsilon: threshold of the network's soft mask, with which the cell with all products is computed.
      count: number of block sizes.
      rounds: number of turns of each.
    """
    n = xs.shape[-1]
    sizes, by_blocks = block_sizes(n, count), _loop(block_step(cell, rounding))
    constant = {f"blocks, m = {m:g}": m for m in proportions}
    cut = {name: blocks(at_constant_schedule(params, m, rounding), sizes) for name, m in constant.items()}
    cut["blocks, as trained"] = blocks(params, sizes)
    contenders: dict[str, Callable[[], Any]] = {
        "unit": partial(_loop(CELLS[BASE[cell]].step), params.unit, carry, xs),
        "masked": partial(_loop(variable_cell(cell, epsilon).step), params, carry, xs),
        **{name: partial(by_blocks, own, carry, xs) for name, own in cut.items()},
    }
    found = {name: np.asarray(run()[1]) for name, run in contenders.items()}  # compiles
    updated = {name: np.asarray(ROUNDINGS[rounding](m * n)) / n for name, m in found.items() if name.startswith("blocks")}
    counted = {name: float(np.mean(multiplications(params, share))) for name, share in {"masked": 1.0, **updated}.items()}
    small, *inputs = _of_equal_operations(params, carry, xs, updated["blocks, as trained"])
    contenders["unit of equal operations"] = partial(_loop(CELLS[BASE[cell]].step), small, *inputs)
    contenders["unit of equal operations"]()  # compiles
    counted |= {"unit": float(multiplications(params.unit)), "unit of equal operations": float(multiplications(small))}
    times = in_turns(contenders, rounds)
    means = {name: float(np.mean(m)) for name, m in found.items() if name != "unit"} | constant
    return [Timing(name, means.get(name), counted[name], tuple(1e6 * seconds / len(xs) for seconds in times[name])) for name in contenders]


def _of_equal_operations(
    params: VariableParams, carry: PyTree, xs: Array, updated: Float[np.ndarray, "..."]
) -> tuple[PyTree, PyTree, Array]:
    """Cut a unit, its state and its inputs to the size d whose square is the mean square of the updated dimensions."""
    n = xs.shape[-1]
    d = max(1, round(float(np.sqrt(np.mean((updated * n) ** 2)))))
    unit = blocks(params, sorted({d, n})).units[0]
    return unit, jax.tree.map(lambda a: a[..., :d], carry), xs[..., :d]


def _loop(step: Any) -> Any:
    """Compile a loop over all steps that returns the last output, and m of each step."""

    @jax.jit
    def run(params: PyTree, carry: PyTree, xs: Array) -> tuple[Array, Array]:
        def body(params: PyTree, carry: PyTree, x: Array) -> Any:
            carry, (y, info) = step(params, carry, x)
            return carry, (y, (y, getattr(info, "proportion", jnp.ones(1, x.dtype))))

        _, (_, (ys, m)) = recur(body, params, carry, xs, outputs="info")
        return ys[-1], m

    return run
