"""The copy and adding tasks: examples generated on demand from a random key and an index."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from lrpt.errors import check_at_least, check_choice
from lrpt.losses import cross_entropy, squared_error
from lrpt.metrics import accuracy
from lrpt.tasks.task import Example, Split, Task

DATA_SYMBOLS, BLANK, RUN, ALPHABET = 8, 8, 9, 10
MAX_DATA = 10

# Separates these random numbers from those of parameters and batches, which may have the same seed.
_STREAM = 0x5E90E4CE

VARIANTS = ("fixed", "variable_length", "variable_lag")
MARKERS = ("halves", "anywhere")

Generate = Callable[[Any, Int[Array, ""]], Example]


def key_of(seed: int) -> dict[str, np.ndarray]:
    """Return the random key of a seed, as the arrays of a split."""
    return {"key": np.random.SeedSequence((_STREAM, seed)).generate_state(2)}


def uniform_numbers(arrays: PyTree, index: Int[Array, ""], count: int) -> Float[Array, " count"]:
    """Draw the random numbers on [0, 1) of the example at `index`."""
    # The generator is named, so that examples do not depend on JAX's configured default.
    key = jax.random.wrap_key_data(jnp.asarray(arrays["key"]), impl="threefry2x32")
    return jax.random.uniform(jax.random.fold_in(key, index), (count,), jnp.float32)


def below(uniform: Float[Array, "*s"], count: int) -> Int[Array, "*s"]:
    """Map uniform numbers on [0, 1) to integers 0, ..., count - 1 of equal probability, up to a resolution of 2^-23."""
    return jnp.floor(uniform * count).astype(jnp.int32)


@dataclass(frozen=True)
class CopyMemory:
    """The copy task: repeat the symbols seen at the start after a lag.

    It is described in Miceli Barone 2018, section 3.1, and follows `make_*_memory_data.py` of lowrank-gru. The alphabet is 0..7 data, 8
    blank, 9 run. A sequence has s data symbols. Each must be written s + k steps after it was read:

        input:  data at steps 0..s-1, run at step s+k-1, blank elsewhere
        target: data at steps s+k..2s+k-1, blank elsewhere

    | variant | s | k |
    |---|---|---|
    | fixed (Hochreiter and Schmidhuber 1997; Arjovsky et al. 2016) | 10 | N |
    | variable_length (Danihelka et al. 2016) | uniform on 1..10 | N |
    | variable_lag (Henaff et al. 2016) | 10 | uniform on 1..N |

    N is `lag`; sequences have N + 20 steps. The loss is the cross-entropy in nats, averaged over all steps.
    """

    variant: str = "fixed"
    """fixed, variable_length (1 to 10 symbols) or variable_lag (1 to N steps)"""
    lag: int = 500
    """N: steps between reading and writing; 100 in the paper's variable_length and variable_lag"""
    train_size: int = 100_000
    """training sequences"""
    test_size: int = 10_000
    """test sequences"""
    valid_size: int | None = None
    """validation sequences, which follow the test sequences (None: the test sequences are the validation split too, as in the paper)"""

    def __post_init__(self) -> None:
        check_choice("data.variant", self.variant, VARIANTS)
        check_at_least(1, self, "data.lag", "data.train_size", "data.test_size", "data.valid_size")

    @property
    def length(self) -> int:
        """Return the number of steps of a sequence."""
        return self.lag + 2 * MAX_DATA

    def build(self, seed: int) -> Task:
        """Build splits of generated sequences, whose random numbers the seed decides."""
        return Task(_splits(self, key_of(seed), self.example, self.example), ALPHABET, ALPHABET, "all", copy_metrics)

    def example(self, arrays: PyTree, index: Int[Array, ""]) -> Example:
        """Generate the sequence at `index` of the stream. Inputs and targets are (N + 20,) integers."""
        uniform = uniform_numbers(arrays, index, MAX_DATA + 1)
        data = below(uniform[1:], DATA_SYMBOLS)
        size = 1 + below(uniform[0], MAX_DATA) if self.variant == "variable_length" else MAX_DATA
        lag = 1 + below(uniform[0], self.lag) if self.variant == "variable_lag" else self.lag
        t = jnp.arange(self.length)
        inputs = jnp.where(t == size + lag - 1, RUN, _data_from(data, size, t))
        return Example(inputs, _data_from(data, size, t - size - lag))


def _data_from(data: Int[Array, " s"], size: Int[Array, ""] | int, t: Int[Array, " t"]) -> Int[Array, " t"]:
    """Return the first `size` data symbols at t = 0, ..., size - 1, and blanks elsewhere."""
    return jnp.where((t >= 0) & (t < size), data[jnp.clip(t, 0, data.size - 1)], BLANK)


def copy_metrics(logits: Float[Array, "b t k"], batch: Example) -> dict[str, Float[Array, " b"]]:
    """Return means over the steps of each example: 'loss' in nats, 'accuracy' and 'recall'.

    Recall is the accuracy at steps whose target is a data symbol.
    """
    hits = accuracy(logits, batch.targets)
    return {
        "loss": jnp.mean(cross_entropy(logits, batch.targets), axis=-1),
        "accuracy": jnp.mean(hits, axis=-1),
        "recall": jnp.mean(hits, axis=-1, where=batch.targets != BLANK),
    }


@dataclass(frozen=True)
class Adding:
    """The adding task: add the two marked numbers of a sequence (Miceli Barone 2018, section 3.2; `RNN_adding.py` of lowrank-gru).

    Each step has two inputs: a number uniform on [0, 1), and a marker, which is 1 at two steps and 0 elsewhere. The target is the sum of
    the two marked numbers, predicted after the last step. The loss is the squared error; predicting 1 always has an expected loss of 1/6.
    """

    length: int = 750
    """T: steps of a sequence"""
    train_size: int = 100_000
    """training sequences"""
    test_size: int = 10_000
    """test sequences"""
    test_markers: str = "halves"
    """marked steps of test sequences: halves (one in each half, as in training and the paper) or anywhere (as in the 2016 code)"""
    valid_size: int | None = None
    """validation sequences, which follow the test sequences (None: the test sequences are the validation split too, as in the paper)"""

    def __post_init__(self) -> None:
        check_choice("data.test_markers", self.test_markers, MARKERS)
        check_at_least(2, self, "data.length")
        check_at_least(1, self, "data.train_size", "data.test_size", "data.valid_size")

    def build(self, seed: int) -> Task:
        """Build splits of generated sequences, whose random numbers the seed decides."""
        splits = _splits(self, key_of(seed), partial(self.example, markers="halves"), partial(self.example, markers=self.test_markers))
        return Task(splits, 2, 1, "last", sum_metrics)

    def example(self, arrays: PyTree, index: Int[Array, ""], *, markers: str) -> Example:
        """Generate the sequence at `index` of the stream. Inputs have shape (T, 2), the target is a scalar."""
        uniform = uniform_numbers(arrays, index, self.length + 2)
        numbers, half = uniform[2:], self.length // 2
        if markers == "halves":
            first, second = below(uniform[0], half), half + below(uniform[1], self.length - half)
        else:
            first = below(uniform[0], self.length)
            second = (first + 1 + below(uniform[1], self.length - 1)) % self.length
        marks = jnp.zeros(self.length).at[jnp.stack([first, second])].set(1.0)
        return Example(jnp.stack([numbers, marks], axis=-1), numbers[first] + numbers[second])


def sum_metrics(predictions: Float[Array, "b 1"], batch: Example) -> dict[str, Float[Array, " b"]]:
    """Return 'loss', the squared error of the sum, for each example."""
    return {"loss": squared_error(predictions[:, 0], batch.targets)}


def _splits(sizes: CopyMemory | Adding, arrays: PyTree, train: Generate, held_out: Generate) -> dict[str, Split]:
    """Cut a stream of sequences: training sequences first, then test sequences, then validation sequences.

    Without validation sequences, 'valid' is 'test', as in the paper.

    Args:
      sizes: the configuration, with the sizes of the splits.
      arrays: the random key of the stream.
      train: makes a training sequence from the key and an index of the stream.
      held_out: makes a test or validation sequence.
    """

    def part(first: int, size: int) -> Split:
        return Split(size, arrays, lambda arrays, index: held_out(arrays, first + index))

    test = part(sizes.train_size, sizes.test_size)
    valid = part(sizes.train_size + sizes.test_size, sizes.valid_size) if sizes.valid_size else test
    return {"train": Split(sizes.train_size, arrays, train), "valid": valid, "test": test}
