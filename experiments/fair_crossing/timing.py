"""The time of an update of a network."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from lrpt.analysis.timing import in_turns
from lrpt.tasks.order import batch_indices
from lrpt.tasks.task import Task
from lrpt.training.config import RunConfig
from lrpt.training.step import init_state, train_steps

UPDATES, ROUNDS = 2, 10


def seconds_per_update(config: RunConfig[Any], task: Task) -> float:
    """Measure the time of an update: the shortest of some rounds, after compilation."""
    train = config.train
    model = config.model.build(task.input_size, task.output_size, task.reads)
    optimizer = config.optim.build()
    state = init_state(model, task, optimizer, 0, train.batch_size)
    arrays = task.splits["train"].arrays
    indices = jnp.asarray(batch_indices(train.order, task.splits["train"].size, train.batch_size, 0, 0, UPDATES))
    update = jax.jit(partial(train_steps, model, task, lambda made: optimizer))
    jax.block_until_ready(update(state, arrays, indices))
    (found,) = in_turns({"": partial(update, state, arrays, indices)}, ROUNDS).values()
    return min(found) / UPDATES
