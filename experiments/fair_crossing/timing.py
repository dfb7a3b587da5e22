"""The time of an update of a network, compared with that of another one."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lrpt.analysis.timing import in_turns
from lrpt.tasks.order import batch_indices
from lrpt.tasks.task import Task
from lrpt.training.config import RunConfig
from lrpt.training.step import init_state, train_steps

UPDATES, ROUNDS = 2, 20

Update = Callable[[], Any]
"""Compiled updates of a network, always from the same state."""


def compiled(config: RunConfig[Any], task: Task) -> Update:
    """Return a function that makes some updates of a network."""
    train = config.train
    model = config.model.build(task.input_size, task.output_size, task.reads)
    optimizer = config.optim.build()
    state = init_state(model, task, optimizer, 0, train.batch_size)
    indices = jnp.asarray(batch_indices(train.order, task.splits["train"].size, train.batch_size, 0, 0, UPDATES))
    update = partial(jax.jit(partial(train_steps, model, task, lambda made: optimizer)), state, task.splits["train"].arrays, indices)
    jax.block_until_ready(update())
    return update


def relative_time(update: Update, reference: Update) -> float:
    """Measure the time of an update over that of another network's: the median ratio of rounds in which both run, one after the other.

    Other programs slow down both alike. The time of one network alone varied by a third between minutes.
    """
    seconds = in_turns({"update": update, "reference": reference}, ROUNDS)
    return float(np.median(np.divide(seconds["update"], seconds["reference"])))
