"""Takeaways about low-rank passthrough networks; every number is computed from the kept results."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set

import numpy as np

from experiments.adding import EXPERIMENT as ADD
from experiments.copy_memory import EXPERIMENT
from experiments.parameter_table.command import MICELI_BARONE, row
from experiments.parameter_table.command import PUBLISHED as PRINTED
from experiments.report.claims.contests import recovered
from experiments.report.claims.judged import Judged, JudgedQuantity, JudgedRelation
from experiments.report.claims.matching import configuration, runs_of
from experiments.report.claims.pairs import agreement, difference
from experiments.report.claims.paper import Takeaway
from experiments.report.claims.quantities import is_solved, solved
from experiments.report.claims.relations import Versus
from experiments.report.claims.rows import Evidence
from experiments.report.claims.verdicts import Status, span
from experiments.report.kept.records import Record
from experiments.report.papers.low_rank_copying import (
    FASTER,
    LONG,
    LR,
    LRD,
    OF_FIXED,
    OF_LAG,
    SHORT,
    TO_THE_END,
    URNN,
)
from experiments.report.papers.low_rank_weight_norm import TASKS, on_weight_norm
from experiments.report.wording.texts import placed, seeds_in_words, standing
from lrpt.runs.console import in_series

LENGTH, LAG, FIXED = TASKS

REPEATED = "LR-GRU 128/24, the published run repeated"
_HIGHEST, _LOWEST = (320_400, 0.9344), (163_800, 0.2538)
"""Updates and values of the highest validation accuracy and the lowest validation cross-entropy in the log of the LR-GRU 128/24."""


def takeaways(judged: Judged) -> Sequence[Takeaway]:
    """Return five takeaways, agreeing and disagreeing ones."""
    return (_on_diagonal(judged), _on_copying(judged), on_weight_norm(judged), _on_urnn(judged), _on_tables(judged))


def _on_diagonal(judged: Judged) -> Takeaway:
    """Return how LRD-GRUs compare with LR-GRUs, task by task."""
    found = [r for r in judged.relations if r.relation.sentence.startswith("LRD >= LR")]
    lr_gru = judged.quantity("LR-GRU 128/50", "updates until test", setting=FIXED)
    highway = judged.relation("the diagonal does not seem to help on MNIST")
    return Takeaway(
        f"**The diagonal.** The later text says that an LRD-GRU is better than an LR-GRU on almost every task, and "
        f"never worse. On {len(found)} tasks (the paper's and two more of copying): {_statuses(found)}. The author could not train an "
        f"LR-GRU with fewer parameters than the full GRU on copying with a fixed lag. Here, {_solved([lr_gru])} LR-GRUs solve it.",
        (
            *(f"{_task_of(r)}: in {r.unit}, the LRD-GRU is {placed(r)}; {r.verdict}" for r in found if r.pairs),
            *(f"{_task_of(r)}, where the paper has the largest difference: {r.verdict}" for r in found if not r.pairs),
            f"An LR-GRU with fewer parameters than the full GRU does not converge on fixed lag in the paper. Here: {lr_gru.ours}"
            f"{' updates' if any(o.value is not None for o in lr_gru.observed) else ''}; {lr_gru.verdict}",
            "The paper does not show LR-GRUs on copying with variable length and variable lag.",
            f"Highway networks on MNIST, where the network with the diagonal is worse in the earlier text: in {highway.unit}, the one "
            f"without it is {placed(highway)}; {highway.verdict}",
        ),
    )


def _statuses(relations: Sequence[JudgedRelation]) -> str:
    """Return how many relations have each status, such as '3 undecided and 1 with one seed only'."""
    found = Counter(r.verdict.status for r in relations)
    return in_series([f"{found[one]} {'with ' if one is Status.ONE_SEED else ''}{one.value}" for one in Status if found[one]])


def _task_of(relation: JudgedRelation) -> str:
    """Return the task of a relation, as its place names it, and what its sentence adds in parentheses, unless both are the same."""
    task = relation.relation.where.partition(", ")[2]
    inside = relation.relation.sentence.partition("(")[2].partition(")")[0]
    return ", ".join(dict.fromkeys((task, inside)))


def _on_copying(judged: Judged) -> Takeaway:
    """Return how many updates copying takes."""
    times = {name: judged.quantity("LRD-GRU 128/50", "updates until test", setting=name) for name in (LENGTH, LAG, FIXED)}
    gru = judged.quantity("GRU 128", "updates until test", setting=FIXED)
    return Takeaway(
        f"**Copying.** An LRD-GRU smaller than the full GRU solves three tasks (test cross-entropy below 0.001) in "
        f"{_solved(times.values())} runs, {_late(times.values())} of them after more updates than published.",
        (
            *(f"{name}: {q.ours} updates, published {q.quantity.published}; {q.verdict}" for name, q in times.items()),
            "fixed lag, full GRU with the recipe of the final original script, which solves the task in the paper: "
            f"{gru.ours if gru.observed else 'not yet run'}",
        ),
    )


def _late(quantities: Iterable[JudgedQuantity]) -> int:
    """Return how many runs solve their task, but not within the published number of updates."""
    return sum(
        o.value is not None and q.quantity.criterion is not None and not q.quantity.criterion.agrees(o.value)
        for q in quantities
        for o in q.observed
    )


def _on_urnn(judged: Judged) -> Takeaway:
    """Return what unitary networks do on copying."""
    perfect = judged.quantity("uRNN 721", "updates until perfect", setting=FIXED)
    early, late = (judged.quantity("uRNN 721", f"held-out cross-entropy after {update:,}", setting=FIXED) for update in (SHORT, LONG))
    updates = [run.first("loss", is_solved) for run in OF_FIXED[URNN].runs(judged.evidence).values()]
    at = Counter(update for update in updates if update is not None)
    said = [f"{update:,} updates ({seeds_in_words([count])})" for update, count in sorted(at.items())]
    within = perfect.quantity.published.strip("< ").partition(", ")[0]
    within_time = sum(o.value is not None for o in perfect.observed)
    solved_at = f". It is first below 0.001 after {in_series(said)}" if said else ""
    ends = "" if late.observed else ", where our runs end,"
    return Takeaway(
        f"**Unitary network** (uRNN). In the paper it is perfect in training within {within} updates at a lag of 500, and overfits. Here, "
        f"after {SHORT:,} updates{ends} {within_time} of {len(perfect.observed)} are perfect on held-out sequences (cross-entropy: "
        f"{early.ours}).{_on_variable_length(judged)}{_on_variable_lag(judged)}",
        (
            f"Perfect accuracy at N = 500: {perfect.ours} updates, on held-out sequences; published {perfect.quantity.published}",
            f"Overfitting: the cross-entropy of held-out sequences is {early.ours} after {SHORT:,} updates{_peak(judged)}{solved_at}. "
            f"Whether it overfits after {LONG:,} updates: {late.verdict}",
        ),
    )


def _on_variable_length(judged: Judged) -> str:
    """Return whether the uRNN solves variable length before the LRD-GRU or, if training was cut, if it is ahead; nothing if not run."""
    faster, ahead = judged.relation("the uRNN learns faster"), judged.relation("the uRNN is ahead")
    if faster.difference is not None:
        when = "before" if faster.difference.mean >= 0 else "after"
        return f" On variable length it solves the task {faster.distance} updates {when} the LRD-GRU ({standing(faster)})."
    return f" On variable length it is compared with the LRD-GRU at equal updates: {standing(ahead)}." if ahead.pairs else ""


def _on_variable_lag(judged: Judged) -> str:
    """Return what came of the uRNN on variable lag, which it does not solve in the paper; nothing if it was not run."""
    runs = list(OF_LAG[URNN].runs(judged.evidence).values())
    losses = [loss for run in runs if (loss := run.last("loss")) is not None]
    if not losses:
        return ""
    solved_by = sum(run.first("loss", is_solved) is not None for run in runs)
    return (
        f" On variable lag (unsolved in the paper) {solved_by} of {len(runs)} solve it (cross-entropy: "
        f"{in_series([f'{loss:.2g}' for loss in losses])} after {span([run.updates for run in runs])} updates)."
    )


def _peak(judged: Judged) -> str:
    """Return the largest held-out cross-entropy of the uRNNs after the first evaluation; nothing if there is no other evaluation."""
    later = [loss for run in OF_FIXED[URNN].runs(judged.evidence).values() for loss in list(run.curve("loss").values())[1:]]
    return f" (at most {max(later):.2g} after the first evaluation)" if later else ""


def _on_tables(judged: Judged) -> Takeaway:
    """Return what was run of the tables on images and characters."""
    tied, untied = (judged.quantity(name, "test perplexity") for name in ("LRD-GRU 1000/64, tied", "LRD-GRU 1000/64"))
    digits = judged.quantity("LRD-GRU 128/24", "test accuracy", "Table 1")
    above = judged.quantity("LRD-GRU 128/24", "test accuracy, above", "Table 1")
    of_gru, low_rank = judged.relation("LRD-GRU > full GRU"), judged.quantity("LR-GRU 128/24", "test accuracy")
    gru = judged.quantity("GRU 128", "test accuracy", "Table 1")
    lr, diagonal = (judged.quantity(name, "test accuracy") for name in ("LR-Highway 5x1024/256", "LRD-Highway 5x1024/256"))
    return Takeaway(
        f"**Images and characters.** Permuted MNIST, LRD-GRU 128/24: test accuracy {digits.ours}{_as_in_the_code(judged)}, "
        f"published {digits.quantity.published}; {digits.verdict}. Without the diagonal it is {low_rank.ours}.{_repeated(judged)} "
        f"The full GRU has {gru.ours}, published {gru.quantity.published}; {gru.verdict}. Characters of the Penn Treebank, LRD-GRU "
        f"1000/64, tied: test perplexity {tied.ours}, published {tied.quantity.published}; {tied.verdict}.",
        (
            _tested_states((gru, low_rank, digits), judged),
            _on_clipping(judged),
            _on_repetition(judged),
            "Permuted MNIST: except for those with the orders of the code, networks read pixels in the order that is drawn from their "
            "seed. The author's code has another one, and a fixed order of images (`--preset original`).",
            f"Permuted MNIST, LRD-GRU 128/24, above the uRNN's {above.quantity.published.removeprefix('> ')}: {above.verdict}",
            f"Permuted MNIST, LRD-GRU 128/24 above the full GRU: {of_gru.verdict}",
            f"MNIST, LRD-Highway: {diagonal.ours}, published {diagonal.quantity.published}; LR-Highway: {lr.ours}, published "
            f"{lr.quantity.published}. The published ordering: {judged.relation('the diagonal does not seem to help').verdict}",
            "Accuracies of 10,000 images have a sampling error of 0.1 points at 99%, and of 0.3 points at 92%.",
            _no_baseline(judged),
            f"Characters, LRD-GRU 1000/64, untied: test perplexity {untied.ours}, published {untied.quantity.published}; {untied.verdict}",
        ),
    )


def _on_clipping(judged: Judged) -> str:
    """Return what the clipping of the author's code changes for an LR-GRU; nothing if it was not run with it."""
    text, code = (
        [judged.quantity(f"LR-GRU 128/24{of}", name, "Table 1") for name in ("highest validation accuracy", "test accuracy")]
        for of in ("", ", clipping as in the code")
    )
    if not all(q.observed for q in (*text, *code)):
        return ""
    said = [f"{of_code.ours} instead of {of_text.ours} in {of_code.quantity.name}" for of_text, of_code in zip(text, code, strict=True)]
    return (
        f"Permuted MNIST, LR-GRU 128/24: clipping as in the author's code, which leaves out seven tensors, gives {in_series(said)} "
        f"({seeds_in_words([len(code[0].observed)])}, the same initial parameters and batches)."
    )


def _as_in_the_code(judged: Judged) -> str:
    """Return the test accuracy of an LRD-GRU with the clipping and the orders of the code, in brackets; nothing if it was not run."""
    code = judged.quantity("LRD-GRU 128/24, clipping and orders as in the code", "test accuracy")
    return f" ({code.ours} with the code's clipping and orders)" if code.observed else ""


def _repeated(judged: Judged) -> str:
    """Return the test accuracy of the repeated run of an LR-GRU, after a space; nothing if it was not repeated."""
    test = judged.quantity(REPEATED, "test accuracy")
    if not test.observed:
        return ""
    return f" The author's LR-GRU run, repeated, has {test.ours} (published {test.quantity.published})."


def _on_repetition(judged: Judged) -> str:
    """Return how the repeated run of an LR-GRU and the published log compare; nothing if it was not repeated."""
    row = judged.quantity(REPEATED, "test accuracy").row
    runs = row.network.runs(judged.evidence, best=True) if row.network is not None else {}
    if 0 not in runs:
        return ""
    accuracies, losses = runs[0].curve("accuracy"), runs[0].curve("loss")
    highest, lowest = max(accuracies, key=accuracies.__getitem__), min(losses, key=losses.__getitem__)
    return (
        f"Permuted MNIST, LR-GRU 128/24: the published run was repeated from its initial parameters, with its images in its order, for "
        f"{runs[0].updates:,} updates. Its highest validation accuracy is {accuracies[highest]:.2%} after {highest:,} updates, in the "
        f"published log {_HIGHEST[1]:.2%} after {_HIGHEST[0]:,}; its lowest validation cross-entropy is "
        f"{losses[lowest]:.4f} after {lowest:,}, in the log {_LOWEST[1]:.4f} after {_LOWEST[0]:,}. Training losses are compared "
        f"in [the guide](../experiments.md#repeating-published-runs)."
    )


def _tested_states(quantities: Sequence[JudgedQuantity], judged: Judged) -> str:
    """Return which states of networks are tested, and their best validation accuracies; nothing if none was run."""
    said = [
        f"{q.row.model}: after {run.best_update:,} of {run.updates:,} updates, where the highest validation accuracy is "
        f"{max(accuracies.values()):.1%} after {max(accuracies, key=accuracies.__getitem__):,}"
        for q in quantities
        if q.row.network is not None
        for run in q.row.network.runs(judged.evidence, best=True).values()
        if (accuracies := run.curve("accuracy"))
    ]
    return f"Permuted MNIST: the state of the lowest validation loss is tested. {'; '.join(said)}" if said else ""


def _no_baseline(judged: Judged) -> str:
    """Say that no ordering of networks on characters is tested; nothing if a full GRU was run."""
    run = judged.quantity("GRU 1000", "test perplexity").observed
    return "" if run else "No full GRU was run on characters, so none of the orderings there is tested."


def _solved(quantities: Iterable[JudgedQuantity]) -> str:
    """Return how many runs solve their task, such as '8 of 9'."""
    values = [o.value for q in quantities for o in q.observed]
    return f"{sum(value is not None for value in values)} of {len(values)}"


def _runs_to_the_end(evidence: Evidence) -> Sequence[str]:
    """Return a paragraph on the runs of variable lag that do not stop when the task is solved: they are second runs of the same seeds."""
    first, again = (
        {one.seed: f"{one.value:,.0f}" for one in network.observe(solved(), evidence) if one.value is not None}
        for network in (OF_LAG[LRD], TO_THE_END)
    )
    seeds = sorted(first.keys() & again.keys())
    if not seeds:
        return ()
    first_updates, second_updates = (in_series([runs[seed] for seed in seeds]) for runs in (first, again))
    return (
        f"**Two runs of each seed.** On variable lag, {len(seeds)} LRD-GRUs were trained once until the task was solved, and once more to "
        f"the end. Orderings use the first runs, which solve it after {first_updates} updates. The second runs need {second_updates}. So "
        f"rounding matters as much as the seed. {_second_runs_without_diagonal(evidence)}".rstrip(),
    )


def _second_runs_without_diagonal(evidence: Evidence) -> str:
    """Return how the second runs compare with LR-GRUs; nothing if there are none."""
    pairs = Versus(TO_THE_END, OF_LAG[LR]).pairs(FASTER, evidence, strict=True)
    found = difference(pairs)
    if found is None:
        return ""
    side = "earlier" if found.mean > 0 else "later"
    return (
        f"With second runs of the same seeds on variable lag, LRD-GRUs solve it {abs(found.mean):,.0f} updates {side} than LR-GRUs in the "
        f"mean, and earlier for {agreement(pairs, ' seeds')}."
    )


def _recovery_of_adding(evidence: Evidence) -> Sequence[str]:
    """Return a paragraph on how often adding needs recovery from gradients that are not finite, if there are runs with and without it."""
    without, recovering = (runs_of(configuration(ADD, f"--preset {name}"), ADD, evidence.records) for name in ("paper", "paper-recovery"))
    if not without or not recovering:
        return ()
    diverged = [seed for seed, run in without.items() if run.failure is not None]
    needed = [seed for seed, run in recovering.items() if recovered(run, run.updates)]
    return (
        f"**Recovery on adding.** Without recovery from gradients that are not finite, {len(diverged)} of {len(without)} LRD-GRUs "
        f"diverged. With recovery, {len(needed)} of {len(recovering)} runs used it{_after_recovery(recovering, needed)}."
        f"{_decided_by_rounding(set(diverged), without.keys(), set(needed), recovering.keys())}",
    )


def _after_recovery(recovering: Mapping[int, Record], needed: Sequence[int]) -> str:
    """Return the test losses of the runs that needed recovery, beside those of the others, at the end of training."""
    losses = {seed: run.last("loss") for seed, run in recovering.items()}
    own, others = ([loss for seed, loss in losses.items() if loss is not None and (seed in needed) is one] for one in (True, False))
    if not own or not others:
        return ""
    return f". After the last update, {_mean_loss(own)}; the mean of the others is {np.mean(others):.2g}"


def _mean_loss(losses: Sequence[float]) -> str:
    return f"{'that run has a test loss of' if len(losses) == 1 else 'those runs have a mean test loss of'} {np.mean(losses):.2g}"


def _decided_by_rounding(diverged: Set[int], without: Set[int], needed: Set[int], recovering: Set[int]) -> str:
    """Return which seeds met a gradient that is not finite with one recipe only, and why that can be."""
    spared, only_with = sorted(diverged & recovering - needed), sorted(needed & without - diverged)
    said = [
        f"Seed {in_series([str(seed) for seed in seeds])} {what}."
        for seeds, what in (
            (spared, "diverged without recovery, and met no such gradient with it"),
            (only_with, "needed it, and did not diverge without it"),
        )
        if seeds
    ]
    why = (
        "Both recipes train alike until there is such a gradient, so rounding decided. It differs between processors and between programs."
    )
    return " ".join(["", *said, why]) if said else ""


def _last_error(run: Record) -> str:
    """Return the last validation error of a run that diverged."""
    last = run.last("loss")
    return "It was not evaluated before." if last is None else f"The last error before was {last:.4f}."


def _numbers_of_parameters() -> str:
    """Return a paragraph on the printed numbers of parameters that differ from those of the networks here."""
    found = [row(one) for one in PRINTED if one.paper == MICELI_BARONE and one.printed]
    others = [f"{one.model} ({one.where}; printed {one.published}): {one.remark}" for one in found if not one.agrees]
    return (
        f"**Numbers of parameters** are no claims here. `python -m experiments.parameter_table` counts them: {len(others)} of {len(found)} "
        "that the texts print of their own networks differ.\n\n" + "\n".join(f"- {one}" for one in others)
    )


def remarks(evidence: Evidence) -> Sequence[str]:
    """Return paragraphs on recoveries and divergence."""
    copies = runs_of(configuration(EXPERIMENT, "--preset paper"), EXPERIMENT, evidence.records)
    counts = {seed: recovered(run, run.updates) for seed, run in copies.items()}
    parts = []
    if any(counts.values()):
        each = ", ".join(f"seed {seed}: {count:.0f}" for seed, count in sorted(counts.items()))
        parts.append(
            f"**Recoveries at the published learning rate.** At N = 500 the LRD-GRU recovered from gradients that are not finite ({each}). "
            "The paper says, too, that LRD-GRUs sometimes have numerical problems on these tasks (section 3.1)."
        )
    parts += [*_runs_to_the_end(evidence), *_recovery_of_adding(evidence)]
    failed = [r for r in evidence.records if r.failure is not None]
    parts += [
        f"**Divergence.** `{r.experiment}/{r.name}`: {r.failure['what']} at update {r.failure['update']:,}; it counts as a failed seed. "
        f"{_last_error(r)}"
        for r in failed
        if r.failure is not None
    ]
    return (
        *parts,
        "**Marks on adding.** The text has one mark in each half of a sequence. The author's code trains on such sequences, but marks any "
        "two steps of test sequences. So the printed error and the published log are probably of marks anywhere; both kinds of test are "
        "rows here.",
        _numbers_of_parameters(),
        "Perfect accuracy is read from whole evaluations of 10,000 held-out sequences. Training accuracy is logged as a mean over many "
        "batches and is not used for it. Perfect held-out accuracy counts for the uRNN's perfect *training* accuracy; wrong held-out "
        "sequences say nothing of it. "
        "If evaluations are 500 updates apart, the printed update of perfect accuracy may be up to 500 updates too late. So perfect "
        "accuracy that is first seen after 2,000 updates counts as reached within the paper's 'less than 2,000'.",
        "The uRNN is the one that the paper ran: without Fourier transforms and with a trainable scale. The copy and adding tasks have no "
        "validation split apart from the test split, in the paper as here. The full GRU of the copying task is clipped by component, "
        "as in the final original script. The text names norm clipping under the heading 'Low-rank GRUs' (section 3.5.1).",
    )
