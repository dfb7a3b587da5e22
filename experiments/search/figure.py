"""Plot of a search: learning curves of all trials, the best ones by name."""

from collections.abc import Sequence
from pathlib import Path

from lrpt.analysis.curves import Curve
from lrpt.analysis.plots import plain_log_scale, saved_figure

NAMED = 5
"""trials in the legend"""


def draw_search(curves: Sequence[Curve], score: str, path: Path, title: str) -> Path:
    """Draw the curves, the best trial first, and write a PNG and a PDF."""
    with saved_figure(path) as figure:
        axes = figure.subplots()
        for curve in reversed(curves[NAMED:]):
            axes.plot(curve.updates, curve.scores, color="0.8", linewidth=0.8)
        for curve in curves[:NAMED]:
            axes.plot(curve.updates, curve.scores, marker=".", label=curve.label)
        if score == "loss":
            plain_log_scale(axes)
        axes.set(xlabel="updates", ylabel=f"validation {score}", xlim=(0, None))
        axes.set_title(title)
        axes.legend()
    return path
