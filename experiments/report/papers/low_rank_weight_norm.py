"""Takeaway about weight normalization with a limit on row norms (Miceli Barone, DeepLo 2018, sections 3.1 and 3.5.1)."""

from collections.abc import Callable, Sequence

from experiments.report.claims.contests import recovered
from experiments.report.claims.judged import Judged, JudgedRelation
from experiments.report.claims.pairs import agreement
from experiments.report.claims.paper import Takeaway
from experiments.report.claims.quantities import is_solved, overflows_from
from experiments.report.claims.rows import Network
from experiments.report.kept.records import Record
from experiments.report.papers.low_rank_copying import (
    AT_RATES,
    FASTER_IF_NORMALIZED,
    FIXED,
    GUESSED,
    LRD,
    MEMORYLESS,
    NORMALIZED,
    OF_FIXED,
    PARTS,
    RATES,
    VARIANTS,
    Arms,
)
from experiments.report.wording.texts import SAID, counted, placed, standing
from lrpt.runs.console import in_series

TASKS = "variable length", "variable lag", "fixed lag"
"""The three tasks of copying, as the settings of rows begin."""
FIXED_LAG = TASKS[2]

Outcomes = tuple[Sequence[bool], ...]
"""for each run with weight normalization, and for each run without it, whether something happened"""


def on_weight_norm(judged: Judged) -> Takeaway:
    """Return what weight normalization changes."""
    faster = {name: judged.relation(f"{FASTER_IF_NORMALIZED} ({name}") for name in TASKS}
    return Takeaway(
        f"**Weight normalization** with a limit on row norms makes training faster and more stable in the paper. Here, {GUESSED}. Faster "
        f"training on {len(faster)} tasks: {counted(list(faster.values()), SAID)}{_seeds(list(faster.values()))}.{_endings(judged)}",
        (
            *(f"Faster on {name}: in {r.unit}, it is {placed(r)}; {r.verdict}" for name, r in faster.items()),
            _on_par(judged),
            _without_recovery(judged),
            _with_recovery(judged),
            _parts(judged),
            _stuck(judged),
            "The guessed settings are listed under weight normalization in "
            "[where paper and code differ](../differences.md#unitary-networks-universality-weight-normalization).",
        ),
    )


def _endings(judged: Judged) -> str:
    """Return how many networks end above the memoryless predictor at each learning rate, with weight normalization and without."""
    long = _with_and_without({"at the published learning rate (fixed lag)": _published_endings(judged)})
    short = _with_and_without(_by_rate(judged, lambda arms: arms.normalized, _above))
    listed = "; ".join(filter(None, (long, f"{short} this rate (other tasks, 1,500 updates)" if short else "")))
    return f" Networks that end worse than a predictor without memory, with and without weight normalization: {listed}." if listed else ""


def _published_endings(judged: Judged) -> Outcomes:
    """Return for each network at the published learning rate on a fixed lag whether it ends above the memoryless predictor."""
    return tuple(_above(_runs(judged, OF_FIXED[name]), FIXED) for name in (NORMALIZED, LRD))


def _without_recovery(judged: Judged) -> str:
    """Return how many networks end above the memoryless predictor at each learning rate, with and without weight normalization."""
    long = _with_and_without({f"on {FIXED_LAG}{_if_recovering(judged)}": _published_endings(judged)})
    short = _with_and_without(_by_rate(judged, lambda arms: arms.normalized, _above))
    said = [long, f"on the two tasks of N = 100, after 1,500 updates, {short} the published learning rate" if short else ""]
    listed = "; ".join(filter(None, said))
    return f"Networks that end worse than a predictor without memory, with weight normalization and without: {listed}" if listed else ""


def _if_recovering(judged: Judged) -> str:
    """Return how many normalized networks with recovery end above the memoryless predictor, if none of them needed recovery."""
    runs = _recovering_for_nothing(judged)
    return f"; {sum(_above(runs, FIXED))} of {len(runs)} with recovery, which none needed" if runs else ""


def _seeds(relations: Sequence[JudgedRelation]) -> str:
    """Return how many seeds are faster, over all tasks; nothing if no task was run."""
    pairs = [pair for r in relations for pair in r.pairs]
    return f" (faster for {agreement(pairs, ' seeds')})" if pairs else ""


def _on_par(judged: Judged) -> str:
    """Return whether it is on par with the uRNN, as in the paper; nothing if that was not run."""
    found = judged.relation("with weight normalization the LRD-GRU is on par with the uRNN at equal updates")
    return f"On par with the uRNN on variable length, at equal updates: {standing(found)}" if found.pairs else ""


def _with_recovery(judged: Judged) -> str:
    """Return how many networks needed recovery at each learning rate, and how many end badly, if all of them recover."""
    needed = _by_rate(judged, lambda arms: arms.counted, lambda runs, _: _needed(runs))
    said, ends = (_with_and_without(found) for found in (needed, _by_rate(judged, lambda arms: arms.counted, _above)))
    if not said:
        return ""
    return (
        "The paper turns recovery from gradients that are not finite off for weight normalization. With recovery in both networks, those "
        f"that needed it, with weight normalization and without: {said} the published learning rate. Those that end worse than a predictor "
        f"without memory: {ends}"
    )


def _parts(judged: Judged) -> str:
    """Return how networks fare with neither, both or one of weight normalization and the limit on row norms."""
    said = []
    for part, network in PARTS.items():
        if runs := _runs(judged, network):
            solved = sum(run.first("loss", is_solved) is not None for run in runs)
            said.append(f"with {part}, {sum(_needed(runs))} of {len(runs)} networks needed recovery, and {solved} solved the task")
    return f"Parts of the recipe on {FIXED_LAG}, all with recovery: {'; '.join(said)}" if said else ""


def _stuck(judged: Judged) -> str:
    """Return how many networks without recovery stopped learning because the norms of all gradients overflow."""
    runs = _runs(judged, OF_FIXED[NORMALIZED])
    updates = [f"{update:,}" for run in runs if (update := overflows_from(run)) is not None]
    if not updates:
        return ""
    return (
        f"Without recovery, as in the paper, the gradient's norm overflows in {len(updates)} of {len(runs)} networks on {FIXED_LAG}: its "
        f"mean since the evaluation before is not finite from update {in_series(updates)} on. Clipping by norm scales such gradients to "
        f"zero, so these networks stopped learning.{_by_rounding(judged)}"
    )


def _by_rounding(judged: Judged) -> str:
    """Return that rounding decides which networks stop learning, if no normalized network with recovery needed it."""
    if not (runs := _recovering_for_nothing(judged)):
        return ""
    return (
        f" Recovery changes no update before a norm overflows, and none of the {len(runs)} networks with recovery needed it. So runs of "
        "one seed with and without recovery differ by rounding alone until then, and rounding decides which networks stop learning."
    )


def _recovering_for_nothing(judged: Judged) -> Sequence[Record]:
    """Return the runs of normalized networks with recovery on a fixed lag if none of them needed it, and otherwise none."""
    runs = _runs(judged, PARTS["both"])
    return [] if any(_needed(runs)) else runs


def _needed(runs: Sequence[Record]) -> Sequence[bool]:
    """Return for each run whether it recovered from a gradient that is not finite."""
    return [recovered(run, run.updates) > 0 for run in runs]


def _runs(judged: Judged, network: Network) -> Sequence[Record]:
    return list(network.runs(judged.evidence).values())


def _above(runs: Sequence[Record], text: str) -> Sequence[bool]:
    """Return for each run of a task whether it ends above the memoryless predictor."""
    losses = [run.last("loss") for run in runs]
    return [loss is not None and loss > MEMORYLESS[text] for loss in losses]


def _by_rate(
    judged: Judged, normalized: Callable[[Arms], Network], happened: Callable[[Sequence[Record], str], Sequence[bool]]
) -> dict[str, Outcomes]:
    """Return outcomes at each learning rate over both tasks with a lag of 100."""
    found = {}
    for rate in RATES:
        arms = {text: AT_RATES[variant, rate] for variant, text in VARIANTS.items()}
        pairs = [(text, (normalized(arm), arm.plain)) for text, arm in arms.items()]
        found[f"at {rate / 0.001:.0f} times"] = tuple(
            [one for text, networks in pairs for one in happened(_runs(judged, networks[side]), text)] for side in (0, 1)
        )
    return found


def _with_and_without(outcomes: dict[str, Outcomes]) -> str:
    """Return counts such as '1 and 6 of 6 at 30 times', for learning rates at which both networks were run."""
    run = [(when, *both) for when, both in outcomes.items() if all(both)]
    number = {when: f" of {len(with_it)}" if len(with_it) != len(without) else "" for when, with_it, without in run}
    return ", ".join(f"{sum(with_it)}{number[when]} and {sum(without)} of {len(without)} {when}" for when, with_it, without in run)
