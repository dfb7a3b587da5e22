"""Configuration of one run: model, optimizer, length of training, task.

Constructors raise a UsageError if a setting has a value that is not allowed, or if settings contradict each other.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Generic, Protocol, TypeVar

from lrpt.errors import LARGEST_COUNT, UsageError, check_at_least, check_at_most, check_positive, in_words
from lrpt.metrics import is_lower_better
from lrpt.networks.protocol import NetworkConfig, integer_of
from lrpt.optim import OptimConfig
from lrpt.parametrizations import ADAPTERS
from lrpt.runs.user_code import is_own
from lrpt.settings import OneOf, check_choices
from lrpt.tasks.order import ORDERS
from lrpt.tasks.sources import take_paths
from lrpt.tasks.task import Task
from lrpt.training.origin import with_digest

EVALUATED_AT_ONCE = 500
"""Examples that are evaluated at once, unless the configuration says otherwise."""


class TaskConfig(Protocol):
    """A frozen dataclass that describes the examples of a task, and builds the task."""

    def build(self, seed: int) -> Task:
        """Build the task. The seed decides its random numbers."""
        ...


@dataclass(frozen=True)
class TrainConfig:
    """Length of training, batches, evaluations and checkpoints."""

    updates: int = 10_000
    """updates of the parameters"""
    batch_size: int = 20
    """examples in each update"""
    order: Annotated[
        str,
        OneOf(
            "order of examples",
            ORDERS,
            notes="epochs shuffles once an epoch, reshuffle draws every batch independently, cyclic repeats one shuffled order,"
            " file repeats the order of the file, stream reads a text, lengths puts sequences of a file that have similar lengths into a"
            " batch",
        ),
    ] = "epochs"
    fresh_every: int | None = None
    """updates after which each stream starts from the initial state again, in turn; for order stream (None: once an epoch)"""
    evaluate_every: int = 500
    """updates between evaluations, each followed by a checkpoint"""
    checkpoint_minutes: float = 10.0
    """longest time between two checkpoints, in minutes"""
    evaluation_batch: int | None = None
    """examples evaluated at once (None: 500); in order stream: number of streams that a split is cut into (None: those of a batch)"""
    select: str = "loss"
    """validation metric that decides which evaluation is the best, also for patience and halvings of the learning rate"""
    stop_below: float | None = None
    """end training once the validation loss is below this"""
    patience: int | None = None
    """end training after this many evaluations in a row without a new best one (None: never)"""
    updates_per_call: int | None = None
    """updates compiled into one call, after which interruptions are noticed (None: about a second of training, at most 50)"""
    test_each: bool = False
    """record the metrics of the test split at each evaluation too, for learning curves; they decide nothing"""
    start: Path | None = None
    """npz file of named arrays to start from, instead of drawing parameters"""

    def __post_init__(self) -> None:
        check_choices(self, "train")
        take_paths(self, "train.start")
        check_at_least(
            1,
            self,
            "train.updates",
            "train.batch_size",
            "train.fresh_every",
            "train.evaluate_every",
            "train.evaluation_batch",
            "train.updates_per_call",
            "train.patience",
        )
        check_at_most(LARGEST_COUNT, self, "train.updates", "train.fresh_every", "train.evaluate_every")  # others stay on the host
        self._check_select()
        check_positive(self, "train.checkpoint_minutes", *(["train.stop_below"] if self.stop_below is not None else []))

    def _check_select(self) -> None:
        try:
            is_lower_better(self.select)
        except UsageError as error:
            raise UsageError(f"train.select is {self.select!r}: {error}") from None
        if self.select != "loss" and self.stop_below is not None:
            raise UsageError(f"train.select is '{self.select}', and train.stop_below is a loss: leave one of both out")

    @property
    def evaluation_rows(self) -> int:
        """Return the number of examples that are evaluated at once, or of streams into which a split is cut."""
        usual = self.batch_size if self.order == "stream" else EVALUATED_AT_ONCE
        return usual if self.evaluation_batch is None else self.evaluation_batch

    @property
    def unused(self) -> dict[str, str]:
        """Return the settings that have no effect, and why."""
        return {} if self.order == "stream" else {"fresh_every": f"train.order is {self.order}"}


D = TypeVar("D", bound=TaskConfig)


@dataclass(frozen=True)
class RunConfig(Generic[D]):
    """Everything that decides the numbers of a run, except the seed."""

    model: NetworkConfig
    optim: OptimConfig
    train: TrainConfig
    data: D

    def __post_init__(self) -> None:
        for name, kind, example in (("optim", OptimConfig, "OptimConfig('adam')"), ("train", TrainConfig, "TrainConfig(updates=1000)")):
            value = getattr(self, name)
            if not isinstance(value, kind):
                given = value.__name__ if isinstance(value, type) else in_words(value)
                raise UsageError(f"{name} is {given}: give an object of {kind.__name__}, such as {example}")

    def build_task(self, seed: int) -> Task:
        """Return the task of a seed, with the network's own metrics added.

        A task of the user's that does not say how its data are identified gets a digest of them.

        Raises:
          UsageError: `build` does not return a `Task`, or its splits are not those that training needs.
        """
        task = self.data.build(seed)
        if not isinstance(task, Task):
            raise UsageError(f"build of {type(self.data).__name__} returns {in_words(task)}: return an lrpt.tasks.Task")
        task.check_splits()
        if not is_own(type(self.data).__module__):
            for name, split in task.splits.items():
                split.check_size(name)
            task = with_digest(task)
        return replace(task, summarize=lambda means: self.model.summarize(task.summarize(means)))

    @property
    def compilation_key(self) -> "RunConfig[D]":
        """Return a key that runs of one compiled program share: the configuration without learning rate and initialization."""
        optim, train = replace(self.optim, learning_rate=None), replace(self.train, start=None)
        return replace(self, model=self.model.without_initialization, optim=optim, train=train)

    @property
    def dense_width(self) -> int:
        """Return the number of columns of the network's recurrent matrices if they are dense, and 0 if they are structured."""
        return dense_width(self.model)


def dense_width(model: NetworkConfig) -> int:
    """Return the number of columns of a network's recurrent matrices if they are dense, and 0 if they are structured.

    Frozen dense matrices with adapters are dense, too. See `NetworkConfig` for networks without the fields `size` and `matrices`.
    """
    kind = getattr(getattr(model, "matrices", None), "kind", "dense")
    return integer_of(model, "size", 0) if kind in {"dense", *ADAPTERS} else 0
