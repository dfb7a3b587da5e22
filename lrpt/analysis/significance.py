"""Differences that are more than chance: paired seeds, and the correction for several comparisons."""

import math
from collections.abc import Sequence

import numpy as np

from lrpt.errors import UsageError

ROUNDING = 1e-12
"""Differences of scores that are equal but for this part of the largest score are equal: they differ by rounding."""


def paired(one: Sequence[float], other: Sequence[float]) -> float | None:
    r"""Return the two-sided p-value of Student's t-test on pairs: how probable such a mean difference is if the models are equally good.

    .. math::
        t = \bar d \Big/ \frac{s}{\sqrt n}

    has n - 1 degrees of freedom. :math:`\bar d` is the mean of the n differences d, and s their standard deviation.

    Args:
      one, other: scores of two models, in the order of their common seeds.

    Returns:
      None with fewer than two pairs, or if a score is not finite. If all pairs have the same difference, 1 if it is zero and 0 if not.

    Raises:
      UsageError: there are not as many scores of one model as of the other.
    """
    from scipy import stats  # takes half a second

    if len(one) != len(other):
        raise UsageError(f"there are {len(one)} scores of one model and {len(other)} of the other: give both for the same seeds")
    if len(one) < 2 or not np.isfinite([one, other]).all():
        return None
    gaps = np.subtract(one, other)
    if np.ptp(gaps) <= ROUNDING * np.abs([one, other]).max():
        return float(np.abs(gaps).max() <= ROUNDING * np.abs([one, other]).max())
    return float(tuple(stats.ttest_1samp(gaps, 0.0))[1])  # (statistic, p)


def holm(p_values: Sequence[float | None], level: float = 0.05) -> list[bool]:
    r"""Return which differences are significant by the correction of Holm (1979) for all of them together.

    The k-th smallest of m p-values is significant if it and all smaller ones pass

    .. math::
        p_{(k)} \le \frac{level}{m - k + 1}

    Args:
      p_values: one for each difference; None or NaN, for which nothing is known, is never significant, and not counted in m.
      level: family-wise error rate, the probability of calling any difference significant if there is none.

    Returns:
      One boolean for each difference, in the given order.
    """
    known = sorted((p, i) for i, p in enumerate(p_values) if p is not None and not math.isnan(p))
    found = [False] * len(p_values)
    for rank, (p, i) in enumerate(known):
        if p > level / (len(known) - rank):
            break
        found[i] = True
    return found
