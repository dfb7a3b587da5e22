"""Norms of gradients by layer and epoch: where, along its depth, a stack of layers learns."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from lrpt.analysis.figures import png

_FIGURE = re.compile(r"gradient_norm_layer_(\d+)")


def layer_norms_by_epoch(lines: Sequence[Mapping[str, Any]]) -> Float[np.ndarray, "l e"]:
    """Layers, first to last, by evaluations, from the lines of a run's `metrics.jsonl`.

    Each is the mean, over the minibatches since the evaluation before, of the norm of one minibatch's gradient. The original code
    (chahuja/lru) adds up signed gradients over an epoch and takes the norm of the sum, in which they may cancel, and counts the second
    minibatch's twice instead of the first's.

    Args:
      lines: of a network of several layers; those of the split 'train' are read.
    """
    train = [line for line in lines if line["split"] == "train"]
    names = sorted((name for name in (train[0] if train else {}) if _FIGURE.fullmatch(name)), key=_number)
    return np.array([[line[name] for line in train] for name in names], np.float64)


def _number(name: str) -> int:
    return int(name.rpartition("_")[2])


def layer_gradients_figure(norms: Mapping[str, Float[np.ndarray, "l e"]], path: Path, title: str = "") -> Path:
    """Draws a heat map for each model, darker where norms are larger, each with a scale of its own, and writes a PNG.

    As Figure 7 of Ahuja and Morency 2018.

    Args:
      norms: model -> what `layer_norms_by_epoch` returns.
      path: of the PNG.
      title: above the figure.
    """
    with png(path, 1.6 + 3.0 * len(norms), 3.2) as figure:
        for axes, (name, found) in zip(np.atleast_1d(figure.subplots(1, len(norms))), norms.items(), strict=True):
            layers, epochs = found.shape
            shown = axes.imshow(found, aspect="auto", origin="lower", cmap="Greys", extent=(0.5, epochs + 0.5, 0.5, layers + 0.5))
            axes.set(xlabel="epoch", ylabel="layer", yticks=range(1, layers + 1))
            axes.grid(visible=False)
            axes.set_title(f"{name}  {title}")
            figure.colorbar(shown, ax=axes)
    return path
