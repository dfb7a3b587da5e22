"""One run: when it stops, what it writes, how it resumes. Its parameters belong to `lrpt.training.trainer.Trainer`."""

import math
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from lrpt.devices.hardware import describe_devices
from lrpt.devices.processes import fail_together, on_primary, primary_first, primary_only
from lrpt.errors import RemoteFailure, UsageError, line_of
from lrpt.metrics import LOWER_IS_BETTER, NEITHER_BETTER
from lrpt.networks.counting import count
from lrpt.optim import RECIPES
from lrpt.parametrizations import FROZEN
from lrpt.runs import named_arrays
from lrpt.runs.checkpoint import Checkpoints, Restored
from lrpt.runs.classes import class_names
from lrpt.runs.configuration import defaults, to_json
from lrpt.runs.console import Console
from lrpt.runs.run_directory import RunDirectory
from lrpt.tasks.task import Task
from lrpt.training import origin
from lrpt.training.annealing import Annealing
from lrpt.training.config import RunConfig
from lrpt.training.ending import has_diverged, reason_to_stop
from lrpt.training.progress import Progress, Tally
from lrpt.training.step import TrainState, init_state


class Run:
    """One training run. Only the primary process touches its directory.

    Args:
      names: 'experiment' and 'preset', as `result.json` records them.
      config: everything that decides its numbers, except the seed.
      seed: decides parameters, data and the order of batches.
      path: the run directory. Nothing is written there before `start`.
      console: gets messages and warnings.

    Attributes:
      progress: best evaluation, training metrics since the last one, annealing, seconds.
      started_from: SHA-256 of the arrays of the start file, if there is one and it was recorded.
      saved, saved_at: the update of the newest checkpoint (0: none) and when it was written.
      stopped: why training stopped, a key of `ENDED`, or None.
      error: the error that ended the run, or None.
      mark: end of its label, if other runs would have the same label.
      latest: metrics of the latest evaluation by split.
      result: the content of `result.json`, once there is one.
    """

    def __init__(self, names: Mapping[str, str], config: RunConfig[Any], seed: int, path: Path, console: Console) -> None:
        self.names, self.config, self.seed, self.path, self.console = dict(names), config, seed, path, console
        directory = RunDirectory(path)
        self.directory = primary_only(directory)
        self.checkpoints = primary_only(Checkpoints(directory.checkpoints, console.warn, directory.identifier))
        self.progress = Progress(Annealing(config.optim))
        self.started_from: str | None = None
        self.saved, self.saved_at = 0, time.monotonic()
        self.stopped: str | None = None
        self.error: UsageError | RemoteFailure | None = None
        self.mark = ""
        self.latest: dict[str, dict[str, float | None]] = {}
        self.result: dict[str, Any] = {}

    @property
    def label(self) -> str:
        """Return the name of the run in the console and in tables."""
        return f"{self.config.model.label} seed {self.seed}{self.mark}"

    @property
    def identity(self) -> dict[str, Any]:
        """Return the content of `config.json`."""
        return {**self.names, "seed": self.seed, **to_json(self.config), **class_names(self.config)}

    @cached_property
    def task(self) -> Task:
        """Return the task of this seed, with the network's own metrics added. The primary process prepares the data first."""
        return primary_first(lambda: self.config.build_task(self.seed))

    @cached_property
    def model(self) -> nn.Module:
        """Return the network for this task."""
        return self.config.model.build(self.task.input_size, self.task.output_size, self.task.reads)

    @property
    def learning_rate(self) -> float:
        """Return the configured learning rate times the factor of annealing."""
        return self.config.optim.rate * self.progress.annealing.factor

    # Start

    def check(self, start: str | None = None) -> None:
        """Check that the directory can hold this run: its configuration and its start arrays.

        Args:
          start: SHA-256 of the start arrays, if their file is still to be written.

        Raises:
          UsageError: the directory holds another run, or files that are damaged.
        """
        self.directory.check(self.identity, defaults(self.config))
        before = self.directory.start_digest()
        if before is not None:
            origin.check_start(self.path, before, start or primary_only(origin).start_digest(self.config.train.start))

    def finished(self) -> bool:
        """Return whether the directory holds a result of this configuration with the number of updates that it asks for.

        If so, it becomes `result`, and the console says that nothing is to be done.

        Raises:
          UsageError: the directory holds another run, or files that are damaged.
        """
        self.check()
        result = self.directory.result()
        if result is None:
            return False
        best = {"update": result["best_update"], "loss": result["metrics"]["valid"]["loss"]}
        below = self.config.train.stop_below
        if below is not None and result["stopped"] != "criterion" and best["loss"] < below and not self._settled(best["update"]):
            best["loss"] = math.inf  # a loss without the final settings meets no criterion
        if result["stopped"] != "annealed" and self._reason_to_stop(result["updates"], best) is None:
            return False
        self._check_file(origin.digests(result.get("data", {})))
        self.result = result
        self.console.say(f"{self.label}: finished already, see {self.path / 'result.json'}")
        return True

    def _check_file(self, before: Mapping[str, str]) -> None:
        """Raise a UsageError if the user's file is no longer the one that a finished run has read.

        A published file is compared with its checksum whenever it is read. A file that is gone is not needed any more.
        """
        file = getattr(self.config.data, "file", None)
        if before and isinstance(file, Path) and on_primary(file.exists):
            origin.check_data(self.path, before, self.task, "name another --workdir")

    def start(self) -> TrainState:
        """Open the directory and return the state of the newest intact checkpoint, or an initial state.

        Raises:
          UsageError: the model or the start file does not fit; the directory is in use, cannot be written, or holds damaged files or
            another run.
        """
        initial = self.initial_state()
        self.directory.lock()
        self.check()  # again: another command may have used the directory since `finished`
        restored = self._restored(initial)
        state = self._resumed(restored) if restored is not None else self._started(initial)
        if "notice" in self.task.metadata:
            self.console.say(f"{self.label}: {self.task.metadata['notice']}")
        update = int(state.update)
        self.directory.open(self.identity, self.started_from)
        self.checkpoints.remove_after(update)
        if self.directory.keep_metrics("" if restored is None else restored.metadata["metrics"]):
            self.console.warn(f"{self.path / 'metrics.jsonl'} is not what this run wrote: restored from the checkpoint of update {update}")
        return state

    def initial_state(self) -> TrainState:
        """Return the state before the first update, on the host."""
        state = init_state(self.model, self.task, self.config.optim.build(), self.seed, self.config.train.batch_size)
        return jax.device_get(jax.block_until_ready(state))  # fetching arrays whose allocation failed would never return

    def _restored(self, initial: TrainState) -> Restored | None:
        """Return the newest intact checkpoint, or None if there is none, with a warning if training got further before.

        Raises:
          UsageError: there is none, but a result, which a start at update 0 would remove.
        """
        found = self.checkpoints.latest(initial)
        result = self.directory.result() if found is None else None
        if result is not None:
            raise UsageError(
                f"{self.path} holds the result of {result['updates']} updates and no checkpoint to resume from: restore its checkpoints, "
                f"remove result.json to start again at update 0, or name another --workdir",
                code=1,
            )
        evaluated = sorted({line["update"] for line in self.directory.metrics()}) if found is None else []
        if len(evaluated) > 1:  # a run that was killed before its first checkpoint may have one evaluation
            self.console.warn(f"{self.path} has metrics up to update {evaluated[-1]} and no checkpoint: starts again at update 0")
        return found

    def _started(self, initial: TrainState) -> TrainState:
        """Return the initial state, with the parameters of the start file if one is given, and with what is frozen."""
        collections = initial.collections or {}
        if self.config.train.start is None:
            if FROZEN in collections:
                raise UsageError(
                    f"{self.config.model.label} adapts a trained network: give its file as train.start, or use experiments.fine_tune"
                )
            return initial
        frozen = {name: tree for name, tree in collections.items() if name == FROZEN}
        found = primary_only(named_arrays).load(self.config.train.start, {**initial.params, **frozen})
        self.started_from = named_arrays.digest(named_arrays.to_named(found))
        params = {name: tree for name, tree in found.items() if name not in frozen}
        opt_state = jax.device_get(self.config.optim.build().init(params))
        return initial._replace(
            params=params, opt_state=opt_state, collections={**collections, **{name: found[name] for name in frozen}} or None
        )

    def _resumed(self, restored: Restored) -> TrainState:
        origin.check_data(self.path, restored.metadata, self.task, "name another --workdir")
        self.progress = Progress.from_metadata(self.config.optim, restored.metadata)
        self.saved, self.started_from = restored.update, self.directory.start_digest()
        if self.progress.is_evaluated:
            self.stopped = self._reason_to_stop(restored.update, self._best_that_counts(restored.update))
            self._check_grid(restored.update)
        self.console.say(f"{self.label}: resumes at update {restored.update}, see {self.path}")
        return restored.state

    def _check_grid(self, update: int) -> None:
        """Raise a UsageError if a longer training would resume from an end between two regular evaluations that counts.

        An uninterrupted run is not evaluated there. In a resumed run, that evaluation would count in patience and halvings.
        """
        train, halve_after = self.config.train, self.config.optim.halve_after
        counts = train.patience is not None or halve_after is not None
        if counts and self.stopped is None and update % train.evaluate_every:
            raise UsageError(
                f"{self.path} ended at update {update}, no multiple of train.evaluate_every = {train.evaluate_every}, and its evaluation "
                f"there would count in patience or halvings: remove its result.json and checkpoints/{update} to resume before it, or "
                f"name another --workdir",
                code=1,
            )

    # While it trains

    @contextmanager
    def failing_alone(self) -> Iterator[None]:
        """Store an error of this run as `error`, so that the other runs go on."""
        try:
            yield
        except (UsageError, RemoteFailure) as error:
            self.error = error

    def trained(self, update: int, metrics: Mapping[str, np.ndarray], seconds: float) -> None:
        """Record the metrics of one compiled call, which ended at `update`.

        Raises:
          UsageError: a loss is not finite or above `DIVERGED`, and the optimizer has no rule for that. The checkpoints stay as they are.
        """
        bad = np.flatnonzero(has_diverged(metrics["loss"]))
        if bad.size and not RECIPES[self.config.optim.recipe].recovers:
            self._give_up("training", update - len(metrics["loss"]) + int(bad[0]) + 1, float(metrics["loss"][bad[0]]))
        self.progress.tally.add(metrics)
        self.progress.seconds += seconds

    def evaluated(self, update: int, metrics: Mapping[str, float], seconds: float, test: Mapping[str, float] | None = None) -> bool:
        """Record an evaluation and decide whether training stops. The caller saves a checkpoint next.

        The best evaluation is the one with the lowest loss among those with final settings of the network, such as the sharpness of masks.
        As long as there is none, it is the latest one. Metrics of the test split, if given, are only recorded.

        Returns:
          Whether the learning rate has changed.

        Raises:
          UsageError: the loss is not finite or above `DIVERGED`, or metrics cannot be written. The checkpoints stay as they are.
        """
        if has_diverged(metrics["loss"]):
            self._give_up("validation", update, metrics["loss"])
        progress = self.progress
        progress.seconds += seconds
        settled = self._settled(update)
        is_lower = np.float32(metrics["loss"]) < np.float32(progress.best["loss"])  # in the precision of `Annealing`
        if is_lower or not (settled and self._settled(progress.best["update"])):
            progress.best = {"update": update, **metrics}
        when = {"update": update, "seconds": round(progress.seconds, 3)}
        self.latest = {"train": {**self._logged(progress.tally.means()), **self._settings(update)}, "valid": dict(metrics)}
        self.latest |= {} if test is None else {"test": dict(test)}
        with _one_line():
            self.directory.append_metrics([{**when, "split": split, **found} for split, found in self.latest.items()])
        progress.tally = Tally()
        halved = settled and progress.annealing.evaluated(metrics["loss"])
        self.stopped = self._reason_to_stop(update, self._best_that_counts(update))
        return halved

    @cached_property
    def _epoch(self) -> int:
        """Return the number of updates in an epoch."""
        return self.task.splits["train"].size // self.config.train.batch_size

    def _settled(self, update: int) -> bool:
        """Return whether update number `update` was made with the final settings of the network."""
        return self.config.model.settled(max(update - 1, 0), self._epoch)

    def _best_that_counts(self, update: int) -> dict[str, Any]:
        """Return the best evaluation so far. Without final settings, no loss meets a criterion."""
        return self.progress.best if self._settled(update) else {**self.progress.best, "loss": math.inf}

    def _settings(self, update: int) -> dict[str, float]:
        """Return the settings of the network in update number `update`."""
        return {name: float(value) for name, value in self.config.model.settings(jnp.int32(update - 1), self._epoch).items()}

    def _logged(self, means: dict[str, float | None]) -> dict[str, float | None]:
        """Return the training metrics as they are logged: summarized by the task, if all of them are numbers."""
        if any(value is None for value in means.values()):
            return means
        return dict(self.task.summarize(means))  # type: ignore[arg-type]

    def _give_up(self, what: str, update: int, loss: float) -> None:
        evaluated = {line["update"] for line in self._evaluations()}
        kept = [saved for saved in self.checkpoints.updates() if saved in evaluated]
        last = "no checkpoint was due yet"
        if kept:
            last = f"the last good checkpoint, of update {kept[0]}, is kept in {self.path / 'checkpoints'}"
        advice = "look for values in the data that are not finite, or start over in another --workdir with a lower --optim.learning-rate"
        self.directory.write_failure(update, f"the {what} loss is {loss}")
        fail_together(UsageError(f"{self.label} in {self.path}: {what} loss is {loss} at update {update}; {last}; {advice}", code=1))

    def save(self, state: TrainState) -> None:
        """Write a checkpoint.

        Raises:
          UsageError: the disk is full or not writable. Earlier checkpoints stay.
        """
        metadata = {**self.progress.to_metadata(), "metrics": self.directory.metrics_text()}
        metadata |= origin.digests(self.task.metadata)
        self.saved, self.saved_at = int(state.update), time.monotonic()
        with _one_line():
            self.checkpoints.save(self.saved, state, metadata, self.progress.best["update"])

    @property
    def is_due(self) -> bool:
        """Return whether a checkpoint is overdue by the clock."""
        return time.monotonic() - self.saved_at > 60 * self.config.train.checkpoint_minutes

    def _reason_to_stop(self, update: int, best: Mapping[str, Any]) -> str | None:
        return reason_to_stop(self.config.train, update, best, annealed=self.progress.annealing.over)

    # The end

    def best_variables(self, state: TrainState) -> Any:
        """Return the variables with the lowest validation loss.

        Args:
          state: the current state. If the best checkpoint is damaged, its variables are returned with a warning, and the latest evaluation
            becomes the best one.
        """
        otherwise = f"the result of {self.label} is that of the latest evaluation, not of the best"
        restored = self.checkpoints.restore_best(state, self.progress.best["update"], otherwise)
        if restored is None:
            latest = self._evaluations()[-1]
            self.progress.best = {name: value for name, value in latest.items() if name not in ("seconds", "split")}
        return (state if restored is None else restored.state).variables

    def finish(self, update: int, test: Mapping[str, float]) -> None:
        """Write `result.json`.

        Raises:
          UsageError: the test loss is not finite or above `DIVERGED`.
        """
        if has_diverged(test["loss"]):
            self._give_up("test", update, test["loss"])
        if not self._settled(self.progress.best["update"]):
            self.console.warn(
                f"{self.label}: training ended before the settings of the network were final, such as the sharpness of masks; the result "
                f"is that of the latest evaluation"
            )
        counts = count(self.config.model, self.task.input_size, self.task.output_size)
        self.result = self.directory.write_result(
            {
                **self.names,
                "model": self.config.model.label,
                "seed": self.seed,
                "updates": update,
                "stopped": self.stopped,
                "seconds": round(self.progress.seconds, 2),
                "parameters": {"true": counts.true, "paper": counts.paper},
                **({"data": dict(self.task.metadata)} if self.task.metadata else {}),
                "best_update": self.progress.best["update"],
                "metrics": {"valid": self._validation(), "test": dict(test)},
                **describe_devices(),
                "config": to_json(self.config),
            }
        )

    def close(self) -> None:
        """Release the directory."""
        self.directory.release()

    def _evaluations(self) -> list[dict[str, Any]]:
        return [line for line in self.directory.metrics() if line.get("split") == "valid"] or [self.progress.best]

    def _validation(self) -> dict[str, float]:
        """Return the metrics at the lowest loss, and the best value of each metric of quality in any evaluation with final settings."""
        at_best = self.progress.best_metrics
        others = [name for name in at_best if name not in ("loss", *NEITHER_BETTER)]
        extremes = {name: ("lowest", min) if name in LOWER_IS_BETTER else ("highest", max) for name in others}
        evaluations = [line for line in self._evaluations() if self._settled(line["update"])] or [self.progress.best]
        return at_best | {f"{word}_{name}": best(_known(evaluations, name)) for name, (word, best) in extremes.items()}


def _known(lines: list[dict[str, Any]], name: str) -> list[float]:
    """Return a metric of all evaluations where it was known and finite."""
    return [value for line in lines if math.isfinite(value := line.get(name, math.nan))] or [math.nan]


@contextmanager
def _one_line() -> Iterator[None]:
    """Turn an error of the disk into a UsageError, which ends this run only."""
    try:
        yield
    except OSError as error:
        raise UsageError(line_of(error), code=1) from error
