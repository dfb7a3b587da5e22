"""Training with what is drawn, normalized, halved and given up: resumed to the same numbers, and ended for the right reason."""

import json

import jax
import numpy as np
import optax
import pytest
from tiny import EVEN, changed, interrupted_after, lines

from lrpt.networks.highway_classifier import HighwayConfig
from lrpt.optim import OptimConfig
from lrpt.runs.checkpoint import Checkpoints
from lrpt.tasks import ImageVectors
from lrpt.training.annealing import Annealing
from lrpt.training.config import RunConfig, TrainConfig
from lrpt.training.loop import Job, fit, is_finished
from lrpt.training.step import init_state

pytestmark = pytest.mark.slow

HIGHWAY = RunConfig(
    HighwayConfig(size=6, depth=1, rank=2),
    OptimConfig("adam", 0.5, halve_after=1, halvings=2, return_to_best=True),
    TrainConfig(updates=80, batch_size=8, evaluate_every=2, evaluation_batch=300, updates_per_call=2),
    ImageVectors("digits"),
)
DROPOUT = changed(
    model={"word_dropout": 0.2, "state_dropout": 0.5, "output_dropout": 0.5}, train={"updates": 12, "updates_per_call": 2}, optim={}
)


def result(path):
    found = json.loads((path / "result.json").read_text())
    return {name: found[name] for name in ("updates", "stopped", "best_update", "metrics")}


@pytest.fixture(scope="module")
def annealed(tmp_path_factory):
    path = tmp_path_factory.mktemp("annealed") / "run"
    fit(HIGHWAY, {0: path}, devices=1)
    return path


def test_training_ends_with_the_last_halving(annealed):
    """A learning rate of 0.5 soon does harm: after two halvings the third time without a new best is the end."""
    losses = [line["loss"] for line in lines(annealed) if line["split"] == "valid"]
    annealing = Annealing(HIGHWAY.optim)
    halved = [annealing.evaluated(loss) for loss in losses]
    assert result(annealed)["stopped"] == "annealed"
    assert (halved.count(True), annealing.over) == (3, True)
    assert result(annealed)["updates"] == 2 * len(losses) < HIGHWAY.train.updates


def test_a_finished_run_stays_finished(annealed):
    before = (annealed / "result.json").read_bytes()
    assert is_finished(Job(HIGHWAY, 0, annealed), {"experiment": "custom", "preset": "custom"})
    fit(HIGHWAY, {0: annealed}, devices=1)
    assert (annealed / "result.json").read_bytes() == before


def test_annealing_and_running_averages_are_resumed(annealed, tmp_path):
    with interrupted_after(5):
        fit(HIGHWAY, {0: tmp_path / "run"}, devices=1)
    fit(HIGHWAY, {0: tmp_path / "run"}, devices=1)
    assert lines(tmp_path / "run") == lines(annealed)
    assert result(tmp_path / "run") == result(annealed)


def test_a_run_that_is_stopped_at_a_halving_goes_on_from_the_best_parameters(annealed, tmp_path):
    losses = [line["loss"] for line in lines(annealed) if line["split"] == "valid"]
    annealing = Annealing(HIGHWAY.optim)
    first = next(calls for calls, loss in enumerate(losses, 1) if annealing.evaluated(loss))  # a call is two updates and an evaluation
    with interrupted_after(first) as raised:
        fit(HIGHWAY, {0: tmp_path / "run"}, devices=1)
    assert f"at update {2 * first};" in str(raised.value)
    fit(HIGHWAY, {0: tmp_path / "run"}, devices=1)
    assert lines(tmp_path / "run") == lines(annealed)
    assert result(tmp_path / "run") == result(annealed)


def test_a_halving_keeps_the_moments_of_adam(annealed):
    """As in lowrank-highwaynetwork. The last evaluation halved the rate, too."""
    found = result(annealed)
    task = HIGHWAY.data.build(0)
    template = init_state(HIGHWAY.model.build(task.input_size, task.output_size, task.reads), task, HIGHWAY.optim.build(), 0)
    checkpoints = Checkpoints(annealed / "checkpoints", pytest.fail)
    last, best = (checkpoints.restore(jax.device_get(template), found[name]).state for name in ("updates", "best_update"))
    jax.tree.map(np.testing.assert_array_equal, last.variables, best.variables)
    assert [int(optax.tree.get(state.opt_state, "count")) for state in (last, best)] == [found["updates"], found["best_update"]]


def test_dropout_is_resumed_and_differs_by_seed(tmp_path):
    fit(DROPOUT, {seed: tmp_path / str(seed) for seed in (0, 1)}, devices=1)
    with interrupted_after(3):
        fit(DROPOUT, {0: tmp_path / "stopped"}, devices=1)
    fit(DROPOUT, {0: tmp_path / "stopped"}, devices=1)
    assert lines(tmp_path / "stopped") == lines(tmp_path / "0")
    assert lines(tmp_path / "1") != lines(tmp_path / "0")


def test_patience_ends_training(tmp_path):
    """With a learning rate that is lost in rounding nothing improves, and the third evaluation in a row without a new best is the last."""
    config = changed(optim={"learning_rate": 1e-30}, train={"updates": 100, "updates_per_call": 2, "evaluate_every": 4, "patience": 3})
    found = fit(config, {0: tmp_path / "run"}, devices=1)[0]
    assert (found["stopped"], found["best_update"], found["updates"]) == ("patience", 4, 16)


def test_decay_by_epochs_reaches_the_updates(tmp_path):
    """An epoch has two updates. After it the learning rate is lost in rounding, so that evaluations are of the same parameters."""
    config = changed(optim={"decay": 1e-30}, data={"train_size": 8}, train={"updates": 5, "evaluate_every": 1})
    fit(config, {0: tmp_path / "run"}, devices=1)
    first, *others = [line["loss"] for line in lines(tmp_path / "run") if line["split"] == "valid"]
    assert first != others[0]
    assert others == 4 * others[:1]


class Told:
    """An observer that keeps the variables of each evaluation by its update."""

    def __init__(self):
        self.variables = {}

    def evaluated(self, evaluation):
        self.variables[evaluation.update] = jax.device_get(evaluation.variables)


@pytest.mark.parametrize("returns", [False, True], ids=["goes on", "returns"])
def test_a_halving_changes_parameters_only_if_it_is_to_return_to_the_best(returns, tmp_path):
    """With such a learning rate the second evaluation is worse than the first."""
    told = Told()
    optim = {"learning_rate": 2.0, "halve_after": 1, "return_to_best": returns}
    fit(changed(EVEN, optim=optim, train={"updates": 8}), {0: tmp_path / "run"}, devices=1, observers=[told])
    first, second = (line["loss"] for line in lines(tmp_path / "run") if line["split"] == "valid")
    assert first < second
    equal = [np.array_equal(*leaves) for leaves in zip(*map(jax.tree.leaves, (told.variables[4], told.variables[8])), strict=True)]
    assert (all(equal), any(equal)) == (returns, returns)


def test_a_halving_returns_to_the_best_parameters_and_statistics(tmp_path):
    told = Told()
    fit(HIGHWAY, {0: tmp_path / "run"}, devices=1, observers=[told])
    losses = {line["update"]: line["loss"] for line in lines(tmp_path / "run") if line["split"] == "valid"}
    annealing = Annealing(HIGHWAY.optim)
    halved = [update for update, loss in losses.items() if annealing.evaluated(loss)]
    assert len(halved) == 3
    for update in halved:
        best = min((before for before in losses if before <= update), key=losses.__getitem__)
        assert best < update
        jax.tree.map(np.testing.assert_array_equal, told.variables[update], told.variables[best])
