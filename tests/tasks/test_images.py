"""Tests of images as sequences: pixels, their order, and the splits."""

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.datasets import load_digits

from lrpt.tasks import PermutedImages

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


def test_the_division_into_parts_does_not_depend_on_the_seed():
    one, two = (PermutedImages().build(seed) for seed in (0, 1))
    for name in SPLITS:
        np.testing.assert_array_equal(one.splits[name].arrays["images"], two.splits[name].arrays["images"])
