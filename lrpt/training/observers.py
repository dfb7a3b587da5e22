"""Observers of training: they see each evaluation of a run, and change nothing."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, Protocol, runtime_checkable

import flax.linen as nn

from lrpt.tasks.task import Task
from lrpt.training.step import Variables


class Evaluation(NamedTuple):
    """One evaluation of a run.

    Attributes:
      path: the run directory.
      label: name of the run in the console.
      update: number of updates so far.
      metrics: metrics by split: 'train' and 'valid', and 'test' with `TrainConfig.test_each`.
      task: the task of the run.
      model: its network.
      variables: parameters and other collections, on the host. If a halving has just returned to the best parameters, these.
    """

    path: Path
    label: str
    update: int
    metrics: Mapping[str, Mapping[str, float | None]]
    task: Task
    model: nn.Module
    variables: Variables


class Observer(Protocol):
    """Something that is called on the primary process after each evaluation, when the metrics and the checkpoint are written."""

    def evaluated(self, evaluation: Evaluation) -> None:
        """See one evaluation of a run."""
        ...


@runtime_checkable
class Closing(Protocol):
    """An observer that holds something open for each run, such as files. `ended` is called when the run has finished or failed."""

    def ended(self, path: Path) -> None:
        """Close what is open for the run in this directory."""
        ...
