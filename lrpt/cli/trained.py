"""Reading a run directory again: what was trained, and how well it does."""

import importlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import flax.linen as nn

from lrpt.cli.experiment import Experiment
from lrpt.cli.flags import parse, words
from lrpt.devices import parallel
from lrpt.errors import UsageError
from lrpt.networks.sequence_model import ModelConfig, Recurrent
from lrpt.runs.configuration import flatten, to_json
from lrpt.runs.console import Console
from lrpt.training.config import RunConfig
from lrpt.training.program import Evaluator
from lrpt.training.run import Run


class Trained:
    """A run as it is on disk. Nothing is written to its directory.

    Args:
      path: its directory.
      console: where warnings go.
      state: 'best', the one with the lowest validation loss, or 'last'.

    Attributes:
      experiment: what it is a run of.
      preset: the name of its preset.
      run: its configuration, task, model and directory.
      variables: parameters and other collections of that state.

    Raises:
      UsageError: the directory holds no run of an experiment, or no checkpoint that is intact.
    """

    def __init__(self, path: Path, console: Console, state: Literal["best", "last"] = "best") -> None:
        identity = _identity(path)
        self.experiment = _experiment(path, identity["experiment"])
        self.preset = identity["preset"]
        self.run = Run({}, self.parse(identity), identity["seed"], path, console)
        self.variables = self._variables(state)

    def parse(self, identity: Mapping[str, Any]) -> RunConfig[Any]:
        """The configuration that `config.json` stands for."""
        found = flatten({name: part for name, part in identity.items() if isinstance(part, dict)})
        return parse(self.experiment, self.flags(found)).config

    def flags(self, wanted: Mapping[str, Any]) -> list[str]:
        """The command line that gives these settings, and those of the preset where there are none."""
        start = ["--preset", self.preset, "--no-compare"]
        usual = flatten(to_json(parse(self.experiment, start).config))
        return start + [word for name, value in wanted.items() if usual.get(name) != value for word in words(name, value)]

    def _variables(self, state: Literal["best", "last"]) -> Any:
        return self.run.variables(state)

    @property
    def recurrent(self) -> Recurrent:
        """The recurrent part of its network, whose parameters are `variables["params"]["recurrent"]`.

        Raises:
          UsageError: it has another kind of network.
        """
        config = self.run.config.model
        if not isinstance(config, ModelConfig):
            raise UsageError(f"{self.run.path} holds a {config.label}: name a run of a recurrent network")
        return Recurrent(config, config.embedding_width or self.run.task.input_size)

    def seen(self, variables: Any, inputs: Any) -> Any:
        """What the cell of a network with these variables sees of inputs: vectors, where there is an embedding."""
        if self.recurrent.config.embedding_width is None:
            return inputs
        return self.run.model.apply(variables, inputs, method=lambda model, xs: model.embedding(xs))

    def scores(self, model: nn.Module, variables: Any) -> dict[str, dict[str, float]]:
        """Figures of each split by which a model is judged; of one where both are the same."""
        layout, task = parallel.Layout(1, 1), self.run.task
        splits = ("test",) if task.splits["valid"] is task.splits["test"] else ("valid", "test")
        placed = parallel.place(layout, [variables])
        found = {}
        for split in splits:
            evaluator = Evaluator(model, task, split, self.run.config.train.evaluation_batch, layout)
            found[split] = evaluator(placed, parallel.place(layout, [task.splits[split].arrays]))[0]
        return found


def _identity(path: Path) -> dict[str, Any]:
    try:
        found = json.loads((path / "config.json").read_text())
        return {**found, "experiment": str(found["experiment"]), "preset": str(found["preset"]), "seed": int(found["seed"])}
    except OSError as error:
        raise UsageError(f"{path / 'config.json'} cannot be read ({error.strerror}): name the directory of a run") from None
    except (ValueError, TypeError, KeyError):
        raise UsageError(f"{path / 'config.json'} is damaged, or not of a run: name the directory of a run", code=1) from None


def _experiment(path: Path, name: str) -> Experiment[Any]:
    commands = importlib.import_module("experiments")
    found = getattr(commands.module(name), "EXPERIMENT", None) if name in commands.names() else None
    if found is None:
        raise UsageError(f"{path} holds a run of '{name}', which is no module of experiments: use lrpt.runs.checkpoint")
    return found
