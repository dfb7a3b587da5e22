"""Tests of networks at initialization: discs and eigenvalues in cases with known values."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lrpt.analysis.initial_spectra import drawn_params, initialization_sweep, sweep_figure
from lrpt.analysis.jacobian import eigenvalues, gershgorin_discs, step_jacobian
from lrpt.cells import CELLS, CellSpec
from lrpt.errors import UsageError

SILENCE = jnp.zeros((3, 2, 4))
NOISE = jnp.asarray(np.random.default_rng(0).standard_normal((3, 2, 4)), jnp.float32)


def test_an_elman_network_at_zero_has_the_discs_of_its_matrix():
    starts = initialization_sweep("elman", SILENCE, [0.01, 0.1], [40, 80])
    assert [(start.size, start.spread) for start in starts] == [(40, 0.01), (40, 0.1), (80, 0.01), (80, 0.1)]
    for start in starts:
        R = np.asarray(drawn_params(CELLS["elman"].template(CellSpec(4, start.size)), start.spread).candidate.recurrent.kernel, np.float64)
        assert start.spectral_radius == pytest.approx(np.abs(np.linalg.eigvals(R)).max(), rel=1e-5)
        assert start.radius == pytest.approx((np.abs(R).sum() - np.abs(np.diag(R)).sum()) / start.size, rel=1e-5)
        assert start.radius == pytest.approx((start.size - 1) * start.spread * np.sqrt(2 / np.pi), rel=0.05)
        assert start.centre == pytest.approx(np.diag(R).mean(), abs=1e-6)


def test_an_identity_puts_the_discs_around_one():
    (start,) = initialization_sweep("elman", SILENCE, [0.001], [16], identity=True)
    assert start.centre == pytest.approx(1, abs=1e-3)
    assert start.radius < 0.02


@pytest.mark.parametrize("depth", [1, 3])
def test_open_carry_gates_put_the_discs_at_one_whatever_is_drawn(depth):
    starts = initialization_sweep("rhn", NOISE, [0.1, 1.0], [8], depth=depth, carry_bias=1e3)
    assert [start[2:] for start in starts] == [(1, 0, 1)] * 2


def test_the_spectrum_is_that_of_the_last_step():
    (start,) = initialization_sweep("gru", NOISE, [0.5], [5])
    params, step, h = drawn_params(CELLS["gru"].template(CellSpec(4, 5)), 0.5), CELLS["gru"].step, jnp.zeros((2, 5))
    for x in NOISE[:-1]:
        h, _ = step(params, h, x)
    jacobian = step_jacobian(step, params, h, NOISE[-1])
    discs = gershgorin_discs(jacobian)
    assert start[2:4] == pytest.approx((discs.centres.mean(), discs.radii.mean()), rel=1e-5)
    assert start.spectral_radius == pytest.approx(np.abs(eigenvalues(jacobian)).max(axis=-1).mean(), rel=1e-5)


def test_larger_spreads_make_larger_discs_at_states_that_inputs_lead_to():
    starts = initialization_sweep("lstm", NOISE, [0.01, 0.1, 1.0], [6], carry_bias=1.0)
    assert starts[0].radius < starts[1].radius < starts[2].radius


def test_input_matrices_and_biases_are_drawn_too():
    params = drawn_params(CELLS["rhn"].template(CellSpec(300, 50, carry_bias=2.0)), 0.5)
    assert float(jnp.std(params[0].candidate.input.kernel)) == pytest.approx(300**-0.5, rel=0.05)
    np.testing.assert_array_equal(params[0].transform.bias.bias, -2)
    again = drawn_params(CELLS["rhn"].template(CellSpec(300, 50, carry_bias=2.0)), 0.5)
    jax.tree.map(np.testing.assert_array_equal, params, again)


def test_what_cannot_be_drawn_is_refused():
    with pytest.raises(UsageError, match="cell is 'rhm': choose from"):
        initialization_sweep("rhm", SILENCE, [1.0], [2])
    with pytest.raises(UsageError, match="this cell has operators that are not matrices"):
        initialization_sweep("unitary", SILENCE, [1.0], [2])


def test_the_figure_is_a_png(tmp_path):
    starts = initialization_sweep("elman", SILENCE, [0.01, 0.1], [3])
    assert sweep_figure(starts, tmp_path / "sweep.png").read_bytes().startswith(b"\x89PNG")
