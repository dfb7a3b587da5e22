"""Runs of a pair of a cell and a parametrization: the search for its learning rate, and the seeds that train with it."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from experiments.fair_crossing.problems import Problem
from lrpt.networks.sequence_model import ModelConfig
from lrpt.parametrizations import FORMS
from lrpt.runs.run_directory import RunDirectory
from lrpt.training.loop import Job

FIRST = 3
"""learning rates that every pair tries"""


@dataclass(frozen=True)
class Plan:
    """Training of the networks of all pairs.

    Attributes:
      rates: learning rates to choose from, in ascending order.
      updates, evaluations: of each network.
      seed: the first seed, which chooses the learning rate.
      seeds: number of seeds.
      workdir: directory of the runs.
    """

    rates: tuple[float, ...]
    updates: int
    evaluations: int
    seed: int
    seeds: int
    workdir: Path


@dataclass(frozen=True)
class Pair:
    """A cell and a parametrization on one task."""

    task: str
    problem: Problem
    model: ModelConfig
    parameters: int
    plan: Plan

    @property
    def names(self) -> dict[str, str]:
        return {"task": self.task, "cell": self.model.cell, "parametrization": self.model.matrices.kind}

    def job(self, rate: float, seed: int) -> Job:
        """Return the run with a learning rate and a seed."""
        config = self.problem.config(self.model, rate, self.plan.updates, self.plan.evaluations)
        return Job(config, seed, self.plan.workdir / f"{'-'.join(self.names.values())}-rate{rate:g}-seed{seed}")

    def search(self) -> list[Job]:
        """Return the runs that choose the learning rate, as far as they are known: more may follow when these have ended."""
        return [self.job(rate, self.plan.seed) for rate in self._tried()]

    def rate(self) -> float | None:
        """Return the learning rate with the lowest validation loss; None if a run of the search has not ended, or if all diverged."""
        losses = {rate: self._loss(rate) for rate in self._tried()}
        known = {rate: loss for rate, loss in losses.items() if loss is not None and math.isfinite(loss)}
        return min(known, key=known.__getitem__) if known and None not in losses.values() else None

    def chosen(self) -> list[Job]:
        """Return the runs of all seeds at the chosen learning rate."""
        rate = self.rate()
        return [] if rate is None else [self.job(rate, self.plan.seed + k) for k in range(self.plan.seeds)]

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield a row for each finished run at the chosen learning rate."""
        stored = self.model.matrices
        sizes = {setting: getattr(stored, setting) for setting in FORMS[stored.kind].settings}
        shared = {**self.names, "size": self.model.size, "sizes": sizes, "parameters": self.parameters, "learning_rate": self.rate()}
        for job in self.chosen():
            if (result := RunDirectory(job.path).result()) is not None:
                score = result["metrics"]["test"][self.problem.score]
                yield {**shared, "seed": job.seed, "score": score, "seconds": result["seconds"]}

    def _tried(self) -> tuple[float, ...]:
        """Return the rates of the search: the middle ones, widened by one at a time while the best one lies at an end."""
        rates = self.plan.rates
        first = max(0, (len(rates) - FIRST) // 2)
        last = min(len(rates), first + FIRST)
        while True:
            losses = [self._loss(rate) for rate in rates[first:last]]
            if None in losses:
                return rates[first:last]
            best = first + int(np.argmin(losses))  # type: ignore[arg-type]
            if best == first > 0:
                first -= 1
            elif best == last - 1 and last < len(rates):
                last += 1
            else:
                return rates[first:last]

    def _loss(self, rate: float) -> float | None:
        """Return the validation loss of the run that tries a rate, infinity if it diverged, None if it has not ended."""
        job = self.job(rate, self.plan.seed)
        if (result := RunDirectory(job.path).result()) is not None:
            return result["metrics"]["valid"]["loss"]
        return math.inf if ended(job) else None


def ended(job: Job) -> bool:
    """Return whether a run is finished, or diverged."""
    directory = RunDirectory(job.path)
    return directory.result() is not None or directory.failure() is not None
