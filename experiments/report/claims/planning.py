"""The runs that claims need, each once."""

from collections.abc import Sequence
from typing import NamedTuple

from experiments.report.claims.paper import Paper
from experiments.report.claims.relations import Relation
from experiments.report.claims.rows import Planned, Row
from experiments.report.claims.scales import SEEDS, Scale


class Need(NamedTuple):
    """A claim and the runs it needs.

    Attributes:
      claim: place, and model or sentence.
      runs: empty if nothing here can run it.
      best: whether it depends on which evaluation was the best.
    """

    claim: str
    runs: tuple[Planned, ...]
    best: bool = False


def needs(papers: Sequence[Paper], seeds: Sequence[int] = SEEDS, scale: Scale = "published") -> list[Need]:
    """Return for each claim the runs that it needs, of this scale."""
    claims = [claim for paper in papers for claim in (*paper.rows, *paper.relations)]
    return [Need(name_of(claim), tuple(claim.planned(seeds, scale)), claim.best) for claim in claims]


def distinct_runs(needed: Sequence[Need]) -> dict[Planned, list[str]]:
    """Return every run once, with the claims that need it. All seeds of a command are one entry."""
    by_command: dict[tuple[str, str], list[tuple[Planned, Need]]] = {}
    for need in needed:
        for planned in need.runs:
            by_command.setdefault((planned.experiment, planned.flags), []).append((planned, need))
    return {_merged(found): list(dict.fromkeys(need.claim for _, need in found)) for found in by_command.values()}


def _merged(found: Sequence[tuple[Planned, Need]]) -> Planned:
    """Return the runs of one command that any of its claims needs."""
    seeds = sorted({seed for planned, _ in found for seed in planned.seeds})
    return found[0][0]._replace(seeds=tuple(seeds), best=any(need.best for _, need in found))


def name_of(claim: Row | Relation) -> str:
    """Return the name of a claim: its place, and model or sentence."""
    return f"{claim.where}: {claim.title if isinstance(claim, Row) else claim.sentence}"
