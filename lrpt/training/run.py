"""One model in training: where it stands, what it has seen, and what of that is on disk."""

import math
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import jax
import numpy as np
import optax

from lrpt import named_arrays
from lrpt.counting import count
from lrpt.data.task import Task
from lrpt.errors import UsageError
from lrpt.models import SequenceModel
from lrpt.optim import RECIPES
from lrpt.training.checkpoint import Checkpoints, Damaged
from lrpt.training.config import RunConfig, to_json
from lrpt.training.console import Console
from lrpt.training.parallel import describe_devices
from lrpt.training.run_directory import RunDirectory
from lrpt.training.step import TrainState, init_state


class Tally:
    """Means of the training figures since the last evaluation; part of every checkpoint, so that a resumed run writes the same lines."""

    def __init__(self, count: int = 0, sums: Mapping[str, float] | None = None) -> None:
        self.count = count
        self.sums = dict(sums or {})

    def add(self, figures: Mapping[str, np.ndarray]) -> None:
        """Figures of k updates. 'recoveries' is a running count already, so its last value is kept."""
        self.count += len(figures["loss"])
        for name, values in figures.items():
            total = float(np.sum(values, dtype=np.float64))
            self.sums[name] = float(values[-1]) if name == "recoveries" else self.sums.get(name, 0.0) + total

    def means(self) -> dict[str, float]:
        """The mean of each figure over the updates that were added."""
        return {name: total if name == "recoveries" else total / self.count for name, total in self.sums.items()}


class Run:
    """A seed of a configuration, and its directory.

    Args:
      names: 'experiment' and 'preset', as `result.json` gives them.
      config: everything that decides its numbers, but for the seed.
      seed: parameters, data and the order of batches follow from it.
      path: the run directory.
      console: is told of anything out of order.

    Attributes:
      state: where training stands, on the host; as of the last `Group.collect`.
      stopped: why training is over: 'criterion' (the validation loss is low enough), 'updates' (all are made), or None.
      result: the content of `result.json` once it is written.
    """

    def __init__(self, names: Mapping[str, str], config: RunConfig[Any], seed: int, path: Path, console: Console) -> None:
        self.names, self.config, self.seed, self.console = dict(names), config, seed, console
        self.directory = RunDirectory(path)
        self.checkpoints = Checkpoints(self.directory.checkpoints, console.warn)
        self.tally = Tally()
        self.best: dict[str, Any] = {"update": 0, "loss": math.inf}
        self.seconds = 0.0
        self.state: Any = None
        self.stopped: str | None = None
        self.result: dict[str, Any] = {}

    @property
    def label(self) -> str:
        """How console and tables call this run."""
        return f"{self.config.model.label} seed {self.seed}"

    @property
    def update(self) -> int:
        """Updates made when the state was last collected."""
        return int(self.state.update)

    @cached_property
    def task(self) -> Task:
        """The examples of this seed."""
        return self.config.data.build(self.seed)

    def finished(self) -> bool:
        """Whether the directory holds a result for this configuration. A run that is given more updates than it made is not finished."""
        self.directory.check({**self.names, "seed": self.seed, **to_json(self.config)})
        result = self.directory.result()
        if result is None or (result["stopped"] == "updates" and result["updates"] < self.config.train.updates):
            return False
        self.result = result
        self.console.say(f"{self.label}: finished already, see {self.directory.path / 'result.json'}")
        return True

    def prepare(self, model: SequenceModel, optimizer: optax.GradientTransformation) -> None:
        """Makes the directory, and restores the newest intact checkpoint or draws parameters."""
        self.directory.open({**self.names, "seed": self.seed, **to_json(self.config)})
        fresh = jax.device_get(init_state(model, self.task, optimizer, self.seed))
        restored = self.checkpoints.latest(fresh)
        if restored is None:
            self.state = self._started(fresh, optimizer)
        else:
            self.state, notes = restored.state, restored.notes
            self.tally, self.best, self.seconds = Tally(**notes["tally"]), notes["best"], notes["seconds"]
            self.console.say(f"{self.label}: resumes at update {self.update}, see {self.directory.path}")
        self.checkpoints.remove_after(self.update)
        self.directory.keep_metrics_until(self.update)

    def _started(self, fresh: TrainState, optimizer: optax.GradientTransformation) -> TrainState:
        """The start from named arrays, where one is given."""
        if self.config.train.start is None:
            return fresh
        params = named_arrays.load(self.config.train.start, fresh.params)
        return TrainState(params, jax.device_get(optimizer.init(params)), fresh.update)

    def trained(self, update: int, figures: Mapping[str, np.ndarray], seconds: float) -> None:
        """Takes note of the figures of one call, which ended at `update`.

        Raises:
          UsageError: a loss is not finite, and the optimizer has no rule for that. The checkpoints stay as they are.
        """
        bad = np.flatnonzero(~np.isfinite(figures["loss"]))
        if bad.size and not RECIPES[self.config.optim.recipe].recovers:
            self._give_up("training", update - len(figures["loss"]) + int(bad[0]) + 1, float(figures["loss"][bad[0]]))
        self.tally.add(figures)
        self.seconds += seconds

    def evaluated(self, figures: Mapping[str, float], seconds: float) -> None:
        """Writes the figures of an evaluation and a checkpoint, and decides whether training is over.

        Raises:
          UsageError: the loss is not finite. The checkpoints stay as they are.
        """
        if not math.isfinite(figures["loss"]):
            self._give_up("validation", self.update, figures["loss"])
        self.seconds += seconds
        if figures["loss"] < self.best["loss"]:
            self.best = {"update": self.update, **figures}
        when = {"update": self.update, "seconds": round(self.seconds, 3)}
        train = {**when, "split": "train", **self.tally.means()}
        self.directory.append_metrics([train, {**when, "split": "valid", **figures}])
        self.tally = Tally()
        self.save(figures["loss"])
        self.stopped = self._reason_to_stop()

    def _give_up(self, what: str, update: int, loss: float) -> None:
        kept = self.checkpoints.updates()
        good = f"the last good checkpoint, of update {kept[0]}, is kept in {self.checkpoints.path}" if kept else "no checkpoint was due yet"
        advice = "try a lower --optim.learning-rate, or a recipe with recovery"
        raise UsageError(f"{self.label}: {what} loss is {loss} at update {update}; {good}; {advice}", code=1)

    def save(self, loss: float = math.inf) -> None:
        """A checkpoint of where the run stands; `loss` decides whether it is kept as the best."""
        notes = {"best": self.best, "seconds": self.seconds, "tally": vars(self.tally)}
        self.checkpoints.save(self.update, self.state, notes, loss)

    def _reason_to_stop(self) -> str | None:
        below = self.config.train.stop_below
        if below is not None and self.best["loss"] < below:
            return "criterion"
        return "updates" if self.update >= self.config.train.updates else None

    def best_params(self) -> Any:
        """The parameters with the lowest validation loss."""
        try:
            return self.checkpoints.restore(self.state, self.best["update"]).state.params
        except Damaged as error:
            self.console.warn(
                f"{self.label}: the best checkpoint, of update {self.best['update']}, is damaged ({error}); testing the latest"
            )
            return self.state.params

    def finish(self, test: Mapping[str, float]) -> None:
        """Writes `result.json`."""
        counts = count(self.config.model, self.task.input_size, self.task.output_size)
        self.result = {
            **self.names,
            "model": self.config.model.label,
            "seed": self.seed,
            "updates": self.update,
            "stopped": self.stopped,
            "seconds": round(self.seconds, 2),
            "parameters": {"true": counts.true, "paper": counts.paper},
            "best_update": self.best["update"],
            "metrics": {"valid": self._valid_figures(), "test": dict(test)},
            **describe_devices(),
            "config": to_json(self.config),
        }
        self.directory.write_result(self.result)
        self.checkpoints.close()

    def _valid_figures(self) -> dict[str, float]:
        """The figures at the lowest loss, and the highest that each figure was at any evaluation, which is what Table 1 gives."""
        at_best = {name: value for name, value in self.best.items() if name != "update"}
        history = [line for line in self.directory.metrics() if line["split"] == "valid"]
        return at_best | {f"highest_{name}": max(line[name] for line in history) for name in at_best if name != "loss"}
