"""Takeaways about recurrent highway networks; every number is computed from the kept results."""

from collections.abc import Mapping, Sequence, Set
from typing import Any

import numpy as np

from experiments.jsb.swarm import CONSTANT
from experiments.report.claims.judged import Judged, JudgedRelation
from experiments.report.claims.matching import recorded
from experiments.report.claims.pairs import agreement, compared, difference
from experiments.report.claims.paper import Study, Takeaway
from experiments.report.claims.rows import Evidence
from experiments.report.claims.studies import NATS, SURE, SWARM, best_dot
from experiments.report.claims.verdicts import Status
from experiments.report.kept.records import Record
from experiments.report.papers.highway_layers import layers_remarks, layers_takeaway
from experiments.report.wording.texts import at_published_size, by_finding, direction, lead, seeds_in_words, still_improving
from lrpt.cli.studies import DIVERGED
from lrpt.runs.console import in_series

EQUAL = "word_lm_equal"
"""The study of depth at an equal number of parameters."""

CELLS = {"rhn": "RHN", "dt_rnn": "DT-RNN", "dts_rnn": "DT(S)-RNN"}


def takeaways(judged: Judged) -> Sequence[Takeaway]:
    """Return four takeaways, agreeing and disagreeing ones."""
    return (_on_depth(judged), _on_tables(judged), _on_optimization(judged), layers_takeaway(judged))


def _on_depth(judged: Judged) -> Takeaway:
    """Return how depth helps at an equal number of parameters, and at an equal width."""
    ours = {d: judged.quantity(f"RHN + WT, depth {d}", "test perplexity") for d in (1, 3)}
    seeds = seeds_in_words([len(one.observed) for one in ours.values()])
    ends = judged.relation("depth helps: 10 better than 1, tied")
    return Takeaway(
        " ".join(("**Depth.**", _of_equal(judged, ends), *filter(None, _of_steps(judged, ends)))),
        (
            f"At equal width, 200 units, depth 3 has {ours[3].ours} test perplexity and depth 1 {ours[1].ours} ({seeds}). That is no "
            f"evidence for depth at equal parameters: the deeper network has more parameters.",
        )
        * all(one.smaller for one in ours.values()),
    )


def _on_tables(judged: Judged) -> Takeaway:
    """Return what became of the tables of words and of Wikipedia."""
    whole = judged.relation("depth 10 with the smaller weight decay")
    return Takeaway(
        f"**The paper's main result**, perplexity 90.6 to 65.4 from depth 1 to 10 on words: {whole.verdict}.",
        (
            at_published_size(judged, ("Table 2", "Table 3"), "Tables 2 and 3 (enwik8 and text8)"),
            "The comparison of 90.6 and 65.4 changes more than depth: 19.3 million parameters become 23.5, as embeddings are tied, and "
            "the network with 65.4 was trained with a smaller weight decay.",
        ),
    )


def _on_optimization(judged: Judged) -> Takeaway:
    """Return what the swarm of Figure 4 says."""
    if SWARM not in judged.evidence.studies:
        return Takeaway("**Optimization** (Figure 4): no swarm is kept.")
    compared = [r for r in judged.relations if r.relation.sentence.startswith("an RHN of depth") and r.pairs]
    better = {said: [r for r in compared if direction(r) == said] for said in map(direction, compared)}
    said = {
        "depth does not harm RHNs": direction(judged.relation("depth does not harm")),
        **{f"depth harms {name}s": direction(judged.relation(f"{name}s become considerably")) for name in ("DT-RNN", "DT(S)-RNN")},
        **{f"RHNs beat {_rivals(found)} (our reading)": said for said, found in better.items()},
    }
    return Takeaway(
        f"**Optimization** (Figure 4) on JSB Chorales. Small networks with random settings were trained once each: hints, not verdicts. "
        f"{by_finding(said)}",
        (
            _lowest(judged.evidence),
            f"{_better(judged.evidence)}.",
            _extent(judged.evidence),
            _losses(judged.evidence),
            _unbiased(judged.evidence),
            f"An ordering of best settings is left undecided unless it holds in {SURE:.0%} of the bootstrap samples of the settings.",
        ),
    )


def _rivals(relations: Sequence[JudgedRelation]) -> str:
    """Return the rivals of RHNs, with depths: 'DT-RNNs at depths 4 and 6, and DT(S)-RNNs at depth 2'."""
    depths: dict[str, list[str]] = {}
    for relation in relations:
        depth, _, rest = relation.relation.sentence.removeprefix("an RHN of depth ").partition(" ")
        depths.setdefault(rest.partition("better than a ")[2].partition(" (our")[0], []).append(depth)
    return ", and ".join(f"{name}s at {'depths' if len(own) > 1 else 'depth'} {in_series(own)}" for name, own in depths.items())


def _lowest(evidence: Evidence) -> str:
    """Return the lowest losses of each architecture at the first and the last depth, beside that of a constant predictor."""
    swarm = evidence.studies[SWARM]
    first, last = min(swarm["options"]["depths"]), max(swarm["options"]["depths"])
    found = {name: (best_dot(evidence, (cell, first)), best_dot(evidence, (cell, last))) for cell, name in CELLS.items()}
    parts = [f"{one:.2f} and {other:.2f} ({name})" for name, (one, other) in found.items() if one is not None and other is not None]
    return (
        f"Lowest training losses of {swarm['options']['settings']} settings at depths {first} and {last}, in nats per frame: "
        f"{', '.join(parts)}; the best constant predictor has {constant_of(swarm):.2f}."
    )


def _of_equal(judged: Judged, ends: JudgedRelation) -> str:
    """Return the perplexity of each depth at an equal number of parameters.

    Perplexities are means over the seeds that all depths have, so that they can be compared.
    """
    if ends.verdict.status is Status.NOT_RUN:
        return "Whether depth helps at 1.5 million parameters, from depth 1 to 6 on the Penn Treebank, is not yet run."
    scores = _scores_of_depths(judged)
    common = set.intersection(*map(set, scores.values()))
    mean_of = {depth: float(np.mean([own[seed] for seed in common])) for depth, own in scores.items()}
    agrees = [pair.agrees for pair in ends.pairs]
    verb = "better" if all(agrees) else "worse" if all(one is False for one in agrees) else "better for some seeds only"
    seeds = f" ({agreement(ends.pairs, ' seeds agree')})" if len(agrees) > 1 else ""
    means = f" (means over {len(common)} seeds)" if len(common) > 1 else ""
    lowest = min(mean_of, key=lambda depth: mean_of[depth])
    rises = f" Perplexity is lowest at depth {lowest}{_beyond(scores, common, lowest)}." if lowest < max(scores) else ""
    return (
        f"{lead(ends.verdict)} depth {max(scores)} is {verb} than depth 1 at 1.5 million parameters{seeds}: depths {_listed(list(scores))} "
        f"have test perplexities of {', '.join(f'{mean:.1f}' for mean in mean_of.values())}{means}.{rises}"
    )


def _beyond(scores: Mapping[int, Mapping[int, float]], common: Set[int], lowest: int) -> str:
    """Return by how much deeper networks are worse than those of the best depth; nothing if one seed is all there is."""
    deeper = [depth for depth in scores if depth > lowest]
    found = [difference([compared(seed, scores[depth][seed] - scores[lowest][seed], True) for seed in common]) for depth in deeper]
    said = [f"{one.mean:.1f} ± {one.error:.1f}" for one in found if one is not None and one.pairs > 1]
    return f", and {in_series(said)} higher at {in_series([str(depth) for depth in deeper])}" if said else ""


def _listed(depths: Sequence[int]) -> str:
    """Return '1 to 6', or '1, 2 and 4' if some are missing."""
    gapless = list(depths) == list(range(min(depths), max(depths) + 1))
    return f"{min(depths)} to {max(depths)}" if gapless else in_series([str(depth) for depth in depths])


def _equal(judged: Judged) -> tuple[Study, dict[int, list[Record]]]:
    """Return the study of depth at an equal number of parameters, and its runs by depth."""
    (study,) = (study for study in judged.paper.studies if study.name == EQUAL)
    return study, {recorded(runs[0])["model.depth"]: runs for runs in study.runs(judged.evidence).values()}


def _scores_of_depths(judged: Judged) -> dict[int, dict[int, float]]:
    """Return the test score of each seed by depth, of finished runs only."""
    study, by_depth = _equal(judged)
    scores = {
        depth: {run.seed: score for run in runs if (score := run.tested(study.score)) is not None} for depth, runs in by_depth.items()
    }
    return {depth: own for depth, own in scores.items() if own}


def _of_steps(judged: Judged, ends: JudgedRelation) -> list[str]:
    """Return which steps of depth do not help, and how many runs were still improving; nothing if none was run."""
    if ends.verdict.status is Status.NOT_RUN:
        return []
    _, by_depth = _equal(judged)
    steps = [judged.relation(f"depth helps: {deep} no worse than {deep - 1}, tied") for deep in range(2, max(by_depth) + 1)]
    harms = [str(deep) for deep, step in enumerate(steps, 2) if step.pairs and all(pair.agrees is False for pair in step.pairs)]
    return [
        f"From one depth to the next, it does not help at {in_series(harms)}." if harms else "",
        still_improving([run for of_depth in by_depth.values() for run in of_depth]),
    ]


def constant_of(swarm: Mapping[str, Any]) -> float:
    """Return the loss of the best constant predictor of the data of a swarm, in nats per frame of the training split."""
    return swarm[CONSTANT]


def _better(evidence: Evidence) -> str:
    """Return how many settings of each architecture learned anything."""
    swarm = evidence.studies[SWARM]
    losses = {name: [dot[NATS.field] for dot in swarm["dots"] if dot["cell"] == cell] for cell, name in CELLS.items()}
    parts = [f"{sum(loss < constant_of(swarm) for loss in own)} of {len(own)} {name}s" for name, own in losses.items()]
    settings = swarm["options"]["settings"] * len(swarm["options"]["depths"])
    missing = sum(settings - len(own) for own in losses.values())
    ended = [f"{CELLS[one['cell']]} of depth {one['depth']} (update {one['update']})" for one in swarm.get(DIVERGED, ())]
    unknown = missing - len(ended)
    return (
        f"{in_series(parts)} have a training loss below that of the best constant predictor"
        f"{f'. Diverged: {in_series(ended)}' if ended else ''}{f'. Without a result: {unknown}' if unknown > 0 else ''}"
    )


def _unbiased(evidence: Evidence) -> str:
    """Return how many RHNs start without the bias that the paper's text names; nothing if all have it."""
    rhns = [dot for dot in evidence.studies[SWARM]["dots"] if dot["cell"] == "rhn"]
    best = [best_dot(evidence, ("rhn", depth)) for depth in {dot["depth"] for dot in rhns}]
    unbiased = [dot for dot in rhns if dot["carry_bias"] == 0]
    if not unbiased:
        return ""
    return (
        f"The paper's text biases transform gates towards being closed. {len(unbiased)} of {len(rhns)} RHNs here start without such a "
        f"bias, and {sum(dot[NATS.field] in best for dot in unbiased)} of the {len(best)} best ones of a depth."
    )


def _losses(evidence: Evidence) -> str:
    """Return the best and the median loss of RHNs at the first and the last depth."""
    depths = evidence.studies[SWARM]["options"]["depths"]
    of = {d: [dot[NATS.field] for dot in evidence.studies[SWARM]["dots"] if (dot["cell"], dot["depth"]) == ("rhn", d)] for d in depths}
    one, other = min(of), max(of)
    return (
        f"The best RHN has {min(of[one]):.2f} nats per frame at depth {one} and {min(of[other]):.2f} at depth {other}, the median "
        f"{np.median(of[one]):.2f} and {np.median(of[other]):.2f}."
    )


def _extent(evidence: Evidence) -> str:
    """Return how large the swarm is."""
    options = evidence.studies[SWARM]["options"]
    sizes = options["parameters"]
    return (
        f"The networks have {min(sizes):,} to {max(sizes):,} parameters, and {options['settings']} settings for each depth are trained "
        f"for {options['updates']} updates."
    )


def _line_of(evidence: Evidence) -> str:
    """Return what the line in the plot of the swarm is."""
    if SWARM not in evidence.studies:
        return ""
    return f" The best constant predictor, which knows how often each note sounds, has {constant_of(evidence.studies[SWARM]):.2f}."


def remarks(evidence: Evidence) -> Sequence[str]:
    """Return paragraphs on the swarm, presets, weight decay, and the networks whose layers are analysed."""
    best = {(cell, depth): best_dot(evidence, (cell, depth)) for cell in CELLS for depth in (1, 2, 4, 6)}
    lines = [
        f"{CELLS[cell]}: {', '.join(f'{best[cell, d]:.2f} at depth {d}' for d in (1, 2, 4, 6) if best[cell, d] is not None)}"
        for cell in CELLS
    ]
    return (
        "WT (weight tying) means that embedding and readout share one matrix.",
        "We could not read all parts of the paper. So numbers of Table 1 and Figure 5a are from the authors' README and from copies of the "
        "table by others, and Figure 4 and the supplement were not read.",
        f"**Figure 4.** Lowest training loss of all settings, nats per frame: {'; '.join(lines)}. Sizes grow with depth, as in the paper. "
        f"The recipe clips the norm of gradients at 10, which the paper's main text does not mention.{_line_of(evidence)}",
        "Presets follow the authors' TensorFlow code at each depth. It biases the transform gates of the Penn Treebank towards carrying "
        "(-2), while the main text names such biases for the optimization study and Wikipedia only. The 65.4 of Table 1 needs a smaller "
        "weight decay than that code's 1e-7. Neither the main text nor the code prints it, and the supplement was not read; 1e-9 is a "
        "guess.",
        "The paper says that RHNs are better than all earlier models on enwik8 and text8 with significantly fewer parameters. That holds "
        "in its table of enwik8, for the networks of 23 and 21 million parameters (LN HM-LSTM: 35 million). The best RHNs have 46 and 45 "
        "million. On text8, the one of 20 million has the score of LN HM-LSTM, 1.29. So only scores are judged, not sizes, and the network "
        "of 20 million on text8 is left out. Numbers of parameters follow from the presets.",
        "The text says that the test score improves as the depth increases from 1 to 10. In the authors' README, depths 8 and 9 have equal "
        "scores without tied embeddings (68.5), and depths 9 and 10 with them (66.0). So each step of depth is claimed as 'no worse'.",
        "The text says that RHNs benefit from tied embeddings. In the authors' README, this holds at depths 2 to 10 and fails at depth 1 "
        "(90.6 tied, 89.2 untied), which is left out.",
        "The text says that DT-RNNs and DT(S)-RNNs become harder to optimize with depth, and RHNs do not. That RHNs are better than both "
        "at each depth from 2 on is our reading, because Figure 4 was not read.",
        "The networks of 200 units have equal widths, not equal numbers of parameters: the transition weights triple from depth 1 to 3. "
        "So they stand in for single points of Figure 5a, not for its orderings. For these, the presets equal-1 to equal-6 have 1.5 "
        "million parameters each.",
        "**Sections 3 and 4** reason about eigenvalues of the temporal Jacobian, without experiments. What they say is tested, not "
        "judged: with carry gates open all eigenvalues are 1 (eq. 15), and with transform gates open they are those of the candidate; "
        "all lie in Gershgorin discs (`tests/analysis/test_jacobian.py`). Larger deviations of the initial matrices make larger discs, "
        "and matrices near the identity have discs around 1 (`tests/analysis/test_initial_spectra.py`). `inspect_rhn starts` draws "
        "this.",
        *layers_remarks(evidence),
    )
