"""Evaluations of a run with a validation split of its own: which examples and which parameters they are of."""

import dataclasses
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from tiny import CONFIG, changed, interrupted_after, lines, named_start

import lrpt
from lrpt.errors import UsageError
from lrpt.optim import RECIPES, OptimConfig, Recipe
from lrpt.runs.named_arrays import to_named
from lrpt.tasks import LabelledSequences
from lrpt.training.loop import fit
from lrpt.training.step import TrainState
from lrpt.training.trainer import Trainer


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


def mean_of_all():
    """Counts the updates, and keeps the mean of the parameters after each of them."""

    def update(updates, state, params):
        count, mean = state[0] + 1, jax.tree.map(lambda m, p, u: m + (p + u - m) / (state[0] + 1), state[1], params, updates)
        return updates, (count, mean)

    return optax.GradientTransformation(lambda params: (jnp.zeros(()), jax.tree.map(jnp.zeros_like, params)), update)


class Variables:
    """Collects the variables of each evaluation."""

    def __init__(self):
        self.found = {}

    def evaluated(self, evaluation):
        self.found[evaluation.update] = to_named(evaluation.variables)


@pytest.fixture
def averaging(monkeypatch):
    """Two recipes with the same updates; the second one evaluates their mean."""
    monkeypatch.setitem(RECIPES, "trained", Recipe("SGD", 0.5, optax.sgd))
    averaged = Recipe("SGD", 0.5, lambda rate: optax.chain(optax.sgd(rate), mean_of_all()), evaluated=lambda state, params: state[-1][1])
    monkeypatch.setitem(RECIPES, "averaged", averaged)


@pytest.mark.parametrize("optim", [{}, {"summed_steps": 2, "weight_decay": 0.01}])
def test_the_parameters_that_a_recipe_evaluates_are_evaluated_kept_and_loaded(averaging, tmp_path, optim):
    """The oracle is the mean of the parameters of a run that evaluates what it trains, after each update."""
    each, few = Variables(), Variables()
    sizes = {"valid_size": 12}
    trained = changed(CONFIG, optim={"recipe": "trained", **optim}, data=sizes, train={"updates": 8, "evaluate_every": 1})
    averaged = changed(CONFIG, optim={"recipe": "averaged", **optim}, data=sizes, train={"updates": 8})
    fit(trained, {0: tmp_path / "trained"}, devices=1, observers=[each])
    (result,) = fit(averaged, {0: tmp_path / "averaged"}, devices=1, observers=[few])
    for update in (4, 8):
        for name, found in few.found[update].items():
            expected = np.mean([each.found[n + 1][name] for n in range(update)], axis=0)
            np.testing.assert_allclose(found, expected, rtol=2e-4, atol=1e-6, err_msg=f"{name} at {update}")
    loaded = lrpt.load(tmp_path / "averaged", data=type(CONFIG.data))
    for name, array in to_named(loaded.variables).items():
        np.testing.assert_allclose(array, few.found[result["best_update"]][name], rtol=1e-6, err_msg=name)
    assert loaded.evaluate()["test"]["loss"] == pytest.approx(result["metrics"]["test"]["loss"], rel=1e-5)


def test_a_recipe_that_keeps_parameters_is_given_those_of_the_start_file(monkeypatch, tmp_path):
    """A recipe that evaluates its first parameters: they are those of the file, not those that the seed draws."""
    first = optax.GradientTransformation(lambda params: params, lambda updates, state, params=None: (updates, state))
    anchored = Recipe("SGD", 0.5, lambda rate: optax.chain(optax.sgd(rate), first), evaluated=lambda state, params: state[-1])
    monkeypatch.setitem(RECIPES, "anchored", anchored)
    start = {name: array + 0.1 for name, array in named_start().items()}
    np.savez(tmp_path / "start.npz", **start)
    seen = Variables()
    config = changed(CONFIG, optim={"recipe": "anchored"}, train={"updates": 4, "start": tmp_path / "start.npz"})
    fit(config, {0: tmp_path / "run"}, devices=1, observers=[seen])
    for name, array in start.items():
        np.testing.assert_array_equal(seen.found[4][f"params/{name}"], array)


def test_a_resumed_run_goes_on_from_the_trained_parameters(averaging, tmp_path):
    config = changed(CONFIG, optim={"recipe": "averaged"})
    (whole,) = fit(config, {0: tmp_path / "whole"}, devices=1)
    with interrupted_after(2):
        fit(config, {0: tmp_path / "parts"}, devices=1)
    (parts,) = fit(config, {0: tmp_path / "parts"}, devices=1)
    assert whole["metrics"] == parts["metrics"]


def test_parameters_of_another_form_are_one_line(monkeypatch, tmp_path):
    monkeypatch.setitem(RECIPES, "wrong", Recipe("SGD", 0.5, optax.sgd, evaluated=lambda state, params: state))
    with pytest.raises(UsageError, match="`evaluated` of recipe 'wrong' does not return parameters of the names and shapes"):
        fit(changed(CONFIG, optim={"recipe": "wrong"}), {0: tmp_path / "run"}, devices=1)


def test_a_return_to_the_best_keeps_the_streams_the_optimizer_and_the_noise():
    state = TrainState("params", "opt_state", 4, "carry", {"stats": "last"}, "key")
    best = TrainState("best", "old", 2, "old", {"stats": "best"}, "old")
    config = SimpleNamespace(optim=OptimConfig("adam", halve_after=1, return_to_best=True))
    run = SimpleNamespace(config=config, best_state=lambda state: best)
    found = Trainer._annealed(SimpleNamespace(), run, state)
    assert found == state._replace(params="best", collections={"stats": "best"})


def test_the_last_state_and_the_test_split_of_each_evaluation_are_of_what_is_evaluated(averaging, tmp_path):
    few, path = Variables(), tmp_path / "run"
    config = changed(CONFIG, optim={"recipe": "averaged"}, data={"valid_size": 12}, train={"updates": 8, "test_each": True})
    fit(config, {0: path}, devices=1, observers=[few])
    last = lrpt.load(path, data=type(CONFIG.data), state="last")
    for name, array in to_named(last.variables).items():
        np.testing.assert_allclose(array, few.found[8][name], rtol=1e-6, err_msg=name)
    at_end = {line["split"]: line["loss"] for line in lines(path)}
    assert last.evaluate()["test"]["loss"] == pytest.approx(at_end["test"], rel=1e-5)
