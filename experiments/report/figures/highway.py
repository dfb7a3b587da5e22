"""Figures of recurrent highway networks (Zilly et al. 2017): score over depth (Figure 5a), lesions, gates by layer (Figure 5b)."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from experiments.report.claims.matching import recorded
from experiments.report.claims.paper import Draw, Study
from experiments.report.claims.rows import Evidence
from experiments.report.figures.shared import OWN_AXES, whole_title
from experiments.report.kept.records import Record
from lrpt.analysis.gates import gate_figure
from lrpt.analysis.lesions import Lesions, lesion_figure
from lrpt.analysis.plots import saved_figure


def highway_figures(study: Study, evidence: Evidence) -> dict[str, tuple[str, Draw]]:
    """Return the figures: name -> what it shows, and a function that writes it to a path. Lesions and gates are from one seed."""
    everything = [run for own in study.runs(evidence).values() for run in own]
    finished = [run for run in everything if run.tested(study.score) is not None]
    if study.over and finished:
        what = study.over.rpartition(".")[-1]
        return {f"{what}_{study.name}": (f"{study.title}: test score over {what}", partial(_over, study, what, finished))}
    runs = [run for run in everything if run.analysis and "highway" in run.analysis]
    if not runs or runs[0].analysis is None:
        return {}
    found, title = runs[0].analysis["highway"], f"{study.title}, seed {runs[0].seed}"
    return {
        **_heat_map_of(study, runs),
        f"lesions_{study.name}": (f"{title}: training loss with one layer's gates held", partial(_lesions, found["lesions"], title)),
        f"gates_{study.name}": (f"{title}: activity of each layer's transform gate", partial(_gates, found["gates"], title)),
    }


def _heat_map_of(study: Study, runs: Sequence[Record]) -> dict[str, tuple[str, Draw]]:
    """Return the heat map of Figure 5b for the first seed whose gates are kept at each step; nothing if there is none."""
    kept = [(run, activity) for run in runs if run.analysis and (activity := run.analysis["highway"].get("activity"))]
    if not kept:
        return {}
    run, activity = kept[0]
    shows = f"{study.title}, seed {run.seed}: mean transform gate by layer and step, of {len(activity)} pieces"
    return {f"gates_by_step_{study.name}": (shows, partial(_heat_map, activity, f"{study.title}, seed {run.seed}"))}


def _heat_map(activity: Sequence[Sequence[Sequence[float]]], title: str, path: Path) -> Path:
    """Draw one panel for each example, and leave steps after its end white."""
    longest = max(len(of_example[0]) for of_example in activity)
    padded = [np.pad(of_example, ((0, 0), (0, longest - len(of_example[0]))), constant_values=np.nan) for of_example in activity]
    return gate_figure(np.stack(padded), path, title)


def _over(study: Study, what: str, runs: Sequence[Record], path: Path) -> Path:
    """Draw each seed as a dot and a line through the means; beside them, on its own axis, the curve of a published figure."""
    dots = [(recorded(run)[study.over], score) for run in runs if (score := run.tested(study.score)) is not None]
    values = sorted({value for value, _ in dots})
    means = [np.mean([score for value, score in dots if value == one]) for one in values]
    with saved_figure(path, 7.2 if study.published_over else 5.2) as figure:
        ours, *others = figure.subplots(1, 1 + bool(study.published_over), squeeze=False)[0]
        ours.plot(values, means, "-", color="C0")
        ours.plot(*zip(*dots, strict=True), "o", color="C0", markersize=4)
        ours.set(xlabel=what, ylabel=study.score_name.replace("validation", "test"), xticks=values)
        for axes in others:
            axes.plot(list(study.published_over), list(study.published_over.values()), "o-", color="0.2", markersize=4, fillstyle="none")
            axes.set(xlabel=what, xticks=list(study.published_over))
            axes.set_title(f"published, {study.published_scale}")
        ours.set_title(f"ours, {study.scale}" if others else study.title)
        if others:
            whole_title(figure, f"{study.task}. {OWN_AXES}")
    return path


def _lesions(found: Mapping[str, Any], title: str, path: Path) -> Path:
    return lesion_figure(Lesions(found["intact"], tuple(found["shut"]), tuple(found["opened"])), path, title, "nats per frame")


def _gates(found: Sequence[Mapping[str, Any]], title: str, path: Path) -> Path:
    """Draw the mean of each layer as a bar, with its deviation over steps and examples."""
    width = 0.4
    with saved_figure(path) as figure:
        axes = figure.subplots()
        for number, network in enumerate(dict.fromkeys(one["network"] for one in found)):
            own = [one for one in found if one["network"] == network]
            layers = np.array([one["layer"] for one in own]) + width * (number - 0.5)
            axes.bar(layers, [one["mean"] for one in own], width, yerr=[one["deviation"] for one in own], capsize=2, label=network)
        axes.set(xlabel="layer", ylabel="transform gate: mean and deviation", ylim=(0, None))
        axes.set_title(title)
        axes.legend()
    return path
