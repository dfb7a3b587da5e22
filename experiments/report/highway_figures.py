"""Figures of a trained recurrent highway network: lesions (Zilly et al. 2017, section 6), activity of gates by layer (Figure 5b)."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from experiments.report.claims import Evidence
from experiments.report.paper import Draw, Study
from lrpt.analysis.lesions import Lesions, lesion_figure
from lrpt.analysis.plots import png


def highway_figures(study: Study, evidence: Evidence) -> dict[str, tuple[str, Draw]]:
    """Return the figures of the first seed that is analysed: name -> what it shows, and a function that writes it to a path."""
    runs = [run for own in study.runs(evidence).values() for run in own if run.analysis and "highway" in run.analysis]
    if not runs or runs[0].analysis is None:
        return {}
    found, title = runs[0].analysis["highway"], f"{study.title}, seed {runs[0].seed}"
    return {
        f"lesions_{study.name}": (f"{title}: training loss with one layer's gates held", partial(_lesions, found["lesions"], title)),
        f"gates_{study.name}": (f"{title}: activity of each layer's transform gate", partial(_gates, found["gates"], title)),
    }


def _lesions(found: Mapping[str, Any], title: str, path: Path) -> Path:
    return lesion_figure(Lesions(found["intact"], tuple(found["shut"]), tuple(found["opened"])), path, title, "nats per frame")


def _gates(found: Sequence[Mapping[str, Any]], title: str, path: Path) -> Path:
    """Draw the mean of each layer as a bar, with its deviation over steps and examples."""
    width = 0.4
    with png(path) as figure:
        axes = figure.subplots()
        for number, network in enumerate(dict.fromkeys(one["network"] for one in found)):
            own = [one for one in found if one["network"] == network]
            layers = np.array([one["layer"] for one in own]) + width * (number - 0.5)
            axes.bar(layers, [one["mean"] for one in own], width, yerr=[one["deviation"] for one in own], capsize=2, label=network)
        axes.set(xlabel="layer", ylabel="mean transform gate", ylim=(0, None))
        axes.set_title(title)
        axes.legend()
    return path
