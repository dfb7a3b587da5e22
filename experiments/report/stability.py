"""The stability recipe against the plain one, as data: both copy tasks at learning rates of ten and more times the published 0.001.

Miceli Barone 2018, section 3.1: weight normalization and a bound on the norm of rows make training stable without recovery from NaN.
"""

from collections.abc import Sequence

from experiments import copy_memory
from experiments.report.published import Claim, Quantity, Study

RATES = (0.01, 0.03, 0.1)
UPDATES = 1_500
PUBLISHED = "recovery from NaN is in the plain recipe, and can be left out with weight normalization; no figure"

LAST = Quantity("last test cross-entropy", lambda run: run.up_to("loss", run.updates), "{:.3f}")
RECOVERIES = Quantity(
    "recoveries from NaN", lambda run: max((line["recoveries"] for line in run.metrics if "recoveries" in line), default=None), "{:.0f}"
)


def _study(variant: str, title: str) -> Study:
    def claims(preset: str, quantities: tuple[Quantity, ...]) -> tuple[Claim, ...]:
        flags = f"--preset {preset} --train.updates {UPDATES} --train.stop-below None --optim.learning-rate"
        return tuple(Claim("section 3.1", f"{flags} {rate}", PUBLISHED, quantities, f"learning rate {rate}") for rate in RATES)

    return Study(
        name=f"stability_{variant.replace('-', '_')}",
        title=title,
        experiment=copy_memory.EXPERIMENT,
        score="loss",
        score_name="test cross-entropy (nats)",
        form="{:.3f}",
        claims=claims(f"paper-{variant}", (RECOVERIES, LAST)) + claims(f"weight-norm-{variant}", (LAST,)),
        updates=tuple(range(500, UPDATES + 1, 500)),
        remark="The recipe with weight normalization has no recovery: a value that is not finite would have ended the run.",
    )


STUDIES: Sequence[Study] = (
    _study("variable-length", "Stability, copy of variable length, N = 100"),
    _study("variable-lag", "Stability, copy of variable lag, N = 100"),
)
