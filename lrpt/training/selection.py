"""Model selection and early stopping: which evaluation of a run is the best, when the run stops, and losses with which it has failed."""

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from lrpt.errors import UsageError
from lrpt.metrics import HIGHER_IS_BETTER, LOWER_IS_BETTER, is_lower_better
from lrpt.training.config import RunConfig, TrainConfig

LARGEST_LOSS = 1e15
"""absolute value of a loss from which training has failed: float32 parameters of such a size do not come back"""

ENDED = {
    "criterion": "criterion met",
    "patience": "no better evaluation for long",
    "annealed": "no halvings of the learning rate left",
    "updates": "all updates made",
}
"""Reasons why training stopped: names in `result.json`, and their texts."""


def has_diverged(loss: float | np.ndarray) -> np.bool_ | np.ndarray:
    """Return whether a loss, or each of several, is not finite or is at least `LARGEST_LOSS`."""
    return ~(np.abs(loss) < LARGEST_LOSS)


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


class Selection:
    """Rules by which the best evaluation is selected and training stops.

    Some settings of a network change in training, such as the sharpness of masks. An evaluation counts if the update before it was made
    with the final settings.

    Args:
      config: configuration of the run.
      epoch: number of updates in an epoch.
    """

    def __init__(self, config: RunConfig[Any], epoch: int) -> None:
        self.model, self.train, self.epoch = config.model, config.train, epoch

    def counts(self, update: int) -> bool:
        """Return whether an evaluation after `update` updates counts."""
        return self.model.settled(max(update - 1, 0), self.epoch)

    def settings(self, update: int) -> dict[str, float]:
        """Return the settings of the network in update number `update`."""
        return {name: float(value) for name, value in self.model.settings(jnp.int32(update - 1), self.epoch).items()}

    def score(self, metrics: Mapping[str, Any]) -> float:
        """Return the metric that selects, or its negative if higher values are better: the lowest score is the best.

        It is infinite if the metric is missing or not finite, as before the first evaluation.
        """
        value = metrics.get(self.train.select, math.nan)
        sign = 1 if is_lower_better(self.train.select) else -1
        return sign * value if math.isfinite(value) else math.inf

    def is_best(self, update: int, metrics: Mapping[str, Any], best: Mapping[str, Any]) -> bool:
        """Return whether an evaluation takes the place of the best one so far.

        The best evaluation is the one with the lowest score among those that count. As long as none counts, it is the latest one.
        """
        is_lower = np.float32(self.score(metrics)) < np.float32(self.score(best))  # in the precision of `Annealing`
        return bool(is_lower) or best["update"] == 0 or not self.counts(best["update"])  # after one that counts, all count

    def check(self, names: Collection[str]) -> None:
        """Raise a UsageError unless the metric that selects is one of these."""
        if self.train.select not in names:
            known = sorted(set(names) & (LOWER_IS_BETTER | HIGHER_IS_BETTER), key=lambda name: (name != "loss", name))
            raise UsageError(f"train.select is '{self.train.select}': choose from the metrics of this task, {', '.join(known)}")

    def reason_to_stop(self, update: int, best: Mapping[str, Any], *, annealed: bool) -> str | None:
        """Return why training stops after an evaluation, or None, as the function of that name. Only one that counts can end it."""
        best = best if self.counts(update) else {**best, "loss": math.inf}
        return reason_to_stop(self.train, update, best, annealed=annealed)

    def extremes(self, evaluations: Sequence[Mapping[str, Any]], best: Mapping[str, Any]) -> dict[str, float]:
        """Return the best value of each metric in any evaluation that counts, by names such as 'highest_accuracy'.

        Metrics whose direction `lrpt.metrics` does not have are left out, and the loss if it selects.

        Args:
          evaluations: 'update' and metrics of each evaluation.
          best: 'update' and metrics of the best one. It stands for all if none counts.
        """
        counted = [line for line in evaluations if self.counts(line["update"])] or [best]
        names = [name for name in best if name in LOWER_IS_BETTER | HIGHER_IS_BETTER and not name == self.train.select == "loss"]
        found = {name: ("lowest", min) if is_lower_better(name) else ("highest", max) for name in names}
        return {f"{word}_{name}": extreme(_known(counted, name)) for name, (word, extreme) in found.items()}


def _known(lines: Sequence[Mapping[str, Any]], name: str) -> list[float]:
    """Return a metric of all evaluations where it was known and finite."""
    return [value for line in lines if math.isfinite(value := line.get(name, math.nan))] or [math.nan]
