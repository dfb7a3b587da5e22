"""Student's test on pairs, and the correction of Holm (1979) by hand."""

import math

import pytest
from scipy import stats

from lrpt.analysis.significance import holm, paired
from lrpt.errors import UsageError


def test_pairs_are_tested_by_students_test():
    one, other = [1.0, 2.0, 4.0, 3.0], [0.5, 1.8, 3.0, 3.1]
    assert paired(one, other) == pytest.approx(stats.ttest_rel(one, other).pvalue)


def test_equal_differences_have_no_spread():
    assert paired([1.0], [2.0]) is None
    assert paired([1.0, 2.0], [0.0, 1.0]) == 0.0
    assert paired([1.0, 2.0], [1.0, 2.0]) == 1.0
    assert paired([0.1, 0.2], [0.2, 0.3]) == 0.0  # equal but for rounding
    assert paired([0.1 + 0.2, 0.7], [0.3, 0.7]) == 1.0


@pytest.mark.parametrize("loss", [math.nan, math.inf])
def test_nothing_is_known_of_a_model_that_diverged(loss):
    assert paired([1.0, loss, 2.0], [0.5, 1.0, 1.5]) is None
    assert paired([loss, loss], [loss, loss]) is None


def test_scores_without_a_partner_are_refused():
    with pytest.raises(UsageError, match="1 scores of one model and 3 of the other"):
        paired([1.0], [1.0, 2.0, 3.0])


@pytest.mark.parametrize(
    ("p_values", "significant"),
    [
        ([0.03, 0.01, 0.02], [True, True, True]),  # limits 0.05 / 3, 0.05 / 2 and 0.05, from the lowest on
        ([0.03, 0.01, 0.04], [False, True, False]),  # 0.04 is below its limit, but behind 0.03, which is not
        ([0.02, 0.02, 0.02], [False, False, False]),
        ([None, 0.05, None], [False, True, False]),  # what is not known counts as no comparison
        ([math.nan, 0.05, 0.6], [False, False, False]),  # nor does NaN, which is below no limit and above none
        ([math.nan, 0.02, 0.6], [False, True, False]),
        ([], []),
    ],
)
def test_holm(p_values, significant):
    assert holm(p_values) == significant


def test_holm_at_another_level():
    assert holm([0.03, 0.01], level=0.01) == [False, False]
    assert holm([0.03, 0.01], level=0.02) == [False, True]
