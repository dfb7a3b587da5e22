"""Words that follow from a verdict, so that an authored sentence cannot say the opposite of its numbers."""

from collections import Counter
from collections.abc import Mapping, Sequence, Set

from experiments.report.claims.judged import Judged, JudgedRelation, amount, bound_of
from experiments.report.claims.pairs import agreement, is_significant
from experiments.report.claims.verdicts import Finding, Status, Verdict, span
from experiments.report.kept.records import Record
from lrpt.runs.console import in_series

SAID = {
    Finding.FOR: "as it says",
    Finding.AGAINST: "against it",
    Finding.OPEN: "undecided",
    Finding.ONE_SEED: "with one seed",
    Finding.NONE: "not run or not judged",
}
"""What is said of claims of a text, by their finding."""

AT_SMALLER_SCALE = {
    Finding.FOR: "At smaller scale, as the paper says,",
    Finding.AGAINST: "At smaller scale, against the paper,",
    Finding.OPEN: "At smaller scale, and undecided:",
    Finding.ONE_SEED: "At smaller scale, with one seed,",
    Finding.NONE: "At smaller scale,",
}

AT_PUBLISHED_SIZE = {
    Finding.FOR: "As the paper says,",
    Finding.AGAINST: "Against the paper,",
    Finding.ONE_SEED: "With one seed,",
}


def lead(verdict: Verdict) -> str:
    """Return the beginning of a sentence about a claim."""
    if verdict.status in (Status.NOT_RUN, Status.NOT_HERE):
        return "Not yet run:"
    if verdict.status is Status.SMALLER:
        return AT_SMALLER_SCALE[verdict.finding]
    return AT_PUBLISHED_SIZE.get(verdict.finding, "Undecided:")


def at_published_size(judged: Judged, where: str | tuple[str, ...], what: str) -> str:
    """Return a sentence about how many metrics were judged at the published size.

    Args:
      judged: the paper.
      where: beginning of the places of the rows, or several.
      what: their place in words.
    """
    verdicts = [q.verdict for q in judged.quantities if q.row.where.startswith(where) and q.verdict is not None]
    runnable = [verdict for verdict in verdicts if verdict.status is not Status.NOT_HERE]
    found = sum(verdict.status not in (Status.SMALLER, Status.NOT_RUN) for verdict in runnable)
    if not found:
        return f"No row of {what} was judged at its published size."
    return f"{found} of {len(runnable)} metrics of {what} {'was' if found == 1 else 'were'} judged at the published size."


def says(verdict: Verdict) -> str:
    """Return how a result relates to the paper, in words that can stand in parentheses."""
    return {Finding.FOR: "as in the paper", Finding.AGAINST: "against the paper"}.get(verdict.finding, verdict.finding.value)


def direction(relation: JudgedRelation) -> str:
    """Return which way the runs of a relation point, however few they are."""
    agrees = [pair.agrees for pair in relation.pairs if pair.agrees is not None]
    if not agrees:
        return "undecided"
    undecided = len(relation.pairs) - len(agrees)
    said = "as in the paper" if all(agrees) else "against the paper" if not any(agrees) else "as in the paper for some seeds only"
    return f"{said}, {undecided} of {len(relation.pairs)} seeds undecided" if undecided else said


def standing(relation: JudgedRelation) -> str:
    """Return what the runs of a relation say of the paper: of one seed which way it points, of several the finding and who agrees."""
    if len(relation.pairs) == 1:
        return f"{direction(relation)}, one seed"
    return f"{says(relation.verdict)}, {agreement(relation.pairs, ' seeds agree')}"


def by_finding(found: Mapping[str, str]) -> str:
    """Return sentences that list claims by what was found: 'As claimed: a; b. Claimed, but not found: c.'

    Args:
      found: claim -> how its result relates to the paper, in the words of `says` or `direction`.
    """
    heads = {"as in the paper": "As claimed", "against the paper": "Claimed, but not found"}
    listed = {one: "; ".join(claim for claim, said in found.items() if said == one) for one in found.values()}
    return " ".join(f"{heads.get(one, f'Claimed, {one}')}: {claims}." for one, claims in listed.items())


def counted(relations: Sequence[JudgedRelation], words: Mapping[Finding, str], always: Set[Finding] = frozenset()) -> str:
    """Return how many relations have each finding, such as '2 agree and 1 are undecided'.

    Args:
      relations: those that are counted.
      words: finding -> what is said of the relations that have it, in this order.
      always: findings of which is also said that there are none.
    """
    found = Counter(r.verdict.finding for r in relations)
    return in_series([f"{found[finding]} {said}" for finding, said in words.items() if found[finding] or finding in always])


def seeds_in_words(counts: Sequence[int]) -> str:
    """Return 'one seed', '3 seeds' or '1 to 3 seeds' from the number of seeds of several models."""
    return "one seed" if set(counts) == {1} else f"{span(counts or [0])} seeds"


def gap(relation: JudgedRelation, one: str, other: str, unit: str, verb: str = "is") -> str:
    """Return a sentence about which of two models is ahead, and by how much.

    Args:
      relation: `one` is what the paper calls better.
      one, other: the models; `one` begins the sentence.
      unit: of the advantage; empty if the sentence before says it.
      verb: 'is' or 'are'.
    """
    found = relation.difference
    if found is None:
        return f"Whether {one[0].lower()}{one[1:]} {verb} better than {other} is not known."
    bound = bound_of(relation.pairs, 1 if found.mean >= 0 else -1)
    side = "ahead of" if found.mean >= 0 else "behind"
    seeds = "" if found.pairs == 1 else f"{found.pairs} seeds{_of_most(relation, found.mean)}, "
    return (
        f"{one} {verb} {bound}{amount(found, relation.relation.contest.form, bounded=bool(bound))} {f'{unit} ' if unit else ''}{side} "
        f"{other} ({seeds}{_says_of(relation)})."
    )


def _of_most(relation: JudgedRelation, mean: float) -> str:
    """Return that most seeds are on the other side than the mean, such as ', 2 of them ahead'; nothing if they are not."""
    known = [pair.advantage for pair in relation.pairs if pair.advantage is not None]
    others = sum(advantage > 0 if mean < 0 else advantage < 0 for advantage in known)
    so_far = " so far" if any(pair.may_change for pair in relation.pairs) else ""
    return f", {others} of them {'ahead' if mean < 0 else 'behind'}{so_far}" if 2 * others > len(known) else ""


def _says_of(relation: JudgedRelation) -> str:
    """Return how a result relates to the paper, and why it is undecided if the training of a pair is too short for an answer."""
    said = says(relation.verdict)
    if relation.verdict.finding is not Finding.OPEN or not any(pair.may_change for pair in relation.pairs):
        return said
    return f"{'significant, but ' if is_significant(relation.pairs) else ''}{said}, still improving"


def placed(relation: JudgedRelation) -> str:
    """Return where the model is that the paper calls better: 'ahead by 0.3 ± 0.1', or 'behind by at least 12'."""
    found = relation.difference
    side = "" if found is None else "ahead by " if found.mean >= 0 else "behind by "
    return f"{side}{relation.distance}"


def still_improving(runs: Sequence[Record]) -> str:
    """Return a sentence about how many runs were best at their end; nothing if none was."""
    improving = sum(run.best_update == run.updates > 0 for run in runs)
    if not improving:
        return ""
    return f"In {improving} of {len(runs)} runs the last evaluation is the best, so longer training may change this."


def capitalized(text: str) -> str:
    """Return a text whose first letter is a capital; the others stay."""
    return text[0].upper() + text[1:]
