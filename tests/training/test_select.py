"""Selection of the best evaluation by another metric than the loss."""

import math
from dataclasses import replace
from functools import partial

import pytest
from tiny import EXPERIMENT, changed, command, interrupted_after, lines, numbers

import lrpt
from lrpt.cli.command import main
from lrpt.errors import UsageError
from lrpt.training.config import TrainConfig
from lrpt.training.loop import fit
from lrpt.training.selection import Selection

BY_ACCURACY = changed(train={"select": "accuracy", "updates": 16, "evaluate_every": 2})


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    path = tmp_path_factory.mktemp("whole") / "run"
    return path, fit(BY_ACCURACY, {0: path}, devices=1)[0]


def test_the_best_evaluation_is_the_first_of_the_highest_accuracy(run):
    path, result = run
    found = {line["update"]: line for line in lines(path) if line["split"] == "valid"}
    best = max(found, key=lambda update: found[update]["accuracy"])
    assert best != min(found, key=lambda update: found[update]["loss"])
    assert result["best_update"] == best
    valid = result["metrics"]["valid"]
    assert (valid["accuracy"], valid["loss"]) == (found[best]["accuracy"], found[best]["loss"])
    assert (valid["highest_accuracy"], valid["lowest_loss"]) == (valid["accuracy"], min(line["loss"] for line in found.values()))
    trained = lrpt.load(path)
    assert trained.update == best
    assert trained.evaluate()["test"]["accuracy"] == pytest.approx(result["metrics"]["test"]["accuracy"], abs=1e-6)


@pytest.mark.slow
def test_an_interrupted_run_selects_the_same(run, tmp_path):
    with interrupted_after(3):
        fit(BY_ACCURACY, {0: tmp_path / "run"}, devices=1)
    fit(BY_ACCURACY, {0: tmp_path / "run"}, devices=1)
    assert numbers(tmp_path / "run") == numbers(run[0])


@pytest.mark.slow
def test_patience_and_halvings_follow_the_metric(tmp_path):
    """The loss falls in each evaluation, and the accuracy does not rise for long."""
    config = replace(BY_ACCURACY, train=replace(BY_ACCURACY.train, updates=60, patience=2))
    (result,) = fit(config, {0: tmp_path / "run"}, devices=1)
    assert result["stopped"] == "patience"
    assert result["updates"] == result["best_update"] + 4


def selection(**settings):
    return Selection(changed(train=settings), epoch=5)


@pytest.mark.parametrize(
    ("select", "metrics", "best", "is_best"),
    [
        ("accuracy", {"accuracy": 0.5, "loss": 9.0}, {"update": 2, "accuracy": 0.4, "loss": 1.0}, True),
        ("accuracy", {"accuracy": 0.5, "loss": 0.1}, {"update": 2, "accuracy": 0.5, "loss": 1.0}, False),
        ("accuracy", {"accuracy": math.nan, "loss": 0.1}, {"update": 2, "accuracy": 0.1, "loss": 1.0}, False),
        ("accuracy", {"accuracy": 0.1, "loss": 0.1}, {"update": 2, "accuracy": math.nan, "loss": 1.0}, True),
        ("accuracy", {"accuracy": math.nan, "loss": 0.1}, {"update": 0, "loss": math.inf}, True),  # the first one
        ("perplexity", {"perplexity": 3.0, "loss": 2.0}, {"update": 2, "perplexity": 4.0, "loss": 1.0}, True),
        ("loss", {"accuracy": 0.1, "loss": 0.5}, {"update": 2, "accuracy": 0.9, "loss": 1.0}, True),
    ],
)
def test_which_evaluation_is_better(select, metrics, best, is_best):
    assert selection(select=select).is_best(4, metrics, best) == is_best


def test_wrong_metrics_are_refused_in_one_line(tmp_path, assert_refused):
    with pytest.raises(UsageError, match=r"train\.select is 'speed': nothing says whether lower or higher values"):
        TrainConfig(select="speed")
    with pytest.raises(UsageError, match=r"train\.select is 'accuracy', and train\.stop_below is a loss: leave one of both out"):
        TrainConfig(select="accuracy", stop_below=0.1)
    words = command(tmp_path / "run", changed(train={"select": "f1"}))
    assert_refused(partial(main, EXPERIMENT), words, "train.select is 'f1': choose from the metrics of this task, loss, accuracy, recall")
