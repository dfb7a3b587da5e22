"""Workloads of the benchmark: a network, shapes of its inputs, and a loss. Input values are random, because times do not depend on them."""

from dataclasses import dataclass, replace
from typing import Any, Literal

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from lrpt.losses import cross_entropy, squared_error
from lrpt.networks.configuration import EmbeddingConfig, TiedStorageConfig
from lrpt.networks.counting import count_parts
from lrpt.networks.sequence_model import ModelConfig
from lrpt.networks.variable_computation import VariableConfig
from lrpt.tasks.task import Example, Split, Task


@dataclass(frozen=True)
class Workload:
    """A training problem.

    Attributes:
      model: the network with structured matrices; contenders without such matrices run its dense twin.
      input_size: width of the inputs, or number of symbols.
      output_size: number of classes; 1 for a regression.
      steps: T.
      batch: B.
      reads: 'last' for one prediction after the last step, 'all' for one at each step.
      symbols: whether inputs are integers.
      ragged: whether examples have the lengths of sentences, so that more than half of the steps are padding. T is the longest one.
    """

    model: ModelConfig
    input_size: int
    output_size: int
    steps: int
    batch: int
    reads: Literal["last", "all"]
    symbols: bool = False
    ragged: bool = False

    @property
    def lengths(self) -> Int[np.ndarray, " b"]:
        """Return the number of steps of each example; if ragged, as in a batch of sentences of the Penn Treebank."""
        if not self.ragged:
            return np.full(self.batch, self.steps)
        drawn = np.random.default_rng(0).gamma((MEAN / DEVIATION) ** 2, DEVIATION**2 / MEAN, self.batch)
        return np.clip(np.round(drawn * self.steps / drawn.max()), 1, None).astype(int)


MEAN, DEVIATION = 119, 59
"""characters of a line of the training split of the Penn Treebank"""

LRD = ModelConfig(size=128, matrices=TiedStorageConfig("low_rank_plus_diagonal", 24))

CHAR = ModelConfig(cell="gru_reset_after", size=1000, matrices=TiedStorageConfig("low_rank_plus_diagonal", 64, tied=True))
WORD_RHN = ModelConfig(cell="rhn", depth=10, size=830, matrices=TiedStorageConfig("dense"), embeddings=EmbeddingConfig(830, tied=True))

WORKLOADS = {
    "permuted_mnist": Workload(LRD, 1, 10, 784, 20, "last"),
    "permuted_mnist_128": Workload(LRD, 1, 10, 784, 128, "last"),
    "copy": Workload(ModelConfig(size=128, matrices=TiedStorageConfig("low_rank_plus_diagonal", 50)), 10, 10, 520, 20, "all", symbols=True),
    "adding": Workload(LRD, 2, 1, 750, 20, "last"),
    "char": Workload(CHAR, 51, 51, 50, 64, "all", symbols=True),
    "sentences": Workload(CHAR, 51, 51, 280, 64, "all", symbols=True, ragged=True),
    "lstm": Workload(ModelConfig(cell="lstm", size=128, matrices=TiedStorageConfig("low_rank_plus_diagonal", 24)), 1, 10, 784, 20, "last"),
    "rhn": Workload(
        ModelConfig(cell="rhn", depth=5, size=128, matrices=TiedStorageConfig("low_rank_plus_diagonal", 24)), 1, 10, 784, 20, "last"
    ),
    "word_rhn": Workload(WORD_RHN, 10_000, 10_000, 35, 20, "all", symbols=True),
    "word_rhn_5": Workload(replace(WORD_RHN, depth=5), 10_000, 10_000, 35, 20, "all", symbols=True),
    "vcrnn": Workload(VariableConfig(cell="vcrnn", size=256, matrices=TiedStorageConfig("dense")), 51, 51, 50, 32, "all", symbols=True),
}

DENSE_GRUS = {
    f"gru_{size}": Workload(ModelConfig(size=size, matrices=TiedStorageConfig("dense")), 51, 51, 50, 32, "all", symbols=True)
    for size in (400, 600, 800, 1000, 1400)
}
"""Dense GRUs of several widths on characters, which show from which width on one device is faster than two. They run if they are named."""

PIXELS = {
    f"pixels_{size}_{batch}": Workload(
        ModelConfig(size=size, matrices=TiedStorageConfig("low_rank_plus_diagonal", 24)), 1, 10, 784, batch, "last"
    )
    for size in (128, 256, 512)
    for batch in (20, 128)
}
"""LRD-GRUs of several widths and batch sizes on 784 pixels, for GPUs. They run if they are named."""

UNTIED = replace(CHAR, matrices=TiedStorageConfig("low_rank_plus_diagonal", 64))
FURTHER = {
    "sentences_untied": replace(WORKLOADS["sentences"], model=UNTIED),
    "unitary": Workload(ModelConfig("unitary_without_fourier", 721), 10, 10, 121, 20, "all", symbols=True),
    "thin": Workload(ModelConfig(size=512, matrices=TiedStorageConfig("low_rank", 4)), 1, 10, 784, 20, "last"),
}
"""Sentences with a projection for each gate, the uRNN of the copying task, N = 100, and the LR-GRU 512/4 of permuted digits. They run if
they are named."""

ALL = WORKLOADS | DENSE_GRUS | PIXELS | FURTHER


def make_task(workload: Workload) -> Task:
    """Return a task with one batch of random examples."""
    rng = np.random.default_rng(0)
    shape = workload.batch, workload.steps
    inputs = rng.integers(0, workload.input_size, shape) if workload.symbols else rng.random((*shape, workload.input_size))
    predictions = shape if workload.reads == "all" else shape[:1]
    targets = rng.random(predictions) if workload.output_size == 1 else rng.integers(0, workload.output_size, predictions)
    arrays = tuple(a.astype(np.int32 if a.dtype.kind == "i" else np.float32) for a in (inputs, targets))
    if workload.ragged:
        arrays += (np.arange(workload.steps) < workload.lengths[:, None],)
    split = Split(workload.batch, arrays, lambda arrays, i: Example(*(array[i] for array in arrays)))
    return Task({"train": split}, workload.input_size, workload.output_size, workload.reads, _metrics)


def _metrics(predictions: Array, batch: Example) -> dict[str, Array]:
    if predictions.shape[-1] == 1:
        return {"loss": squared_error(predictions[..., 0], batch.targets)}
    losses = cross_entropy(predictions, batch.targets)
    if batch.mask is not None:
        return {"loss": jnp.sum(losses * batch.mask, axis=1) / jnp.sum(batch.mask)}
    return {"loss": losses.reshape((losses.shape[0], -1)).mean(1)}


def sizes(workload: Workload, model: ModelConfig) -> dict[str, Any]:
    """Count parameters, and floating-point operations of a training step.

    A matrix product has two operations per multiplication, and a training step costs three forward passes. Rows of matrices are looked up
    for symbols without embeddings, which costs nothing.
    """
    parts = count_parts(model, workload.input_size, workload.output_size)
    inputs = 0 if workload.symbols and model.embedding_width is None else parts["input"] + parts["further_input"]
    readout = parts["readout"] + parts["embedding"] * model.embeddings.tied
    rows = int(workload.lengths.sum())
    products = rows * (parts["recurrent"] + inputs) + (rows if workload.reads == "all" else workload.batch) * readout
    return {"parameters": sum(parts.values()), "flops": 6 * products}
