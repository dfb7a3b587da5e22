"""Highway layers with every parametrization, against the papers' equations in float64."""

from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from table import SIZES, assert_close, assert_equal, check_slope, every_kind_of_matrix, weighted_sum

from lrpt.cells.highway import ACTIVATIONS, HighwayParams, highway, highway_stack, highway_template
from lrpt.matrices import Bias, Dense
from lrpt.parametrizations import MatrixConfig, Parameters

SIZE, RANK, BATCH, DEPTH = 6, 2, 4, 3

every_activation = pytest.mark.parametrize("activation", ACTIVATIONS)


@cache
def layer(kind, seed=0, tied=False, transform_bias=-1.0):
    module = Parameters(highway_template(SIZE, transform_bias), MatrixConfig(kind, RANK, tied, **SIZES), MatrixConfig())
    shapes = jax.eval_shape(module.init, jax.random.key(0))
    rng = np.random.default_rng(seed)
    stored = jax.tree.map(lambda a: (0.7 * rng.standard_normal(a.shape)).astype(np.float32), shapes)
    params = module.apply(stored)
    return params._replace(transform=params.transform._replace(bias=Bias(params.transform.bias.bias + transform_bias)))


@cache
def states():
    return jnp.asarray(np.random.default_rng(9).standard_normal((BATCH, SIZE)), jnp.float32)


@partial(jax.jit, static_argnames="activation")
def run(params, x, activation="relu"):
    return highway(params, x, ACTIVATIONS[activation])


def oracle(params, x, activation="relu"):
    """Miceli Barone 2016, eqs. 2 and 3, transposed: rows are examples."""
    g = {"relu": lambda a: np.maximum(a, 0), "tanh": np.tanh}[activation]
    (w_pi, b_pi), (w_tau, b_tau) = (
        (np.asarray(gate.recurrent.to_dense(), np.float64), np.asarray(gate.bias.bias, np.float64)) for gate in params
    )
    x = np.asarray(x, np.float64)
    pi = g(x @ w_pi + b_pi)
    tau = 1 / (1 + np.exp(-(x @ w_tau + b_tau)))
    return pi * tau + x * (1 - tau), {"candidate": pi, "transform": tau}


@every_kind_of_matrix
@every_activation
@pytest.mark.parametrize("tied", [False, True])
def test_layer_equals_the_equations_in_float64(kind, activation, tied):
    params = layer(kind, tied=tied)
    y, info = run(params, states(), activation)
    assert_close((y, info._asdict()), oracle(params, states(), activation), rtol=2e-6, atol=2e-6)


@every_kind_of_matrix
def test_dense_equivalent(kind):
    params = layer(kind)
    dense = HighwayParams(*(gate._replace(recurrent=Dense(gate.recurrent.to_dense())) for gate in params))
    assert_close(run(params, states()), run(dense, states()))


@every_activation
def test_gradients_equal_finite_differences(activation):
    rng = np.random.default_rng(5)
    with jax.enable_x64(True):
        at = jax.tree.map(lambda a: np.asarray(a, np.float64), (layer("low_rank_plus_diagonal"), states()))
        along = jax.tree.map(lambda a: rng.standard_normal(a.shape), at)
        loss_and_gradient = jax.jit(jax.value_and_grad(lambda at: weighted_sum(highway(*at, ACTIVATIONS[activation]))))

        def loss(step):
            return loss_and_gradient(jax.tree.map(lambda a, d: a + step * d, at, along))[0]

        check_slope(loss, loss_and_gradient(at)[1], along, eps=1e-5)  # short of the next kink of the rectifier


def test_a_closed_transform_gate_passes_the_state_on():
    params = layer("low_rank", transform_bias=-1000.0)
    y, info = run(params, states())
    assert_equal((y, info.transform), (states(), jnp.zeros_like(y)))
    jacobian = jax.jacrev(lambda x: highway(params, x)[0])(states()[0])
    np.testing.assert_array_equal(jacobian, np.eye(SIZE))


def test_an_open_transform_gate_leaves_the_candidate():
    y, info = run(layer("low_rank", transform_bias=1000.0), states())
    assert_equal(y, info.candidate)


@every_kind_of_matrix
def test_a_stack_is_layer_after_layer(kind):
    layers = [layer(kind, seed) for seed in range(DEPTH)]
    x = states()
    for params in layers:
        x, _ = oracle(params, x)
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *layers)
    assert_close(jax.jit(highway_stack)(stacked, states()), x, rtol=1e-5, atol=1e-5)


def test_template_asks_for_square_matrices_and_biases_that_carry():
    gate = highway_template(7, -2.0)
    for spec in (gate.candidate.recurrent, gate.transform.recurrent):
        assert (spec.n_in, spec.n_out, spec.role) == (7, 7, "recurrent")
    assert (gate.candidate.bias.initial, gate.transform.bias.initial) == (0.0, -2.0)
    assert highway_template(7).transform.bias.initial == -1.0
