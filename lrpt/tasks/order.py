"""Which example is in which batch, as a pure function of the seed and the update: any batch can be had without those before it."""

from functools import lru_cache

import numpy as np
from jaxtyping import Float, Int

from lrpt.errors import UsageError, check_choice

ORDERS = ("epochs", "reshuffle", "cyclic", "stream")

# Keeps these draws apart from those of parameters and data, which may come from the same seed.
_STREAM = 0x0B47C4E5


@lru_cache(maxsize=32)  # several models train side by side, each with an order of its own
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
    """The examples of the updates `update`, ..., `update + count - 1`, each in a row of `batch_size` different ones.

    Args:
      kind: 'epochs' draws a new permutation for each pass over the examples; 'reshuffle' one for each update, of which the first batch
        is taken, as the 2016 code of the copy tasks does (`RNN_memory.py` of lowrank-gru); 'cyclic' one for ever, as its `RNN_mnist.py`
        does. An incomplete batch at the end of a pass is left out. 'stream' cuts the examples into `batch_size` parts of equal length, of
        which row r reads the r-th in file order, whatever the seed: a pass begins where `update` is a multiple of size // batch_size.
      size: number of examples.
      seed: not negative. The same seed gives the same batches wherever NumPy is of the same version.

    Raises:
      UsageError: an unknown kind, or a batch that the examples do not fill.
    """
    check_choice("train.order", kind, ORDERS)
    if not 1 <= batch_size <= size:
        raise UsageError(f"train.batch_size is {batch_size}, and there are {size} training examples: choose 1 to {size}")
    return np.stack([_batch(kind, size, batch_size, seed, update + i) for i in range(count)])


def evaluation_batches(size: int, batch_size: int) -> tuple[Int[np.ndarray, "c b"], Float[np.ndarray, "c b"]]:
    """Every example once, in rows of `batch_size`, and its weight: 1, or 0 for the padding of the last row, which repeats example 0."""
    rows = -(-size // batch_size)
    return _weighted(np.arange(rows * batch_size, dtype=np.int32).reshape(rows, batch_size), size)


def evaluation_streams(size: int, streams: int) -> tuple[Int[np.ndarray, "c e"], Float[np.ndarray, "c e"]]:
    """Every example once, in columns of which each reads one part of them in file order, and its weight: 1, or 0 for padding.

    Padding repeats example 0, and comes after the real examples of its column. With one stream the state of a network is carried through
    all examples; with more, through those of each part.
    """
    chunks = -(-size // streams)
    return _weighted(np.arange(chunks * streams, dtype=np.int32).reshape(streams, chunks).T, size)


def _weighted(positions: Int[np.ndarray, "c b"], size: int) -> tuple[Int[np.ndarray, "c b"], Float[np.ndarray, "c b"]]:
    """Examples and their weights: positions beyond the last example are padding, example 0 of weight 0."""
    real = positions < size
    return np.where(real, positions, 0), real.astype(np.float32)
