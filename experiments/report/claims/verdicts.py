"""Verdicts on quantities, computed from observations of a claim's runs. No verdict is written by hand."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from experiments.report.claims.criteria import Criterion


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
    SMALLER = "smaller scale"
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
        says = self.status is Status.SMALLER and self.finding is not Finding.ONE_SEED  # the detail says which way one seed points
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


def span(values: Sequence[int]) -> str:
    """Return '30,000', or '25,500 to 31,000'."""
    return " to ".join(dict.fromkeys((f"{min(values):,}", f"{max(values):,}")))
