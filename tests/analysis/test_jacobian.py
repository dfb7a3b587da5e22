"""Tests of temporal Jacobians against finite differences and the paper's equations, and of discs around their eigenvalues."""

import dataclasses
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles import ORACLES, sigmoid
from table import BATCH, INPUT_SIZE, SIZE, SPEC, STEPS, Row, assert_close, network, run

from lrpt.analysis.jacobian import eigenvalues, gershgorin_discs, gershgorin_figure, rhn_jacobian, states_before, step_jacobian
from lrpt.cells import CELLS
from lrpt.errors import UsageError
from lrpt.matrices import Bias, Dense
from lrpt.parametrizations import init_parameters
from lrpt.recurrence import recur
from lrpt.specs import MatrixSpec

RHNS = ("rhn", "rhn_uncoupled")
every_rhn = pytest.mark.parametrize("name", RHNS)


@cache
def deep(name, depth, carry_bias=0.0):
    """Return (parameters, state, input) in float64, with no small numbers."""
    rng = np.random.default_rng(depth)
    template = CELLS[name].template(dataclasses.replace(SPEC, depth=depth, carry_bias=carry_bias))

    def drawn(spec):
        if isinstance(spec, MatrixSpec):
            return Dense(rng.standard_normal((spec.n_in, spec.n_out)))
        return Bias(rng.standard_normal(spec.size) + spec.initial)

    params = jax.tree.map(drawn, template)
    return params, rng.uniform(-1, 1, (BATCH, SIZE)), rng.standard_normal((BATCH, INPUT_SIZE))


def weights_of(params):
    paths = jax.tree_util.tree_leaves_with_path(params)
    return {jax.tree_util.keystr(path[:-1], simple=True, separator="."): leaf for path, leaf in paths}


def by_finite_differences(name, params, s, x):
    """Compute the columns of J as central differences of fourth order of the float64 oracle."""
    weights, eps = weights_of(params), 1e-3

    def after(step, j):
        return ORACLES[name].step(weights, s + step * np.eye(SIZE)[j], x)[0]

    columns = [(8 * (after(eps, j) - after(-eps, j)) - (after(2 * eps, j) - after(-2 * eps, j))) / (12 * eps) for j in range(SIZE)]
    return np.stack(columns, axis=-1)


@pytest.mark.parametrize("depth", [1, 2, 4])
@every_rhn
def test_closed_form_autodiff_and_finite_differences_agree(name, depth):
    params, s, x = deep(name, depth)
    with jax.enable_x64(True):
        closed = np.asarray(rhn_jacobian(params, s, x))
        automatic = np.asarray(step_jacobian(CELLS[name].step, params, jnp.asarray(s), jnp.asarray(x)))
    np.testing.assert_allclose(closed, automatic, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(closed, by_finite_differences(name, params, s, x), rtol=1e-7, atol=1e-9)


@every_rhn
def test_at_depth_one_it_is_the_transpose_of_equation_10(name):
    params, s, x = deep(name, 1)
    w = weights_of(params)
    for i in range(BATCH):
        y = s[i]
        pre = {gate: w[f"0.{gate}.recurrent"].T @ y + w[f"0.{gate}.input"].T @ x[i] + w[f"0.{gate}.bias"] for gate in params[0]._fields}
        h, t = np.tanh(pre["candidate"]), sigmoid(pre["transform"])
        c = sigmoid(pre["carry"]) if name == "rhn_uncoupled" else 1 - t
        H = w["0.candidate.recurrent"] @ np.diag(1 - h**2)  # R^T diag(...), of the paper's R, which is stored transposed
        T = w["0.transform.recurrent"] @ np.diag(t * (1 - t))
        C = w["0.carry.recurrent"] @ np.diag(c * (1 - c)) if name == "rhn_uncoupled" else -T
        A = np.diag(c) + H @ np.diag(t) + C @ np.diag(y) + T @ np.diag(h)
        with jax.enable_x64(True):
            found = rhn_jacobian(params, s, x)[i]
        np.testing.assert_allclose(found, A.T, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("parametrization", ["low_rank", "low_rank_plus_diagonal"])
@every_rhn
def test_structured_matrices_and_states_of_a_sequence(name, parametrization):
    net = network(Row(name, parametrization))
    states = states_before(net.cell.step, net.params, net.carry, net.xs)
    _, (ys, _) = run(net.cell, net.params, net.carry, net.xs)
    assert_close(states, jnp.concatenate([net.carry[None], ys[:-1]]))
    t = STEPS // 2
    closed = rhn_jacobian(net.params, states[t], net.xs[t])
    assert_close(closed, step_jacobian(net.cell.step, net.params, states[t], net.xs[t]), rtol=2e-5, atol=2e-6)


def test_states_behind_the_end_of_a_sequence_are_zero():
    net = network(Row("gru", "dense"))
    lengths = np.array([6, 1, 3, 4])
    mask = jnp.asarray(np.arange(STEPS)[:, None] < lengths)
    states = np.asarray(states_before(net.cell.step, net.params, net.carry, net.xs, mask))
    whole = np.asarray(states_before(net.cell.step, net.params, net.carry, net.xs))
    np.testing.assert_array_equal(states, np.where(np.asarray(mask)[..., None], whole, 0))


@pytest.mark.slow
def test_states_of_several_parts_are_taken_together():
    """An LSTM's Jacobian over all steps is the product of the Jacobians of the steps. The memory comes first."""
    net = network(Row("lstm", "dense"))
    states = states_before(net.cell.step, net.params, net.carry, net.xs[:2])
    factors = [step_jacobian(net.cell.step, net.params, jax.tree.map(lambda a, t=t: a[t], states), net.xs[t]) for t in range(2)]
    assert factors[0].shape == (BATCH, 2 * SIZE, 2 * SIZE)

    def two_steps(params, carry, xs):
        return recur(net.cell.step, params, carry, xs[:, None])[0], (xs, ())

    carry = jax.tree.map(lambda a: a[:, None], net.carry)
    both = step_jacobian(two_steps, net.params, carry, jnp.swapaxes(net.xs[:2], 0, 1))
    assert_close(both, factors[1] @ factors[0], rtol=2e-5, atol=2e-6)


@every_rhn
def test_with_carry_gates_open_all_eigenvalues_are_one(name):
    """Equation 15: the discs shrink to the point 1."""
    params, s, x = deep(name, 3, carry_bias=1e4)
    with jax.enable_x64(True):
        J = rhn_jacobian(params, s, x)
    np.testing.assert_array_equal(J, np.broadcast_to(np.eye(SIZE), J.shape))
    discs = gershgorin_discs(J)
    np.testing.assert_array_equal(discs.radii, 0)
    np.testing.assert_array_equal(eigenvalues(J), 1)


@every_rhn
def test_with_transform_gates_open_the_eigenvalues_are_those_of_the_candidate(name):
    """This is the other limit of section 4: c = 0, t = 1."""
    params, s, x = deep(name, 1, carry_bias=-1e4)
    w = weights_of(params)
    with jax.enable_x64(True):
        found = eigenvalues(rhn_jacobian(params, s, x))
    h = np.tanh(s @ w["0.candidate.recurrent"] + x @ w["0.candidate.input"] + w["0.candidate.bias"])
    for i in range(BATCH):
        expected = np.linalg.eigvals(w["0.candidate.recurrent"] @ np.diag(1 - h[i] ** 2))
        np.testing.assert_allclose(np.sort_complex(found[i]), np.sort_complex(expected), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("along", ["rows", "columns"])
def test_discs_hold_all_eigenvalues(along):
    J = np.random.default_rng(0).standard_normal((50, 6, 6))
    discs = gershgorin_discs(J, along)
    for k in range(6):
        others = [i for i in range(6) if i != k]
        np.testing.assert_array_equal(discs.centres[:, k], J[:, k, k])
        expected = np.abs(J[:, k, others] if along == "rows" else J[:, others, k]).sum(-1)
        np.testing.assert_allclose(discs.radii[:, k], expected, rtol=1e-12)
    assert np.all(discs.distance(eigenvalues(J)) <= 1e-12)
    np.testing.assert_allclose(
        discs.distance(discs.centres[:, :1] + 1e3j), np.min(np.abs(1e3j + J[:, :1, 0] - discs.centres) - discs.radii, -1)[:, None]
    )


def test_discs_along_something_else_are_refused():
    with pytest.raises(UsageError, match="along is 'row': choose from rows, columns"):
        gershgorin_discs(np.eye(2), "row")  # pyright: ignore[reportArgumentType]


def test_the_discs_that_equation_14_prints_need_not_hold_the_eigenvalues():
    RH, RT = np.array([[9.6, -4.7], [0.3, -5.9]]), np.array([[-4.2, -12.3], [-10.9, 7.8]])
    y = np.array([-0.5, -0.8])
    h, t = np.tanh(RH @ y), sigmoid(RT @ y)
    H, T = RH.T @ np.diag(1 - h**2), RT.T @ np.diag(t * (1 - t))
    A = np.diag(1 - t) + H @ np.diag(t) - T @ np.diag(y) + T @ np.diag(h)
    printed = gershgorin_discs(np.diag(1 - t) + np.diag(t) @ H - np.diag(y) @ T + np.diag(h) @ T)
    np.testing.assert_allclose(printed.centres, np.diag(A))
    assert printed.distance(eigenvalues(A)).max() > 2.1
    for along in ("rows", "columns"):
        assert gershgorin_discs(A, along).distance(eigenvalues(A)).max() <= 0


def test_the_figure_is_a_png_of_a_panel_for_each_matrix(tmp_path):
    J = np.random.default_rng(0).standard_normal((2, 8, 8)) / 8
    path = gershgorin_figure({"one": J[0], "two": J[1]}, tmp_path / "figures" / "discs.png")
    assert path.read_bytes().startswith(b"\x89PNG")


def test_inputs_of_several_steps_are_one_line():
    params = init_parameters(jax.random.key(0), CELLS["gru"].template(SPEC))
    says = rf"x has shape \({STEPS}, {BATCH}, {INPUT_SIZE}\), and the carry {BATCH} rows: give the input of one step"
    with pytest.raises(UsageError, match=says):
        step_jacobian(CELLS["gru"].step, params, jnp.zeros((BATCH, SIZE)), jnp.zeros((STEPS, BATCH, INPUT_SIZE)))


def test_complex_jacobians_keep_their_imaginary_parts():
    J = np.array([[1j, 2], [0, 1]])
    np.testing.assert_array_equal(gershgorin_discs(J).centres, [1j, 1])
    np.testing.assert_allclose(sorted(eigenvalues(J), key=abs), [1j, 1])
