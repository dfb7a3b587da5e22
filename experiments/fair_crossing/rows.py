"""Rows of tables: a cell with a parametrization, its size, and its score over seeds."""

from collections.abc import Sequence
from typing import Any

from lrpt.cells import title_of
from lrpt.cli.studies import Row, grouped
from lrpt.cli.summary import mean_and_deviation


def columns(runs: Sequence[Row], score: str) -> list[str]:
    """Return the heads of the columns of `row`."""
    return ["cell", "matrices", "width", "parameters", *_time(runs, "time"), "rate", "seeds", words(score), "sd"]


def by_pair(runs: Sequence[Row]) -> dict[tuple[str, str], list[Any]]:
    """Return the runs of each pair of a cell and a parametrization."""
    return {(cell, kind): own for cell, kinds in grouped(runs, "cell", "parametrization").items() for kind, own in kinds.items()}


def row(runs: Sequence[Row]) -> list[str]:
    """Describe the runs of one pair, which differ in their seeds: cell, matrices, width, parameters, time (if measured), rate, score."""
    first = runs[0]
    names = [title_of(first["cell"]), words(first["parametrization"]), str(first["size"]), f"{first['parameters']:,}"]
    time = _time(runs, f"{first.get('time', 0):.2f}")
    return [*names, *time, f"{first['learning_rate']:g}", str(len(runs)), *mean_and_deviation([run["score"] for run in runs])]


def words(identifier: str) -> str:
    """Return an identifier as words: 'low rank'."""
    return identifier.replace("_", " ")


def _time(runs: Sequence[Row], text: str) -> list[str]:
    """Return a text if the time of an update was measured."""
    return [text] if "time" in runs[0] else []
