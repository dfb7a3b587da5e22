"""Published logs of training runs of 2016 (github.com/Avmb/lowrank-gru), and the networks, data and recipes that they belong to."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Float

from experiments.replay.copying import BATCH, january_data, reshuffled_batches, variable_length_data, variable_length_symbols
from lrpt.networks.sequence_model import ModelConfig
from lrpt.optim import OptimConfig, clip_by_norm_or_shrink, rmsprop_2016
from lrpt.optim.recipes import NO_EPS
from lrpt.tasks import CopyMemory, PermutedImages, Task, batch_indices
from lrpt.tasks.images import CLASSES, ORIGINAL
from lrpt.tasks.synthetic import ALPHABET
from lrpt.tasks.task import Example

FOLDER = Path(__file__).parent / "published"

WITHOUT_EPSILON = optax.chain(clip_by_norm_or_shrink(1.0, 0.1), rmsprop_2016(1e-3, NO_EPS))
"""The recipe `copy_memory` without epsilon: it fits the log of January 2016, whose script has an epsilon of 1e-8 when it is published."""


@dataclass(frozen=True)
class PublishedLog:
    """A training run whose log was published.

    Attributes:
      name: of the replay.
      file: name of the log.
      about: what was trained.
      config: the network.
      widths: of its input, or number of symbols, and of its predictions.
      optimizer: that of the run.
      open: returns the task, which judges predictions, and the batches, update by update, given the directory of MNIST.
    """

    name: str
    file: str
    about: str
    config: ModelConfig
    widths: tuple[int, int]
    optimizer: optax.GradientTransformation
    open: Callable[[Path | None], tuple[Task, Iterator[Example]]]

    @cached_property
    def losses(self) -> Float[np.ndarray, " updates"]:
        """Return the training losses of the first updates, as the log prints them, to eight digits."""
        return np.loadtxt(FOLDER / f"{self.name}.txt")


def _variable_length(mnist: Path | None) -> tuple[Task, Iterator[Example]]:
    return CopyMemory().build(seed=0), reshuffled_batches(variable_length_data(variable_length_symbols(), lag=100))


def _fixed_lag(mnist: Path | None) -> tuple[Task, Iterator[Example]]:
    return CopyMemory().build(seed=0), reshuffled_batches(january_data(lag=500))


def _permuted_mnist(mnist: Path | None) -> tuple[Task, Iterator[Example]]:
    task = PermutedImages("mnist", mnist, order=ORIGINAL).build(seed=0)
    return task, _in_file_order(task, BATCH)


def _in_file_order(task: Task, batch: int) -> Iterator[Example]:
    train = task.splits["train"]
    arrays, batch_of = jax.tree.map(jnp.asarray, train.arrays), jax.jit(train.batch)
    for update in count():
        yield batch_of(arrays, jnp.asarray(batch_indices("file", train.size, batch, 0, update, 1)[0]))


LOGS = {
    log.name: log
    for log in (
        PublishedLog(
            "variable_length",
            "RNN_Danihelka_memory_100-GRU_LRDiag_128_50_b4.out.gz",
            "copies of variable length with a lag of 100, LRD-GRU 128/50",
            ModelConfig(cell="gru", size=128, parametrization="low_rank_plus_diagonal", rank=50, carry_bias=4.0),
            (ALPHABET, ALPHABET),
            OptimConfig("copy_memory").build(),
            _variable_length,
        ),
        PublishedLog(
            "fixed_lag",
            "RNN_memory.out-GRU_LR-500.gz",
            "copies with a lag of 500, as of January 2016: a full GRU of 100 units, which the name of the log calls GRU_LR",
            ModelConfig(cell="gru", size=100, parametrization="dense", carry_bias=4.0),
            (ALPHABET, ALPHABET),
            WITHOUT_EPSILON,
            _fixed_lag,
        ),
        PublishedLog(
            "permuted_mnist",
            "RNN_mnist.out-GRU_LR_128_24_b4.gz",
            "permuted sequential MNIST, LR-GRU 128/24",
            ModelConfig(cell="gru", size=128, parametrization="low_rank", rank=24, carry_bias=5.0),
            (1, CLASSES),
            OptimConfig("permuted_mnist_original").build(),
            _permuted_mnist,
        ),
    )
}
