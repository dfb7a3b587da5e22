"""Learning curves with what was published drawn into them as lines and points."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from experiments.report.claims.paper import Study
from experiments.report.claims.rows import Evidence
from experiments.report.figures.shared import axes_of, draw_levels, falls, label_levels, legend_below, panels, shown, styles
from experiments.report.kept.records import Record
from lrpt.analysis.plots import LineStyle, plain_log_scale, saved_figure
from lrpt.metrics import is_lower_better

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHOWN = 3
"""Longest axis of updates, as a multiple of our longest run. Of a longer published log, its result remains as a line."""
WIDTH, HEIGHT = 7.2, 3.8
"""of a figure in inches, without its legend"""
OF_AXES = 3.2
"""height of the axes, about"""

Curves = Sequence[Mapping[int, float]]
"""update -> score, of each seed"""


def draw_study(study: Study, evidence: Evidence, path: Path) -> Path:
    """Draw the learning curves of all runs of a study, published figures, and the predictor without memory."""
    runs = study.runs(evidence)
    curves = {name: [run.curve(study.score) for run in own] for name, own in runs.items()}
    split = panels({name: falls(own) for name, own in runs.items()})
    looks, labels = styles(split), _labels(split, curves)
    with saved_figure(path, WIDTH, HEIGHT) as figure:
        places = axes_of(figure, split, study.title, sharex=False)
        for axes, names in zip(places, split.values(), strict=True):
            for name in names:
                axes.plot([], [], label=labels[name], color=looks[name].color, linestyle=looks[name].dashes)
                _draw(axes, curves[name], looks[name])
                _draw_tested(axes, study, runs[name], looks[name])
            if study.tested:
                axes.plot([], [], "x", color="0.2", markersize=5, label="our test scores")
            _published(axes, study)
            _scale(axes, study, [curve for of_name in curves.values() for curve in of_name if curve])
            axes.set(xlabel="updates", xlim=(0, _last_shown(study, [curve for name in names for curve in curves[name] if curve])))
        places[0].set(ylabel=study.score_name)
        label_levels(places[-1], _levels(study), OF_AXES)
        legend_below(figure)
    return path


def _labels(split: Mapping[str, Sequence[str]], curves: Mapping[str, Curves]) -> dict[str, str]:
    """Return what the legend says of each name, with the numbers of seeds; the same for a network in both panels."""
    names = {name: shown(name, split) for name in curves}
    counts: dict[str, set[int]] = {}
    for name, short in names.items():
        counts.setdefault(short, set()).add(len(curves[name]))
    return {name: _seeds(short, counts[short]) for name, short in names.items()}


def _seeds(name: str, counts: set[int]) -> str:
    return name if counts == {1} else f"{name} ({' or '.join(map(str, sorted(counts)))} seeds)"


def _levels(study: Study) -> dict[str, float]:
    """Return what stands beside the axes: label -> level."""
    named = dict(study.levels) | ({f"{study.baseline[0]} predictor": study.baseline[1]} if study.baseline else {})
    return {f"{name}: {study.form.format(level)}": level for name, level in named.items()}


def _published(axes: "Axes", study: Study) -> None:
    """Draw the published log and levels, and the predictor without memory."""
    if study.log:
        log = list(study.log), list(study.log.values())
        axes.plot(*log, "o", color="0.2", markersize=4, fillstyle="none", label=f"{study.log_of}, published log")
    draw_levels(axes, study.levels)
    if study.baseline:
        axes.axhline(study.baseline[1], color="0.6", linewidth=1.5)


def _scale(axes: "Axes", study: Study, curves: Curves) -> None:
    """Scale the vertical axis, and label the updates."""
    if study.score == "loss":
        plain_log_scale(axes)
    elif is_lower_better(study.score):
        _zoom(axes, curves, list(study.levels.values()))
    else:
        _zoom_on_errors(axes, curves, list(study.levels.values()))
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.locator_params(axis="x", nbins=7 if len(axes.figure.axes) == 1 else 4)


def _last_shown(study: Study, curves: Curves) -> float | None:
    """Return where the axis of updates ends: at three times our longest run, if the published log goes on for longer."""
    end = SHOWN * max((max(curve) for curve in curves if curve), default=0)
    return end if study.log and 0 < end < max(study.log) else None


SPACE = 0.05
"""share of the axis that is left free above or below what was measured"""


def _zoom(axes: "Axes", curves: Curves, levels: Sequence[float]) -> None:
    """Cut the axis at twice the highest of the lowest scores, so that one diverged run does not flatten the others."""
    limit = 2 * max((min(curve.values()) for curve in curves if curve), default=math.inf)
    if axes.get_ylim()[1] > limit:
        lowest = min([*levels, *(min(curve.values()) for curve in curves)])
        axes.set_ylim(lowest - SPACE * (limit - lowest), limit)


def _zoom_on_errors(axes: "Axes", curves: Curves, levels: Sequence[float]) -> None:
    """Cut the axis of accuracies in the same way: at twice the highest of the lowest errors."""
    limit = 1 - 2 * max((1 - max(curve.values()) for curve in curves if curve), default=math.inf)
    if axes.get_ylim()[0] < limit:
        highest = max([*levels, *(max(curve.values()) for curve in curves)])
        axes.set_ylim(limit, highest + SPACE * (highest - limit))


def _draw(axes: "Axes", curves: Curves, style: LineStyle) -> None:
    """Draw the median and the range of the seeds up to the shortest run, and each seed thinly: one spike would dominate a mean."""
    one, color, dashes = len(curves) == 1, style.color, style.dashes
    width, alpha = (1.4, 1.0) if one else (0.8, 0.6)
    for curve in curves:
        axes.plot(list(curve), list(curve.values()), color=color, linestyle=dashes, linewidth=width, alpha=alpha)
    common = sorted(set.intersection(*(set(curve) for curve in curves)))
    if not one and common:
        scores = np.array([[curve[update] for update in common] for curve in curves])
        axes.plot(common, np.median(scores, axis=0), color=color, linestyle=dashes, linewidth=1.8)
        axes.fill_between(common, scores.min(axis=0), scores.max(axis=0), color=color, alpha=0.15, linewidth=0)


def _draw_tested(axes: "Axes", study: Study, runs: Sequence[Record], style: LineStyle) -> None:
    """Draw the test score of each run if published levels are test scores, so that a reader compares like with like."""
    points = [(run.best_update, score) for run in runs if study.tested and (score := run.tested(study.score)) is not None]
    if points:
        axes.plot(*zip(*points, strict=True), "x", color=style.color, markersize=5)


def tabulated(study: Study, runs: Mapping[str, list[Record]]) -> tuple[list[str], list[list[str]]]:
    """Return columns and rows of the learning curves in numbers: the published log, and each run at the study's updates."""
    scores: dict[str, Mapping[int, float]] = {f"{study.log_of}, published log": study.log} if study.log else {}
    scores |= {f"{name}, seed {run.seed}": run.curve(study.score) for name, of_name in runs.items() for run in of_name}
    reached = [update for update in study.updates if any(update in curve for curve in scores.values())]
    rows = [[name, *(study.form.format(curve[u]) if u in curve else "–" for u in reached)] for name, curve in scores.items()]
    return ["run", *(f"{update:,}" for update in reached)], rows
