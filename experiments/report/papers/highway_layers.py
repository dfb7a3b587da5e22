"""Analysis of the recurrent highway networks on JSB Chorales: lesions, gates, Gershgorin discs, Jacobians over several steps, bounds.

Every number is computed from the `analysis.json` of the kept runs, and printed as a range over all seeds.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from experiments.inspect_rhn.numbers import EXAMPLES
from experiments.jsb.command import EXPERIMENT as JSB
from experiments.report.claims.judged import Judged
from experiments.report.claims.paper import Takeaway
from experiments.report.claims.rows import Evidence, Network
from experiments.report.claims.verdicts import Status
from experiments.report.kept.records import Record
from experiments.report.wording.markdown import RESULTS, table
from experiments.report.wording.texts import by_finding, direction, seeds_in_words
from lrpt.cli.studies import grouped

CHORALES = Network("RHN, depth 6, on JSB Chorales", JSB, "--preset paper")
SUBSTANTIAL = 0.05
"""share of the loss without lesions that counts as a substantial difference; the paper names none"""

NETWORKS = {"untrained": "before training", "trained": "after training"}


class Layers(NamedTuple):
    """A run, and the analysis of its layers."""

    run: Record
    found: Mapping[str, Any]

    def costs(self, held: str) -> list[float]:
        """Return how much the training loss rises with each layer's gates held, 'shut' or 'opened'."""
        lesions = self.found["lesions"]
        return [loss - lesions["intact"] for loss in lesions[held]]

    def gates(self, network: str, field: str) -> list[float]:
        """Return the means or deviations of the gates, first layer to last."""
        return [one[field] for one in self.found["gates"] if one["network"] == network]

    def bounds(self, network: str, name: str) -> list[float]:
        """Return gamma sigma_max of the matrices with this name, first layer to last."""
        return [one["gamma"] * one["largest"] for one in self.found["bounds"][network] if one["name"] == name]


def analysed(evidence: Evidence) -> list[Layers]:
    """Return the kept runs whose layers are analysed, in the order of their seeds."""
    runs = [run for _, run in sorted(CHORALES.runs(evidence, best=True).items())]
    return [Layers(run, run.analysis["highway"]) for run in runs if run.analysis is not None and "highway" in run.analysis]


def between(values: Iterable[float], form: str) -> str:
    """Return the smallest and the largest value, such as '0.03 to 0.49', or one value if both are printed alike."""
    found = list(values)
    return " to ".join(dict.fromkeys((form.format(min(found)), form.format(max(found)))))


def layers_takeaway(judged: Judged) -> Takeaway:
    """Return what came of lesions and gates of all seeds."""
    most = judged.relation("the first layer contributes more than any other")
    some = judged.relation("closing a layer's gates in general")
    more_open, opened = (judged.relation(f"the first layer's gates are {how}") for how in ("more open than", "open on average"))
    used, switching = judged.relation("the gates of each layer are more open"), judged.relation("gates of the other layers switch")
    seeds = analysed(judged.evidence)
    if most.verdict.status is Status.NOT_RUN or not seeds:
        return Takeaway("**Layers.** Lesions and gates of a network on JSB Chorales (section 6, Figure 5b) are not yet run.")
    depth = len(seeds[0].costs("shut"))
    said = {
        "the first layer contributes most": direction(most),
        "closing layers (holding transform gates at 0) in general costs substantially": direction(some),
        "the first layer's gates are more open than those of any other (our reading)": direction(more_open),
        "the first layer's gates are open on average (our reading)": direction(opened),
        "gates of all layers open in training (our reading)": direction(used),
        "gates of the other layers switch over time": direction(switching),
    }
    return Takeaway(
        f"**Layers** of an RHN of depth {depth} on JSB Chorales ({seeds_in_words([len(seeds)])}, lowest validation loss; settings of the "
        f"unread supplement are guesses). {by_finding(said)} {_how_far(seeds)}",
        (
            _of_first(seeds),
            _of_others(seeds),
            "The paper calls the gates of the first layer typically high, and says that all layers are utilized.",
            f"{_of_gates(seeds)} (weights of the lowest validation loss). Ranges are over all seeds and layers.",
        ),
    )


def _of_first(seeds: Sequence[Layers]) -> str:
    """Return how much the first layer contributes, and how much the others."""
    costs = [one.costs("shut") for one in seeds]
    ahead = sum(first > max(others) for first, *others in costs)
    some = f"contributes most for {ahead} of {len(costs)} seeds"
    contributes = {0: "does not contribute most", len(costs): "contributes most"}.get(ahead, some)
    return (
        f"Closing the first layer's gates raises the training loss by {between(_firsts(costs), '{:.1f}')} nats per frame, and closing "
        f"those of any other layer by {between(_others(costs), '{:.2f}')}. The first one {contributes}."
    )


def _of_others(seeds: Sequence[Layers]) -> str:
    """Return how much layers other than the first one cost when they are closed, as shares of the loss."""
    shares = [cost / one.found["lesions"]["intact"] for one in seeds for cost in one.costs("shut")[1:]]
    substantial = sum(share >= SUBSTANTIAL for share in shares)
    return (
        f"Closing one of the others costs {between(shares, '{:.1%}')} of the loss, and {SUBSTANTIAL:.0%} or more in {substantial} of "
        f"{len(shares)} cases."
    )


def _of_gates(seeds: Sequence[Layers]) -> str:
    """Return how open gates are before and after training, and how much they move."""
    before = [mean for one in seeds for mean in one.gates("untrained", "mean")]
    after, spread = ([one.gates("trained", field) for one in seeds] for field in ("mean", "deviation"))
    return (
        f"Gates have a mean of {between(before, '{:.2f}')} before training. After training, they have "
        f"{between(_firsts(after), '{:.2f}')} in the first layer and {between(_others(after), '{:.2f}')} in the others, whose standard "
        f"deviations are at most {max(_others(spread)):.4f}"
    )


def _firsts(by_seed: Iterable[Sequence[float]]) -> list[float]:
    return [of[0] for of in by_seed]


def _others(by_seed: Iterable[Sequence[float]]) -> list[float]:
    return [value for of in by_seed for value in of[1:]]


def layers_remarks(evidence: Evidence) -> Sequence[str]:
    """Return paragraphs and tables on the analysed networks; nothing if there are none."""
    seeds = analysed(evidence)
    if not seeds:
        return ()
    parts = [_of_state(seeds), _of_heat_map(seeds), _of_held(seeds)]
    for field, say in {"discs": _of_discs, "flow": _of_flow, "bounds": _of_bounds}.items():
        own = [one for one in seeds if one.found.get(field)]
        parts += say(own) if own else []
    return parts


def _training_losses(seeds: Sequence[Layers], form: str) -> tuple[str, str]:
    """Return the training losses of the analysed states, and those at the end of the same runs."""
    return (
        between((one.found["lesions"]["intact"] for one in seeds), form),
        between((one.run.training()[-1]["loss"] for one in seeds), form),
    )


def _how_far(seeds: Sequence[Layers]) -> str:
    """Return the training losses where the networks are analysed, and at the end."""
    losses, last = _training_losses(seeds, "{:.1f}")
    return f"These weights have training losses of {losses} nats per frame, the last ones {last}; the paper's may be later ones."


def _of_state(seeds: Sequence[Layers]) -> str:
    """Return which state of the networks is analysed, and which one the paper analyses."""
    each = [f"seed {one.run.seed} at update {one.run.analysis['update']:,}" for one in seeds if one.run.analysis is not None]
    losses, last = _training_losses(seeds, "{:.2f}")
    ends = between((one.run.updates for one in seeds), "{:,}")
    return (
        f"**Which networks are analysed.** Lesions, gates, discs, Jacobians and bounds are those of the state with the lowest validation "
        f"loss: {', '.join(each)}, with a training loss of {losses} nats per frame. The paper analyses the network of its "
        f"section 5.1, where the main text does not say on which split losses are compared; those of lesions are on the training set. "
        f"Here training went on to update {ends}, "
        f"with a training loss of {last} before the last evaluation; weights of that state are not kept. So the networks of the paper may "
        f"be optimized further than these."
    )


def _of_heat_map(seeds: Sequence[Layers]) -> str:
    """Return where gates are drawn by layer and step."""
    kept = next((one for one in seeds if one.found.get("activity")), None)
    of = kept or seeds[0]
    command = f"`python -m experiments.inspect_rhn gates {RESULTS / of.run.experiment / of.run.name} --data.dir DIR`"
    if kept is None:
        return f"**Figure 5b** of the paper shows gates by layer and step, as a heat map. {command} draws it if the weights are kept."
    return (
        f"**Figure 5b.** The heat map above shows the mean transform gate of each layer at each step, for seed {kept.run.seed} and the "
        f"first {len(kept.found['activity'])} chorales of the training split. Means and standard deviations of gates are over the first "
        f"{EXAMPLES}. {command} draws the map from the weights."
    )


def _of_held(seeds: Sequence[Layers]) -> str:
    """Return what gates that are held open cost."""
    shut, opened = ([one.costs(held) for one in seeds] for held in ("shut", "opened"))
    return (
        f"**Gates held open.** The paper closes the gates of one layer at a time. Here they are also held open, so that the layer does "
        f"not carry its input, like a layer of a DT-RNN. Held open, the first layer's gates raise the training loss by "
        f"{between(_firsts(opened), '{:.2f}')} nats per frame, and those of any other layer by {between(_others(opened), '{:.2f}')}. "
        f"Held closed, they raise it by {between(_firsts(shut), '{:.2f}')} and {between(_others(shut), '{:.2f}')}. Losses are those of the "
        f"whole training split."
    )


def _of_discs(seeds: Sequence[Layers]) -> list[str]:
    """Return discs and spectral radii at each step, before and after training."""
    discs = [one for own in seeds for one in own.found["discs"]]
    rows = []
    for network, by_step in grouped(discs, "network", "step").items():
        for step, own in by_step.items():
            means = [between((one[of] for one in own), "{:.2f}") for of in ("centre", "radius", "spectral_radius")]
            rows.append([NETWORKS[network], str(step), *means])
    text = (
        "**Gershgorin discs** (section 3, Figure 2). The temporal Jacobian has the derivatives of the state after a step with respect to "
        "the state before it. Each unit has a disc, and each eigenvalue lies in one of them. The centre is a diagonal entry, and the "
        "radius is the sum of the absolute values of the other entries of the row. The spectral radius is the largest absolute value of "
        "an eigenvalue. The paper says that small recurrent weights give small discs, and that gradients explode if the spectral radius "
        f"is above 1. {_growth(seeds)} Numbers are means over units, and over the first {EXAMPLES} chorales of the training split, without "
        f"those that are shorter than the step. Ranges are over {seeds_in_words([len(seeds)])}."
    )
    return [text, table(["network", "step", "mean centre", "mean radius", "spectral radius"], rows)]


def _growth(seeds: Sequence[Layers]) -> str:
    """Return where the discs are before training, and by which factor training changes their radius."""
    carried = [math.prod(1 - mean for mean in own.gates("untrained", "mean")) for own in seeds]
    radii = [{(one["network"], one["step"]): one["radius"] for one in own.found["discs"]} for own in seeds]
    factors = [of["trained", step] / of["untrained", step] for of in radii for network, step in of if network == "trained"]
    return (
        f"Before training, the centres are close to the product of the carry gates of all layers, {between(carried, '{:.2f}')}. Training "
        f"multiplies the mean radius by {between(factors, '{:.1f}')}."
    )


def _of_flow(seeds: Sequence[Layers]) -> list[str]:
    """Return norms of Jacobians over several steps, and their bounds."""
    flow = [one for own in seeds for one in own.found["flow"]]
    rows = []
    for network, by_steps in grouped(flow, "network", "steps").items():
        for steps, own in by_steps.items():
            bound = [one["bound"] for one in own if one["bound"] is not None]
            norms = [between((one[of] for one in own), "{:.3g}") for of in ("norm", "by_step", "spectral_radius")]
            rows.append([NETWORKS[network], str(steps), *norms, between(bound, "{:.3g}") if bound else "–"])
    text = (
        "**Jacobians over several steps** (eq. 2). Gradients travel back over k steps through the product of k temporal Jacobians, taken "
        "here from the first step on. The norm is the largest factor by which the product stretches a vector, and the norm for each step "
        "is its k-th root. The bound of the norm is a product over steps and layers, by singular values and gates. If it is above 1, it "
        f"does not tell whether gradients vanish. Numbers are geometric means over the first {EXAMPLES} chorales of the training "
        f"split, without those that are too short. Ranges are over {seeds_in_words([len(seeds)])}."
    )
    return [text, table(["network", "steps", "norm", "norm for each step", "spectral radius", "bound of the norm"], rows)]


def _of_bounds(seeds: Sequence[Layers]) -> list[str]:
    """Return gamma sigma_max of the recurrent matrices by kind, before and after training."""
    rows = []
    for network, said in NETWORKS.items():
        for name in dict.fromkeys(one["name"] for one in seeds[0].found["bounds"][network]):
            of = [own.bounds(network, name) for own in seeds]
            below = sum(bound < 1 for own in of for bound in own)
            cells = [between(_firsts(of), "{:.2f}"), between(_others(of), "{:.2f}") if len(of[0]) > 1 else "–"]
            rows.append([said, name, *cells, f"{below} of {sum(map(len, of))}"])
    text = (
        "**The bound gamma sigma_max** (eq. 3). sigma_max is the largest singular value of a recurrent matrix. gamma is the largest "
        "derivative of its function: 1 for the tanh of the candidate, 1/4 for the logistic function of the transform gate. In a plain "
        "network with this matrix alone, gradients vanish if the product is below 1. The paper has no such bound for a highway network. "
        f"Ranges are over {seeds_in_words([len(seeds)])}."
    )
    return [text, table(["network", "matrix", "first layer", "other layers", "below 1"], rows, left=2)]
