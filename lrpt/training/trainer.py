"""The owner of the state: parameters, optimizer states and position of runs that train side by side on the devices."""

import time
from collections.abc import Mapping, Sequence
from typing import TypeVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from lrpt.devices import parallel, processes
from lrpt.runs.console import Bar, Console
from lrpt.runs.signals import Interrupted, StopRequests
from lrpt.tasks.order import batch_indices
from lrpt.training.observers import Closing, Evaluation, Observer
from lrpt.training.program import Program
from lrpt.training.run import Run
from lrpt.training.step import TrainState

T = TypeVar("T")


class Trainer:
    """Training of runs of one program that are at the same update.

    A program for one device and a program for several round differently. So copies of the last run fill the places of the layout that no
    run needs. The numbers of a run then do not depend on the other runs, which may be different ones after a resume.

    Args:
      program: the compiled functions.
      states: the state of each run, on the host; at most one run for each model of the program's layout.
      observers: called on the primary process after each evaluation.

    Attributes:
      update: the number of updates that all runs have made.
    """

    def __init__(self, program: Program, states: Mapping[Run, TrainState], observers: Sequence[Observer] = ()) -> None:
        self.observers = observers
        self.program, self.layout, self.runs = program, program.layout, list(states)
        self.config = self.runs[0].config.train
        self.update = int(next(iter(states.values())).update)
        self._train_arrays = self._place_arrays("train")
        self._valid_arrays = self._place_arrays("valid")
        self._test_arrays = self._place_arrays("test") if self.config.test_each else None
        self._place(list(states.values()))

    def train(self, until: float, console: Console, stop: StopRequests) -> dict[Run, TrainState]:
        """Train until a run finishes or fails, or up to the update `until`. Write the results of finished runs.

        Returns:
          The state of each run, on the host.

        Raises:
          Interrupted: a signal was received; the checkpoints are written.
          UsageError: a signal was received, and a checkpoint cannot be written.
        """
        title = ", ".join(run.label for run in self.runs)
        with console.bar(title, self.config.updates, self.update) as bar:
            while not any(run.stopped or run.error for run in self.runs) and self.update < until:
                self._save_if_due(stop)
                if self.update < self.config.updates:
                    self._train_call(bar)
                if self._at_evaluation():
                    self._evaluate(bar)
        if not any(run.error for run in self.runs):
            self._save_if_due(stop)
            self._finish()
            self._save_if_due(stop)
        self._close_observers()
        return dict(zip(self.runs, self.states(), strict=True))

    def _train_call(self, bar: Bar) -> None:
        """Make the updates of one call."""
        start = time.monotonic()
        count = self._next_boundary() - self.update
        indices = parallel.shard_batch(self.layout, self._filled([self._indices(run, count) for run in self.runs]))
        self._state, metrics = self.program.train(self._state, self._train_arrays, indices, self._learning_rates)
        self.update += count
        fetched = parallel.fetch(self.layout, metrics)[: len(self.runs)]
        seconds = time.monotonic() - start
        for run, own in zip(self.runs, fetched, strict=True):
            with run.failing_alone():
                run.trained(self.update, own, seconds)
        bar.advance(self.update, float(fetched[0]["loss"][-1]))

    def _evaluate(self, bar: Bar) -> None:
        """Evaluate all runs on the validation split, and on the test split if asked to. Save a checkpoint of each."""
        start = time.monotonic()
        variables = self.program.evaluated(self._state)
        found = self._summarized(self.program.valid(variables, self._valid_arrays))
        tested: Sequence[dict[str, float] | None] = [None] * len(self.runs)
        if self._test_arrays is not None:
            tested = self._summarized(self.program.test(variables, self._test_arrays))
        seconds = time.monotonic() - start
        states, changed = self.states(), False
        for i, (run, metrics, test) in enumerate(zip(self.runs, found, tested, strict=True)):
            if run.error is not None:
                continue
            with run.failing_alone():
                if run.evaluated(self.update, metrics, seconds, test):
                    states[i], changed = self._annealed(run, states[i]), True
                run.save(states[i])
                bar.evaluated(self.update, run.label, metrics)
                self._tell(run, states[i])
        if changed:
            self._place(states)

    def _tell(self, run: Run, state: TrainState) -> None:
        """Tell the observers of the evaluation that a run has just recorded."""
        if not (self.observers and processes.is_primary()):
            return
        evaluation = Evaluation(run.path, run.label, self.update, run.latest, run.task, run.model, run.variables(state))
        for observer in self.observers:
            observer.evaluated(evaluation)

    def _close_observers(self) -> None:
        """Let the observers close what they hold open for runs that have finished or failed."""
        for observer in self.observers if processes.is_primary() else ():
            for run in self.runs:
                if isinstance(observer, Closing) and (run.result or run.error):
                    observer.ended(run.path)

    def _annealed(self, run: Run, state: TrainState) -> TrainState:
        """Return the state from which training continues with a lower learning rate: this one, or the best one if the recipe says so."""
        if not run.config.optim.return_to_best:
            return state
        best = run.best_state(state)
        return state._replace(params=best.params, collections=best.collections)

    def _finish(self) -> None:
        """Evaluate the best parameters of finished runs on the test split and write their results."""
        if not any(run.stopped for run in self.runs):
            return
        for run, metrics in zip(self.runs, self._test(), strict=True):
            if run.stopped:
                with run.failing_alone():
                    run.finish(self.update, metrics)

    def _test(self) -> list[dict[str, float]]:
        """Return the test metrics of each run, for stopped ones with the parameters that were best on the validation split."""
        if all(run.task.splits["test"] is run.task.splits["valid"] for run in self.runs):
            return [run.progress.best_metrics for run in self.runs]
        kept = [run.best_state(state) if run.stopped else state for run, state in zip(self.runs, self.states(), strict=True)]
        best = [run.variables(state) for run, state in zip(self.runs, kept, strict=True)]
        placed = parallel.place(self.layout, self._filled(best))
        return self._summarized(self.program.test(placed, self._place_arrays("test")))

    def _summarized(self, means: Sequence[Mapping[str, float]]) -> list[dict[str, float]]:
        """Return the reported metrics of each run, by its own task: the tasks of different seeds may have different units."""
        return [run.task.summary(own) for run, own in zip(self.runs, means, strict=False)]  # filled up to the number of devices

    def _save_if_due(self, stop: StopRequests) -> None:
        """Write checkpoints if a process received a signal or a checkpoint is overdue by the clock. After a signal, raise Interrupted."""
        due = any(run.is_due for run in self.runs)
        number, due = divmod(processes.highest(2 * (stop.received or 0) + due), 2)
        if not (number or due):
            return
        for run, state in zip(self.runs, self.states(), strict=True):
            if run.saved != self.update:
                with run.failing_alone():
                    run.save(state)
        if number:
            failed = next((run.error for run in self.runs if run.error is not None), None)
            raise Interrupted(number, self.update) if failed is None else failed

    # The state on the devices

    def states(self) -> list[TrainState]:
        """Return the state of each run, on the host."""
        states = parallel.fetch(self.layout, self._state._replace(carry=None))
        carries = parallel.gather(self.layout, self._state.carry)
        return [state._replace(carry=carry) for state, carry in zip(states, carries, strict=True)][: len(self.runs)]

    def _place(self, states: list[TrainState]) -> None:
        """Put states and learning rates on the devices."""
        self._learning_rates = parallel.place(self.layout, self._filled([jnp.float32(run.learning_rate) for run in self.runs]))
        states = self._filled(states)
        placed = parallel.place(self.layout, [state._replace(carry=None) for state in states])
        self._state = placed._replace(carry=parallel.scatter(self.layout, [state.carry for state in states]))

    def _place_arrays(self, split: str) -> PyTree:
        return parallel.place(self.layout, self._filled([run.task.splits[split].arrays for run in self.runs]))

    def _filled(self, items: list[T]) -> list[T]:
        return items + items[-1:] * (self.layout.models - len(items))

    # The position

    def _next_boundary(self) -> int:
        """Return the end of the next call: a function of the update alone, so that a resumed run makes the same calls."""
        n, since = self.program.updates_per_call, self.update % self.config.evaluate_every
        return min(self.update - since + min(since - since % n + n, self.config.evaluate_every), self.config.updates)

    def _at_evaluation(self) -> bool:
        return self.update % self.config.evaluate_every == 0 or self.update >= self.config.updates

    def _indices(self, run: Run, count: int) -> np.ndarray:
        train = run.task.splits["train"]
        return batch_indices(self.config.order, train.size, self.config.batch_size, run.seed, self.update, count, train.lengths)
