"""Tests of metrics of a schedule, by hand, against NumPy, and for sequences of known period; and of the timing of blocks."""

import math
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from table import Row, network

from lrpt.analysis import block_timing
from lrpt.analysis.block_timing import at_constant_schedule, block_sizes, time_steps
from lrpt.analysis.schedules import autocorrelation, explained, group_means, means_by_symbol, operations_on, schedule_figure
from lrpt.cells import Gate
from lrpt.errors import UsageError
from lrpt.matrices import Bias, Dense


def test_autocorrelation_finds_a_period():
    m = np.tile([0.9, 0.1, 0.1, 0.1], 50)
    assert autocorrelation(m, 4) == pytest.approx(1.0)
    assert autocorrelation(m, 0) == pytest.approx(1.0)
    assert autocorrelation(m, 2) == pytest.approx(-1 / 3, abs=0.02)
    noise = np.random.default_rng(0).standard_normal(4000)
    assert abs(autocorrelation(noise, 3)) < 0.05
    assert autocorrelation(noise, 1) == pytest.approx(np.corrcoef(noise[:-1], noise[1:])[0, 1], abs=1e-3)


def test_autocorrelation_is_relative_to_the_variance_of_all_steps():
    """Deviations from the mean are -1, -1, 0 and 2: the mean product of neighbours is 1/3, the mean square 3/2."""
    assert autocorrelation(np.array([0.0, 0.0, 1.0, 3.0]), 1) == pytest.approx(2 / 9)


@pytest.mark.parametrize("lag", [-1, 5])
def test_a_lag_that_the_schedule_does_not_have(lag):
    with pytest.raises(UsageError, match=rf"the lag is {lag}, and the schedule has 5 steps"):
        autocorrelation(np.arange(5.0), lag)


def test_what_explains_a_schedule():
    place = np.arange(12) % 4
    assert explained(np.array([0.1, 0.5, 0.2, 0.9])[place], place.tolist()) == pytest.approx(1)
    assert explained(np.array([0.0, 1.0, 1.0, 0.0]), ["a", "a", "b", "b"]) == 0
    assert explained(np.array([0.0, 0, 0, 1]), "aaab") == pytest.approx(1)  # groups count by their sizes
    assert explained(np.array([0.0, 0.2, 0.8, 1.0]), "aabb") == pytest.approx(1 - 0.04 / (0.64 + 0.04))


@pytest.mark.parametrize(("value", "steps"), [(0.5, 4), (0.3, 5), (0.1, 7)])
def test_a_constant_schedule_has_no_period_and_nothing_to_explain(value, steps):
    """The mean of seven numbers 0.1 is not 0.1."""
    m = np.full(steps, value)
    assert autocorrelation(m, 2) == 0
    assert explained(m, "aabbccc"[:steps]) == 0


def test_means_by_symbol():
    found = means_by_symbol(np.array([0.2, 0.9, 0.4]), ["a", "b", "a"])
    assert list(found) == ["b", "a"]
    assert found["a"] == (pytest.approx(0.3), 2)


@pytest.mark.slow
def test_figure(tmp_path):
    rng = np.random.default_rng(0)
    for mask in (None, rng.random((130, 4))):
        path = schedule_figure(rng.random((130, 2)), ["a"] * 130, tmp_path / "figures" / "schedule.png", mask)
        assert path.stat().st_size > 0
        path.unlink()


def test_a_control_knows_a_group_alone():
    m, group = np.array([0.2, 0.4, 0.9, 0.7]), np.array([False, False, True, True])
    np.testing.assert_allclose(group_means(m, group), [0.3, 0.3, 0.8, 0.8])
    np.testing.assert_allclose(group_means(m, ~group), [0.3, 0.3, 0.8, 0.8])
    np.testing.assert_allclose(group_means(m, np.ones(4, bool)), np.full(4, 0.55))


def test_operations_on_a_group_are_squares():
    assert operations_on(np.array([0.2, 0.4, 0.1]), np.array([True, False, True])) == pytest.approx(0.05 / 0.21)


def test_sizes_of_blocks():
    assert block_sizes(1000, 4) == (250, 500, 750, 1000)
    assert block_sizes(3, 8) == (1, 2, 3)


def test_what_is_timed_is_counted_too():
    net = network(Row("vcgru", "dense"))
    n = net.xs.shape[-1]
    found = {one.name: one for one in time_steps("vcgru", net.params, net.carry[:1], net.xs[:, :1], (0.5, 1.0), count=2, rounds=2)}
    assert set(found) == {"unit", "unit of equal operations", "masked", "blocks, m = 0.5", "blocks, m = 1", "blocks, as trained"}
    assert all(len(one.microseconds) == 2 and min(one.microseconds) > 0 for one in found.values())
    counts = {name: one.multiplications for name, one in found.items()}
    assert counts["unit"] == 6 * n * n
    mean_square = (counts["blocks, as trained"] - 2 * n) / 6
    assert counts["unit of equal operations"] == 6 * round(mean_square**0.5) ** 2
    assert counts["masked"] == counts["blocks, m = 1"] == 6 * n * n + 2 * n
    assert counts["blocks, m = 0.5"] == pytest.approx(6 * 3 * 3 + 2 * n)
    assert found["blocks, m = 0.5"].proportion == pytest.approx(0.5)
    assert 0 < found["blocks, as trained"].proportion < 1


@pytest.mark.parametrize("rounding", ["ceil", "floor"])
@pytest.mark.parametrize("n", [6, 200, 256, 1000, 1024])
def test_constant_schedules_update_the_dimensions_that_they_name(n, rounding):
    """In float32, the logistic function of log(0.75 / 0.25) is above 0.75: one dimension more, and so the next larger block."""
    scheduler = Gate(*(Dense(jnp.zeros((n, 1))) for _ in range(2)), Bias(jnp.zeros(1)))
    params = network(Row("vcrnn", "dense")).params._replace(scheduler=scheduler)
    for m in (0.1, 0.25, 0.3, 0.5, 0.75, 1.0):
        (bias,) = jax.tree.leaves(at_constant_schedule(params, m, rounding).scheduler.bias)
        expected = {"ceil": math.ceil, "floor": math.floor}[rounding](Fraction(str(m)) * n)
        assert {"ceil": jnp.ceil, "floor": jnp.floor}[rounding](jax.nn.sigmoid(bias) * n) == expected, m


def test_microseconds_are_those_of_a_step(monkeypatch):
    net = network(Row("vcgru", "dense"))
    monkeypatch.setattr(block_timing, "in_turns", lambda contenders, rounds: {name: [1e-3] * rounds for name in contenders})
    for one in time_steps("vcgru", net.params, net.carry[:1], net.xs[:, :1], (0.5,), count=2, rounds=2):
        assert one.microseconds == pytest.approx([1e3 / len(net.xs)] * 2)
