"""Sequences and batches of the copying task as the code of 2016 makes them (lowrank-gru)."""

from collections.abc import Iterator
from itertools import count

import jax.numpy as jnp
import numpy as np
from jaxtyping import Int

from lrpt.tasks.images import ORIGINAL_SEED
from lrpt.tasks.synthetic import BLANK, RUN
from lrpt.tasks.task import Example

TRAIN, TEST, BATCH = 100_000, 10_000, 20

Sequences = tuple[Int[np.ndarray, "n t"], Int[np.ndarray, "n t"]]
"""Inputs and targets."""


def variable_length_symbols(number: int = TRAIN + TEST) -> list[Int[np.ndarray, " s"]]:
    """Draw the symbols of each sequence (`make_Danihelka_var_len_memory_data.py`): a length in 1..10, then that many symbols in 0..7."""
    generator = np.random.RandomState(0)
    return [generator.randint(0, 8, generator.randint(1, 11)) for _ in range(number)]


def variable_length_data(symbols: list[Int[np.ndarray, " s"]], lag: int) -> Sequences:
    """Return sequences of lag + 20 steps: the symbols, and after `lag` steps, the last of which says run, the symbols again."""
    inputs = np.full((len(symbols), lag + 20), BLANK)
    targets = inputs.copy()
    for x, y, own in zip(inputs, targets, symbols, strict=True):
        x[: len(own)] = own
        x[len(own) + lag - 1] = RUN
        y[len(own) + lag : 2 * len(own) + lag] = own
    return inputs, targets


def january_data(lag: int) -> Sequences:
    """Return sequences of ten symbols (`make_memory_data.py` as of January 2016), drawn from 1..8, so that one of them is the blank."""
    symbols = np.random.RandomState(0).randint(1, 9, (10, TRAIN + TEST)).T
    inputs = np.full((len(symbols), lag + 20), BLANK)
    targets = inputs.copy()
    inputs[:, :10], inputs[:, lag + 9], targets[:, lag + 10 :] = symbols, RUN, symbols
    return inputs, targets


def reshuffled_batches(sequences: Sequences) -> Iterator[Example]:
    """Yield the batches of `RNN_memory.py`: before every update it permutes the training set as it stands, then update i takes batch i."""
    generator = np.random.RandomState(ORIGINAL_SEED)
    order = np.arange(TRAIN)
    for update in count():
        order = order[generator.permutation(TRAIN)]
        first = BATCH * (update % (TRAIN // BATCH))
        yield Example(*(jnp.asarray(part[order[first : first + BATCH]]) for part in sequences))
