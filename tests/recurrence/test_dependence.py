"""What a jaxpr says of a step, and the chunks of the fast loop that rely on it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lrpt.matrices import Dense
from lrpt.recurrence import recur
from lrpt.recurrence.dependence import depends, is_alike_in_batches

N, T, B = 3, 5, 2
W, CARRY = Dense(jax.random.normal(jax.random.key(0), (N, N))), jnp.ones((B, N))


@jax.jit
def both(constant, h):
    return jnp.tanh(constant), jnp.tanh(h)


@pytest.mark.parametrize("wrapped", [both, jax.checkpoint(both), lambda *args: jax.jit(jax.checkpoint(both))(*args)])
def test_results_of_a_function_that_is_called(wrapped):
    """Those that depend on nothing but constants have one value for all steps of a chunk."""
    jaxpr = jax.make_jaxpr(wrapped)(jnp.ones(2), jnp.ones(2)).jaxpr
    assert depends(jaxpr, 1) == [False, True]
    assert depends(jaxpr, 0) == [True, True]


def test_results_of_a_loop_depend_on_all_that_it_gets():
    def looped(constant, h):
        return jax.lax.fori_loop(0, 2, lambda _, values: (values[1], values[0]), (constant, h))

    assert depends(jax.make_jaxpr(looped)(jnp.ones(2), jnp.ones(2)).jaxpr, 1) == [True, True]


def drawn(key):
    return jax.random.bernoulli(key, 0.5, (B, N))


def test_what_a_batch_computes_otherwise():
    for kind, alike in {"threefry2x32": True, "rbg": False, "unsafe_rbg": False}.items():
        assert is_alike_in_batches(jax.make_jaxpr(drawn)(jax.random.key(0, impl=kind)).jaxpr) == alike, kind
    assert not is_alike_in_batches(jax.make_jaxpr(jax.jit(drawn))(jax.random.key(0, impl="rbg")).jaxpr)


def test_a_callback_without_a_rule_for_batches():
    def step(params, carry, x):
        shift = jax.pure_callback(lambda x: np.asarray(x) + 1, jax.ShapeDtypeStruct(x.shape, x.dtype), jax.lax.stop_gradient(x))
        carry = jnp.tanh(params.apply(carry) + shift)
        return carry, (carry, None)

    def gradient(loop):
        return jax.grad(lambda params: recur(step, params, CARRY, jnp.ones((T, B, N)), loop=loop)[1].sum())(W).kernel

    np.testing.assert_allclose(gradient("fast"), gradient("plain"), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("wraps", [lambda function: function, jax.jit])
def test_what_a_helper_makes_of_a_parameter_is_stored_once(wraps):
    """A jitted function that also reads a state would otherwise have a copy of it in each step of a chunk."""
    n, steps = 128, 64
    mixed = wraps(lambda matrix, h: h @ jax.nn.softmax(matrix))

    def step(params, carry, x):
        return jnp.tanh(params[0].apply(carry) + mixed(params[1], x)), (None, None)

    def loss(params):
        return recur(step, params, jnp.ones((1, n)), jnp.ones((steps, 1, n)), loop="fast")[0].sum()

    params = Dense(jnp.ones((n, n))), jnp.ones((n, n))
    taken = jax.jit(jax.grad(loss)).lower(params).compile().memory_analysis().temp_size_in_bytes
    assert taken < steps * n * n * 4 / 4
