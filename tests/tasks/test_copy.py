"""Tests of the copy tasks against the paper's text, step by step, and against the losses of a network without memory."""

from dataclasses import replace
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lrpt.tasks import Adding, CopyMemory
from lrpt.tasks.synthetic import copy_metrics
from lrpt.tasks.task import Example

VARIANTS = ("fixed", "variable_length", "variable_lag")
N, COUNT = 9, 2000


@cache
def sequences(variant):
    train = CopyMemory(variant, lag=N).build(0).splits["train"]
    return jax.tree.map(np.asarray, jax.jit(train.batch)(train.arrays, jnp.arange(COUNT)))


def in_words(data, blanks, steps):
    """Describe a sequence: `data` symbols, blanks, the run symbol, then blanks. Data must be written right after the run symbol."""
    inputs = [*data, *[8] * blanks, 9]
    targets = [8] * len(inputs) + list(data)
    return inputs + [8] * (steps - len(inputs)), targets + [8] * (steps - len(targets))


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_sequence_is_as_the_paper_describes_it(variant):
    inputs, targets, _ = sequences(variant)
    assert inputs.shape == targets.shape == (COUNT, N + 20)
    for row, target in zip(inputs, targets, strict=True):
        data = row[: np.argmax(row >= 8)]
        blanks = int(np.argmax(row == 9)) - len(data)
        assert len(data) in (range(1, 11) if variant == "variable_length" else [10])
        assert blanks in (range(N) if variant == "variable_lag" else [N - 1])
        expected = in_words(data, blanks, N + 20)
        np.testing.assert_array_equal((row, target), expected)


@pytest.mark.parametrize("variant", VARIANTS)
def test_draws_are_uniform(variant):
    inputs, _, _ = sequences(variant)
    lengths = np.sum(inputs < 8, axis=1)
    draws = {"data": (inputs[inputs < 8], 8)}
    if variant == "variable_length":
        draws["length"] = lengths - 1, 10
    if variant == "variable_lag":
        draws["lag"] = np.argmax(inputs == 9, axis=1) - 10, N
    for values, choices in draws.values():
        counts = np.bincount(values, minlength=choices)
        assert counts.size == choices
        chi_squared = np.sum((counts - values.size / choices) ** 2) / (values.size / choices)
        assert chi_squared < 30  # at most 9 degrees of freedom: exceeded by chance in 4 of 10,000 draws


def test_the_paper_sizes_are_the_defaults():
    config = CopyMemory()
    task = config.build(0)
    assert (config.variant, config.lag, config.length) == ("fixed", 500, 520)
    assert (task.splits["train"].size, task.splits["test"].size) == (100_000, 10_000)
    assert task.splits["valid"] is task.splits["test"]


def test_test_sequences_follow_the_training_sequences_in_one_stream():
    test = CopyMemory("fixed", lag=N, train_size=COUNT - 5).build(0).splits["test"]
    np.testing.assert_array_equal(jax.jit(test.batch)(test.arrays, jnp.arange(5)).inputs, sequences("fixed").inputs[-5:])


def without_memory(targets):
    """Return the best predictions without memory: blanks where no data are written, else 1/8 for each data symbol."""
    blank = jnp.where(jnp.arange(10) == 8, 0.0, -jnp.inf)
    guess = jnp.where(jnp.arange(10) < 8, 0.0, -jnp.inf)
    return jnp.where((targets == 8)[..., None], blank, guess)


# Published baselines: 10 ln 8 / 520, 10 ln 8 / 120, and 5.5 ln 8 / 120 for lengths that are uniform on 1..10.
@pytest.mark.parametrize(
    ("variant", "lag", "loss", "tolerance"),
    [("fixed", 500, 0.03999, 1e-5), ("variable_lag", 100, 0.17329, 1e-5), ("variable_length", 100, 0.0953, 0.004)],
)
def test_loss_without_memory(variant, lag, loss, tolerance):
    task = CopyMemory(variant, lag=lag).build(0)
    test = task.splits["test"]
    examples = jax.jit(test.batch)(test.arrays, jnp.arange(1000))
    metrics = task.metrics(without_memory(examples.targets), examples)
    assert abs(float(metrics["loss"].mean()) - loss) < tolerance


def test_figures_are_means_over_steps_and_recall_is_over_the_data():
    rng = np.random.default_rng(0)
    inputs, targets, _ = (part[:6] if part is not None else None for part in sequences("variable_length"))
    logits = rng.normal(size=(*targets.shape, 10))
    metrics = copy_metrics(jnp.asarray(logits, jnp.float32), Example(jnp.asarray(inputs), jnp.asarray(targets)))
    for i, target in enumerate(targets):
        probabilities = np.exp(logits[i]) / np.exp(logits[i]).sum(-1, keepdims=True)
        hits = logits[i].argmax(-1) == target
        np.testing.assert_allclose(metrics["loss"][i], -np.mean(np.log(probabilities[np.arange(len(target)), target])), rtol=1e-5)
        np.testing.assert_allclose(metrics["accuracy"][i], hits.mean(), rtol=1e-6)
        np.testing.assert_allclose(metrics["recall"][i], hits[target != 8].mean(), rtol=1e-6)


@pytest.mark.parametrize("config", [CopyMemory(lag=3, train_size=8, test_size=4), Adding(length=6, train_size=8, test_size=4)])
def test_validation_sequences_of_their_own_follow_the_test_sequences(config):
    """A longer test split has them at its end; the others stay as they are."""
    own, longer = (replace(config, **sizes).build(0).splits for sizes in ({"valid_size": 5}, {"test_size": 9}))
    assert (own["valid"].size, own["test"].size) == (5, 4)
    whole = longer["test"].batch(longer["test"].arrays, np.arange(9))
    for name, part in (("test", slice(0, 4)), ("valid", slice(4, 9))):
        found = own[name].batch(own[name].arrays, np.arange(own[name].size))
        jax.tree.map(lambda a, b, part=part: np.testing.assert_array_equal(a, b[part]), found, whole)


@pytest.mark.parametrize("variant", ["variable_length", "variable_lag"])
def test_data_do_not_depend_on_the_number_that_is_drawn_beside_them(variant):
    inputs = sequences(variant).inputs
    assert abs(np.corrcoef(np.argmax(inputs == 9, axis=1), inputs[:, 0])[0, 1]) < 0.1


def test_sequences_of_a_seed_are_those_of_earlier_versions():
    """Else a run that is resumed would be trained on other sequences than before, and a kept result could not be computed again."""
    key = np.random.SeedSequence((0x5E90E4CE, 7)).generate_state(2)
    stream = jax.random.wrap_key_data(jnp.asarray(key), impl="threefry2x32")

    def draws(index, count):
        return np.asarray(jax.random.uniform(jax.random.fold_in(stream, index), (count,), jnp.float32))

    copies, sums = CopyMemory("variable_length", lag=N).build(7).splits["train"], Adding(6).build(7).splits["train"]
    first, *data = draws(3, 11)
    size = 1 + int(10 * first)
    np.testing.assert_array_equal(copies.example(copies.arrays, jnp.int32(3)).inputs[:size], np.floor(8 * np.array(data[:size])))
    np.testing.assert_array_equal(sums.example(sums.arrays, jnp.int32(3)).inputs[:, 0], draws(3, 8)[2:])
