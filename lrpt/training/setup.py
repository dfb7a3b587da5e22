"""Setup of a run: a configuration and a seed, with the task and the network that they describe."""

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import flax.linen as nn
import jax

from lrpt.devices.processes import primary_first
from lrpt.runs import user_code
from lrpt.runs.classes import class_names
from lrpt.runs.configuration import to_json
from lrpt.tasks.task import Task
from lrpt.training.config import RunConfig
from lrpt.training.selection import Selection
from lrpt.training.step import TrainState, init_state


class Setup:
    """Configuration and seed of one training run. It knows nothing of the progress of the run, and reads no files but those of its data.

    Args:
      names: 'experiment' and 'preset', as `result.json` records them.
      config: everything that decides the numbers of the run, except the seed.
      seed: decides parameters, data and the order of batches.
      path: the run directory.

    Attributes:
      mark: end of the label, if other runs would have the same label.
    """

    def __init__(self, names: Mapping[str, str], config: RunConfig[Any], seed: int, path: Path) -> None:
        self.names, self.config, self.seed, self.path = dict(names), config, seed, path
        self.mark = ""

    @property
    def label(self) -> str:
        """Return the name of the run in the console and in tables."""
        return f"{self.config.model.label} seed {self.seed}{self.mark}"

    @property
    def identity(self) -> dict[str, Any]:
        """Return the content of `config.json`."""
        return {**self.names, "seed": self.seed, **to_json(self.config), **class_names(self.config), **self._imports}

    @property
    def _imports(self) -> dict[str, list[str]]:
        names = user_code.modules_to_import(self.config)
        return {user_code.IMPORTS: names} if names else {}

    @cached_property
    def task(self) -> Task:
        """Return the task of this seed, with the network's own metrics added. The primary process prepares the data first."""
        return primary_first(lambda: self.config.build_task(self.seed))

    def free_data(self) -> None:
        """Forget the task. It is built again, and reads its data again, when it is needed."""
        self.__dict__.pop("task", None)  # a cached property

    @cached_property
    def model(self) -> nn.Module:
        """Return the network for this task."""
        return self.config.model.build(self.task.input_size, self.task.output_size, self.task.reads)

    @cached_property
    def selection(self) -> Selection:
        """Return the rules by which the best evaluation is selected and training stops."""
        return Selection(self.config, self.task.splits["train"].size // self.config.train.batch_size)

    def initial_state(self) -> TrainState:
        """Return the state before the first update, on the host."""
        return initial_state(self.config, self.seed, self.task, self.model)


def initial_state(config: RunConfig[Any], seed: int, task: Task, model: nn.Module) -> TrainState:
    """Return the state before the first update, on the host.

    Raises:
      UsageError: the optimizer would not follow the configured changes of the learning rate.
    """
    state = init_state(model, task, config.optim.build(), seed, config.train.batch_size)
    config.optim.check_rate(state.opt_state)
    return jax.device_get(jax.block_until_ready(state))  # fetching arrays whose allocation failed would never return
