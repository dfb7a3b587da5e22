"""Differences that are more than chance: paired seeds, and the correction for several comparisons."""

from collections.abc import Sequence

import numpy as np


def paired(one: Sequence[float], other: Sequence[float]) -> float | None:
    """Return the probability of a mean difference at least as large if there is none, by Student's test on pairs.

    Args:
      one, other: scores of two models, in the order of their common seeds.

    Returns:
      None with fewer than two pairs.
    """
    from scipy import stats  # takes half a second

    gaps = np.subtract(one, other)
    if gaps.size < 2:
        return None
    if np.ptp(gaps) == 0:
        return float(gaps[0] == 0)
    return float(tuple(stats.ttest_1samp(gaps, 0.0))[1])  # (statistic, p)


def holm(p_values: Sequence[float | None], level: float = 0.05) -> list[bool]:
    """Return which differences are significant by the correction of Holm (1979) for all of them together.

    Args:
      p_values: probabilities; None, for which nothing is known, is never significant.
      level: probability of calling any difference significant if there is none.
    """
    known = sorted((i for i, p in enumerate(p_values) if p is not None), key=lambda i: p_values[i] or 0.0)
    found = [False] * len(p_values)
    for rank, i in enumerate(known):
        if (p_values[i] or 0.0) > level / (len(known) - rank):
            break
        found[i] = True
    return found
