"""Takeaways about lattice recurrent units; every number is computed from the kept results."""

from collections.abc import Sequence

from experiments.report.claims import Evidence, study_scale
from experiments.report.judged import Judged, JudgedRelation
from experiments.report.studies import by_epoch
from experiments.report.texts import lead
from experiments.report.verdicts import Finding

BOOKS = {"PTB": "the Penn Treebank", "WP": "War and Peace"}


def takeaways(judged: Judged) -> Sequence[str]:
    """Return five sentences, agreeing and disagreeing ones."""
    gru = {text: judged.relation(f"LRU < GRU: lower test loss ({text}") for text in BOOKS}
    epochs = {text: judged.relation(f"LRU < LSTM: fewer epochs ({text}") for text in BOOKS}
    orders = {text: [r for r in judged.relations if r.relation.sentence.endswith(f"lower test loss ({text})")] for text in BOOKS}
    shares = [r for r in judged.relations if r.relation.sentence.startswith("LRU < GRU: lower test loss with")]
    gradients = judged.relation("gradients reach")
    return (
        f"No row of Table 1 was run at its published size; everything here is at small scale ({_scale(judged)}).",
        *(
            f"{lead(gru[text].verdict)} LRUs {_beat(gru[text])} GRUs on {book}: {gru[text].advantage} nats per character; "
            f"{_holding(orders[text])} of the paper's orderings of losses hold there."
            for text, book in BOOKS.items()
        ),
        f"{lead(epochs['PTB'].verdict)} LRUs need fewer epochs than LSTMs: {_bounded(epochs)}. Most LSTMs are still improving at the cap, "
        f"so that their epochs are lower bounds and their losses are worse than they would be.",
        f"With fewer data the LRU's advantage over the GRU holds for {_holding(shares)} shares of the Penn Treebank; "
        f"{lead(gradients.verdict).lower()} gradients are {_spread(gradients)} in a ten-layer LRU than in a GRU (one seed).",
    )


def _scale(judged: Judged) -> str:
    study = judged.evidence.studies.get("lattice_convergence_ptb")
    return study_scale(study) if study else "no study is kept"


def _beat(relation: JudgedRelation) -> str:
    return {Finding.FOR: "beat", Finding.AGAINST: "do not beat"}.get(relation.verdict.finding, "neither beat nor lose to")


def _holding(relations: Sequence[JudgedRelation]) -> str:
    return f"{sum(r.verdict.finding is Finding.FOR for r in relations)} of {len(relations)}"


def _bounded(relations: dict[str, JudgedRelation]) -> str:
    return "; ".join(f"{r.advantage} epochs on {BOOKS[text]} ({r.seeds} seeds)" for text, r in relations.items())


def _spread(relation: JudgedRelation) -> str:
    return "spread more evenly" if relation.verdict.finding is Finding.FOR else "not spread more evenly"


def remarks(evidence: Evidence) -> Sequence[str]:
    """Return paragraphs on the scale, units, and Figure 7."""
    parts = [
        "Losses of the Penn Treebank and of War and Peace are not in the published units: blanks at line ends are stripped and line ends "
        "folded here, the original reads them, and they are nearly free to predict. Published losses are thus higher in the units used "
        "here, by more than the differences between most models of Table 1.",
        "Neither the paper nor the code says how wide networks are, or which have two layers and which four. All have two here, RHNs "
        "included, whose depth is five in each. Glorot's start is the paper's; its code starts otherwise (`--model.initialization lru`), "
        "which shifts losses by about as much as models differ.",
        "A figure at the cap of epochs is printed as *at least*.",
    ]
    norms = evidence.studies.get("lattice_gradients_ptb", {}).get("norms", {})
    for model, values in norms.items():
        ratios = ", ".join(f"{ratio:.2g}" for ratio in by_epoch(values))
        parts.append(f"**Figure 7, {model}.** Gradient norm of the last layer over the mean of the first three, epoch by epoch: {ratios}.")
    return parts
