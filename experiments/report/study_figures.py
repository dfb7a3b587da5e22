"""Figures of studies of many runs, with what was published drawn into them."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from experiments.jsb.swarm_figure import swarm_figure
from experiments.lattice.gradients_figure import layer_gradients_figure
from experiments.lattice.models import NAMES
from experiments.report.claims import EPOCHS, Evidence, study_scale
from experiments.report.papers.highway_takeaways import CELLS, CONSTANT
from experiments.report.papers.lattice import FIGURE_5, STUDIES, TABLE_1, TEXTS
from lrpt.analysis.plots import png

Summary = Mapping[str, Any]


def draw_studies(evidence: Evidence, folder: Path) -> None:
    """Draw the figure of every study that is kept."""
    for name, draw in FIGURES.items():
        if name in evidence.studies:
            draw(evidence.studies[name], folder / f"{name}.png")


def _swarm(summary: Summary, path: Path) -> None:
    groups: dict[str, dict[int, list[float]]] = {}
    for dot in summary["dots"]:
        groups.setdefault(CELLS[dot["cell"]], {}).setdefault(dot["depth"], []).append(dot["lowest_train_loss"])
    swarm_figure(groups, path, "JSB Chorales", "lowest training loss (nats per frame)", ("constant predictor", CONSTANT))


def _by_model(summary: Summary, field: str) -> dict[str, dict[float, list[float]]]:
    """Return model -> share of the data -> figures of the seeds."""
    groups: dict[str, dict[float, list[float]]] = {}
    for run in summary["runs"]:
        groups.setdefault(NAMES[run["model"]], {}).setdefault(run["share"], []).append(run[field])
    return groups


def _epochs(text: str) -> Callable[[Summary, Path], None]:
    column = 2 * TEXTS.index(text)

    def draw(summary: Summary, path: Path) -> None:
        groups = {model: of_share[100] for model, of_share in _by_model(summary, EPOCHS).items()}
        with png(path, 7.2, 3.6) as figure:
            axes = figure.subplots()
            for place, epochs in enumerate(groups.values()):
                axes.plot(
                    [place] * len(epochs), epochs, "o", markersize=4, alpha=0.6, color="C0", label=None if place else "ours, each seed"
                )
            published = [TABLE_1["10M"][model][column] for model in groups]
            axes.plot(range(len(groups)), published, "D", color="0.2", fillstyle="none", label="published, 10 M parameters")
            axes.axhline(summary["options"]["epochs"], color="0.6", label="our cap: points on it are lower bounds")
            axes.set(ylabel="epochs until the lowest validation loss", ylim=(0, None))
            axes.set_xticks(range(len(groups)), groups)
            axes.set_title(f"{text}: {study_scale(summary)}")
            figure.legend(loc="outside right upper", fontsize="x-small")

    return draw


def _efficiency(summary: Summary, path: Path) -> None:
    with png(path, 7.2, 4.0) as figure:
        axes = figure.subplots()
        for name, of_share in _by_model(summary, "loss").items():
            shares = sorted(of_share)
            (line,) = axes.plot(shares, [np.mean(of_share[share]) for share in shares], label=f"{name}, ours")
            for share in shares:
                axes.plot([share] * len(of_share[share]), of_share[share], "o", markersize=3, alpha=0.7, color=line.get_color())
            axes.plot(
                (20, 40, 60, 80, 100), FIGURE_5["PTB"][name], "--", color=line.get_color(), label=f"{name}, published (10 M parameters)"
            )
        axes.set(xlabel="percent of the data", ylabel="test loss (nats per character)")
        axes.set_title(f"PTB: {study_scale(summary)}")
        figure.legend(loc="outside right upper", fontsize="x-small")


def _gradients(summary: Summary, path: Path) -> None:
    layer_gradients_figure({model: np.asarray(norms) for model, norms in summary["norms"].items()}, path)


FIGURES: dict[str, Callable[[Summary, Path], None]] = {
    "jsb_swarm": _swarm,
    **{study: _epochs(text) for text, study in STUDIES.items()},
    "lattice_efficiency_ptb": _efficiency,
    "lattice_gradients_ptb": _gradients,
}
"""File of a study, without ending -> what draws its figure."""
