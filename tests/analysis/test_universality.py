"""Tests of Highway networks of rank 1 that approximate given ones: sizes, distances, and convergence."""

import math
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lrpt.analysis.universality import Precision, compile_network, rank_one_network
from lrpt.cells.cell import StateGate
from lrpt.cells.highway import HighwayParams
from lrpt.errors import UsageError
from lrpt.matrices import Bias, Dense, low_rank_plus_diagonal

RADIUS, ROUNDING = 2.0, 1e-11
every_activation = pytest.mark.parametrize("activation", ["relu", "tanh"])
G = {"relu": lambda a: np.maximum(a, 0), "tanh": np.tanh}


def dense_network(size, depth, seed, candidate=None):
    """Draw a random network. All candidates have the matrix V if it is given."""
    rng = np.random.default_rng(seed)

    def gate(kernel=None):
        drawn = 1.5 / np.sqrt(size) * rng.standard_normal((size, size))
        return StateGate(Dense(drawn if kernel is None else kernel), Bias(rng.standard_normal(size)))

    return [HighwayParams(gate(None if candidate is None else candidate.T), gate()) for _ in range(depth)]


@cache
def states(size):
    """Return points of the cube, and some of its corners."""
    rng = np.random.default_rng(1)
    return np.concatenate([rng.uniform(-RADIUS, RADIUS, (300, size)), RADIUS * rng.choice([-1.0, 1.0], (100, size))])


def oracle(layers, x, activation):
    for (v, c), (w, b) in layers:
        h = G[activation](x @ np.asarray(v.to_dense(), np.float64) + c.bias)
        t = (1 + np.tanh((x @ np.asarray(w.to_dense(), np.float64) + b.bias) / 2)) / 2
        x = t * h + (1 - t) * x
    return x


def distance(network, layers, activation):
    x = states(len(layers[0].candidate.bias.bias))
    with jax.enable_x64(True):
        return np.abs(np.asarray(network(jnp.asarray(x))) - oracle(layers, x, activation)).max()


@every_activation
@pytest.mark.parametrize(("size", "depth"), [(1, 2), (2, 1), (3, 2), (5, 3)])
def test_twice_the_state_rank_one_and_as_many_layers_as_rows(activation, size, depth):
    layers = dense_network(size, depth, seed=size)
    for epsilon in (1e-1, 1e-3, 1e-6):
        network = rank_one_network(layers, RADIUS, epsilon, activation)
        for gate in network.layers:
            assert gate.recurrent.left.shape == gate.recurrent.right.shape == (size * depth, 1, 2 * size)
            assert gate.bias.bias.shape == (size * depth, 2 * size)
        assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(network.layers))
        assert network.error <= epsilon
        assert distance(network, layers, activation) <= network.error + ROUNDING


@pytest.mark.parametrize(
    ("v", "c", "w", "b", "x"),
    [
        ([[1, 0], [1, 0.5]], [0, -1], [[0, 0], [0, 0]], [20, 20], [2, -2]),  # an open gate, and a candidate at tanh(0)
        ([[1, 0], [0, 0.5]], [0, -20], [[0, 0], [1, 0]], [20, -2], [2, 2]),  # a gate at sigma(0), and a candidate of -1 for a state of 2
    ],
)
def test_the_bound_is_reached(v, c, w, b, x):
    """The second row reads x_1 = 2 as it was saved, with an error of theta^2 2^3 / 3: in its candidate, or in its gate."""
    gates = [StateGate(Dense(np.array(matrix, float).T), Bias(np.array(bias, float))) for matrix, bias in ((v, c), (w, b))]
    layers = [HighwayParams(*gates)]
    network = compile_network(layers, RADIUS, Precision(40.0, 0.0, 0.01), "tanh")
    with jax.enable_x64(True):
        found = np.asarray(network(jnp.array([x], float)))
    distance = np.abs(found - oracle(layers, np.array([x], float), "tanh")).max()
    assert 0.99 * network.error < distance <= network.error


def test_the_bound_is_reached_behind_a_second_layer():
    """The first layer gives (2, tanh(0)), its second entry with an error of theta^2 2^3 / 3, which the steepest part of a gate magnifies.

    That gate chooses between 2 and a candidate of -1, so that a change of it counts three times.
    """
    first = ([[1, 0], [1, 0.5]], [0, -1], [[0, 0], [0, 0]], [-40, 40])
    second = ([[1e-3, 0], [0, 1e-4]], [-20, 0], [[0, 400], [0, 0]], [0, 0])
    layers = [
        HighwayParams(*(StateGate(Dense(np.array(matrix, float).T), Bias(np.array(bias, float))) for matrix, bias in ((v, c), (w, b))))
        for v, c, w, b in (first, second)
    ]
    network, x = compile_network(layers, RADIUS, Precision(40.0, 0.0, 0.01), "tanh"), np.array([[2.0, -2.0]])
    with jax.enable_x64(True):
        found = np.asarray(network(jnp.asarray(x)))
    distance = np.abs(found - oracle(layers, x, "tanh")).max()
    assert 0.99 * network.error < distance <= network.error


def bound_and_distance(layers, x, radius, precision, activation):
    """Return the bound of a network of rank 1, and its distance at one state. A layer is given as V, c, W and b."""
    given = [
        HighwayParams(*(StateGate(Dense(np.array(matrix, float).T), Bias(np.array(bias, float))) for matrix, bias in ((v, c), (w, b))))
        for v, c, w, b in layers
    ]
    network, x = compile_network(given, radius, precision, activation), np.array([x], float)
    with jax.enable_x64(True):
        found = np.asarray(network(jnp.asarray(x)))
    return network.error, np.abs(found - oracle(given, x, activation)).max()


@pytest.mark.parametrize("size", [2, 3, 6])
def test_the_bound_is_reached_by_leaks_that_the_last_row_magnifies(size):
    """The last row reads x_1 as it was saved. Each layer since then has let a share sigma(-6) of it leak."""
    v = np.eye(size)
    v[-1, [0, -1]] = 50, 0.5
    layer = v, np.zeros(size), np.zeros((size, size)), np.full(size, 20)
    error, distance = bound_and_distance([layer], np.full(size, 2), RADIUS, Precision(6.0, 0.0), "relu")
    assert 0.99 * error < distance <= error


def test_the_bound_is_reached_by_what_a_layer_leaves_behind():
    """The first layer saves numbers up to 40. A share sigma(-6) of them leaks into the numbers up to 0.4 that the second layer saves."""
    first = ([[10, 0], [0, 10]], [0, 0], [[0, 0], [0, 0]], [-40, -40])
    second = ([[0.01, 0], [0.5, 0.005]], [0, 0], [[0, 0], [0, 0]], [-40, 40])
    error, distance = bound_and_distance([first, second], [2, 2], RADIUS, Precision(6.0, 0.0), "relu")
    assert 0.95 * error < distance <= error


def test_the_bound_holds_for_leaks_of_scaled_numbers():
    """Twenty layers let 18 % of a number leak that is saved as tanh(x_1 / 5), in the unit of 1000 x_1, and the last row reads it."""
    size, slope, bias = 21, 2e-4, 4.6
    leaked = 1 - (1 - 1 / (1 + math.exp(bias))) ** (size - 1)
    v, c = np.diag([1000.0, *[1.0] * (size - 2), 0.1]), np.zeros(size)
    v[-1, 0], c[-1] = 1 / leaked, 0.4 - 1 / leaked
    layer = v, c, np.zeros((size, size)), np.full(size, 40)
    error, distance = bound_and_distance([layer], np.ones(size), 1.0, Precision(bias, 0.0, slope), "tanh")
    assert 0.9 < distance <= error


@settings(max_examples=15)
@given(seed=st.integers(0, 2**31), log_epsilon=st.floats(-6, 1), activation=st.sampled_from(["relu", "tanh"]))
def test_any_network(seed, log_epsilon, activation):
    layers = dense_network(3, 2, seed)
    network = rank_one_network(layers, RADIUS, 10.0**log_epsilon, activation)
    assert distance(network, layers, activation) <= 10.0**log_epsilon


@pytest.mark.parametrize(
    "candidate",
    [np.zeros((3, 3)), np.roll(np.eye(3), 1, axis=0), np.outer([1.0, 2.0, 3.0], [1.0, -1.0, 0.5])],
    ids=["zero", "cycle", "rank_one"],
)
@every_activation
def test_candidates_without_pivots(candidate, activation):
    """Some rows of V do not determine what they replace. Only a change of the diagonal makes them independent."""
    layers = dense_network(3, 2, seed=5, candidate=candidate)
    for epsilon in (1e-1, 1e-3):
        network = rank_one_network(layers, RADIUS, epsilon, activation)
        assert distance(network, layers, activation) <= network.error <= epsilon


@every_activation
def test_distance_falls_as_gates_close(activation):
    layers = dense_network(4, 3, seed=7)
    networks = [compile_network(layers, RADIUS, Precision(bias, 1e-6, slope=1e-7), activation) for bias in (8.0, 12.0, 16.0, 20.0)]
    distances = [distance(network, layers, activation) for network in networks]
    np.testing.assert_allclose(np.diff(np.log(distances)), -4, rtol=0.05)
    assert all(d <= network.error for d, network in zip(distances, networks, strict=True))


def test_distance_falls_with_the_square_of_the_slope():
    layers = dense_network(4, 3, seed=7)
    networks = [compile_network(layers, RADIUS, Precision(60.0, 1e-6, slope), "tanh") for slope in (1e-2, 1e-3, 1e-4)]
    distances = [distance(network, layers, "tanh") for network in networks]
    np.testing.assert_allclose(np.diff(np.log10(distances)), -2, rtol=0.05)
    assert all(d <= network.error for d, network in zip(distances, networks, strict=True))


def test_distance_falls_with_the_pivot_where_it_is_needed():
    layers = dense_network(3, 1, seed=5, candidate=np.zeros((3, 3)))
    networks = [compile_network(layers, RADIUS, Precision(60.0, pivot)) for pivot in (1e-1, 1e-2, 1e-3)]
    distances = [distance(network, layers, "relu") for network in networks]
    np.testing.assert_allclose(np.diff(np.log10(distances)), -1, rtol=0.05)
    assert all(d <= network.error for d, network in zip(distances, networks, strict=True))


def test_with_gates_that_close_entirely_rectifiers_are_exact():
    layers = dense_network(4, 3, seed=7)
    network = compile_network(layers, RADIUS, Precision(math.inf, 1e-6))
    assert network.error == 0
    assert distance(network, layers, "relu") < ROUNDING


def test_steep_gates():
    """The transform gates of the given network are not approximated."""
    layers = [
        params._replace(transform=StateGate(Dense(50 * params.transform.recurrent.kernel), params.transform.bias))
        for params in dense_network(3, 2, seed=3)
    ]
    network = rank_one_network(layers, RADIUS, 1e-4)
    assert distance(network, layers, "relu") <= network.error <= 1e-4


def test_networks_with_other_matrices():
    rng = np.random.default_rng(0)

    def gate():
        matrix = low_rank_plus_diagonal(rng.standard_normal((1, 3)), rng.standard_normal((1, 3)), rng.standard_normal(3))
        return StateGate(matrix, Bias(rng.standard_normal(3)))

    with jax.enable_x64(True):
        layers = [HighwayParams(gate(), gate()) for _ in range(2)]
        network = rank_one_network(layers, RADIUS, 1e-4)
        assert distance(network, layers, "relu") <= network.error <= 1e-4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([], 1.0, 0.1), "0 layers, radius 1.0, epsilon 0.1: expected at least one layer"),
        ((dense_network(2, 1, 0), 0.0, 0.1), "radius 0.0"),
        ((dense_network(2, 1, 0), math.inf, 0.1), "radius inf"),
        ((dense_network(2, 1, 0), 1.0, 0.0), "epsilon 0.0"),
        ((dense_network(2, 1, 0), 1.0, math.nan), "epsilon nan"),
        ((dense_network(2, 1, 0), 1.0, 0.1, "elu"), "activation is 'elu': choose from relu, tanh"),
        ((dense_network(2, 1, 0), 1.0, 1e-310), "epsilon is 1e-310: the bound for 1 layers on radius 1.0 is larger in float64"),
    ],
)
def test_what_cannot_be_done_is_said(arguments, message):
    with pytest.raises(UsageError, match=message):
        rank_one_network(*arguments)
