"""Takeaway about units with variable computation and usual ones of as many operations; every number is computed from the kept results."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from experiments.report.claims.judged import Judged, JudgedRelation, summarize
from experiments.report.claims.matching import recorded
from experiments.report.claims.paper import Takeaway
from experiments.report.claims.relations import OnCurve, Relation, Versus
from experiments.report.claims.rows import Network, Quantity
from experiments.report.claims.verdicts import Finding
from experiments.report.papers.variable_computation_networks import (
    ANNEALED_BITS_SCALE,
    ANNEALED_SCALE,
    CHAR_NETWORKS,
    CONSTANT_SCALE,
    CURVE_TARGETS,
    GRU_CURVE,
    LARGE_RNNS,
    RNN_CURVE,
    SMALL_BITS_SCALE,
    SMALL_CHARS_SCALE,
    SMALL_VC,
    SMALL_VCGRU,
    UNPRINTED,
)
from experiments.report.papers.variable_computation_relations import BPC
from experiments.report.wording.texts import gap, placed, says, seeds_in_words, still_improving
from lrpt.runs.console import in_series

BITS = "bits per character"


def at_equal_operations(judged: Judged) -> Takeaway:
    """Return how units with variable computation compare with usual ones of as many operations."""
    bits, characters = (judged.relation(f"VCRNN-{size} > an RNN of as many") for size in (128, 256))
    large, gated = judged.relation("VCRNN-1024 > RNN-760"), judged.relation("VCGRU-1024 > GRU-458")
    plain = SMALL_VC, *RNN_CURVE
    gates = (SMALL_VCGRU, *GRU_CURVE) if _is_small(gated) else (CHAR_NETWORKS["VCGRU-1024"], CHAR_NETWORKS["GRU-458"])
    of_size = _of_the_published_size(judged)
    all_small = not of_size and all(map(_is_small, (bits, characters, gated)))
    so = gated.smaller == characters.smaller == ANNEALED_SCALE
    alike = "A VCGRU of 256 units" if so else f"{_trained(gated)} VCGRU on characters"
    return Takeaway(
        f"**Equal operations.** In the paper, VCRNNs and VCGRUs beat RNNs and GRUs with as many operations, in {BITS}: "
        f"{_published(judged, 'VCRNN-1024', 'RNN-760')}, and {_published(judged, 'VCGRU-1024', 'GRU-458')}. "
        f"{'All is at smaller scale here. ' if all_small and not large.pairs else ''}{_large_and_small(judged, large, characters)}"
        f"{_behind_with_hard_mask(judged, characters)} {gap(gated, alike, 'such GRUs', '')}{_on_readouts(judged, characters, gated)}",
        (
            _when(characters) if large.pairs else "",
            f"{of_size}{_devices(judged)}" if of_size else "",
            _against_fewer_operations(judged),
            _on_further_readouts(judged, large),
            _with_cut_gradients(judged),
            _otherwise(
                judged,
                characters,
                ANNEALED_SCALE,
                SMALL_CHARS_SCALE,
                "With the recipe tried first (12 epochs, constant learning rate), VCRNN-256",
            ),
            _otherwise(judged, characters, ANNEALED_SCALE, CONSTANT_SCALE, "After 20 epochs at a constant learning rate, VCRNN-256"),
            gap(bits, f"{_trained(bits)} VCRNN on bits", "RNNs of as many operations", BITS),
            _otherwise(
                judged, bits, ANNEALED_BITS_SCALE, SMALL_BITS_SCALE, "After 4 epochs at a constant learning rate, the VCRNN on bits"
            ),
            _with_hard_masks(judged, bits, gated),
            _by_parameters(judged, characters),
            _at_targets(judged),
            *([] if characters.smaller == ANNEALED_SCALE else [_unfinished(judged, "VCRNNs and RNNs on characters", plain)]),
            *([] if gated.smaller == ANNEALED_SCALE else [_unfinished(judged, "VCGRUs and GRUs on characters", gates)]),
        ),
    )


INTERPOLATED = "an RNN (interpolated) of as many operations"


def _is_small(relation: JudgedRelation) -> bool:
    """Return whether its runs are smaller than published, and do not differ by a recipe of this project alone."""
    return relation.smaller not in ("", UNPRINTED)


def _width_alone(judged: Judged) -> str:
    """Return that the widest usual network is worse than a narrower one, too; nothing if it is not, or was not run."""
    _, narrower, widest = (_mean_score(judged, network) for network in LARGE_RNNS)
    if widest is None or narrower is None or widest <= narrower:
        return ""
    return f" (RNN-1024 is also {widest - narrower:.3f} behind RNN-760.)"


def _mean_score(judged: Judged, network: Network) -> float | None:
    known = [one.value for one in network.observe(TEST_SCORE, judged.evidence) if one.value is not None]
    return float(np.mean(known)) if known else None


def _large_and_small(judged: Judged, large: JudgedRelation, small: JudgedRelation) -> str:
    """Return how VCRNNs of 1,024 and of 256 units compare with RNNs."""
    if not large.pairs:
        return gap(small, f"{_trained(small)} VCRNN of 256 units", INTERPOLATED, BITS)
    first = (
        f"{gap(large, 'Here, VCRNN-1024', INTERPOLATED, BITS)}{_width_alone(judged)} VCRNN-1024's target of m, the updated share of the "
        f"state, is a guess."
    )
    annealed = small.smaller == ANNEALED_SCALE
    return f"{first} {gap(small, 'A VCRNN of 256 units' if annealed else f'{_trained(small)} VCRNN of 256 units', 'such RNNs', '')}"


def _when(small: JudgedRelation) -> str:
    """Return when the learning rates of these comparisons fall; nothing if those of the small networks do not."""
    if small.smaller != ANNEALED_SCALE:
        return ""
    return f"The learning rate falls in the last {FALLING[ANNEALED_SCALE]} epochs, unless a line says otherwise."


TEST_SCORE = Quantity("bits per character", lambda run: run.tested("bits_per_character"), "{:.3f}", best=True)


def _of_the_published_size(judged: Judged) -> str:
    """Return scores and operations of the networks of the published size on characters; nothing if there is no VCRNN among them."""
    size = judged.quantity("VCRNN-1024", "RNN-d", "Table 3, characters")
    own, *others = (scores_in(judged, network) for network in (CHAR_NETWORKS["VCRNN-1024"], *LARGE_RNNS))
    if not own:
        return ""
    said = [f"{network.name} has {scores}" for network, scores in zip(LARGE_RNNS, others, strict=True) if scores]
    return (
        f"With a target of 0.5, the upper end of the paper's range, and the gradient into its scheduler cut, VCRNN-1024 has {own} in "
        f"{BITS}, and as many operations as an RNN of {size.ours} units (in the paper 760). {in_series(said)}."
    )


def _against_fewer_operations(judged: Judged) -> str:
    """Return how VCRNN-1024 compares with a usual network of fewer operations, seed by seed; nothing if that was not run."""
    better, worse = CHAR_NETWORKS["VCRNN-1024"], LARGE_RNNS[0]
    found = judged.judge(Relation("", "", BPC, (Versus(better, worse, UNPRINTED),)))
    return gap(found, "VCRNN-1024", f"{worse.name}, which has fewer operations", BITS) if found.pairs else ""


def scores_in(judged: Judged, network: Network) -> str:
    """Return the test scores of a network on characters, such as '1.500 ± 0.002 (3 seeds)'; nothing if no run of it has ended."""
    known = [one for one in network.observe(TEST_SCORE, judged.evidence) if one.value is not None]
    return f"{summarize(known, TEST_SCORE.form)} ({seeds_in_words([len(known)])})" if known else ""


FALLING = {ANNEALED_SCALE: "8 of 20", ANNEALED_BITS_SCALE: "4 of 8"}
"""In which epochs the learning rate falls."""


def _trained(found: JudgedRelation) -> str:
    return f"If the learning rate falls in the last {FALLING[found.smaller]} epochs, a" if found.smaller in FALLING else "A"


def _devices(judged: Judged) -> str:
    """Return which networks on characters were trained on a GPU, which rounds float32 products to fewer bits; nothing if none was."""
    on_gpu = {
        network.name: [seed for seed, run in network.runs(judged.evidence, best=True).items() if "NVIDIA" in run.environment["device"]]
        for network in (CHAR_NETWORKS["VCRNN-1024"], *LARGE_RNNS)
    }
    said = [f"{name} (seed{'' if len(seeds) == 1 else 's'} {in_series([*map(str, seeds)])})" for name, seeds in on_gpu.items() if seeds]
    return f" Trained on a GPU, where products are rounded to TF32: {in_series(said)}; the others on CPUs." if said else ""


CHARACTERS = 51
"""different characters of the Penn Treebank, which readouts predict"""


def _with_readouts(judged: Judged, found: Mapping[str, JudgedRelation]) -> str:
    """Return the comparisons on characters if the operations of readouts are counted, too, by the names of the networks."""
    counted = {name: _at_scale(judged, relation, relation.smaller, outputs=CHARACTERS) for name, relation in found.items()}
    return in_series([f"{name} is {placed(one)} ({_seeds_of(one)}{says(one.verdict)})" for name, one in counted.items() if one.pairs])


def _seeds_of(one: JudgedRelation) -> str:
    return "" if len(one.pairs) == 1 else f"{len(one.pairs)} seeds, "


def _on_readouts(judged: Judged, characters: JudgedRelation, gated: JudgedRelation) -> str:
    """Return what changes for small networks if the operations of readouts are counted, too; nothing if none was run."""
    said = _with_readouts(judged, {"the VCRNN of 256 units": characters, "the VCGRU": gated})
    return f" Operations leave out the readout, as in the paper; with it, {said}." if said else ""


def _on_further_readouts(judged: Judged, large: JudgedRelation) -> str:
    """Return the same for the network of the published size, and for other targets of m; nothing if none was run."""
    others = {f"VCRNN-256 with target {target}": judged.relation(f"VCRNN-256, target {target} > an RNN") for target in CURVE_TARGETS}
    said = _with_readouts(judged, {"VCRNN-1024": large} | others)
    return f"With the operations of the readout, {said}." if said else ""


def _behind_with_hard_mask(judged: Judged, found: JudgedRelation) -> str:
    """Return the same comparison with the hard mask; nothing if it was not run. The paper does not say which mask its scores have."""
    hard = _at_scale(judged, found, found.smaller, hard=True)
    return f" With hard masks, which skipping updates requires, it is {placed(hard)} ({says(hard.verdict)})." if hard.pairs else ""


def _with_cut_gradients(judged: Judged) -> str:
    """Return that the gradient into the schedulers of the compared networks is cut; nothing if that of one is not."""
    runs = [
        run for network in (SMALL_VC, SMALL_VCGRU, CHAR_NETWORKS["VCRNN-1024"]) for run in network.runs(judged.evidence, best=True).values()
    ]
    cut = bool(runs) and all(recorded(run).get("model.schedule.gradient") == "cut" for run in runs)
    return "The compared networks with variable computation cut the gradient into the scheduler, which the paper does not." if cut else ""


def _otherwise(judged: Judged, found: JudgedRelation, usual: str, scale: str, what: str) -> str:
    """Return the comparison with another recipe, if the judged one is the usual one; nothing if it was not run.

    Args:
      judged: the paper.
      found: the judged comparison.
      usual, scale: scales of its versions with the usual recipe and with the other one.
      what: beginning of the sentence.
    """
    control = _at_scale(judged, found, scale)
    return gap(control, what, "such RNNs", BITS) if found.smaller == usual and control.pairs else ""


def _with_hard_masks(judged: Judged, bits: JudgedRelation, gated: JudgedRelation) -> str:
    """Return the comparisons on bits, and of gated units, with the hard mask; what was not run is left out."""
    found = (
        (bits, ANNEALED_BITS_SCALE, "the VCRNN on bits with the falling learning rate", "such RNNs"),
        (bits, SMALL_BITS_SCALE, "the VCRNN on bits at the constant one", "such RNNs"),
        (gated, gated.smaller, "the VCGRU on characters", "such GRUs"),
    )
    hard = [(_at_scale(judged, relation, scale, hard=True), what, other) for relation, scale, what, other in found]
    return " ".join(gap(own, f"With the hard mask, {what}", other, BITS) + _outside(judged, own) for own, what, other in hard if own.pairs)


def _outside(judged: Judged, hard: JudgedRelation) -> str:
    """Return how many seeds have no usual network of as few, or as many, operations to be compared with; nothing if all have one."""
    (curve,) = (one for one in hard.relation.versions if isinstance(one, OnCurve))
    runs = curve.better.runs(judged.evidence, best=True).values()
    known = sum(run.analysed("masks", "hard", "test", "multiplications") is not None for run in runs)
    missing = known - len(hard.pairs)
    return f" ({missing} of {known} seeds are left out: their operations lie outside the range of the trained ones.)" if missing else ""


def _by_parameters(judged: Judged, found: JudgedRelation) -> str:
    """Return how the best usual network compares that has no more parameters; nothing if none was run."""
    curve = next((one for one in found.relation.versions if isinstance(one, OnCurve) and one.scale == found.smaller), None)
    own = None if curve is None else _sized(judged, curve.better)
    if curve is None or own is None:
        return ""
    others = {
        network.name: of for network in curve.others if (of := _sized(judged, network)) is not None and of.parameters <= own.parameters
    }
    if not others:
        return ""
    name, best = min(others.items(), key=lambda item: item[1].score)
    return (
        f"Usual networks with no more parameters are {'better' if best.score < own.score else 'worse'}: {name.removesuffix(', annealed')} "
        f"has {best.parameters:,} parameters, {best.multiplications:,.0f} multiplications in a step and {best.score:.2f} {BITS}, "
        f"{curve.better.name.removesuffix(', annealed')} {own.parameters:,}, {own.multiplications:,.0f} and {own.score:.2f}."
    )


class Sized(NamedTuple):
    """Parameters of a network; its multiplications in a step and its test score are means over seeds."""

    parameters: int
    multiplications: float
    score: float


def _sized(judged: Judged, network: Network) -> Sized | None:
    """Return sizes and score of a network; None if no run of it has ended."""
    ended = [run.result for run in network.runs(judged.evidence, best=True).values() if run.result is not None]
    if not ended or any("parameters" not in result for result in ended):
        return None
    tested = [result["metrics"]["test"] for result in ended]
    means = [float(np.mean([metrics[name] for metrics in tested])) for name in ("multiplications", "bits_per_character")]
    return Sized(ended[0]["parameters"]["true"], *means)


def _at_scale(judged: Judged, found: JudgedRelation, scale: str, hard: bool = False, outputs: int = 0) -> JudgedRelation:
    """Judge a comparison at equal operations by its versions of one scale, with the soft or the hard mask, without or with the readout."""
    curves = [one for one in found.relation.versions if isinstance(one, OnCurve) and one.scale == scale]
    versions = [replace(one, hard=hard, outputs=outputs) for one in curves]
    return judged.judge(replace(found.relation, versions=tuple(versions)))


def _published(judged: Judged, one: str, other: str) -> str:
    """Return what the paper has for two networks on characters, such as '1.46 (VCRNN-1024) against 1.47 (RNN-760)'."""
    rows = ((name, judged.quantity(name, BITS, "Table 3, characters")) for name in (one, other))
    return " against ".join(f"{q.quantity.published} ({name})" for name, q in rows)


def _at_targets(judged: Judged) -> str:
    """Return a sentence on the targets of m at which a VCRNN is significantly behind on characters; nothing if there are none."""
    found = {target: judged.relation(f"VCRNN-256, target {target} > an RNN of as many") for target in CURVE_TARGETS}
    behind = [str(target) for target, relation in found.items() if relation.verdict.finding is Finding.AGAINST]
    run = [str(target) for target, relation in found.items() if relation.pairs]
    if not behind:
        return ""
    constant = all(ANNEALED_SCALE not in found[target].smaller for target in CURVE_TARGETS if str(target) in behind)
    rate = "At a constant learning rate and" if constant else "At"
    return (
        f"{rate} other targets of m ({in_series(run)}), a VCRNN is significantly behind at {in_series(behind)} (one test each at "
        f"5 %, no correction for several tests)."
    )


def _unfinished(judged: Judged, what: str, networks: Sequence[Network]) -> str:
    """Say in how many runs of networks longer training might change what was found; nothing if in none."""
    said = still_improving([run for network in networks for run in network.runs(judged.evidence, best=True).values()])
    return f"{what}. {said}" if said else ""
