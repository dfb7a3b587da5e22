"""Differences between parametrizations, usually from dense matrices, and which of them are more than chance.

Errors are compared by their ratio: losses and bits as they are, accuracies a as 1 - a. The logarithms of the errors of a pair (a cell with
one parametrization) have a variance of their own, because some pairs depend far more on their seed than others. So a difference of means
over seeds is tested by Welch's test, with s_i^2 the variance of pair i and n_i its seeds:

    v = sum_i s_i^2 / n_i,    t = difference / sqrt(v),    degrees of freedom = v^2 / sum_i (s_i^2 / n_i)^2 / (n_i - 1)   (Satterthwaite)

A mean over cells is tested in the same way, from the pairs of all its cells. It speaks of these cells: cells are not a sample of others.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from lrpt.analysis.significance import holm
from lrpt.cli.studies import grouped
from lrpt.metrics import is_lower_better

Scores = Mapping[str, Mapping[str, Sequence[float]]]
"""cell -> parametrization -> scores of all seeds"""

FLOOR = 1e-4
"""smallest error of an accuracy, for networks without any"""


class ErrorRatio(NamedTuple):
    """The error of a parametrization, divided by that of another one: in one cell, or over all cells.

    Attributes:
      cell: the cell; None for the geometric mean over cells that have both parametrizations.
      parametrization: the one that is compared.
      ratio: the ratio of both errors; geometric means over seeds.
      p: two-sided p-value of a ratio other than 1; None if a pair has one seed.
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


def differences(scores: Scores, score: str) -> list[ErrorRatio]:
    """Compare each parametrization with dense matrices in each cell, at a family-wise error rate of 5 %.

    Args:
      scores: scores of one task.
      score: metric that they are.
    """
    return _tested(scores, score, "dense", lambda cell: cell)


def overall(scores: Scores, score: str, other: str = "dense") -> list[ErrorRatio]:
    """Compare each parametrization with another one over all cells, each with the same weight, at a family-wise error rate of 5 %."""
    return _tested(scores, score, other, lambda cell: None)


def _tested(scores: Scores, score: str, other: str, group: Callable[[str], str | None]) -> list[ErrorRatio]:
    """Return the ratio to the errors of `other` for each parametrization and group of cells."""
    logs = {cell: {kind: _log_errors(own, score) for kind, own in kinds.items()} for cell, kinds in scores.items()}
    gaps: dict[tuple[str | None, str], list[tuple[np.ndarray, np.ndarray]]] = {}
    for cell, kinds in logs.items():
        for kind in kinds if other in kinds else ():
            if kind != other:
                gaps.setdefault((group(cell), kind), []).append((kinds[kind], kinds[other]))
    found = [_error_ratio(cell, kind, own) for (cell, kind), own in gaps.items()]
    return [one._replace(significant=is_so) for one, is_so in zip(found, holm([one.p for one in found]), strict=True)]


def _log_errors(scores: Sequence[float], score: str) -> np.ndarray:
    errors = np.asarray(scores, float)
    return np.log(errors if is_lower_better(score) else np.maximum(1 - errors, FLOOR))


def _error_ratio(cell: str | None, kind: str, pairs: Sequence[tuple[np.ndarray, np.ndarray]]) -> ErrorRatio:
    """Return the ratio of errors from the mean difference of their logarithms, over pairs of samples."""
    gaps = [float(own.mean() - others.mean()) for own, others in pairs]
    mean, better = float(np.mean(gaps)), sum(gap < 0 for gap in gaps)
    return ErrorRatio(cell, kind, math.exp(mean), _p(sum(gaps), [one for pair in pairs for one in pair]), False, better, len(gaps))


def _p(total: float, samples: Sequence[np.ndarray]) -> float | None:
    """Return the p-value of a sum of differences of means, by Welch's test."""
    from scipy import stats  # takes half a second

    if any(own.size < 2 for own in samples):
        return None
    variances = np.array([own.var(ddof=1) / own.size for own in samples])
    if not variances.any():
        return float(total == 0)
    freedom = variances.sum() ** 2 / np.sum(variances**2 / np.array([own.size - 1 for own in samples]))
    return float(2 * stats.t.sf(abs(total) / math.sqrt(variances.sum()), freedom))
