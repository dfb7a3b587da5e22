"""Learning curves with what was published drawn into them as lines and points."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from experiments.report.claims.paper import Study
from experiments.report.claims.rows import Evidence
from experiments.report.kept.records import Record
from lrpt.analysis.plots import LineStyle, line_style, plain_log_scale, saved_figure
from lrpt.metrics import LOWER_IS_BETTER

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHOWN = 3
"""Longest axis of updates, as a multiple of our longest run. Of a longer published log, its result remains as a line."""


def draw_study(study: Study, evidence: Evidence, path: Path) -> Path:
    """Draw the learning curves of all runs of a study, published figures, and the predictor without memory."""
    curves = {name: [run.curve(study.score) for run in runs] for name, runs in study.runs(evidence).items()}
    every = [curve for of_name in curves.values() for curve in of_name if curve]
    with saved_figure(path, 7.2, 4.4) as figure:
        axes = figure.subplots()
        for number, (name, of_name) in enumerate(curves.items()):
            _draw(axes, name, of_name, line_style(number))
        if study.log:
            axes.plot(
                list(study.log),
                list(study.log.values()),
                "o",
                color="0.2",
                markersize=4,
                fillstyle="none",
                label=f"{study.log_of}, published log",
            )
        for (name, level), style in zip(study.levels.items(), ("--", "-.", ":", "--"), strict=False):
            axes.axhline(level, color="0.35", linestyle=style, linewidth=1, label=name)
        if study.baseline:
            name, level = study.baseline
            axes.axhline(level, color="0.6", linewidth=1.5, label=f"{name} predictor")
        if study.score == "loss":
            plain_log_scale(axes)
        elif study.score in LOWER_IS_BETTER:
            _zoom(axes, every)
        axes.xaxis.set_major_formatter("{x:,.0f}")
        axes.set(xlabel="updates", ylabel=study.score_name, xlim=(0, _last_shown(study, every)))
        axes.set_title(study.title)
        figure.legend(loc="outside right upper", fontsize="x-small")
    return path


def _last_shown(study: Study, curves: Sequence[Mapping[int, float]]) -> float | None:
    """Return where the axis of updates ends: at three times our longest run, if the published log goes on for longer."""
    end = SHOWN * max((max(curve) for curve in curves if curve), default=0)
    return end if study.log and 0 < end < max(study.log) else None


def _zoom(axes: "Axes", curves: Sequence[Mapping[int, float]]) -> None:
    """Cut the axis at twice the highest of the lowest scores, so that one diverged run does not flatten the others."""
    limit = 2 * max((min(curve.values()) for curve in curves if curve), default=math.inf)
    if axes.get_ylim()[1] > limit:
        axes.set_ylim(top=limit)


def _draw(axes: "Axes", name: str, curves: list[dict[int, float]], style: LineStyle) -> None:
    """Draw the mean and the range of the seeds up to the shortest run, and each seed thinly."""
    one, (color, dashes) = len(curves) == 1, style
    width, alpha = (1.4, 1.0) if one else (0.8, 0.6)
    axes.plot([], [], label=name if one else f"{name} ({len(curves)} seeds)", color=color, linestyle=dashes)
    for curve in curves:
        axes.plot(list(curve), list(curve.values()), color=color, linestyle=dashes, linewidth=width, alpha=alpha)
    common = sorted(set.intersection(*(set(curve) for curve in curves)))
    if not one and common:
        scores = np.array([[curve[update] for update in common] for curve in curves])
        axes.plot(common, scores.mean(axis=0), color=color, linestyle=dashes, linewidth=1.8)
        axes.fill_between(common, scores.min(axis=0), scores.max(axis=0), color=color, alpha=0.15, linewidth=0)


def tabulated(study: Study, runs: Mapping[str, list[Record]]) -> tuple[list[str], list[list[str]]]:
    """Return columns and rows of the learning curves in numbers: the published log, and each run at the study's updates."""
    scores: dict[str, Mapping[int, float]] = {f"{study.log_of}, published log": study.log} if study.log else {}
    scores |= {f"{name}, seed {run.seed}": run.curve(study.score) for name, of_name in runs.items() for run in of_name}
    reached = [update for update in study.updates if any(update in curve for curve in scores.values())]
    rows = [[name, *(study.form.format(curve[u]) if u in curve else "–" for u in reached)] for name, curve in scores.items()]
    return ["run", *(f"{update:,}" for update in reached)], rows
