"""Dropout in evaluation: masks hold for a whole text, and probabilities are averaged as a loop in NumPy does it."""

from dataclasses import replace

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lrpt.errors import UsageError
from lrpt.networks.conditional import ConditionalConfig
from lrpt.networks.sequence_model import ModelConfig
from lrpt.tasks import CopyMemory, NextBit, NextByte
from lrpt.trained.monte_carlo import monte_carlo

CONFIG = ModelConfig(
    "rhn",
    5,
    depth=2,
    parametrization="dense",
    embedding=5,
    initialization="normal",
    initial_scale=1.0,
    word_dropout=0.3,
    word_masks="types",
    input_dropout=0.4,
    state_dropout=0.4,
    output_dropout=0.4,
    recurrence="plain",
)


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text"
    path.write_bytes(np.random.default_rng(0).choice(np.frombuffer(b"abcd ", np.uint8), 400).tobytes())
    return path


def built(text, steps, config=CONFIG):
    task = NextByte(file=text, steps=steps).build(0)
    model = config.build(task.input_size, task.output_size, task.reads)
    return model, task, model.init(jax.random.key(0), jnp.zeros((1, 2), jnp.int32))


@pytest.mark.slow
def test_masks_hold_whatever_the_windows_are(text):
    found = [monte_carlo(*built(text, steps), passes=2) for steps in (4, 7)]
    np.testing.assert_allclose(found[0].passes, found[1].passes, rtol=1e-5)
    np.testing.assert_allclose(found[0].loss, found[1].loss, rtol=1e-5)
    assert len(set(found[0].passes)) == 2


def test_probabilities_are_averaged(text):
    model, task, variables = built(text, steps=20)
    test = task.splits["test"]
    batch = test.batch(test.arrays, jnp.arange(1))
    found = monte_carlo(model, task, variables, passes=3, seed=5)
    probabilities = []
    for k in range(3):
        rngs = {"dropout": jax.random.fold_in(jax.random.key(5), k)}
        logits = np.asarray(model.apply(variables, batch.inputs, batch.mask, train=True, rngs=rngs)[0], np.float64)
        p = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
        probabilities.append(p[np.arange(20), batch.targets[0]])
    np.testing.assert_allclose(found.loss, -np.log(np.mean(probabilities, axis=0)).mean(), rtol=1e-5)
    np.testing.assert_allclose(found.passes, -np.log(probabilities).mean(axis=1), rtol=1e-5)
    assert found.loss < np.mean(found.passes)  # Jensen
    assert found.left_out == 0


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_padding_behind_the_rows_does_not_count(text, rows):
    """Five windows are padded to six in two rows, and in three. This network predicts the same at every step, whatever is dropped."""
    model, task, variables = built(text, steps=4)
    silent = jax.tree.map(jnp.zeros_like, variables["params"])
    silent["readout"]["bias"] = 0.5 * jnp.arange(task.output_size)
    test = task.splits["test"]
    log_p = jax.nn.log_softmax(silent["readout"]["bias"])[test.batch(test.arrays, jnp.arange(5)).targets]
    assert monte_carlo(model, task, {"params": silent}, passes=1, rows=rows).loss == pytest.approx(-float(log_p.mean()), rel=1e-6)


def test_bad_passes_are_left_out_and_drawn_again(text):
    built_ = built(text, steps=20)
    every = monte_carlo(*built_, passes=4).passes
    limit = sorted(every)[2]
    found = monte_carlo(*built_, passes=2, worst=limit)
    assert max(found.passes) <= limit
    assert found.passes == tuple(loss for loss in every if loss <= limit)[:2]
    one = monte_carlo(*built_, passes=1, worst=min(every))
    assert one.passes == (min(every),)
    assert one.left_out == every.index(min(every)) > 0
    assert one.loss == pytest.approx(min(every))  # of one pass: those that were left out have no share in it
    with pytest.raises(UsageError, match=r"worst is 0\.0 nats, and 10 passes lost more: choose a higher one"):
        monte_carlo(*built_, passes=1, worst=0.0)


def test_passes_that_count_are_not_among_those_that_were_left_out(text):
    """Of 21 passes one counts."""
    built_ = built(text, steps=20)
    best = min(monte_carlo(*built_, passes=21).passes)
    with pytest.raises(UsageError, match="and 20 passes lost more"):
        monte_carlo(*built_, passes=2, worst=best)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"word_masks": "positions"}, "train with types"),
        (dict.fromkeys(("word_dropout", "input_dropout", "state_dropout", "output_dropout"), 0.0), "drops nothing"),
    ],
)
def test_networks_that_it_does_not_fit(text, changes, says):
    with pytest.raises(UsageError, match=says):
        monte_carlo(*built(text, 20, replace(CONFIG, **changes)))


def test_networks_without_dropout_are_refused(text):
    task = NextBit(file=text, steps=8, characters=True).build(0)
    model = ConditionalConfig(3).build(task.input_size, task.output_size, task.reads)
    for network in (model, nn.Dense(2)):
        with pytest.raises(UsageError, match="drops nothing"):
            monte_carlo(network, task, {})


def test_other_tasks_are_refused(text):
    model, _, variables = built(text, 20)
    with pytest.raises(UsageError, match="name a run of a language model"):
        monte_carlo(model, CopyMemory(lag=3).build(0), variables)
