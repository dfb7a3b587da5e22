"""The plots and tables of the lattice studies: which numbers they show."""

from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from experiments.lattice.efficiency_figure import efficiency_figure
from experiments.lattice.epochs_figure import epochs_figure
from experiments.lattice.gradients_figure import layer_gradients_figure
from experiments.lattice.losses_figure import losses_figure
from experiments.lattice.options import Convergence, Efficiency, Gradients
from experiments.lattice.tables import show_convergence, show_efficiency, show_gradients
from lrpt.cli.studies import Finished
from lrpt.runs.console import Console

PATH = Path("unwritten.png")


@pytest.fixture
def figure(monkeypatch):
    """A figure that all plots of the lattice studies are drawn into."""
    found = Figure()
    for name in ("efficiency", "epochs", "gradients", "losses"):
        monkeypatch.setattr(f"experiments.lattice.{name}_figure.saved_figure", lambda *_: nullcontext(found))
    return found


def points(line):
    return [tuple(point) for point in line.get_xydata().tolist()]


def test_efficiency_shows_means_as_a_line_and_every_run_as_a_point(figure):
    efficiency_figure({"LRU": {100.0: [1.0, 2.0], 20.0: [3.0]}}, PATH, "", "nats")
    line, runs = figure.axes[0].lines
    assert points(line) == [(20, 3), (100, 1.5)]
    assert sorted(points(runs)) == [(20, 3), (100, 1), (100, 2)]


def test_epochs_have_a_box_with_the_median_and_every_run_as_a_point(figure):
    epochs_figure({"GRU": [9.0], "LRU": [1.0, 2.0, 6.0]}, PATH, "")
    axes = figure.axes[0]
    assert [points(line) for line in axes.lines if line.get_marker() == "o"] == [[(1, 9)], [(2, 1), (2, 2), (2, 6)]]
    assert 2.0 in {y for line in axes.lines if line.get_color() == "black" for _, y in points(line)}
    assert [label.get_text() for label in axes.get_xticklabels()] == ["GRU", "LRU"]


def test_gradients_have_a_map_for_each_model_and_ratios_of_the_last_layer_to_the_first(figure):
    norms = {"GRU": np.array([[2.0, 1.0], [1.0, 4.0]]), "LRU": np.array([[1.0], [3.0]])}
    layer_gradients_figure(norms, PATH)
    maps = [axes.images[0] for axes in figure.axes if axes.images]
    assert [shown.get_array().tolist() for shown in maps] == [norms["GRU"].tolist(), norms["LRU"].tolist()]
    assert {shown.origin for shown in maps} == {"lower"}, "the first layer is at the bottom"
    (ratios,) = (axes for axes in figure.axes if axes.get_yscale() == "log")
    assert {line.get_label(): points(line) for line in ratios.lines} == {"GRU": [(1, 0.5), (2, 4)], "LRU": [(1, 3)]}


def test_losses_have_a_row_for_each_figure_and_a_column_for_each_split(figure):
    """A run without test losses is left out of the third column; the GRU is in both figures."""
    runs = [{"train": [2.0, 1.0], "valid": [4.0, 3.0], "test": []}, {"train": [4.0], "valid": [6.0], "test": [8.0]}]
    losses_figure({"GRU": runs, "LSTM": runs[:1]}, PATH)
    shown = [{line.get_label(): points(line) for line in axes.lines if line.get_linestyle() != ":"} for axes in figure.axes]
    gru = [{"GRU": [(1, 3)]}, {"GRU": [(1, 5)]}, {"GRU": [(1, 8)]}]
    lstm = [{"LSTM": [(1, 2), (2, 1)]}, {"LSTM": [(1, 4), (2, 3)]}, {}]
    assert shown == [{**one, **other} for one, other in zip(gru, lstm, strict=True)] + gru


def finished(rows):
    """Runs of the LRU with these values; other values are ones."""
    usual = {"model": "lru", "initialization": "lru", "share": 100.0, "seed": 0, "parameters": 700, "loss": 1.0, "epochs_to_best": 1}
    curves = {"losses": {"train": [1.0], "valid": [1.0], "test": [1.0]}, "epochs": 1, "gradient_norms": [[1.0], [1.0]]}
    return [Finished(None, {}, {**usual, **curves, **row}) for row in rows]


class Heard(Console):
    """A console that keeps the rows of tables."""

    def __init__(self):
        super().__init__(quiet=True)
        self.rows = []

    def table(self, columns, rows, title=None, left=1):
        self.rows += rows


@pytest.mark.usefixtures("figure")
@pytest.mark.parametrize(
    ("show", "options", "rows", "expected"),
    [
        (
            show_convergence,
            Convergence(epochs=9),
            [{"loss": 1.0, "epochs_to_best": 2}, {"loss": 2.0, "epochs_to_best": 5, "seed": 1}],
            ["LRU", "700", "2", "1.500", "0.707", "3.5", "2.1"],
        ),
        (
            show_efficiency,
            Efficiency(shares=(100.0, 20.0, 40.0)),
            [{"loss": 1.0}, {"loss": 2.0}, {"loss": 4.0, "share": 20.0}],
            ["LRU", "4.000", "", "1.500"],
        ),
        (
            show_gradients,
            Gradients(),
            [{"gradient_norms": [[1.0, 8.0], [2.0, 2.0]]}, {"gradient_norms": [[3.0, 8.0], [2.0, 6.0]]}],
            ["LRU", "1", "0.5"],
        ),
    ],
    ids=["convergence", "efficiency", "gradients"],
)
def test_tables_show_means_over_seeds(show, options, rows, expected):
    console = Heard()
    show(options, finished(rows), console)
    assert console.rows == [expected]


def test_a_mean_goes_on_with_the_last_loss_of_a_seed_that_has_ended(monkeypatch):
    figure = Figure()
    monkeypatch.setattr("experiments.lattice.losses_figure.saved_figure", lambda *_: nullcontext(figure))
    runs = [{"train": [2.0, 1.0, 0.5], "valid": [1.0], "test": []}, {"train": [4.0], "valid": [1.0], "test": []}]
    losses_figure({"GRU": runs}, Path("unwritten.png"))
    dotted = [line for line in figure.axes[0].lines if line.get_linestyle() == ":" and len(line.get_xdata())]
    assert [list(zip(*line.get_data(), strict=True)) for line in dotted] == [[(1, 3.0), (2, 2.5), (3, 2.25)]]
