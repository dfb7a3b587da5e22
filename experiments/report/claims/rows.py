"""Claims about one model as data: rows of tables, their quantities, and the networks that are trained for them.

Each quantity of a row has its own verdict. What is quoted from other authors, or has no command, is listed as well.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from experiments.lattice.tables import at_cap
from experiments.report.claims.criteria import Criterion
from experiments.report.claims.matching import configuration, differences, has_only_begun, is_over, runs_of
from experiments.report.claims.scales import Scale
from experiments.report.claims.verdicts import Observation
from experiments.report.kept.lattice_studies import runs_from, scale_of
from experiments.report.kept.records import Record
from lrpt.cli.experiment import Experiment
from lrpt.training.config import RunConfig

QUOTED = "quoted from other authors"
"""Note of rows whose values another paper has."""


class Planned(NamedTuple):
    """Runs that a claim needs: `python -m experiments.<experiment> <flags>` for each seed.

    Attributes:
      experiment: name of the command.
      flags: its flags.
      seeds: one run each.
      best: whether a claim depends on which evaluation was the best, so that runs with another evaluation interval do not count.
      before: words of the command that writes the start file which the flags name, after `python -m`; none if they name no such file.
    """

    experiment: str
    flags: str
    seeds: tuple[int, ...]
    best: bool = False
    before: tuple[str, ...] = ()

    @property
    def command(self) -> str:
        """Return the command line without the seed."""
        return f"python -m experiments.{self.experiment} {self.flags}".strip()

    @property
    def lines(self) -> list[str]:
        """Return the command lines without the seed: that of the start file, if there is one, and that of the training."""
        return [*([" ".join(("python -m", *self.before))] if self.before else []), self.command]


@dataclass(frozen=True)
class Evidence:
    """Kept runs, and kept JSON objects of studies by file name without suffix."""

    records: Sequence[Record] = ()
    studies: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class Quantity:
    """A value that is read from one run.

    Attributes:
      name: what it is, with its unit.
      read: returns the value of a run, or None if it has none (yet).
      form: format string.
      published: as printed; empty if nothing was, or if it is no claim.
      criterion: when ours counts as the published one; None if nothing was published to hold it against.
      settled_by: the number of updates after which the value cannot change, or None if it can until training is over.
      event: whether the value is the update at which something first happened, which later updates do not change.
      open_because: why an event that has not happened yet is neither for nor against the paper; empty if it is against it.
      best: whether the value depends on which evaluation was the best.
      ordering: whether it places the network above or below a model of other authors, which one seed does not decide.
      shown: as printed, if it is no claim, because it follows from a setting.
      field: the name of the value in the JSON object of a study; empty if studies do not have it.
    """

    name: str
    read: Callable[[Record], float | None]
    form: str
    published: str = ""
    criterion: Criterion | None = None
    settled_by: int | None = None
    event: bool = False
    open_because: str = ""
    best: bool = False
    ordering: bool = False
    shown: str = ""
    field: str = ""

    def observe(self, run: Record, config: RunConfig[Any]) -> Observation:
        """Return the value of a run, and whether it is settled."""
        value = self.read(run)
        if self.open_because and value is None and run.failure is None:
            return Observation(run.seed, None, settled=False, progress=run.updates, open_because=self.open_because)
        settled = is_over(config, run) or (self.event and value is not None)
        settled = settled or (self.settled_by is not None and run.updates >= self.settled_by)
        constant_rate = config.optim.decay == 1 and config.optim.halve_after is None
        return Observation(
            run.seed,
            value,
            settled=settled,
            failed=run.failure is not None and not settled,
            progress=run.updates,
            length=config.train.updates,
            censored=self._is_at_cap(run, config),
            improving=self.best and constant_rate and run.best_update == run.updates,
        )

    def _is_at_cap(self, run: Record, config: RunConfig[Any]) -> bool:
        """Return whether the value is a number of epochs, and the last epoch of a preset ended the run, so that more might be better."""
        if self.field != EPOCHS:
            return False
        epoch = config.train.evaluate_every
        epochs = {"epochs": run.updates // epoch, EPOCHS: run.best_update // epoch}
        return at_cap(epochs, config.train.updates // epoch, config.train.patience)


class Observed(NamedTuple):
    """Values of a row, and of which network they are.

    Attributes:
      values: one for each seed.
      smaller: what is smaller than published; empty for the published configuration.
      stand_in: what was run for the row in place of its network; empty if that was run.
    """

    values: list[Observation]
    smaller: str
    stand_in: str


def _have_only_begun(values: Sequence[Observation]) -> bool:
    """Return whether all values are of unfinished runs that have only begun."""
    return all(not one.settled and has_only_begun(one.progress, one.length) for one in values)


@dataclass(frozen=True, eq=False)
class Network:
    """A model, as a command line that trains it at full length.

    Attributes:
      name: as the paper writes it.
      experiment: what trains it.
      flags: of the command line.
      before: words of the command that writes the start file which the flags name, after `python -m`. A run from it has one seed.
    """

    name: str
    experiment: Experiment[Any]
    flags: str
    before: tuple[str, ...] = ()

    @cached_property
    def config(self) -> RunConfig[Any]:
        """Return the configuration that the flags define."""
        return configuration(self.experiment, self.flags)

    def runs(self, evidence: Evidence, best: bool = False) -> dict[int, Record]:
        """Return the kept runs by seed."""
        return runs_of(self.config, self.experiment, evidence.records, best)

    def observe(self, quantity: Quantity, evidence: Evidence) -> list[Observation]:
        """Return the value of each seed."""
        return [quantity.observe(run, self.config) for run in self.runs(evidence, quantity.best).values()]

    def title_in(self, evidence: Evidence) -> str:
        """Return what tells the network from the one that it stands in for: its name."""
        return self.name

    def planned(self, seeds: Sequence[int]) -> Planned:
        """Return the runs that are needed."""
        return Planned(self.experiment.name, self.flags, (0,) if self.before else tuple(seeds), before=self.before)


@dataclass(frozen=True)
class StudyModel:
    """A model of a study of `experiments.lattice`, whose runs are kept in one JSON object.

    Attributes:
      study: file name without ending.
      model: as the file names it.
      share: percent of the data.
      start: start of the parameters.
      flags: of `experiments.lattice`, the command that makes the study; empty if nothing here does.
    """

    study: str
    model: str
    share: float
    start: str
    flags: str

    def observe(self, quantity: Quantity, evidence: Evidence) -> list[Observation]:
        """Return the value of each seed. Numbers of epochs are lower bounds for runs that the cap on epochs ended."""
        if not quantity.field:
            return []
        return [
            Observation(seed, run[quantity.field], censored=quantity.field == EPOCHS and ended_by_cap(run, evidence.studies[self.study]))
            for seed, run in self.runs(evidence).items()
        ]

    def title_in(self, evidence: Evidence) -> str:
        """Return what tells the model from the one that it stands in for: its size, as both have the same name."""
        return f"{evidence.studies[self.study]['options']['parameters']:,} parameters"

    def runs(self, evidence: Evidence) -> dict[int, Mapping[str, Any]]:
        """Return the runs by seed."""
        runs = runs_from(evidence.studies.get(self.study, {}), self.start)
        return {run["seed"]: run for run in runs if run["model"] == self.model and run["share"] == self.share}

    def scale(self, evidence: Evidence) -> str:
        """Return what is smaller than in the paper."""
        return scale_of(evidence.studies[self.study], self.start)

    def planned(self, seeds: Sequence[int]) -> Planned | None:
        """Return the study, or None if nothing here makes it."""
        return Planned("lattice", self.flags, tuple(seeds)) if self.flags else None


EPOCHS = "epochs_to_best"


def ended_by_cap(run: Mapping[str, Any], study: Mapping[str, Any]) -> bool:
    """Return whether the last epoch that the study allows ended a run, so that more epochs might be better."""
    return at_cap(run, study["options"]["epochs"], study["options"].get("patience"))


@dataclass(frozen=True)
class Row:
    """A row of a table, a point of a figure, or a sentence about one model.

    Attributes:
      where: its place in the paper.
      model: as the paper writes it.
      quantities: each has a verdict of its own.
      network: what trains the model; None if nothing here does.
      scale: in what the network differs from the published one by necessity, such as other data.
      stand_ins: networks, or models of a study, that stand in for it where it was not run.
      note: for rows without a network, why.
      setting: what tells the row from others of the same model.
      unprinted: what stands in for settings of training that the paper does not print, so that no value reproduces the row; empty if it
        prints all.
    """

    where: str
    model: str
    quantities: tuple[Quantity, ...]
    network: Network | None = None
    scale: str = ""
    stand_ins: tuple["Network | StudyModel", ...] = ()
    note: str = ""
    setting: str = ""
    unprinted: str = ""

    @property
    def title(self) -> str:
        """Return model and setting."""
        return f"{self.model}{f' ({self.setting})' if self.setting else ''}"

    @property
    def best(self) -> bool:
        """Return whether a value depends on which evaluation was the best."""
        return any(quantity.best for quantity in self.quantities)

    @property
    def sources(self) -> tuple["Network | StudyModel", ...]:
        """Return what can be run for the row: its network first, then what stands in for it."""
        return ((self.network,) if self.network else ()) + self.stand_ins

    def observed(self, quantity: Quantity, evidence: Evidence) -> "Observed":
        """Return the observations of the first network with a run that has not only begun, or else of the first with a run."""
        found = [(source, values) for source in self.sources if (values := source.observe(quantity, evidence))]
        if not found:
            return Observed([], "", "")
        source, values = next((one for one in found if not _have_only_begun(one[1])), found[0])
        stand_in = "" if source is self.network else source.title_in(evidence)
        return Observed(values, self._scale_of(source, evidence), stand_in)

    def _scale_of(self, source: "Network | StudyModel", evidence: Evidence) -> str:
        if isinstance(source, StudyModel):
            return source.scale(evidence)
        if source is self.network or self.network is None:
            return self.scale
        own = differences(source.config, self.network.config)
        return "; ".join(filter(None, [self.scale, own]))

    def planned(self, seeds: Sequence[int], scale: Scale = "published") -> list[Planned]:
        """Return the runs that the row needs: of its network, of what stands in for it, or of both."""
        sources = {"published": self.sources[: bool(self.network)], "smaller": self.stand_ins, "all": self.sources}[scale]
        found = [source.planned(seeds) for source in sources]
        return list(dict.fromkeys(planned for planned in found if planned is not None))
