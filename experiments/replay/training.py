"""The first updates of a run whose log was published, from its initial parameters and with its batches."""

from collections.abc import Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from experiments.replay.logs import PublishedLog
from experiments.replay.starts import original_start
from lrpt.networks.sequence_model import SequenceModel
from lrpt.runs.named_arrays import from_named
from lrpt.tasks import Task
from lrpt.training.step import Metrics, TrainState, train_step


class Update(NamedTuple):
    """Metrics of a training batch before an update, and the state after it."""

    metrics: Metrics
    state: TrainState


def replayed(log: PublishedLog, mnist: Path | None = None) -> tuple[SequenceModel, Task, Iterator[Update]]:
    """Return the network, the task, and the updates of a run, without end.

    Args:
      log: the run.
      mnist: directory of the MNIST files, if it needs them.

    Raises:
      UsageError: MNIST files are missing or damaged.
    """
    task, batches = log.open(mnist)
    model = SequenceModel(log.config, *log.widths, task.reads)
    example = jnp.zeros((1, 2, task.input_size)) if task.reads == "last" else jnp.zeros((1, 2), jnp.int32)
    template = jax.eval_shape(model.init, jax.random.key(0), example)["params"]
    params = from_named(template, original_start(log.config, *log.widths))

    def updates() -> Iterator[Update]:
        state = TrainState(params, log.optimizer.init(params), jnp.zeros((), jnp.int32))
        update = jax.jit(partial(train_step, model, task, log.optimizer))
        for batch in batches:
            state, metrics = update(state, batch)
            yield Update(metrics, state)

    return model, task, updates()


def losses(log: PublishedLog, updates: int, mnist: Path | None = None) -> Float[np.ndarray, " updates"]:
    """Return the training losses of the first updates, in nats."""
    _, _, made = replayed(log, mnist)
    return np.array([float(one.metrics["loss"]) for one in islice(made, updates)])
