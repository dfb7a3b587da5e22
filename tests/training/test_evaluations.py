"""Evaluations of a run with a validation split of its own: which examples and which parameters they are of."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest
from tiny import CONFIG, changed, lines

import lrpt
from lrpt.tasks import LabelledSequences
from lrpt.training.loop import fit


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """With such a learning rate the best evaluation is the first one."""
    path = tmp_path_factory.mktemp("evaluations") / "run"
    config = changed(CONFIG, optim={"learning_rate": 2.0}, data={"valid_size": 12}, train={"updates": 8, "test_each": True})
    return path, fit(config, {0: path}, devices=1)[0]


def test_each_split_is_evaluated_with_the_best_parameters(run):
    path, result = run
    assert result["best_update"] == 4
    trained = lrpt.load(path, data=type(CONFIG.data))
    at_best = {line["split"]: line["loss"] for line in lines(path) if line["update"] == result["best_update"]}
    for split, size in (("valid", 12), ("test", 20)):
        examples = trained.task.splits[split]
        batch = examples.batch(examples.arrays, jnp.arange(size))
        logits = np.asarray(trained.model.apply(trained.variables, batch.inputs), np.float64)
        log_p = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        expected = -np.take_along_axis(log_p, np.asarray(batch.targets)[..., None], -1).mean()
        assert result["metrics"][split]["loss"] == pytest.approx(expected, rel=1e-5)
        assert at_best[split] == pytest.approx(expected, rel=1e-5)


def test_training_metrics_are_of_the_updates_since_the_evaluation_before(run, tmp_path):
    """The same run that is evaluated after each update logs the terms of the means."""
    path, _ = run
    config = changed(CONFIG, optim={"learning_rate": 2.0}, data={"valid_size": 12}, train={"updates": 8, "evaluate_every": 1})
    fit(config, {0: tmp_path / "run"}, devices=1)
    single = [line["loss"] for line in lines(tmp_path / "run") if line["split"] == "train"]
    found = [line["loss"] for line in lines(path) if line["split"] == "train"]
    np.testing.assert_allclose(found, [np.mean(single[:4]), np.mean(single[4:])], rtol=1e-4)


def test_the_test_split_of_each_evaluation_has_its_own_examples(tmp_path):
    """Digits: unlike sequences that are drawn from keys, their splits are arrays that can be confused."""
    config = dataclasses.replace(changed(CONFIG, train={"updates": 2, "evaluate_every": 2, "test_each": True}), data=LabelledSequences())
    result = fit(config, {0: tmp_path / "run"}, devices=1)[0]
    at_end = {line["split"]: line["loss"] for line in lines(tmp_path / "run")}
    assert at_end["test"] == pytest.approx(result["metrics"]["test"]["loss"], rel=1e-5)
    assert at_end["test"] != pytest.approx(at_end["valid"], rel=1e-4)
