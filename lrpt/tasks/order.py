"""Order of examples: the batch of an update is a pure function of the seed and the update, so that no earlier batch is needed."""

from functools import lru_cache

import numpy as np
from jaxtyping import Float, Int

from lrpt.errors import UsageError, check_choice

ORDERS = ("epochs", "reshuffle", "cyclic", "stream")

# Separates these random numbers from those of parameters and data, which may have the same seed.
_STREAM = 0x0B47C4E5


@lru_cache(maxsize=32)  # several models, each with its own order, may train side by side
def _permutation(size: int, seed: int, epoch: int) -> Int[np.ndarray, " size"]:
    permutation = np.random.default_rng((_STREAM, seed, 0, epoch)).permutation(size).astype(np.int32)
    permutation.flags.writeable = False
    return permutation


def _batch(kind: str, size: int, batch_size: int, seed: int, update: int) -> Int[np.ndarray, " b"]:
    if kind == "reshuffle":
        return np.random.default_rng((_STREAM, seed, 1, update)).choice(size, batch_size, replace=False).astype(np.int32)
    epoch, position = divmod(update, size // batch_size)
    if kind == "stream":
        return np.arange(position, position + batch_size * (size // batch_size), size // batch_size, dtype=np.int32)
    permutation = _permutation(size, seed, epoch if kind == "epochs" else 0)
    return permutation[position * batch_size : (position + 1) * batch_size]


def batch_indices(kind: str, size: int, batch_size: int, seed: int, update: int, count: int) -> Int[np.ndarray, "count b"]:
    """Return the example indices of the updates `update`, ..., `update + count - 1`, one row of `batch_size` distinct indices per update.

    Args:
      kind: how examples are ordered.
        'epochs' draws a new permutation for each epoch.
        'reshuffle' draws a new permutation for each update and takes its first batch, as the 2016 code of the copy tasks does
        (`RNN_memory.py` of lowrank-gru).
        'cyclic' repeats one permutation, as its `RNN_mnist.py` does.
        'stream' cuts the examples into `batch_size` contiguous parts of equal length; row r reads part r in file order, whatever the seed.
        An epoch of a stream begins when `update` is a multiple of size // batch_size.
        An incomplete batch at the end of an epoch is dropped.
      size: number of examples.
      seed: not negative. The same seed gives the same batches on all machines with the same version of NumPy.

    Raises:
      UsageError: the kind is unknown, or there are fewer examples than `batch_size`.
    """
    check_choice("train.order", kind, ORDERS)
    if not 1 <= batch_size <= size:
        raise UsageError(f"train.batch_size is {batch_size}, and there are {size} training examples: choose 1 to {size}")
    return np.stack([_batch(kind, size, batch_size, seed, update + i) for i in range(count)])


def evaluation_batches(size: int, batch_size: int) -> tuple[Int[np.ndarray, "c b"], Float[np.ndarray, "c b"]]:
    """Return the indices of all examples in rows of `batch_size`, and their weights.

    Weights are 1, or 0 for the padding of the last row. Padding repeats example 0.
    """
    rows = -(-size // batch_size)
    return _weighted(np.arange(rows * batch_size, dtype=np.int32).reshape(rows, batch_size), size)


def evaluation_streams(size: int, streams: int) -> tuple[Int[np.ndarray, "c e"], Float[np.ndarray, "c e"]]:
    """Return the indices of all examples in columns, and their weights. Each column is a contiguous part of the examples in file order.

    Weights are 1, or 0 for padding. Padding repeats example 0 at the end of a column. With one stream the network's state is carried
    through all examples; with several, through each part separately.
    """
    chunks = -(-size // streams)
    return _weighted(np.arange(chunks * streams, dtype=np.int32).reshape(streams, chunks).T, size)


def _weighted(positions: Int[np.ndarray, "c b"], size: int) -> tuple[Int[np.ndarray, "c b"], Float[np.ndarray, "c b"]]:
    """Replace positions beyond the last example by padding: example 0 with weight 0."""
    real = positions < size
    return np.where(real, positions, 0), real.astype(np.float32)
