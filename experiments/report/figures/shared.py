"""Panels, one cycle of styles, legends below the axes, and labels of levels beside them, for all figures of the report."""

from collections.abc import Mapping, Sequence
from itertools import cycle
from textwrap import fill
from typing import TYPE_CHECKING

from experiments.report.kept.records import Record
from lrpt.analysis.plots import CHARACTERS_PER_INCH, DASHES, LineStyle, line_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ANNEALED = ", annealed"
"""Ending of the names of networks that are there with a constant learning rate, too."""
CONSTANT_RATE, FALLING_RATE = "constant learning rate", "annealed: the rate falls in the end"
"""Titles of panels."""
OWN_AXES = "The vertical axes differ."
"""Said of two panels whose networks are of different sizes."""

SMALL = 0.15
"""Height in inches of a line in the font of legends."""
IN_A_LEGEND, FRAME = 19, 10
"""Characters per inch of a legend, and what the handle and the space beside a label take, in characters."""
LABEL = 18
"""Longest line of a label beside the axes, in characters."""
TEXT = 1.06
"""Where labels begin, in widths of the axes."""
LEVELS = ("0.2", "0.5")
"""Greys of published levels."""


def falls(runs: Sequence[Record]) -> bool:
    """Return whether the learning rate of runs falls in the end."""
    return any(run.config.get("optim", {}).get("decay", 1.0) < 1 for run in runs)


def panels(falling: Mapping[str, bool]) -> dict[str, list[str]]:
    """Split names into panels: title -> names. There is one panel without a title if no network is there with both learning rates.

    Args:
      falling: name -> whether its learning rate falls in the end.
    """
    if not any(name.endswith(ANNEALED) for name in falling) or len(set(falling.values())) == 1:
        return {"": list(falling)}
    return {title: [name for name in falling if falling[name] is falls] for title, falls in ((CONSTANT_RATE, False), (FALLING_RATE, True))}


def shown(name: str, split: Mapping[str, Sequence[str]]) -> str:
    """Return the name of a network in a figure. Titles of several panels say themselves how the learning rate goes."""
    return name.removesuffix(ANNEALED) if len(split) > 1 else name


def styles(split: Mapping[str, Sequence[str]]) -> dict[str, LineStyle]:
    """Return the style of each name. A network has one style in both panels, and within a panel no two have the same."""
    short = {name: shown(name, split) for names in split.values() for name in names}
    numbers = {name: number for number, name in enumerate(dict.fromkeys(short.values()))}
    return {name: line_style(numbers[short[name]]) for name in short}


def axes_of(figure: "Figure", split: Mapping[str, Sequence[str]], title: str, sharex: bool = True) -> list["Axes"]:
    """Return the axes of each panel, side by side, with their titles."""
    found = list(figure.subplots(1, len(split), squeeze=False, sharex=sharex, sharey=True)[0])
    if len(split) == 1:
        found[0].set_title(title)
        return found
    whole_title(figure, title)
    for axes, of_panel in zip(found, split, strict=True):
        axes.set_title(of_panel)
    return found


def whole_title(figure: "Figure", title: str) -> None:
    """Write a title above all panels, which have titles of their own."""
    wrapped = fill(title, int(CHARACTERS_PER_INCH * figure.get_figwidth()))
    figure.suptitle(wrapped, x=0.01, horizontalalignment="left", fontsize="medium")


def legend_below(figure: "Figure") -> None:
    """Write one legend below all axes, in as many columns as there is room for, and make the figure as much higher."""
    entries = {
        label: handle for axes in figure.axes for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }  # panels may repeat entries
    if not entries:
        return
    columns = max(1, min(len(entries), int(IN_A_LEGEND * figure.get_figwidth()) // (max(map(len, entries)) + FRAME)))
    figure.set_figheight(figure.get_figheight() + SMALL * -(-len(entries) // columns))
    figure.legend(entries.values(), entries.keys(), loc="outside lower left", ncols=columns, fontsize="small")


def draw_levels(axes: "Axes", levels: Mapping[str, float]) -> None:
    """Draw a thin grey line for each level, and no two of eight in the same style."""
    looks = [(color, dashes) for dashes in DASHES[1:] for color in LEVELS]
    for level, (color, dashes) in zip(levels.values(), cycle(looks), strict=False):
        axes.axhline(level, color=color, linestyle=dashes, linewidth=1, zorder=1.5)


def label_levels(axes: "Axes", levels: Mapping[str, float], height: float) -> None:
    """Write what levels are beside the axes, from the highest one down, without overlaps; a thin line leads from each level to its label.

    Args:
      axes: whose limits and scale are set already.
      levels: label -> place on the vertical axis. Those outside of it are said to be there.
      height: of the axes, in inches.
    """
    to_axes = axes.transScale + axes.transLimits
    found = sorted(((float(to_axes.transform((0, level))[1]), name) for name, level in levels.items()), reverse=True)
    texts = [fill(_told(name, at), LABEL, break_on_hyphens=False) for at, name in found]
    heights = [(text.count("\n") + 1.2) * SMALL / height for text in texts]
    for (at, _), text, place in zip(found, texts, spread([at for at, _ in found], heights), strict=True):
        axes.text(TEXT, place, text, transform=axes.transAxes, verticalalignment="center", fontsize="small")
        if 0 <= at <= 1:
            line = {"arrowstyle": "-", "color": "0.6", "linewidth": 0.6, "shrinkA": 0, "shrinkB": 0}
            axes.annotate("", (1, at), (TEXT - 0.01, place), xycoords="axes fraction", textcoords="axes fraction", arrowprops=line)


def _told(name: str, at: float) -> str:
    """Return a label, which says so if its level is outside of the axes."""
    return name if 0 <= at <= 1 else f"{name} ({'above' if at > 1 else 'below'} the axes)"


def spread(places: Sequence[float], heights: Sequence[float]) -> list[float]:
    """Return the centres of labels between 0 and 1, as near to the wanted places as they are without overlaps.

    Args:
      places: wanted centres, from the highest one down.
      heights: of the labels.
    """
    above, found = 1.0, []
    for place, height in zip(places, heights, strict=True):
        found.append(min(place, above - height / 2))
        above = found[-1] - height / 2
    below = 0.0
    for number in reversed(range(len(found))):
        found[number] = max(found[number], below + heights[number] / 2)
        below = found[number] + heights[number] / 2
    return found
