"""Points of a plot of accuracy against computation: Figure 4 of Jernite et al. (2017)."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from lrpt.analysis.plots import saved_figure
from lrpt.cells import title_of
from lrpt.errors import UsageError
from lrpt.runs.configuration import flatten

SIZES = {
    "paper": ("paper_equivalent_size", "equivalent size RNN-d (the paper's convention)"),
    "counted": ("equivalent_size", "equivalent size (multiplications counted)"),
}
"""Convention -> the metric in a result, and its axis label."""


class Point(NamedTuple):
    """A run in the plot.

    Attributes:
      family: the line it belongs to: networks with one cell, guided or not, that read the same data.
      label: the network.
      size: size of the Elman network with as many operations.
      score: metric on the test split.
    """

    family: str
    label: str
    size: float
    score: float


def point_of(result: Mapping[str, Any], config: Mapping[str, Any], score: str, convention: str = "paper") -> Point:
    """Make a point from the result and the configuration of a run.

    Args:
      result: contents of `result.json`.
      config: contents of `config.json`.
      score: a metric on the test split, such as 'bits_per_character'.
      convention: a name in `SIZES`.

    Raises:
      UsageError: the run has no such score, or no equivalent size.
    """
    metrics, name = result["metrics"]["test"], SIZES[convention][0]
    for wanted in (score, name):
        if wanted not in metrics:
            raise UsageError(
                f"the run of {result['model']} has no '{wanted}', only {', '.join(metrics)}: choose another score or convention"
            )
    return Point(_family(config), result["model"], metrics[name], metrics[score])


def _family(config: Mapping[str, Any]) -> str:
    model = config["model"]
    cell = str(model.get("cell", "conditional"))
    name = "CRNN" if cell == "conditional" else title_of(cell)
    guided = flatten({"model": model}).get("model.schedule.guided_symbols")
    buffer = config.get("data", {}).get("buffer")  # bits beside those of each character
    return name + " guided" * bool(guided and cell.startswith("vc")) + f", {buffer} buffer bits" * bool(buffer)


def equivalent_size_figure(points: Sequence[Point], score: str, path: Path, convention: str = "paper") -> Path:
    """Plot the score against the equivalent size, a line for each family, and write a PNG and a PDF."""
    with saved_figure(path) as figure:
        axes = figure.subplots()
        for family in dict.fromkeys(point.family for point in points):
            own = sorted((point for point in points if point.family == family), key=lambda point: point.size)
            axes.plot([point.size for point in own], [point.score for point in own], "o-", label=family)
        axes.set(xlabel=SIZES[convention][1], ylabel=f"test {score.replace('_', ' ')}")
        axes.legend()
    return path
