"""The three tasks of the comparison: what is trained, for how long, and which metric is compared."""

from dataclasses import dataclass, replace
from typing import Any

from lrpt.networks.configuration import InitialConfig
from lrpt.networks.sequence_model import ModelConfig
from lrpt.optim import OptimConfig
from lrpt.tasks import CopyMemory, NextSymbol, PermutedImages
from lrpt.training.config import RunConfig, TrainConfig


@dataclass(frozen=True)
class Problem:
    """A task of the comparison.

    Attributes:
      data: configuration of the task.
      train: how networks are trained, but for the number of updates and evaluations.
      score: metric of the test split.
      carry_bias: initial bias of the gates that pass the state on.
    """

    data: Any
    train: TrainConfig
    score: str
    carry_bias: float = 0.0

    def config(self, model: ModelConfig, learning_rate: float, updates: int, evaluations: int) -> RunConfig[Any]:
        """Return the configuration of a run."""
        every = max(1, updates // evaluations)
        train = replace(self.train, updates=updates, evaluate_every=every)
        return RunConfig(model, OptimConfig("adam", learning_rate), train, self.data)

    @property
    def initial(self) -> InitialConfig:
        """Return the initialization of all networks of the task."""
        return InitialConfig(carry_bias=self.carry_bias, trainable_state=False)


SCORES = {"copy": "loss", "digits": "accuracy", "characters": "bits_per_character"}
"""Tasks -> metric of the test split that is compared."""


def problems(text: NextSymbol, lag: int) -> dict[str, Problem]:
    """Return the tasks by name: copies of variable length after a lag, permuted digits, and characters of a text."""
    copies = CopyMemory("variable_length", lag=lag, test_size=2_000, valid_size=2_000)
    return {
        "copy": Problem(copies, TrainConfig(batch_size=20, order="reshuffle", evaluation_batch=500), SCORES["copy"], carry_bias=4.0),
        "digits": Problem(
            PermutedImages("digits"), TrainConfig(batch_size=20, order="epochs", evaluation_batch=300), SCORES["digits"], carry_bias=1.0
        ),
        "characters": Problem(text, TrainConfig(batch_size=32, order="stream", evaluation_batch=16), SCORES["characters"]),
    }
