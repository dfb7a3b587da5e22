"""Remarks on lattice recurrent units: claims that are left out, units, starts of parameters, ratios of gradients."""

from collections.abc import Sequence
from itertools import pairwise

from experiments.lattice.gradients_figure import mean_norms, top_to_bottom
from experiments.lattice.models import NAMES
from experiments.lattice.ranking import ranked
from experiments.report.claims.judged import summarize
from experiments.report.claims.rows import EPOCHS, Evidence, ended_by_cap
from experiments.report.claims.verdicts import Observation
from experiments.report.kept.lattice_studies import Study, norms_of, runs_from, scale_of, scores, starts_in
from experiments.report.papers.lattice_table import (
    BEST_OF_SHARES,
    FIGURE_5,
    GRADIENTS,
    PARTS,
    READING,
    SHARES,
    STUDIES,
    TEXTS,
    distance,
    early,
    falls,
    holds_early,
    holds_on,
    is_even,
    lacking,
    of_lstm,
    of_spreads,
    rises_in_figure,
)
from experiments.report.wording.markdown import table
from lrpt.runs.console import in_series


def kept_studies(evidence: Evidence) -> list[tuple[str, Study]]:
    """Return the kept studies of convergence, each with its text."""
    return [(text, study) for text, names in STUDIES.items() for name in names if (study := evidence.studies.get(name))]


def remarks(evidence: Evidence) -> Sequence[str]:
    """Return paragraphs on claims that are left out, units, starts, rankings, and Figure 7."""
    return [
        *_left_out(),
        OF_CURVES,
        TWO_VALUES,
        UNITS,
        "Neither the paper nor the code says how wide networks are, or which have two layers and which four. Presets have two layers, or "
        "four if their name says so. RHNs have one layer of depth five, because the paper exempts them; `rhn-2-layers` has two. Parameters "
        "are initialized as in the code (`lru`), whose runs were published. The paper names Glorot's (`--model.initialization glorot`).",
        "If the cap on epochs ended a run, its number of epochs is a lower bound and is printed as *at least*.",
        *(part for text, study in kept_studies(evidence) for part in _starts(text, study)),
        *_ratios(evidence),
    ]


def _left_out() -> tuple[str, str, str]:
    """Return the claims of the text that the paper's own table (second part) and figures (third part) lack."""
    of_table: dict[tuple[str, str, str], list[str]] = {}
    for one in lacking():
        even = " (equal)" if is_even(one) else ""
        of_table.setdefault((one.text, one.budget, one.score), []).append(f"{one.better} < {one.worse}{even}")
    first = [f"{better} < {worse} ({text})" for text, better, worse in early() if not holds_early(text, better, worse)]
    of_shares = [
        f"LRU < {worse} ({text}, {share} %{_if_close(distance(text, share, worse))})"
        for text in BEST_OF_SHARES
        for worse in BEST_OF_SHARES[text]
        for share in PARTS
        if not holds_on(text, share, worse)
    ]
    rising = in_series([text for text in TEXTS if not rises_in_figure(text)])
    return (
        "**Claims of the text that do not hold in the paper's own table and figures** are left out. Orderings that do not hold in Table 1:",
        table(["text", "parameters", "quantity", "orderings"], [[*place, ", ".join(own)] for place, own in of_table.items()], left=4),
        f"Figure 3: test losses of RHNs rise at first ({rising}; on enwik8 it rises in the fifth epoch, not above that of the first). "
        f"Figure 4, after one epoch: {', '.join(first)}. Figure 5: {', '.join([*of_shares, *_of_all_models()])}. The caption of Figure 5 "
        f"(an LRU on 40 % of the data is better than others on 60 %) holds on the Penn Treebank only. Figure 6: LSTMs and RHNs have "
        f"outliers (they have none there, and PS-LRUs have one, at 89 epochs). By footnote 5, PS-LRU < RG-LRU on War and Peace. The text "
        f"says that LRUs are 'almost always' the best after one epoch; each text and rival is one ordering here. Figures 3 and 4 were read "
        f"in the authors' repository. The panel of enwik8 in Figure 5 is there only; the paper claims no orderings of it.",
    )


OF_CURVES = (
    "**Claims on whole curves** are not judged. LRUs 'maintain the lead with time': in Figure 3, this holds on the Penn Treebank and "
    "War and Peace. On text8, LSTMs and Grid-LSTMs are ahead from the second epoch on. On enwik8, the LSTM is ahead by up to 0.004 in "
    "epochs 3 to 5. The losses of models other than RHNs fall 'almost monotonically'. A worse model cannot catch up after the first "
    "epoch: in Figure 4, LRUs overtake RG-LRUs on the Penn Treebank. On text8 the text calls all models equally good, and the caption "
    "of Figure 5 calls LRUs better; there, LRUs are compared with their family only. With more data, LRUs are 'just as good as Grid-LSTMs "
    "and LSTMs', if not better: on the Penn Treebank this follows from the orderings of Figure 5, on text8 from equally good models."
)

TWO_VALUES = (
    "**The paper has two values for three models of 10 M parameters.** On text8, the GRU has 1.047 after 17 epochs in Table 1, and the RHN "
    "1.121 after 26. In Figures 3 and 5, the GRU has 1.028 after about 30 epochs, as in Figure 4, and the RHN 1.098 after about 60. On "
    "enwik8, the Grid-LSTM has 59 epochs in Table 1 and 88 in Figures 3 and 6, at about the same loss. The claims that losses are higher "
    "on all of text8 than on 80 % follow the figures."
)


def _of_all_models() -> list[str]:
    """Return which claims about all models Figure 5 lacks."""
    rising = [
        f"losses of {model}s fall with more data ({text})"
        for text in ("PTB", "text8")
        for model in FIGURE_5[text]
        if not falls(text, model)
    ]
    steps = [
        f"losses differ more with {less} % than with {more} % (PTB{_if_close(abs(widening))})"
        for less, more in pairwise(SHARES)
        if (widening := of_spreads(less, more)) <= 0
    ]
    worst = [f"LSTM is the worst (PTB, {share} %{_if_close(abs(of_lstm(share)))})" for share in PARTS if of_lstm(share) <= 0]
    return [*rising, *worst, *steps]


def _if_close(difference: float) -> str:
    """Return what is said of losses in Figure 5 that differ by less than its accuracy."""
    return ", equal within the accuracy of the reading" if difference < READING else ""


UNITS = (
    "Presets and studies read texts as the original code does; their losses are in the published units. On War and Peace that is "
    "unproven, because the authors' file is unknown."
)


def _starts(text: str, study: Study) -> list[str]:
    """Return a table of losses and epochs from each start, and which models the LRU differs from."""
    starts = starts_in(study)
    heads = [f"loss, initialization {start} | epochs, initialization {start}" for start in starts]
    rows = [f"| model | {' | '.join(heads)} |", f"| --- |{' ---: | ---: |' * len(starts)}"]
    for name in dict.fromkeys(run["model"] for start in starts for run in runs_from(study, start)):
        cells = [cell for start in starts for cell in _cells([run for run in runs_from(study, start) if run["model"] == name], study)]
        rows.append(f"| {NAMES[name]} | {' | '.join(cells)} |")
    said = [sentence for start in starts if (sentence := _ranked(study, start))]
    return [f"**{text}, by initialization** ({scale_of(study)}).", "\n".join(rows), " ".join(said)]


def _ranked(study: Study, start: str) -> str:
    """Return which models the LRU differs from in loss; '' if there are none to compare. Leave out models with a run ended by the cap."""
    capped = dict.fromkeys(run["model"] for run in runs_from(study, start) if ended_by_cap(run, study))
    sentence = ranked({model: losses for model, losses in scores(study, start).items() if model not in capped})
    names = in_series([NAMES[model] for model in capped])
    left_out = f" Not compared, because the cap on epochs ended runs: {names}." if capped else ""
    return f"Initialization `{start}`: {sentence}{left_out}" if sentence else ""


def _cells(runs: Sequence[Study], study: Study) -> list[str]:
    losses = [Observation(run["seed"], run["loss"]) for run in runs]
    epochs = [Observation(run["seed"], run[EPOCHS], censored=ended_by_cap(run, study)) for run in runs]
    return [summarize(losses, "{:.3f}"), summarize(epochs, "{:.1f}")]


def _ratios(evidence: Evidence) -> list[str]:
    """Return a paragraph for each model and start: the ratio of last to first layer by epoch."""
    study = evidence.studies.get(GRADIENTS)
    parts = []
    for start in starts_in(study) if study else []:
        for title, of_seeds in norms_of(study, start).items():  # type: ignore[arg-type]
            norms = mean_norms(list(of_seeds.values()))
            ratios = ", ".join(f"{ratio:.2g}" for ratio in top_to_bottom(norms))
            parts.append(
                f"**Figure 7, {title}, initialization {start}.** Gradient norm of the last layer divided by that of the first, in each "
                f"epoch: {ratios}."
            )
    return parts
