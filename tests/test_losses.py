"""Losses and metrics against their definitions in float64."""

import jax.numpy as jnp
import numpy as np
import pytest

from lrpt.losses import cross_entropy, squared_error
from lrpt.metrics import accuracy


@pytest.mark.parametrize("shape", [(4,), (3, 5), (2, 3, 4)])
def test_cross_entropy_is_the_negative_log_of_the_softmax(shape):
    rng = np.random.default_rng(0)
    logits, targets = rng.normal(0, 3, (*shape, 7)), rng.integers(0, 7, shape)
    probabilities = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    expected = -np.log(np.take_along_axis(probabilities, targets[..., None], -1)[..., 0])
    np.testing.assert_allclose(cross_entropy(jnp.asarray(logits, jnp.float32), jnp.asarray(targets)), expected, rtol=2e-5, atol=1e-6)


def test_cross_entropy_of_extreme_logits_is_finite():
    logits = jnp.array([[1e4, -1e4], [-1e4, 1e4]])
    np.testing.assert_array_equal(cross_entropy(logits, jnp.array([0, 0])), [0.0, 2e4])


def test_squared_error_has_no_factor():
    np.testing.assert_array_equal(squared_error(jnp.array([1.0, -2.0]), jnp.array([3.0, -2.0])), [4.0, 0.0])


def test_accuracy_takes_the_most_probable_class_and_the_lowest_of_equals():
    logits = jnp.array([[0.0, 1.0, 0.5], [2.0, 2.0, 1.0], [0.0, 0.0, 1.0]])
    np.testing.assert_array_equal(accuracy(logits, jnp.array([1, 1, 2])), [1.0, 0.0, 1.0])
