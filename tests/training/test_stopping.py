"""Reasons to stop at their limits and in their order, and losses with which training has failed."""

import numpy as np
import pytest

from lrpt.training.config import TrainConfig
from lrpt.training.selection import has_diverged, reason_to_stop

RULES = TrainConfig(updates=100, evaluate_every=10, stop_below=0.5, patience=3)


@pytest.mark.parametrize(
    ("update", "best_update", "loss", "annealed", "reason"),
    [
        (50, 50, 0.49, False, "criterion"),
        (50, 50, 0.5, False, None),  # not below
        (50, 20, 1.0, False, "patience"),
        (50, 30, 1.0, False, None),
        (50, 30, 1.0, True, "annealed"),
        (99, 90, 1.0, False, None),
        (100, 90, 1.0, False, "updates"),
        (100, 70, 0.4, True, "criterion"),
        (100, 70, 1.0, True, "patience"),
        (100, 90, 1.0, True, "annealed"),  # more updates do not continue it
    ],
)
def test_training_stops_for_the_first_reason(update, best_update, loss, annealed, reason):
    assert reason_to_stop(RULES, update, {"update": best_update, "loss": loss}, annealed=annealed) == reason


def test_losses_of_any_sign_that_are_too_large_or_not_finite_have_diverged():
    losses = np.array([0.0, 9e14, -9e14, 1e15, -1e15, np.inf, -np.inf, np.nan])
    assert has_diverged(losses).tolist() == [False] * 3 + [True] * 5
