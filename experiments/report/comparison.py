"""Which runs bear on a published figure, and what they say about it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

from experiments.report.published import Claim, Quantity, Study
from experiments.report.records import Record
from lrpt.cli.flags import parse
from lrpt.cli.summary import moments
from lrpt.runs.configuration import defaults, flatten, to_json
from lrpt.runs.run_directory import MAY_CHANGE
from lrpt.training.config import RunConfig

# Nothing here decides what the model is after some number of updates.
_IMMATERIAL = MAY_CHANGE | {"train.evaluate_every", "model.loop.kind"}


@dataclass(frozen=True)
class Comparison:
    """A claim and the runs of its model.

    Attributes:
      study: the task.
      claim: what was published.
      config: the configuration that its flags stand for.
      runs: one for each seed, in the order of seeds.
    """

    study: Study
    claim: Claim
    config: RunConfig[Any]
    runs: tuple[Record, ...]

    @property
    def model(self) -> str:
        """Its name in tables."""
        return " ".join(filter(None, (self.config.model.label, self.claim.setting)))

    def values(self, quantity: Quantity) -> dict[int, float]:
        """seed -> figure, for the seeds that have one."""
        read = {run.seed: quantity.read(run) for run in self.runs}
        return {seed: value for seed, value in read.items() if value is not None}

    @cached_property
    def verdicts(self) -> dict[int, bool | None]:
        """seed -> whether it agrees with what was published; None while it does not, and is not over."""
        return {run.seed: self._agrees(run) or (False if self._is_over(run) else None) for run in self.runs}

    def _is_over(self, run: Record) -> bool:
        """Whether it made all updates, or was ended by a rule of the claim's configuration."""
        train = self.config.train
        rules = {"stop_below": train.stop_below, "patience": train.patience}
        own = {name: run.config.get("train", {}).get(name, rule) for name, rule in rules.items()}
        return run.updates >= train.updates or (run.ended_by_rule and own == rules)

    def _agrees(self, run: Record) -> bool:
        read = ((quantity.agrees, quantity.read(run)) for quantity in self.claim.quantities)
        return all(agrees is not None and value is not None and agrees(value) for agrees, value in read)

    @property
    def status(self) -> str:
        """Whether the claim is reproduced, in a few words."""
        if not self.runs:
            return "not yet run at full scale"
        if any(quantity.agrees is None for quantity in self.claim.quantities):
            return "run; no figure to compare with"
        verdicts = list(self.verdicts.values())
        agreeing, done = verdicts.count(True), len(verdicts) - verdicts.count(None)
        if done == len(verdicts):
            return {0: "not reproduced", done: "reproduced"}.get(agreeing, f"reproduced by {agreeing} of {done} seeds")
        short = span([run.updates for run in self.runs if self.verdicts[run.seed] is None])
        rest = f"; {agreeing} of {done} other seeds reproduce it" if done else ""
        return f"run at smaller scale: {short} of {self.config.train.updates:,} updates{rest}"


def compare(studies: Sequence[Study], records: Sequence[Record]) -> list[Comparison]:
    """Every claim, with the runs of its model: for each seed the one that went furthest."""
    comparisons = []
    for study in studies:
        for claim in study.claims:
            config = configuration(study, claim)
            runs = [r for r in records if r.experiment == study.experiment.name and same_model(config, r.config)]
            by_seed = {run.seed: run for run in sorted(runs, key=lambda run: run.updates)}
            comparisons.append(Comparison(study, claim, config, tuple(by_seed[seed] for seed in sorted(by_seed))))
    return comparisons


@cache
def configuration(study: Study, claim: Claim) -> RunConfig[Any]:
    """What the flags of a claim stand for."""
    return parse(study.experiment, claim.flags.split()).config


def same_model(config: RunConfig[Any], recorded: Mapping[str, Any]) -> bool:
    """Whether a run, by its `config.json`, trained as `config` does, for however long.

    A setting that the file lacks, as it was added since, has its default.
    """
    wanted = flatten(to_json(config))
    found = defaults(config) | flatten({name: part for name, part in recorded.items() if isinstance(part, dict)})
    names = (wanted.keys() | found.keys()) - _IMMATERIAL
    return all(name in wanted and name in found and wanted[name] == found[name] for name in names)


def span(values: Sequence[int]) -> str:
    """'30,000', or '25,500 to 31,000'."""
    ends = dict.fromkeys((f"{min(values):,}", f"{max(values):,}"))
    return " to ".join(ends)


@dataclass(frozen=True)
class Spread:
    """Mean, standard deviation (n - 1; None for one value), smallest and largest of some figures."""

    mean: float
    sd: float | None
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        """That of one value or more."""
        return cls(*moments(values), min(values), max(values))
