"""Takeaways about lattice recurrent units; every number and every conclusion is computed from the kept results."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from experiments.lattice.gradients_figure import mean_norms, top_to_bottom
from experiments.lattice.models import NAMES
from experiments.lattice.ranking import gaps, in_words, listed
from experiments.report.claims import EPOCHS, Evidence, at_cap
from experiments.report.judged import Judged, JudgedRelation, summarize
from experiments.report.lattice_studies import Study, is_as_written, norms_of, runs_from, scale_of, scores, starts_in
from experiments.report.papers.lattice_table import EFFICIENCY, GRADIENTS, ORDERINGS, SHARES, STUDIES, TABLE_1, converted
from experiments.report.texts import lead
from experiments.report.verdicts import Finding, Observation
from lrpt.analysis.significance import holm, paired

BOOKS = {"PTB": "the Penn Treebank", "WP": "War and Peace"}
OLDER = {"PTB": "blanks at both ends of lines were stripped", "WP": "CRLF was folded to one symbol"}
"""Text -> how older studies read it."""


class Outcomes(NamedTuple):
    """Comparisons of the paper by what paired seeds say of them.

    Attributes:
      agree, disagree: significant in the paper's direction, and in the other one.
      undecided: not significant.
    """

    agree: list[str]
    disagree: list[str]
    undecided: list[str]


def outcomes(pairs: Sequence[tuple[str, dict[int, float], dict[int, float]]]) -> Outcomes:
    """Sort comparisons by paired tests, with Holm's correction for all of them.

    Args:
      pairs: name of a comparison, and scores by seed of the model that the paper calls better, and of the other one.
    """
    names, means, p_values = [], [], []
    for name, better, worse in pairs:
        seeds = sorted(better.keys() & worse.keys())
        if seeds:
            one, other = [better[seed] for seed in seeds], [worse[seed] for seed in seeds]
            names.append(name)
            means.append(np.mean(other) - np.mean(one))
            p_values.append(paired(one, other))
    found = list(zip(names, means, holm(p_values), strict=True))
    return Outcomes(
        [name for name, mean, significant in found if significant and mean > 0],
        [name for name, mean, significant in found if significant and mean < 0],
        [name for name, _, significant in found if not significant],
    )


def takeaways(judged: Judged) -> Sequence[str]:
    """Return sentences on the scale, the orders of losses, epochs, shares of the data, and gradients."""
    epochs = {text: judged.relation(f"LRU < LSTM: fewer epochs ({text}") for text in BOOKS}
    gradients = judged.relation("gradients reach")
    return (
        f"No row of Table 1 was run at its published size; everything here is at small scale ({_scale(judged)}).",
        *(_order(judged, text) for text in BOOKS),
        f"{lead(epochs['PTB'].verdict)} LRUs need fewer epochs than LSTMs: {_bounded(epochs)}. {_censored(judged)}",
        f"{_shares(judged)} {lead(gradients.verdict)} gradients are {_spread(gradients)} in a ten-layer LRU than in a GRU "
        f"({len(gradients.pairs)} seed{'s' * (len(gradients.pairs) != 1)}).",
    )


def _study(judged: Judged | Evidence, name: str) -> Study | None:
    evidence = judged.evidence if isinstance(judged, Judged) else judged
    return evidence.studies.get(name)


def _first_start(study: Study | None) -> str:
    """Return the start that is judged: the one of the published runs if it was run."""
    return next(iter(starts_in(study)), "") if study else ""


def _scale(judged: Judged) -> str:
    study = _study(judged, STUDIES["PTB"])
    return scale_of(study, _first_start(study)) if study else "no study is kept"


def _order(judged: Judged, text: str) -> str:
    """Say how much of the order of losses in Table 1 paired seeds confirm."""
    gru = judged.relation(f"LRU < GRU: lower test loss ({text}")
    beginning = f"{lead(gru.verdict)} LRUs {_beat(gru)} GRUs on {BOOKS[text]}: {gru.advantage} nats per character"
    study = _study(judged, STUDIES[text])
    if study is None:
        return f"{beginning}."
    found = {NAMES[name]: own for name, own in scores(study, _first_start(study)).items()}
    own = outcomes([(f"{a} < {b}", found[a], found[b]) for a, b in ORDERINGS if a in found and b in found])
    count = sum(map(len, own))
    done = "reproduced" if count and len(own.agree) == count else "not reproduced"
    against = f", {len(own.disagree)} significantly the other way ({', '.join(own.disagree)})" if own.disagree else ""
    return (
        f"{beginning}. The order of Table 1 is {done} there: {len(own.agree)} of {count} of the paper's orderings of losses are significant"
        f"{against}, {len(own.undecided)} undecided (paired seeds, Holm's correction)."
    )


def _shares(judged: Judged) -> str:
    """Say at which shares of the data below all of it LRUs are better than GRUs."""
    study = _study(judged, EFFICIENCY)
    if study is None:
        return "Shares of the data (Figure 5) are not yet run."
    of_share = {share: scores(study, _first_start(study), share) for share in SHARES if share < 100}
    pairs = [(f"{share} %", found["lru"], found["gru"]) for share, found in of_share.items() if {"lru", "gru"} <= found.keys()]
    own = outcomes(pairs)
    lower = sum(np.mean([*lru.values()]) < np.mean([*gru.values()]) for _, lru, gru in pairs)
    if own.agree:
        said = f"LRUs are better than GRUs below 100 % of the Penn Treebank at {listed(own.agree)} of the data (Figure 5)"
    elif lower:
        said = "It is not shown that LRUs are better than GRUs below 100 % of the Penn Treebank (Figure 5)"
    else:
        said = "Against the paper (Figure 5), LRUs are no better than GRUs below 100 % of the Penn Treebank"
    worse = f"; it is significantly higher at {listed(own.disagree)}" if own.disagree else ""
    return (
        f"{said}: their mean loss is lower at {lower} of {len(pairs)} shares{worse}. {len(own.undecided)} of {len(pairs)} differences are "
        f"not significant (paired seeds, Holm's correction)."
    )


def _censored(judged: Judged) -> str:
    """Say how many runs of the convergence studies are best at the last epoch allowed."""
    studies = [study for study in (_study(judged, name) for name in STUDIES.values()) if study]
    runs = [(run, study) for study in studies for run in runs_from(study, _first_start(study))]
    lstm = [(run, study) for run, study in runs if run["model"] == "lstm"]
    if not lstm:
        return ""
    capped = sum(at_cap(run, study) for run, study in lstm)
    return f"{capped} of {len(lstm)} LSTMs are best at the last epoch allowed: their epochs are lower bounds, and their losses too high."


def _beat(relation: JudgedRelation) -> str:
    return {Finding.FOR: "beat", Finding.AGAINST: "do not beat"}.get(relation.verdict.finding, "neither beat nor lose to")


def _bounded(relations: dict[str, JudgedRelation]) -> str:
    return "; ".join(f"{r.advantage} epochs on {BOOKS[text]} ({r.seeds} seeds)" for text, r in relations.items())


def _spread(relation: JudgedRelation) -> str:
    return "spread more evenly" if relation.verdict.finding is Finding.FOR else "not spread more evenly"


def remarks(evidence: Evidence) -> Sequence[str]:
    """Return paragraphs on units, starts, rankings, and Figure 7."""
    return [
        *_units(evidence),
        "Neither the paper nor the code says how wide networks are, or which have two layers and which four. Presets have two, four by "
        "name, and RHNs one of depth five, as the paper exempts them; `rhn-2-layers` has two. Parameters start as in the code (`lru`), "
        "whose runs were published; the paper says Glorot, which is kept by name.",
        "A figure at the cap of epochs is printed as *at least*.",
        *(part for text in STUDIES for part in _starts(evidence, text)),
        *_ratios(evidence),
    ]


def _units(evidence: Evidence) -> list[str]:
    """Say which losses are in the published units, and convert published losses for the others."""
    kept = {text: evidence.studies[name] for text, name in STUDIES.items() if name in evidence.studies}
    parts = ["Presets and studies read texts as the original code does; their losses are in the published units."]
    for text, study in kept.items():
        if not is_as_written(study):
            loss = TABLE_1["10M"]["LRU"][1 if text == "PTB" else 3]
            parts.append(
                f"The kept study of {BOOKS[text]} is older: {OLDER[text]}, and split points moved to line ends. The removed symbols are "
                f"nearly free to predict. A published {loss} is about {converted(loss, text):.3f} in its units, a difference larger than "
                f"those between most models."
            )
    return [" ".join(parts)]


def _starts(evidence: Evidence, text: str) -> list[str]:
    """Return a table of losses and epochs from each start, and which models the LRU differs from."""
    study = _study(evidence, STUDIES[text])
    if study is None:
        return []
    starts = starts_in(study)
    heads = [f"loss, start {start} | epochs, start {start}" for start in starts]
    rows = [f"| model | {' | '.join(heads)} |", f"| --- |{' ---: | ---: |' * len(starts)}"]
    for name in dict.fromkeys(run["model"] for run in study["runs"]):
        cells = [cell for start in starts for cell in _cells([run for run in runs_from(study, start) if run["model"] == name], study)]
        rows.append(f"| {NAMES[name]} | {' | '.join(cells)} |")
    own = [(start, scores(study, start)) for start in starts]
    said = [
        f"Start {start}: {in_words([gap._replace(model=NAMES[gap.model]) for gap in gaps(found, 'lru')], 'LRU')}"
        for start, found in own
        if "lru" in found
    ]
    return [f"**{text}, by start** ({scale_of(study)}).", "\n".join(rows), " ".join(said)]


def _cells(runs: Sequence[Study], study: Study) -> list[str]:
    losses = [Observation(run["seed"], run["loss"]) for run in runs]
    epochs = [Observation(run["seed"], run[EPOCHS], censored=at_cap(run, study)) for run in runs]
    return [summarize(losses, "{:.3f}"), summarize(epochs, "{:.1f}")]


def _ratios(evidence: Evidence) -> list[str]:
    """Return a paragraph for each model and start: the ratio of last to first layer by epoch."""
    study = _study(evidence, GRADIENTS)
    parts = []
    for start in starts_in(study) if study else []:
        for title, of_seeds in norms_of(study, start).items():  # type: ignore[arg-type]
            norms = mean_norms(list(of_seeds.values()))
            ratios = ", ".join(f"{ratio:.2g}" for ratio in top_to_bottom(norms))
            parts.append(f"**Figure 7, {title}, start {start}.** Gradient norm of the last layer over the first, epoch by epoch: {ratios}.")
    return parts
