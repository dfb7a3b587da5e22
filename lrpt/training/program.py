"""Compiled programs: updates, and evaluations of a split, for all runs that share a compiled program."""

import math
from collections.abc import Callable
from functools import cached_property, partial
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int, PyTree

from lrpt.devices import hardware, parallel
from lrpt.errors import UsageError
from lrpt.networks.counting import count
from lrpt.optim import RECIPES
from lrpt.tasks.order import evaluation_batches, evaluation_streams
from lrpt.tasks.task import Task
from lrpt.training.config import RunConfig
from lrpt.training.step import Collectives, Metrics, TrainState, Variables, evaluate, evaluated_variables, train_steps


class Program:
    """The compiled functions of runs whose configurations have the same `RunConfig.compilation_key`.

    Args:
      config: configuration of any of the runs.
      task: task of the same run.
      layout: assignment of runs and shards to devices.

    Attributes:
      updates_per_call: updates in one call; a function of the configuration and the kind of device.
    """

    def __init__(self, config: RunConfig[Any], task: Task, layout: parallel.Layout) -> None:
        self.layout = layout
        self.updates_per_call = config.train.updates_per_call or _updates_in_a_second(config, task)

        model = config.model.build(task.input_size, task.output_size, task.reads, parallel.axis_of_batch(layout))
        epoch = task.splits["train"].size // config.train.batch_size
        collectives = Collectives(parallel.average(layout), parallel.own_key(layout))
        by_length = config.train.order == "lengths"

        def train(
            state: TrainState, arrays: PyTree, indices: Int[Array, "k b"], learning_rate: Float[Array, ""]
        ) -> tuple[TrainState, Metrics]:
            def optimizer(update: Int[Array, ""]) -> optax.GradientTransformation:
                return config.optim.build(config.optim.decayed(learning_rate, update, epoch))

            settings, reset_every = config.model.settings, config.train.fresh_every
            return train_steps(model, task, optimizer, state, arrays, indices, collectives, epoch, settings, reset_every)

        self.train = parallel.compile_for(layout, train, donate=(0,))
        averages = RECIPES[config.optim.recipe].evaluated is not None
        self._evaluated = parallel.compile_for(layout, partial(evaluated_variables, config.optim)) if averages else None
        self.valid = Evaluator(model, task, "valid", config.train.evaluation_rows, layout, by_length)
        self.test = Evaluator(model, task, "test", config.train.evaluation_rows, layout, by_length)

    def evaluated(self, state: TrainState) -> Variables:
        """Return the variables that are evaluated, of all models. State and variables lie on the devices."""
        return state.variables if self._evaluated is None else self._evaluated(state)


def _updates_in_a_second(config: RunConfig[Any], task: Task) -> int:
    """Return how many updates, 1 to 50, fit into one compiled call of about a second.

    All calls between two evaluations have this length. An update is taken to cost six operations for each parameter, example and step.

    Raises:
      UsageError: sequences have no steps.
    """
    train = task.splits["train"]
    example = jax.eval_shape(train.batch, train.arrays, jax.ShapeDtypeStruct((config.train.batch_size,), jnp.int32))
    integer = jnp.issubdtype(example.inputs.dtype, jnp.integer)
    steps = math.prod(example.inputs.shape if integer else example.inputs.shape[:-1])
    if not steps:
        raise UsageError(f"a batch of training inputs has the shape {example.inputs.shape}: sequences need a step or more")
    operations = 6 * count(config.model, task.input_size, task.output_size).true * steps
    most = min(max(hardware.operations_per_second() // operations, 1), 50)
    calls = math.ceil(config.train.evaluate_every / most)
    return math.ceil(config.train.evaluate_every / calls)


class Evaluator:
    """The mean metrics of several models on one split. Examples of similar length are evaluated together `by_length`."""

    def __init__(self, model: nn.Module, task: Task, split: str, batch: int, layout: parallel.Layout, by_length: bool) -> None:
        self.task, self.layout, self.size = task, layout, task.splits[split].size
        self._lengths = task.splits[split].lengths if by_length else None
        self.batch = min(batch, self.size)
        summed = partial(evaluate, model, task, task.splits[split])
        self._evaluate = parallel.compile_for(layout, lambda *args: parallel.total(layout)(summed(*args)))

    @cached_property
    def _chunks(self) -> list[np.ndarray]:
        streams = self.task.streams
        shards = self.layout.shards
        if streams:
            found = evaluation_streams(self.size, self.batch, shards)
        else:
            found = evaluation_batches(self.size, -(-self.batch // shards) * shards, self._lengths)
        return [parallel.shard_batch(self.layout, [rows] * self.layout.models) for rows in found]

    def __call__(self, variables: Variables, arrays: PyTree) -> list[dict[str, float]]:
        """Return the mean metrics of each model, for variables and data that lie on the devices. The tasks of the models summarize them."""
        fetched = parallel.fetch(self.layout, self._evaluate(variables, arrays, *self._chunks))
        names = sorted(fetched[0][0], key=lambda name: name != "loss")
        return [{name: float(sums[name] / weight) for name in names} for sums, weight in fetched]


def evaluator_of_one(
    model: nn.Module, task: Task, split: str, batch: int, by_length: bool = False
) -> Callable[[Variables], dict[str, float]]:
    """Return the function from the variables of one model to its metrics on a split. It is compiled once and runs on one device."""
    layout = parallel.Layout(1, 1)
    evaluator = Evaluator(model, task, split, batch, layout, by_length)
    arrays = parallel.place(layout, [task.splits[split].arrays])
    return lambda variables: task.summary(evaluator(parallel.place(layout, [variables]), arrays)[0])
