"""Gradient norms by layer and epoch, which show the layers of a stack that learn."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from lrpt.analysis.plots import line_style, plain_log_scale, saved_figure

COLUMNS = 3
"""plots side by side"""
_FIGURE = re.compile(r"gradient_norm_layer_(\d+)")


def layer_norms_by_epoch(lines: Sequence[Mapping[str, Any]]) -> Float[np.ndarray, "l e"]:
    """Return gradient norms from a run's `metrics.jsonl`: layers, first to last, by evaluations.

    Each value is the mean over the minibatches since the previous evaluation of the norm of a minibatch's gradient. The original code
    (chahuja/lru) stores the sum of an epoch's gradients, which may cancel, and computes no norm. The sum counts the second minibatch twice
    instead of the first.

    Args:
      lines: metrics of a network of several layers; only lines of the split 'train' are used.
    """
    train = [line for line in lines if line["split"] == "train"]
    names = sorted((name for name in (train[0] if train else {}) if _FIGURE.fullmatch(name)), key=_number)
    return np.array([[line[name] for line in train] for name in names], np.float64)


def _number(name: str) -> int:
    return int(name.rpartition("_")[2])


def mean_norms(runs: Sequence[ArrayLike]) -> Float[np.ndarray, "l e"]:
    """Return the mean over runs, each layers by epochs, for the epochs that all of them have."""
    found = [np.asarray(norms) for norms in runs]
    epochs = min(norms.shape[1] for norms in found)
    return np.mean([norms[:, :epochs] for norms in found], axis=0)


def top_to_bottom(norms: Float[np.ndarray, "l e"]) -> Float[np.ndarray, " e"]:
    """Return for each epoch how many times larger the norm of the last layer is than the norm of the first one."""
    return norms[-1] / norms[0]


def layer_gradients_figure(norms: Mapping[str, Float[np.ndarray, "l e"]], path: Path) -> Path:
    """Plot a heat map for each model, each with its own scale, and the ratio of last to first layer by epoch, and write a PNG and a PDF.

    Larger norms are darker. The plot corresponds to Figure 7 of Ahuja and Morency 2018, which does not have the ratios.

    Args:
      norms: model -> result of `layer_norms_by_epoch`.
      path: path of the PNG.
    """
    rows = -(-(len(norms) + 1) // COLUMNS)
    with saved_figure(path, 3.0 * COLUMNS, 2.8 * rows) as figure:
        places = figure.subplots(rows, COLUMNS).flat
        maps, ratios = places[: len(norms)], places[len(norms)]
        for number, (axes, (name, found)) in enumerate(zip(maps, norms.items(), strict=True)):
            layers, epochs = found.shape
            shown = axes.imshow(found, aspect="auto", origin="lower", cmap="Greys", extent=(0.5, epochs + 0.5, 0.5, layers + 0.5))
            axes.set(xlabel="epoch", ylabel="layer", yticks=range(1, layers + 1))
            axes.locator_params(axis="x", integer=True, nbins=5)
            axes.grid(visible=False)
            axes.set_title(name)
            figure.colorbar(shown, ax=axes, label="norm of the gradient")
            look = line_style(number)
            ratios.plot(range(1, epochs + 1), top_to_bottom(found), color=look.color, marker=look.marker, markersize=3, label=name)
        plain_log_scale(ratios)
        ratios.locator_params(axis="x", integer=True, nbins=5)
        ratios.set(xlabel="epoch", ylabel="ratio of the norms")
        ratios.set_title("last layer over first layer")
        figure.legend(loc="outside lower left", ncols=4, fontsize="small")
        for axes in places[len(norms) + 1 :]:
            axes.set_axis_off()
    return path
