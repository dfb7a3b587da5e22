"""One run while it trains: what it records, saves and resumes. Its parameters belong to `lrpt.training.trainer.Trainer`."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from lrpt.devices.processes import fail_together, on_primary
from lrpt.errors import RemoteFailure, UsageError, line_of
from lrpt.metrics import GRADIENT_NORM
from lrpt.optim import recoveries
from lrpt.runs import user_code
from lrpt.runs.checkpoint import Checkpoints, Restored
from lrpt.runs.console import Console
from lrpt.runs.layout import METRICS, RESULT
from lrpt.runs.run_directory import RunDirectory
from lrpt.training import origin, starting
from lrpt.training.annealing import Annealing
from lrpt.training.config import RunConfig
from lrpt.training.interface import Interface, description
from lrpt.training.progress import Progress
from lrpt.training.result import result_of
from lrpt.training.selection import has_diverged
from lrpt.training.setup import Setup
from lrpt.training.step import TrainState, evaluated_variables


class Run(Setup):
    """One training run. Only the primary process touches its directory.

    Args:
      names, config, seed, path: as for `Setup`. Nothing is written to the run directory before `start`.
      console: gets messages and warnings.

    Attributes:
      progress: best evaluation, training metrics since the last one, annealing, seconds.
      started_from: SHA-256 of the arrays of the start file, if there is one and it was recorded.
      saved, saved_at: the update of the newest checkpoint (0: none) and when it was written.
      stopped: why training stopped, a key of `ENDED`, or None.
      error: the error that ended the run, or None.
      latest: metrics of the latest evaluation by split.
      result: the content of `result.json`, once there is one.
      recovers: whether the optimizer has a rule for gradients that are not finite.
      has_warned: whether it has warned of gradients whose norm is not finite.
    """

    def __init__(self, names: Mapping[str, str], config: RunConfig[Any], seed: int, path: Path, console: Console) -> None:
        super().__init__(names, config, seed, path)
        self.console, self.directory = console, RunDirectory(path)
        self.checkpoints = Checkpoints(self.directory.checkpoints, self._warn, self.directory.identifier)
        self.progress = Progress(Annealing(config.optim))
        self.started_from: str | None = None
        self.saved, self.saved_at = 0, time.monotonic()
        self.stopped: str | None = None
        self.error: UsageError | RemoteFailure | None = None
        self.latest: dict[str, dict[str, float | None]] = {}
        self.result: dict[str, Any] = {}
        self.has_warned = False
        self.recovers = False
        self.recovered = 0
        self.is_summarized = False

    @property
    def learning_rate(self) -> float:
        """Return the configured learning rate times the factor of annealing."""
        return self.config.optim.initial_learning_rate * self.progress.annealing.factor

    def _warn(self, message: str) -> None:
        on_primary(self.console.warn, message)

    # Start

    def check(self, start: str | None = None) -> None:
        """Check that the directory can hold this run: see `lrpt.training.starting.check`."""
        on_primary(starting.check, self, self.directory, start)

    def finished(self) -> bool:
        """Return whether the directory holds a result of this configuration with the number of updates that it asks for.

        If so, it becomes `result`, and the console says that nothing is to be done.

        Raises:
          UsageError: the directory holds another run, or files that are damaged.
        """
        self.check()
        result = on_primary(self.directory.result)
        if result is None or not starting.is_complete(self, result):
            return False
        starting.check_file(self, result)
        self._warn_of_changes("its result is of the old code")
        self.result = result
        on_primary(self.console.note, f"{self.label}: finished already, see {self.path / RESULT}")
        return True

    def start(self) -> TrainState:
        """Open the directory and return the state of the newest intact checkpoint, or an initial state.

        Raises:
          UsageError: the model or the start file does not fit; the directory is in use, cannot be written, or holds damaged files or
            another run.
        """
        on_primary(self.directory.lock)  # first, because the initial state takes seconds to compile
        initial = self.initial_state()
        self.recovers = recoveries(initial.opt_state) is not None
        self.check()  # again: another command may have used the directory since `finished`
        restored = on_primary(starting.newest_checkpoint, self.directory, self.checkpoints, initial, self._warn)
        if restored is None:
            state, self.started_from = starting.with_start_file(self, initial)
        else:
            state = self._resumed(restored)
        if "notice" in self.task.metadata:
            self.console.say(f"{self.label}: {self.task.metadata['notice']}")
        update, self.recovered = int(state.update), int(recoveries(state.opt_state) or 0)
        on_primary(self.directory.open, self.identity, self.started_from, self._user_code)
        with _one_line(), suppress(TypeError, ValueError, AttributeError):  # a task of the user's may not be one for JSON
            on_primary(self.directory.write_task, description(Interface.of(self.task), self.task.vocabulary))
        on_primary(self.checkpoints.remove_after, update)
        if on_primary(self.directory.keep_metrics, "" if restored is None else restored.metadata["metrics"]):
            self._warn(f"{self.path / METRICS} is not what this run wrote: restored from the checkpoint of update {update}")
        return state

    def _resumed(self, restored: Restored) -> TrainState:
        """Take the progress from a checkpoint. Return its state."""
        self._warn_of_changes(f"its first {restored.update:,} updates are of the old code")
        origin.check_data(self.path, restored.metadata, self.task, "name another --workdir")
        self.progress = Progress.from_metadata(self.config.optim, restored.metadata)
        self.saved, self.started_from = restored.update, on_primary(self.directory.start_digest)
        if self.progress.is_evaluated:
            self.stopped = self._reason_to_stop(restored.update)
            if self.stopped is None:
                starting.check_grid(self, restored.update)
        self.console.say(f"{self.label}: resumes at update {restored.update}, see {self.path}")
        return restored.state

    @cached_property
    def _user_code(self) -> dict[str, str]:
        return user_code.digests_of(self.config)

    def _warn_of_changes(self, consequence: str) -> None:
        """Warn if the user's own code has changed since the run was trained. What it changes is the user's to judge."""
        names = user_code.changed(on_primary(self.directory.user_code), self._user_code)
        if names:
            what = f"{user_code.in_words(names)} since {self.path} was trained"
            self._warn(f"{what}: {consequence}; name another --workdir to train with the new code")

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
          UsageError: a loss is not finite, or at least `LARGEST_LOSS`, and the optimizer has no rule for it. The checkpoints stay.
            Or the task does not have the metric that selects the best evaluation.
        """
        bad = np.flatnonzero(self._are_bad(metrics))
        if bad.size:
            self._give_up("training", update - len(metrics["loss"]) + int(bad[0]) + 1, float(metrics["loss"][bad[0]]))
        self.progress.tally.add(metrics)
        if not self.is_summarized:
            self._check_summary(metrics)
        self.progress.seconds += seconds

    def _check_summary(self, metrics: Mapping[str, np.ndarray]) -> None:
        """Raise a UsageError after the first updates if the task summarizes wrongly, or lacks the metric of `train.select`."""
        self._training_metrics()
        if self.config.train.select != "loss":  # `summarize` of the task adds metrics to those of an update
            self.selection.check(self.task.summarize(dict.fromkeys(metrics, 1.0)).keys())
        self.is_summarized = True

    def _are_bad(self, metrics: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return which updates have a loss that ends the run.

        With a recipe that recovers these are updates with the loss NaN whose gradient was finite, so that nothing was recovered: a label
        that is no class has such a loss.
        """
        if not self.recovers:
            return np.asarray(has_diverged(metrics["loss"]))
        counts = np.concatenate([[self.recovered], metrics["recoveries"]])
        self.recovered = int(counts[-1])
        return np.isnan(metrics["loss"]) & (np.diff(counts) == 0)

    def evaluated(self, update: int, metrics: Mapping[str, float], seconds: float, test: Mapping[str, float] | None = None) -> bool:
        """Record an evaluation and decide whether training stops. The caller saves a checkpoint next.

        Metrics of the test split, if given, are only recorded.

        Returns:
          Whether the learning rate has changed.

        Raises:
          UsageError: the loss is not finite, or at least `LARGEST_LOSS`, or metrics cannot be written. The checkpoints stay as they are.
        """
        if has_diverged(metrics["loss"]):
            self._give_up("validation", update, metrics["loss"])
        self.progress.seconds += seconds
        when = {"update": update, "seconds": round(self.progress.seconds, 3)}
        self.latest = {"train": {**self._training_metrics(), **self._settings(update)}, "valid": dict(metrics)}
        self.latest |= {} if test is None else {"test": dict(test)}
        with _one_line():
            on_primary(self.directory.append_metrics, [{**when, "split": split, **found} for split, found in self.latest.items()])
        self._warn_of_overflow(update)
        has_changed = self.progress.evaluated(update, metrics, self.selection)
        self.stopped = self._reason_to_stop(update)
        return has_changed

    def _settings(self, update: int) -> dict[str, float]:
        """Return the learning rate and the settings of the network in update number `update`."""
        rate = self.config.optim.decayed(self.learning_rate, jnp.int32(update - 1), self.selection.epoch)
        return {"learning_rate": float(rate), **self.selection.settings(update)}

    def _warn_of_overflow(self, update: int) -> None:
        """Warn once if no gradient since the last evaluation had a finite norm, and the optimizer has no rule for that."""
        overflows = self.latest["train"].get(GRADIENT_NORM, 0.0) is None
        if overflows and not self.has_warned and not self.recovers:
            self.has_warned = True
            warning = (
                f"{self.label}: at update {update}, the norm of no gradient since the last evaluation is finite. A recipe that clips by "
                f"norm learns nothing from such gradients: choose one with recovery, or a lower --optim.learning-rate"
            )
            self._warn(warning)

    def _training_metrics(self) -> dict[str, float | None]:
        """Return the training metrics as the log has them: summarized by the task, with None for a gradient norm that was never finite.

        If a metric of the task or of the network was never finite, the means are returned, because nothing can be summarized.
        """
        means = self.progress.tally.means()
        known = {name: value for name, value in means.items() if value is not None}
        unknown = dict.fromkeys(name for name in means if name not in known)
        if known and all(name.startswith(GRADIENT_NORM) for name in unknown):
            return {**self.task.summary(known), **unknown}
        return means

    def _reason_to_stop(self, update: int) -> str | None:
        return self.selection.reason_to_stop(update, self.progress.best, annealed=self.progress.annealing.over)

    def _give_up(self, what: str, update: int, loss: float) -> None:
        """Raise the error of a loss that is not finite or too large, and record it for reports."""
        last = on_primary(self._last_good_checkpoint)
        advice = (
            "look for values in the data that are not finite and for labels that are no class, or start over in another --workdir with a "
            "lower --optim.learning-rate"
        )
        on_primary(self.directory.write_failure, update, f"the {what} loss is {loss}")
        fail_together(UsageError(f"{self.label} in {self.path}: {what} loss is {loss} at update {update}; {last}; {advice}", code=1))

    def _last_good_checkpoint(self) -> str:
        """Return where the newest checkpoint of an evaluation is, in words."""
        evaluated = {line["update"] for line in self._evaluations()}
        good = next((update for update in self.checkpoints.updates() if update in evaluated), None)
        if good is None:
            return "no checkpoint was due yet"
        return f"the last good checkpoint, of update {good}, is kept in {self.path / 'checkpoints'}"

    def _evaluations(self) -> list[dict[str, Any]]:
        return [line for line in self.directory.metrics() if line.get("split") == "valid"] or [self.progress.best]

    # Checkpoints

    def save(self, state: TrainState) -> None:
        """Write a checkpoint.

        Raises:
          UsageError: the disk is full or not writable. Earlier checkpoints stay.
        """
        metadata = {**self.progress.to_metadata(), "metrics": on_primary(self.directory.metrics_text)}
        metadata |= origin.digests(self.task.metadata)
        self.saved, self.saved_at = int(state.update), time.monotonic()
        with _one_line():
            on_primary(self.checkpoints.save, self.saved, state, metadata, self.progress.best["update"])
            on_primary(self.directory.record_user_code, self._user_code)

    @property
    def is_due(self) -> bool:
        """Return whether a checkpoint is overdue by the clock."""
        return time.monotonic() - self.saved_at > 60 * self.config.train.checkpoint_minutes

    def variables(self, state: TrainState) -> dict[str, Any]:
        """Return the variables that are evaluated and kept."""
        return evaluated_variables(self.config.optim, state)

    def best_state(self, state: TrainState) -> TrainState:
        """Return the state with the best validation metric: the lowest loss, unless the configuration selects by another one.

        Args:
          state: the current state. If the best checkpoint is damaged, it is returned with a warning, and the latest evaluation becomes the
            best one.
        """
        otherwise = f"the result of {self.label} is that of the latest evaluation, not of the best"
        restored = on_primary(self.checkpoints.restore_best, state, self.progress.best["update"], otherwise)
        if restored is None:
            latest = on_primary(self._evaluations)[-1]
            self.progress.best = {name: value for name, value in latest.items() if name not in ("seconds", "split")}
        return state if restored is None else restored.state

    # The end

    def finish(self, update: int, test: Mapping[str, float]) -> None:
        """Write `result.json`.

        Raises:
          UsageError: the test loss is not finite, or at least `LARGEST_LOSS`.
        """
        if has_diverged(test["loss"]):
            self._give_up("test", update, test["loss"])
        if not self.selection.counts(self.progress.best["update"]):
            self._warn(
                f"{self.label}: training ended before the settings of the network were final, such as the sharpness of masks; the result "
                f"is that of the latest evaluation"
            )
        result = result_of(self, self.progress, update, self.stopped, on_primary(self._evaluations), test)
        self.result = on_primary(self.directory.write_result, result)

    def close(self) -> None:
        """Release the directory."""
        on_primary(self.directory.release)


@contextmanager
def _one_line() -> Iterator[None]:
    """Turn an error of the disk into a UsageError, which ends this run only."""
    try:
        yield
    except OSError as error:
        raise UsageError(line_of(error), code=1) from error
