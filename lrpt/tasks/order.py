"""Order of examples: the batch of an update is a pure function of the seed and the update, so that no earlier batch is needed."""

from functools import lru_cache

import numpy as np
from jaxtyping import Float, Int

from lrpt.errors import UsageError, check_choice

ORDERS = ("epochs", "reshuffle", "cyclic", "file", "stream", "lengths")

NOISE = 0.1
"""Largest relative change of a length before examples are sorted by it (`padding_noise` of AllenNLP's BucketBatchSampler)."""

# Separates these random numbers from those of parameters and data, which may have the same seed.
_STREAM = 0x0B47C4E5


@lru_cache(maxsize=32)  # several models, each with its own order, may train side by side
def _permutation(size: int, seed: int, epoch: int) -> Int[np.ndarray, " size"]:
    permutation = np.random.default_rng((_STREAM, seed, 0, epoch)).permutation(size).astype(np.int32)
    permutation.flags.writeable = False
    return permutation


@lru_cache(maxsize=32)
def _batches_by_length(lengths: bytes, batch_size: int, seed: int, epoch: int) -> Int[np.ndarray, "c b"]:
    """Return the batches of an epoch in random order. Each has examples of similar length."""
    steps, rng = np.frombuffer(lengths, np.int32), np.random.default_rng((_STREAM, seed, 2, epoch))
    drawn = rng.permutation(steps.size)[: steps.size - steps.size % batch_size].astype(np.int32)
    noisy = steps[drawn] * rng.uniform(1 - NOISE, 1 + NOISE, drawn.size)
    return rng.permutation(drawn[np.argsort(noisy, kind="stable")].reshape(-1, batch_size))


def _batch(kind: str, size: int, batch_size: int, seed: int, update: int, lengths: bytes) -> Int[np.ndarray, " b"]:
    if kind == "reshuffle":
        return np.random.default_rng((_STREAM, seed, 1, update)).choice(size, batch_size, replace=False).astype(np.int32)
    epoch, position = divmod(update, size // batch_size)
    if kind == "lengths":
        return _batches_by_length(lengths, batch_size, seed, epoch)[position]
    if kind == "stream":
        return np.arange(position, position + batch_size * (size // batch_size), size // batch_size, dtype=np.int32)
    first = position * batch_size
    if kind == "file":
        return np.arange(first, first + batch_size, dtype=np.int32)
    permutation = _permutation(size, seed, epoch if kind == "epochs" else 0)
    return permutation[first : first + batch_size]


def batch_indices(
    kind: str, size: int, batch_size: int, seed: int, update: int, count: int, lengths: Int[np.ndarray, " size"] | None = None
) -> Int[np.ndarray, "count b"]:
    """Return the example indices of the updates `update`, ..., `update + count - 1`, one row of `batch_size` distinct indices per update.

    Args:
      kind: how examples are ordered.
        'epochs' draws a new permutation for each epoch.
        'reshuffle' draws a new permutation for each update and takes its first batch, as the 2016 code of the copy and adding tasks does
        (`RNN_memory.py` and `RNN_adding.py` of lowrank-gru) if its number of updates is a multiple of 5,000. Otherwise that code never
        permutes.
        'cyclic' repeats one permutation, as its `RNN_mnist.py` does.
        'file' repeats the examples in file order, whatever the seed.
        'stream' cuts the examples into `batch_size` contiguous parts of equal length; row r reads part r in file order, whatever the seed.
        An epoch of a stream begins when `update` is a multiple of size // batch_size.
        'lengths' puts examples of similar length into a batch, and draws the order of the batches for each epoch: it sorts all examples by
        their length times a random number from 0.9 to 1.1, so that batches differ between epochs. The loop leaves out steps in which all
        rows of a batch are padding (`lrpt.recurrence.packing`).
        An incomplete batch at the end of an epoch is dropped; with 'lengths', random examples are.
      size: number of examples.
      batch_size: number of examples in each update.
      seed: not negative. The same seed gives the same batches on all machines with the same version of NumPy.
      update: number of updates before the first of these.
      count: number of updates.
      lengths: number of steps of each example, for 'lengths' (None: all are equal).

    Raises:
      UsageError: the kind is unknown, or there are fewer examples than `batch_size`.
    """
    check_choice("train.order", kind, ORDERS)
    if size < 1:
        raise UsageError(f"the task has {size} training examples: give it one or more")
    if not 1 <= batch_size <= size:
        raise UsageError(f"train.batch_size is {batch_size}, and there are {size} training examples: choose 1 to {size}")
    steps = (np.ones(size, np.int32) if lengths is None else lengths.astype(np.int32)).tobytes() if kind == "lengths" else b""
    return np.stack([_batch(kind, size, batch_size, seed, update + i, steps) for i in range(count)])


def evaluation_batches(
    size: int, batch_size: int, lengths: Int[np.ndarray, " size"] | None = None
) -> tuple[Int[np.ndarray, "c b"], Float[np.ndarray, "c b"]]:
    """Return the indices of all examples in rows of `batch_size`, and their weights. Given lengths, the examples are sorted by them.

    Weights are 1, or 0 for the padding of the last row. Padding repeats the first example.
    """
    rows = -(-size // batch_size)
    indices, weights = _weighted(np.arange(rows * batch_size, dtype=np.int32).reshape(rows, batch_size), size)
    return (indices if lengths is None else np.argsort(lengths, kind="stable").astype(np.int32)[indices]), weights


def evaluation_streams(size: int, streams: int, multiple: int = 1) -> tuple[Int[np.ndarray, "c e"], Float[np.ndarray, "c e"]]:
    """Return the indices of all examples in columns, and their weights. Each column is a contiguous part of the examples in file order.

    Columns of padding follow up to a multiple of `multiple`, so that the number of devices does not change the number of streams.

    Weights are 1, or 0 for padding. Padding repeats example 0 at the end of a column. With one stream the network's state is carried
    through all examples; with several, through each part separately.
    """
    chunks = -(-size // streams)
    columns = np.arange(chunks * streams, dtype=np.int32).reshape(streams, chunks).T
    return _weighted(np.pad(columns, ((0, 0), (0, -streams % multiple)), constant_values=size), size)


def _weighted(positions: Int[np.ndarray, "c b"], size: int) -> tuple[Int[np.ndarray, "c b"], Float[np.ndarray, "c b"]]:
    """Replace positions beyond the last example by padding: example 0 with weight 0."""
    real = positions < size
    return np.where(real, positions, 0), real.astype(np.float32)
