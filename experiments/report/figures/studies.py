"""Figures of studies of many runs, with what was published drawn into them."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from experiments.jsb.swarm_figure import by_group, swarm_figure
from experiments.lattice.gradients_figure import layer_gradients_figure, mean_norms
from experiments.lattice.losses_figure import Curves, losses_figure
from experiments.lattice.models import NAMES
from experiments.report.claims.rows import EPOCHS, Evidence
from experiments.report.claims.studies import SWARM
from experiments.report.figures.shared import OWN_AXES, legend_below, whole_title
from experiments.report.kept.lattice_studies import STARTS, norms_of, runs_from, scale_of, starts_in
from experiments.report.kept.summaries import Summary
from experiments.report.papers.highway_takeaways import CELLS, constant_of
from experiments.report.papers.lattice_table import EFFICIENCY, FIGURE_5, GRADIENTS, SHARES, STUDIES, TABLE_1, TEXTS
from lrpt.analysis.plots import LineStyle, line_style, saved_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CONVERGENCE = [(text, study) for text, studies in STUDIES.items() for study in studies]
"""Studies of convergence, each with its text."""


def draw_studies(evidence: Evidence, folder: Path) -> None:
    """Draw the figure of every study that is kept, and learning curves where losses of each epoch are kept."""
    for name, draw in DRAWN_BY.items():
        if name in evidence.studies:
            draw(evidence.studies[name], folder / f"{name}.png")
    for text, name in CONVERGENCE:
        for start, curves in _curves(evidence.studies.get(name)).items():
            title = f"{text}: {scale_of(evidence.studies[name], start)}"
            losses_figure(curves, folder / f"{_of_losses(name, start)}.png", title)


def shown(paper: str, evidence: Evidence) -> dict[str, str]:
    """Return the figures of kept studies that belong to the page of a paper: name -> what it shows."""
    found = {name: SHOWS[name] for name in DRAWN_BY if name in evidence.studies}
    for text, name in CONVERGENCE:
        for start in _curves(evidence.studies.get(name)):
            of = f"{text}, {scale_of(evidence.studies[name])}"
            found |= {name: f"{of}: epochs until the lowest validation loss"} if name in found else {}
            found[_of_losses(name, start)] = f"{of}: test loss by epoch, {STARTS[start]}"
    return {name: shows for name, shows in found.items() if paper == ("recurrent_highway" if name == SWARM else "lattice")}


def _of_losses(study: str, start: str) -> str:
    """Return the name of the figure of learning curves of a study."""
    return f"{study.replace('convergence', 'losses')}_{start}"


def _curves(summary: Summary | None) -> dict[str, dict[str, list[Curves]]]:
    """Return start -> model -> losses of each seed by epoch, as in Figures 3 and 4, of runs that have them."""
    found: dict[str, dict[str, list[Curves]]] = {}
    for run in summary["runs"] if summary else ():
        if "losses" in run:
            found.setdefault(run["initialization"], {}).setdefault(NAMES[run["model"]], []).append(run["losses"])
    return {start: found[start] for start in STARTS if start in found}


def _swarm(summary: Summary, path: Path) -> None:
    found = by_group(summary["dots"])
    swarm_figure({name: found[cell] for cell, name in CELLS.items() if cell in found}, path, "JSB Chorales", constant_of(summary))


def _by_model(summary: Summary, field: str, start: str) -> dict[str, dict[float, list[float]]]:
    """Return model -> share of the data -> values of the seeds."""
    groups: dict[str, dict[float, list[float]]] = {}
    for run in runs_from(summary, start):
        groups.setdefault(NAMES[run["model"]], {}).setdefault(run["share"], []).append(run[field])
    return groups


def _epochs(text: str) -> Callable[[Summary, Path], None]:
    column = 2 * TEXTS.index(text)

    def draw(summary: Summary, path: Path) -> None:
        starts = starts_in(summary)
        models = [*dict.fromkeys(NAMES[run["model"]] for start in starts for run in runs_from(summary, start))]
        with saved_figure(path, 7.2, 3.6) as figure:
            axes = figure.subplots()
            for number, start in enumerate(starts):
                points = [(models.index(m), n) for m, of_share in _by_model(summary, EPOCHS, start).items() for n in of_share[100]]
                places = [place + 0.2 * (number - (len(starts) - 1) / 2) for place, _ in points]
                look, label = line_style(number), f"ours, each seed, {STARTS[start]}"
                axes.plot(places, [n for _, n in points], look.marker, markersize=4, alpha=0.6, color=look.color, label=label)
            published = {model: TABLE_1["10M"][model][column] for model in models if model in TABLE_1["10M"]}
            places = [models.index(model) for model in published]
            axes.plot(
                places, list(published.values()), "D", markersize=7, color="0.2", fillstyle="none", label="published, 10 M parameters"
            )
            axes.axhline(summary["options"]["epochs"], color="0.6", label="our cap: points on it are lower bounds")
            axes.set(ylabel="epochs until the lowest validation loss", ylim=(0, None))
            axes.set_xticks(range(len(models)), [name.replace(", ", ",\n") for name in models])
            axes.set_title(f"{text}: {scale_of(summary)}")
            legend_below(figure)

    return draw


def _efficiency(text: str) -> Callable[[Summary, Path], None]:
    """Return what draws losses by share of a text, beside the published ones: their networks are larger, so each panel has its own axis."""

    def draw(summary: Summary, path: Path) -> None:
        start = starts_in(summary)[0]
        with saved_figure(path, 7.2, 4.4) as figure:
            ours, published = figure.subplots(1, 2)
            whole_title(figure, f"{text}. Ours: {scale_of(summary, start)}. {OWN_AXES}")
            for number, (name, of_share) in enumerate(_by_model(summary, "loss", start).items()):
                _draw_shares(ours, published, name, of_share, FIGURE_5[text].get(name), line_style(number))
            for axes, title in ((ours, "ours"), (published, "published, 10 M parameters")):
                axes.set(xlabel="percent of the data", xticks=SHARES)
                axes.set_title(title)
            ours.set(ylabel="test loss (nats per character)")
            legend_below(figure)

    return draw


def _draw_shares(
    ours: "Axes",
    others: "Axes",
    name: str,
    of_share: Mapping[float, Sequence[float]],
    published: Sequence[float] | None,
    style: LineStyle,
) -> None:
    """Draw the mean of a model and its seeds, and beside them the published losses."""
    shares = sorted(of_share)
    look = {"color": style.color, "marker": style.marker, "markersize": 4}
    ours.plot(shares, [np.mean(of_share[share]) for share in shares], color=style.color)
    seeds = [(share, loss) for share in shares for loss in of_share[share]]
    ours.plot(*zip(*seeds, strict=True), linestyle="none", alpha=0.7, **look)
    ours.plot([], [], label=name, **look)
    if published is not None:
        others.plot(SHARES, published, **look)


def _gradients(summary: Summary, path: Path) -> None:
    norms = {
        f"{model}, {STARTS[start]}": mean_norms(list(of_seeds.values()))
        for start in starts_in(summary)
        for model, of_seeds in norms_of(summary, start).items()
    }
    layer_gradients_figure(norms, path)


DRAWN_BY: dict[str, Callable[[Summary, Path], None]] = {
    SWARM: _swarm,
    **{study: _epochs(text) for text, study in CONVERGENCE},
    **{study: _efficiency(text) for text, study in EFFICIENCY.items()},
    GRADIENTS: _gradients,
}
"""File of a study, without ending -> what draws its figure."""

SHOWS = {
    SWARM: "JSB Chorales: lowest training loss by architecture and depth, a dot for each setting",
    **{study: f"{text}: epochs until the lowest validation loss" for text, study in CONVERGENCE},
    **{study: f"{text}: test loss by share of the data" for text, study in EFFICIENCY.items()},
    GRADIENTS: "PTB: norms of gradients by layer and epoch",
}
"""File of a study, without ending -> what its figure shows."""
