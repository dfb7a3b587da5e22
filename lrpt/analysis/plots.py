"""The common style of plots, and their output as PNG and PDF files."""

from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any, NamedTuple

from cycler import cycler
from numpy import format_float_positional

if TYPE_CHECKING:  # importing Matplotlib takes as long as reading and refusing a command line
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.ticker import Formatter

COLORS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"]
"""The palette of Okabe and Ito."""
DASHES: list[Any] = ["-", "--", ":", "-.", (0, (6, 1, 1, 1, 1, 1))]
MARKERS = "osD^vPX"
STYLE: dict[Any, Any] = {
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "0.9",
    "axes.axisbelow": True,
    "legend.frameon": False,
    "lines.linewidth": 1.4,
    "axes.prop_cycle": cycler(color=COLORS),
}


class LineStyle(NamedTuple):
    """Color, dashes and marker of a line, in Matplotlib's names. Points without a line are told apart by color and marker."""

    color: str
    dashes: Any
    marker: str


def line_style(number: int) -> LineStyle:
    """Return the style of one of several lines. Colors and markers change first, so the eighth line is the first dashed one.

    Each color comes back with another marker, so that 35 lines and 49 kinds of points look different.
    """
    rounds, color = divmod(number, len(COLORS))
    return LineStyle(COLORS[color], DASHES[rounds % len(DASHES)], MARKERS[(color + rounds) % len(MARKERS)])


def plain_log_scale(axes: "Axes") -> None:
    """Make the vertical axis logarithmic, and label it with plain numbers."""
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(lambda x, place: _plain(x))
    axes.yaxis.set_minor_formatter(_plain_log())


def _plain(x: float) -> str:
    """Return a number without an exponent."""
    return format_float_positional(x, trim="-", precision=6, fractional=False)


def _plain_log() -> "Formatter":
    """Return a formatter that labels some places between the powers of ten: as many as there is room for."""
    from matplotlib.ticker import LogFormatter

    class PlainLog(LogFormatter):
        def _num_to_string(self, x: float, vmin: float, vmax: float) -> str:
            return _plain(x)

    return PlainLog()


CHARACTERS_PER_INCH = 13
"""Length of a line of a title."""
BESIDE_A_LEGEND = 0.8
"""Share of the width that the title has in a figure with a legend beside the axes."""


@contextmanager
def saved_figure(path: str | Path, width: float = 5.2, height: float = 3.2) -> Iterator["Figure"]:
    """Provide a figure of the given size in inches, and write it to `path` at the end. Long titles are wrapped.

    A PDF of the same name is written too, for papers.
    """
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(width, height), dpi=200, layout="constrained")
        FigureCanvasAgg(figure)
        yield figure
        for axes in figure.axes:
            share = BESIDE_A_LEGEND if figure.legends else 1.0
            axes.set_title(fill(axes.get_title("left"), int(CHARACTERS_PER_INCH * width * share)))
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        _save_png(figure, path)
        figure.savefig(path.with_suffix(".pdf"), metadata={"Creator": None, "Producer": None, "CreationDate": None})


def _save_png(figure: "Figure", path: Path) -> None:
    """Write a figure in at most 256 colors, which takes a third of the space and looks the same."""
    from PIL import Image

    drawn = BytesIO()
    figure.savefig(drawn, format="png")
    with Image.open(drawn) as image:
        # Only what is drawn goes into the file: it does not depend on the version of Matplotlib.
        image.convert("RGB").quantize(256, dither=Image.Dither.NONE).save(path, "PNG", optimize=True, dpi=(figure.dpi, figure.dpi))
