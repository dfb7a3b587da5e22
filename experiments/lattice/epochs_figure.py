"""Box plot of the epochs until the best one, a box for each model."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from lrpt.analysis.plots import saved_figure


def epochs_figure(groups: Mapping[str, Sequence[float]], path: Path, title: str) -> Path:
    """Plot a box for each model (Ahuja and Morency 2018, Figure 6), with every run as a point over it, and write a PNG and a PDF.

    Boxes go from the first to the third quartile, with a line at the median; whiskers reach to the farthest run
    within 1.5 times that range.

    Args:
      groups: model -> epochs of its runs, at least one.
      path: path of the PNG.
      title: title of the plot.
    """
    with saved_figure(path, max(5.2, 1.2 + 0.7 * len(groups)), 3.2) as figure:
        axes = figure.subplots()
        axes.boxplot(list(groups.values()), showfliers=False, medianprops={"color": "black"})
        for place, epochs in enumerate(groups.values(), start=1):
            axes.plot([place] * len(epochs), epochs, "o", markersize=3, alpha=0.8)
        axes.set(ylabel="epochs until the lowest validation loss", ylim=(0, None))
        axes.set_xticks(range(1, len(groups) + 1), groups)
        axes.set_title(title)
    return path
