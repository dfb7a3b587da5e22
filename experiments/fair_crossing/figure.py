"""Plot of scores over numbers of parameters: a colour for each parametrization, a marker for each cell."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lrpt.analysis.plots import png

MARKERS = "osD^vPX*<>"


def score_figure(rows: Sequence[dict[str, Any]], path: Path, score: str, title: str) -> Path:
    """Plot the mean score of each pair over its number of parameters, with a bar from the lowest to the highest seed; write a PNG."""
    cells, kinds = (list(dict.fromkeys(row[name] for row in rows)) for name in ("cell", "parametrization"))
    with png(path, 6.4, 3.8) as figure:
        axes = figure.subplots()
        for number, kind in enumerate(kinds):
            label: str | None = kind.replace("_", " ")
            for marker, cell in zip(MARKERS, cells, strict=False):
                own = [row for row in rows if (row["cell"], row["parametrization"]) == (cell, kind)]
                if not own:
                    continue
                scores, x = [row["score"] for row in own], own[0]["parameters"]
                mean = float(np.mean(scores))
                bar = [[mean - min(scores)], [max(scores) - mean]]
                axes.errorbar([x], [mean], bar, fmt=marker, color=f"C{number % 7}", markersize=4, label=label)
                label = None
        for marker, cell in zip(MARKERS, cells, strict=False):
            axes.plot([], [], marker, color="0.4", markersize=4, label=cell)
        axes.set(xlabel="parameters", ylabel=f"test {score.replace('_', ' ')}")
        axes.set_title(title)
        axes.legend(fontsize=6, ncols=2)
    return path
