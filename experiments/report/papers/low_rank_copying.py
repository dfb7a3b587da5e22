"""Claims of Miceli Barone (DeepLo 2018), section 3.1: copying, by low-rank GRUs and unitary networks."""

import math
from dataclasses import replace
from typing import NamedTuple

from experiments import copy_memory
from experiments.report.claims.contests import EndsAbove, First, Last, Recoveries
from experiments.report.claims.criteria import Criterion, never
from experiments.report.claims.paper import Study
from experiments.report.claims.quantities import (
    all_overflow,
    almost_perfect,
    is_solved,
    last_loss,
    perfect,
    recoveries,
    solved,
    solved_at_all,
    solved_before,
)
from experiments.report.claims.relations import Relation, Versus
from experiments.report.claims.rows import Network, Quantity, Row
from experiments.report.kept.records import Record

COPY = copy_memory.EXPERIMENT
COUNTED = "--optim.recipe weight_norm_recovery"
"""The recipe of weight normalization with recovery, which the paper turns off: recoveries count gradients that are not finite."""
LRD, GRU, LR, NORMALIZED, URNN = "LRD-GRU 128/50", "GRU 128", "LR-GRU 128/50", "LRD-GRU 128/50, weight norm", "uRNN 721"


def _copy(name: str, flags: str) -> Network:
    return Network(name, COPY, flags)


LENGTH = "variable length, N = 100"
LAG = "variable lag, N = 100"
FIXED = "fixed lag, N = 500"

OF_LENGTH = {
    LRD: _copy(LRD, "--preset paper-variable-length"),
    NORMALIZED: _copy(NORMALIZED, "--preset weight-norm-variable-length"),
    URNN: _copy(URNN, "--preset unitary-variable-length"),
    LR: _copy(LR, "--preset paper-variable-length --model.parametrization low_rank"),
}
OF_LAG = {
    LRD: _copy(LRD, "--preset paper-variable-lag"),
    NORMALIZED: _copy(NORMALIZED, "--preset weight-norm-variable-lag"),
    URNN: _copy(URNN, "--preset unitary-variable-lag"),
    LR: _copy(LR, "--preset paper-variable-lag --model.parametrization low_rank"),
}
OF_FIXED = {
    GRU: _copy(GRU, "--preset paper --model.parametrization dense --optim.recipe copy_memory_dense"),
    LR: _copy(LR, "--preset paper --model.parametrization low_rank"),
    LRD: _copy(LRD, "--preset paper"),
    NORMALIZED: _copy(NORMALIZED, "--preset weight-norm"),
    URNN: _copy(URNN, "--preset unitary"),
}
PARTS = {
    "neither": OF_FIXED[LRD],
    "both": _copy(f"{NORMALIZED}, with recovery", f"--preset weight-norm {COUNTED}"),
    "weight normalization alone": _copy(
        f"{NORMALIZED} without the limit, with recovery", "--preset weight-norm --optim.recipe copy_memory"
    ),
    "the limit alone": _copy("LRD-GRU 128/50, limit on row norms", f"--preset weight-norm --model.no-weight-norm {COUNTED}"),
}
"""The network at the fixed lag with neither, both or one of weight normalization and the limit on row norms, all with recovery."""
STUDIED = tuple(network for part, network in PARTS.items() if part != "neither")
TO_THE_END = _copy(LRD, "--preset paper-variable-lag --train.updates 87000 --train.stop-below None")

COPYING = "Section 3.1, copying"
SHORT, LONG = 2_000, 35_000
"""Updates after which the held-out loss of the uRNN is read: where it is perfect in training, and those of the LRD-GRU.

The paper says that the uRNN overfits, and does not say when. So only the longer training can contradict it.
"""
GUESSED = "five settings of its recipe are guesses"
"""What separates a network with weight normalization from that of the paper, which leaves these settings open."""
OWN = "a study of the parts of the recipe, which the paper does not have"


def _held_out(update: int) -> Quantity:
    """Read the held-out cross-entropy after so many updates."""
    name = f"held-out cross-entropy after {update:,} updates"
    return Quantity(name, lambda run: run.up_to("loss", update) if run.updates >= update else None, "{:.4f}")


def _overfits(update: int) -> Quantity:
    """Read the held-out cross-entropy after so many updates, and expect that it does not solve the task."""
    fails = Criterion(lambda loss: loss is not None and not is_solved(loss), lambda loss: loss is not None and is_solved(loss))
    read = _held_out(update)
    return replace(read, name=f"{read.name}, 1e-3 or more", published="overfits", criterion=fails)


def _perfect_in_training() -> Quantity:
    """Expect perfect accuracy within the updates in which the paper has it on the training set.

    Held-out sequences are read here. If they are all right, so is the task. If some are wrong, training sequences may still be right.
    """
    quantity = perfect(SHORT, f"< {SHORT:,}, in training")

    def within(run: Record) -> float | None:
        update = quantity.read(run)
        return update if update is not None and update <= SHORT else None

    return replace(quantity, read=within, open_because="which decides nothing")


URNN_LONG = _copy(URNN, f"--preset unitary --train.updates {LONG}")


URNN_SMALL = _copy("uRNN 128", "--preset unitary --model.cell unitary --model.size 128")
"""The network of the uRNN work, 'about 6,500' parameters, which the paper calls faster than its GRUs."""
URNN_WIDE = "721 complex numbers instead of 128, without Fourier transforms"


def _fails(limit: str) -> Quantity:
    """Expect that the task is never solved. The paper names no limit, so that training which has not solved it yet decides nothing."""
    return replace(solved(f"does not converge{limit}", never()), open_because="and the paper names no limit")


def _converges(update: int) -> tuple[Quantity, Quantity]:
    """Return the two figures that the paper says are reached before an update: 'test cross-entropy < 1e-3 and almost perfect accuracy'."""
    return solved_before(update), almost_perfect(update)


_PUBLISHED = (
    Row(COPYING, LRD, (*_converges(30_000), recoveries()), OF_LENGTH[LRD], setting=LENGTH),
    Row(COPYING, NORMALIZED, (solved(),), OF_LENGTH[NORMALIZED], setting=LENGTH),
    Row(COPYING, URNN, (solved(),), OF_LENGTH[URNN], setting=LENGTH),
    Row(COPYING, LRD, (*_converges(38_000), recoveries()), OF_LAG[LRD], setting=LAG),
    Row(COPYING, LRD, (perfect(87_000, "87,000"), solved()), TO_THE_END, setting=f"{LAG}, to the end"),
    Row(COPYING, NORMALIZED, (solved(),), OF_LAG[NORMALIZED], setting=LAG),
    Row(COPYING, URNN, (_fails(" within an unnamed time limit"),), OF_LAG[URNN], setting=LAG),
    Row(COPYING, GRU, (solved_at_all(),), OF_FIXED[GRU], setting=FIXED),
    Row(COPYING, LR, (_fails(""),), OF_FIXED[LR], setting=FIXED),
    Row(COPYING, LRD, (*_converges(35_000), recoveries()), OF_FIXED[LRD], setting=FIXED),
    Row(COPYING, NORMALIZED, (solved(), all_overflow()), OF_FIXED[NORMALIZED], setting=FIXED),
    *(Row(COPYING, network.name, (solved(), recoveries()), network, scale=OWN, setting=FIXED) for network in STUDIED),
    Row(COPYING, URNN, (_perfect_in_training(), _held_out(SHORT)), OF_FIXED[URNN], setting=FIXED),
    Row(COPYING, URNN, (_overfits(LONG),), URNN_LONG, setting=f"{FIXED}, {LONG:,} updates"),
)

AHEAD = Last("test cross-entropy at the last common update", "loss", "{:.4f}")
FASTER = First("updates until test cross-entropy < 1e-3", "loss", is_solved)


class Arms(NamedTuple):
    """A network without weight normalization, with it and the limit on row norms, and with both and recovery."""

    plain: Network
    normalized: Network
    counted: Network


def _rate(rate: float, variant: str) -> Arms:
    flags = f"--train.updates 1500 --train.stop-below None --optim.learning-rate {rate}"
    return Arms(
        _copy(f"{LRD}, learning rate {rate}", f"--preset paper-{variant} {flags}"),
        _copy(f"{NORMALIZED}, learning rate {rate}", f"--preset weight-norm-{variant} {flags}"),
        _copy(f"{NORMALIZED}, with recovery, learning rate {rate}", f"--preset weight-norm-{variant} {flags} {COUNTED}"),
    )


RATES = (0.01, 0.03, 0.1)
VARIANTS = {"variable-length": LENGTH, "variable-lag": LAG}
AT_RATES = {(variant, rate): _rate(rate, variant) for variant in VARIANTS for rate in RATES}

_RATE_ROWS = tuple(
    Row(
        COPYING, name, quantities, network, scale="1,500 updates, a learning rate above the published 0.001", setting=f"{text}, rate {rate}"
    )
    for variant, text in VARIANTS.items()
    for rate in RATES
    for name, quantities, network in (
        (LRD, (last_loss(), recoveries()), AT_RATES[variant, rate].plain),
        (NORMALIZED, (last_loss(),), AT_RATES[variant, rate].normalized),
        (f"{NORMALIZED}, with recovery", (last_loss(), recoveries()), AT_RATES[variant, rate].counted),
    )
)

ROWS = (*_PUBLISHED, *_RATE_ROWS)

MEMORYLESS = {FIXED: 10 * math.log(8) / 520, LAG: 10 * math.log(8) / 120, LENGTH: 5.5 * math.log(8) / 120}
"""Cross-entropy of a predictor that knows when the symbols come, and not which: mean symbols to repeat times ln 8, over all steps."""

FASTER_IF_NORMALIZED, STABLER, ENDS_BELOW = (
    "weight normalization with a limit on row norms is faster",
    "weight normalization with a limit on row norms is more stable",
    "with weight normalization and a limit on row norms, fewer networks end above the predictor without memory",
)
"""The last two are readings of 'more stable': fewer gradients that are not finite, and fewer networks that end worse than one that learns
nothing."""


def _stability(text: str, rate: str, arms: Arms, scale: str) -> tuple[Relation, Relation]:
    """Return the claim that weight normalization with a limit on row norms is more stable, in both readings.

    Gradients that are not finite are counted with recovery, as the recipe without it does not count them.
    """
    above = EndsAbove("last test cross-entropy above that predictor's (1: yes, 0: no)", "loss", MEMORYLESS[text])
    return (
        Relation(
            COPYING, f"{STABLER} ({text}, {rate})", Recoveries(), (Versus(arms.counted, arms.plain, scale=f"{scale}; with recovery"),)
        ),
        Relation(COPYING, f"{ENDS_BELOW} ({text}, {rate})", above, (Versus(arms.normalized, arms.plain, scale=scale),)),
    )


RELATIONS = (
    Relation(COPYING, f"the uRNN learns faster than the LRD-GRU ({LENGTH})", FASTER, (Versus(OF_LENGTH[URNN], OF_LENGTH[LRD]),)),
    Relation(COPYING, f"the uRNN is ahead of the LRD-GRU at equal updates ({LENGTH})", AHEAD, (Versus(OF_LENGTH[URNN], OF_LENGTH[LRD]),)),
    *(
        Relation(COPYING, f"{FASTER_IF_NORMALIZED} ({text})", FASTER, (Versus(of[NORMALIZED], of[LRD], scale=GUESSED),))
        for text, of in ((LENGTH, OF_LENGTH), (LAG, OF_LAG), (FIXED, OF_FIXED))
    ),
    *(
        relation
        for (variant, rate), arms in AT_RATES.items()
        for relation in _stability(
            VARIANTS[variant],
            f"learning rate {rate}",
            arms,
            f"1,500 updates at {rate / 0.001:.0f} times the published learning rate; {GUESSED}",
        )
    ),
    *_stability(FIXED, "published learning rate", Arms(OF_FIXED[LRD], OF_FIXED[NORMALIZED], PARTS["both"]), GUESSED),
    *(
        Relation(
            COPYING,
            f"with weight normalization the LRD-GRU is on par with the uRNN{when} ({LENGTH})",
            contest,
            (Versus(OF_LENGTH[NORMALIZED], OF_LENGTH[URNN], scale=GUESSED),),
            strict=False,
        )
        for when, contest in (("", FASTER), (" at equal updates", AHEAD))
    ),
    *(
        Relation(
            COPYING,
            f"the uRNN of about 6,500 parameters converges faster than the {name} ({FIXED})",
            FASTER,
            (Versus(URNN_SMALL, OF_FIXED[other]), Versus(OF_FIXED[URNN], OF_FIXED[other], URNN_WIDE)),
        )
        for name, other in (("full GRU", GRU), ("LRD-GRU", LRD))
    ),
    *(
        Relation(COPYING, f"LRD >= LR ({text}{where})", FASTER, (Versus(of[LRD], of[LR]),), strict=False)
        for text, where, of in ((LENGTH, "; not in the paper", OF_LENGTH), (LAG, "; not in the paper", OF_LAG), (FIXED, "", OF_FIXED))
    ),
    Relation(
        COPYING,
        f"the LRD-GRU converges faster than the full GRU, clipped by component ({FIXED}; implied by 'fast convergence' and 'much more "
        f"slowly than the uRNN')",
        FASTER,
        (Versus(OF_FIXED[LRD], OF_FIXED[GRU]),),
    ),
    Relation(
        COPYING,
        "the LRD-GRU converges fast where the LSTM of Henaff et al. is slow (variable lag)",
        None,
        note="no number of updates is printed for that LSTM",
    ),
    Relation(
        COPYING,
        f"the LRD-GRU is comparable to the Associative LSTM or better ({LENGTH})",
        None,
        note="another architecture, of which the paper prints the number of parameters only",
    ),
)

STUDIES = (
    Study(
        "copy_variable_length",
        f"Copying, {LENGTH}",
        "loss",
        "test cross-entropy (nats)",
        "{:.4f}",
        tuple(OF_LENGTH.values()),
        (1_000, 2_000, 4_000, 6_000, 8_000, 10_000, 12_000, 16_000, 20_000, 24_000, 29_500),
        LRD,
        {
            1_000: 0.1101,
            2_000: 0.0856,
            4_000: 0.0536,
            6_000: 0.0320,
            8_000: 0.0205,
            10_000: 0.0144,
            12_000: 0.0090,
            16_000: 0.0050,
            20_000: 0.0024,
            24_000: 0.0019,
            29_500: 0.00061,
        },
        {"published criterion": 1e-3},
        ("memoryless", MEMORYLESS[LENGTH]),
    ),
    Study(
        "copy_variable_lag",
        f"Copying, {LAG}",
        "loss",
        "test cross-entropy (nats)",
        "{:.4f}",
        (*OF_LAG.values(), replace(TO_THE_END, name=f"{LRD}, to the end")),
        (1_000, 2_000, 4_000, 8_000, 12_000, 16_000, 20_000, 24_000, 28_000, 32_000, 36_000, 38_000, 60_000, 87_000),
        levels={"published criterion": 1e-3},
        baseline=("memoryless", MEMORYLESS[LAG]),
    ),
    *(
        Study(
            name,
            f"Copying, {FIXED}{of}",
            "loss",
            "test cross-entropy (nats)",
            "{:.4f}",
            networks,
            (1_000, 2_000, 4_000, 8_000, 12_000, 16_000, 20_000, 24_000, 28_000, 32_000, 35_000),
            levels={"published criterion": 1e-3},
            baseline=("memoryless", MEMORYLESS[FIXED]),
        )
        for name, of, networks in (
            ("copy_fixed_lag", "", tuple(network for name, network in OF_FIXED.items() if name != NORMALIZED)),
            ("copy_fixed_lag_weight_norm", ", with and without weight normalization", (OF_FIXED[LRD], OF_FIXED[NORMALIZED], *STUDIED)),
        )
    ),
    *(
        Study(
            f"stability_{variant.replace('-', '_')}",
            f"Copying at high learning rates, {text}",
            "loss",
            "test cross-entropy (nats)",
            "{:.3f}",
            tuple(network for rate in RATES for network in AT_RATES[variant, rate]),
            (500, 1_000, 1_500),
            baseline=("memoryless", MEMORYLESS[text]),
        )
        for variant, text in VARIANTS.items()
    ),
)
