"""End of training: the reasons why it stops, and losses with which it has failed."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from lrpt.training.config import TrainConfig

DIVERGED = 1e15
"""absolute value of a loss from which training has failed: float32 parameters of such a size do not come back"""

ENDED = {
    "criterion": "criterion met",
    "patience": "no lower validation loss for long",
    "annealed": "no halvings of the learning rate left",
    "updates": "all updates made",
}
"""Reasons why training stopped: names in `result.json`, and their texts."""


def has_diverged(loss: float | np.ndarray) -> np.bool_ | np.ndarray:
    """Return whether a loss, or each of several, is not finite or is at least `DIVERGED`."""
    return ~(np.abs(loss) < DIVERGED)


def reason_to_stop(train: TrainConfig, update: int, best: Mapping[str, Any], *, annealed: bool) -> str | None:
    """Return why training stops after an evaluation, a key of `ENDED`, or None if it goes on.

    Args:
      train: the rules.
      update: number of updates so far.
      best: 'update' and 'loss' of the best evaluation so far.
      annealed: whether no halvings of the learning rate are left.
    """
    if train.stop_below is not None and best["loss"] < train.stop_below:
        return "criterion"
    if train.patience is not None and update - best["update"] >= train.patience * train.evaluate_every:
        return "patience"
    if annealed:
        return "annealed"
    return "updates" if update >= train.updates else None
