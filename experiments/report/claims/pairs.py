"""Pairs of models of one seed, and the verdicts on relations that follow from them."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from experiments.report.claims.verdicts import NOT_RUN, Finding, Status, Verdict
from lrpt.analysis.significance import paired


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
    seeds = seeds_that_agree(pairs)
    diverged = sum(pair.failed for pair in pairs)
    parts = [seeds, *([f"{diverged} runs diverged" if diverged > 1 else "1 run diverged"] if diverged else [])]
    if at_smaller_scale:
        return Verdict(Status.SMALLER, "; ".join(filter(None, [smaller, cut, *parts])), finding)
    if len(pairs) == 1 and status is not Status.DIVERGED:
        direction = _direction(decided[0]) if decided else "neither shows it"
        return Verdict(Status.ONE_SEED, ", ".join([direction, *parts[1:]]), Finding.ONE_SEED if decided else Finding.NONE)
    return Verdict(status, ", ".join(parts), finding)


def seeds_that_agree(pairs: Sequence[Pair]) -> str:
    """Return how many seeds agree, such as '2 of 3 seeds agree'; or 'one seed', and which way it points if it is decided."""
    if len(pairs) > 1:
        return agreement(pairs, " seeds agree")
    (pair,) = pairs
    return "one seed" if pair.agrees is None else f"one seed, {_direction(pair)}"


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
