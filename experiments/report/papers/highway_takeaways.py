"""Takeaways about recurrent highway networks; every number is computed from the kept results."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from experiments.jsb.swarm import CONSTANT
from experiments.report.claims import Evidence
from experiments.report.judged import Judged, JudgedRelation
from experiments.report.studies import NATS, best_dot
from experiments.report.texts import lead
from experiments.report.verdicts import Finding, Status, Verdict

SWARM = "jsb_swarm"
"""The study of Figure 4."""
EQUAL = "word_lm_equal"
"""The study of depth at an equal number of parameters."""

CELLS = {"rhn": "RHN", "dt_rnn": "DT-RNN", "dts_rnn": "DT(S)-RNN"}


def takeaways(judged: Judged) -> Sequence[str]:
    """Return four sentences, agreeing and disagreeing ones."""
    whole = judged.relation("depth helps at equal parameters: 10 better than 1, tied")
    equal = judged.relation("depth helps at 1.5 million parameters: 6 better than 1, tied")
    rhn = judged.relation("depth does not harm")
    ours = {d: judged.quantity(f"RHN + WT, depth {d}", "test perplexity") for d in (1, 3)}
    return (
        f"{_of_equal(judged, equal)} At equal width, 200 units, depth 3 has {ours[3].ours} test perplexity and depth 1 {ours[1].ours} (one "
        f"seed). That is no evidence for depth at equal size: the deeper network has more parameters.",
        f"The paper's main sentence, 90.6 to 65.4 from depth 1 to 10, is {whole.verdict}. Its networks do not have equal numbers of "
        f"parameters where embeddings are tied (19.3 to 23.5 million), and the 65.4 has a smaller weight decay than the 90.6.",
        f"{lead(rhn.verdict)} depth {'does not hurt' if rhn.seeds == '1 of 1' else 'hurts'} the optimization of RHNs on JSB Chorales; "
        f"{_better(judged.evidence)}.",
        f"{_of_layers(judged)} Tables 2 and 3 (enwik8, text8) are not yet run; they need an accelerator.",
    )


def _of_layers(judged: Judged) -> str:
    """Return what came of lesions and gates of the network on JSB Chorales."""
    most = judged.relation("the first layer contributes more than any other")
    some = judged.relation("closing any layer's gate raises the training loss")
    gates = judged.relation("the first layer's gates are more open")
    used, switch = judged.relation("all layers are used"), judged.relation("the other layers' gates switch more")
    if most.verdict.status is Status.NOT_RUN:
        return "Lesions and gates of a network on JSB Chorales (section 6, Figure 5b) are not yet run."
    return (
        f"In an RHN of depth 6 on JSB Chorales, closing the first layer's gate costs {most.advantage} nats more than closing any other "
        f"({_agrees(most.verdict)}), closing any layer's costs at least {some.advantage} ({_agrees(some.verdict)}), and the first layer's "
        f"gate is more open than any other by {gates.advantage} ({_agrees(gates.verdict)}). The least open gate after training exceeds the "
        f"most open one before by {used.advantage} ({_agrees(used.verdict)}), and the deviation over time of the other layers' gates "
        f"exceeds that of the first one's by {switch.advantage} ({_agrees(switch.verdict)})."
    )


def _agrees(verdict: Verdict) -> str:
    """Return how a claim relates to what was measured; its advantage is negative if it disagrees."""
    return {Finding.FOR: "as in the paper", Finding.AGAINST: "against the paper"}.get(verdict.finding, "undecided")


def _of_equal(judged: Judged, ends: JudgedRelation) -> str:
    """Return what came of depth at an equal number of parameters: perplexities from depth to depth, and the steps that do not help."""
    if ends.verdict.status is Status.NOT_RUN:
        return "Whether depth helps at 1.5 million parameters, from depth 1 to 6 on the Penn Treebank, is not yet run."
    (study,) = (study for study in judged.paper.studies if study.name == EQUAL)
    scores = [[run.tested(study.score) or np.nan for run in runs] for runs in study.runs(judged.evidence).values()]
    verb = {Finding.FOR: "helps", Finding.AGAINST: "hurts"}.get(ends.verdict.finding, "neither helps nor hurts")
    steps = [
        judged.relation(f"depth helps at 1.5 million parameters: {deep} better than {deep - 1}, tied") for deep in range(2, len(scores) + 1)
    ]
    harms = [str(deep) for deep, step in enumerate(steps, start=2) if step.verdict.finding is Finding.AGAINST]
    no_better = f" One transition more is no better at depth {' and '.join(harms)}." if harms else ""
    return (
        f"{lead(ends.verdict)} depth {verb} at 1.5 million parameters: depths 1 to {len(scores)} have test perplexities of "
        f"{', '.join(f'{np.mean(own):.1f}' for own in scores)} on the Penn Treebank (depth 6 before depth 1 for {ends.seeds} seeds)."
        f"{no_better}"
    )


def constant_of(swarm: Mapping[str, Any]) -> float:
    """Return the loss of the best constant predictor of the data of a swarm, in nats per frame of the training part."""
    return swarm[CONSTANT]


def _better(evidence: Evidence) -> str:
    """Return how many settings of each architecture learned anything."""
    if SWARM not in evidence.studies:
        return "no swarm is kept"
    swarm, parts = evidence.studies[SWARM], []
    for cell, name in CELLS.items():
        losses = [dot[NATS.field] for dot in swarm["dots"] if dot["cell"] == cell]
        parts.append(f"{sum(loss < constant_of(swarm) for loss in losses)} of {len(losses)} {name}s")
    return f"{', '.join(parts)} of the swarm beat the {constant_of(swarm):.2f} nats of the best constant predictor"


def _line_of(evidence: Evidence) -> str:
    """Return what the line in the plot of the swarm is."""
    if SWARM not in evidence.studies:
        return ""
    return f" The best constant predictor, which knows how often each note sounds, has {constant_of(evidence.studies[SWARM]):.2f}."


def remarks(evidence: Evidence) -> Sequence[str]:
    """Return paragraphs on the swarm, presets, and weight decay."""
    best = {(cell, depth): best_dot(evidence, (cell, depth)) for cell in CELLS for depth in (1, 2, 4, 6)}
    lines = [
        f"{CELLS[cell]}: {', '.join(f'{best[cell, d]:.2f} at depth {d}' for d in (1, 2, 4, 6) if best[cell, d] is not None)}"
        for cell in CELLS
    ]
    return (
        f"**Figure 4.** Lowest training loss of all settings, nats per frame: {'; '.join(lines)}. Sizes grow with depth, as in the paper. "
        f"The recipe clips the norm of gradients at 10, of which the paper says nothing.{_line_of(evidence)}",
        "Presets follow the authors' TensorFlow code at each depth. It biases the transform gates of the Penn Treebank towards carrying "
        "(-2), while the paper names such biases for the optimization study and Wikipedia only. The 65.4 of Table 1 needs a smaller weight "
        "decay than that code's 1e-7, which neither the paper nor the code prints; 1e-9 is a guess.",
        "The networks of 200 units hold the width, not the number of parameters: the transition weights triple from depth 1 to 3. So they "
        "stand in for single points of Figure 5a, and not for its orderings. For these, the presets equal-1 to equal-6 have 1.5 million "
        "parameters each.",
    )
