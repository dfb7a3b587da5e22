"""Bounds of Jacobians by singular values, and products of Jacobians, against NumPy and automatic differentiation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lrpt.analysis.gradient_flow import matrix_norms, products, step_bound
from lrpt.analysis.jacobian import step_jacobian
from lrpt.cells import CELLS, CellSpec
from lrpt.errors import UsageError
from lrpt.matrices import Bias, Dense
from lrpt.specs import MatrixSpec

SIZE, INPUTS, ROWS = 6, 3, 5
PLAIN, GATED = ("elman", "dt_rnn", "dts_rnn"), ("rhn", "rhn_uncoupled")


def drawn(name, depth, scale, seed=0, size=SIZE):
    rng = np.random.default_rng(seed)
    draw = lambda spec: (  # noqa: E731
        Dense(jnp.asarray(scale * rng.standard_normal((spec.n_in, spec.n_out)), jnp.float32))
        if isinstance(spec, MatrixSpec)
        else Bias(jnp.asarray(rng.standard_normal(spec.size), jnp.float32))
    )
    params = jax.tree.map(draw, CELLS[name].template(CellSpec(INPUTS, size, depth=depth)))
    state = jnp.asarray(rng.uniform(-1, 1, (ROWS, size)), jnp.float32)
    return params, state, jnp.asarray(rng.standard_normal((ROWS, INPUTS)), jnp.float32)


@pytest.mark.parametrize(("name", "depth"), [("elman", 1), *((name, depth) for name in (*PLAIN[1:], *GATED) for depth in (1, 3))])
def test_no_jacobian_has_a_larger_norm_than_its_bound(name, depth):
    for scale, seed in ((0.05, 0), (0.4, 1), (2.0, 2)):
        params, s, x = drawn(name, depth, scale, seed)
        norms = np.linalg.norm(np.asarray(step_jacobian(CELLS[name].step, params, s, x), np.float64), 2, axis=(-2, -1))
        assert np.all(norms <= step_bound(params, s, x) * (1 + 1e-5))


@pytest.mark.parametrize("name", PLAIN)
def test_the_bound_is_reached_where_tanh_is_linear(name):
    """At the origin the Jacobian of a network without biases is the product of its matrices; orthogonal matrices reach the bound."""
    params, s, x = drawn(name, 1, 1.0)
    Q = np.linalg.qr(np.random.default_rng(3).standard_normal((SIZE, SIZE)))[0]
    params = jax.tree.map(lambda leaf: jnp.asarray(0.7 * Q, jnp.float32) if leaf.shape == (SIZE, SIZE) else 0 * leaf, params)
    norms = np.linalg.norm(np.asarray(step_jacobian(CELLS[name].step, params, 0 * s, x)), 2, axis=(-2, -1))
    np.testing.assert_allclose(norms, 0.7, rtol=1e-5)
    np.testing.assert_allclose(step_bound(params, 0 * s, x), 0.7, rtol=1e-5)


@pytest.mark.parametrize("depth", [1, 3])
@pytest.mark.parametrize("name", GATED)
def test_the_bound_of_one_unit_is_reached_where_all_terms_are_positive(name, depth):
    """A derivative of one unit is the sum of the terms whose absolute values the bound adds. They are positive if 0 < s < h."""
    params, s, x = drawn(name, depth, 1.0, size=1)
    params = tuple(layer._replace(candidate=layer.candidate._replace(bias=Bias(jnp.full(1, 1.5)))) for layer in params)
    params, s = jax.tree.map(jnp.abs, params), jnp.full_like(s, 0.1)
    derivatives = np.asarray(step_jacobian(CELLS[name].step, params, s, 0 * x))[:, 0, 0]
    np.testing.assert_allclose(derivatives, step_bound(params, s, 0 * x), rtol=1e-4)


def test_a_carrying_network_has_the_bound_one():
    """Eq. 15: with all transform gates closed the Jacobian is the identity."""
    params, s, x = drawn("rhn", 3, 1.0)
    shut = tuple(layer._replace(transform=layer.transform._replace(bias=Bias(jnp.full(SIZE, -1e4)))) for layer in params)
    np.testing.assert_allclose(step_bound(shut, s, x), 1, rtol=1e-6)


def test_largest_singular_values_are_roots_of_eigenvalues():
    params, _, _ = drawn("rhn", 2, 0.5)
    found = matrix_norms(params)
    assert [(one.layer, one.name, one.gamma) for one in found] == [
        (1, "candidate", 1.0), (1, "transform", 0.25), (2, "candidate", 1.0), (2, "transform", 0.25),
    ]  # fmt: skip
    for one in found:
        R = np.asarray(getattr(params[one.layer - 1], one.name).recurrent.to_dense(), np.float64)
        assert one.largest == pytest.approx(np.sqrt(np.linalg.eigvalsh(R.T @ R)[-1]), rel=1e-9)
        assert one.bound == one.gamma * one.largest


def test_products_are_in_the_order_of_time():
    J = np.random.default_rng(0).standard_normal((3, 2, 4, 4))
    np.testing.assert_allclose(products(J)[2], [J[2, i] @ J[1, i] @ J[0, i] for i in range(2)])
    np.testing.assert_array_equal(products(J)[0], J[0])


def test_other_cells_are_refused():
    params = CELLS["gru"].template(CellSpec(INPUTS, SIZE))
    with pytest.raises(UsageError, match="name a run of one of them"):
        matrix_norms(params)
