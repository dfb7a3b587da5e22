"""Compression of loaded networks: moments of their states on training data, and a network that is used and saved as the one before."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lrpt
from lrpt.compression.moments import second_moments
from lrpt.errors import UsageError
from lrpt.networks.sequence_model import ModelConfig, recurrent_of
from lrpt.optim import OptimConfig
from lrpt.tasks import Chorales, CopyMemory, NextByte
from lrpt.trained.compressing import compressed, moments_of
from lrpt.training.config import RunConfig, TrainConfig
from lrpt.training.loop import fit

TRAIN = TrainConfig(updates=2, batch_size=4, evaluate_every=2, evaluation_batch=10)
CONFIG = RunConfig(ModelConfig("gru", 4, parametrization="dense"), OptimConfig("adam"), TRAIN, CopyMemory(lag=2))


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    path = tmp_path_factory.mktemp("trained") / "run"
    fit(CONFIG, {0: path})
    return path


def test_a_compressed_network_is_used_and_saved_as_the_one_before(run, tmp_path):
    """At full rank it computes the same, from a configuration and parameters of its own, also after it was saved."""
    trained = lrpt.load(run)
    before = trained.evaluate()
    small, matrices = compressed(trained, rank=4)
    assert [report.matrix for report in matrices] == ["recurrent/update", "recurrent/reset", "recurrent/candidate"]
    assert (small.config.model.label, trained.config.model.label) == ("LRD-GRU 4/4", "GRU 4")
    assert small.task is trained.task
    assert small.variables["params"]["recurrent"]["cell"]["recurrent"]["update"].keys() == {"left", "right", "diagonal"}
    small.save(tmp_path / "small")
    for each in (small, lrpt.load(tmp_path / "small")):
        assert each.label == "LRD-GRU 4/4 seed 0"
        for split, metrics in each.evaluate().items():
            assert metrics == pytest.approx(before[split], rel=1e-4)
    assert trained.evaluate() == before


def test_a_saved_network_is_a_start_file(run, tmp_path):
    small, _ = compressed(lrpt.load(run), rank=2, parametrization="low_rank", examples=0)
    small.save(tmp_path / "small")
    train = TrainConfig(updates=1, batch_size=4, evaluate_every=1, evaluation_batch=10, start=tmp_path / "small" / "model.npz")
    fit(RunConfig(small.config.model, OptimConfig("adam", 1e-12), train, CONFIG.data), {0: tmp_path / "further"})
    assert lrpt.load(tmp_path / "further").evaluate()["test"] == pytest.approx(small.evaluate()["test"], rel=1e-4)


def test_errors_are_weighted_by_states(run):
    """The weighted approximation is better on the network's states, and the other one over all entries."""
    trained = lrpt.load(run)
    (weighted, by_states), (_, by_entries) = (compressed(trained, rank=1, examples=examples) for examples in (20, 0))
    assert by_states[0].output_error is not None
    assert by_entries[0].output_error is None
    assert sum(report.residual for report in by_states) > sum(report.residual for report in by_entries)
    assert weighted.config.model.matrices.rank == 1


@pytest.mark.parametrize("examples", [-1, 1.5, True])
def test_a_number_of_examples_that_is_none(run, examples):
    with pytest.raises(UsageError, match=f"examples is {examples}: expected an integer, 0 or more"):
        compressed(lrpt.load(run), rank=1, examples=examples)


def test_variables_of_another_network(run):
    trained = lrpt.load(run)
    with pytest.raises(UsageError, match=r"array '.*' has shape"):
        trained.with_network(ModelConfig("gru", 5, parametrization="dense"), trained.variables)


def trained_on(task):
    model = ModelConfig("gru", 3, parametrization="dense").build(task.input_size, task.output_size, task.reads)
    train = task.splits["train"]
    batch = train.batch(train.arrays, jnp.arange(4))
    variables = {"params": model.init(jax.random.key(0), batch.inputs)["params"]}
    network = recurrent_of(model.config, task.input_size)
    config = SimpleNamespace(train=SimpleNamespace(batch_size=2))
    return SimpleNamespace(task=task, config=config, variables=variables, recurrent=network, embed=lambda _, inputs: inputs), train


def test_moments_of_a_text_are_those_of_its_streams(tmp_path):
    """Two streams of two windows each are two sequences."""
    (tmp_path / "text").write_bytes(b"the cat sat on a mat" * 2)
    trained, train = trained_on(NextByte(file=tmp_path / "text", steps=9).build(0))
    assert train.size == 4
    whole = np.asarray(train.batch(train.arrays, jnp.arange(4)).inputs).reshape(2, -1)
    expected = second_moments(trained.variables["params"]["recurrent"], trained.recurrent, [(jnp.asarray(whole), None)])
    found = moments_of(trained, 4)
    for name, own in expected.items():
        np.testing.assert_allclose(found[name], own, rtol=1e-4, atol=1e-6)


def test_moments_of_a_text_count_each_window_at_most_once(tmp_path):
    """Of five windows in four streams, training drops the last one, and an evaluation repeats window 0 as padding."""
    (tmp_path / "text").write_bytes(b"the cat sat on a mat" * 2 + b" and slept")
    trained, train = trained_on(NextByte(file=tmp_path / "text", steps=9).build(0))
    assert train.size == 5
    trained.config.train.batch_size = 4
    pairs = [(train.batch(train.arrays, jnp.arange(4)).inputs, None)]
    expected = second_moments(trained.variables["params"]["recurrent"], trained.recurrent, pairs)
    found = moments_of(trained, 5)
    for name, own in expected.items():
        np.testing.assert_allclose(found[name], own, rtol=1e-4, atol=1e-6)


def test_moments_of_pieces_leave_out_padding():
    trained, train = trained_on(Chorales(length=8).build(0))
    batch = train.batch(train.arrays, jnp.arange(2))
    assert not np.all(batch.mask)
    expected = second_moments(trained.variables["params"]["recurrent"], trained.recurrent, [(batch.inputs, batch.mask)])
    found = moments_of(trained, 2)
    for name, own in expected.items():
        np.testing.assert_allclose(found[name], own, rtol=1e-4, atol=1e-6)
