"""Verdicts, computed from observations of a claim's runs. No verdict is written by hand."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

import numpy as np

from lrpt.analysis.significance import paired


class Status(Enum):
    """Status of a claim, in the order of the columns of tables."""

    REPRODUCED = "reproduced"
    BY_SOME = "reproduced by some seeds"
    UNDECIDED = "undecided"
    REACHED = "reached, not converged"
    ONE_SEED = "one seed only"
    NOT_REPRODUCED = "not reproduced"
    CONTRADICTED = "contradicted"
    DIVERGED = "diverged"
    SMALLER = "run at smaller scale"
    NOT_RUN = "not yet run"
    NOT_HERE = "not runnable here"


class Finding(Enum):
    """Direction of a verdict: for or against the paper."""

    FOR = "agrees"
    AGAINST = "disagrees"
    OPEN = "undecided"
    ONE_SEED = "one seed"
    NONE = "not judged"


_FINDINGS = {
    Status.REPRODUCED: Finding.FOR,
    Status.REACHED: Finding.FOR,
    Status.NOT_REPRODUCED: Finding.AGAINST,
    Status.CONTRADICTED: Finding.AGAINST,
    Status.DIVERGED: Finding.AGAINST,
}


@dataclass(frozen=True)
class Verdict:
    """A status, what qualifies it, and which way it points.

    Attributes:
      status: what became of the claim.
      detail: counts of seeds, updates, or what is smaller.
      finding: follows from the status unless the runs are at smaller scale.
    """

    status: Status
    detail: str = ""
    finding: Finding = Finding.NONE

    def __str__(self) -> str:
        text = self.detail if self.status is Status.BY_SOME else f"{self.status.value}{f' ({self.detail})' if self.detail else ''}"
        says = self.status is Status.SMALLER and self.finding in (Finding.FOR, Finding.AGAINST, Finding.OPEN)
        return f"{text}: {self.finding.value}" if says else text


NOT_RUN, NOT_HERE = Verdict(Status.NOT_RUN), Verdict(Status.NOT_HERE)


class Observation(NamedTuple):
    """A quantity of one seed.

    Attributes:
      seed: the seed.
      value: the figure; None if there is none (yet).
      settled: whether training as the claim specifies it could not change the figure any more.
      failed: whether training diverged before the figure was settled.
      progress: updates made.
      length: updates that the claim asks for; 0 if what has not happened yet is open.
      open_because: why it is open.
      censored: whether the figure is at a cap, so that the true one is at least this large.
      improving: whether longer training may better it: it depends on the best evaluation, the last one at a constant learning rate.
    """

    seed: int
    value: float | None
    settled: bool = True
    failed: bool = False
    progress: int = 0
    length: int = 0
    censored: bool = False
    open_because: str = ""
    improving: bool = False


class Printed(NamedTuple):
    """A printed score, and which side of it is better.

    Attributes:
      value: as printed.
      decimals: how many are printed.
      lower: whether lower scores are better.
    """

    value: float
    decimals: int
    lower: bool

    def gain(self, value: float) -> float:
        """Return how much better a value is; negative if it is worse."""
        return self.value - value if self.lower else value - self.value

    def is_as_good(self, value: float) -> bool:
        """Return whether a value rounds to the printed score or a better one."""
        half = 0.5 * 10**-self.decimals
        return value < self.value + half if self.lower else value >= self.value - half

    def is_better(self, value: float) -> bool:
        """Return whether a value rounds to a better score than the printed one."""
        return self.gain(value) > 0.5 * 10**-self.decimals


class Criterion(NamedTuple):
    """Conditions under which a value agrees with the published one, or contradicts it.

    Attributes:
      agrees: whether a figure is as good as the published one; it may be None, "never in the updates made".
      contradicts: whether it shows the opposite of the claim.
      printed: the published score, if being at least as good is all that counts.
    """

    agrees: Callable[[float | None], bool]
    contradicts: Callable[[float | None], bool] = lambda value: False
    printed: Printed | None = None


def at_most(published: float, decimals: int) -> Criterion:
    """Agree with values that round to the published one or less at the printed decimals."""
    return _as_good_as(Printed(published, decimals, lower=True))


def at_least(published: float, decimals: int) -> Criterion:
    """Agree with values that round to the published one or more at the printed decimals."""
    return _as_good_as(Printed(published, decimals, lower=False))


def _as_good_as(printed: Printed) -> Criterion:
    return Criterion(lambda value: value is not None and printed.is_as_good(value), printed=printed)


def by(update: int) -> Criterion:
    """Agree with events up to the evaluation at the published number of updates, since they came before that evaluation."""
    return Criterion(lambda value: value is not None and value <= update)


def happens() -> Criterion:
    """Agree with events within the updates of the claim, if the paper prints no number."""
    return Criterion(lambda value: value is not None)


def never() -> Criterion:
    """Agree if the event never happens, as the paper says of a failure; an event contradicts it."""
    return Criterion(lambda value: value is None, lambda value: value is not None)


def fails(baseline: float, share: float) -> Criterion:
    """Agree with values above the worst baseline by more than a share of it; a value as low as the baseline contradicts the failure.

    A failure ends at a random value, so that the published one is no measure of it.
    """
    limit = baseline * (1 + share)
    return Criterion(lambda value: value is not None and value > limit, lambda value: value is not None and value <= baseline)


def below(published: float) -> Criterion:
    """Agree with values that are lower than one that the paper calls worse."""
    return Criterion(lambda value: value is not None and value < published)


def near(published: float, tolerance: float) -> Criterion:
    """Agree with values within an absolute tolerance of the published one."""
    return Criterion(lambda value: value is not None and abs(value - published) <= tolerance)


def judge(criterion: Criterion, observations: Sequence[Observation], smaller: str = "") -> Verdict:
    """Return the verdict on a quantity.

    Args:
      criterion: when a figure counts as the published one.
      observations: one for each seed.
      smaller: what is smaller than published, if the runs are of another configuration.
    """
    if not observations:
        return NOT_RUN
    if smaller:
        return Verdict(Status.SMALLER, smaller)
    ended = [o for o in observations if _outcome(criterion, o) != "short" or not o.length]
    decisive = ended if any(o.settled for o in ended) else observations
    outcomes = Counter(_outcome(criterion, observation) for observation in decisive)
    status = _status(outcomes, len(decisive))
    finding = Finding.NONE if status is Status.SMALLER else _FINDINGS.get(status, Finding.OPEN)
    if status is Status.REACHED and outcomes["agrees"] + outcomes["reached"] < len(observations):
        finding = Finding.OPEN
    waiting = len(observations) - len(decisive)
    if status is Status.REPRODUCED and waiting:  # an early success is known before a failure can be
        return Verdict(Status.BY_SOME, f"reproduced by {len(decisive)} of {len(observations)} seeds{_shorter(waiting)}", Finding.OPEN)
    if waiting and _FINDINGS.get(status) is Finding.AGAINST:  # and an early failure before a success
        detail = f"{status.value} by {len(decisive)} of {len(observations)} seeds{_shorter(waiting)}"
        return Verdict(Status.SMALLER, detail, Finding.OPEN)
    return Verdict(status, _detail(status, outcomes, decisive) + _shorter(waiting), finding)


def _shorter(count: int) -> str:
    """Return how many seeds were not trained long enough to tell."""
    return f", {count} not trained long enough" if count else ""


def _outcome(criterion: Criterion, observed: Observation) -> str:
    if observed.failed:
        return "diverged"
    if not observed.settled and observed.value is None:
        return "short"
    if criterion.agrees(observed.value):
        return "agrees" if observed.settled else "reached"
    if criterion.contradicts(observed.value):
        return "contradicts"
    return "disagrees" if observed.settled else "short"


def _status(outcomes: Counter[str], seeds: int) -> Status:
    for outcome, status in (
        ("agrees", Status.REPRODUCED),
        ("diverged", Status.DIVERGED),
        ("contradicts", Status.CONTRADICTED),
        ("short", Status.SMALLER),
    ):
        if outcomes[outcome] == seeds:
            return status
    good = outcomes["agrees"] + outcomes["reached"]
    if good == seeds:
        return Status.REACHED
    if outcomes["agrees"]:
        return Status.BY_SOME
    if good:
        return Status.REACHED
    return Status.NOT_REPRODUCED if outcomes["disagrees"] + outcomes["contradicts"] else Status.SMALLER


def _detail(status: Status, outcomes: Counter[str], observations: Sequence[Observation]) -> str:
    seeds, parts = len(observations), []
    if status is Status.BY_SOME:
        parts = [f"reproduced by {outcomes['agrees']} of {seeds} seeds"]
    elif status is Status.REACHED and outcomes["agrees"] + outcomes["reached"] < seeds:
        parts = [f"by {outcomes['reached']} of {seeds} seeds"]
    elif status in (Status.REPRODUCED, Status.CONTRADICTED, Status.NOT_REPRODUCED):
        parts = [f"{seeds} {'seeds' if seeds > 1 else 'seed'}"]
    if outcomes["diverged"]:
        parts += [f"{outcomes['diverged']} of {seeds} diverged"]
    if outcomes["reached"] and status is Status.BY_SOME:
        parts += [f"{outcomes['reached']} reached it, not converged"]
    waiting = [o for o in observations if not o.settled and not o.failed and not o.length]
    cut = [o for o in observations if not o.settled and not o.failed and o.progress < o.length]
    if waiting:
        others = f"{len(waiting)} " if status is Status.BY_SOME else ""
        parts += [f"{others}not in {span([o.progress for o in waiting])} updates, {waiting[0].open_because}"]
    elif cut:
        not_yet = f"{len(cut)} not yet in " if status is Status.BY_SOME else ""
        parts += [f"{not_yet}{span([o.progress for o in cut])} of {cut[0].length:,} updates"]
    elif status is Status.REACHED:
        parts += ["the last evaluation is the best one"]
    return ", ".join(parts)


class Pair(NamedTuple):
    """Two models of one seed, compared.

    Attributes:
      seed: the seed.
      advantage: of the model that the paper calls better, in the unit of the comparison; None if it has no number.
      agrees: whether it is better; None if neither model shows it, or if it is too early to say.
      bound: whether the true advantage is at least this large in absolute value, as one model never got there.
      settled: whether more training, as the claim specifies it, could not change who is better.
      failed: how many of the two diverged.
      may_change: whether the one that is behind gained more in its last evaluation than it is behind, in runs at smaller scale.
      resolution: by how much the advantage may be off because events are dated by evaluations; 0 for other advantages.
    """

    seed: int
    advantage: float | None
    agrees: bool | None
    bound: bool = False
    settled: bool = True
    failed: int = 0
    may_change: bool = False
    resolution: float = 0.0


def compared(seed: int, advantage: float, strict: bool, *, settled: bool = True, bound: bool = False) -> Pair:
    """Return the pair of two models with this advantage. If `strict`, an advantage of 0 does not agree with the paper."""
    return Pair(seed, advantage, advantage > 0 if strict else advantage >= 0, bound=bound, settled=settled)


class Difference(NamedTuple):
    """Mean advantage over pairs and its standard error; an error of infinity if there is one pair."""

    mean: float
    error: float
    pairs: int


def difference(pairs: Sequence[Pair]) -> Difference | None:
    """Return the mean advantage over the pairs that have one."""
    values = [pair.advantage for pair in pairs if pair.advantage is not None]
    if not values:
        return None
    error = float(np.std(values, ddof=1) / math.sqrt(len(values))) if len(values) > 1 else math.inf
    return Difference(float(np.mean(values)), error, len(values))


def agreement(pairs: Sequence[Pair], words: str = "") -> str:
    """Return how many seeds agree, such as '2 of 3', and how many decide nothing."""
    agreeing, nothing = sum(bool(pair.agrees) for pair in pairs), sum(pair.agrees is None for pair in pairs)
    return f"{agreeing} of {len(pairs)}{words}" + (f", {nothing} undecided" if nothing else "")


def judge_relation(pairs: Sequence[Pair], smaller: str = "", cut: str = "") -> Verdict:
    """Return the verdict on a relation between two models: at every size, what a test of the mean advantage says.

    At the published size, a relation is reproduced if the mean advantage is significantly above 0, contradicted if it is significantly
    below 0, and undecided otherwise: equal models have an advantage for all of three seeds one time in eight. At smaller scale it then
    agrees, disagrees or is undecided. A seed does not agree if neither model shows the relation, as of a task that neither learns. One
    seed decides nothing.

    Args:
      pairs: one for each seed that both models have.
      smaller: what is smaller than published, if the runs are of another configuration.
      cut: how far training went, if it was cut, or that longer training may change which model is ahead. It qualifies a verdict at smaller
        scale only.
    """
    if not pairs:
        return NOT_RUN
    decided = [pair for pair in pairs if pair.agrees is not None]
    finding = _finding(pairs, decided)
    status = _relation_status(pairs, finding)
    at_smaller_scale = bool(smaller) or not all(pair.settled for pair in pairs)
    seeds = _one_seed(decided) if len(pairs) == 1 else agreement(pairs, " seeds agree")
    diverged = sum(pair.failed for pair in pairs)
    parts = [seeds, *([f"{diverged} runs diverged" if diverged > 1 else "1 run diverged"] if diverged else [])]
    if at_smaller_scale:
        return Verdict(Status.SMALLER, "; ".join(filter(None, [smaller, cut, *parts])), finding)
    if len(pairs) == 1 and status is not Status.DIVERGED:
        direction = _direction(decided[0]) if decided else "neither shows it"
        return Verdict(Status.ONE_SEED, ", ".join([direction, *parts[1:]]), Finding.ONE_SEED if decided else Finding.NONE)
    return Verdict(status, ", ".join(parts), finding)


def _one_seed(decided: Sequence[Pair]) -> str:
    """Return 'one seed', and which way it points."""
    return f"one seed, {_direction(decided[0])}" if decided else "one seed"


def _direction(pair: Pair) -> str:
    return "as the paper says" if pair.agrees else "against the paper"


def _finding(pairs: Sequence[Pair], decided: Sequence[Pair]) -> Finding:
    """Return which way several pairs point: one way or the other only if the mean advantage is significant.

    If it is too early to say for some of them, the others decide nothing. If that is so for all of them, nothing is judged.
    """
    if not decided:
        return Finding.NONE
    if len(pairs) == 1:
        return Finding.ONE_SEED
    found = difference(decided)
    if found is None or len(decided) < len(pairs) or not is_significant(decided):
        return Finding.OPEN
    return Finding.FOR if found.mean > 0 else Finding.AGAINST


LEVEL = 0.05
"""probability of calling a difference of two equal models significant, for each relation by itself"""

FEWEST = 3
"""Pairs without which nothing is significant: with two, the test has one degree of freedom, and their nearness alone decides it."""


def is_testable(pairs: Sequence[Pair]) -> bool:
    """Return whether there are enough pairs for a test, and all of them have a number."""
    return len(pairs) >= FEWEST and all(pair.advantage is not None for pair in pairs)


def is_significant(pairs: Sequence[Pair]) -> bool:
    """Return whether the mean advantage differs from 0 by Student's test on pairs.

    A value at a cap enters as the cap. So the test compares means up to the cap (restricted means).

    Fewer than three pairs leave it open, and so do pairs without a number. Equal advantages have no spread to test with: counts of epochs
    are equal by chance. Of events, the interval between evaluations stands in for the standard deviation.
    """
    if not is_testable(pairs):
        return False
    values = [pair.advantage for pair in pairs if pair.advantage is not None]
    if len(set(values)) > 1:
        p_value = paired(values, [0.0] * len(values))
    else:
        p_value = _p_value_of_equal(values, max(pair.resolution for pair in pairs))
    return p_value is not None and p_value < LEVEL


def _p_value_of_equal(values: Sequence[float], deviation: float) -> float | None:
    """Return the two-sided p-value of Student's test on equal advantages with an assumed standard deviation; None if it is 0."""
    from scipy import stats  # takes half a second

    return 2 * float(stats.t.sf(abs(values[0]) * math.sqrt(len(values)) / deviation, len(values) - 1)) if deviation else None


def _relation_status(pairs: Sequence[Pair], finding: Finding) -> Status:
    """Return the status of an ordering at the published size: what the test finds, if any seed decides anything."""
    if finding is Finding.NONE:
        return Status.DIVERGED if all(pair.failed == 2 for pair in pairs) else Status.NOT_REPRODUCED
    return {Finding.FOR: Status.REPRODUCED, Finding.AGAINST: Status.CONTRADICTED}.get(finding, Status.UNDECIDED)


def span(values: Sequence[int]) -> str:
    """Return '30,000', or '25,500 to 31,000'."""
    return " to ".join(dict.fromkeys((f"{min(values):,}", f"{max(values):,}")))
