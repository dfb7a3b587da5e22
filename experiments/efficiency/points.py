"""How well networks predict beside how much they compute: Figure 4 of Jernite et al. (2017)."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from lrpt.analysis.figures import png
from lrpt.errors import UsageError

SIZES = {
    "paper": ("paper_equivalent_size", "equivalent size RNN-d (the paper's convention)"),
    "counted": ("equivalent_size", "equivalent size (multiplications counted)"),
}
"""Convention -> the figure of a result, and how an axis is labelled."""


class Point(NamedTuple):
    """A run.

    Attributes:
      family: runs that are joined by a line: networks of one cell, guided or not.
      label: the network.
      size: of the Elman network of as many operations.
      score: of the test part.
    """

    family: str
    label: str
    size: float
    score: float


def point_of(result: Mapping[str, Any], config: Mapping[str, Any], score: str, convention: str = "paper") -> Point:
    """What `result.json` and `config.json` of a run say.

    Args:
      result: the one.
      config: the other.
      score: a figure of its test part, such as 'bits_per_character'.
      convention: a name in `SIZES`.

    Raises:
      UsageError: the run has no such score, or no equivalent size.
    """
    figures, name = result["metrics"]["test"], SIZES[convention][0]
    for wanted in (score, name):
        if wanted not in figures:
            raise UsageError(
                f"the run of {result['model']} has no '{wanted}', only {', '.join(figures)}: choose another score or convention"
            )
    return Point(_family(config["model"]), result["model"], figures[name], figures[score])


def _family(model: Mapping[str, Any]) -> str:
    cell = str(model.get("cell", "conditional"))
    names = {"elman": "RNN", "conditional": "CRNN"}
    name = names[cell] if cell in names else cell.upper().replace("_", " ")
    return f"{name} guided" if model.get("guided_symbols") and cell.startswith("vc") else name


def equivalent_size_figure(points: Sequence[Point], score: str, path: Path, title: str = "", convention: str = "paper") -> Path:
    """Draws the score over the equivalent size, a line for each family, and writes a PNG."""
    with png(path) as figure:
        axes = figure.subplots()
        for family in dict.fromkeys(point.family for point in points):
            own = sorted((point for point in points if point.family == family), key=lambda point: point.size)
            axes.plot([point.size for point in own], [point.score for point in own], "o-", label=family)
        axes.set(xlabel=SIZES[convention][1], ylabel=f"test {score.replace('_', ' ')}")
        axes.set_title(title)
        axes.legend()
    return path
