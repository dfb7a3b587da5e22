"""Points of a plot of accuracy against computation: Figure 4 of Jernite et al. (2017)."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from lrpt.analysis.plots import line_style, saved_figure
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
      family: networks with one cell, guided or not, one number of buffer bits, and a learning rate that falls or not.
      label: the network.
      size: size of the Elman network with as many operations.
      score: metric on the test split.
      data: source or file that the network reads; empty if its task has neither.
    """

    family: str
    label: str
    size: float
    score: float
    data: str


def point_of(result: Mapping[str, Any], config: Mapping[str, Any], score: str, convention: str = "paper") -> Point:
    """Make a point from the result and the configuration of a run.

    Args:
      result: contents of `result.json`.
      config: contents of `config.json`.
      score: a metric on the test split, such as 'bits_per_character'.
      convention: a name in `SIZES`.

    Raises:
      UsageError: the run has no metrics on the test split, no such score, or no equivalent size.
    """
    metrics, name = result["metrics"].get("test"), SIZES[convention][0]
    if not metrics:
        raise UsageError(f"the run of {result['model']} has no metrics on the test split: leave it out")
    for wanted in (score, name):
        if metrics.get(wanted) is None:  # the file has null for numbers that are not finite
            known = ", ".join(known for known, value in metrics.items() if value is not None)
            raise UsageError(f"the run of {result['model']} has no '{wanted}', only {known}: choose another score or convention")
    return Point(_family(config), result["model"], metrics[name], metrics[score], _data(config.get("data", {})))


def _family(config: Mapping[str, Any]) -> str:
    model = config["model"]
    cell = str(model.get("cell", "conditional"))
    name = "CRNN" if cell == "conditional" else title_of(cell)
    guided = flatten({"model": model}).get("model.schedule.guided_symbols")
    buffer = config.get("data", {}).get("buffer")  # bits beside those of each character
    annealed = config.get("optim", {}).get("decay", 1.0) < 1
    return (
        name
        + (" guided" if guided and cell.startswith("vc") else "")
        + (f", {buffer} buffer bits" if buffer else "")
        + (", annealed" if annealed else "")
    )


def _data(config: Mapping[str, Any]) -> str:
    """Return the name of the file that a run read, or its source."""
    return Path(config["file"]).name if config.get("file") else config.get("source", "")


def lines(points: Sequence[Point]) -> dict[str, list[Point]]:
    """Group points by the line they belong to: one family on one source of data, which is named if there are several."""
    several = len({point.data for point in points}) > 1
    found: dict[str, list[Point]] = {}
    for point in points:
        found.setdefault(f"{point.family} on {point.data or 'other data'}" if several else point.family, []).append(point)
    return found


def equivalent_size_figure(points: Sequence[Point], score: str, path: Path, convention: str) -> Path:
    """Plot the score against the equivalent size, a line for each family and source of data, and write a PNG and a PDF."""
    with saved_figure(path) as figure:
        axes = figure.subplots()
        for number, (name, own) in enumerate(lines(points).items()):
            by_size, look = sorted(own, key=lambda point: point.size), line_style(number)
            axes.plot(
                [point.size for point in by_size],
                [point.score for point in by_size],
                color=look.color,
                linestyle=look.dashes,
                marker=look.marker,
                label=name,
            )
        axes.set(xlabel=SIZES[convention][1], ylabel=f"test {score.replace('_', ' ')}")
        axes.legend()
    return path
