"""What holds for every cell with every parametrization."""

import dataclasses
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest
from table import (
    BATCH,
    PLAIN_ROWS,
    SIZE,
    SPEC,
    STEPS,
    Row,
    assert_close,
    assert_equal,
    by_name,
    check_slope,
    every_cell,
    every_cell_and_every_row_of_the_gru,
    every_row,
    every_row_but_most_of_them_slow,
    gradients,
    network,
    run,
    weighted_sum,
    width_of_input,
)

from lrpt.cells import CELLS
from lrpt.matrices import Dense, Diagonal, LowRank, Sum
from lrpt.recurrence import recur
from lrpt.specs import BiasSpec

every_cell_with_recurrent_matrices = pytest.mark.parametrize("cell", [cell for cell in CELLS if CELLS[cell].has_recurrent_matrices])


@partial(jax.jit, static_argnames="cell")
def step_of_each_example(cell, params, carry, x):
    return jax.vmap(cell.step, (None, 0, 0))(params, carry, x)


def test_every_cell_has_an_oracle():
    assert set(oracles.ORACLES) == set(CELLS)


@every_cell
@pytest.mark.parametrize("batch", [(), (BATCH,), (2, BATCH)])
def test_a_state_of_zeros_has_the_widths_of_the_cell(cell, batch):
    zeros = CELLS[cell].zero_carry(SPEC, batch, jnp.bfloat16)
    assert jax.tree.map(jnp.shape, zeros) == jax.tree.map(lambda n: (*batch, n), CELLS[cell].carry(SPEC))
    assert all(leaf.dtype == jnp.bfloat16 and not leaf.any() for leaf in jax.tree.leaves(zeros))


@pytest.mark.parametrize(("wide", "dtype"), [(False, jnp.float32), (True, jnp.float64)])
def test_a_state_of_zeros_has_the_default_precision(wide, dtype):
    with jax.enable_x64(wide):
        assert CELLS["gru"].zero_carry(SPEC).dtype == dtype


@every_row_but_most_of_them_slow
def test_shapes_and_dtypes(row):
    net = network(row)
    carry, (ys, info) = run(net.cell, net.params, net.carry, net.xs)
    assert jax.tree.map(jnp.shape, carry) == jax.tree.map(lambda n: (BATCH, n), net.cell.carry(SPEC))
    assert ys.shape == (STEPS, BATCH, net.cell.output_size(SPEC))
    leaves = jax.tree.leaves((carry, ys, info))
    assert all(leaf.dtype == jnp.float32 for leaf in leaves)
    assert all(leaf.shape[:2] == (STEPS, BATCH) for leaf in jax.tree.leaves(info))


@every_row_but_most_of_them_slow
def test_scan_equals_a_python_loop_without_jit(row):
    net = network(row)
    carry, steps = net.carry, []
    for x in net.xs:
        carry, y_and_info = net.cell.step(net.params, carry, x)
        steps.append(y_and_info)
    expected = carry, jax.tree.map(lambda *leaves: jnp.stack(leaves), *steps)
    assert_close(run(net.cell, net.params, net.carry, net.xs), expected)


@every_row_but_most_of_them_slow
def test_compiles_once(row):
    net, other = network(row), network(row, seed=7)
    carry, _ = run(net.cell, net.params, net.carry, net.xs)
    compiled = run._cache_size()
    run(net.cell, other.params, carry, other.xs)
    assert run._cache_size() == compiled


@every_row_but_most_of_them_slow
def test_vmap_over_examples_equals_batch(row):
    net = network(row)
    each = step_of_each_example(net.cell, net.params, net.carry, net.xs[0])
    assert_close(each, net.cell.step(net.params, net.carry, net.xs[0]))


@pytest.mark.slow
@every_cell_and_every_row_of_the_gru
def test_full_matrices_give_the_same_outputs_and_input_gradients(row):
    net, dense = network(row), network(row).dense()
    (_, outputs), (_, *to_inputs) = gradients(net.cell, net.params, net.carry, net.xs)
    (_, expected), (_, *expected_to_inputs) = gradients(net.cell, dense.params, net.carry, net.xs)
    assert_close(outputs, expected)
    assert_close(to_inputs, expected_to_inputs, atol=1e-5)


@every_row
def test_outputs_and_gates_equal_the_float64_loop(row):
    net = network(row)
    carry, (ys, info) = run(net.cell, net.params, net.carry, net.xs)
    start = jax.tree.map(lambda h: np.asarray(h, np.float64), net.carry)
    expected = oracles.loop(oracles.ORACLES[row.cell], net.arrays(), start, net.xs)
    atol = 2e-5 if row.parametrization.startswith("toeplitz_like") else 4e-6  # FFTs in float32 lose more digits than products
    assert_close((carry, ys, by_name(info)), expected, rtol=atol, atol=atol)


@partial(jax.jit, static_argnames="cell")
def loss_and_gradient(cell, at):
    return jax.value_and_grad(lambda at: weighted_sum(recur(cell.step, *at)))(at)


@pytest.mark.slow
@every_cell_and_every_row_of_the_gru
def test_gradients_equal_finite_differences(row):
    """Of a loss of everything, along a random direction in the space of matrices, biases, first state and inputs."""
    net = network(row)
    rng = np.random.default_rng(5)
    with jax.enable_x64(True):
        at = jax.tree.map(lambda a: np.asarray(a, np.float64), (net.params, net.carry, net.xs[:3]))
        along = jax.tree.map(lambda a: rng.standard_normal(a.shape), at)
        gradient = loss_and_gradient(net.cell, at)[1]

        def loss(step):
            return loss_and_gradient(net.cell, jax.tree.map(lambda a, d: a + step * d, at, along))[0]

        check_slope(loss, gradient, along)


@partial(jax.jit, static_argnames=("cell", "passed"))
def passed_on(cell, passed, params, state, x):
    """(the state that is passed on by a step, its Jacobian)."""

    def step(state):
        return passed(cell.step(params, state, x)[0])

    return step(state), passed(jax.jacrev(step)(state))


@every_row_but_most_of_them_slow
def test_gates_saturated_open_pass_the_state_on(row):
    oracle = oracles.ORACLES[row.cell]
    if oracle.passed is None:
        pytest.skip(f"{row.cell} has no gate that passes the state on")
    net = network(row, carry_bias=200.0)
    shut = {name: jax.tree.map(lambda b: b - 200, op) if name in oracle.closed else op for name, op in net.operators()}
    params = jax.tree.structure(net.template).unflatten(shut.values())
    state = jax.tree.map(lambda h: h[0], net.carry)
    after, jacobian = passed_on(net.cell, oracle.passed, params, state, net.xs[0, 0])
    assert_equal(after, oracle.passed(state))
    np.testing.assert_array_equal(jacobian, np.eye(SIZE))


@every_cell
def test_the_carry_bias_is_where_the_gates_that_pass_the_state_on_start(cell):
    template = CELLS[cell].template(dataclasses.replace(SPEC, input_size=width_of_input(cell), carry_bias=4.0))
    start = {name: leaf.initial for name, leaf in by_name(template).items() if isinstance(leaf, BiasSpec)}
    assert start == {name: 4.0 * oracles.ORACLES[cell].carry_bias.get(name, 0) for name in start}
    assert start.keys() >= oracles.ORACLES[cell].carry_bias.keys()


def test_every_cell_has_recurrent_matrices_but_these():
    assert {cell for cell in CELLS if not CELLS[cell].has_recurrent_matrices} == {"unitary", "unitary_without_fourier"}


@every_cell_with_recurrent_matrices
def test_zero_diagonal_is_low_rank(cell):
    net = network(Row(cell, "low_rank_plus_diagonal"))

    def zero_diagonal(_, op):
        return Sum((op.terms[0], Diagonal(jnp.zeros_like(op.terms[1].diagonal)))) if isinstance(op, Sum) else op

    def low_rank(_, op):
        return op.terms[0] if isinstance(op, Sum) else op

    actual, expected = net.replace_operators(zero_diagonal), net.replace_operators(low_rank)
    assert_close(run(net.cell, actual.params, net.carry, net.xs), run(net.cell, expected.params, net.carry, net.xs))


@every_cell
def test_low_rank_at_full_rank_represents_any_full_matrix(cell):
    net = network(Row(cell, "dense"))

    def factorize(_, op):
        if not isinstance(op, Dense):
            return op
        u, s, vt = np.linalg.svd(op.kernel)
        k = s.size
        return LowRank(jnp.asarray(np.sqrt(s)[:, None] * vt[:k]), jnp.asarray((u[:, :k] * np.sqrt(s)).T))

    factorized = net.replace_operators(factorize)
    assert_close(run(net.cell, factorized.params, net.carry, net.xs), run(net.cell, net.params, net.carry, net.xs), atol=5e-6)


@pytest.mark.slow
@pytest.mark.parametrize("input_size", [1, 2, 3, 10])
@pytest.mark.parametrize("row", [row for row in PLAIN_ROWS if CELLS[row.cell].input_size is None], ids=str)
def test_integer_inputs_are_one_hot_vectors(row, input_size):
    net = network(row, input_size=input_size)
    symbols = jnp.asarray(np.random.default_rng(0).integers(0, input_size, BATCH))
    one_hot = jnp.asarray(np.eye(input_size, dtype=np.float32)[np.asarray(symbols)])
    assert_equal(net.cell.step(net.params, net.carry, symbols), net.cell.step(net.params, net.carry, one_hot))
