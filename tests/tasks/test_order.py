"""Tests of the order of examples: complete, without repetition, and independent of the update it is computed from."""

import time
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lrpt.errors import UsageError
from lrpt.tasks import ORDERS, batch_indices, evaluation_batches, evaluation_streams

sizes = st.sampled_from([(1, 1), (7, 1), (7, 3), (8, 4), (50, 7), (50, 50)])
seeds = st.integers(0, 2**40)
updates = st.integers(0, 10**6)


@given(kind=st.sampled_from(ORDERS), size=sizes, seed=seeds, update=updates)
def test_batches_asked_one_by_one_are_those_asked_together(kind, size, seed, update):
    together = batch_indices(kind, *size, seed, update, 5)
    assert together.shape == (5, size[1])
    assert together.dtype == np.int32
    for i in (4, 0, 2):
        np.testing.assert_array_equal(batch_indices(kind, *size, seed, update + i, 1)[0], together[i])


@given(kind=st.sampled_from(ORDERS), size=sizes, seed=seeds, update=updates)
def test_no_example_is_twice_in_a_batch(kind, size, seed, update):
    for row in batch_indices(kind, *size, seed, update, 5):
        assert len(set(row.tolist())) == size[1]
        assert 0 <= row.min() <= row.max() < size[0]


@pytest.mark.parametrize("kind", ["epochs", "cyclic", "file", "stream"])
@given(size=sizes, seed=seeds, epoch=st.integers(0, 1000))
def test_an_epoch_has_every_example_once_but_for_an_incomplete_batch(kind, size, seed, epoch):
    per_epoch = size[0] // size[1]
    seen = batch_indices(kind, *size, seed, epoch * per_epoch, per_epoch).ravel()
    assert len(seen) == len(set(seen.tolist())) == per_epoch * size[1]


def test_epochs_differ_and_the_cycle_repeats():
    first, second = (batch_indices("epochs", 60, 20, 0, update, 3) for update in (0, 3))
    assert not np.array_equal(first, second)
    first, second = (batch_indices("cyclic", 60, 20, 0, update, 3) for update in (0, 300))
    np.testing.assert_array_equal(first, second)


def test_reshuffled_batches_are_independent_of_each_other():
    rows = batch_indices("reshuffle", 50, 20, 0, 0, 5000)
    counts = np.bincount(rows.ravel(), minlength=50)
    assert np.all(np.abs(counts - 2000) < 5 * np.sqrt(5000 * 0.4 * 0.6))
    overlap = np.mean([len(np.intersect1d(a, b)) for a, b in pairwise(rows[:1000])])
    assert abs(overlap - 8) < 0.3  # 20 x 20 / 50; batches of one permutation would share none


@pytest.mark.parametrize("kind", ORDERS)
def test_seeds_differ_but_in_file_order_and_for_streams(kind):
    is_equal = np.array_equal(batch_indices(kind, 100, 20, 0, 0, 2), batch_indices(kind, 100, 20, 1, 0, 2))
    assert is_equal == (kind in ("file", "stream"))


@given(size=sizes, seed=seeds, update=updates)
def test_a_row_of_a_stream_reads_its_part_in_order(size, seed, update):
    count, rows = size
    part = count // rows
    for i, batch in enumerate(batch_indices("stream", count, rows, seed, update, 5)):
        assert batch.tolist() == [row * part + (update + i) % part for row in range(rows)]


@pytest.mark.parametrize("kind", ORDERS)
def test_a_batch_far_along_costs_no_more_than_an_early_one(kind):
    batch_indices(kind, 100_000, 20, 0, 10**9, 1)
    start = time.perf_counter()
    batch_indices(kind, 100_000, 20, 0, 10**9, 100)
    assert time.perf_counter() - start < 0.5


@pytest.mark.parametrize(("batch_size", "kind"), [(0, "epochs"), (-1, "cyclic"), (11, "reshuffle")])
def test_a_batch_that_cannot_be_filled_is_refused(batch_size, kind):
    with pytest.raises(UsageError, match=f"train.batch_size is {batch_size}, .* 10 training examples"):
        batch_indices(kind, 10, batch_size, 0, 0, 1)
    with pytest.raises(UsageError, match="the task has 0 training examples: give it one or more"):
        batch_indices(kind, 0, 5, 0, 0, 1)


def test_an_unknown_order_is_refused():
    with pytest.raises(UsageError, match=r"train.order is 'random': choose from epochs, reshuffle, cyclic, file, stream"):
        batch_indices("random", 10, 2, 0, 0, 1)


@pytest.mark.parametrize("size", [1, 5, 6, 7, 12])
@pytest.mark.parametrize("batch_size", [1, 3, 6, 20])
def test_evaluation_has_every_example_once_and_padding_without_weight(size, batch_size):
    indices, weights = evaluation_batches(size, batch_size)
    assert indices.shape == weights.shape == (-(-size // batch_size), batch_size)
    np.testing.assert_array_equal(indices[weights == 1], np.arange(size))
    assert weights.sum() == size
    assert np.all(indices < size)


@pytest.mark.parametrize("size", [1, 5, 6, 7, 12])
@pytest.mark.parametrize("streams", [1, 3, 6, 20])
def test_evaluation_streams_read_every_example_once_in_order(size, streams):
    indices, weights = evaluation_streams(size, streams)
    assert indices.shape == weights.shape == (-(-size // streams), streams)
    np.testing.assert_array_equal(indices.T[weights.T == 1], np.arange(size))
    assert weights.sum() == size
    assert np.all(indices < size)
    assert np.all(np.diff(weights, axis=0) <= 0)


def test_devices_change_no_evaluation_stream():
    (alone, weights), (indices, padded) = evaluation_streams(7, 3), evaluation_streams(7, 3, multiple=2)
    assert indices.shape == (3, 4)
    np.testing.assert_array_equal((indices[:, :3], padded[:, :3]), (alone, weights))
    assert not padded[:, 3].any()
    assert evaluation_streams(7, 4, multiple=2)[0].shape == (2, 4)


@pytest.mark.parametrize("devices", [1, 2, 3, 4])
def test_evaluation_streams_are_padded_to_the_next_multiple_of_the_devices(devices):
    widths = [evaluation_streams(7, streams, devices)[0].shape[1] for streams in range(1, 8)]
    assert widths == [next(width for width in range(streams, 20) if width % devices == 0) for streams in range(1, 8)]


def test_one_evaluation_stream_is_the_order_of_the_file():
    indices, weights = evaluation_streams(7, 1)
    np.testing.assert_array_equal(indices[:, 0], np.arange(7))
    np.testing.assert_array_equal(weights, 1)


LONG_TAIL = np.random.default_rng(0).lognormal(5, 0.7, 690).astype(np.int32) + 20
"""Lengths like those of the pieces of Nottingham: mostly about 200 steps, a few above 1,000."""


def by_length(epochs):
    return [batch_indices("lengths", 690, 32, 3, 21 * epoch, 21, LONG_TAIL) for epoch in range(epochs)]


def steps_padded(batches):
    """Count the steps of padding in batches that are as long as their longest row."""
    return int((LONG_TAIL[batches].max(axis=1, keepdims=True) - LONG_TAIL[batches]).sum())


def test_batches_by_length_have_little_padding():
    (batches,) = by_length(1)
    shuffled = batch_indices("epochs", 690, 32, 3, 0, 21)
    assert steps_padded(shuffled) > 1.5 * LONG_TAIL[shuffled].sum()
    assert steps_padded(batches) < 0.35 * LONG_TAIL[batches].sum()


def test_batches_by_length_differ_between_epochs_and_come_in_any_order():
    epochs = by_length(20)
    assert all(len(set(epoch.ravel().tolist())) == 21 * 32 for epoch in epochs)
    assert not set(map(frozenset, epochs[0].tolist())) & set(map(frozenset, epochs[1].tolist()))
    assert {int(i) for epoch in epochs for i in epoch.ravel()} == set(range(690)), "some examples are never drawn"
    means = np.mean([LONG_TAIL[epoch].mean(axis=1) for epoch in epochs], axis=0)
    assert abs(np.corrcoef(np.arange(21), means)[0, 1]) < 0.5, "the place of a batch depends on its length"


@pytest.mark.parametrize(("longer", "mixed"), [(115, True), (121, True), (124, False)])
def test_lengths_are_changed_by_up_to_a_tenth_before_they_are_sorted(longer, mixed):
    """A hundred sequences of 100 steps and a hundred longer ones share a batch only if 1.1 times 100 is above 0.9 times the other."""
    lengths = np.repeat([100, longer], 100)
    batches = batch_indices("lengths", 200, 10, 0, 0, 20, lengths)
    assert any(len(set(batch)) == 2 for batch in lengths[batches].tolist()) == mixed


def test_batches_of_a_seed_are_those_of_earlier_versions():
    """Else a run that is resumed would read other examples than it has left, and a kept result could not be computed again."""

    def draws(*of):
        return np.random.default_rng((0x0B47C4E5, 7, *of))

    found = {kind: batch_indices(kind, 10, 4, 7, 5, 1, np.arange(10))[0].tolist() for kind in ORDERS}  # update 5 is the second of epoch 2
    rng = draws(2, 2)
    drawn = rng.permutation(10)[:8]
    by_length = sorted(zip(drawn * rng.uniform(0.9, 1.1, 8), drawn.tolist(), strict=True))
    assert found == {
        "epochs": draws(0, 2).permutation(10)[4:8].tolist(),
        "reshuffle": draws(1, 5).choice(10, 4, replace=False).tolist(),
        "cyclic": draws(0, 0).permutation(10)[4:8].tolist(),
        "file": [4, 5, 6, 7],
        "stream": [1, 3, 5, 7],
        "lengths": [number for _, number in by_length[4 * rng.permutation(2)[1] :][:4]],
    }


def test_evaluation_by_length_has_every_example_once_shortest_first():
    indices, weights = evaluation_batches(10, 4, np.arange(10)[::-1])
    assert indices[weights == 1].tolist() == list(range(9, -1, -1))
    assert indices[weights == 0].tolist() == [9, 9]
