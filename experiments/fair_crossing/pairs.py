"""Runs of a pair of a cell and a parametrization: the search for its learning rate, and the seeds that train with it."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from experiments.fair_crossing.options import Options
from experiments.fair_crossing.problems import Problem
from experiments.fair_crossing.sizes import Size
from lrpt.networks.sequence_model import ModelConfig
from lrpt.parametrizations import FORMS
from lrpt.runs.run_directory import RunDirectory
from lrpt.training.loop import Job

FIRST = 3
"""learning rates that every pair tries"""


@dataclass(frozen=True)
class TunedPair:
    """A cell and a parametrization on one task, which train at the learning rate that is the best for them."""

    options: Options
    task: str
    problem: Problem
    model: ModelConfig
    size: Size

    @property
    def names(self) -> dict[str, str]:
        return {"task": self.task, "cell": self.model.cell, "parametrization": self.model.matrices.kind}

    def job(self, rate: float, seed: int) -> Job:
        """Return the run with a learning rate and a seed."""
        config = self.problem.config(self.model, rate, self.options.updates, self.options.evaluations)
        return Job(config, seed, self.options.workdir / f"{'-'.join(self.names.values())}-rate{rate:g}-seed{seed}")

    def search(self) -> list[Job]:
        """Return the runs that choose the learning rate, as far as they are known: more may follow when these have ended."""
        return [self.job(rate, self.options.seed) for rate in self._losses()]

    def rate(self) -> float | None:
        """Return the rate with the lowest validation loss; None if a run of the search has not ended, or if all rates diverged."""
        losses = self._losses()
        known = {rate: loss for rate, loss in losses.items() if loss is not None and math.isfinite(loss)}
        return min(known, key=known.__getitem__) if known and None not in losses.values() else None

    def chosen(self) -> list[Job]:
        """Return the runs of all seeds at the chosen learning rate."""
        rate = self.rate()
        return [] if rate is None else [self.job(rate, self.options.seed + k) for k in range(self.options.seeds)]

    def missing(self) -> list[Job]:
        """Return the runs that have to end before more is known: those of the search, then those of all seeds at the chosen rate."""
        return [job for job in self.search() if not ended(job)] or [job for job in self.chosen() if not ended(job)]

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield a row for each finished run at the chosen learning rate."""
        stored = self.model.matrices
        sizes = {setting: getattr(stored, setting) for setting in FORMS[stored.kind].settings}
        shared = {**self.names, "size": self.model.size, "sizes": sizes, "parameters": self.size.parameters}
        if self.size.time is not None:
            shared["time"] = self.size.time
        for job in self.chosen():
            if (result := RunDirectory(job.path).result()) is not None:
                score, rate = result["metrics"]["test"][self.problem.score], job.config.optim.learning_rate
                yield {**shared, "learning_rate": rate, "seed": job.seed, "score": score, "seconds": result["seconds"]}

    def _losses(self) -> dict[float, float | None]:
        """Return the losses of the rates of the search: the middle ones, widened by one at a time while the best one lies at an end."""
        rates = sorted(self.options.rates)
        first = max(0, (len(rates) - FIRST) // 2)
        last = min(len(rates), first + FIRST)
        losses = {rate: self._loss(rate) for rate in rates[first:last]}
        while None not in losses.values():
            best = min(losses, key=losses.__getitem__)  # type: ignore[arg-type]
            if best == rates[first] and first > 0:
                first -= 1
                losses[rates[first]] = self._loss(rates[first])
            elif best == rates[last - 1] and last < len(rates):
                losses[rates[last]] = self._loss(rates[last])
                last += 1
            else:
                break
        return losses

    def _loss(self, rate: float) -> float | None:
        """Return the validation loss of the run that tries a rate, infinity if any seed diverged at that rate, None if it has not ended."""
        runs = [RunDirectory(self.job(rate, self.options.seed + k).path) for k in range(self.options.seeds)]
        if any(run.divergence() is not None for run in runs):
            return math.inf
        result = runs[0].result()
        return None if result is None else result["metrics"]["valid"]["loss"]


def ended(job: Job) -> bool:
    """Return whether a run is finished, or diverged."""
    directory = RunDirectory(job.path)
    return directory.result() is not None or directory.failure() is not None
