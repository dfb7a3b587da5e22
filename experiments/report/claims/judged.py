"""Claims of a paper with their verdicts, and how their figures are printed."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from experiments.report.claims.contests import Final
from experiments.report.claims.pairs import Difference, Pair, agreement, difference, judge_relation
from experiments.report.claims.paper import Paper, Plot, Takeaway
from experiments.report.claims.relations import Relation
from experiments.report.claims.rows import Evidence, Quantity, Row
from experiments.report.claims.verdicts import NOT_HERE, NOT_RUN, Finding, Observation, Status, Verdict, judge, span

NONE = "–"


@dataclass(frozen=True)
class JudgedQuantity:
    """A quantity of a row: what was observed, and the verdict; None if nothing was published to hold it against."""

    row: Row
    quantity: Quantity
    observed: Sequence[Observation]
    smaller: str
    verdict: Verdict | None
    stand_in: str

    @property
    def title(self) -> str:
        """Return model and setting, and what was run for them in their place, if anything."""
        return f"{self.row.title}{f'; here {self.stand_in}' if self.stand_in else ''}"

    @property
    def ours(self) -> str:
        """Return our value in words."""
        return summarize(self.observed, self.quantity.form, self.quantity.event)

    @property
    def seeds(self) -> str:
        """Return the seeds that were run, such as '0, 1, 2'."""
        return ", ".join(str(o.seed) for o in self.observed) or NONE


@dataclass(frozen=True)
class JudgedRelation:
    """A relation: its pairs, what is smaller about them than in the paper, and the verdict."""

    relation: Relation
    pairs: Sequence[Pair]
    smaller: str
    verdict: Verdict

    @property
    def difference(self) -> Difference | None:
        """Return the mean advantage of the model that the paper calls better."""
        return difference(self.pairs)

    @property
    def advantage(self) -> str:
        """Return the mean advantage with its standard error, such as '+0.013 ± 0.004'."""
        return self._in_words(signed=True)

    @property
    def unit(self) -> str:
        """Return what an advantage is measured in: for unfinished networks, the metric of the validation split."""
        contest = self.relation.contest
        if contest is None:
            return NONE
        stands_in = isinstance(contest, Final) and not all(pair.settled for pair in self.pairs)
        return contest.name.replace("test ", "best validation ", 1) if stands_in else contest.name

    @property
    def distance(self) -> str:
        """Return the mean advantage without its sign, such as 'at least 7.5' for one of at most -7.5."""
        return self._in_words(signed=False)

    def _in_words(self, *, signed: bool) -> str:
        """Return the mean advantage. Without its sign, a bound is one of the distance, which turns around if the mean is negative."""
        found = self.difference
        if found is None or self.relation.contest is None:
            return "not known" if any(pair.bound for pair in self.pairs) else NONE
        some = f" (mean of {found.pairs} of {len(self.pairs)} seeds)" if found.pairs < len(self.pairs) else ""
        ahead = found.mean >= 0
        sign = ("+" if ahead else "-") if signed else ""
        bound = bound_of(self.pairs, 1 if signed or ahead else -1)
        return f"{bound}{sign}{amount(found, self.relation.contest.form, bounded=bool(bound))}{some}"

    @property
    def seeds(self) -> str:
        """Return how many seeds agree, such as '2 of 3'."""
        return agreement(self.pairs) if self.pairs else NONE


def amount(found: Difference, form: str, bounded: bool = False) -> str:
    """Return a mean difference without its sign, and its error, such as '7.5 ± 2.1'. Differences of percentages are in points.

    A bound has no error: the spread of values at a cap says nothing about the spread of the true values.
    """
    error = "" if bounded or np.isinf(found.error) else f" ± {form.format(found.error)}"
    return in_points(form, f"{form.format(abs(found.mean))}{error}")


def in_points(form: str, difference: str) -> str:
    """Return a difference in words; one of percentages is in points."""
    return f"{difference.replace('%', '')} points" if form.endswith("%}") else difference


def bound_of(pairs: Sequence[Pair], side: int = 1) -> str:
    """Return whether the mean advantage is a bound: 'at least ', 'at most ', 'about ' if pairs are bounds on both sides, or nothing.

    Args:
      pairs: of a relation.
      side: -1 for the mean of the negative advantages, which is how far the model that the paper calls better is behind.
    """
    upwards = {bool(pair.agrees) == (side > 0) for pair in pairs if pair.bound and pair.advantage is not None}
    if not upwards:
        return ""
    return "about " if len(upwards) > 1 else "at least " if upwards.pop() else "at most "


@dataclass(frozen=True)
class Judged:
    """A paper and the verdicts on all its claims."""

    paper: "Paper[Judged]"
    evidence: Evidence

    @cached_property
    def takeaways(self) -> Sequence[Takeaway]:
        """Return what to take away, which the overview and the page of the paper both print."""
        return self.paper.takeaways(self)

    @cached_property
    def quantities(self) -> tuple[JudgedQuantity, ...]:
        """Return all quantities of all rows."""
        return tuple(self._quantity(row, quantity) for row in self.paper.rows for quantity in row.quantities)

    def _quantity(self, row: Row, quantity: Quantity) -> JudgedQuantity:
        observed, smaller, stand_in = row.observed(quantity, self.evidence)
        return JudgedQuantity(row, quantity, observed, smaller, _verdict(row, quantity, observed, smaller), stand_in)

    @cached_property
    def relations(self) -> tuple[JudgedRelation, ...]:
        """Return all relations."""
        return tuple(self.judge(relation) for relation in self.paper.relations)

    def judge(self, relation: Relation) -> JudgedRelation:
        """Return a relation with its verdict. It need not be a claim of the paper."""
        pairs, smaller, qualifier = relation.paired(self.evidence)
        verdict = judge_relation(pairs, smaller, qualifier) if relation.versions else NOT_HERE
        return JudgedRelation(relation, pairs, smaller, verdict)

    @cached_property
    def verdicts(self) -> tuple[Verdict, ...]:
        """Return the verdicts on all quantities with a published value, and on all relations."""
        return (*(q.verdict for q in self.quantities if q.verdict is not None), *(r.verdict for r in self.relations))

    def counts(self) -> dict[str, int]:
        """Return how many claims have each status, those at smaller scale by which way they point."""
        counted = Counter(kind(verdict) for verdict in self.verdicts)
        return {name: counted[name] for name in KINDS if counted[name]}

    def quantity(self, model: str, name: str, where: str = "", setting: str = "") -> JudgedQuantity:
        """Return the first quantity of that model whose name and place begin so, for texts about it."""
        return next(
            q
            for q in self.quantities
            if q.row.model == model
            and q.quantity.name.startswith(name)
            and q.row.where.startswith(where)
            and q.row.setting.startswith(setting)
        )

    def state_of(self, plot: Plot) -> str:
        """Return whether anything was run for the claims that a figure of the paper is judged by, or can be."""
        quantities = [q for q in self.quantities if q.row.where.startswith(plot.place) and plot.about in q.row.title]
        relations = [r for r in self.relations if r.relation.where.startswith(plot.place) and plot.about in r.relation.sentence]
        if any(q.observed for q in quantities) or any(r.pairs for r in relations):
            return "some runs"
        verdicts = [claim.verdict for claim in (*quantities, *relations) if claim.verdict is not None]
        runnable = not verdicts or any(verdict.status is not Status.NOT_HERE for verdict in verdicts)
        return Status.NOT_RUN.value if runnable else Status.NOT_HERE.value

    def relation(self, sentence: str) -> JudgedRelation:
        """Return the first relation that begins with a sentence, for texts about it."""
        return next(r for r in self.relations if r.relation.sentence.startswith(sentence))


def _verdict(row: Row, quantity: Quantity, observed: Sequence[Observation], smaller: str) -> Verdict | None:
    """Return the verdict on a quantity; None if nothing was published to hold it against."""
    if quantity.published and not row.sources:
        return NOT_HERE
    if quantity.criterion is not None:
        found = judge(quantity.criterion, observed, smaller)
        found = _alone(found) if quantity.ordering and len(observed) == 1 else found
        return _of_own_recipe(row.unprinted, found, observed) if row.unprinted else found
    if not quantity.published:
        return None
    if not observed:
        return NOT_RUN
    return Verdict(Status.SMALLER, smaller) if smaller else None


def _alone(found: Verdict) -> Verdict:
    """Return the verdict on an ordering of which there is one seed, which decides nothing."""
    said = {Status.REPRODUCED: "as the paper says", Status.NOT_REPRODUCED: "against the paper"}.get(found.status)
    if said is not None:
        return Verdict(Status.ONE_SEED, said, Finding.ONE_SEED)
    return replace(found, finding=Finding.ONE_SEED) if found.status is Status.REACHED else found


def _of_own_recipe(recipe: str, found: Verdict, observed: Sequence[Observation]) -> Verdict:
    """Return the verdict on a network whose training the paper does not print: it points either way, but is no reproduction.

    A value that is not as good as published decides nothing if training still improved it at its end, as its length is ours, too.

    Args:
      recipe: what stands in for the training.
      found: the verdict if the paper had printed it.
      observed: the values of all seeds. If only one was trained to its end, or diverged, they decide nothing.
    """
    if found.status in (Status.NOT_RUN, Status.SMALLER):
        return found
    said = str(found).replace("reproduced", "as good as published") if found.status is Status.REPRODUCED else str(found)
    finding = found.finding if sum(o.settled or o.failed for o in observed) > 1 else Finding.ONE_SEED
    if found.finding is Finding.AGAINST and any(o.improving for o in observed):
        said, finding = f"{said}, {STILL_IMPROVING}", Finding.ONE_SEED if finding is Finding.ONE_SEED else Finding.OPEN
    return Verdict(Status.SMALLER, f"{recipe}; {said}", finding)


STILL_IMPROVING = "still improving at the end"


def kind(verdict: Verdict) -> str:
    """Return the row of the overview's table that a verdict counts in."""
    return f"{verdict.status.value}: {verdict.finding.value}" if verdict.status is Status.SMALLER else verdict.status.value


KINDS = tuple(
    name
    for status in Status
    for name in ([f"{status.value}: {finding.value}" for finding in Finding] if status is Status.SMALLER else [status.value])
)


def summarize(observed: Sequence[Observation], form: str, event: bool = False) -> str:
    """Return mean and deviation: '29,000 ± 4,583'. Add 'mean of 2 of 3 seeds' if some have no value; 'at least 20', if one is at a cap."""
    known = [o.value for o in observed if o.value is not None]
    if not observed:
        return NONE
    if not known:
        return _without(observed, event)
    mean = form.format(float(np.mean(known)))
    censored = "at least " if any(o.censored for o in observed) else ""  # deviations up to a cap would be too small
    deviation = f" ± {form.replace('+', '').format(float(np.std(known, ddof=1)))}" if len(known) > 1 and not censored else ""
    some = f" (mean of {len(known)} of {len(observed)} seeds{_lost(observed)})" if len(known) < len(observed) else ""
    return f"{censored}{mean}{deviation}{some}"


def _without(observed: Sequence[Observation], event: bool) -> str:
    made = span([o.progress for o in observed])
    if all(o.failed for o in observed):
        return f"diverged after {made} updates"
    if not event:
        return f"not known after {made} updates"
    return f"not {'' if all(o.settled for o in observed) else 'yet '}in {made} updates"


def _lost(observed: Sequence[Observation]) -> str:
    failed = sum(o.failed for o in observed)
    return f", {failed} diverged" if failed else ""


def tally(judged: Iterable[Judged]) -> Counter[Status]:
    """Return how many claims of several papers have each status."""
    return Counter(verdict.status for one in judged for verdict in one.verdicts)
