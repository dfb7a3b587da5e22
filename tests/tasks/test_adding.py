"""Tests of the adding task against the paper's text."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lrpt.tasks import Adding

COUNT = 3000


@cache
def sequences(split, markers="halves", length=11):
    task = Adding(length, train_size=COUNT, test_size=COUNT, test_markers=markers).build(0)
    made = task.splits[split]
    return jax.tree.map(np.asarray, jax.jit(made.batch)(made.arrays, jnp.arange(COUNT)))


def marked(inputs):
    """Return the two marked steps of each sequence, in order of time."""
    assert set(np.unique(inputs[..., 1])) <= {0.0, 1.0}
    np.testing.assert_array_equal(inputs[..., 1].sum(1), 2.0)
    return np.nonzero(inputs[..., 1])[1].reshape(-1, 2)


@pytest.mark.parametrize(("split", "markers"), [("train", "halves"), ("train", "anywhere"), ("test", "halves"), ("test", "anywhere")])
def test_the_target_is_the_sum_of_the_marked_numbers(split, markers):
    inputs, targets, _ = sequences(split, markers)
    numbers = inputs[..., 0].astype(np.float64)
    assert numbers.min() >= 0
    assert numbers.max() < 1
    assert abs(numbers.mean() - 0.5) < 0.01
    np.testing.assert_allclose(targets, np.take_along_axis(numbers, marked(inputs), 1).sum(1), rtol=1e-6)


@pytest.mark.parametrize(("split", "length"), [("train", 11), ("test", 11), ("train", 10), ("train", 2)])
def test_one_mark_in_each_half(split, length):
    first, second = marked(sequences(split, length=length)[0]).T
    np.testing.assert_array_equal(np.unique(first), np.arange(length // 2))
    np.testing.assert_array_equal(np.unique(second), np.arange(length // 2, length))


def test_the_second_marker_does_not_follow_from_the_first():
    pairs, counts = np.unique(marked(sequences("train")[0]), axis=0, return_counts=True)
    assert len(pairs) == 5 * 6
    assert counts.min() > COUNT / 30 / 2


def test_marks_anywhere_are_every_pair_equally_often_and_only_in_the_test():
    pairs, counts = np.unique(marked(sequences("test", "anywhere")[0]), axis=0, return_counts=True)
    assert len(pairs) == 55
    assert np.sum((counts - COUNT / 55) ** 2) / (COUNT / 55) < 100  # 54 degrees of freedom: exceeded by chance in 2 of 10,000 draws
    first, second = marked(sequences("train", "anywhere")[0]).T
    assert first.max() < 5 <= second.min()


def test_predicting_one_has_the_loss_of_the_variance():
    task = Adding().build(0)
    test = task.splits["test"]
    examples = jax.jit(test.batch)(test.arrays, jnp.arange(5000))
    assert examples.inputs.shape == (5000, 750, 2)
    assert abs(float(task.metrics(jnp.ones((5000, 1)), examples)["loss"].mean()) - 1 / 6) < 0.01
    assert (task.splits["train"].size, test.size) == (100_000, 10_000)
    assert task.splits["valid"] is test
