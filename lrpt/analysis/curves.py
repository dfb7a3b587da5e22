"""Learning curves, one line for each model and a band over its seeds."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes

from lrpt.analysis.figures import png


class Curve(NamedTuple):
    """A score at some updates of one run; runs of one label are seeds of one model."""

    label: str
    updates: Sequence[int]
    scores: Sequence[float]


def learning_curves(curves: Sequence[Curve], score: str, path: Path, title: str = "", published: Sequence[Curve] = ()) -> Path:
    """Draws `score` on the validation split against updates, and writes a PNG.

    Several curves of one label are drawn as their mean and their range, over the updates that all of them have. Those of `published` are
    points of somebody else's runs, drawn as markers.
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


def _draw(axes: Axes, label: str, curves: Sequence[Curve]) -> None:
    length = min(len(curve.updates) for curve in curves)
    updates = np.asarray(curves[0].updates[:length])
    scores = np.asarray([curve.scores[:length] for curve in curves])
    name = label if len(curves) == 1 else f"{label} ({len(curves)} seeds)"
    (line,) = axes.plot(updates, scores.mean(axis=0), label=name)
    if len(curves) > 1:
        axes.fill_between(updates, scores.min(axis=0), scores.max(axis=0), color=line.get_color(), alpha=0.2, linewidth=0)
