"""The style of plots: distinct lines and points, plain labels of logarithmic axes, wrapped titles, and small files without dates."""

from textwrap import fill

import pytest
from matplotlib.figure import Figure
from PIL import Image

from lrpt.analysis.plots import line_style, plain_log_scale, saved_figure

TITLE = "accuracy of networks with low-rank matrices over the number of their parameters, for three seeds of each of them"


def test_many_lines_and_points_look_different():
    styles = [line_style(number) for number in range(49)]
    assert len({(style.color, style.dashes) for style in styles[:35]}) == 35
    assert len({(style.color, style.marker) for style in styles}) == 49
    assert {style.dashes for style in styles[:7]} == {"-"}


@pytest.mark.parametrize(
    ("limits", "expected"),
    [((0.00002, 20_000), {"0.0001", "0.001", "0.1", "1", "1000", "10000"}), ((0.2, 1.5), {"0.2", "0.6", "1"}), ((123, 128), {"125"})],
)
def test_labels_of_logarithmic_axes_have_no_exponent(limits, expected):
    axes = Figure().subplots()
    plain_log_scale(axes)
    axes.set_ylim(*limits)
    labels = {label.get_text() for minor in (False, True) for label in axes.get_yticklabels(minor=minor)}
    assert axes.get_yscale() == "log"
    assert expected <= labels
    assert all(label.replace(".", "", 1).isdigit() for label in labels if label)


@pytest.mark.parametrize(("legend", "characters"), [(False, 65), (True, 52)])
def test_long_titles_are_wrapped(legend, characters, tmp_path):
    with saved_figure(tmp_path / "a.png", width=5) as figure:
        axes = figure.subplots()
        axes.plot([1, 2], label="line")
        axes.set_title(TITLE)
        if legend:
            figure.legend(loc="outside right")
    assert axes.get_title("left") == fill(TITLE, characters)


def test_a_figure_is_written_in_few_colors_and_without_dates(tmp_path):
    with saved_figure(tmp_path / "new" / "a.png", 4, 3) as figure:
        figure.subplots().imshow([[k / 999 for k in range(1000)]], cmap="jet", aspect="auto")
    assert {path.name for path in (tmp_path / "new").iterdir()} == {"a.png", "a.pdf"}
    with Image.open(tmp_path / "new" / "a.png") as image:
        assert (image.size, image.mode) == ((800, 600), "P")
        assert image.info["dpi"] == pytest.approx((200, 200), rel=1e-3)
    written = (tmp_path / "new" / "a.pdf").read_bytes()
    assert not any(entry in written for entry in (b"/Creator", b"/Producer", b"/CreationDate"))
