"""Differences between parametrizations, usually from full matrices, and which of them are more than chance.

Errors are compared by their ratio: losses and bits as they are, accuracies a as 1 - a. The logarithm x of an error has about the same
variance in all pairs of a task. So one variance is estimated from all of them: s^2 = sum (x - mean of the pair)^2 / df, with df the number
of runs less the number of pairs. Three seeds of a pair alone would leave too few degrees of freedom. A difference is tested by Student's t
with df degrees of freedom: a contrast of a one-way analysis of variance.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from lrpt.analysis.significance import holm
from lrpt.cli.studies import grouped
from lrpt.metrics import LOWER_IS_BETTER

Scores = Mapping[str, Mapping[str, Sequence[float]]]
"""cell -> parametrization -> scores of all seeds"""

FLOOR = 1e-4
"""smallest error of an accuracy, for networks without any"""


class Difference(NamedTuple):
    """The difference of a parametrization from another one, in one cell or over all cells.

    Attributes:
      cell: the cell; None for the geometric mean over cells that have both parametrizations.
      parametrization: the one that is compared.
      ratio: its error divided by that of the other one; geometric means over seeds.
      p: two-sided p-value of a ratio other than 1; None if no pair has two seeds.
      significant: whether p is below the level, with the correction of Holm (1979) for all differences that are tested together.
      better: number of cells with a ratio below 1.
      cells: number of cells.
    """

    cell: str | None
    parametrization: str
    ratio: float
    p: float | None
    significant: bool
    better: int
    cells: int


def scores_of(rows: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, list[float]]]:
    """Return the scores of all seeds by cell and parametrization, from the runs of one task."""
    found = grouped(rows, "cell", "parametrization")
    return {cell: {kind: [row["score"] for row in own] for kind, own in kinds.items()} for cell, kinds in found.items()}


def differences(scores: Scores, score: str) -> list[Difference]:
    """Compare each parametrization with full matrices in each cell, at a family-wise error rate of 5 %.

    Args:
      scores: scores of one task.
      score: metric that they are.
    """
    return _tested(scores, score, "dense", lambda cell: cell)


def overall(scores: Scores, score: str, other: str = "dense") -> list[Difference]:
    """Compare each parametrization with another one over all cells, each with the same weight, at a family-wise error rate of 5 %."""
    return _tested(scores, score, other, lambda cell: None)


def _tested(scores: Scores, score: str, other: str, group: Callable[[str], str | None]) -> list[Difference]:
    """Return a difference for each parametrization and group of cells."""
    logs = {cell: {kind: _log_errors(own, score) for kind, own in kinds.items()} for cell, kinds in scores.items()}
    deviation, freedom = _pooled(own for kinds in logs.values() for own in kinds.values())
    gaps: dict[tuple[str | None, str], list[tuple[float, float]]] = {}
    for cell, kinds in logs.items():
        for kind in kinds if other in kinds else ():
            if kind != other:
                gaps.setdefault((group(cell), kind), []).append(_gap(kinds[kind], kinds[other]))
    found = [_difference(cell, kind, own, deviation, freedom) for (cell, kind), own in gaps.items()]
    return [one._replace(significant=is_so) for one, is_so in zip(found, holm([one.p for one in found]), strict=True)]


def _log_errors(scores: Sequence[float], score: str) -> np.ndarray:
    errors = np.asarray(scores, float)
    return np.log(errors if score in LOWER_IS_BETTER else np.maximum(1 - errors, FLOOR))


def _pooled(samples: Iterable[np.ndarray]) -> tuple[float, int]:
    """Return the standard deviation within samples, and its degrees of freedom."""
    found = list(samples)
    freedom = sum(own.size - 1 for own in found)
    squares = sum(float(np.sum((own - own.mean()) ** 2)) for own in found)
    return (math.sqrt(squares / freedom) if freedom else math.nan), freedom


def _gap(own: np.ndarray, others: np.ndarray) -> tuple[float, float]:
    """Return the difference of two means, and its variance in units of s^2."""
    return float(own.mean() - others.mean()), 1 / own.size + 1 / others.size


def _difference(cell: str | None, kind: str, gaps: Sequence[tuple[float, float]], deviation: float, freedom: int) -> Difference:
    mean, number = float(np.mean([gap for gap, _ in gaps])), len(gaps)
    error = deviation * math.sqrt(sum(variance for _, variance in gaps)) / number
    better = sum(gap < 0 for gap, _ in gaps)
    return Difference(cell, kind, math.exp(mean), _p(mean, error, freedom), False, better, number)


def _p(mean: float, error: float, freedom: int) -> float | None:
    from scipy import stats  # takes half a second

    if freedom == 0:
        return None
    if error == 0:
        return float(mean == 0)
    return float(2 * stats.t.sf(abs(mean) / error, freedom))
