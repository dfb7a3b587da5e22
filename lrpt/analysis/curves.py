"""Plots of learning curves: one line for each model, with a band over its seeds."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lrpt.analysis.plots import png

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Curve(NamedTuple):
    """A validation score at some updates of one run. Runs with the same label are seeds of one model."""

    label: str
    updates: Sequence[int]
    scores: Sequence[float]


def learning_curves(curves: Sequence[Curve], score: str, path: Path, title: str = "", published: Sequence[Curve] = ()) -> Path:
    """Plot a validation score against updates, and write a PNG.

    Curves with the same label become one line, their mean, with a band for their range, over the updates that all of them have. `published`
    curves are drawn as markers; they are points of other authors' runs.
    """
    with png(path) as figure:
        axes = figure.subplots()
        for label in dict.fromkeys(curve.label for curve in curves):
            _draw(axes, label, [curve for curve in curves if curve.label == label])
        for curve in published:
            axes.plot(curve.updates, curve.scores, "o", color="0.2", markersize=4, fillstyle="none", label=curve.label)
        if score == "loss":
            axes.set_yscale("log")
        axes.set(xlabel="updates", ylabel=f"validation {score}")
        axes.set_title(title)
        axes.legend()
    return path


def _draw(axes: "Axes", label: str, curves: Sequence[Curve]) -> None:
    length = min(len(curve.updates) for curve in curves)
    updates = np.asarray(curves[0].updates[:length])
    scores = np.asarray([curve.scores[:length] for curve in curves])
    name = label if len(curves) == 1 else f"{label} ({len(curves)} seeds)"
    (line,) = axes.plot(updates, scores.mean(axis=0), label=name)
    if len(curves) > 1:
        axes.fill_between(updates, scores.min(axis=0), scores.max(axis=0), color=line.get_color(), alpha=0.2, linewidth=0)
