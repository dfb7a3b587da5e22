"""What one run consists of: model, optimizer, length of training, task."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from lrpt.errors import UsageError, check_at_least, check_choice
from lrpt.networks.protocol import NetworkConfig
from lrpt.optim import OptimConfig
from lrpt.tasks.order import ORDERS
from lrpt.tasks.task import Task


class TaskConfig(Protocol):
    """A frozen dataclass that says which examples there are, and makes them."""

    def build(self, seed: int) -> Task: ...


@dataclass(frozen=True)
class TrainConfig:
    """How long, on which batches, and what is written down on the way."""

    updates: int = 10_000
    """updates of the parameters"""
    batch_size: int = 20
    """examples in each update"""
    order: str = "epochs"
    """epochs (each example once an epoch), reshuffle (every batch drawn afresh), cyclic (one order for ever) or stream (of a text)"""
    evaluate_every: int = 500
    """updates between evaluations, each followed by a checkpoint"""
    checkpoint_minutes: float = 10.0
    """a checkpoint is also written where so many minutes went by without one"""
    evaluation_batch: int = 500
    """examples evaluated at once"""
    stop_below: float | None = None
    """end training once the validation loss is below this"""
    patience: int | None = None
    """end training after so many evaluations in a row without a new lowest validation loss (None: never)"""
    updates_per_call: int | None = None
    """updates compiled into one call, after which interruptions are noticed (None: about a second's worth, at most 50)"""
    start: Path | None = None
    """npz file of named arrays to start from, instead of drawing parameters"""

    def __post_init__(self) -> None:
        check_choice("train.order", self.order, ORDERS)
        check_at_least(
            1,
            self,
            "train.updates",
            "train.batch_size",
            "train.evaluate_every",
            "train.evaluation_batch",
            "train.updates_per_call",
            "train.patience",
        )
        if not self.checkpoint_minutes > 0:
            raise UsageError(f"train.checkpoint_minutes is {self.checkpoint_minutes}: expected a number above 0")
        if self.stop_below is not None and not self.stop_below > 0:
            raise UsageError(f"train.stop_below is {self.stop_below}: expected a loss above 0")


D = TypeVar("D", bound=TaskConfig)


@dataclass(frozen=True)
class RunConfig(Generic[D]):
    """Everything that decides the numbers of a run, but for the seed."""

    model: NetworkConfig
    optim: OptimConfig
    train: TrainConfig
    data: D

    @property
    def program(self) -> "RunConfig[D]":
        """The part that decides what is compiled: without the step size, and without what decides the start of the parameters."""
        return replace(
            self, model=self.model.compiled, optim=replace(self.optim, learning_rate=None), train=replace(self.train, start=None)
        )
