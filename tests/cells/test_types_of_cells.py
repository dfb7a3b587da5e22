"""Every cell with every parametrization, under strict promotion of types: arrays of one type are mixed with no other type.

JAX refuses mixtures when it traces, so nothing is compiled here.
"""

from functools import partial

import jax
import jax.numpy as jnp
import pytest
from table import (
    FAST_CELLS,
    FEW_ROWS,
    KINDS_OF_STATE,
    LAST_PLAIN_ROW,
    ROWS,
    SLOW_ROWS,
    SPEC,
    parameters_module,
    stored_parameters,
    weighted_sum,
    width_of_input,
)

from lrpt.cells import CELLS
from lrpt.recurrence import BY_RULE, Tuning, recur

STEPS, BATCH = 3, 2
TAKEN = {"float32": 4, "bfloat16": 2, "float64": 4}
"""Of how many rows of the table one is taken: in half precision most mixtures with another type show."""
FAST = [
    row
    for row in FEW_ROWS
    if row.cell.startswith(("unitary", "vc")) or row.parametrization in ("circulant", "toeplitz_like", "householder") or row.weight_norm
    if not row.tied
]
"""The matrices and cells that compute in other types than those of their arrays."""
every_row_and_type = pytest.mark.parametrize(
    ("row", "dtype"),
    [
        pytest.param(row, dtype, marks=[] if row in FAST else pytest.mark.slow)
        for dtype in TAKEN
        for row in dict.fromkeys([*FAST, *ROWS[:: TAKEN[dtype]], *SLOW_ROWS[:: 15 * TAKEN[dtype]]])
    ],
    ids=str,
)
LOOPS = {
    "plain": ("plain", BY_RULE, False),
    "checkpoint": ("checkpoint", Tuning(chunk=2), False),
    "fast": ("fast", BY_RULE, False),
    "chunks": ("fast", Tuning(chunk=2, store="boundaries"), False),
    "packed": ("plain", Tuning(pack="always"), True),
    "packed fast": ("fast", Tuning(pack="always"), True),
}


def shapes(row, dtype):
    """Return shapes of the stored parameters, the carry and the inputs."""
    of = partial(jax.ShapeDtypeStruct, dtype=dtype)
    carry = jax.tree.map(lambda width: of((BATCH, width)), CELLS[row.cell].carry(SPEC))
    return jax.tree.map(lambda a: of(a.shape), stored_parameters(row)), carry, of((STEPS, BATCH, width_of_input(row.cell)))


def assert_of_one_type(row, dtype, run):
    """Check that the results of a function of (parameters, carry, xs) and all its gradients have the type of its arguments."""
    _, module = parameters_module(row)

    def loss(stored, carry, xs):
        results = run(module.apply(stored), carry, xs)
        return weighted_sum(results), results

    arguments = shapes(row, dtype)
    with jax.enable_x64(dtype == "float64"), jax.numpy_dtype_promotion("strict"):
        found = jax.eval_shape(jax.value_and_grad(loss, argnums=(0, 1, 2), has_aux=True), *arguments)
    assert {str(leaf.dtype) for leaf in jax.tree.leaves(found)} == {dtype}


@every_row_and_type
def test_a_step_mixes_no_types(row, dtype):
    def step(params, carry, xs):
        carry, (y, _) = CELLS[row.cell].step(params, carry, xs[0])
        return carry, y

    assert_of_one_type(row, dtype, step)


@pytest.mark.parametrize(
    ("row", "loop", "dtype"),
    [
        pytest.param(row, loop, dtype, marks=[] if row.cell == "unitary" and loop == "packed fast" else pytest.mark.slow)
        for row in KINDS_OF_STATE.values()
        for loop in LOOPS
        for dtype in (TAKEN if row.cell == "unitary" and loop == "packed fast" else ["bfloat16"])
    ],
    ids=str,
)
def test_loops_mix_no_types(row, loop, dtype):
    name, tuning, is_masked = LOOPS[loop]
    mask = jnp.arange(STEPS)[:, None] < jnp.array([3, 1])[None] if is_masked else None
    assert_of_one_type(row, dtype, lambda params, carry, xs: recur(CELLS[row.cell].step, params, carry, xs, mask, loop=name, tuning=tuning))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("row", [row for row in LAST_PLAIN_ROW.values() if row.cell in FAST_CELLS], ids=str)
def test_initial_parameters_mix_no_types(row, dtype):
    """All of them have the default type, which is float64 where JAX has 64 bits."""
    _, module = parameters_module(row)
    with jax.enable_x64(dtype == "float64"), jax.numpy_dtype_promotion("strict"):
        found = jax.eval_shape(module.init, jax.random.key(0))
    assert {str(leaf.dtype) for leaf in jax.tree.leaves(found)} == {dtype}
