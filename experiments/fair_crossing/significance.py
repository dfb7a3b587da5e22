"""Differences between parametrizations, usually from full matrices, and which of them are more than chance."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from lrpt.analysis.significance import holm
from lrpt.cli.studies import grouped


class Difference(NamedTuple):
    """The difference of a parametrization from another one in one cell.

    Attributes:
      cell, parametrization: the pair.
      mean: mean score less that of the other one.
      p: probability of a difference at least as large if there is none (Welch 1947), None with fewer than two seeds.
      significant: whether it is below the level after the correction of Holm (1979) for all differences together.
    """

    cell: str
    parametrization: str
    mean: float
    p: float | None
    significant: bool


def scores_of(rows: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, list[float]]]:
    """Return the scores of all seeds by cell and parametrization, from the runs of one task."""
    found = grouped(rows, "cell", "parametrization")
    return {cell: {kind: [row["score"] for row in own] for kind, own in kinds.items()} for cell, kinds in found.items()}


def differences(scores: Mapping[str, Mapping[str, Sequence[float]]], level: float = 0.05, other: str = "dense") -> list[Difference]:
    """Compare each parametrization with another one, by default full matrices, in the same cell.

    Args:
      scores: cell -> parametrization -> scores of all seeds.
      level: probability of calling any difference significant if there is none.
      other: the parametrization that all are compared with.
    """
    found = [
        Difference(cell, kind, float(np.mean(own) - np.mean(of_cell[other])), _p(own, of_cell[other]), False)
        for cell, of_cell in scores.items()
        if other in of_cell
        for kind, own in of_cell.items()
        if kind != other
    ]
    return [one._replace(significant=is_so) for one, is_so in zip(found, holm([one.p for one in found], level), strict=True)]


def _p(one: Sequence[float], other: Sequence[float]) -> float | None:
    from scipy import stats  # takes half a second

    if min(len(one), len(other)) < 2:
        return None
    if np.var(one) == np.var(other) == 0:
        return float(np.mean(one) == np.mean(other))
    return float(tuple(stats.ttest_ind(one, other, equal_var=False))[1])  # (statistic, p)
