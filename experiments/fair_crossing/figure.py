"""Plots of scores: by cell at equal parameters, over numbers of parameters at equal time. A colour for each parametrization."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from experiments.fair_crossing.rows import by_pair, words
from lrpt.analysis.plots import line_style, saved_figure
from lrpt.cells import title_of

MARKERS = "osD^vPX*<>"
LOG = 3
"""ratio of the highest and the lowest score above which the axis is logarithmic"""

WIDTH = 0.7
"""space that the parametrizations of a cell take, of the distance between two cells"""


def score_figure(rows: Sequence[dict[str, Any]], path: Path, score: str, title: str, equal: str) -> Path:
    """Plot the mean score of each pair, with a bar from the lowest to the highest seed; write a PNG and a PDF.

    Args:
      rows: runs of one task.
      path: the PNG file.
      score: metric that is plotted.
      title: of the plot.
      equal: what all networks have in common, 'parameters' or 'time'.
    """
    from matplotlib.ticker import LogLocator  # takes half a second

    with saved_figure(path, 6.4, 3.8) as figure:
        axes = figure.subplots()
        scores = [row["score"] for row in rows]
        if 0 < LOG * min(scores) < max(scores):
            axes.set_yscale("log")
            axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axes.yaxis.set_major_formatter("{x:g}")
            axes.yaxis.set_minor_formatter("")
        for number, kind in enumerate(_names(rows)[1]):
            marker = line_style(number).marker if equal == "parameters" else "o"
            axes.plot([], [], marker, color=line_style(number).color, markersize=4, label=words(kind))
        draw = _by_cell if equal == "parameters" else _over_parameters
        draw(axes, rows)
        axes.set(ylabel=f"test {words(score)}" + (" (nats)" if score == "loss" else ""))
        axes.set_title(title)
        figure.legend(fontsize="small", ncols=4 if equal == "time" else 3, loc="outside lower left")
    return path


def _by_cell(axes: Any, rows: Sequence[dict[str, Any]]) -> None:
    """Draw the cells side by side, and within each its parametrizations."""
    cells, kinds = _names(rows)
    for (cell, kind), own in by_pair(rows).items():
        number = kinds.index(kind)
        x = cells.index(cell) + WIDTH * ((number + 0.5) / len(kinds) - 0.5)
        axes.errorbar([x], *_mean_and_bar(own), fmt=line_style(number).marker, color=line_style(number).color, markersize=4)
    axes.set_xticks(range(len(cells)), map(title_of, cells))
    axes.grid(visible=False, axis="x")


def _over_parameters(axes: Any, rows: Sequence[dict[str, Any]]) -> None:
    """Draw the scores over the numbers of parameters, with a marker for each cell."""
    cells, kinds = _names(rows)
    for (cell, kind), own in by_pair(rows).items():
        style = {"fmt": MARKERS[cells.index(cell) % len(MARKERS)], "color": line_style(kinds.index(kind)).color, "markersize": 4}
        axes.errorbar([own[0]["parameters"]], *_mean_and_bar(own), **style)
    for number, cell in enumerate(cells):
        axes.plot([], [], MARKERS[number % len(MARKERS)], color="0.4", markersize=4, label=title_of(cell))
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.set(xlabel="parameters")


def _names(rows: Sequence[dict[str, Any]]) -> tuple[list[str], list[str]]:
    """Return the cells and the parametrizations in their order."""
    cells, kinds = (list(dict.fromkeys(row[name] for row in rows)) for name in ("cell", "parametrization"))
    return cells, kinds


def _mean_and_bar(runs: Sequence[dict[str, Any]]) -> tuple[list[float], list[list[float]]]:
    """Return the mean score, and the distances from it to the lowest and the highest one."""
    scores = [run["score"] for run in runs]
    mean = float(np.mean(scores))
    return [mean], [[mean - min(scores)], [max(scores) - mean]]
