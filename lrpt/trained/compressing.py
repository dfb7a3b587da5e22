"""Compression of a loaded network, with errors weighted by its states on training data: `compressed`."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from lrpt.compression.groups import MatrixReport
from lrpt.compression.moments import Moments, second_moments
from lrpt.compression.network import compress
from lrpt.errors import check_count
from lrpt.tasks.order import batch_indices
from lrpt.trained.loading import Loaded

EXAMPLES = 500
"""training examples whose states weight the errors"""


def compressed(trained: Loaded, *, examples: int = EXAMPLES, **how: Any) -> tuple[Loaded, list[MatrixReport]]:
    """Replace the recurrent matrices of a trained network by the nearest ones of another parametrization.

        trained = lrpt.load("runs/dense")
        small, matrices = compressed(trained, rank=16)
        small.evaluate()             # before further training
        small.save("runs/small")     # for lrpt.load, the commands, and as train.start: runs/small/model.npz

    Args:
      trained: the network, which stays as it is.
      examples: number of training examples whose states weight the errors, in whole batches; 0 if all entries of a matrix have equal
        weight.
      how: arguments of `lrpt.compression.network.compress` but `moments`, such as `rank`, `error`, `parametrization` and `tied`.

    Returns:
      The smaller network, and a report on each matrix.

    Raises:
      UsageError: the errors of `compress` and `moments_of`.
    """
    params = trained.variables["params"]
    found = compress(params["recurrent"], trained.recurrent, moments=moments_of(trained, examples), **how)
    variables = {**trained.variables, "params": {**params, "recurrent": found.params}}
    return trained.with_network(found.config, variables), found.matrices


def moments_of(trained: Loaded, examples: int = EXAMPLES) -> Moments | None:
    """Return the second moments of what the recurrent matrices multiply in the first training examples; None for no examples.

    Streams are those of training, because those of an evaluation have padding.

    Raises:
      UsageError: the network has no recurrent part, the data are missing, or `examples` is no integer of 0 or more.
    """
    check_count("examples", examples, 0)
    network, task = trained.recurrent, trained.task
    train = task.splits["train"]
    count = min(examples, train.size)
    if not count:
        return None
    width = min(trained.config.train.batch_size, count)
    updates = count // width
    rows = batch_indices("stream", train.size, width, 0, 0, updates) if task.streams else np.arange(updates * width).reshape(-1, width)
    batches = (train.batch(train.arrays, jnp.asarray(indices)) for indices in rows)
    pairs = ((trained.embed(trained.variables, batch.inputs), batch.mask) for batch in batches)
    settings = trained.variables.get("settings", {}).get("recurrent")
    return second_moments(trained.variables["params"]["recurrent"], network, pairs, streams=task.streams, settings=settings)
