"""Learning curves: training, validation and test loss by epoch, a line for each model."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lrpt.analysis.plots import LineStyle, line_style, saved_figure

Curves = Mapping[str, Sequence[float | None]]
"""Split -> loss after each epoch."""

SPLITS = {"train": "training", "valid": "validation", "test": "test"}
MODELS_OF = {
    "Figure 3": ("LSTM", "GRU", "RHN", "Grid-LSTM", "LRU"),
    "Figure 4": ("GRU", "PS-LRU", "RG-LRU", "LRU"),
}
"""Figure of the paper -> its models."""


def curves_of(lines: Sequence[Mapping[str, Any]]) -> dict[str, list[float | None]]:
    """Return the loss of each split after each epoch, from a run's `metrics.jsonl`. Splits that were not evaluated have no losses."""
    return {split: [line["loss"] for line in lines if line["split"] == split] for split in SPLITS}


def losses_figure(groups: Mapping[str, Sequence[Curves]], path: Path, title: str = "") -> Path:
    """Plot mean losses by epoch, a row for each of Figures 3 and 4 of Ahuja and Morency 2018 and a column for each split.

    Write a PNG and a PDF. A line is solid as long as all seeds train. Behind it each seed keeps its last loss, as the dotted lines of the
    paper do.

    Args:
      groups: model -> curves of its runs.
      path: path of the PNG.
      title: title of the plot.
    """
    rows = {name: [model for model in models if model in groups] for name, models in MODELS_OF.items()}
    rows = {name: models for name, models in rows.items() if models} or {"": list(groups)}
    looks = {model: line_style(place) for place, model in enumerate(groups)}
    with saved_figure(path, 9.6, 1.0 + 2.6 * len(rows)) as figure:
        panels = figure.subplots(len(rows), len(SPLITS), squeeze=False, sharex=True, sharey="row")
        for of_row, (name, models) in zip(panels, rows.items(), strict=True):
            for axes, (split, word) in zip(of_row, SPLITS.items(), strict=True):
                for model in models:
                    draw_mean(axes, [curves[split] for curves in groups[model] if curves[split]], model, looks[model])
                axes.set(xlabel="epoch")
                axes.set_title(f"{name} {word}".strip())
            of_row[0].set(ylabel="nats per character")
            of_row[0].plot([], [], ":", color="0.4", label="some seeds have ended")
            of_row[0].legend(fontsize="small")
        figure.suptitle(title)
    return path


def draw_mean(axes: Any, runs: Sequence[Sequence[float | None]], label: str, style: LineStyle) -> None:
    """Draw the mean of several curves."""
    if not runs:
        return
    length, common = max(map(len, runs)), min(map(len, runs))
    held = np.array([[*run, *[run[-1]] * (length - len(run))] for run in runs], np.float64).mean(axis=0)
    epochs = np.arange(1, length + 1)
    look = {"color": style.color, "marker": style.marker, "markersize": 3, "markevery": 3}
    axes.plot(epochs[:common], held[:common], label=label, linestyle=style.dashes, **look)
    axes.plot(epochs[common - 1 :], held[common - 1 :], ":", color=style.color)
