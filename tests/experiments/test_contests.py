"""Contests of two runs of one seed: which figures are compared, and which way an advantage points."""

from dataclasses import replace
from functools import partial

import pytest
from kept_runs import recorded as run
from tiny import CONFIG

from experiments.report.claims.contests import Alike, EndsAbove, Final, First, Last, Recoveries
from experiments.report.claims.pairs import Pair
from experiments.report.claims.quantities import lowest, recoveries
from experiments.report.kept.weights import best_evaluation
from lrpt.runs.configuration import to_json

BOTH = (CONFIG, CONFIG)  # of 11 updates
LONG = (CONFIG, replace(CONFIG, train=replace(CONFIG.train, updates=1_000)))
ACCURACY = Final("accuracy", "accuracy", "{}", higher=True)
LOSS = Final("loss", "loss", "{}")


def test_finished_runs_are_compared_by_the_test_part():
    one, other = run({11: 0.1}, "accuracy", test=0.75), run({11: 0.9}, "accuracy", test=0.5)
    assert ACCURACY.compare(one, other, BOTH, True) == Pair(3, 0.25, True)
    one, other = run({11: 0.1}, test=0.75), run({11: 0.9}, test=0.5)
    assert LOSS.compare(one, other, BOTH, True) == Pair(3, -0.25, False)
    assert replace(LOSS, decimals=0).compare(run({11: 0.1}, test=1.25), run({11: 0.1}, test=1.0), BOTH, False) == Pair(3, 0.0, True)


def test_validation_figures_of_a_run_without_a_result_settle_nothing():
    """It made all updates and was stopped before its result."""
    assert LOSS.compare(run({11: 0.5}), run({11: 0.75}, test=0.1), BOTH, True) == Pair(3, 0.25, True, settled=False)


def test_unfinished_runs_are_compared_by_the_best_evaluation_of_both():
    one, other = {4: 0.875, 8: 0.5}, {4: 0.625, 8: 0.75, 11: 1.0}
    assert ACCURACY.compare(run(one, "accuracy"), run(other, "accuracy"), BOTH, True) == Pair(3, 0.125, True, settled=False)
    one, other = {4: 1.0, 8: 3.0}, {4: 2.0, 8: 1.5, 11: 0.5}
    assert LOSS.compare(run(one), run(other), BOTH, True) == Pair(3, 0.5, True, settled=False)
    assert Last("loss", "loss", "{}").compare(run(one), run(other), BOTH, True) == Pair(3, -1.5, False, settled=False)


def test_results_of_trainings_that_were_cut_are_not_compared():
    """They are of different lengths. Both have an evaluation at 8, up to which 1 is lower than 1.5."""
    one, other = run({4: 1.0, 8: 3.0}, test=0.125), run({4: 2.0, 8: 1.5, 11: 0.5}, test=0.0625)
    assert LOSS.compare(one, other, BOTH, True) == Pair(3, 0.5, True, settled=False)


def test_the_result_of_a_longer_run_than_claimed_is_not_held_against_one_of_the_claimed_length():
    """Both have an evaluation at 11. Two runs that are too long by as much are compared by the test part."""
    long, short = run({11: 1.0, 20: 0.5}, test=0.125), run({11: 2.0}, test=0.25)
    assert LOSS.compare(long, short, BOTH, True) == Pair(3, 1.0, True, settled=False)
    assert LOSS.compare(short, long, BOTH, True) == Pair(3, -1.0, False, settled=False)
    assert LOSS.compare(long, run({11: 1.0, 20: 0.5}, test=0.25), BOTH, True) == Pair(3, 0.125, True)


@pytest.mark.parametrize("contest", [LOSS, Last("loss", "loss", "{}")])
def test_nobody_is_ahead_before_a_tenth_of_the_longer_training(contest):
    assert contest.compare(run({11: 1.0}), run({11: 2.0}), LONG, True) == Pair(3, 1.0, None, settled=False)


@pytest.mark.parametrize(("losses", "gain"), [((3.0, 2.0, 1.5), 0.5), ((1.0, 3.0, 2.0), 0.0), ((1.0, 3.0, 0.75), 0.25), ((1.0,), 0.0)])
def test_the_last_gain_is_over_the_best_evaluation_before(losses, gain):
    assert LOSS.last_gain(run(dict(enumerate(losses, 1)))) == gain
    assert ACCURACY.last_gain(run(dict(enumerate((-loss for loss in losses), 1)), "accuracy")) == gain


def test_a_run_that_never_got_there_is_behind_by_at_least_the_updates_since():
    contest = First("updates", "loss", lambda loss: loss < 1)
    early, late, never = run({4: 0.5, 11: 0.5}), run({4: 2.0, 11: 0.5}), run({4: 2.0, 11: 2.0})
    at = partial(Pair, 3, resolution=4)  # evaluations are four updates apart
    assert contest.compare(early, late, BOTH, True) == at(7, True)
    assert contest.compare(early, never, BOTH, True) == at(7, True, bound=True)
    assert contest.compare(never, early, BOTH, True) == at(-7, False, bound=True)
    assert contest.compare(late, run({4: 2.0, 8: 2.0}), BOTH, True) == at(None, None, bound=True, settled=False)
    assert contest.compare(late, never, BOTH, True) == at(0, True, bound=True)  # an event at 11 is before any that comes later


def test_fewer_recoveries_up_to_the_last_common_update_are_better():
    one, other = run({4: 1.0, 8: 1.0, 11: 9.0}, "recoveries", "train"), run({4: 2.0, 8: 3.0}, "recoveries", "train")
    assert Recoveries().compare(one, other, BOTH, True) == Pair(3, 2.0, True, settled=False)


def test_recoveries_are_not_compared_with_a_recipe_that_counts_none():
    counted, uncounted = run({4: 3.0, 11: 9.0}, "recoveries", "train"), run({4: 1.0, 11: 1.0}, "gradient_norm", "train")
    for pair in ((counted, uncounted), (uncounted, counted)):
        found = Recoveries().compare(*pair, BOTH, True)
        assert (found.advantage, found.agrees) == (None, None)


def test_recoveries_are_counted_over_the_whole_run():
    assert recoveries().read(run({4: 1.0, 8: 2.0, 11: 5.0}, "recoveries", "train")) == 5
    assert recoveries().read(run({4: 1.0, 8: 2.0})) is None


def test_a_diverged_run_loses_against_one_that_came_further():
    lost, further, behind = run({4: 1.0}, failure={"update": 7}), run({4: 9.0, 8: 9.0}), run({4: 9.0})
    assert LOSS.compare(further, lost, BOTH, True) == Pair(3, None, True, settled=False, failed=1)
    assert LOSS.compare(lost, further, BOTH, True) == Pair(3, None, False, settled=False, failed=1)
    assert LOSS.compare(behind, lost, BOTH, True) == Pair(3, None, None, settled=False, failed=1)
    assert LOSS.compare(lost, lost, BOTH, True) == Pair(3, None, None, failed=2)


def test_a_run_that_diverged_at_its_last_evaluation_loses_against_one_that_came_as_far():
    lost, level = run({4: 1.0}, failure={"update": 4}), run({4: 9.0})
    assert LOSS.compare(level, lost, BOTH, True) == Pair(3, None, True, settled=False, failed=1)
    assert LOSS.compare(lost, level, BOTH, True) == Pair(3, None, False, settled=False, failed=1)


def test_evaluations_at_soft_masks_do_not_count():
    def sharpened(curve, sharpness):
        sharp = run(curve)
        training = tuple(
            {"update": update, "split": "train", "loss": curve[update], "sharpness": value} for update, value in sharpness.items()
        )
        return replace(sharp, metrics=(*training, *sharp.metrics))

    soft = sharpened({4: 0.125, 8: 2.0}, {4: 0.5, 8: 1.0})
    assert lowest("lowest loss", "loss", 2.0, 1).read(soft) == 2.0
    assert LOSS.compare(soft, run({4: 3.0, 8: 1.75}), BOTH, True) == Pair(3, -0.25, False, settled=False)
    assert soft.best_update == best_evaluation(soft)["update"] == 8


def test_values_as_far_apart_as_the_tolerance_still_count_as_equal():
    contest = Alike("loss", "loss", "{}", tolerance=0.25)
    assert contest.compare(run({11: 0.1}, test=0.75), run({11: 0.1}, test=0.5), BOTH, False) == Pair(3, 0.0, True)
    assert contest.compare(run({11: 0.1}, test=0.875), run({11: 0.1}, test=0.5), BOTH, False) == Pair(3, -0.125, False)


def test_runs_that_a_rule_ended_are_compared_by_the_test_part_whenever_they_ended():
    patient = replace(CONFIG, train=replace(CONFIG.train, patience=1))

    def stopped(update, test):
        one = run({4: 1.0, update: 2.0}, test=test)
        return replace(one, config={**one.config, **to_json(patient)}, result={**one.result, "stopped": "patience", "best_update": 4})

    assert LOSS.compare(stopped(8, 0.25), stopped(10, 0.5), (patient, patient), True) == Pair(3, 0.25, True)


def test_the_resolution_of_events_is_the_longer_interval_of_both_runs():
    often = replace(CONFIG, train=replace(CONFIG.train, evaluate_every=2))
    pair = First("updates", "loss", lambda loss: loss < 1).compare(run({4: 0.5}), run({6: 0.5}), (CONFIG, often), True)
    assert (pair.advantage, pair.resolution) == (2, 4)


@pytest.mark.parametrize(("better", "worse", "agrees"), [(0.5, 0.75, True), (0.75, 0.5, False), (0.5, 0.5, None)])
def test_a_run_that_ends_at_the_level_is_not_above_it(better, worse, agrees):
    contest = EndsAbove("runs above", "loss", 0.5)
    assert contest.compare(run({11: better}, test=1.0), run({11: worse}, test=1.0), BOTH, True).agrees is agrees
