"""Padding changes nothing, and what the three kinds of output are."""

from functools import partial
from typing import get_args

import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest
from table import BATCH, SIZE, STEPS, Row, assert_close, assert_equal, doubled, every_kind_of_state, network, run, weighted_sum

from lrpt.errors import UsageError
from lrpt.matrices import Dense
from lrpt.recurrence import LOOPS, Outputs, Tuning, recur

# Three lengths, and steps left out in the middle.
MASK = np.array([[1, 1, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0], [1, 0, 0, 0, 0, 0], [0, 1, 0, 1, 1, 0]], bool).T
LAST = [5, 2, 0, 4]


@partial(jax.jit, static_argnames=("cell", "loop"))
def masked(cell, params, carry, xs, mask, loop="plain"):
    """((loss, (last carry, outputs of every step, last outputs)), gradients to params, carry and xs)."""

    def loss(params, carry, xs):
        end, ys = recur(cell.step, params, carry, xs, mask, loop=loop)
        same_end, last = recur(cell.step, params, carry, xs, mask, outputs="last", loop=loop)
        return weighted_sum((end, ys, same_end, last)), (end, same_end, ys, last)

    return jax.value_and_grad(loss, argnums=(0, 1, 2), has_aux=True)(params, carry, xs)


def with_other_padding(xs):
    noise = 3 * np.random.default_rng(3).standard_normal(xs.shape).astype(np.float32)
    return jnp.where(MASK[:, :, None], xs, noise)


@every_kind_of_state
def test_padding_does_not_leak(row):
    net = network(row)
    mask = jnp.asarray(MASK)
    (loss, outputs), (to_params, to_carry, to_xs) = masked(net.cell, net.params, net.carry, net.xs, mask)
    again = masked(net.cell, net.params, net.carry, with_other_padding(net.xs), mask)
    assert_equal(again, ((loss, outputs), (to_params, to_carry, to_xs)))
    assert not np.any(np.asarray(to_xs)[~MASK])
    assert np.all(np.any(np.asarray(to_xs)[MASK], axis=-1))


@every_kind_of_state
def test_masked_outputs_equal_the_float64_loop_over_the_steps_that_count(row):
    net = network(row)
    (_, (end, same_end, ys, last)), _ = masked(net.cell, net.params, net.carry, net.xs, jnp.asarray(MASK))
    assert_close(end, same_end, rtol=1e-6)
    assert not np.any(np.asarray(ys)[~MASK])
    for b in range(BATCH):
        start = jax.tree.map(lambda h, b=b: np.asarray(h[b], np.float64), net.carry)
        expected_end, expected_ys, _ = oracles.loop(oracles.ORACLES[row.cell], net.arrays(), start, net.xs[MASK[:, b], b])
        one = jax.tree.map(lambda h, b=b: h[b], end)
        assert_close((one, ys[MASK[:, b], b], last[b]), (expected_end, expected_ys, expected_ys[-1]), rtol=2e-6, atol=2e-6)
        assert_close(last[b], ys[LAST[b], b], rtol=1e-6)


@pytest.mark.parametrize("loop", LOOPS)
def test_loops_agree_on_masks(loop):
    net = network(Row("gru", "low_rank_plus_diagonal", tied=True))
    actual, expected = (masked(net.cell, net.params, net.carry, net.xs, jnp.asarray(MASK), loop=name) for name in (loop, "plain"))
    assert_close(actual, expected, atol=1e-5)


def test_full_mask_is_no_mask():
    net = network(Row("gru", "low_rank"))
    everything = jnp.ones((STEPS, BATCH), bool)
    for outputs in ("all", "last", "info"):
        run_with = partial(recur, net.cell.step, net.params, net.carry, net.xs, outputs=outputs)
        assert_close(run_with(everything), run_with())


def test_a_row_that_is_all_padding_keeps_its_state_and_has_no_output():
    net = network(Row("gru", "low_rank"))
    nothing = jnp.zeros((STEPS, BATCH), bool)
    for outputs, steps in (("all", (STEPS,)), ("last", ())):
        end, ys = recur(net.cell.step, net.params, net.carry, net.xs, nothing, outputs=outputs)
        assert_equal((end, ys), (net.carry, jnp.zeros((*steps, *net.carry.shape))))


@pytest.mark.parametrize("pack", ["auto", "always"])
@pytest.mark.parametrize(("steps", "rows"), [(0, BATCH), (STEPS, 0), (70, 0)])
def test_a_mask_without_steps_or_rows_leaves_the_state(steps, rows, pack):
    net = network(Row("gru", "low_rank"))
    xs, carry = jnp.zeros((steps, rows, net.xs.shape[-1])), net.carry[:rows]
    end, ys = recur(net.cell.step, net.params, carry, xs, jnp.ones((steps, rows), bool), tuning=Tuning(pack=pack))
    assert_equal((end, ys), (carry, jnp.zeros((steps, *carry.shape))))


def test_kinds_of_output():
    net = network(Row("gru", "low_rank"))
    carry, (ys, info) = run(net.cell, net.params, net.carry, net.xs)
    assert_close(recur(net.cell.step, net.params, net.carry, net.xs), (carry, ys))
    assert_close(recur(net.cell.step, net.params, net.carry, net.xs, outputs="last"), (carry, ys[-1]))
    assert info.update.shape == ys.shape


@pytest.mark.parametrize("mask", [None, jnp.asarray(MASK)], ids=["whole", "masked"])
@pytest.mark.parametrize("outputs", get_args(Outputs))
def test_a_readout_is_applied_to_every_kind_of_output(outputs, mask):
    net, readout = network(Row("gru", "low_rank")), Dense(jnp.arange(2.0 * SIZE).reshape(SIZE, 2))
    run_with = partial(recur, net.cell.step, net.params, net.carry, net.xs, mask, outputs=outputs)
    (end, without), (same_end, found) = run_with(), run_with(readout=readout)
    if outputs == "info":
        (without, info), (found, same_info) = without, found
        assert_close(same_info, info)
    counted = ... if mask is None or outputs == "last" else MASK
    assert_close((same_end, found[counted]), (end, (without @ readout.kernel)[counted]), rtol=1e-6)


@pytest.mark.parametrize("mask", [None, MASK])
def test_last_output_of_a_cell_that_does_not_put_out_a_part_of_its_state(mask):
    net = network(Row("gru", "low_rank"))

    of = partial(recur, params=net.params, carry=net.carry, xs=net.xs, mask=None if mask is None else jnp.asarray(mask), outputs="last")
    (end, last), (same_end, twice) = of(net.cell.step), of(doubled(net.cell.step))
    assert_close((same_end, twice), (end, 2 * last), rtol=1e-6)


def test_masked_gates_are_zero_where_a_step_does_not_count():
    net = network(Row("gru", "low_rank"))
    _, (ys, info) = recur(net.cell.step, net.params, net.carry, net.xs, jnp.asarray(MASK), outputs="info")
    for leaf in (ys, *info):
        assert not np.any(np.asarray(leaf)[~MASK])
        assert np.all(np.asarray(leaf)[MASK])


def test_a_mask_of_other_axes_is_refused():
    net = network(Row("gru", "dense"))
    with pytest.raises(UsageError, match=rf"the mask has shape \({BATCH}, {STEPS}\), .*: give a mask of shape \({STEPS}, {BATCH}\), time"):
        recur(net.cell.step, net.params, net.carry, net.xs, jnp.ones((BATCH, STEPS), bool))


@pytest.mark.parametrize("loop", LOOPS)
def test_nan_in_the_padding_reaches_neither_values_nor_gradients(loop):
    net = network(Row("gru", "low_rank_plus_diagonal"))
    mask = jnp.asarray(MASK)
    dirty = jnp.where(mask[..., None], net.xs, jnp.nan)
    assert_equal(masked(net.cell, net.params, net.carry, dirty, mask, loop), masked(net.cell, net.params, net.carry, net.xs, mask, loop))


@pytest.mark.slow
def test_segments_of_padding_are_left_out():
    """Of 150 steps no row has more than 40: one segment in five is computed, and everything is as if all were."""
    row = Row("gru", "low_rank_plus_diagonal")
    net = network(row)
    xs = jnp.asarray(np.random.default_rng(0).standard_normal((150, BATCH, net.xs.shape[-1])), jnp.float32)
    mask = jnp.asarray(np.arange(150)[:, None] < np.array([[40, 3, 1, 33]]))
    for loop in LOOPS:
        (_, outputs), grads = masked(net.cell, net.params, net.carry, xs, mask, loop)
        (_, short), _ = masked(net.cell, net.params, net.carry, xs[:40], mask[:40], loop)
        (end, same_end, ys, last), (short_end, _, short_ys, short_last) = outputs, short
        assert_close((end, same_end, ys[:40], last), (short_end, short_end, short_ys, short_last), rtol=1e-6)
        assert not np.any(np.asarray(ys)[40:])
        assert not np.any(np.asarray(grads[2])[40:])
