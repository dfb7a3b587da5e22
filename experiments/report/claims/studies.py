"""Relations between models of studies, whose runs are kept in one JSON object and not in run directories."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from experiments.jsb.swarm import CONSTANT
from experiments.report.claims.contests import Configs, are_over, by_divergence, undecided
from experiments.report.claims.matching import recorded
from experiments.report.claims.pairs import Pair, compared
from experiments.report.claims.relations import Source
from experiments.report.claims.rows import EPOCHS, Evidence, Planned, StudyModel, ended_by_cap
from experiments.report.kept.lattice_studies import norms_of, scale_of
from experiments.report.kept.records import Record


@dataclass(frozen=True)
class Score:
    """Metric that compares models of a study; lower is better.

    Attributes:
      name: what it is, with its unit.
      field: as the JSON object names it.
      form: format string.
      best: whether the metric depends on which evaluation was the best.
    """

    name: str
    field: str
    form: str
    best: bool = True

    def compare(self, better: Record, worse: Record, configs: Configs, strict: bool) -> Pair:
        """Compare two run directories of one seed by the same score. Only the loss after one epoch is known before the end of both."""
        values = self._read(better), self._read(worse)
        known = self.field == FIRST_EPOCH or are_over(configs, better, worse)
        if known and values[0] is not None and values[1] is not None:
            return compared(better.seed, values[1] - values[0], strict)
        return by_divergence(better, worse, configs) or undecided(better.seed)

    def _read(self, run: Record) -> float | None:
        epoch = recorded(run)["train.evaluate_every"]
        if self.field == FIRST_EPOCH:
            losses = [line["loss"] for line in run.metrics if (line["split"], line["update"]) == ("test", epoch)]
            return next(filter(math.isfinite, losses), None)
        return run.best_update / epoch if self.field == EPOCHS else run.tested(self.field)


FIRST_EPOCH = "loss_after_one_epoch"


LOSS = Score("test loss (nats per character)", "loss", "{:.3f}")
TIME = Score("epochs until the lowest validation loss", EPOCHS, "{:.1f}")
FALL = Score("smallest decrease of the test loss from one share of the data to the next (nats per character)", "loss", "{:.3f}")
SPREAD = Score("difference of test losses (nats per character)", "loss", "{:.3f}")
ONE_EPOCH = Score("test loss after one epoch (nats per character)", FIRST_EPOCH, "{:.3f}")


class _StudySource(Source[Score]):
    """Runs of a study of `experiments.lattice`, which that command makes with `flags`."""

    flags: str

    def planned(self, seeds: Sequence[int]) -> list[Planned]:
        """Return the study."""
        return [Planned("lattice", self.flags, tuple(seeds))]


class _UpToACap(_StudySource):
    """Comparisons of runs that the cap on epochs of a study may have ended."""

    def cut(self, contest: Score, evidence: Evidence) -> str:
        """Return how many seeds the cap on epochs leaves open."""
        pairs = self.pairs(contest, evidence, strict=False)
        return f"the cap on epochs leaves {sum(not pair.settled for pair in pairs)} of {len(pairs)} seeds open"


@dataclass(frozen=True)
class OfStudy(_UpToACap):
    """Two models of a study of `experiments.lattice`.

    Attributes:
      better: the one that the paper calls better.
      worse: the other.
      flags: of `experiments.lattice`, the command that makes the study.
    """

    better: StudyModel
    worse: StudyModel
    flags: str

    def pairs(self, contest: Score, evidence: Evidence, strict: bool) -> list[Pair]:
        """Return one pair for each seed that both have."""
        one, other = (
            {seed: run for seed, run in model.runs(evidence).items() if run.get(contest.field) is not None}
            for model in (self.better, self.worse)
        )
        return [self._pair(contest, one[seed], other[seed], evidence, strict) for seed in sorted(one.keys() & other.keys())]

    def _pair(self, contest: Score, one: Mapping[str, Any], other: Mapping[str, Any], evidence: Evidence, strict: bool) -> Pair:
        """Compare two runs. It is too early to say who is better if the cap on epochs ended one that might still change that."""
        advantage = other[contest.field] - one[contest.field]
        study = evidence.studies[self.better.study]
        capped = [ended_by_cap(run, study) for run in (one, other)] if contest.field in (EPOCHS, LOSS.field) else [False, False]
        if contest.field == EPOCHS and all(capped):
            return undecided(one["seed"])
        pair = compared(one["seed"], advantage, strict, bound=contest.field == EPOCHS and any(capped))
        ahead, behind = capped if advantage > 0 else capped[::-1]
        open_ended = ahead if contest.field == EPOCHS else behind
        return pair._replace(agrees=None, settled=False) if open_ended else pair

    def smaller(self, evidence: Evidence) -> str:
        """Return what is smaller than published."""
        return scale_of(evidence.studies[self.better.study], self.better.start)


@dataclass(frozen=True)
class AmongModels(_UpToACap):
    """Several runs of each seed of a study of `experiments.lattice`, of whose test losses the paper says something.

    Attributes:
      models: all that are read; a seed that one of them lacks is left out.
      measure: a value above 0 if the losses, in the order of `models`, are as the paper says.
      flags: of `experiments.lattice`, the command that makes the study.
    """

    models: tuple[StudyModel, ...]
    measure: Callable[[Sequence[float]], float]
    flags: str

    def pairs(self, contest: Score, evidence: Evidence, strict: bool) -> list[Pair]:
        """Return one pair for each seed that all models have. It is too early to say if the cap on epochs ended one of them."""
        found = [model.runs(evidence) for model in self.models]
        seeds = sorted(set.intersection(*(set(runs) for runs in found)))
        return [self._pair(contest, [runs[seed] for runs in found], evidence, strict) for seed in seeds]

    def _pair(self, contest: Score, runs: Sequence[Mapping[str, Any]], evidence: Evidence, strict: bool) -> Pair:
        pair = compared(runs[0]["seed"], self.measure([run[contest.field] for run in runs]), strict)
        study = evidence.studies[self.models[0].study]
        return pair._replace(agrees=None, settled=False) if any(ended_by_cap(run, study) for run in runs) else pair

    def smaller(self, evidence: Evidence) -> str:
        """Return what is smaller than published."""
        return self.models[0].scale(evidence)


CONCENTRATION = Score("powers of ten between gradient norms of the last and the first three layers, mean of epochs", "norms", "{:.2f}")
MAGNITUDE = Score("powers of ten of gradient norms, mean of layers and epochs", "norms", "{:.2f}")


@dataclass(frozen=True)
class Gradients(_StudySource):
    """Comparison of two models by the gradients of their layers.

    Attributes:
      study: name of the study.
      better: title of the model that the paper calls better.
      worse: title of the other.
      flags: of `experiments.lattice`, the command that makes the study.
      measure: returns a figure of the norms by layer and epoch, which the paper calls larger for the first model.
      start: initialization of the runs that are compared.
    """

    study: str
    better: str
    worse: str
    flags: str
    measure: Callable[[np.ndarray], float]
    start: str = "lru"

    def pairs(self, contest: Score, evidence: Evidence, strict: bool) -> list[Pair]:
        """Return one pair for each seed that both have."""
        norms = norms_of(evidence.studies[self.study], self.start) if self.study in evidence.studies else {}
        one, other = norms.get(self.better, {}), norms.get(self.worse, {})
        gaps = {seed: self.measure(one[seed]) - self.measure(other[seed]) for seed in sorted(one.keys() & other.keys())}
        return [compared(seed, gap, strict) for seed, gap in gaps.items()]

    def smaller(self, evidence: Evidence) -> str:
        """Return what is smaller than published."""
        return scale_of(evidence.studies[self.study], self.start)


def by_epoch(norms: ArrayLike) -> np.ndarray:
    """Return for each epoch how many times larger the gradient of the last layer is than the mean of the first three.

    Args:
      norms: by layer and epoch.
    """
    values = np.asarray(norms)
    return values[-1] / values[:3].mean(axis=0)


def evenness(norms: ArrayLike) -> float:
    """Return minus the mean over epochs of the absolute logarithm of that ratio: 0 if first and last layers have equal gradients.

    An epoch of vanishing gradients is not averaged away, as it would be in a mean of ratios.
    """
    return -float(np.abs(np.log10(by_epoch(norms))).mean())


def magnitude(norms: ArrayLike) -> float:
    """Return the mean over layers and epochs of the logarithm of the norm."""
    return float(np.log10(np.asarray(norms)).mean())


NATS = Score("lowest training loss of all settings (nats per frame)", "lowest_train_loss", "{:.2f}")


SWARM = "jsb_swarm"
"""Name under which the swarm is kept."""

SURE = 0.95
"""Share of the bootstrap samples of the settings in which an ordering must hold to decide something."""


@dataclass(frozen=True)
class OfSwarm(Source[Score]):
    """The best settings of two groups of a swarm.

    Attributes:
      better: architecture and depth of the group that the paper calls better.
      worse: architecture and depth of the other.
      flags: of `experiments.jsb`, the command that makes the swarm.
      margin: share of the second loss by which the first may be higher, or must be lower if it is negative.
    """

    better: tuple[str, int]
    worse: tuple[str, int]
    flags: str
    margin: float

    def pairs(self, contest: Score, evidence: Evidence, strict: bool) -> list[Pair]:
        """Return one pair: a swarm is one sample of settings.

        The pair decides nothing if neither group is better than a constant predictor. It also decides nothing if the ordering depends on
        which settings were drawn: if it holds in more than 5 % and less than 95 % of the bootstrap samples of the settings.
        """
        found = [dots_of(evidence, group) for group in (self.better, self.worse)]
        if not all(found):
            return []
        study, (one, other) = evidence.studies[SWARM], (min(found[0]), min(found[1]))
        pair = compared(study["options"]["seed"], other - one, strict)
        pair = pair._replace(agrees=one <= (1 + self.margin) * other) if self.margin else pair
        share = share_of_samples(found[0], [(1 + self.margin) * loss for loss in found[1]])
        decides = min(one, other) < study[CONSTANT] and not 1 - SURE < share < SURE
        return [pair if decides else pair._replace(agrees=None)]

    def smaller(self, evidence: Evidence) -> str:
        """Return what is smaller than published."""
        options = evidence.studies[SWARM]["options"]
        sizes = options["parameters"]
        ranges = [
            f"{words} from {low:g} to {high:g}"
            for words, (low, high) in (("learning rates", options["learning_rate"]), ("initial deviations", options["spread"]))
        ]
        return ", ".join(
            [
                f"{min(sizes):,} to {max(sizes):,} parameters",
                f"{options['settings']} settings",
                f"{options['updates']} updates",
                *ranges,
                f"losses are means over {options['evaluate_every']} updates",
            ]
        )

    def planned(self, seeds: Sequence[int]) -> list[Planned]:
        """Return the swarm, which has one seed."""
        return [Planned("jsb", self.flags, (0,))]


def share_of_samples(one: Sequence[float], other: Sequence[float]) -> float:
    """Return in which share of bootstrap samples the lowest value of `one` is at most the lowest value of `other`.

    A sample draws as many values as there are, with replacement. The share is computed exactly: the lowest of n values drawn is beyond the
    first k of the n sorted ones with probability ((n - k) / n)^n.
    """
    drawn = [sorted(values) for values in (one, other)]
    beyond = [[(1 - k / len(values)) ** len(values) for k in range(len(values) + 1)] for values in drawn]
    share = 0.0
    for k, loss in enumerate(drawn[0]):
        lower = int(np.searchsorted(drawn[1], loss))  # values of the other one that are below
        share += (beyond[0][k] - beyond[0][k + 1]) * beyond[1][lower]
    return share


def dots_of(evidence: Evidence, group: tuple[str, int]) -> list[float]:
    """Return the lowest training losses of all settings of an architecture and depth."""
    dots = evidence.studies.get(SWARM, {}).get("dots", ())
    return [dot[NATS.field] for dot in dots if (dot["cell"], dot["depth"]) == group]


def best_dot(evidence: Evidence, group: tuple[str, int]) -> float | None:
    """Return the lowest training loss of an architecture and depth; None if it has no runs."""
    return min(dots_of(evidence, group), default=None)
