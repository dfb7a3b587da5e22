"""Tests of the contract that every task fulfils."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from table import assert_equal

from lrpt.tasks import Adding, Chorales, CopyMemory, NextByte, NextSymbol, NextWord, PermutedImages

TASKS = {
    "copy": CopyMemory(lag=7, train_size=40, test_size=9),
    "copy, variable length": CopyMemory("variable_length", lag=7, train_size=40, test_size=9),
    "copy, variable lag": CopyMemory("variable_lag", lag=7, train_size=40, test_size=9),
    "adding": Adding(length=11, train_size=40, test_size=9),
    "adding, markers anywhere": Adding(length=11, train_size=40, test_size=9, test_markers="anywhere"),
    "digits": PermutedImages(),
    "digits, row by row": PermutedImages(permuted=False),
    "sentences": NextSymbol(),
    "stream": NextSymbol(reading="stream"),
    "words": NextWord(),
    "bytes": NextByte(),
    "chorales": Chorales(length=12),
}

pytestmark = pytest.mark.parametrize("config", TASKS.values(), ids=TASKS)


@cache
def compiled(config, name, seed=1):
    """Compile the batches of a split."""
    split = config.build(seed).splits[name]
    return split, jax.jit(split.batch)


def batch(config, name, indices, seed=1):
    split, make = compiled(config, name, seed)
    return make(split.arrays, jnp.asarray(indices))


@pytest.mark.parametrize("name", ["train", "test"])
def test_an_example_depends_on_nothing_but_its_index(config, name):
    first, last = batch(config, name, [5, 0, 7]), batch(config, name, [8, 2, 5])
    assert_equal(jax.tree.map(lambda a: a[0], first), jax.tree.map(lambda a: a[2], last))


def test_the_seed_is_read_from_the_arrays_alone(config):
    """One compiled program can then serve every seed."""
    one, make = compiled(config, "train", 1)
    two, _ = compiled(config, "train", 2)
    assert one.size == two.size
    assert_equal(jax.tree.map(np.shape, one.arrays), jax.tree.map(np.shape, two.arrays))
    assert_equal(make(two.arrays, jnp.array([0, 3, 4])), batch(config, "train", [0, 3, 4], 2))


def test_a_task_built_again_is_the_same(config):
    one, two = (config.build(3).splits for _ in range(2))
    assert_equal({name: one[name].arrays for name in one}, {name: two[name].arrays for name in two})


def test_seeds_differ_where_anything_is_random(config):
    one, two = (batch(config, "train", [0, 1, 2], seed).inputs for seed in (1, 2))
    random = not isinstance(config, NextByte | NextSymbol | NextWord) and getattr(config, "permuted", True)
    assert np.array_equal(one, two) != random


def predictions_shape(task, examples):
    return (*examples.inputs.shape[: 2 if task.reads == "all" else 1], task.output_size)


def test_shapes_are_those_the_task_names(config):
    task = config.build(0)
    examples = batch(config, "train", [0, 1, 2])
    if jnp.issubdtype(examples.inputs.dtype, jnp.integer):
        assert examples.inputs.ndim == 2
        assert 0 <= examples.inputs.min() <= examples.inputs.max() < task.input_size
    else:
        assert examples.inputs.shape[2:] == (task.input_size,)
    assert examples.targets.shape[: 2 if task.reads == "all" else 1] == predictions_shape(task, examples)[:-1]


def test_figures_have_one_value_for_each_example(config):
    task = config.build(0)
    examples = batch(config, "test", [0, 1, 2])
    metrics = task.metrics(jnp.zeros(predictions_shape(task, examples)), examples)
    assert "loss" in metrics
    assert {name: values.shape for name, values in metrics.items()} == dict.fromkeys(metrics, (3,))
    summary = task.summarize({name: float(values.mean()) for name, values in metrics.items()} | {"seen": 5.0})
    assert {"loss", "seen"} < summary.keys() or summary.keys() == {*metrics, "seen"}
    assert all(isinstance(value, float) for value in summary.values())
