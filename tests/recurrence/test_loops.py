"""Every loop gives the numbers and gradients of the plain one."""

from functools import partial
from inspect import unwrap

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import jaxprs_in_params
from table import (
    BATCH,
    INPUT_SIZE,
    SIZE,
    STEPS,
    Row,
    assert_close,
    doubled,
    every_kind_of_state,
    every_row_and_some_more_slow,
    gradients,
    network,
)

from lrpt.cells import CELLS
from lrpt.errors import UsageError
from lrpt.networks.sequence_model import ModelConfig
from lrpt.recurrence import LOOPS, Tuning, recur

OTHERS = sorted(LOOPS.keys() - {"plain"})


def assert_same(actual, expected, rtol=1e-6):
    """Values to `rtol`, gradients to ten times that of the largest entry of each array."""
    (_, outputs), grads = actual
    (_, expected_outputs), expected_grads = expected
    assert_close(outputs, expected_outputs, rtol=rtol, atol=rtol)
    jax.tree.map(lambda g, e: np.testing.assert_allclose(g, e, rtol=0, atol=10 * rtol * np.abs(e).max()), grads, expected_grads)


@every_row_and_some_more_slow
def test_fast_equals_plain(row):
    """Six steps in chunks of four: one whole, and a rest."""
    net = network(row)
    actual = gradients(net.cell, net.params, net.carry, net.xs, loop="fast", tuning=Tuning(chunk=4))
    rtol = 1e-5 if row.parametrization.startswith("toeplitz_like") else 1e-6  # FFTs in float32
    assert_same(actual, gradients(net.cell, net.params, net.carry, net.xs), rtol)


@every_kind_of_state
def test_checkpoint_equals_plain(row):
    net = network(row)
    actual = gradients(net.cell, net.params, net.carry, net.xs, loop="checkpoint", tuning=Tuning(chunk=4))
    assert_same(actual, gradients(net.cell, net.params, net.carry, net.xs))


@pytest.mark.parametrize("loop", OTHERS)
def test_many_steps(loop):
    """A prime number of them, so that no chunk length divides it."""
    net = network(Row("gru", "low_rank"))
    xs = jnp.asarray(np.random.default_rng(1).standard_normal((67, BATCH, INPUT_SIZE)), jnp.float32)
    actual, expected = (gradients(net.cell, net.params, net.carry, xs, loop=name) for name in (loop, "plain"))
    assert_same(actual, expected)


@pytest.mark.parametrize(("loop", "store"), [("checkpoint", "auto"), ("fast", "all"), ("fast", "boundaries")])
def test_a_chunk_that_is_longer_than_the_sequence_runs_without_jit(loop, store):
    """JAX refuses a scan over no chunks there."""
    net = network(Row("gru", "low_rank"))
    with jax.disable_jit():
        last, outputs = recur(net.cell.step, net.params, net.carry, net.xs, loop=loop, tuning=Tuning(28, store))
    assert_close((last, outputs), recur(net.cell.step, net.params, net.carry, net.xs), rtol=1e-5, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(("loop", "store"), [("checkpoint", "auto"), ("fast", "all"), ("fast", "boundaries")])
@pytest.mark.parametrize("chunk", [1, 3, 5, 6, 7])
def test_chunks_that_divide_that_do_not_and_that_are_longer(chunk, loop, store):
    net = network(Row("gru", "low_rank_plus_diagonal"))
    actual = gradients(net.cell, net.params, net.carry, net.xs, loop=loop, tuning=Tuning(chunk, store))
    assert_same(actual, gradients(net.cell, net.params, net.carry, net.xs))


@pytest.mark.parametrize(
    ("loop", "settings"),
    [
        ("plain", {}),
        ("checkpoint", {"chunk": 4}),
        *(("fast", own) for own in ({"chunk": 1}, {"chunk": 4}, {"chunk": 4, "store": "boundaries"})),
    ],
)
@pytest.mark.parametrize("unroll", [2, 4, 9])
def test_several_steps_in_an_iteration(loop, settings, unroll):
    """Six steps: three iterations, one and a rest, or all in less than one."""
    net = network(Row("gru", "low_rank_plus_diagonal"))
    run = partial(gradients, net.cell, net.params, net.carry, net.xs)
    assert_same(run(loop=loop, tuning=Tuning(**settings, unroll=unroll)), run())


@pytest.mark.parametrize(
    ("loop", "expected"), [("plain", {8: [3, 3]}), ("checkpoint", {2: [1, 1], 4: [3, 3, 3]}), ("fast", {8: [3], 2: [1], 4: [3]})]
)
def test_every_loop_over_steps_has_several_in_an_iteration(loop, expected):
    """Lengths of the scans of a gradient, with their steps in an iteration. Loops over chunks have one."""
    net = network(Row("gru", "low_rank_plus_diagonal"))
    xs = jnp.concatenate([net.xs, net.xs])[:8]
    traced = jax.make_jaxpr(lambda params: gradients(net.cell, params, net.carry, xs, loop=loop, tuning=Tuning(chunk=4, unroll=3)))(
        net.params
    )
    found: dict[int, list[int]] = {}
    for scan in scans(traced.jaxpr):
        found.setdefault(scan.params["length"], []).append(scan.params["unroll"])
    assert found == expected


def scans(jaxpr):
    """Yield all scans of a program."""
    for equation in jaxpr.eqns:
        if equation.primitive.name == "scan":
            yield equation
        for inner in jaxprs_in_params(equation.params):
            yield from scans(inner)


@pytest.mark.parametrize(("backend", "steps"), [("cpu", 1), ("gpu", 8), ("tpu", 1)])
def test_steps_in_an_iteration_by_rule(monkeypatch, backend, steps):
    monkeypatch.setattr(jax, "default_backend", lambda: backend)
    assert Tuning().unrolled == steps
    assert Tuning(unroll=5).unrolled == 5


def test_checkpoint_stores_the_states_between_chunks():
    """Plain stores eight arrays of the width of the state at each of 64 steps. Eight chunks have one state each."""
    net = network(Row("gru", "low_rank"))
    xs = jnp.zeros((64, *net.xs.shape[1:]))

    def stored(loop):
        of = partial(recur, net.cell.step, carry=net.carry, xs=xs, loop=loop, tuning=Tuning(chunk=8))
        residuals = jax.eval_shape(lambda params: jax.vjp(lambda params: of(params=params), params)[1], net.params)
        return sum(leaf.size for leaf in jax.tree.leaves(residuals))

    assert stored("plain") > 6 * 64 * net.carry.size
    assert stored("checkpoint") < stored("plain") / 8


@pytest.mark.parametrize("unroll", [1, 4])
@pytest.mark.parametrize("loop", LOOPS)
def test_no_steps_leave_the_state(loop, unroll):
    net = network(Row("gru", "low_rank"))
    carry, ys = recur(net.cell.step, net.params, net.carry, net.xs[:0], loop=loop, tuning=Tuning(unroll=unroll))
    np.testing.assert_array_equal(carry, net.carry)
    assert ys.shape == (0, *net.carry.shape)


@pytest.mark.parametrize("masked", [False, True])
def test_an_output_that_is_a_part_of_the_state_is_carried_once(masked):
    net = network(Row("lstm", "low_rank"))

    for step, carried in ((net.cell.step, 2), (doubled(net.cell.step), 3)):
        of = partial(recur, step, net.params, xs=net.xs, mask=jnp.ones((STEPS, BATCH), bool) if masked else None, outputs="last")
        (scan,) = scans(jax.make_jaxpr(lambda carry, of=of: of(carry=carry))(net.carry).jaxpr)
        assert len(scan.outvars) == carried, "without outputs of all steps, a scan returns what it carries"


def test_unknown_loop_names_the_known_ones():
    with pytest.raises(UsageError, match=r"model\.loop\.kind is 'while': choose from .*plain"):
        ModelConfig(recurrence="while")


@pytest.mark.slow
@pytest.mark.parametrize("loop", LOOPS)
def test_two_halves_with_carried_state_equal_one_whole(loop):
    net = network(Row("gru", "low_rank_plus_diagonal"))
    carry, ys = recur(CELLS["gru"].step, net.params, net.carry, net.xs, loop=loop)
    middle, first = recur(net.cell.step, net.params, net.carry, net.xs[:3], loop=loop)
    end, second = recur(net.cell.step, net.params, middle, net.xs[3:], loop=loop)
    assert_close((end, jnp.concatenate([first, second])), (carry, ys))


def test_names_that_are_no_loop_or_outputs_are_refused():
    net = network(Row("gru", "dense"))
    with pytest.raises(UsageError, match="loop is 'quick': choose from fast, plain, checkpoint, kernel"):
        recur(net.cell.step, net.params, net.carry, net.xs, loop="quick")
    with pytest.raises(UsageError, match="outputs is 'lst': choose from all, last, info"):
        unwrap(recur)(net.cell.step, net.params, net.carry, net.xs, outputs="lst")


def test_sequences_without_the_step_that_is_needed_are_refused():
    net = network(Row("gru", "dense"))
    with pytest.raises(UsageError, match="so there is no last step: give one step or more"):
        recur(net.cell.step, net.params, net.carry, net.xs[:0], outputs="last")
    assert recur(net.cell.step, net.params, net.carry, net.xs[:0])[1].shape == (0, *net.carry.shape)


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("masked", [False, True])
def test_a_batch_may_be_empty(loop, masked):
    net = network(Row("gru", "dense"))
    mask = jnp.ones((STEPS, 0), bool) if masked else None

    def total(params):
        last, ys = recur(net.cell.step, params, net.carry[:0], net.xs[:, :0], mask, loop=loop)
        assert (last.shape, ys.shape) == ((0, SIZE), (STEPS, 0, SIZE))
        return jnp.sum(last) + jnp.sum(ys)

    assert not any(jnp.any(gradient) for gradient in jax.tree.leaves(jax.grad(total)(net.params)))


@pytest.mark.parametrize("loop", LOOPS)
def test_a_step_that_returns_no_info_is_refused_even_with_two_rows(loop):
    with pytest.raises(
        UsageError, match=r"the step of a cell returned \(float32 \(2, 3\), float32 \(2, 3\)\): return \(carry, \(y, info\)\)"
    ):
        recur(lambda params, h, x: (h + x, h), None, jnp.zeros((2, 3)), jnp.ones((4, 2, 3)), loop=loop)


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("masked", [False, True])
def test_the_last_output_may_be_several_arrays_or_none(loop, masked):
    def step(of_states, _, states, x):
        c, h = states = states[0] + x, jnp.tanh(states[1] + x)
        return states, (of_states(c, h), None)

    xs, carry = jnp.arange(24.0).reshape(4, 3, 2) / 24, (jnp.ones((3, 2)), jnp.ones((3, 2)))
    mask = jnp.arange(4)[:, None] < jnp.array([[4, 2, 1]]) if masked else None
    for of_states in (lambda c, h: (c, h), lambda c, h: {"twice": 2 * h, "c": c}, lambda c, h: None):
        end, last = recur(partial(step, of_states), None, carry, xs, mask, outputs="last", loop=loop)
        assert_close(last, of_states(*end))
