"""Tests of images as sequences and as vectors: pixels, their order, the splits, and the loss of scores."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.datasets import load_digits

from lrpt.tasks import ImageVectors, PermutedImages
from lrpt.tasks.images import in_original_order
from lrpt.tasks.task import Example

SPLITS = ("train", "valid", "test")


def examples(task, name):
    split = task.splits[name]
    return jax.tree.map(np.asarray, jax.jit(split.batch)(split.arrays, jnp.arange(split.size)))


def in_rows(array):
    return array[np.lexsort(array.T)]


def test_the_three_parts_are_all_of_the_digits_and_each_digit_is_in_one():
    task = PermutedImages(permuted=False).build(0)
    parts = [examples(task, name) for name in SPLITS]
    assert [len(part.targets) for part in parts] == [1197, 300, 300]
    made = np.concatenate([np.column_stack([part.inputs[..., 0] * 16, part.targets]) for part in parts])
    images, labels = load_digits(return_X_y=True)
    np.testing.assert_array_equal(in_rows(made), in_rows(np.column_stack([images, labels])))


def test_every_class_has_its_share_in_each_part():
    task = PermutedImages().build(0)
    whole = np.bincount(load_digits(return_X_y=True)[1]) / 1797
    for name in SPLITS:
        split = task.splits[name]
        assert np.all(np.abs(np.bincount(split.arrays["labels"]) - whole * split.size) < 2)


def test_pixels_are_fractions_of_the_brightest():
    inputs = examples(PermutedImages().build(0), "train").inputs
    assert inputs.shape == (1197, 64, 1)
    assert inputs.dtype == np.float32
    assert (inputs.min(), inputs.max()) == (0.0, 1.0)


def test_the_order_is_one_permutation_for_all_splits_and_another_for_another_seed():
    plain, permuted = (PermutedImages(permuted=flag).build(4) for flag in (False, True))
    orders = [np.asarray(split.arrays["order"]) for split in permuted.splits.values()]
    np.testing.assert_array_equal(np.sort(orders[0]), np.arange(64))
    for name, order in zip(SPLITS, orders, strict=True):
        np.testing.assert_array_equal(order, orders[0])
        np.testing.assert_array_equal(examples(permuted, name).inputs, examples(plain, name).inputs[:, order])
    assert not np.array_equal(orders[0], PermutedImages().build(5).splits["train"].arrays["order"])


def test_the_original_order_is_that_of_the_2016_code_for_every_seed():
    """RNN_mnist.py seeds NumPy with 1234, shuffles training and validation images, and then draws the order of the pixels."""
    np.random.seed(1234)
    shuffled = {}
    for name, size in (("train", 1197), ("valid", 300)):
        shuffled[name] = list(range(size))
        np.random.shuffle(shuffled[name])
    pixels = np.random.permutation(64)
    plain = PermutedImages(permuted=False).build(0)
    for seed in (0, 7):
        task = PermutedImages(order="original").build(seed)
        for name in SPLITS:
            found, expected = examples(task, name), examples(plain, name)
            images = shuffled.get(name, slice(None))
            np.testing.assert_array_equal(found.inputs, np.asarray(expected.inputs)[images][:, pixels])
            np.testing.assert_array_equal(found.targets, np.asarray(expected.targets)[images])


def test_the_original_order_of_the_pixels_of_mnist_starts_as_in_2016():
    images = {name: (np.zeros((size, 784), np.uint8), np.zeros(size)) for name, size in (("train", 50_000), ("valid", 10_000))}
    assert in_original_order(images)[1][:8].tolist() == [538, 505, 546, 510, 734, 548, 542, 590]


def test_an_order_of_images_that_are_read_row_by_row_is_unused():
    assert PermutedImages("mnist", permuted=False, order="original").unused == {"order": "data.permuted is False"}
    assert PermutedImages("mnist").unused == {}


def test_the_division_into_parts_does_not_depend_on_the_seed():
    one, two = (PermutedImages().build(seed) for seed in (0, 1))
    for name in SPLITS:
        np.testing.assert_array_equal(one.splits[name].arrays["images"], two.splits[name].arrays["images"])


def test_vectors_are_the_pixels_of_sequences_row_by_row():
    vectors, sequences = ImageVectors().build(0), PermutedImages(permuted=False).build(0)
    assert vectors.input_size == 64
    for name in SPLITS:
        found, expected = examples(vectors, name), examples(sequences, name)
        np.testing.assert_array_equal(found.inputs, expected.inputs[..., 0])
        np.testing.assert_array_equal(found.targets, expected.targets)


@pytest.mark.parametrize("over", ["sum", "mean"])
def test_the_loss_of_scores_combines_classes_as_configured(over):
    """A score of 2 is sure of the target. One of -0.5 costs 0.5^2 for another class, and one of 1 costs 2^2."""
    task = ImageVectors(over=over).build(0)
    scores = jnp.full((2, 10), -1.0).at[:, 3].set(2.0).at[0, 4].set(-0.5).at[1, 4].set(1.0)
    metrics = task.metrics(scores, Example(jnp.zeros((2, 64)), jnp.array([3, 3])))
    np.testing.assert_allclose(metrics["loss"], np.array([0.25, 4.0]) / (1 if over == "sum" else 10))
    np.testing.assert_array_equal(metrics["accuracy"], 1)


@pytest.mark.parametrize("seed", [0, 4])
def test_the_order_of_a_seed_is_that_of_earlier_versions(seed):
    """Else a run that is resumed, or kept weights, would read the pixels in another order."""
    expected = np.random.default_rng(seed).permutation(64)
    for split in PermutedImages().build(seed).splits.values():
        np.testing.assert_array_equal(split.arrays["order"], expected)
