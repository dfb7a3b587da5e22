"""The runs that claims need, each once."""

from collections.abc import Sequence
from typing import NamedTuple

from experiments.report.claims import Planned, Row
from experiments.report.paper import Paper
from experiments.report.relations import Relation

SEEDS = (0, 1, 2)
"""of each model, unless a study has its own"""


class Need(NamedTuple):
    """A claim and the runs it needs.

    Attributes:
      paper: name of the paper's page.
      claim: place, and model or sentence.
      runs: empty if nothing here can run it.
    """

    paper: str
    claim: str
    runs: tuple[Planned, ...]


def needs(papers: Sequence[Paper], seeds: Sequence[int] = SEEDS) -> list[Need]:
    """Return for each claim the runs that it needs, at published scale."""
    return [Need(paper.name, name_of(claim), tuple(claim.planned(seeds))) for paper in papers for claim in (*paper.rows, *paper.relations)]


def distinct_runs(needed: Sequence[Need]) -> dict[Planned, list[str]]:
    """Return every run once, with the claims that it bears on: seeds of one command are one entry."""
    by_command: dict[tuple[str, str], tuple[set[int], list[str]]] = {}
    for need in needed:
        for planned in need.runs:
            seeds, claims = by_command.setdefault((planned.experiment, planned.flags), (set(), []))
            seeds.update(planned.seeds)
            claims.append(need.claim)
    return {
        Planned(experiment, flags, tuple(sorted(seeds))): list(dict.fromkeys(claims))
        for (experiment, flags), (seeds, claims) in by_command.items()
    }


def name_of(claim: Row | Relation) -> str:
    """Return the name of a claim: its place, and model or sentence."""
    return f"{claim.where}: {claim.title if isinstance(claim, Row) else claim.sentence}"
