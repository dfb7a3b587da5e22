"""Takeaways about low-rank passthrough networks; every number is computed from the kept results."""

from collections.abc import Sequence

from experiments.copy_memory import EXPERIMENT
from experiments.report.claims import Evidence
from experiments.report.judged import Judged, JudgedRelation
from experiments.report.matching import configuration, runs_of
from experiments.report.texts import lead
from experiments.report.verdicts import NOT_RUN, Finding

LENGTH, LAG, FIXED = "variable length", "variable lag", "fixed lag"


def takeaways(judged: Judged) -> Sequence[str]:
    """Return five sentences, agreeing and disagreeing ones."""
    lrd = "LRD-GRU 128/50"
    times = {name: judged.quantity(lrd, "updates until test", setting=name) for name in (LENGTH, LAG, FIXED)}
    copying = "; ".join(f"{name}: {q.ours} updates, published {q.quantity.published}, {q.verdict}" for name, q in times.items())
    faster = [judged.relation(f"weight normalization is faster ({name}") for name in (LENGTH, LAG, FIXED)]
    stable = [r for r in judged.relations if r.relation.sentence.startswith("weight normalization is more stable")]
    holds = sum(r.verdict.finding is Finding.FOR for r in stable)
    gru, urnn = (judged.quantity(name, "updates until test", setting=FIXED) for name in ("GRU 128", "uRNN 721"))
    ahead = judged.relation("the uRNN is ahead")
    tied, untied = (judged.quantity(name, "test perplexity") for name in ("LRD-GRU 1000/64, tied", "LRD-GRU 1000/64"))
    images, highway = judged.relation("LRD-GRU > full GRU"), judged.relation("the diagonal does not help")
    lr, diagonal = (judged.quantity(name, "test accuracy") for name in ("LR-Highway 5x1024/256", "LRD-Highway 5x1024/256"))
    return (
        f"An LRD-GRU with fewer parameters than the full GRU solves all three copying tasks for most seeds ({copying}). "
        f"The full GRU at N = 500: {gru.ours} ({gru.verdict}).",
        f"{lead(faster[0].verdict)} weight normalization {_outcome(faster[0])} faster: {_verdicts(faster)}. "
        f"It is the better recipe in {holds} of {len(stable)} comparisons at 10 to 100 times the published learning rate, "
        f"but there it may end above the memoryless predictor.",
        f"{lead(urnn.verdict or NOT_RUN)} held-out sequences of the uRNN at N = 500, said to overfit, meet the criterion after {urnn.ours} "
        f"updates ({urnn.verdict}). {lead(ahead.verdict)} it is ahead of the LRD-GRU at equal updates for variable length "
        f"({ahead.verdict}).",
        f"On the Penn Treebank the LRD-GRUs 1000/64 have perplexities of {tied.ours} tied and {untied.ours} untied, published "
        f"{tied.quantity.published} and {untied.quantity.published}; {tied.verdict} and {untied.verdict}. No full GRU was run beside them.",
        f"The headline table, permuted MNIST, is open: LRD-GRU against the full GRU is {images.verdict}. On MNIST without order "
        f"the LRD-Highway network has {diagonal.ours} and the LR-Highway network {lr.ours}, in the paper {diagonal.quantity.published} and "
        f"{lr.quantity.published}: the published ordering is {highway.verdict}. Accuracies of 10,000 images have a "
        f"sampling error of about 0.1 points.",
    )


def _outcome(relation: JudgedRelation) -> str:
    return {Finding.FOR: "is", Finding.AGAINST: "is not"}.get(relation.verdict.finding, "may be")


def _verdicts(relations: Sequence[JudgedRelation]) -> str:
    return "; ".join(f"{r.relation.sentence.partition('(')[2].rstrip(')')}: {r.verdict}" for r in relations)


def remarks(evidence: Evidence) -> Sequence[str]:
    """Return paragraphs on recoveries and divergence."""
    copies = runs_of(configuration(EXPERIMENT, "--preset paper"), EXPERIMENT, evidence.records)
    counts = {seed: max((line["recoveries"] for line in r.metrics if "recoveries" in line), default=0) for seed, r in copies.items()}
    parts = []
    if counts:
        each = ", ".join(f"seed {seed}: {count:.0f}" for seed, count in sorted(counts.items()))
        parts.append(
            f"**Recoveries at the published learning rate.** At N = 500 the LRD-GRU recovered from gradients that are not finite ({each}). "
            "Instability is thus not confined to high learning rates."
        )
    failed = [r for r in evidence.records if r.failure is not None]
    parts += [
        f"**Divergence.** `{r.experiment}/{r.name}`: {r.failure['what']} at update {r.failure['update']:,}; it counts as a failed seed. "
        f"The last error before was {r.up_to('loss', r.updates):.4f}."
        for r in failed
        if r.failure is not None
    ]
    return (
        *parts,
        "Perfect accuracy is read from whole evaluations of 10,000 held-out sequences. Training accuracy is logged as a mean over many "
        "batches and is not used for it. The uRNN's perfect *training* accuracy is thus judged by held-out accuracy, which says more.",
        "The uRNN is the one that the paper ran: without Fourier transforms and with a trainable scale. The copy and adding tasks have no "
        "validation part apart from the test part, in the paper as here. The full GRU of the copying task is clipped by norm here; the "
        "original script clips full GRUs by component.",
    )
