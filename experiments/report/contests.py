"""Contests: ways to compare two runs of one seed, of which the paper calls the first one better."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from experiments.report.matching import is_over
from experiments.report.records import Record
from experiments.report.verdicts import Pair, compared
from lrpt.training.config import RunConfig


class Contest(Protocol):
    """Comparison of two runs by one metric."""

    @property
    def name(self) -> str: ...
    @property
    def form(self) -> str: ...
    @property
    def best(self) -> bool: ...
    def compare(self, better: Record, worse: Record, lengths: tuple[RunConfig[Any], RunConfig[Any]], strict: bool) -> Pair: ...


EARLY = 0.1
"""share of the longer training before which an ordering of unfinished networks says nothing"""


def _too_early(updates: int, lengths: tuple[RunConfig[Any], RunConfig[Any]]) -> bool:
    return updates < EARLY * max(config.train.updates for config in lengths)


def _failures(better: Record, worse: Record) -> Pair:
    """Return the outcome where at least one of two runs diverged: the one that did not is better."""
    failures = (better.failure is not None) + (worse.failure is not None)
    return Pair(better.seed, None, None if failures == 2 else better.failure is None, failed=failures)


@dataclass(frozen=True)
class Final:
    """A figure of the test part where both trained to the end; otherwise the best validation figure up to the last common update.

    Attributes:
      name: what it is, with its unit.
      score: as `metrics.jsonl` names it.
      form: format string.
      higher: whether higher is better.
      best: whether the figure depends on which evaluation was the best.
      decimals: to which figures are rounded before they are compared, where the paper prints equal ones; None for no rounding.
      cut_short: whether validation figures of unfinished networks are compared.
    """

    name: str
    score: str
    form: str
    higher: bool = False
    best: bool = True
    decimals: int | None = None
    cut_short: bool = True

    def compare(self, better: Record, worse: Record, lengths: tuple[RunConfig[Any], RunConfig[Any]], strict: bool) -> Pair:
        """Compare two runs of one seed."""
        over = is_over(lengths[0], better) and is_over(lengths[1], worse)
        if _unfinished(better, worse, lengths):
            return _failures(better, worse)
        one, other = better.tested(self.score), worse.tested(self.score)
        common = min(better.updates, worse.updates)
        if not over or one is None or other is None:
            one, other = self._best(better, common), self._best(worse, common)
        if one is None or other is None or not (over or self.cut_short):
            return Pair(better.seed, None, None, settled=False)
        if self.decimals is not None:
            one, other = round(one, self.decimals), round(other, self.decimals)
        pair = compared(better.seed, one - other if self.higher else other - one, strict, settled=over)
        return pair if over or not _too_early(common, lengths) else pair._replace(agrees=None)

    def _best(self, run: Record, update: int) -> float | None:
        values = [value for when, value in run.selectable(self.score).items() if when <= update]
        return (max if self.higher else min)(values, default=None)


def _unfinished(better: Record, worse: Record, lengths: tuple[RunConfig[Any], RunConfig[Any]]) -> bool:
    """Return whether at least one of two runs diverged before its end."""
    return any(run.failure is not None and not is_over(config, run) for run, config in zip((better, worse), lengths, strict=True))


@dataclass(frozen=True)
class Last:
    """A validation figure at the last update that both have, lower is better. Attributes are as in `Final`."""

    name: str
    score: str
    form: str
    best: bool = False

    def compare(self, better: Record, worse: Record, lengths: tuple[RunConfig[Any], RunConfig[Any]], strict: bool) -> Pair:
        """Compare two runs of one seed."""
        if _unfinished(better, worse, lengths):
            return _failures(better, worse)
        common = min(better.updates, worse.updates)
        values = better.up_to(self.score, common), worse.up_to(self.score, common)
        if values[0] is None or values[1] is None:
            return Pair(better.seed, None, None, settled=False)
        over = is_over(lengths[0], better) and is_over(lengths[1], worse)
        pair = compared(better.seed, values[1] - values[0], strict, settled=over)
        return pair if over or not _too_early(common, lengths) else pair._replace(agrees=None)


@dataclass(frozen=True)
class First:
    """Updates until a validation figure meets a condition; a run that never meets it took longer than it ran.

    Attributes:
      name: what is counted.
      score: as `metrics.jsonl` names the figure.
      holds: the condition.
      form: format string.
      best: whether the count depends on which evaluation was the best.
    """

    name: str
    score: str
    holds: Callable[[float], bool]
    form: str = "{:,.0f}"
    best: bool = False

    def compare(self, better: Record, worse: Record, lengths: tuple[RunConfig[Any], RunConfig[Any]], strict: bool) -> Pair:
        """Compare two runs of one seed."""
        one, other = better.first(self.score, self.holds), worse.first(self.score, self.holds)
        if one is not None and other is not None:
            return compared(better.seed, other - one, strict)
        if one is not None:
            known = worse.updates >= one
            return Pair(better.seed, max(0, worse.updates - one), True if known else None, bound=True, settled=known)
        if other is not None:
            known = better.updates >= other
            return Pair(better.seed, -max(0, better.updates - other), False if known else None, bound=True, settled=known)
        return Pair(better.seed, None, None, settled=False)


@dataclass(frozen=True)
class Recoveries:
    """Recoveries from gradients that are not finite, up to the last common update; fewer are better. Attributes are as in `Final`.

    A recipe without recovery has none: its run would have diverged. Nothing is said of two runs that needed none.
    """

    name: str = "recoveries from gradients that are not finite"
    form: str = "{:.0f}"
    best: bool = False

    def compare(self, better: Record, worse: Record, lengths: tuple[RunConfig[Any], RunConfig[Any]], strict: bool) -> Pair:
        """Compare two runs of one seed."""
        if _unfinished(better, worse, lengths):
            return _failures(better, worse)
        common = min(better.updates, worse.updates)
        counts = recovered(better, common), recovered(worse, common)
        pair = compared(better.seed, counts[1] - counts[0], strict)
        return pair if any(counts) and not _too_early(common, lengths) else pair._replace(agrees=None, settled=False)


def recovered(run: Record, update: int) -> float:
    """Return how many recoveries a run had up to an update."""
    return max((line["recoveries"] for line in run.training() if line["update"] <= update and "recoveries" in line), default=0)
