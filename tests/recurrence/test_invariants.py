"""The invariants of the fast loop, one test for each line of the list in docs/fast_loop.md."""

import gc
import re
from dataclasses import dataclass
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from table import assert_close

from lrpt.matrices import Bias, Composite, Dense, LowRank
from lrpt.pytrees import register_fields
from lrpt.recurrence import LOOPS, Tuning, fast, recur, residuals
from lrpt.recurrence.dependence import depends
from lrpt.recurrence.interception import Replay, Survey, replayed, trace_calls
from lrpt.recurrence.leaves import Leaves, NotApplied, distinct
from lrpt.recurrence.linearize import LinearStep, Wanted
from lrpt.recurrence.residuals import LONGEST

SIZE, BATCH, STEPS = 4, 3, 5


def normal(*shape, seed=0):
    return jnp.asarray(np.random.default_rng(seed).standard_normal(shape), jnp.float32)


def two_gates(params, h, x):
    """The cell of docs/fast_loop.md."""
    update, candidate, bias = params
    u = jax.nn.sigmoid(update.apply(h) + bias.apply(h) + x)
    m = jnp.tanh(candidate.apply(h) + x)
    return (1 - u) * m + u * h, None


def parameters():
    right = normal(2, SIZE, seed=1)
    return LowRank(normal(2, SIZE, seed=2), right), LowRank(normal(2, SIZE, seed=3), right), Bias(normal(SIZE, seed=4))


CARRY, XS = normal(BATCH, SIZE, seed=5), normal(STEPS, BATCH, SIZE, seed=6)


def linear_step():
    params = parameters()
    calls = trace_calls(two_gates, params, CARRY, XS[0])
    return LinearStep(two_gates, calls, distinct(params), CARRY, XS[0], Wanted(inputs=False)), calls


def test_every_test_of_the_list_is_here():
    text = (Path(__file__).parents[2] / "docs" / "fast_loop.md").read_text()
    named = set(re.findall(r"`(test_\w+)`", text))
    named -= {"test_memory_of_a_training_step"}  # of test_fast.py
    assert named
    assert named <= set(globals()), f"docs/fast_loop.md names {named - set(globals())}"


def test_the_worked_example_is_true():
    """The shared R is applied once, so five calls of parts need four products. Two of them have one output cotangent."""
    linear, calls = linear_step()
    assert [number for number, _ in calls.pieces] == [0, 1, 2, 3]
    assert [output.shape for output in calls.outputs] == [(BATCH, 2), (BATCH, SIZE), (BATCH, SIZE), (BATCH, SIZE)]
    assert calls.kept == [0]
    kept = jax.tree.map(lambda k: jnp.zeros(k.shape, k.dtype), calls.kept_outputs())
    varying, _ = linear.recompute(CARRY, XS[0], kept)
    assert linear.equal_cotangents(varying, linear.fixed_residuals(CARRY, XS[0], kept), ([CARRY], [])) == [0, 1, 1, 3]


@pytest.mark.slow
def test_inputs_are_compared_by_identity_and_kept_alive():
    """An array that nobody else holds leaves its identity to the next one, whose product would then be that of the first."""
    matrix = Dense(normal(SIZE, SIZE))
    arrays, _ = distinct(matrix)
    survey = Survey(arrays, arrays)
    for k in range(20):
        v = np.full((1, SIZE), float(k), np.float32)  # NumPy arrays, whose memory is reused at once
        np.testing.assert_allclose(survey.call(matrix, v), v @ matrix.kernel, rtol=1e-5)
        del v
        gc.collect()
    assert len(survey.calls().products) == 20


def impure(matrices_of_trace):
    """A cell that calls other matrices each time that it is traced."""
    traces = iter(matrices_of_trace)

    def step(params, h, _):
        for name in next(traces):
            h = jnp.tanh(params[name].apply(h))
        return h, None

    return step


@pytest.mark.parametrize(("first", "second", "difference"), [("a", "b", "other"), ("a", "aa", "more"), ("ab", "a", "fewer")])
def test_a_cell_that_is_not_pure_is_refused(first, second, difference):
    params = {"a": Dense(normal(SIZE, SIZE)), "b": Dense(normal(SIZE, SIZE, seed=1))}
    with pytest.raises(RuntimeError, match=f"a cell made {difference} matrix calls than when it was traced before"):
        fast(impure([first, second]), params, CARRY, XS)


def test_a_replay_serves_one_trace():
    params = parameters()
    arrays, _ = distinct(params)
    calls, leaves = trace_calls(two_gates, params, CARRY, XS[0]), Leaves.of(params)
    replay = Replay(calls, calls.operators(arrays), arrays)
    replay.finish(two_gates(replay.intercepted(leaves, leaves.raw()), CARRY, XS[0]))
    with pytest.raises(RuntimeError, match="more matrix calls"):
        two_gates(replay.intercepted(leaves, leaves.raw()), CARRY + 1, XS[0])


def test_a_factor_that_is_read_is_refused():
    with pytest.raises(NotApplied, match=r"read \.right of a LowRank matrix"):
        fast(lambda p, h, x: (jnp.tanh(h @ p.right.T @ p.left), None), parameters()[0], CARRY, XS)


def test_parts_of_an_operator_hold_its_arrays():
    @register_fields
    @dataclass(frozen=True)
    class Doubled(Composite):
        kernel: jax.Array

        def apply_by(self, call, v):
            return call(Dense(2 * self.kernel), v)

    def step(matrix, h, x):
        return jnp.tanh(matrix.apply(h)), None

    matrix = Doubled(normal(SIZE, SIZE))
    LOOPS["plain"](step, matrix, CARRY, XS)
    with pytest.raises(TypeError, match="calls a Dense with arrays that the matrix does not store"):
        fast(step, matrix, CARRY, XS)


@pytest.mark.parametrize("kind", ["threefry2x32", "rbg", "unsafe_rbg"])
@pytest.mark.parametrize("store", ["all", "boundaries"])
def test_random_numbers_of_every_kind_of_key(kind, store):
    """The backward pass draws the masks of the forward pass again: a batch of steps would draw others from keys of kind rbg."""
    matrix = Dense(normal(SIZE, SIZE))
    keys = jax.random.split(jax.random.key(0, impl=kind), STEPS)

    def step(params, carry, key):
        carry = jnp.tanh(params.apply(carry * jax.random.bernoulli(key, 0.5, carry.shape)) + 0.1)
        return carry, (carry, None)

    def gradient(loop):
        tuning = Tuning(chunk=3, store=store)
        return jax.grad(lambda params: recur(step, params, CARRY, keys, loop=loop, tuning=tuning)[1].sum())(matrix).kernel

    np.testing.assert_allclose(gradient("fast"), gradient("plain"), rtol=1e-4, atol=1e-6)


def test_a_call_under_inner_control_flow_is_refused():
    def step(matrix, h, _):
        return jax.lax.scan(lambda h, _: (jnp.tanh(matrix.apply(h)), None), h, None, length=2)[0], None

    with pytest.raises(jax.errors.UnexpectedTracerError) as error:
        jax.grad(lambda kernel: jnp.sum(fast(step, Dense(kernel), CARRY, XS)[0]))(normal(SIZE, SIZE))
    assert any("in calls of `apply` outside of lax.scan and lax.cond" in note for note in error.value.__notes__)


def test_a_value_that_is_differentiated_is_an_argument_of_the_step():
    def loss(gain):
        return jnp.sum(fast(lambda matrix, h, _: (jnp.tanh(gain * matrix.apply(h)), None), Dense(normal(SIZE, SIZE)), CARRY, XS)[0])

    with pytest.raises(jax.errors.UnexpectedTracerError) as error:
        jax.grad(loss)(0.5)
    assert any("pass a value that the step closes over in its parameters" in note for note in error.value.__notes__)


def test_matrices_are_no_residuals_of_a_step():
    """Those that do not depend on the step are fixed, so that a batch of steps has one copy of each."""
    linear, calls = linear_step()
    kept = jax.tree.map(lambda k: jnp.zeros((STEPS, *k.shape), k.dtype), calls.kept_outputs())
    carries = jnp.broadcast_to(CARRY, (STEPS, *CARRY.shape))
    varying, inputs = jax.vmap(linear.recompute)(carries, XS, kept)
    for leaf in jax.tree.leaves((varying, inputs)):
        assert leaf.shape[:2] == (STEPS, BATCH)
    fixed = linear.fixed_residuals(CARRY, XS[0], [k[0] for k in kept])
    assert (2, SIZE) in {leaf.shape for leaf in fixed}


def cheap_chain(params, h, x):
    """A step whose state goes through more cheap equations in a row than are computed again."""
    m = jnp.tanh(params.apply(h) + x)
    for _ in range(LONGEST + 2):
        m = m * m
    return m, None


def test_residuals_that_are_cheap_are_not_stored(monkeypatch):
    """Those of two gates are h, u, m, u (1 - u), 1 - m and 1 - u: only three are stored. The others have the same values."""
    linear, calls = linear_step()
    kept = jax.tree.map(lambda k: normal(*k.shape), calls.kept_outputs())
    stored, _ = linear.recompute(CARRY, XS[0], kept)
    assert len(stored) == 3
    monkeypatch.setattr(residuals, "CHEAP", frozenset())
    full, _ = linear_step()
    everything, _ = full.recompute(CARRY, XS[0], kept)
    assert len(everything) == 6
    fixed, cotangents = full.fixed_residuals(CARRY, XS[0], kept), ([normal(*CARRY.shape)], [])
    assert_close(linear.pull(stored, fixed, cotangents), full.pull(everything, fixed, cotangents), rtol=1e-6)


def test_a_long_chain_of_cheap_equations_is_cut():
    """No residual takes more than four of them, and none is left out."""
    matrix = Dense(normal(SIZE, SIZE))
    jaxpr = jax.make_jaxpr(lambda h: jax.vjp(lambda h: cheap_chain(matrix, h, 0.0)[0], h)[1])(CARRY).jaxpr
    wanted = [v for v, varies in zip(jaxpr.outvars, depends(jaxpr, 0), strict=True) if varies]
    found = residuals.Residuals.of(jaxpr, wanted)
    assert len(dict.fromkeys(wanted)) > len(found.stored) > 1
    assert len(found.equations) == len(dict.fromkeys(wanted)) - len(found.stored)


def test_a_replayed_step_is_the_step():
    params = parameters()
    arrays, _ = distinct(params)
    calls = trace_calls(two_gates, params, CARRY, XS[0])
    results, kept = replayed(two_gates, calls, calls.operators(arrays), arrays, params)(CARRY, XS[0])
    assert_close(results, two_gates(params, CARRY, XS[0]), rtol=1e-6)
    assert_close(kept, [CARRY @ params[0].right.T], rtol=1e-6)


def test_the_loop_with_these_gradients_is_the_plain_one():
    def loss(params, loop):
        return jnp.sum(jnp.sin(LOOPS[loop](two_gates, params, CARRY, XS)[0]))

    fast_, plain = (jax.jit(jax.grad(loss), static_argnums=1)(parameters(), loop) for loop in ("fast", "plain"))
    assert_close(fast_, plain, rtol=1e-5, atol=1e-6)
