"""Plot of the losses of many settings: one dot for each, in a column for each group."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from lrpt.analysis.plots import line_style, plain_log_scale, saved_figure

CLOSE = 0.02
"""Share of the height of the plot. Dots closer than this are drawn side by side."""


def beeswarm(heights: Sequence[float], close: float) -> Float[np.ndarray, " k"]:
    """Return a horizontal offset for each dot, in widths of a dot. Dots whose heights differ by less than `close` get different offsets."""
    offsets = np.zeros(len(heights))
    placed: list[int] = []
    for i in np.argsort(heights, kind="stable"):
        taken = {offsets[j] for j in placed if abs(heights[j] - heights[i]) < close}
        offsets[i] = next(x for x in _outwards(len(heights)) if x not in taken)
        placed.append(int(i))
    return offsets


def _outwards(count: int) -> list[float]:
    """Return 0, 1, -1, 2, -2, ..."""
    return [0.0, *(float(sign * k) for k in range(1, count + 1) for sign in (1, -1))]


def by_group(dots: Sequence[Mapping[str, Any]]) -> dict[str, dict[int, list[float]]]:
    """Group dots: architecture -> depth -> the lowest training losses of the settings."""
    groups: dict[str, dict[int, list[float]]] = {}
    for one in dots:
        groups.setdefault(one["cell"], {}).setdefault(one["depth"], []).append(one["lowest_train_loss"])
    return {cell: dict(sorted(of_cell.items())) for cell, of_cell in sorted(groups.items(), reverse=True)}


def swarm_figure(groups: Mapping[str, Mapping[int, Sequence[float]]], path: Path, title: str, constant: float) -> Path:
    """Plot the losses of architectures at each depth on a logarithmic scale (Zilly et al. 2017, Figure 4), and write a PNG and a PDF.

    Args:
      groups: architecture -> depth -> lowest training losses, above 0.
      path: path of the PNG.
      title: title of the plot.
      constant: loss of the best constant predictor, which is drawn as a line.
    """
    depths = sorted({depth for of_group in groups.values() for depth in of_group})
    every = np.log([loss for of_group in groups.values() for losses in of_group.values() for loss in losses])
    close = CLOSE * max(float(np.ptp(every)), 1e-6)
    with saved_figure(path, 1.2 + 1.3 * len(depths), 3.2) as figure:
        axes = figure.subplots()
        for number, (name, of_group) in enumerate(groups.items()):
            columns = [_column(depths.index(depth) + _place(number, len(groups)), losses, close) for depth, losses in of_group.items()]
            x, y = np.concatenate(columns, axis=1)
            axes.plot(x, y, line_style(number).marker, color=line_style(number).color, markersize=3, alpha=0.8, label=name)
        axes.axhline(constant, color="0.5", label="constant predictor")
        plain_log_scale(axes)
        axes.set(xlabel="recurrence depth", ylabel="lowest training loss (nats per frame)", xticks=range(len(depths)))
        axes.set_xticklabels(map(str, depths))
        axes.set_title(title)
        figure.legend(loc="outside lower left", ncols=len(groups) + 1, fontsize="small")
    return path


def _place(number: int, count: int) -> float:
    """Return the horizontal offset of an architecture's column from its depth."""
    return (number - (count - 1) / 2) * 0.8 / count


def _column(centre: float, losses: Sequence[float], close: float) -> Float[np.ndarray, "2 k"]:
    return np.stack([centre + 0.03 * beeswarm(np.log(losses).tolist(), close), np.asarray(losses, np.float64)])
