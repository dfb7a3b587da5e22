"""Plots of scores: over updates, with a band for the seeds of a model, and over the number of parameters."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lrpt.analysis.plots import LineStyle, line_style, plain_log_scale, saved_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WORDS = {
    "loss": "loss (nats, or squared error)",
    "piece_loss": "loss (nats per piece)",
    "accuracy": "accuracy (share of examples)",
    "recall": "recall (share of copied symbols)",
    "bits_per_character": "bits per character",
    "bits_per_bit": "bits per bit",
    "sentence_perplexity": "perplexity (mean over sentences)",
    "output_distance": "distance of outputs",
}
"""Metrics in words, with their units. Others are named as they are, without underscores."""


class Curve(NamedTuple):
    """A validation score at some updates of one run. Runs with the same label are seeds of one model."""

    label: str
    updates: Sequence[int]
    scores: Sequence[float]


class Sized(NamedTuple):
    """A trained network of some size.

    Attributes:
      kind: what networks of one line of the plot have in common, such as 'LRD-GRU'.
      size: its size as it is named, such as '128/8'.
      parameters: number of parameters.
      score: its score. Networks of the same kind and size are seeds of one model.
    """

    kind: str
    size: str
    parameters: int
    score: float


def in_words(score: str) -> str:
    """Return a metric in words, with its unit."""
    return WORDS.get(score, score.replace("_", " "))


def learning_curves(curves: Sequence[Curve], score: str, path: str | Path, title: str = "") -> Path:
    """Plot a validation score against updates, and write it as PNG and PDF.

    Curves with the same label become one line, their mean, with a band for their range, over the updates that all of them have.
    The legend stands beside the curves.
    """
    with saved_figure(path, 7.2) as figure:
        axes = figure.subplots()
        for number, label in enumerate(dict.fromkeys(curve.label for curve in curves)):
            _draw(axes, label, [curve for curve in curves if curve.label == label], line_style(number))
        if score == "loss":
            plain_log_scale(axes)
        axes.set(xlabel="updates", ylabel=f"validation {in_words(score)}", xlim=(0, None))
        axes.xaxis.set_major_formatter("{x:,.0f}")
        axes.set_title(title)
        figure.legend(loc="outside right upper")
    return Path(path)


def _draw(axes: "Axes", label: str, curves: Sequence[Curve], style: LineStyle) -> None:
    by_update = [dict(zip(curve.updates, curve.scores, strict=True)) for curve in curves]
    updates = sorted(set(by_update[0]).intersection(*by_update[1:]))  # seeds may be evaluated at other updates, or not as long
    scores = np.asarray([[found[update] for update in updates] for found in by_update])
    name = label if len(curves) == 1 else f"{label} ({len(curves)} seeds)"
    axes.plot(updates, scores.mean(axis=0), color=style.color, linestyle=style.dashes, label=name)
    if len(curves) > 1:
        axes.fill_between(updates, scores.min(axis=0), scores.max(axis=0), color=style.color, alpha=0.2, linewidth=0)


def score_over_parameters(models: Sequence[Sized], score: str, path: str | Path, title: str = "") -> Path:
    """Plot a test score against the number of parameters, and write it as PNG and PDF.

    Networks of one kind are connected; the points are named by their size. Several seeds of a model become their mean and a bar for their
    range.
    """
    with saved_figure(path, 7.2, 3.6) as figure:
        axes = figure.subplots()
        for kind in dict.fromkeys(model.kind for model in models):
            _draw_sizes(axes, kind, [model for model in models if model.kind == kind])
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter("{x:,.0f}")
        axes.xaxis.set_minor_formatter("{x:,.0f}")
        axes.tick_params(axis="x", which="both", labelsize="x-small", labelrotation=30)
        axes.set(xlabel="parameters", ylabel=f"test {in_words(score)}")
        axes.margins(x=0.1, y=0.12)
        axes.set_title(title)
        figure.legend(loc="outside right upper")
    return Path(path)


def _draw_sizes(axes: "Axes", kind: str, models: Sequence[Sized]) -> None:
    groups: dict[tuple[int, str], list[float]] = {}
    for model in sorted(models, key=lambda model: model.parameters):
        groups.setdefault((model.parameters, model.size), []).append(model.score)
    parameters, means = [count for count, _ in groups], np.array([np.mean(scores) for scores in groups.values()])
    spread = np.abs([[min(scores), max(scores)] for scores in groups.values()] - means[:, None]).T
    drawn = axes.errorbar(parameters, means, spread, marker="o", markersize=4, capsize=2, label=kind)
    for (count, size), mean in zip(groups, means, strict=True):
        axes.annotate(size, (count, mean), (4, 4), textcoords="offset points", fontsize="x-small", color=drawn.lines[0].get_color())
