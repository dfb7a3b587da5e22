"""Metrics of a run so far, and decisions based on them: the metadata of every checkpoint."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from lrpt.metrics import GRADIENT_NORM
from lrpt.optim import OptimConfig
from lrpt.training.annealing import Annealing
from lrpt.training.selection import Selection


class Tally:
    """Means of the training metrics since the last evaluation; part of every checkpoint, so that a resumed run logs the same metrics."""

    def __init__(self, counts: Mapping[str, int] | None = None, sums: Mapping[str, float] | None = None) -> None:
        self.counts = dict(counts or {})
        self.sums = dict(sums or {})

    def add(self, metrics: Mapping[str, np.ndarray]) -> None:
        """Add the metrics of k updates. 'recoveries' is a running count already, so its last value is kept.

        Updates whose loss is not finite count for norms of gradients alone: `summarize` may divide one metric by another.
        """
        whole = np.isfinite(metrics.get("loss", 0.0))
        for name, values in metrics.items():
            if name == "recoveries":
                self.counts[name], self.sums[name] = 1, float(values[-1])
                continue
            finite = values[np.isfinite(values) & (whole | name.startswith(GRADIENT_NORM))]
            self.counts[name] = self.counts.get(name, 0) + finite.size
            self.sums[name] = self.sums.get(name, 0.0) + float(np.sum(finite, dtype=np.float64))

    def means(self) -> dict[str, float | None]:
        """Return the mean of each metric over the updates where it was finite, or None where it never was."""
        return {name: total / self.counts[name] if self.counts[name] else None for name, total in self.sums.items()}


@dataclass
class Progress:
    """State of a run apart from its parameters: metrics, annealing and time.

    Attributes:
      annealing: halvings of the learning rate.
      best: metrics of the best evaluation, and its 'update'.
      tally: training metrics since the last evaluation.
      seconds: time spent on training and evaluation.
    """

    annealing: Annealing
    best: dict[str, Any] = field(default_factory=lambda: {"update": 0, "loss": math.inf})
    tally: Tally = field(default_factory=Tally)
    seconds: float = 0.0

    @property
    def best_metrics(self) -> dict[str, Any]:
        """Return the metrics of the best evaluation."""
        return {name: value for name, value in self.best.items() if name != "update"}

    @property
    def is_evaluated(self) -> bool:
        """Return whether no update was made since the last evaluation."""
        return not self.tally.sums

    def evaluated(self, update: int, metrics: Mapping[str, float], selection: Selection) -> bool:
        """Record an evaluation. Return whether the learning rate has changed."""
        if selection.is_best(update, metrics, self.best):
            self.best = {"update": update, **metrics}
        self.tally = Tally()
        return selection.counts(update) and self.annealing.evaluated(selection.score(metrics))

    def to_metadata(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        return {"best": self.best, "seconds": self.seconds, "tally": vars(self.tally), "annealing": self.annealing.numbers}

    @classmethod
    def from_metadata(cls, config: OptimConfig, metadata: Mapping[str, Any]) -> Self:
        """Return the progress that `to_metadata` described."""
        return cls(Annealing(config, metadata["annealing"]), metadata["best"], Tally(**metadata["tally"]), metadata["seconds"])
