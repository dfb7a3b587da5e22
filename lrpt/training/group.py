"""Models that take the same updates side by side: what is compiled, and what lies on the devices."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import optax

from lrpt.data.order import batch_indices, evaluation_batches
from lrpt.models import SequenceModel
from lrpt.training import parallel
from lrpt.training.config import TrainConfig
from lrpt.training.run import Run
from lrpt.training.step import evaluate, train_steps


class Group:
    """Runs of one configuration that stand at the same update.

    Args:
      runs: one for each model of `layout`; their states are placed on its devices.
      layout: which devices train what.
    """

    def __init__(self, runs: Sequence[Run], model: SequenceModel, optimizer: optax.GradientTransformation, layout: parallel.Layout) -> None:
        self.runs, self.model, self.layout = runs, model, layout
        self.config: TrainConfig = runs[0].config.train
        self.update = runs[0].update
        self.train_arrays = self._place_arrays("train")
        self.valid = Evaluator(self, "valid")
        self.state = parallel.place(layout, [run.state for run in runs])
        step = partial(train_steps, model, runs[0].task, optimizer, parallel.average(layout))
        self._train = parallel.compile_for(layout, step, donate=(0,))

    def _place_arrays(self, split: str) -> Any:
        return parallel.place(self.layout, [run.task.splits[split].arrays for run in self.runs])

    def next_boundary(self) -> int:
        """The end of the next call: a function of the update alone, so that a resumed run makes the same calls."""
        following = (self.update - self.update % n + n for n in (self.config.updates_per_call, self.config.evaluate_every))
        return min(*following, self.config.updates)

    def at_evaluation(self) -> bool:
        """Whether an evaluation is due now."""
        return self.update % self.config.evaluate_every == 0 or self.update >= self.config.updates

    def train(self) -> list[dict[str, np.ndarray]]:
        """Updates up to the next boundary. Returns each run's figures, one value for each update."""
        count = self.next_boundary() - self.update
        indices = parallel.deal(self.layout, [self._indices(run, count) for run in self.runs])
        self.state, figures = self._train(self.state, self.train_arrays, indices)
        self.update += count
        return parallel.fetch(self.layout, figures)

    def _indices(self, run: Run, count: int) -> np.ndarray:
        size = run.task.splits["train"].size
        return batch_indices(self.config.order, size, self.config.batch_size, run.seed, self.update, count)

    def collect(self) -> None:
        """Brings each run's state back to the host."""
        for run, state in zip(self.runs, parallel.fetch(self.layout, self.state), strict=True):
            run.state = state

    def test(self) -> list[dict[str, float]]:
        """Each run's figures on the test split, with the parameters that were best on the validation split."""
        if all(run.task.splits["test"] is run.task.splits["valid"] for run in self.runs):
            return [{k: v for k, v in run.best.items() if k != "update"} for run in self.runs]
        best = parallel.place(self.layout, [run.best_params() for run in self.runs])
        return Evaluator(self, "test")(best)


class Evaluator:
    """A group's figures on one split, for parameters that lie on its devices."""

    def __init__(self, group: Group, split: str) -> None:
        task = group.runs[0].task
        self.group, self.split = group, split
        self.arrays = group._place_arrays(split)
        layout = group.layout
        summed = partial(evaluate, group.model, task, task.splits[split])
        self._evaluate = parallel.compile_for(layout, lambda *args: parallel.total(layout)(summed(*args)))
        size = task.splits[split].size
        batch = -(-min(group.config.evaluation_batch, size) // layout.shards) * layout.shards
        self.chunks = [parallel.deal(layout, [rows] * layout.models) for rows in evaluation_batches(size, batch)]

    def __call__(self, params: Any) -> list[dict[str, float]]:
        """Mean figures of each run."""
        fetched = parallel.fetch(self.group.layout, self._evaluate(params, self.arrays, *self.chunks))
        return [{name: float(sums[name] / weight) for name in sorted(sums, key=lambda name: name != "loss")} for sums, weight in fetched]
