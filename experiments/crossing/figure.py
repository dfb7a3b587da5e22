"""Plot of a two-way table with several runs in each field: a column of points for each field."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from lrpt.analysis.plots import png

Scores = Mapping[str, Mapping[str, Sequence[float]]]


def crossing_figure(groups: Scores, path: Path, title: str = "", score: str = "loss") -> Path:
    """Plot every score as a point and the mean of each field as a line, and write a PNG.

    Args:
      groups: row -> column -> scores; columns differ in colour, rows in position.
      path: path of the PNG.
      title: title of the plot.
      score: name of the scores.
    """
    rows = list(groups)
    columns = list(dict.fromkeys(column for row in groups.values() for column in row))
    with png(path, 1.2 + 1.1 * len(rows), 3.2) as figure:
        axes = figure.subplots()
        for number, column in enumerate(columns):
            shift = (number - (len(columns) - 1) / 2) * 0.8 / len(columns)
            places = [k + shift for k, row in enumerate(rows) if column in groups[row]]
            scores = [groups[row][column] for row in rows if column in groups[row]]
            x = np.repeat(places, [len(own) for own in scores])
            (points,) = axes.plot(x, np.concatenate(scores), "o", markersize=3, alpha=0.8, label=column.replace("_", " "))
            half = 0.3 / len(columns)
            means = [np.mean(own) for own in scores]
            axes.hlines(means, np.subtract(places, half), np.add(places, half), colors=points.get_color())
        axes.set(ylabel=score, xticks=range(len(rows)))
        axes.set_xticklabels(rows)
        axes.set_title(title)
        axes.legend()
    return path
