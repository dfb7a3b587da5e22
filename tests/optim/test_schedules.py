"""Tests of learning rate schedules that follow the validation error, against the original's counting and inside an optimizer."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from lrpt.optim import OptimConfig, halve_when_stalled, never_stalled, stalled_for_good

halve = jax.jit(halve_when_stalled, static_argnames="patience")


def annealer(errors, patience):
    """Return the factor after each evaluation, like incremental_annealer.py of lowrank-highwaynetwork."""
    best, best_at, annealed_at, factor, factors = np.inf, -1, -1, 1.0, []
    for i, error in enumerate(errors):
        if error < best:
            best, best_at = error, i
        if i - max(best_at, annealed_at) >= patience:
            factor, annealed_at = factor / 2, i
        factors.append(factor)
    return factors


def factors(errors, patience=3):
    state, out = never_stalled(), []
    for error in errors:
        state, factor = halve(state, error, patience=patience)
        out.append(float(factor))
    return out


@pytest.mark.parametrize("patience", [1, 3])
@pytest.mark.parametrize("seed", range(4))
def test_halves_where_the_original_does(patience, seed):
    errors = np.float32(np.round(np.random.default_rng(seed).uniform(0, 1, 40) ** 3, 2)).tolist()
    expected = annealer(errors, patience)
    assert expected[-1] < 0.25
    assert factors(errors, patience) == expected


def test_three_epochs_without_a_new_best():
    assert factors([3.0, 2.0, 2.0, 2.5, 2.0, 1.0, 1.0, 1.0, 1.0]) == [1.0] * 4 + [0.5] * 4 + [0.25]


def test_the_smallest_improvement_counts_and_nan_does_not():
    below = float(np.nextafter(np.float32(1), np.float32(0)))
    assert factors([1.0, 2.0, 2.0, below, 2.0, 2.0]) == [1.0] * 6
    assert factors([1.0, np.nan, np.nan, np.nan]) == [1.0, 1.0, 1.0, 0.5]


def test_fourteen_halvings_and_the_end():
    state, errors = never_stalled(), jnp.ones(1 + 3 * 15)
    ended = []
    for error in errors:
        state, factor = halve(state, error)
        ended.append(bool(stalled_for_good(state)))
    assert float(factor) == 0.5**15
    assert ended == [False] * 45 + [True]
    assert not stalled_for_good(state, halvings=15)
    assert OptimConfig("adam").halvings == 14


def test_state_is_scalars_that_survive_a_round_trip_and_several_at_once():
    """Seeds that train side by side and checkpoints need this."""
    state = jax.tree.map(lambda leaf: jnp.stack([leaf] * 2), never_stalled())
    for errors in ([1.0, 3.0], [1.0, 2.0], [1.0, 1.0]):
        state, _ = jax.vmap(halve_when_stalled)(state, jnp.array(errors))
    state = jax.tree.map(lambda leaf: jnp.asarray(np.asarray(leaf)), state)
    _, scale = jax.vmap(halve_when_stalled)(state, jnp.ones(2))
    np.testing.assert_array_equal(scale, [0.5, 1.0])


def test_the_factor_reaches_an_optimizer_whose_learning_rate_is_state():
    optimizer = optax.inject_hyperparams(optax.adam)(learning_rate=3e-3)
    params, gradient = jnp.ones(3), jnp.array([1.0, -2.0, 0.5])
    opt_state = optimizer.init(params)
    full, _ = optimizer.update(gradient, opt_state, params)
    halved, _ = optimizer.update(gradient, optax.tree.set(opt_state, learning_rate=jnp.float32(3e-3 * 0.5)), params)
    np.testing.assert_allclose(halved, 0.5 * full, rtol=1e-6)
