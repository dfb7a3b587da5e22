"""A paper as everything that it claims and shows: rows, relations, learning curves and figures."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Generic, TypeVar

from experiments.report.claims.relations import Relation
from experiments.report.claims.rows import Evidence, Network, Row
from experiments.report.kept.records import Record

Draw = Callable[[Path], object]
"""Writes a figure to a path."""


@dataclass(frozen=True, eq=False)
class Study:
    """Networks of one task, whose learning curves are drawn and tabulated.

    Attributes:
      name: of the figure's file.
      task: the task, and what all networks have in common.
      score: of the learning curve, as `metrics.jsonl` names it.
      score_name: the same in words, with its unit.
      form: format string of the score.
      networks: whose runs are drawn.
      updates: at which the learning curve is tabulated.
      log_of: the model whose training log was published.
      log: update -> score in that log.
      levels: published values, drawn as lines: name -> score.
      tested: whether the levels are test scores and the learning curves are not. Then our test scores are drawn, too.
      baseline: name and score of a predictor without memory or of a constant, drawn as a line.
      over: setting over which test scores are drawn, by its dotted name; none if empty.
      published_over: setting -> test score in a published figure, which is drawn beside ours.
      scale: how large our networks are, in words, if published ones of another size are drawn.
      published_scale: how large the published networks are, in words.
    """

    name: str
    task: str
    score: str
    score_name: str
    form: str
    networks: tuple[Network, ...]
    updates: tuple[int, ...]
    log_of: str = ""
    log: Mapping[int, float] = field(default_factory=dict)
    levels: Mapping[str, float] = field(default_factory=dict)
    baseline: tuple[str, float] | None = None
    tested: bool = False
    over: str = ""
    published_over: Mapping[float, float] = field(default_factory=dict)
    scale: str = ""
    published_scale: str = ""

    @property
    def title(self) -> str:
        return f"{self.task}, {self.scale}" if self.scale else self.task

    def runs(self, evidence: Evidence) -> dict[str, list[Record]]:
        """Return the runs of each network that has some, by name."""
        found = {network.name: list(network.runs(evidence).values()) for network in self.networks}
        return {name: runs for name, runs in found.items() if runs}


@dataclass(frozen=True)
class Plot:
    """A figure of a paper.

    Attributes:
      where: its place in the paper.
      shows: what it shows.
      place: `where` of the claims that the figure is judged by, or the beginning of it. A text that begins with "no " says why no claim is
        about the figure.
      about: what the names of those claims contain.
    """

    where: str
    shows: str
    place: str
    about: str = ""


@dataclass(frozen=True)
class Takeaway:
    """Result that a reader should take away from a paper.

    Attributes:
      text: one to four sentences, which stand in the overview.
      details: what the text rests on, and what limits it; the page of the paper lists them below the text. Empty ones are left out.
    """

    text: str
    details: tuple[str, ...] = ()

    @property
    def whole(self) -> str:
        """Return the text and its details as one item of a list: nested lists of the site need four spaces."""
        return "\n".join([self.text, *(f"    - {item}" for item in self.details if item)])


J = TypeVar("J")


@dataclass(frozen=True)
class Paper(Generic[J]):
    """Everything that is claimed by one paper (or by two papers that share their experiments).

    Attributes:
      name: of the page's file.
      title: of the page.
      citation: authors, title, venue.
      rows: of tables, and sentences about one model.
      relations: orderings.
      studies: learning curves.
      plots: figures of the paper.
      telling: path of the most telling figure, below the figures folder.
      caption: of that figure.
      takeaways: makes what the overview says, and the details of the page, from judged claims.
      remarks: makes paragraphs of the paper's page from the evidence.
      central: the orderings that the paper is about: how the sentence of the relation begins -> the claim in words.
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
    takeaways: Callable[[J], Sequence[Takeaway]]
    remarks: Callable[[Evidence], Sequence[str]] = lambda evidence: ()
    central: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def places(self) -> tuple[str, ...]:
        """Return the tables and sections, ordered by their first row."""
        return tuple(dict.fromkeys(row.where for row in self.rows))
