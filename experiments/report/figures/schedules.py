"""Figures of networks with variable computation: score over operations (Figure 4 of Jernite et al.), m around words (Figures 3 and 5)."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from experiments.efficiency.points import SIZES, Point, point_of
from experiments.report.claims.paper import Draw, Study
from experiments.report.claims.rows import Evidence
from experiments.report.figures.shared import ANNEALED, axes_of, falls, legend_below, panels, shown, styles
from experiments.report.kept.records import Record
from lrpt.analysis.plots import LineStyle, saved_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SIZE = SIZES["paper"][0]
SIZE_NAME = "size of the RNN of as many operations (the paper's RNN-d)"
HARD = "open: the same, with the hard mask"
SPACES_ONLY = "open: the same, knowing spaces only"


def schedule_figures(study: Study, evidence: Evidence) -> dict[str, tuple[str, Draw]]:
    """Return the figures of a study besides its learning curves: name -> what it shows, and a function that writes it to a path."""
    runs = study.runs(evidence)
    points = {name: found for name, own in runs.items() if (found := _points(own, study.score))}
    words = {name: found for name, own in runs.items() if (found := [run for run in own if run.analysed("words", "means", "0")])}
    figures: dict[str, tuple[str, Draw]] = {}
    if points and any(record.analysis for own in runs.values() for record in own):
        hard = {name: _hard_points(own, study.score) for name, own in runs.items()}
        shows = f"{study.title}: test score over operations{'; open markers: with the hard mask' if any(hard.values()) else ''}"
        figures[f"operations_{study.name}"] = (shows, partial(_operations, study, points, hard))
    if words:
        shows = f"{study.title}: mean m around the end of a word"
        figures[f"words_{study.name}"] = (shows, partial(_words, shows, words))
    return figures


def _usable(runs: Sequence[Record]) -> list[Record]:
    return [run for run in runs if run.result is not None and SIZE in run.result["metrics"]["test"]]


def _points(runs: Sequence[Record], score: str) -> list[Point]:
    return [point_of(run.result, run.config, score) for run in _usable(runs) if run.result is not None]


def _hard_points(runs: Sequence[Record], score: str) -> list[Point]:
    """Return the points of finished runs with the hard mask: both the score and the operations are those of that mask."""
    found = []
    for run in _usable(runs):
        size, value = (run.analysed("masks", "hard", "test", name) for name in (SIZE, score))
        if run.result is not None and size is not None and value is not None:
            found.append(point_of(run.result, run.config, score)._replace(size=size, score=value))
    return found


def _operations(study: Study, points: Mapping[str, Sequence[Point]], hard: Mapping[str, Sequence[Point]], path: Path) -> Path:
    """Draw each seed as a dot, with the hard mask an open one, and for each family a line through the means of its networks."""
    families = dict.fromkeys(own[0].family for own in points.values())
    split = panels({family: family.endswith(ANNEALED) for family in families})
    looks = styles(split)
    opened = [point for own in hard.values() for point in own]
    with saved_figure(path, 7.2 if len(split) > 1 else 5.2, 3.6) as figure:
        for axes, names in zip(axes_of(figure, split, study.title), split.values(), strict=True):
            for family in names:
                networks = [own for own in points.values() if own[0].family == family]
                own = [point for point in opened if point.family == family]
                _draw_family(axes, networks, own, looks[family], shown(family, split))
            axes.set(xlabel=SIZE_NAME if len(split) == 1 else SIZE_NAME.replace("operations ", "operations\n"))
        figure.axes[0].set(ylabel=study.score_name.replace("validation", "test"))
        if opened:
            figure.axes[0].plot([], [], "o", color="0.4", fillstyle="none", markersize=4, label=HARD)
        legend_below(figure)
    return path


def _draw_family(axes: "Axes", networks: Sequence[Sequence[Point]], hard: Sequence[Point], style: LineStyle, label: str) -> None:
    """Draw a line through the mean of each network, its seeds, and the same with the hard mask."""
    means = sorted((np.mean([point.size for point in own]), np.mean([point.score for point in own])) for own in networks)
    axes.plot(*zip(*means, strict=True), "-", color=style.color)
    for points, filled, name in (([point for own in networks for point in own], "full", label), (hard, "none", None)):
        at = [point.size for point in points], [point.score for point in points]
        axes.plot(*at, style.marker, color=style.color, markersize=4, fillstyle=filled, label=name)


def _words(title: str, runs: Mapping[str, Sequence[Record]], path: Path) -> Path:
    """Draw the mean over seeds, and dotted the mean of a schedule that knows the white spaces only."""
    split = panels({name: falls(own) for name, own in runs.items()})
    looks = styles(split)
    with saved_figure(path, 7.2, 3.6) as figure:
        for axes, names in zip(axes_of(figure, split, title), split.values(), strict=True):
            axes.axvline(0, color="0.7", linewidth=1)
            for name in names:
                _draw_words(axes, runs[name], looks[name], shown(name, split))
            axes.set(xlabel="characters from the white space that ends a word", ylim=(0, None))
        figure.axes[0].plot([], [], "o:", color="0.4", markersize=4, fillstyle="none", label=SPACES_ONLY)
        figure.axes[0].set(ylabel="mean m")
        legend_below(figure)
    return path


def _draw_words(axes: "Axes", runs: Sequence[Record], style: LineStyle, label: str) -> None:
    found = [run.analysis["words"] for run in runs if run.analysis is not None]
    for series, dashes, filled, width, name in (("means", style.dashes, "full", 1.4, label), ("control", ":", "none", 0.9, None)):
        means = np.mean([one[series] for one in found], axis=0)
        look = {"color": style.color, "marker": style.marker, "markersize": 4, "fillstyle": filled, "linewidth": width}
        axes.plot(found[0]["offsets"], means, linestyle=dashes, label=name, **look)
