"""Claims as data: rows of tables, relations between models, and what else the papers show.

A row has quantities, and each quantity has its own verdict. A relation has one verdict, on paired seeds. Whatever is quoted from other
authors, or has no command, is listed as well.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, Protocol

from experiments.lattice.studies import at_cap as best_at_cap
from experiments.report.lattice_studies import runs_from, scale_of
from experiments.report.matching import configuration, differences, is_over, runs_of
from experiments.report.records import Record
from experiments.report.verdicts import Criterion, Observation, Pair
from lrpt.cli.experiment import Experiment
from lrpt.training.config import RunConfig


class Planned(NamedTuple):
    """Runs that a claim needs: `python -m experiments.<experiment> <flags>` for each seed."""

    experiment: str
    flags: str
    seeds: tuple[int, ...]

    @property
    def command(self) -> str:
        """Return the command line without the seed."""
        return f"python -m experiments.{self.experiment} {self.flags}".strip()


@dataclass(frozen=True)
class Evidence:
    """Kept runs, and kept JSON objects of studies by file name without suffix."""

    records: Sequence[Record] = ()
    studies: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class Quantity:
    """A figure of one run.

    Attributes:
      name: what it is, with its unit.
      read: the figure of a run, or None if it has none (yet).
      form: format string.
      published: as printed; empty if nothing was.
      criterion: when ours counts as the published one; None if nothing was published to hold it against.
      settled_by: the number of updates after which the figure cannot change, or None if it can until training is over.
      event: whether the figure is the update at which something first happened, which later updates do not change.
      best: whether the figure depends on which evaluation was the best.
      field: the name of the figure in the JSON object of a study; empty if studies do not have it.
    """

    name: str
    read: Callable[[Record], float | None]
    form: str
    published: str = ""
    criterion: Criterion | None = None
    settled_by: int | None = None
    event: bool = False
    best: bool = False
    field: str = ""

    def observe(self, run: Record, config: RunConfig[Any]) -> Observation:
        """Return the figure of a run, and whether it is settled."""
        value, length = self.read(run), config.train.updates
        settled = is_over(config, run) or (self.event and value is not None)
        settled = settled or (self.settled_by is not None and run.updates >= self.settled_by)
        failed = run.failure is not None and not settled
        return Observation(run.seed, value, settled, failed, run.updates, length)


@dataclass(frozen=True, eq=False)
class Network:
    """A model, as a command line that trains it at full length.

    Attributes:
      name: as the paper writes it.
      experiment: what trains it.
      flags: of the command line.
    """

    name: str
    experiment: Experiment[Any]
    flags: str

    @cached_property
    def config(self) -> RunConfig[Any]:
        """Return the configuration that the flags define."""
        return configuration(self.experiment, self.flags)

    def runs(self, evidence: Evidence, best: bool = False) -> dict[int, Record]:
        """Return the kept runs by seed."""
        return runs_of(self.config, self.experiment, evidence.records, best)

    def observe(self, quantity: Quantity, evidence: Evidence) -> list[Observation]:
        """Return the figure of each seed."""
        return [quantity.observe(run, self.config) for run in self.runs(evidence, quantity.best).values()]

    def planned(self, seeds: Sequence[int]) -> Planned:
        """Return the runs that are needed."""
        return Planned(self.experiment.name, self.flags, tuple(seeds))


@dataclass(frozen=True)
class StudyModel:
    """A model of a study of `experiments.lattice`, whose runs are kept in one JSON object.

    Attributes:
      study: file name without ending.
      model: as the file names it.
      share: percent of the data.
      start: start of the parameters.
    """

    study: str
    model: str
    share: float = 100
    start: str = "lru"

    def observe(self, quantity: Quantity, evidence: Evidence) -> list[Observation]:
        """Return the figure of each seed; epochs at the cap are at least as many."""
        if not quantity.field:
            return []
        return [
            Observation(seed, run[quantity.field], censored=quantity.field == EPOCHS and at_cap(run, evidence.studies[self.study]))
            for seed, run in self.runs(evidence).items()
        ]

    def runs(self, evidence: Evidence) -> dict[int, Mapping[str, Any]]:
        """Return the runs by seed."""
        runs = runs_from(evidence.studies.get(self.study, {}), self.start)
        return {run["seed"]: run for run in runs if run["model"] == self.model and run["share"] == self.share}

    def scale(self, evidence: Evidence) -> str:
        """Return what is smaller than in the paper."""
        return scale_of(evidence.studies[self.study], self.start, [*self.runs(evidence).values()])


EPOCHS = "epochs_to_best"


def at_cap(run: Mapping[str, Any], study: Mapping[str, Any]) -> bool:
    """Return whether a run was best at the last epoch that the study allows, so that more epochs might be better."""
    return best_at_cap(run, study["options"]["epochs"])


@dataclass(frozen=True)
class Row:
    """A row of a table, a point of a figure, or a sentence about one model.

    Attributes:
      where: its place in the paper.
      model: as the paper writes it.
      quantities: each has a verdict of its own.
      network: what trains the model; None if nothing here does.
      scale: in what the network differs from the published one by necessity, such as other data.
      smaller: networks, or models of a study, that stand in for it where it was not run.
      note: for rows without a network, why.
      setting: what tells the row from others of the same model.
    """

    where: str
    model: str
    quantities: tuple[Quantity, ...]
    network: Network | None = None
    scale: str = ""
    smaller: tuple["Network | StudyModel", ...] = ()
    note: str = ""
    setting: str = ""

    @property
    def title(self) -> str:
        """Return model and setting."""
        return f"{self.model}{f' ({self.setting})' if self.setting else ''}"

    def observed(self, quantity: Quantity, evidence: Evidence) -> tuple[list[Observation], str]:
        """Return one observation for each seed of the first network that has runs, and what is smaller about it."""
        for source in filter(None, (self.network, *self.smaller)):
            if found := source.observe(quantity, evidence):
                return found, self._scale_of(source, evidence)
        return [], ""

    def _scale_of(self, source: "Network | StudyModel", evidence: Evidence) -> str:
        if isinstance(source, StudyModel):
            return source.scale(evidence)
        if source is self.network or self.network is None:
            return self.scale
        own = differences(source.config, self.network.config)
        return "; ".join(filter(None, [self.scale, own]))

    def planned(self, seeds: Sequence[int]) -> list[Planned]:
        """Return the runs that the row needs."""
        return [self.network.planned(seeds)] if self.network else []


class Contest(Protocol):
    """Comparison of two runs by one metric."""

    @property
    def name(self) -> str: ...
    @property
    def form(self) -> str: ...
    @property
    def best(self) -> bool: ...
    def compare(self, better: Record, worse: Record, lengths: tuple[RunConfig[Any], RunConfig[Any]], strict: bool) -> Pair: ...


def _compared(seed: int, advantage: float, settled: bool, strict: bool) -> Pair:
    return Pair(seed, advantage, advantage > 0 if strict else advantage >= 0, settled=settled)


def _failures(better: Record, worse: Record) -> Pair:
    """Return the outcome where at least one of two runs diverged: the one that did not is better."""
    failures = (better.failure is not None) + (worse.failure is not None)
    return Pair(better.seed, None, None if failures == 2 else better.failure is None, failed=failures)


@dataclass(frozen=True)
class Final:
    """A figure of the test part where both trained to the end; otherwise the best validation figure up to the last common update.

    Attributes:
      name: what it is, with its unit.
      score: as `metrics.jsonl` names it.
      form: format string.
      higher: whether higher is better.
    """

    name: str
    score: str
    form: str
    higher: bool = False
    best: bool = True

    def compare(self, better: Record, worse: Record, lengths: tuple[RunConfig[Any], RunConfig[Any]], strict: bool) -> Pair:
        """Compare two runs of one seed."""
        over = is_over(lengths[0], better) and is_over(lengths[1], worse)
        if _unfinished(better, worse, lengths):
            return _failures(better, worse)
        values = better.tested(self.score), worse.tested(self.score)
        if not over or None in values:
            common = min(better.updates, worse.updates)
            values = self._best(better, common), self._best(worse, common)
        if values[0] is None or values[1] is None:
            return Pair(better.seed, None, None, settled=False)
        advantage = values[0] - values[1] if self.higher else values[1] - values[0]
        return _compared(better.seed, advantage, over, strict)

    def _best(self, run: Record, update: int) -> float | None:
        values = [value for when, value in run.selectable(self.score).items() if when <= update]
        return (max if self.higher else min)(values, default=None)


def _unfinished(better: Record, worse: Record, lengths: tuple[RunConfig[Any], RunConfig[Any]]) -> bool:
    """Return whether at least one of two runs diverged before its end."""
    return any(run.failure is not None and not is_over(config, run) for run, config in zip((better, worse), lengths, strict=True))


@dataclass(frozen=True)
class Last:
    """A validation figure at the last update that both have, lower is better."""

    name: str
    score: str
    form: str
    best: bool = False

    def compare(self, better: Record, worse: Record, lengths: tuple[RunConfig[Any], RunConfig[Any]], strict: bool) -> Pair:
        """Compare two runs of one seed."""
        if _unfinished(better, worse, lengths):
            return _failures(better, worse)
        common = min(better.updates, worse.updates)
        values = better.up_to(self.score, common), worse.up_to(self.score, common)
        if values[0] is None or values[1] is None:
            return Pair(better.seed, None, None, settled=False)
        over = is_over(lengths[0], better) and is_over(lengths[1], worse)
        return _compared(better.seed, values[1] - values[0], over, strict)


@dataclass(frozen=True)
class First:
    """Updates until a validation figure meets a condition; a run that never meets it took longer than it ran."""

    name: str
    score: str
    holds: Callable[[float], bool]
    form: str = "{:,.0f}"
    best: bool = False

    def compare(self, better: Record, worse: Record, lengths: tuple[RunConfig[Any], RunConfig[Any]], strict: bool) -> Pair:
        """Compare two runs of one seed."""
        one, other = better.first(self.score, self.holds), worse.first(self.score, self.holds)
        if one is not None and other is not None:
            return _compared(better.seed, other - one, True, strict)
        if one is not None:
            known = worse.updates >= one
            return Pair(better.seed, max(0, worse.updates - one), True if known else None, bound=True)
        if other is not None:
            known = better.updates >= other
            return Pair(better.seed, -max(0, better.updates - other), False if known else None, bound=True, settled=known)
        return Pair(better.seed, None, None, settled=False)


@dataclass(frozen=True)
class Versus:
    """Two networks that a relation compares, at published or smaller size.

    Attributes:
      better: the one that the paper calls better.
      worse: the other.
      scale: what is smaller than published; empty for the published configuration.
    """

    better: Network
    worse: Network
    scale: str = ""

    def pairs(self, contest: Contest, evidence: Evidence, strict: bool) -> list[Pair]:
        """Return one pair for each seed that both have."""
        one, other = self.better.runs(evidence, contest.best), self.worse.runs(evidence, contest.best)
        configs = self.better.config, self.worse.config
        return [contest.compare(one[seed], other[seed], configs, strict) for seed in sorted(one.keys() & other.keys())]

    def smaller(self, evidence: Evidence) -> str:
        """Return what is smaller than published."""
        return self.scale

    def cut(self, contest: Contest, evidence: Evidence) -> str:
        """Return how far training went if it was cut: '4,800 of 325,000 updates'."""
        one, other = self.better.runs(evidence, contest.best), self.worse.runs(evidence, contest.best)
        common = [min(one[seed].updates, other[seed].updates) for seed in sorted(one.keys() & other.keys())]
        length = max(self.better.config.train.updates, self.worse.config.train.updates)
        return f"{' to '.join(dict.fromkeys(f'{n:,}' for n in (min(common), max(common))))} of {length:,} updates" if common else ""

    def planned(self, seeds: Sequence[int]) -> list[Planned]:
        """Return the runs that are needed."""
        return [self.better.planned(seeds), self.worse.planned(seeds)]


class Source(Protocol):
    """Pairs from somewhere else than run directories, such as the JSON object of a study."""

    def pairs(self, contest: Any, evidence: Evidence, strict: bool) -> list[Pair]: ...
    def cut(self, contest: Any, evidence: Evidence) -> str: ...
    def smaller(self, evidence: Evidence) -> str: ...
    def planned(self, seeds: Sequence[int]) -> list[Planned]: ...


@dataclass(frozen=True)
class Relation:
    """An ordering of two models.

    Attributes:
      where: its place in the paper.
      sentence: what is claimed, in a few words.
      contest: what the models are compared by.
      versions: at published size first; the first one that has a pair of runs is judged.
      strict: whether equal figures do not count.
      note: for relations that nothing here runs, why.
    """

    where: str
    sentence: str
    contest: Any
    versions: tuple[Versus | Source, ...] = ()
    strict: bool = True
    note: str = ""

    def paired(self, evidence: Evidence) -> tuple[list[Pair], str, str]:
        """Return the pairs, what is smaller about them, and how far training went if it was cut."""
        for version in self.versions:
            if pairs := version.pairs(self.contest, evidence, self.strict):
                settled = all(pair.settled for pair in pairs)
                return pairs, version.smaller(evidence), "" if settled else version.cut(self.contest, evidence)
        return [], "", ""

    def planned(self, seeds: Sequence[int]) -> list[Planned]:
        """Return the runs that the relation needs, at published size."""
        return self.versions[0].planned(seeds) if self.versions else []


@dataclass(frozen=True, eq=False)
class Study:
    """Networks of one task, whose learning curves are drawn and tabulated.

    Attributes:
      name: of the figure's file.
      title: the task.
      score: of the learning curve, as `metrics.jsonl` names it.
      score_name: the same in words, with its unit.
      form: format string of the score.
      networks: whose runs are drawn.
      updates: at which the learning curve is tabulated.
      log_of: the model whose training log was published.
      log: update -> score in that log.
      levels: published figures, drawn as lines: name -> score.
      baseline: name and score of a predictor without memory or of a constant, drawn as a line.
    """

    name: str
    title: str
    score: str
    score_name: str
    form: str
    networks: tuple[Network, ...]
    updates: tuple[int, ...]
    log_of: str = ""
    log: Mapping[int, float] = field(default_factory=dict)
    levels: Mapping[str, float] = field(default_factory=dict)
    baseline: tuple[str, float] | None = None

    def runs(self, evidence: Evidence) -> dict[str, list[Record]]:
        """Return the runs of each network that has some, by name."""
        found = {network.name: list(network.runs(evidence).values()) for network in self.networks}
        return {name: runs for name, runs in found.items() if runs}


@dataclass(frozen=True)
class Plot:
    """A figure of a paper: what it shows, and which claims of this report it is judged by."""

    where: str
    shows: str
    judged_by: str
    run: bool = False


@dataclass(frozen=True)
class Paper:
    """Everything that is claimed by one paper (or by two texts that share their experiments).

    Attributes:
      name: of the page's file.
      title: of the page.
      citation: authors, title, venue.
      rows: of tables, and sentences about one model.
      relations: orderings.
      studies: learning curves.
      plots: figures of the paper.
      telling: path of the most telling figure, below the figures folder.
      takeaways: makes the sentences of the overview from judged claims.
      remarks: makes paragraphs of the paper's page from the evidence.
    """

    name: str
    title: str
    citation: str
    rows: tuple[Row, ...]
    relations: tuple[Relation, ...]
    studies: tuple[Study, ...]
    plots: tuple[Plot, ...]
    telling: str
    caption: str
    takeaways: Callable[[Any], Sequence[str]]
    remarks: Callable[[Evidence], Sequence[str]] = lambda evidence: ()

    @cached_property
    def places(self) -> tuple[str, ...]:
        """Return the tables and sections, ordered by their first row."""
        return tuple(dict.fromkeys(row.where for row in self.rows))
