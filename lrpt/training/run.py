"""One model in training: where it stands, what it has seen, and what of that is on disk."""

import math
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import flax.linen as nn
import jax
import numpy as np

from lrpt.devices.parallel import describe_devices
from lrpt.devices.processes import by_first, first_alone
from lrpt.errors import Elsewhere, UsageError
from lrpt.metrics import BETTER_LOW, NEITHER_BETTER
from lrpt.networks.counting import count
from lrpt.optim import RECIPES
from lrpt.runs import named_arrays, pulse
from lrpt.runs.checkpoint import Checkpoints, Damaged, Restored
from lrpt.runs.configuration import to_json
from lrpt.runs.console import Console
from lrpt.runs.run_directory import RunDirectory
from lrpt.tasks.task import Task
from lrpt.training.annealing import Annealing
from lrpt.training.config import RunConfig
from lrpt.training.step import TrainState, init_state


class Tally:
    """Means of the training figures since the last evaluation; part of every checkpoint, so that a resumed run writes the same lines."""

    def __init__(self, counts: Mapping[str, int] | None = None, sums: Mapping[str, float] | None = None) -> None:
        self.counts = dict(counts or {})
        self.sums = dict(sums or {})

    def add(self, figures: Mapping[str, np.ndarray]) -> None:
        """Figures of k updates. 'recoveries' is a running count already, so its last value is kept."""
        for name, values in figures.items():
            if name == "recoveries":
                self.counts[name], self.sums[name] = 1, float(values[-1])
                continue
            finite = values[np.isfinite(values)]
            self.counts[name] = self.counts.get(name, 0) + finite.size
            self.sums[name] = self.sums.get(name, 0.0) + float(np.sum(finite, dtype=np.float64))

    def means(self) -> dict[str, float | None]:
        """The mean of each figure over the updates where it was finite; None where it never was."""
        return {name: total / self.counts[name] if self.counts[name] else None for name, total in self.sums.items()}


ENDED = {
    "criterion": "criterion met",
    "patience": "no lower validation loss for long",
    "annealed": "no halvings of the learning rate left",
    "updates": "all updates made",
}
"""Why training was over, as `result.json` and as people read it."""


class Run:
    """A seed of a configuration, and its directory, which of several processes only the first reads and writes.

    Args:
      names: 'experiment' and 'preset', as `result.json` gives them.
      config: everything that decides its numbers, but for the seed.
      seed: parameters, data and the order of batches follow from it.
      path: the run directory.
      console: is told of anything out of order.
      reading: the directory is only read.

    Attributes:
      state: where training stands, on the host; as of the last `Group.collect`.
      saved, saved_at: the update of the newest checkpoint, 0 where there is none, and when it was written.
      stopped: why training is over, as in `ENDED`, or None.
      error: what keeps it from going on, or None.
      result: the content of `result.json` once it is written.
    """

    def __init__(
        self, names: Mapping[str, str], config: RunConfig[Any], seed: int, path: Path, console: Console, reading: bool = False
    ) -> None:
        self.names, self.config, self.seed, self.console = dict(names), config, seed, console
        self.directory = RunDirectory(path)
        self.checkpoints = Checkpoints(self.directory.checkpoints, console.warn, reading)
        self.tally = Tally()
        self.best: dict[str, Any] = {"update": 0, "loss": math.inf}
        self.annealing = Annealing(config.optim)
        self.seconds = 0.0
        self.state: Any = None
        self.saved, self.saved_at = 0, time.monotonic()
        self.stopped: str | None = None
        self.error: UsageError | Elsewhere | None = None
        self.result: dict[str, Any] = {}

    @property
    def label(self) -> str:
        """How console and tables call this run."""
        return f"{self.config.model.label} seed {self.seed}"

    @property
    def identity(self) -> dict[str, Any]:
        """What `config.json` holds."""
        return {**self.names, "seed": self.seed, **to_json(self.config)}

    @property
    def update(self) -> int:
        """Updates made when the state was last collected."""
        return int(self.state.update)

    @cached_property
    def task(self) -> Task:
        """The examples of this seed; the network adds its own to what is said of them.

        What is prepared for them on disk is prepared by the first process, and then read by the others.
        """
        network = self.config.model
        task = first_alone(lambda: self.config.data.build(self.seed))
        return replace(task, summarize=lambda means: network.summarize(task.summarize(means)))

    def finished(self) -> bool:
        """Whether the directory holds a result that this configuration asks for; with more updates than were made it does not.

        Raises:
          UsageError: the directory holds another run, or files that are damaged.
        """
        result = by_first(self._earlier_result)
        if result is None:
            return False
        best = {"update": result["best_update"], "loss": result["metrics"]["valid"]["loss"]}
        if result["stopped"] != "annealed" and self._reason_to_stop(result["updates"], best) is None:
            return False
        self.result = result
        self.console.say(f"{self.label}: finished already, see {self.directory.path / 'result.json'}")
        return True

    def _earlier_result(self) -> dict[str, Any] | None:
        self.directory.check(self.identity)
        return self.directory.result()

    @cached_property
    def model(self) -> nn.Module:
        """The network that learns this task."""
        return self.config.model.build(self.task.input_size, self.task.output_size, self.task.reads)

    @property
    def learning_rate(self) -> float:
        """The configured one, or what is left of it."""
        return self.config.optim.rate * self.annealing.factor

    def prepare(self) -> None:
        """Restores the newest intact checkpoint or draws parameters, and makes the directory.

        Raises:
          UsageError: the model or the start file does not fit; the directory is in use, cannot be written, or holds damaged files.
        """
        fresh = self.fresh()
        start = by_first(lambda: self._start(fresh))
        if isinstance(start, Restored):
            self._resume(start)
        else:
            self.state = start
        by_first(self._open)

    def fresh(self) -> TrainState:
        """The state before the first update, as drawn."""
        state = init_state(self.model, self.task, self.config.optim.build(), self.seed, self.config.train.batch_size)
        return jax.device_get(jax.block_until_ready(state))  # fetching what found no memory would never end

    def _start(self, fresh: TrainState) -> Restored | TrainState:
        """The newest intact checkpoint, or the start from named arrays, where one is given, or a fresh one."""
        self.directory.claim()
        restored = self.checkpoints.latest(fresh)
        if restored is not None or self.config.train.start is None:
            return restored or fresh
        params = named_arrays.load(self.config.train.start, fresh.params)
        return fresh._replace(params=params, opt_state=jax.device_get(self.config.optim.build().init(params)))

    def _open(self) -> None:
        self.directory.open(self.identity)
        self.checkpoints.remove_after(self.update)
        self.directory.keep_metrics_until(self.update if self._is_evaluated() else self.update - 1)

    def _resume(self, restored: Restored) -> None:
        self.state, notes = restored.state, restored.notes
        self.check_text(notes)
        self.tally, self.best, self.seconds = Tally(**notes["tally"]), notes["best"], notes["seconds"]
        self.annealing = Annealing(self.config.optim, notes["annealing"])
        self.saved = self.update
        if self._is_evaluated():
            self.stopped = self._reason_to_stop(self.update, self.best)
        self.console.say(f"{self.label}: resumes at update {self.update}, see {self.directory.path}")

    def check_text(self, notes: Mapping[str, Any]) -> None:
        """Raises a UsageError if a checkpoint was written while the task had another text than now."""
        before, now = notes.get("sha256"), self.task.notes.get("sha256")
        if before not in (None, now):
            raise UsageError(
                f"{self.directory.path} holds a run on a text with SHA-256 {before}, and {self.task.notes.get('text')} has {now}: "
                f"restore the text, or name another --workdir",
                code=1,
            )

    def _is_evaluated(self) -> bool:
        return not self.tally.sums

    @contextmanager
    def failing_alone(self) -> Iterator[None]:
        """What keeps this run from going on is kept as `error`: others are trained beside it."""
        try:
            yield
        except (UsageError, Elsewhere) as error:
            self.error = error

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

    def evaluated(self, figures: Mapping[str, float], seconds: float) -> bool:
        """Writes the figures of an evaluation and a checkpoint, and decides whether training is over.

        Returns:
          Whether the learning rate or the state is now another.

        Raises:
          UsageError: the loss is not finite. The checkpoints stay as they are.
        """
        if not math.isfinite(figures["loss"]):
            self._give_up("validation", self.update, figures["loss"])
        self.seconds += seconds
        if figures["loss"] < self.best["loss"]:
            self.best = {"update": self.update, **figures}
        when = {"update": self.update, "seconds": round(self.seconds, 3)}
        train = {**when, "split": "train", **self._reported(self.tally.means())}
        by_first(lambda: self.directory.append_metrics([train, {**when, "split": "valid", **figures}]))
        self.tally = Tally()
        halved = self.annealing.evaluated(figures["loss"])
        if halved and self.config.optim.return_to_best:
            self._return_to_best()
        self.save()
        self.stopped = self._reason_to_stop(self.update, self.best)
        return halved

    def _return_to_best(self) -> None:
        best = self.best_variables()
        collections = {name: tree for name, tree in best.items() if name != "params"} or None
        self.state = self.state._replace(params=best["params"], collections=collections)

    def _reported(self, means: dict[str, float | None]) -> dict[str, float | None]:
        """What a reader of the metrics gets to see of means over training batches, where all of them are numbers."""
        if any(value is None for value in means.values()):
            return means
        return dict(self.task.summarize(means))  # type: ignore[arg-type]

    def _give_up(self, what: str, update: int, loss: float) -> None:
        def advise() -> None:
            evaluated = {line["update"] for line in self._evaluations()}
            kept = [saved for saved in self.checkpoints.updates() if saved in evaluated]
            last = "no checkpoint was due yet"
            if kept:
                last = f"the last good checkpoint, of update {kept[0]}, is kept in {self.checkpoints.path}"
            advice = "start over in another --workdir with a lower --optim.learning-rate or another --optim.recipe"
            raise UsageError(f"{self.label} in {self.directory.path}: {what} loss is {loss} at update {update}; {last}; {advice}", code=1)

        by_first(advise)

    def save(self) -> None:
        """A checkpoint of where the run stands."""
        notes = {"best": self.best, "seconds": self.seconds, "tally": vars(self.tally), "annealing": self.annealing.numbers}
        notes |= {"sha256": self.task.notes["sha256"]} if "sha256" in self.task.notes else {}
        by_first(lambda: self.checkpoints.save(self.update, self.state, notes, self.best["update"]))
        self.saved, self.saved_at = self.update, time.monotonic()
        pulse.saved()

    @property
    def is_due(self) -> bool:
        """Whether the newest checkpoint is so long ago that another one is to be written."""
        return time.monotonic() - self.saved_at > 60 * self.config.train.checkpoint_minutes

    def _reason_to_stop(self, update: int, best: Mapping[str, Any]) -> str | None:
        train = self.config.train
        if train.stop_below is not None and best["loss"] < train.stop_below:
            return "criterion"
        if train.patience is not None and update - best["update"] >= train.patience * train.evaluate_every:
            return "patience"
        if self.annealing.over:
            return "annealed"
        return "updates" if update >= train.updates else None

    def best_variables(self) -> Any:
        """The variables with the lowest validation loss."""
        self.best, variables = by_first(self._best_and_variables)
        return variables

    def _best_and_variables(self) -> tuple[dict[str, Any], Any]:
        try:
            return self.best, self.checkpoints.restore(self.state, self.best["update"]).state.variables
        except Damaged as error:
            where = f"the best checkpoint, of update {self.best['update']}, in {self.checkpoints.path}"
            self.console.warn(f"{self.label}: {where} is damaged ({error}); the result is that of the latest evaluation")
            return self._latest_figures(), self.state.variables

    def _latest_figures(self) -> dict[str, Any]:
        return {name: value for name, value in self._evaluations()[-1].items() if name not in ("seconds", "split")}

    def _evaluations(self) -> list[dict[str, Any]]:
        return [line for line in self.directory.metrics() if line.get("split") == "valid"] or [self.best]

    def finish(self, test: Mapping[str, float]) -> None:
        """Writes `result.json`."""
        self.result = by_first(lambda: self._write_result(test))

    def _write_result(self, test: Mapping[str, float]) -> dict[str, Any]:
        counts = count(self.config.model, self.task.input_size, self.task.output_size)
        result = {
            **self.names,
            "model": self.config.model.label,
            "seed": self.seed,
            "updates": self.update,
            "stopped": self.stopped,
            "seconds": round(self.seconds, 2),
            "parameters": {"true": counts.true, "paper": counts.paper},
            **({"data": dict(self.task.notes)} if self.task.notes else {}),
            "best_update": self.best["update"],
            "metrics": {"valid": self._valid_figures(), "test": dict(test)},
            **describe_devices(),
            "config": to_json(self.config),
        }
        self.directory.write_result(result)
        return result

    def close(self) -> None:
        """Lets go of the directory; the run is over, or will be resumed by another object."""
        self.checkpoints.close()
        self.directory.release()

    def _valid_figures(self) -> dict[str, float]:
        """The figures at the lowest loss, and the highest that each figure was at any evaluation, which is what Table 1 gives."""
        at_best = {name: value for name, value in self.best.items() if name != "update"}
        others = [name for name in at_best if name not in ("loss", *NEITHER_BETTER)]
        extremes = {name: ("lowest", min) if name in BETTER_LOW else ("highest", max) for name in others}
        return at_best | {f"{word}_{name}": best(line[name] for line in self._evaluations()) for name, (word, best) in extremes.items()}
