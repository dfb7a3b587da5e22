"""REPRODUCTION.md: one page, for each paper what became of its claims, the most telling figure, and what to take away."""

from collections.abc import Iterable, Sequence

from experiments.report.claims.contests import EndsAbove
from experiments.report.claims.judged import Judged, JudgedQuantity, JudgedRelation, tally
from experiments.report.claims.pairs import LEVEL, is_testable
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
means]({DOCS}/verdicts.md)). A value is *reproduced* if each seed is at least as good as the published value,
which no paper calls a mean. An ordering is reproduced if the mean advantage over seeds is significant at 5 %, without correction for
several tests.

In names of models, LR is low rank, LRD is low rank plus diagonal, and 128/24 is a state of 128 with matrices of rank 24. A
*full* GRU has dense matrices, and RNN-760 has 760 units. *Tied* matrices share one projection."""


def overview(judged: Sequence[Judged], crossing: Sequence[str] = ()) -> str:
    """Return REPRODUCTION.md. `crossing` says what comparisons on equal terms mean for the papers."""
    papers = [part for one in judged for part in _paper(one)]
    parts = [INTRODUCTION, _in_words(judged), *papers, *_on_equal_terms(crossing), _further()]
    return "\n\n".join(parts) + "\n"


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
        f"Of {found.total()} claims, {open_ones} have no run ({quoted} are quoted from other authors), and {published} were judged at the "
        f"published size, {_of_one_seed(judged)} with one seed. {_tested(judged)} "
        f"{_of_weaker_models(judged)} Own recipes count as smaller scale. ± is a standard deviation over seeds for a value, a standard "
        f"error for a difference."
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
    return f"{better} of {len(values)} scores of models that an ordering calls weaker are better than published."


def _of_one_seed(judged: Sequence[Judged]) -> int:
    """Return how many values that were judged at the published size rest on one seed."""
    values = [q for one in judged for q in one.quantities if q.verdict is not None and q.verdict.status not in APART]
    return sum(len(q.observed) == 1 for q in values)


def _paper(judged: Judged) -> list[str]:
    paper = judged.paper
    counts = table(["claims", "number"], [[name, str(count)] for name, count in judged.counts().items()])
    telling = figure_path(paper.telling)
    sentences = "\n".join(f"- {one.text}" for one in judged.takeaways)
    return [
        f"## {paper.title}",
        f"{paper.citation}. [Every claim]({page_path(paper.name)})",
        counts,
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


VERDICTS = """\
# What a verdict means

Every quantity of a row has a verdict of its own, and so has every ordering of two models. Verdicts are computed from all kept seeds.
[Overview](../../REPRODUCTION.md)

| verdict | meaning |
| --- | --- |
| reproduced | of a value: every seed agrees, trained as long as the claim says; of an ordering: the mean advantage is significant |
| reproduced by k of n seeds | of a value: the others disagree, diverged, decide nothing, or ended too early |
| undecided | an ordering at the published size whose mean advantage is significant neither way |
| reached, not converged | the value was reached, but training was cut before the end of its preset, or the last evaluation is the best |
| one seed only | an ordering at the published size that rests on one pair of runs, or on one run and a number of other authors |
| not reproduced | of a value: no seed agrees; of an ordering: neither model shows it, as on a task that neither learns |
| contradicted | the opposite was measured: a network that fails in the paper succeeds, or an ordering is reversed significantly |
| diverged | every seed met a loss that is not finite; if only some seeds did, these count as failed |
| smaller scale | fewer updates, a smaller network, less or other data, own or guessed settings (at any size), or too few full runs |
| not yet run | no run is kept |
| not runnable here | quoted from other authors, or nothing here trains or computes it; the reason is below the table |
| no claim | the paper has no value for this metric, or it follows from a setting; ours is shown for information |

Counts say *reproduced by some seeds* for *reproduced by k of n seeds*.

## Values

- A value agrees if it is as good as the published one at the printed decimals, or within 0.003 of one that is read off a figure.
- If the paper reports a failure (LR-GRU 9.88), a value agrees if it is above the worst baseline by more than half. A value as low as the
  baseline contradicts the paper.
- RNN-d is the equivalent size: an Elman RNN of d units has as many multiplications per step, as the paper counts them. For a cell that
  learns its schedule, it agrees within a tenth on both sides. RNN-d of a cell that updates its whole state at every step has no verdict,
  because it follows from the width. RNN-d has no verdict either if the paper does not print the target of m, or if we chose the target to
  match RNN-d.
- m is the share of the state that a step updates. Means of m on groups of symbols agree within 0.1.
- Epochs until the best one agree for the LRU family, which the paper calls fast, if they are no more than published. For other models they
  agree if they differ by a quarter at most.
- If the paper does not print how a network was trained, a recipe of this project stands in. No value reproduces such a row: a run counts as
  one at smaller scale, which agrees or disagrees. In such a row, one seed decides nothing. Neither does a value that is not as good as the
  published one, if the learning rate is constant and the last evaluation of a run is its best.
- If the paper has words only, a claim names its threshold: *mostly ignored* is less than half, *most of the computation* more than half,
  *everything* 95 %, *substantially* 5 %, *open* gates a mean of 0.5, *switching* gates a standard deviation of 0.05, *harder to optimize*
  2 %, *almost perfect* 99.97 % of all symbols, *equally good* 0.04 nats (lattice networks) or 0.025 in perplexity (tied GRUs), *near* or
  *relatively close to the state of the art* half a point, *overfits* a held-out loss of 0.001, *does not overfit* 0.02 nats.
- If the paper sets no limit to the updates, an event that has not happened yet is neither for nor against the paper. If
  the paper speaks of training sequences, errors on held-out sequences are neither for nor against it.
- **Weaker models**: if an ordering calls a model the weaker one, such as a baseline, a value better than published counts for the model and
  against the ordering. Its verdict stays the same. If the mean is better at the printed decimals, the table says by how much, and which
  share that is of the smallest published lead of a stronger model. The overview counts these scores. Those at smaller scale are left out,
  unless only the recipe is ours.
- Accuracies have a sampling error: about 0.1 points at 98.8 % of 10,000 images. Perfect accuracy is read from whole evaluations.
- A value without a published one has no verdict.
- If a network, its data or its training is smaller than published, its values are *not judged*. A run of the published size with a recipe
  of this project agrees, disagrees or is undecided. If its target of m is a guess, its score is not judged either, because it depends on
  the target.

## Orderings

Both models are compared seed by seed. The table has the mean advantage, its standard error over seeds, and how many seeds agree.

- **The test** is Student's on pairs, two-sided, at 5 % for each ordering by itself. Nothing is significant if a seed is undecided.
- **At the published size**, an ordering is *reproduced* if the mean advantage is significantly positive, *contradicted* if it is
  significantly negative, and *undecided* otherwise. "No worse" is held to the same test.
- **At smaller scale**, it *agrees*, *disagrees* or is *undecided* in the same way. It is *not judged* if no seed decides anything, for
  example because longer training may change which model is ahead.
- **Table only** marks orderings that a table of the paper has, and its text does not state.
- **Signs**: ">" stands for better, and ">=" for no worse. In the tables of the lattice paper, "<" compares the number that is named. A
  negative advantage is against the paper.
- **One seed** decides no ordering at any size. (A value of the published size is judged with one seed, too, which is then printed.)
- **Two seeds** are never significant. A test with one degree of freedom depends on how near two numbers happen to be.
- **Equal operations**: usual networks of several sizes give scores at several numbers of operations. Between the two nearest ones, the
  score is read off a straight line over the logarithm of the operations. Such curves are convex, so the line is a little above the curve,
  which favours the network with variable computation. The ordering is judged even if the target of m is a guess, because the usual network
  has as many operations at any target.
- **Short training**: networks that were trained for less than a tenth of the updates decide nothing. Neither do losses and epochs at the
  cap on epochs, if more epochs could change which model is ahead. In other runs at smaller scale, a pair is undecided if longer training
  could reverse it: the network that is behind improved by more than its gap in its last evaluation.
- **Divergence**: a run that diverged loses against a run that did not diverge and came further. A pair with such a run has no number and
  cannot be significant.
- **Events**: an event, such as a met criterion, is dated by the first evaluation that shows it. It happened after the previous evaluation.
  If one network gets there only after the other one's training has ended, at the length that the claim asks for, the pair decides nothing.
- **Caps**: if a run reached the cap, the test uses the cap as its value. So means up to the cap are compared (restricted means), and the
  mean advantage is a bound.
- **Ties**: advantages that are equal for all seeds have no spread. Of events, the interval between evaluations stands in for the standard
  deviation. Others cannot be significant.
- All of three seeds agree by chance one time in eight, if two models are equal. So that alone reproduces nothing.
- **Yes or no**: of outcomes that a network has or does not have, such as that it ends above the predictor without memory, three seeds
  cannot be significant. Such orderings are not counted as tested; the text about weight normalization has the outcomes of all networks.
- **Stand-ins** are claims of their own, beside those of the published size: a VCRNN of 256 units on characters and one of 128 on bits
  against RNNs of as many operations, and four points on English in place of Figure 4 of that paper. In other orderings, such as those of
  depths, VCGRUs and lattice networks, smaller networks stand in within the claim, whose verdict is then one at smaller scale.
- Orderings that the lattice paper claims, but that do not hold in its own table, are left out and listed on its page.

## Means

Ours are means ± standard deviations (n - 1) over seeds. *Mean of 2 of 3 seeds* leaves out seeds without the value. *At least* marks a value
at a cap.

If a seed was run twice, a run that reached the length of the claim counts. Of several such runs, the one configured for exactly this length
counts, and without one, the run configured for the shortest training. How a run ended does not matter. If no run reached the length, the
longest one counts. Runs of one seed differ between machines, because rounding differs. A bound (*at least*) is printed without ±.

## Configurations

A run counts for a claim if all its settings are those of the claim. Settings that cannot change results (devices, memory, checkpoints) may
differ. The evaluation interval must agree if it decides when the learning rate is halved, when training ends, or which evaluation is best.
"""
