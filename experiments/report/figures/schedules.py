"""Figures of networks with variable computation: score over operations (Figure 4 of Jernite et al.), m around words (Figures 3 and 5)."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from experiments.efficiency.points import SIZES, Point, point_of
from experiments.report.claims.paper import Draw, Study
from experiments.report.claims.rows import Evidence
from experiments.report.kept.records import Record
from lrpt.analysis.plots import saved_figure


def schedule_figures(study: Study, evidence: Evidence) -> dict[str, tuple[str, Draw]]:
    """Return the figures of a study besides its learning curves: name -> what it shows, and a function that writes it to a path."""
    runs = study.runs(evidence)
    points = {name: found for name, own in runs.items() if (found := _points(own, study.score))}
    words = {name: found for name, own in runs.items() if (found := [run for run in own if run.analysed("words", "means", "0")])}
    figures: dict[str, tuple[str, Draw]] = {}
    if points and any(record.analysis for own in runs.values() for record in own):
        figures[f"operations_{study.name}"] = (f"{study.title}: test score over operations", partial(_operations, study, points))
    if words:
        figures[f"words_{study.name}"] = (f"{study.title}: mean m around the end of a word", partial(_words, words))
    return figures


def _points(runs: Sequence[Record], score: str) -> list[Point]:
    return [
        point_of(run.result, run.config, score)
        for run in runs
        if run.result is not None and SIZES["paper"][0] in run.result["metrics"]["test"]
    ]


def _operations(study: Study, points: Mapping[str, Sequence[Point]], path: Path) -> Path:
    """Draw each seed as a dot, and for each family a line through the means of its networks."""
    families = dict.fromkeys(own[0].family for own in points.values())
    with saved_figure(path) as figure:
        axes = figure.subplots()
        for number, family in enumerate(families):
            found = [own for own in points.values() if own[0].family == family]
            means = sorted((np.mean([p.size for p in own]), np.mean([p.score for p in own])) for own in found)
            seeds = [point for own in found for point in own]
            axes.plot(*zip(*means, strict=True), "-", color=f"C{number}")
            axes.plot([p.size for p in seeds], [p.score for p in seeds], "o", color=f"C{number}", markersize=4, label=family)
        axes.set(xlabel="size of the RNN of as many operations (the paper's RNN-d)", ylabel=study.score_name.replace("validation", "test"))
        axes.set_title(study.title)
        axes.legend()
    return path


def _words(runs: Mapping[str, Sequence[Record]], path: Path) -> Path:
    """Draw the mean over seeds, and dotted the mean of a schedule that knows the white spaces only."""
    with saved_figure(path, 7.2) as figure:
        axes = figure.subplots()
        for number, (name, own) in enumerate(runs.items()):
            found = [run.analysis["words"] for run in own if run.analysis is not None]
            for series, style, label in (("means", "o-", name), ("control", ":", None)):
                means = np.mean([one[series] for one in found], axis=0)
                axes.plot(found[0]["offsets"], means, style, color=f"C{number}", markersize=4, label=label)
        axes.plot([], [], ":", color="0.4", label="the same, knowing spaces only")
        axes.axvline(0, color="0.7", linewidth=1)
        axes.set(xlabel="characters from the white space that ends a word", ylabel="mean m", ylim=(0, None))
        figure.legend(loc="outside right upper", fontsize="x-small")
    return path
