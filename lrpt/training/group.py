"""Models that take the same updates side by side: what is compiled, and what lies on the devices."""

import math
from collections.abc import Sequence
from functools import cached_property, partial
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from lrpt.devices import parallel
from lrpt.networks.counting import count
from lrpt.tasks.order import batch_indices, evaluation_batches, evaluation_streams
from lrpt.tasks.task import Task
from lrpt.training.config import RunConfig, TrainConfig
from lrpt.training.run import Run
from lrpt.training.step import Shares, evaluate, train_steps


class Program:
    """What is compiled, once for all runs that differ in nothing else than `RunConfig.program` leaves out.

    Args:
      config: of any of the runs, as `task`.
      layout: which devices train what.

    Attributes:
      updates_per_call: updates of one call; a function of the configuration and the kind of device.
    """

    def __init__(self, config: RunConfig[Any], task: Task, layout: parallel.Layout) -> None:
        self.layout = layout
        self.updates_per_call = config.train.updates_per_call or _updates_in_a_second(config, task)

        model = config.model.build(task.input_size, task.output_size, task.reads, parallel.axis_of_batch(layout))
        epoch = task.splits["train"].size // config.train.batch_size
        shares = Shares(parallel.average(layout), parallel.own_key(layout))

        def train(state: Any, arrays: Any, indices: Any, learning_rate: Any) -> Any:
            def optimizer(update: Any) -> Any:
                return config.optim.build(config.optim.decayed(learning_rate, update, epoch))

            return train_steps(model, task, optimizer, state, arrays, indices, shares, epoch, config.model.settings)

        self.train = parallel.compile_for(layout, train, donate=(0,))
        self.valid = Evaluator(model, task, "valid", config.train.evaluation_batch, layout)
        self.test = Evaluator(model, task, "test", config.train.evaluation_batch, layout)


def _updates_in_a_second(config: RunConfig[Any], task: Task) -> int:
    """About as many, 1 to 50, of the same length between two evaluations: six operations for each parameter, example and step."""
    train = task.splits["train"]
    example = jax.eval_shape(train.batch, train.arrays, jax.ShapeDtypeStruct((config.train.batch_size,), jnp.int32))
    integer = jnp.issubdtype(example.inputs.dtype, jnp.integer)
    steps = math.prod(example.inputs.shape if integer else example.inputs.shape[:-1])
    operations = 6 * count(config.model, task.input_size, task.output_size).true * steps
    most = min(max(parallel.operations_per_second() // operations, 1), 50)
    calls = math.ceil(config.train.evaluate_every / most)
    return math.ceil(config.train.evaluate_every / calls)


class Evaluator:
    """The figures of several models on one split."""

    def __init__(self, model: nn.Module, task: Task, split: str, batch: int, layout: parallel.Layout) -> None:
        self.task, self.layout, self.size = task, layout, task.splits[split].size
        self.batch = -(-min(batch, self.size) // layout.shards) * layout.shards
        summed = partial(evaluate, model, task, task.splits[split])
        self._evaluate = parallel.compile_for(layout, lambda *args: parallel.total(layout)(summed(*args)))

    @cached_property
    def _chunks(self) -> list[np.ndarray]:
        dealt = evaluation_streams if self.task.streams else evaluation_batches
        return [parallel.deal(self.layout, [rows] * self.layout.models) for rows in dealt(self.size, self.batch)]

    def __call__(self, variables: Any, arrays: Any) -> list[dict[str, float]]:
        """Mean figures of each model, for variables and data that lie on the devices."""
        fetched = parallel.fetch(self.layout, self._evaluate(variables, arrays, *self._chunks))
        names = sorted(fetched[0][0], key=lambda name: name != "loss")
        return [self.task.summarize({name: float(sums[name] / weight) for name in names}) for sums, weight in fetched]


class Group:
    """Runs of one program that stand at the same update.

    A program for one device and one for several round differently. So places of the layout that no run needs are filled with copies of the
    last run: the numbers of a run do not depend on who trains beside it, and a resumed one may find itself in other company.

    Args:
      runs: at most one for each model of the program's layout; their states are placed on its devices.
      program: what is compiled.
    """

    def __init__(self, runs: Sequence[Run], program: Program) -> None:
        self.runs, self.program, self.layout = runs, program, program.layout
        self.config: TrainConfig = runs[0].config.train
        self.update = runs[0].update
        self.train_arrays = self._place_arrays("train")
        self.valid_arrays = self._place_arrays("valid")
        self.place()

    def place(self) -> None:
        """Puts the runs' states and learning rates on the devices."""
        self.learning_rates = parallel.place(self.layout, self._filled([jnp.float32(run.learning_rate) for run in self.runs]))
        states = self._filled([run.state for run in self.runs])
        placed = parallel.place(self.layout, [state._replace(carry=None) for state in states])
        self.state = placed._replace(carry=parallel.scatter(self.layout, [state.carry for state in states]))

    def _filled(self, items: list[Any]) -> list[Any]:
        return items + items[-1:] * (self.layout.models - len(items))

    def _place_arrays(self, split: str) -> Any:
        return parallel.place(self.layout, self._filled([run.task.splits[split].arrays for run in self.runs]))

    def next_boundary(self) -> int:
        """The end of the next call: a function of the update alone, so that a resumed run makes the same calls."""
        n, since = self.program.updates_per_call, self.update % self.config.evaluate_every
        return min(self.update - since + min(since - since % n + n, self.config.evaluate_every), self.config.updates)

    def at_evaluation(self) -> bool:
        """Whether an evaluation is due now."""
        return self.update % self.config.evaluate_every == 0 or self.update >= self.config.updates

    def train(self) -> list[dict[str, np.ndarray]]:
        """Updates up to the next boundary. Returns each run's figures, one value for each update."""
        count = self.next_boundary() - self.update
        indices = parallel.deal(self.layout, self._filled([self._indices(run, count) for run in self.runs]))
        self.state, figures = self.program.train(self.state, self.train_arrays, indices, self.learning_rates)
        self.update += count
        return parallel.fetch(self.layout, figures)[: len(self.runs)]

    def _indices(self, run: Run, count: int) -> np.ndarray:
        size = run.task.splits["train"].size
        return batch_indices(self.config.order, size, self.config.batch_size, run.seed, self.update, count)

    def collect(self) -> None:
        """Brings each run's state back to the host."""
        states = parallel.fetch(self.layout, self.state._replace(carry=None))
        carries = parallel.gather(self.layout, self.state.carry)
        for run, state, carry in zip(self.runs, states, carries, strict=False):
            run.state = state._replace(carry=carry)

    def validate(self) -> list[dict[str, float]]:
        """Each run's figures on the validation split."""
        return self.program.valid(self.state.variables, self.valid_arrays)[: len(self.runs)]

    def test(self) -> list[dict[str, float]]:
        """Each run's figures on the test split, with the parameters that were best on the validation split."""
        if all(run.task.splits["test"] is run.task.splits["valid"] for run in self.runs):
            return [{k: v for k, v in run.best.items() if k != "update"} for run in self.runs]
        best = parallel.place(self.layout, self._filled([run.best_variables() for run in self.runs]))
        return self.program.test(best, self._place_arrays("test"))[: len(self.runs)]
