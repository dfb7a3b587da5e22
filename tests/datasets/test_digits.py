"""Digits without importing scikit-learn: its images, its labels and its split."""

import numpy as np
import pytest
from sklearn.datasets import load_digits as published
from sklearn.model_selection import train_test_split

from lrpt.datasets import digits
from lrpt.errors import UsageError


def test_images_and_split_are_those_of_scikit_learn():
    images, labels = published(return_X_y=True)
    rest, test = train_test_split(np.arange(len(labels)), test_size=300, stratify=labels, random_state=0)
    train, valid = train_test_split(rest, test_size=300, stratify=labels[rest], random_state=0)
    for name, rows in (("train", train), ("valid", valid), ("test", test)):
        found = digits.load_digits()[name]
        np.testing.assert_array_equal(found[0], images[rows])
        np.testing.assert_array_equal(found[1], labels[rows])


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("held_out", [7, 40])
def test_any_split_is_that_of_scikit_learn(seed, held_out):
    labels = np.random.default_rng(seed).integers(0, 4, 100)
    expected = train_test_split(np.arange(100), test_size=held_out, stratify=labels, random_state=0)
    for found, rows in zip(digits.stratified_split(labels, held_out), expected, strict=True):
        np.testing.assert_array_equal(found, rows)


def test_without_scikit_learn_it_says_what_to_install(monkeypatch):
    monkeypatch.setattr(digits, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match="pip install scikit-learn"):
        digits.load_digits()
