"""Contests: ways to compare two runs of one seed, of which the paper calls the first one better."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from experiments.report.claims.matching import excess, has_only_begun, is_over
from experiments.report.claims.pairs import Pair, compared
from experiments.report.kept.records import Record
from lrpt.training.config import RunConfig

Configs = tuple[RunConfig[Any], RunConfig[Any]]
"""The configurations of the two networks, the one that the paper calls better first. They say how long each is trained."""


class Compared(Protocol):
    """Values that a relation compares: their name, their format string, and whether they depend on which evaluation was the best."""

    @property
    def name(self) -> str: ...
    @property
    def form(self) -> str: ...
    @property
    def best(self) -> bool: ...


class Contest(Compared, Protocol):
    """Comparison of two runs by one metric."""

    def compare(self, better: Record, worse: Record, configs: Configs, strict: bool) -> Pair: ...


def are_over(configs: Configs, better: Record, worse: Record) -> bool:
    """Return whether both runs trained as long as the claim says."""
    return is_over(configs[0], better) and is_over(configs[1], worse)


def in_progress(pair: Pair, updates: int, configs: Configs) -> Pair:
    """Return a pair of unfinished runs: before a tenth of the training, nobody is ahead."""
    too_early = has_only_begun(updates, max(config.train.updates for config in configs))
    return pair._replace(settled=False, agrees=None if too_early else pair.agrees)


def diverged(config: RunConfig[Any], run: Record) -> bool:
    """Return whether a run diverged before its end."""
    return run.failure is not None and not is_over(config, run)


def by_divergence(better: Record, worse: Record, configs: Configs) -> Pair | None:
    """Return the outcome if at least one of two runs diverged: the other one is better. Return None if neither diverged.

    Nobody is ahead if the other run is unfinished and has not reached the update of the divergence, because it may still diverge earlier.
    """
    lost = diverged(configs[0], better), diverged(configs[1], worse)
    if not any(lost):
        return None
    if all(lost):
        return Pair(better.seed, None, None, failed=2)
    (winner, config), loser = ((worse, configs[1]), better) if lost[0] else ((better, configs[0]), worse)
    over, further = is_over(config, winner), winner.updates >= (loser.failure or {})["update"]
    return Pair(better.seed, None, lost[1] if over or further else None, settled=over, failed=1)


def undecided(seed: int) -> Pair:
    """Return the pair of two runs that cannot be compared yet."""
    return Pair(seed, None, None, settled=False)


class LostIfDiverged(ABC):
    """Base of contests in which a run that diverged is worse than one that did not."""

    @abstractmethod
    def pair(self, better: Record, worse: Record, configs: Configs, strict: bool) -> Pair:
        """Compare two runs that did not diverge."""

    def compare(self, better: Record, worse: Record, configs: Configs, strict: bool) -> Pair:
        """Compare two runs of one seed."""
        pair = by_divergence(better, worse, configs)
        return self.pair(better, worse, configs, strict) if pair is None else pair


def rounded(decimals: int | None, *values: float) -> tuple[float, ...]:
    """Return values as they are printed: rounded to a number of decimals, or unchanged if it is None."""
    return values if decimals is None else tuple(round(value, decimals) for value in values)


@dataclass(frozen=True)
class Final(LostIfDiverged):
    """A metric of the test split if both trained to the end; otherwise the best validation metric up to the last common update.

    The test metric of a run that is longer than its claim says is not held against that of one that is not.

    Attributes:
      name: what it is, with its unit.
      score: as `metrics.jsonl` names it.
      form: format string.
      higher: whether higher is better.
      best: whether the metric depends on which evaluation was the best.
      decimals: to which values are rounded before they are compared, where the paper prints equal ones; None for no rounding.
      cut_short: whether validation metrics of unfinished networks are compared.
    """

    name: str
    score: str
    form: str
    higher: bool = False
    best: bool = True
    decimals: int | None = None
    cut_short: bool = True

    def pair(self, better: Record, worse: Record, configs: Configs, strict: bool) -> Pair:
        """Compare two runs that did not diverge."""
        tested = better.tested(self.score), worse.tested(self.score)
        comparable = are_over(configs, better, worse) and excess(configs[0], better) == excess(configs[1], worse)
        if comparable and None not in tested:
            return self._by(better.seed, tested, strict)
        if not self.cut_short:
            return undecided(better.seed)
        common = min(better.updates, worse.updates)
        return in_progress(self._by(better.seed, (self._best(better, common), self._best(worse, common)), strict), common, configs)

    def _by(self, seed: int, scores: tuple[float | None, float | None], strict: bool) -> Pair:
        """Compare two scores, rounded as the paper prints them."""
        one, other = scores
        if one is None or other is None:
            return undecided(seed)
        return compared(seed, self._gap(*rounded(self.decimals, one, other)), strict)

    def _gap(self, one: float, other: float) -> float:
        """Return by how much the first score is better."""
        return one - other if self.higher else other - one

    def _best(self, run: Record, update: int) -> float | None:
        values = [value for when, value in run.selectable(self.score).items() if when <= update]
        return (max if self.higher else min)(values, default=None)

    def last_gain(self, run: Record) -> float:
        """Return by how much the last validation metric of a run is better than all before it; 0 if it is not."""
        *before, last = [value if self.higher else -value for value in run.selectable(self.score).values()] or [0.0]
        return max(0.0, last - max(before)) if before else 0.0


@dataclass(frozen=True)
class BestOnValidation(Final):
    """The best validation metric of runs that both trained to the end: the split that selects the state, beside the test split."""

    def pair(self, better: Record, worse: Record, configs: Configs, strict: bool) -> Pair:
        """Compare two runs that did not diverge."""
        if not are_over(configs, better, worse):
            return undecided(better.seed)
        return self._by(better.seed, (self._best(better, better.updates), self._best(worse, worse.updates)), strict)


@dataclass(frozen=True)
class Alike(Final):
    """A metric whose two values the paper calls equal. The advantage is a tolerance minus their difference.

    A network that diverged is not equal to one that did not. For versions at published size: gains of the last evaluation say nothing here.

    Attributes:
      tolerance: up to which difference two values count as equal.
    """

    tolerance: float = 0.0

    def compare(self, better: Record, worse: Record, configs: Configs, strict: bool) -> Pair:
        """Compare two runs of one seed."""
        pair = super().compare(better, worse, configs, strict)
        if pair.advantage is None:
            return pair._replace(agrees=False) if pair.failed == 1 and pair.agrees is not None else pair
        room = self.tolerance - abs(pair.advantage)
        return pair._replace(advantage=room, agrees=None if pair.agrees is None else room >= 0)


class AlsoUnfinished(LostIfDiverged):
    """Base of contests that compare unfinished runs, too."""

    @abstractmethod
    def so_far(self, better: Record, worse: Record, common: int, strict: bool) -> Pair:
        """Compare two runs that did not diverge; `common` is the last update that both have."""

    def pair(self, better: Record, worse: Record, configs: Configs, strict: bool) -> Pair:
        """Compare two runs that did not diverge."""
        common = min(better.updates, worse.updates)
        pair = self.so_far(better, worse, common, strict)
        return pair if pair.advantage is None or are_over(configs, better, worse) else in_progress(pair, common, configs)


@dataclass(frozen=True)
class Last(AlsoUnfinished):
    """A validation metric at the last update that both have; lower is better. Attributes are as in `Final`."""

    name: str
    score: str
    form: str
    best: bool = False
    decimals: int | None = None

    def so_far(self, better: Record, worse: Record, common: int, strict: bool) -> Pair:
        """Compare the last metrics up to an update."""
        one, other = better.up_to(self.score, common), worse.up_to(self.score, common)
        if one is None or other is None:
            return undecided(better.seed)
        one, other = rounded(self.decimals, one, other)
        return compared(better.seed, other - one, strict)


@dataclass(frozen=True)
class First:
    """Updates until a validation metric meets a condition; a run that never meets it took longer than it ran.

    Attributes:
      name: what is counted.
      score: as `metrics.jsonl` names the metric.
      holds: the condition.
      form: format string.
      best: whether the count depends on which evaluation was the best.
    """

    name: str
    score: str
    holds: Callable[[float], bool]
    form: str = "{:,.0f}"
    best: bool = False

    def compare(self, better: Record, worse: Record, configs: Configs, strict: bool) -> Pair:
        """Compare two runs of one seed."""
        resolution = max(config.train.evaluate_every for config in configs)
        return self._compared(better, worse, configs, strict)._replace(resolution=resolution)

    def _compared(self, better: Record, worse: Record, configs: Configs, strict: bool) -> Pair:
        one, other = better.first(self.score, self.holds), worse.first(self.score, self.holds)
        if one is not None and other is not None:
            return compared(better.seed, other - one, strict)
        if one is not None:
            return self._against(worse, configs[1], one, sign=1)
        if other is not None:
            return self._against(better, configs[0], other, sign=-1)
        runs = tuple(zip(configs, (better, worse), strict=True))
        failed = sum(diverged(config, run) for config, run in runs)
        settled = all(diverged(config, run) or is_over(config, run) for config, run in runs)
        return Pair(better.seed, None, None, settled=settled, failed=failed)

    def _against(self, run: Record, config: RunConfig[Any], update: int, sign: int) -> Pair:
        """Compare an event at some update with a run without it, whose own event would come after its last update.

        Args:
          run: the run without the event.
          config: what it trains.
          update: when the event came in the other run.
          sign: 1 if the paper calls the run with the event better, and -1 if it calls the run without it better.
        """
        if diverged(config, run):
            return Pair(run.seed, None, sign > 0, failed=1)
        ahead = run.updates - update
        if ahead < 0:  # a run that ended earlier could have been the faster one; if its claim asks for no more, neither shows it in time
            return Pair(run.seed, None, None, bound=True, settled=is_over(config, run))
        return Pair(run.seed, sign * ahead, sign > 0, bound=True)


@dataclass(frozen=True)
class EndsAbove(AlsoUnfinished):
    """Comparison by whether the last validation metric of a run is above a level (1) or not (0, which is better).

    Two runs that are both above the level decide nothing, and neither do two runs that are not.

    Attributes:
      name: the metric and the level.
      score: as `metrics.jsonl` names the metric.
      level: such as the score of a predictor without memory.
      form: format string.
      best: whether the metric depends on which evaluation was the best.
    """

    name: str
    score: str
    level: float
    form: str = "{:.1f}"
    best: bool = False

    def so_far(self, better: Record, worse: Record, common: int, strict: bool) -> Pair:
        """Compare the last metrics of both runs, at whichever updates: a run may have ended by a rule of its own."""
        one, other = better.last(self.score), worse.last(self.score)
        if one is None or other is None:
            return undecided(better.seed)
        above = float(one > self.level), float(other > self.level)
        pair = compared(better.seed, above[1] - above[0], strict)
        return pair if any(above) and not all(above) else pair._replace(agrees=None)


@dataclass(frozen=True)
class Recoveries(AlsoUnfinished):
    """Recoveries from gradients that are not finite, up to the last common update; fewer are better. Attributes are as in `Final`.

    Two runs without recoveries decide nothing. Neither does a run whose recipe does not recover, because it counts no such gradients. It
    does not diverge if the norm of a gradient overflows, because clipping by norm scales the gradient to zero.
    """

    name: str = "recoveries from gradients that are not finite"
    form: str = "{:.0f}"
    best: bool = False

    def so_far(self, better: Record, worse: Record, common: int, strict: bool) -> Pair:
        """Compare the recoveries up to an update."""
        if not all(any("recoveries" in line for line in run.training()) for run in (better, worse)):
            return Pair(better.seed, None, None)
        counts = recovered(better, common), recovered(worse, common)
        pair = compared(better.seed, counts[1] - counts[0], strict)
        return pair if any(counts) else pair._replace(agrees=None)


def recovered(run: Record, update: int) -> float:
    """Return how many recoveries a run had up to an update."""
    return max((line["recoveries"] for line in run.training() if line["update"] <= update and "recoveries" in line), default=0)
