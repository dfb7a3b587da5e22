"""REPRODUCTION.md: one page, for each paper what became of its claims, the most telling figure, and what to take away."""

import re
from collections.abc import Iterable, Sequence

from experiments.report.claims.contests import EndsAbove
from experiments.report.claims.judged import KINDS, NONE, Judged, JudgedQuantity, JudgedRelation, tally
from experiments.report.claims.pairs import LEVEL, is_testable, seeds_that_agree
from experiments.report.claims.rows import QUOTED
from experiments.report.claims.verdicts import Finding, Status
from experiments.report.claims.weaker import is_of_weaker, surplus
from experiments.report.pages.paper_page import DOCS, page_path
from experiments.report.wording.markdown import figure_path, table
from lrpt.runs.console import in_series

INTRODUCTION = f"""\
# Reproduction

This page compares the claims of four papers with our runs. `python -m experiments.report` computes it from kept results.
Every score of a table, every ordering of two models, and each variant of our own is a claim with a verdict ([what a verdict
means]({DOCS}/verdicts.md)). A value is *reproduced* if every seed is at least as good as published (no paper
calls its values means). An ordering is reproduced if the mean advantage over seeds is significant at 5 %, without correction for
several tests.

In names of models, LR is low rank, LRD is low rank plus diagonal, and 128/24 is a state of 128 with matrices of rank 24. A
*full* GRU has dense matrices, and RNN-760 has 760 units. *Tied* matrices share one projection."""


def overview(judged: Sequence[Judged], crossing: Sequence[str] = ()) -> str:
    """Return REPRODUCTION.md. `crossing` says what comparisons on equal terms mean for the papers."""
    papers = [part for one in judged for part in _paper(one)]
    parts = [INTRODUCTION, *_main_claims(judged), _in_words(judged), _counts(judged), *papers, *_on_equal_terms(crossing), _further()]
    return "\n\n".join(parts) + "\n"


def _main_claims(judged: Sequence[Judged]) -> list[str]:
    """Return a table of the orderings that the papers are about, with what our runs say."""
    rows = [[said, *_outcome(one.relation(sentence))] for one in judged for sentence, said in one.paper.central.items()]
    lead = "The papers' main claims. An advantage is negative if the model is behind."
    return [lead, table(["claim", "our runs", "our advantage", "verdict"], rows, left=4)] if rows else []


def _outcome(found: JudgedRelation) -> list[str]:
    """Return at which size an ordering was run, the mean advantage with its unit, and the verdict."""
    if not found.pairs:
        return [NONE, NONE, str(found.verdict)]
    size = ", ".join(CLAUSES.split(found.smaller)[:2]) or "as published"
    return [size, f"{found.advantage} ({found.unit.partition(' (')[0]})", _short_verdict(found)]


def _short_verdict(found: JudgedRelation) -> str:
    """Return a verdict without what is smaller about the runs."""
    return f"{found.verdict.finding.value} ({seeds_that_agree(found.pairs)})" if found.smaller else str(found.verdict)


def _counts(judged: Sequence[Judged]) -> str:
    """Return a table of how many claims of each paper have each status."""
    found = [one.counts() for one in judged]
    rows = [[name, *(str(counts.get(name, NONE)) for counts in found)] for name in KINDS if any(name in counts for counts in found)]
    return table(["claims", *(one.paper.title for one in judged)], rows)


CLAUSES = re.compile("[,;] ")
"""What separates the things that are smaller about a run than in the paper."""

APART = Status.ONE_SEED, Status.SMALLER, Status.NOT_RUN, Status.NOT_HERE
"""Statuses of claims that were not judged at the published size."""


def _in_words(judged: Sequence[Judged]) -> str:
    """Return how many claims were judged at all, and at which size."""
    found = tally(judged)
    quoted = sum(q.row.note == QUOTED for one in judged for q in one.quantities)
    quoted += sum(r.relation.note == QUOTED for one in judged for r in one.relations)
    published = sum(count for status, count in found.items() if status not in APART)
    open_ones = found[Status.NOT_RUN] + found[Status.NOT_HERE]
    return (
        f"Of {found.total()} claims, {open_ones} have no run ({quoted} are quoted from other authors), {found[Status.SMALLER]} have only "
        f"runs at smaller scale, which includes recipes of our own, {found[Status.ONE_SEED]} are orderings with one seed, and "
        f"{published} were judged at the published size, {_of_one_seed(judged)} of them values with one seed. {_tested(judged)} "
        f"{_of_weaker_models(judged)} ± is a standard deviation over seeds for a value, a standard error for a difference."
    )


def _tested(judged: Sequence[Judged]) -> str:
    """Return how many orderings were tested and are significant, and how many would be if no two models differed."""
    tested = [r for one in judged for r in _testable(one)]
    found = [r.verdict.finding for r in tested]
    sides = f"{found.count(Finding.FOR)} for the papers and {found.count(Finding.AGAINST)} against them"
    by_chance = f"about {LEVEL * len(tested):.0f} would be by chance alone"
    return f"Of {len(tested)} tested orderings, {sides} are significant; {by_chance}."


def _testable(judged: Judged) -> list[JudgedRelation]:
    """Return the orderings that have enough seeds for a test. Outcomes that a network has or does not have need more."""
    decided = (r for r in judged.relations if all(pair.agrees is not None for pair in r.pairs))
    return [r for r in decided if is_testable(r.pairs) and not isinstance(r.relation.contest, EndsAbove)]


def _of_weaker_models(judged: Sequence[Judged]) -> str:
    """Return how many values of models that an ordering calls weaker are better than published."""
    values = [(q, paper) for paper in judged for q in paper.quantities if is_of_weaker(q, paper)]
    better = sum(surplus(q, paper) is not None for q, paper in values)
    return f"Of {len(values)} scores of models that an ordering calls weaker, {better} are better than published."


def _of_one_seed(judged: Sequence[Judged]) -> int:
    """Return how many values that were judged at the published size rest on one seed."""
    values = [q for one in judged for q in one.quantities if q.verdict is not None and q.verdict.status not in APART]
    return sum(len(q.observed) == 1 for q in values)


def _paper(judged: Judged) -> list[str]:
    paper = judged.paper
    telling = figure_path(paper.telling)
    sentences = "\n".join(f"- {one.text}" for one in judged.takeaways)
    return [
        f"## {paper.title}",
        f"{paper.citation}. [Every claim]({page_path(paper.name)})",
        *_reproduced(judged),
        f"![{paper.caption.partition(':')[0].partition(',')[0]}]({telling})",  # the caption below says the rest
        f"*{paper.caption}.*",
        sentences,
    ]


def _reproduced(judged: Judged) -> list[str]:
    """Return a paragraph that lists the claims that are reproduced; nothing if there are none."""
    values: dict[str, list[JudgedQuantity]] = {}
    for q in judged.quantities:
        if q.verdict is not None and q.verdict.status is Status.REPRODUCED:
            place = "" if q.row.setting else q.row.where.partition(", ")[2]
            values.setdefault(f"{q.row.title}, {place}" if place else q.row.title, []).append(q)
    said = [f"{title}{_in_short(own, judged)}" for title, own in values.items()]
    said += _joined(r.relation.sentence.partition(" (")[0] for r in judged.relations if r.verdict.status is Status.REPRODUCED)
    return [f"Reproduced: {'; '.join(said)}."] if said else []


def _joined(sentences: Iterable[str]) -> list[str]:
    """Join sentences that compare the same model in the same way: 'A is better than B and C'."""
    found: dict[str, list[str]] = {}
    for sentence in sentences:
        head, than, rival = sentence.rpartition(" than ")
        found.setdefault(f"{head}{than}", []).append(rival)
    return [f"{head}{in_series(rivals)}" for head, rivals in found.items()]


def _in_short(values: Sequence[JudgedQuantity], judged: Judged) -> str:
    """Return how many values of a row are reproduced, or which ones if not all are, and that they rest on one seed."""
    row = [q for q in judged.quantities if q.row is values[0].row and q.verdict is not None and q.observed]
    names = dict.fromkeys(q.quantity.name.partition(":")[0] for q in values)
    which = f": {in_series(list(names))}" if len(values) < len(row) else f" ({len(values)} values)" if len(values) > 1 else ""
    return f"{which}{' (one seed)' if len(values[0].observed) == 1 else ''}"


def _on_equal_terms(crossing: Sequence[str]) -> list[str]:
    """Return the section on comparisons that are in none of the papers; nothing if none was run."""
    if not crossing:
        return []
    networks = f"[Small networks of six cells]({page_path('crossing')})"
    lead = f"{networks} were compared on three tasks, beyond the papers. Tests are corrected by Holm's method for all tasks together."
    return ["## Cells and parametrizations on equal terms", lead, "\n".join(f"- {line}" for line in crossing)]


def _further() -> str:
    lines = [f"[Kept runs, hardware and commands]({page_path('runs')})", f"[Trained networks]({page_path('models')}), with a card each"]
    return "## More\n\n" + "\n".join(f"- {line}" for line in lines)
