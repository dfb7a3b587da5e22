"""Verdicts on observations and pairs that are made up here: a matrix of cases against what a critic would say."""

import math
from types import SimpleNamespace

import pytest

from experiments.report.claims.criteria import at_least, at_most, below, by, fails, happens, never
from experiments.report.claims.judged import bound_of, summarize
from experiments.report.claims.pairs import Pair, difference, judge_relation
from experiments.report.claims.quantities import exceeds, no_more_than
from experiments.report.claims.verdicts import NOT_RUN, Finding, Observation, Status, judge
from experiments.report.wording.texts import direction, standing


def seen(value, seed=0, **changes):
    return Observation(seed, value, **{"progress": 100, "length": 100} | changes)


def short(value, progress=40):
    return seen(value, settled=False, progress=progress)


LOSS = at_most(2.92, 2)
ENDLESS = seen(None, settled=False, length=0, open_because="and the paper sets no limit")
"""What has not happened, where the paper does not say by when."""


@pytest.mark.parametrize(
    ("criterion", "value", "agrees"),
    [
        (at_most(2.92, 2), 2.9249, True),
        (at_most(2.92, 2), 2.926, False),
        (at_most(29, 0), 29.5, False),  # halves round up
        (at_least(29, 0), 28.5, True),
        (at_most(65.4, 1), 65.43, True),
        (at_most(65.4, 1), 65.46, False),
        (at_most(0.003, 3), 0.0034, True),
        (at_most(0.003, 3), 0.0036, False),
        (at_least(0.988, 3), 0.9876, True),
        (at_least(0.988, 3), 0.9874, False),
        (by(38_000), 38_500, False),
        (by(38_000), None, False),
        (by(2_000), 2_000, True),
        (happens(), None, False),
        (never(), None, True),
        (below(1.32), 1.3199, True),
        (below(1.32), 1.32, False),
        (no_more_than("accuracy", 91.4).criterion, 0.914, True),
        (no_more_than("accuracy", 91.4).criterion, 0.9141, False),
        (exceeds("accuracy", 91.4).criterion, 0.914, False),
        (fails(2.96, 0.5), 9.0, True),
        (fails(2.96, 0.5), 30.0, True),
        (fails(2.96, 0.5), 4.43, False),
        (fails(2.96, 0.5), 2.70, False),
        (fails(2.96, 0.5), None, False),
    ],
)
def test_criteria_follow_the_printed_decimals(criterion, value, agrees):
    assert criterion.agrees(value) is agrees


@pytest.mark.parametrize(
    ("criterion", "observations", "text"),
    [
        (LOSS, [], "not yet run"),
        (LOSS, [seen(2.9)], "reproduced (1 seed)"),
        (LOSS, [seen(2.9), seen(2.8), seen(2.7)], "reproduced (3 seeds)"),
        (LOSS, [seen(3.0)], "not reproduced (1 seed)"),
        (LOSS, [seen(2.9), seen(3.0)], "reproduced by 1 of 2 seeds"),
        (LOSS, [short(2.9)], "reached, not converged (40 of 100 updates)"),
        (LOSS, [seen(2.9, settled=False)], "reached, not converged (the last evaluation is the best one)"),
        (LOSS, [short(3.0)], "smaller scale (40 of 100 updates): not judged"),
        (LOSS, [short(None), short(None, 20)], "smaller scale (20 to 40 of 100 updates): not judged"),
        (LOSS, [seen(2.9), short(3.0)], "reproduced by 1 of 2 seeds, 1 not trained long enough"),
        (LOSS, [short(2.9), short(3.0)], "reached, not converged (by 1 of 2 seeds, 40 of 100 updates)"),
        (LOSS, [seen(3.0), short(3.0)], "smaller scale (not reproduced by 1 of 2 seeds, 1 not trained long enough): undecided"),
        (LOSS, [seen(None, settled=False, failed=True), short(3.0)], "smaller scale (1 of 2 diverged, 40 of 100 updates): not judged"),
        (LOSS, [seen(None, settled=False, failed=True)], "diverged (1 of 1 diverged)"),
        (LOSS, [seen(2.9), seen(None, settled=False, failed=True)], "reproduced by 1 of 2 seeds, 1 of 2 diverged"),
        (LOSS, [seen(3.0), seen(None, settled=False, failed=True)], "not reproduced (2 seeds, 1 of 2 diverged)"),
        (never(), [seen(500)], "contradicted (1 seed)"),
        (never(), [seen(500), seen(None)], "reproduced by 1 of 2 seeds"),
        (never(), [seen(None)], "reproduced (1 seed)"),
        (never(), [short(None)], "smaller scale (40 of 100 updates): not judged"),
        (fails(2.96, 0.5), [seen(2.7)], "contradicted (1 seed)"),
        (fails(2.96, 0.5), [seen(4.0)], "not reproduced (1 seed)"),
        (fails(2.96, 0.5), [seen(30.0)], "reproduced (1 seed)"),
        (happens(), [seen(20_000)], "reproduced (1 seed)"),
        (happens(), [ENDLESS], "smaller scale (not in 100 updates, and the paper sets no limit): not judged"),
        (happens(), [seen(20_000), ENDLESS], "reproduced by 1 of 2 seeds, 1 not in 100 updates, and the paper sets no limit"),
    ],
)
def test_verdict_on_a_figure(criterion, observations, text):
    assert str(judge(criterion, observations)) == text


def test_a_figure_of_another_configuration_is_at_smaller_scale_whatever_it_is():
    assert str(judge(LOSS, [seen(2.0)], "128 units instead of 1,024")) == "smaller scale (128 units instead of 1,024): not judged"


def against(*advantages, **changes):
    return [Pair(seed, advantage, advantage > 0, **changes) for seed, advantage in enumerate(advantages)]


@pytest.mark.parametrize(
    ("pairs", "text"),
    [
        ([], "not yet run"),
        (against(0.1), "one seed only (as the paper says)"),
        (against(-0.1), "one seed only (against the paper)"),
        (against(0.1, 0.11, 0.12), "reproduced (3 of 3 seeds agree)"),
        (against(0.1, 0.01, 0.5), "undecided (3 of 3 seeds agree)"),
        (against(0.1, 0.11), "undecided (2 of 2 seeds agree)"),
        (against(0.1, -0.2, 0.1), "undecided (2 of 3 seeds agree)"),
        ([*against(0.1, 0.2), Pair(2, None, None)], "undecided (2 of 3 seeds agree, 1 undecided)"),
        (against(-0.1, -0.11, -0.12), "contradicted (0 of 3 seeds agree)"),
        (against(-0.1, -0.11, 0.01, -0.12, -0.1), "contradicted (1 of 5 seeds agree)"),
        (against(-0.01, -0.5), "undecided (0 of 2 seeds agree)"),
        ([*against(-0.1, -0.11), Pair(2, None, None)], "undecided (0 of 3 seeds agree, 1 undecided)"),
        ([*against(-0.1, -0.11, -0.12), Pair(3, None, False, failed=1)], "undecided (0 of 4 seeds agree, 1 run diverged)"),
        ([Pair(0, None, False, failed=1)], "one seed only (against the paper, 1 run diverged)"),
        ([Pair(0, None, True, failed=1), *against(0.1)], "undecided (2 of 2 seeds agree, 1 run diverged)"),
        ([Pair(0, None, None, failed=2)], "diverged (one seed, 2 runs diverged)"),
        (against(0.1, settled=False), "smaller scale (5 of 9 updates; one seed, as the paper says)"),
        (against(-0.1, settled=False), "smaller scale (5 of 9 updates; one seed, against the paper)"),
        (against(0.1, 0.11, 0.12, settled=False), "smaller scale (5 of 9 updates; 3 of 3 seeds agree): agrees"),
        (against(0.1, 0.01, 0.5, settled=False), "smaller scale (5 of 9 updates; 3 of 3 seeds agree): undecided"),
        ([Pair(0, None, None, settled=False)], "smaller scale (5 of 9 updates; one seed): not judged"),
        ([Pair(0, None, None)], "one seed only (neither shows it)"),
        ([Pair(0, None, None, failed=1)], "one seed only (neither shows it, 1 run diverged)"),
        ([Pair(0, None, None), Pair(1, None, None)], "not reproduced (0 of 2 seeds agree, 2 undecided)"),
        ([Pair(0, None, None, failed=2), Pair(1, None, None, failed=2)], "diverged (0 of 2 seeds agree, 2 undecided, 4 runs diverged)"),
        (
            [Pair(0, None, None, failed=2), Pair(1, None, None, failed=1)],
            "not reproduced (0 of 2 seeds agree, 2 undecided, 3 runs diverged)",
        ),
        (against(-500.0, -500.0, -500.0), "undecided (0 of 3 seeds agree)"),
    ],
)
def test_verdict_on_a_relation(pairs, text):
    assert str(judge_relation(pairs, cut="5 of 9 updates" if "5 of 9" in text else "")) == text


@pytest.mark.parametrize(
    ("agrees", "said"),
    [
        ((), "undecided"),
        ((None, None), "undecided"),
        ((True, True), "as in the paper"),
        ((False,), "against the paper"),
        ((None, False, False), "against the paper, 1 of 3 seeds undecided"),
        ((None, True, False), "as in the paper for some seeds only, 1 of 3 seeds undecided"),
    ],
)
def test_a_direction_is_that_of_decided_seeds(agrees, said):
    pairs = [Pair(seed, None, one) for seed, one in enumerate(agrees)]
    assert direction(SimpleNamespace(pairs=pairs)) == said


def test_where_a_relation_stands_is_its_finding_unless_it_has_one_seed():
    def stands(*advantages):
        pairs = against(*advantages)
        return standing(SimpleNamespace(pairs=pairs, verdict=judge_relation(pairs)))

    assert stands(7.0) == "as in the paper, one seed"
    assert stands(-7.0) == "against the paper, one seed"
    assert stands(7.0, 26.0) == "undecided, 2 of 2 seeds agree"
    assert stands(7.0, 7.1, 7.2) == "as in the paper, 3 of 3 seeds agree"
    assert stands(-7.0, -7.1, -7.2) == "against the paper, 0 of 3 seeds agree"
    assert stands(7.0, -7.1, 7.2) == "undecided, 2 of 3 seeds agree"


def test_a_relation_at_smaller_scale_says_which_way_it_points():
    verdict = judge_relation(against(-0.1, -0.101, -0.102), "200 units")
    assert (verdict.status, verdict.finding) == (Status.SMALLER, Finding.AGAINST)
    assert str(verdict) == "smaller scale (200 units; 0 of 3 seeds agree): disagrees"
    assert judge_relation(against(0.1, 0.11, 0.12), "200 units").finding is Finding.FOR
    assert judge_relation(against(0.1, -0.1), "200 units").finding is Finding.OPEN


@pytest.mark.parametrize(
    ("advantages", "finding"),
    [
        ((0.1, 0.11, 0.12), Finding.FOR),
        ((0.1, 0.01, 0.5), Finding.OPEN),
        ((-0.01, -0.5), Finding.OPEN),
        ((-0.1, -0.11, -0.1), Finding.AGAINST),
    ],
)
def test_the_same_test_decides_at_every_size(advantages, finding):
    """Three seeds that agree by chance are no more evidence for an ordering than three that disagree are against it."""
    status = {Finding.FOR: Status.REPRODUCED, Finding.AGAINST: Status.CONTRADICTED, Finding.OPEN: Status.UNDECIDED}[finding]
    published, smaller = judge_relation(against(*advantages)), judge_relation(against(*advantages), "200 units")
    assert (published.status, published.finding, smaller.finding) == (status, finding, finding)


@pytest.mark.parametrize(("interval", "status"), [(1_000, Status.REPRODUCED), (1_300, Status.UNDECIDED), (0, Status.UNDECIDED)])
def test_equal_events_are_tested_with_the_interval_between_evaluations(interval, status):
    """With an advantage d and an interval r, t is d times the square root of 3 over r; its limit is 4.303."""
    assert judge_relation(against(3_000, 3_000, 3_000, resolution=interval)).status is status


def test_two_seeds_are_never_significant():
    """With one degree of freedom, 0.1 and 0.101 would have p = 0.003."""
    assert judge_relation(against(0.1, 0.101), "200 units").finding is Finding.OPEN
    assert judge_relation(against(-0.1, -0.101)).status is Status.UNDECIDED


def test_at_smaller_scale_seeds_must_differ_significantly():
    """One seed decides nothing, three that agree by chance neither, and pairs without a number cannot be tested."""
    assert judge_relation(against(0.1), "200 units").finding is Finding.ONE_SEED
    assert judge_relation(against(0.1, 0.01, 0.5), "200 units").finding is Finding.OPEN  # t = 1.36, p = 0.31
    assert judge_relation([Pair(seed, None, True, failed=1) for seed in range(3)], "200 units").finding is Finding.OPEN
    assert judge_relation([*against(0.1, 0.11, 0.12), Pair(3, None, True, failed=1)], "200 units").finding is Finding.OPEN
    assert judge_relation([Pair(0, None, None)], "200 units").finding is Finding.NONE
    assert judge_relation([*against(0.1, 0.11, 0.12), Pair(3, 0.1, None)], "200 units").finding is Finding.OPEN
    assert judge_relation([Pair(seed, 0.0, True) for seed in range(3)], "200 units").finding is Finding.OPEN
    assert judge_relation(against(1.0, 1.0), "200 units").finding is Finding.OPEN  # two counts that are equal by chance


@pytest.mark.parametrize(("spread", "finding"), [(0.40, Finding.FOR), (0.41, Finding.OPEN)])
def test_the_level_of_significance_is_five_percent(spread, finding):
    """With values 1 - d, 1 and 1 + d, t is the square root of 3 over d; its limit with two degrees of freedom is 4.303."""
    assert judge_relation(against(1 - spread, 1.0, 1 + spread), "200 units").finding is finding


def test_a_value_that_some_seeds_reached_is_undecided():
    assert judge(LOSS, [short(2.9), short(2.8)]).finding is Finding.FOR
    assert judge(LOSS, [short(2.9), seen(3.0), seen(3.1)]).finding is Finding.OPEN


@pytest.mark.parametrize(
    ("pairs", "ahead", "behind"),
    [
        ([Pair(0, 7.0, True, bound=True), Pair(1, 5.0, True)], "at least ", "at most "),
        ([Pair(0, -7.0, False, bound=True), Pair(1, 9.0, True)], "at most ", "at least "),
        ([Pair(0, -7.0, False, bound=True), Pair(1, 9.0, True, bound=True)], "about ", "about "),
        ([Pair(0, None, None, bound=True, settled=False), Pair(1, 9.0, True)], "", ""),
    ],
)
def test_a_mean_is_a_bound_on_the_side_of_its_pairs(pairs, ahead, behind):
    assert (bound_of(pairs), bound_of(pairs, -1)) == (ahead, behind)


def test_difference_of_pairs_is_that_of_means_with_its_standard_error():
    assert difference(against(1.0, 2.0, 6.0)) == pytest.approx((3.0, math.sqrt(7) / math.sqrt(3), 3))
    assert difference(against(1.0)) == (1.0, math.inf, 1)
    assert difference([Pair(0, None, None)]) is None


@pytest.mark.parametrize(
    ("observed", "text"),
    [
        ([seen(25_000), seen(33_000), seen(None)], "29,000 ± 5,657 (mean of 2 of 3 seeds)"),
        ([seen(25_000), seen(None, settled=False, failed=True)], "25,000 (mean of 1 of 2 seeds, 1 diverged)"),
        ([seen(20.0, censored=True), seen(18.0)], "at least 19"),
        ([seen(None), seen(None)], "not in 100 updates"),
        ([short(None)], "not yet in 40 updates"),
        ([seen(None, settled=False, failed=True)], "diverged after 100 updates"),
        ([], "–"),
    ],
)
def test_a_mean_says_what_it_leaves_out(observed, text):
    assert summarize(observed, "{:,.0f}", event=True) == text


def test_nothing_observed_points_nowhere():
    assert (NOT_RUN.status, NOT_RUN.finding) == (Status.NOT_RUN, Finding.NONE)
