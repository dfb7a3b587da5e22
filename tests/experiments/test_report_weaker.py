"""Models that an ordering calls weaker, whose values are better than published."""

import pytest
from kept_runs import judged, kept_run

from experiments.report.claims.criteria import Printed
from experiments.report.claims.weaker import is_of_weaker, surplus
from experiments.report.pages.overview import overview
from experiments.report.pages.paper_page import page
from experiments.report.papers import low_rank, variable_computation_networks
from experiments.report.papers.variable_computation import PAPER

LOW = "--preset paper --model.parametrization low_rank"


def image(root, flags, *accuracies):
    for seed, accuracy in enumerate(accuracies):
        kept_run(root, low_rank.IMAGES, flags, seed, {325_000: 0.9}, "accuracy", {"accuracy": accuracy})


def of_test(found, model):
    return found.quantity(model, "test accuracy", low_rank.TABLE_1)


@pytest.mark.parametrize(
    ("accuracies", "words"),
    [
        (
            [0.922],
            "better than published by 0.4 points; GRU 128 leads by 1.0 points in the paper",
        ),  # not of the LRD-GRU, whose lead is larger
        ([0.930, 0.928], "better than published by 1.1 points; GRU 128 leads by 1.0 points in the paper"),
        ([0.9183], None),  # as published at the printed decimals
        ([0.9223, 0.9112], None),
    ],
)
def test_a_weaker_model_that_is_better_than_published_narrows_a_lead(accuracies, words, tmp_path):
    image(tmp_path, LOW, *accuracies)
    found = judged(tmp_path)
    value = of_test(found, "LR-GRU 128/24")
    assert is_of_weaker(value, found)
    assert (None if (told := surplus(value, found)) is None else str(told)) == words
    assert page(found).count("better than published by") == bool(words)
    assert f"Of 2 scores of models that an ordering calls weaker, {int(bool(words))} are better than published" in overview([found])


def test_a_model_that_no_ordering_calls_weaker_has_no_surplus(tmp_path):
    image(tmp_path, "--preset paper --model.size 256", 0.99)
    kept_run(tmp_path, low_rank.TEXT, "--preset paper", 0, {40_000: 2.9}, "sentence_perplexity", {"sentence_perplexity": 2.5})
    found = judged(tmp_path)
    assert not is_of_weaker(of_test(found, "LRD-GRU 256/24"), found)
    assert not is_of_weaker(found.quantity("LRD-GRU 1000/64", "test perplexity"), found)  # the text calls it equal to the tied one


def test_a_smaller_stand_in_says_nothing_of_the_published_baseline(tmp_path):
    network = variable_computation_networks.TUNES["RNN-250"]
    kept_run(tmp_path, network.experiment, network.flags, 0, {2_000: 8.0}, "perplexity", {"perplexity": 5.0})
    found = judged(tmp_path, PAPER)
    value = found.quantity("RNN-250", "test perplexity")
    assert value.observed
    assert surplus(value, found) is None


@pytest.mark.parametrize(
    ("lower", "value", "as_good", "better"),
    [
        (True, 1.474, True, False),
        (True, 1.475, False, False),
        (True, 1.464, True, True),
        (False, 1.465, True, False),
        (False, 1.48, True, True),
    ],
)
def test_printed_decimals_bound_what_counts_as_better(lower, value, as_good, better):
    printed = Printed(1.47, 2, lower)
    assert (printed.is_as_good(value), printed.is_better(value)) == (as_good, better)


def test_a_weaker_model_has_no_surplus_before_all_of_its_seeds_have_ended(tmp_path):
    image(tmp_path, LOW, 0.930)
    kept_run(tmp_path, low_rank.IMAGES, LOW, 1, {264_000: 0.9}, "accuracy")
    found = judged(tmp_path)
    assert surplus(of_test(found, "LR-GRU 128/24"), found) is None
