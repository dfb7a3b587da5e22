"""Batches of a split for loops of one's own: NumPy arrays and lists are taken, and indices that are none are named."""

import jax
import numpy as np
import pytest

from lrpt.errors import UsageError
from lrpt.tasks import Example, Split, Task
from lrpt.training.interface import Interface

ARRAYS = {"x": np.arange(24.0).reshape(6, 4).astype(np.float32), "y": np.arange(6), "key": jax.random.key(0)}
SPLIT = Split(6, ARRAYS, lambda arrays, index: Example(arrays["x"][index], arrays["y"][index]))


@pytest.mark.parametrize("indices", [[4, 0, 4], np.array([4, 0, 4]), jax.numpy.array([4, 0, 4])], ids=["list", "numpy", "jax"])
def test_arrays_and_indices_of_numpy(indices):
    batch = SPLIT.batch(SPLIT.arrays, indices)
    np.testing.assert_array_equal(batch.inputs, ARRAYS["x"][[4, 0, 4]])
    np.testing.assert_array_equal(batch.targets, [4, 0, 4])


@pytest.mark.parametrize(
    ("indices", "given"), [(3, r"int32 of shape \(\)"), ([], "float32"), ([0.5], "float32"), ([[1]], r"int32 of shape \(1, 1\)")]
)
def test_indices_that_are_no_list_of_integers(indices, given):
    with pytest.raises(UsageError, match=rf"indices are {given}.*: give the numbers of examples"):
        SPLIT.batch(SPLIT.arrays, indices)


def test_the_interface_of_a_task_of_numpy_arrays():
    task = Task(dict.fromkeys(("train", "valid", "test"), SPLIT), 4, 6, "last", lambda logits, batch: {})
    assert Interface.of(task).step == (4,)
