"""Relations between models of which a paper calls one better, and the runs whose pairs decide them."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from experiments.report.claims.contests import Compared, Contest, Final, diverged
from experiments.report.claims.matching import excess, has_only_begun, is_over, setting
from experiments.report.claims.pairs import Pair, compared
from experiments.report.claims.rows import Evidence, Network, Planned
from experiments.report.claims.scales import Scale
from experiments.report.claims.verdicts import span
from experiments.report.kept.records import Record
from lrpt.training.config import RunConfig

C = TypeVar("C", bound=Compared | None)
C_contra = TypeVar("C_contra", bound=Compared | None, contravariant=True)


class Source(ABC, Generic[C_contra]):
    """Models that a relation compares by a contest, and where their pairs come from.

    Attributes:
      scale: what is smaller than published; empty for the published configuration.
    """

    scale: str = ""

    @property
    def stronger(self) -> tuple[Network, ...]:
        """Return the networks that the paper calls better, if networks are compared."""
        return ()

    @property
    def weaker(self) -> tuple[Network, ...]:
        """Return the other networks."""
        return ()

    @abstractmethod
    def pairs(self, contest: C_contra, evidence: Evidence, strict: bool) -> list[Pair]:
        """Return one pair for each seed that both models have."""

    @abstractmethod
    def planned(self, seeds: Sequence[int]) -> list[Planned]:
        """Return the runs that are needed."""

    def smaller(self, evidence: Evidence) -> str:
        """Return what is smaller than published."""
        return self.scale

    def cut(self, contest: C_contra, evidence: Evidence) -> str:
        """Return how far training went if it was cut: nothing, unless unfinished runs are compared."""
        return ""

    def has_only_begun(self, contest: C_contra, evidence: Evidence) -> bool:
        """Return whether all runs that are compared have only begun: never, unless unfinished runs are compared."""
        return False


LONGER_MAY_CHANGE = "longer training may change which is ahead"


def unless_it_may_change(pair: Pair, contest: Final, better: Sequence[Record], worse: Sequence[Record]) -> Pair:
    """Return a pair of runs at smaller scale, undecided if the last evaluation of a run behind gained more than its distance."""
    if pair.advantage is None:
        return pair
    gain = max((contest.last_gain(run) for run in (better if pair.advantage < 0 else worse)), default=0.0)
    return pair._replace(agrees=None, may_change=True) if gain > abs(pair.advantage) else pair


@dataclass(frozen=True)
class Versus(Source[Contest]):
    """Two networks that a relation compares, at published or smaller size.

    Attributes:
      better: the one that the paper calls better.
      worse: the other.
      scale: what is smaller than published; empty for the published configuration.
    """

    better: Network
    worse: Network
    scale: str = ""

    @property
    def stronger(self) -> tuple[Network, ...]:
        """Return the network that the paper calls better."""
        return (self.better,)

    @property
    def weaker(self) -> tuple[Network, ...]:
        """Return the other network."""
        return (self.worse,)

    def pairs(self, contest: Contest, evidence: Evidence, strict: bool) -> list[Pair]:
        """Return one pair for each seed that both have."""
        return [self._pair(contest, better, worse, strict) for better, worse in self._both(contest, evidence).values()]

    def _both(self, contest: Contest, evidence: Evidence) -> dict[int, tuple[Record, Record]]:
        """Return the runs of both networks by seed, of the seeds that both have."""
        one, other = self.better.runs(evidence, contest.best), self.worse.runs(evidence, contest.best)
        return {seed: (one[seed], other[seed]) for seed in sorted(one.keys() & other.keys())}

    def _pair(self, contest: Contest, better: Record, worse: Record, strict: bool) -> Pair:
        pair = contest.compare(better, worse, (self.better.config, self.worse.config), strict)
        return unless_it_may_change(pair, contest, [better], [worse]) if self.scale and isinstance(contest, Final) else pair

    def cut(self, contest: Contest, evidence: Evidence) -> str:
        """Return how far training went if it was cut: '4,800 of 325,000 updates'."""
        common = self._common(contest, evidence)
        return f"{span(common)} of {self._length:,} updates" if common else ""

    def has_only_begun(self, contest: Contest, evidence: Evidence) -> bool:
        """Return whether one run of each pair has only begun."""
        return all(has_only_begun(updates, self._length) for updates in self._common(contest, evidence))

    def _common(self, contest: Contest, evidence: Evidence) -> list[int]:
        """Return the last update that both runs of each seed have."""
        return [min(one.updates, other.updates) for one, other in self._both(contest, evidence).values()]

    @property
    def _length(self) -> int:
        """Updates that the longer one of both networks is trained for."""
        return max(self.better.config.train.updates, self.worse.config.train.updates)

    def planned(self, seeds: Sequence[int]) -> list[Planned]:
        """Return the runs that are needed."""
        return [self.better.planned(seeds), self.worse.planned(seeds)]


Point = tuple[float, float]
"""multiplications of a step, and score"""


@dataclass(frozen=True)
class OnCurve(Source[Final]):
    """A network against the curve of others at equal operations: the score at its operations, on the line between two sizes.

    The line is straight over the logarithm of the multiplications of a step, in the test split. A seed is left out if its network has fewer
    or more operations than all others of that seed, or is not trained to the end. Runs that are longer than their claim says are left out.
    A network that diverged loses against any line.

    Attributes:
      better: the one that the paper calls better.
      others: usual networks of several sizes.
      scale: what is smaller than published; empty for the published configuration.
      hard: whether the network is evaluated with the hard mask, which saves time, and not with the soft one of training.
      outputs: number of predicted symbols, if the multiplications of the readout are counted, too; 0 if only those of the unit are.
    """

    better: Network
    others: tuple[Network, ...]
    scale: str = ""
    hard: bool = False
    outputs: int = 0

    @property
    def stronger(self) -> tuple[Network, ...]:
        """Return the network that the paper calls better."""
        return (self.better,)

    @property
    def weaker(self) -> tuple[Network, ...]:
        """Return the networks of the curve."""
        return self.others

    def pairs(self, contest: Final, evidence: Evidence, strict: bool) -> list[Pair]:
        """Return one pair for each seed that has a line at these operations. Lower scores are better."""
        curves = [(network.config, network.runs(evidence, contest.best)) for network in self.others]
        found = []
        for seed, run in sorted(self.better.runs(evidence, contest.best).items()):
            others = [(config, runs[seed]) for config, runs in curves if seed in runs]
            points = [self._point(contest, config, other) for config, other in others]
            pair = self._pair(contest, run, [point for point in points if point is not None], strict)
            if pair is not None:
                found.append(unless_it_may_change(pair, contest, [run], [other for _, other in others]) if self.scale else pair)
        return found

    def _pair(self, contest: Final, run: Record, points: Sequence[Point], strict: bool) -> Pair | None:
        """Compare a run with the line through points."""
        if diverged(self.better.config, run) and points:
            return Pair(run.seed, None, False, failed=1)
        own = self._point(contest, self.better.config, run, self.hard)
        other = None if own is None else _line_at(own[0], points)
        return None if own is None or other is None else compared(run.seed, other - own[1], strict)

    def _point(self, contest: Final, config: RunConfig[Any], run: Record, hard: bool = False) -> Point | None:
        """Return multiplications and score, with the soft or the hard mask, of a run that was trained to the end and no further."""
        names = "multiplications", contest.score
        operations, score = (run.analysed("masks", "hard", "test", name) if hard else run.tested(name) for name in names)
        if not is_over(config, run) or excess(config, run) or operations is None or score is None:
            return None
        return operations + self.outputs * setting(config, "model.size"), score

    def planned(self, seeds: Sequence[int]) -> list[Planned]:
        """Return the runs that are needed."""
        return [network.planned(seeds) for network in (self.better, *self.others)]


def _line_at(operations: float, points: Sequence[Point]) -> float | None:
    """Return the score at some operations on the line through points; None outside of them."""
    if not points or not min(points)[0] <= operations <= max(points)[0]:
        return None
    x, y = zip(*sorted(points), strict=True)
    return float(np.interp(np.log(operations), np.log(x), y))


@dataclass(frozen=True)
class Measure:
    """A measured value of one network, and how it is printed: the contest of `Within`, which reads the best state."""

    name: str
    form: str
    best: bool = True


@dataclass(frozen=True)
class Within(Source[Measure]):
    """Two measured values of one network, of which the paper calls the first one larger.

    Attributes:
      network: whose values they are.
      larger: returns the first value of a run, None if it has none.
      other: returns the second.
      scale: what is smaller than published; empty for the published configuration.
    """

    network: Network
    larger: Callable[[Record], float | None]
    other: Callable[[Record], float | None]
    scale: str = ""

    def pairs(self, contest: Measure, evidence: Evidence, strict: bool) -> list[Pair]:
        """Return one pair for each seed that has both values."""
        found = []
        for seed, run in sorted(self.network.runs(evidence, best=True).items()):
            one, other = self.larger(run), self.other(run)
            if one is not None and other is not None:
                found.append(compared(seed, one - other, strict, settled=is_over(self.network.config, run)))
        return found

    def cut(self, contest: Measure, evidence: Evidence) -> str:
        """Return how far training went if it was cut."""
        updates = [run.updates for run in self.network.runs(evidence, best=True).values()]
        return f"{max(updates):,} of {self.network.config.train.updates:,} updates" if updates else ""

    def planned(self, seeds: Sequence[int]) -> list[Planned]:
        """Return the runs that are needed."""
        return [self.network.planned(seeds)]


class Paired(NamedTuple):
    """Pairs that judge a relation, and what qualifies them.

    Attributes:
      pairs: one for each seed that both models have.
      smaller: what is smaller than published; empty for the published configuration.
      qualifier: how far training went if it was cut, or that longer training may change which model is ahead; otherwise empty.
    """

    pairs: list[Pair]
    smaller: str = ""
    qualifier: str = ""


@dataclass(frozen=True)
class Relation(Generic[C]):
    """An ordering of two models.

    Attributes:
      where: its place in the paper.
      sentence: what is claimed, in a few words.
      contest: what the models are compared by; None if nothing here runs them.
      versions: at published size first; the first one that has a pair of runs is judged, unless these have only begun.
      strict: whether equal values do not count.
      note: for relations that nothing here runs, why.
    """

    where: str
    sentence: str
    contest: C
    versions: tuple[Source[C], ...] = ()
    strict: bool = True
    note: str = ""

    def paired(self, evidence: Evidence) -> Paired:
        """Return the pairs of the version that is judged, and what qualifies them; no pairs if nothing was run."""
        version, pairs = self._judged(evidence)
        if version is None:
            return Paired([])
        if not all(pair.settled for pair in pairs):
            return Paired(pairs, version.smaller(evidence), version.cut(self.contest, evidence))
        return Paired(pairs, version.smaller(evidence), LONGER_MAY_CHANGE if any(pair.may_change for pair in pairs) else "")

    def _judged(self, evidence: Evidence) -> tuple[Source[C] | None, list[Pair]]:
        """Return the first version that has pairs, and its pairs. Runs that have only begun count if no later version has others."""
        begun: tuple[Source[C] | None, list[Pair]] = None, []
        for version in self.versions:
            pairs = version.pairs(self.contest, evidence, self.strict)
            if pairs and (all(pair.settled for pair in pairs) or not version.has_only_begun(self.contest, evidence)):
                return version, pairs
            begun = begun if begun[1] else (version, pairs)
        return begun if begun[1] else (None, [])

    @property
    def best(self) -> bool:
        """Return whether the comparison depends on which evaluation was the best."""
        return self.contest is not None and self.contest.best

    def planned(self, seeds: Sequence[int], scale: Scale = "published") -> list[Planned]:
        """Return the runs that the relation needs: of its first version, of its versions at smaller scale, or of all versions.

        All versions after the first one are smaller. If the first one says what is smaller, nothing here runs the published size, and the
        first version is in every plan.
        """
        smaller = [version for number, version in enumerate(self.versions) if number or version.scale]
        versions = {"published": self.versions[:1], "smaller": smaller, "all": self.versions}[scale]
        return list(dict.fromkeys(planned for version in versions for planned in version.planned(seeds)))
