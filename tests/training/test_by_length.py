"""Training on sequences batched by length: metrics of the other orders, resuming, and a refusal."""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest

from lrpt.errors import UsageError
from lrpt.networks.sequence_model import ModelConfig
from lrpt.optim import OptimConfig
from lrpt.tasks import Adding, LabelledSequences, NextSymbol
from lrpt.trained.loading import load
from lrpt.training.config import RunConfig, TrainConfig
from lrpt.training.loop import fit


@pytest.fixture
def config(tmp_path):
    """A run on sequences of 2 to 12 steps."""
    rng = np.random.default_rng(0)
    lengths, inputs = rng.integers(2, 13, 60), rng.normal(size=(60, 12, 2))
    targets = np.array([inputs[i, :n].sum() for i, n in enumerate(lengths)])
    np.savez(tmp_path / "mine.npz", inputs=inputs, targets=targets, lengths=lengths)
    train = TrainConfig(updates=8, batch_size=4, evaluate_every=4, evaluation_batch=4, order="lengths", updates_per_call=2)
    data = LabelledSequences(tmp_path / "mine.npz")
    return RunConfig(ModelConfig("gru", 3, parametrization="dense"), OptimConfig("adam", 0.01), train, data)


@pytest.mark.slow
def test_an_interrupted_run_goes_on_and_its_metrics_do_not_depend_on_the_order_of_evaluation(config, tmp_path):
    fit(replace(config, train=replace(config.train, updates=4)), {0: tmp_path / "run"}, devices=1)
    resumed, whole = (fit(config, {0: tmp_path / name}, devices=1)[0]["metrics"] for name in ("run", "whole"))
    assert resumed == whole
    run = load(tmp_path / "run")
    run.config = replace(config, train=replace(config.train, order="epochs"))
    assert run.evaluate()["test"] == pytest.approx(whole["test"], rel=1e-5)


def test_sentences_have_lengths_and_windows_of_a_stream_have_none(tmp_path):
    file = tmp_path / "lines.txt"
    file.write_text("".join("ab " * (1 + number % 7) + "\n" for number in range(200)))
    sentences = NextSymbol(file=file).build(0).splits["train"]
    batch = sentences.batch(sentences.arrays, jnp.arange(sentences.size))
    np.testing.assert_array_equal(sentences.lengths, np.sum(batch.mask, axis=1))
    assert NextSymbol(file=file, reading="stream", steps=4).build(0).splits["train"].lengths is None


def test_a_task_of_one_length_is_refused(config, tmp_path):
    with pytest.raises(UsageError, match=r"train.order is lengths, and this task does not say how long its examples are"):
        fit(replace(config, data=Adding(10, 100, 20)), {0: tmp_path / "run"}, devices=1)
