"""Selection of the best state among evaluations with final settings: a run whose lowest validation loss is at soft masks."""

import json
from dataclasses import replace

import jax
import numpy as np
import pytest
from tiny import interrupted_after, lines, sharpening

import lrpt
from lrpt.devices import hardware
from lrpt.runs.console import Console
from lrpt.tasks import NextSymbol
from lrpt.training.loop import fit
from lrpt.training.run import Run

EVALUATED = 4
FIRST_SHARP = 12
"""first evaluation whose last update was made at full sharpness: five updates an epoch, and the third epoch is sharp"""


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    """A learning rate so high that the loss grows."""
    return sharpening(tmp_path_factory.mktemp("text") / "text.txt", 0.2, 0.4, 1.0, 0.5, updates=20)


@pytest.fixture(scope="module")
def run(config, tmp_path_factory):
    path = tmp_path_factory.mktemp("whole") / "run"
    return path, fit(config, {0: path}, devices=1)[0]


def evaluations(path):
    return {line["update"]: line for line in lines(path) if line["split"] == "valid"}


def test_the_lowest_loss_of_this_run_is_at_a_soft_mask(run):
    losses = {update: line["loss"] for update, line in evaluations(run[0]).items()}
    assert min(losses, key=losses.get) < FIRST_SHARP


def test_the_best_state_is_the_lowest_loss_at_full_sharpness(run):
    path, result = run
    losses = {update: line["loss"] for update, line in evaluations(path).items() if update >= FIRST_SHARP}
    assert result["best_update"] == min(losses, key=losses.get)
    assert result["metrics"]["valid"]["loss"] == min(losses.values())
    trained = lrpt.load(path, data=NextSymbol)
    assert trained.update == result["best_update"]
    np.testing.assert_allclose(jax.tree.leaves(trained.variables["settings"]), 1.0)
    assert trained.evaluate(trained.model)["test"]["loss"] == pytest.approx(result["metrics"]["test"]["loss"], rel=1e-5)


def test_extremes_are_of_evaluations_at_full_sharpness(run):
    path, result = run
    sharp = [line["bits_per_character"] for update, line in evaluations(path).items() if update >= FIRST_SHARP]
    assert result["metrics"]["valid"]["lowest_bits_per_character"] == min(sharp)
    extremes = {name for name in result["metrics"]["valid"] if name.startswith(("lowest_", "highest_"))}
    assert extremes == {"lowest_perplexity", "lowest_bits_per_character", "lowest_output_distance", "highest_agreement"}  # not of amounts


def test_an_evaluation_has_the_settings_of_its_last_update(config, tmp_path):
    """Ten updates are two epochs. The tenth is of the second one, at whose end the masks are not yet the sharpest."""
    one = Run({}, replace(config, optim=replace(config.optim, halve_after=1)), 0, tmp_path, Console(quiet=True))
    best, sharpness, halved = [], [], []
    for update, loss in ((5, 1.0), (10, 2.0), (11, 3.0), (15, 3.0), (20, 2.5)):
        one.progress.tally.add({"nats": np.array([2.0]), "symbols": np.array([1.0])})
        halved.append(one.evaluated(update, {"loss": loss}, 0.0))
        best.append(one.progress.best["update"])
        sharpness.append(one.latest["train"]["sharpness"])
    assert best == [5, 10, 11, 11, 20]
    assert halved == [False, False, False, True, False]
    np.testing.assert_allclose(sharpness, [0.2, 0.6, 1.0, 1.0, 1.0], rtol=1e-6)


def test_resumed_at_a_soft_mask_selects_the_same(config, run, tmp_path):
    with interrupted_after(1):
        fit(config, {0: tmp_path / "run"}, devices=1)
    again = fit(config, {0: tmp_path / "run"}, devices=1)[0]
    found, expected = jax.tree.leaves(again["metrics"]), jax.tree.leaves(run[1]["metrics"])
    assert again["best_update"] == run[1]["best_update"]
    assert found == (expected if hardware.on_cpu() else pytest.approx(expected, rel=1e-4))  # a GPU adds gradients of rows in any order


def test_resumed_at_a_soft_mask_meets_no_criterion(config, run, tmp_path):
    """A loss below the criterion counts from the first evaluation at full sharpness on, also if the run was interrupted before it."""
    highest = max(line["loss"] for line in evaluations(run[0]).values())
    at_once = replace(config, train=replace(config.train, stop_below=2 * highest))
    with interrupted_after(1) as raised:
        fit(at_once, {0: tmp_path / "run"}, devices=1)
    assert f"at update {EVALUATED}" in str(raised.value)
    assert fit(at_once, {0: tmp_path / "run"}, devices=1)[0]["updates"] == FIRST_SHARP


@pytest.mark.slow
def test_soft_masks_count_neither_for_patience_nor_for_a_criterion_nor_for_annealing(config, run, tmp_path):
    highest = max(line["loss"] for line in evaluations(run[0]).values())
    at_once = replace(config, train=replace(config.train, stop_below=2 * highest))
    assert fit(at_once, {0: tmp_path / "criterion"}, devices=1)[0]["updates"] == FIRST_SHARP
    patient = replace(config, train=replace(config.train, patience=1, updates=40))
    assert fit(patient, {0: tmp_path / "patience"}, devices=1)[0]["updates"] > FIRST_SHARP
    annealed = replace(config, optim=replace(config.optim, halve_after=1, halvings=0), train=replace(config.train, updates=40))
    assert fit(annealed, {0: tmp_path / "annealed"}, devices=1)[0]["updates"] > FIRST_SHARP


def test_a_run_that_ends_at_a_soft_mask_reports_its_latest_evaluation(config, tmp_path, capsys):
    short = replace(config, train=replace(config.train, updates=8))
    result = fit(short, {0: tmp_path / "run"}, devices=1, console=Console())[0]
    assert result["best_update"] == 8
    assert "before the settings of the network were final" in "".join(capsys.readouterr())


def test_a_run_that_ended_at_a_soft_mask_has_met_no_criterion(config, run, tmp_path):
    """It goes on to the first evaluation at full sharpness, as an uninterrupted run does."""
    highest = max(line["loss"] for line in evaluations(run[0]).values())
    short, long = (replace(config, train=replace(config.train, updates=n, stop_below=2 * highest)) for n in (8, 20))
    assert fit(short, {0: tmp_path / "run"}, devices=1)[0]["stopped"] == "updates"
    found = fit(long, {0: tmp_path / "run"}, devices=1)[0]
    assert (found["updates"], found["stopped"]) == (FIRST_SHARP, "criterion")


def test_a_loss_that_is_lower_by_rounding_only_is_no_new_best(config, tmp_path):
    """The learning rate is halved in single precision: both must agree on which evaluation is the best."""
    one = Run({}, replace(config, optim=replace(config.optim, halve_after=1)), 0, tmp_path, Console(quiet=True))
    halved = []
    for update, loss in ((15, 1.0), (20, 1.0 - 1e-9)):
        one.progress.tally.add({"nats": np.array([2.0]), "symbols": np.array([1.0])})
        halved.append(one.evaluated(update, {"loss": loss}, 0.0))
    assert (halved, one.progress.best["update"]) == ([False, True], 15)


def test_metrics_hold_the_sharpness_and_gradient_norms_by_part(run):
    train = [json.loads(line) for line in (run[0] / "metrics.jsonl").read_text().splitlines() if '"train"' in line]
    np.testing.assert_allclose([line["sharpness"] for line in train], [0.2, 0.6, 1.0, 1.0, 1.0], rtol=1e-6)
    for line in train:
        assert {"proportion", "gradient_norm_scheduler", "gradient_norm_rest"} <= line.keys()
        assert max(line["gradient_norm_scheduler"], line["gradient_norm_rest"]) <= line["gradient_norm"]
