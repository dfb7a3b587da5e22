"""Plot of statistical efficiency: scores against the share of the training data."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from lrpt.analysis.plots import saved_figure


def efficiency_figure(groups: Mapping[str, Mapping[float, Sequence[float]]], path: Path, title: str, score: str) -> Path:
    """Plot the mean score against the share of the data, a line for each model and a point for each run, and write a PNG and a PDF.

    The plot corresponds to Figure 5 of Ahuja and Morency 2018.

    Args:
      groups: model -> per cent of the data -> scores of its runs.
      path: path of the PNG.
      title: title of the plot.
      score: name of the scores.
    """
    with saved_figure(path) as figure:
        axes = figure.subplots()
        for name, of_share in groups.items():
            shares = sorted(of_share)
            (line,) = axes.plot(shares, [np.mean(of_share[share]) for share in shares], label=name)
            every = [(share, one) for share in shares for one in of_share[share]]
            axes.plot(*zip(*every, strict=True), "o", markersize=3, alpha=0.8, color=line.get_color())
        axes.set(xlabel="per cent of the data", ylabel=score)
        axes.set_title(title)
        axes.legend()
    return path
