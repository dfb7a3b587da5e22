"""Figures of the report: what is drawn is read from the figure, and compared with runs made up here."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from kept_runs import make_run as made
from matplotlib.figure import Figure

from experiments import variable_computation as characters
from experiments.efficiency.points import Point
from experiments.report.claims.judged import Judged
from experiments.report.claims.rows import Evidence
from experiments.report.command import ROOT
from experiments.report.figures import highway as highway_figures
from experiments.report.figures.analyses import analysis_figures
from experiments.report.figures.learning_curves import _draw, draw_study
from experiments.report.figures.schedules import _draw_family, _draw_words
from experiments.report.figures.shared import CONSTANT_RATE, FALLING_RATE, draw_levels, panels, spread, styles
from experiments.report.figures.studies import draw_studies
from experiments.report.kept.records import load
from experiments.report.pages.curves_page import curves_page
from experiments.report.papers import highway, low_rank, variable_computation
from experiments.report.papers.lattice_table import FIGURE_5
from experiments.report.writing import PAPERS, crossing, evidence_of
from lrpt.analysis import plots

(CHARACTERS,) = (study for study in variable_computation.STUDIES if study.name == "variable_computation")
(IMAGES,) = (study for study in low_rank.STUDIES if study.name == "permuted_mnist")
SOFT = {"paper_equivalent_size": 110.0, "bits_per_character": 1.84}


def make_run(*arguments, **content):
    made(*arguments, **content, command="python -m experiments.example")


@pytest.fixture
def drawn(monkeypatch):
    """Figures that were drawn; nothing is written."""
    found = []
    monkeypatch.setattr(plots, "_save_png", lambda figure, path: found.append(figure))
    monkeypatch.setattr(Figure, "savefig", lambda *_, **__: None)
    return found


def look(line):
    start, dashes = line._dash_pattern  # in points; get_linestyle does not tell dashes that have no name
    return line.get_color(), (start, tuple(dashes or ())), line.get_marker(), line.get_fillstyle()


def by_label(axes):
    return {label: look(handle.lines[0] if hasattr(handle, "lines") else handle) for handle, label in lines_with_labels(axes)}


def lines_with_labels(axes):
    found = zip(*axes.get_legend_handles_labels(), strict=True)
    return [(handle, label) for handle, label in found if hasattr(handle, "get_fillstyle") or hasattr(handle, "lines")]


def assert_lines_are_told_apart(figure):
    named = {}
    for axes in figure.axes:
        for label, of_label in by_label(axes).items():
            assert named.setdefault(label, of_label) == of_label
    assert len(set(named.values())) == len(named), named


def chars(tmp_path, network, number=0, masks=None, **changes):
    """Keep a run of a network whose schedule was analysed."""
    words = {"offsets": [-1, 0, 1], "means": [0.1 * number, 0.4, 0.5], "control": [0.4, 0.4, 0.4]}
    analysis = {"words": words} | ({"masks": {"hard": {"test": masks}}} if masks else {})
    test = {**SOFT, **changes}
    make_run(tmp_path, network.experiment, network.flags, 0, {3_000: 2.0}, CHARACTERS.score, test, name=f"run-{number}", analysis=analysis)


# Styles


def test_all_networks_of_a_figure_are_told_apart(tmp_path, drawn):
    """All that the study names, so that no later run makes two alike."""
    for number, network in enumerate(CHARACTERS.networks):
        chars(tmp_path, network, number)
    evidence = Evidence(load(tmp_path))
    assert len(CHARACTERS.runs(evidence)) == len(CHARACTERS.networks) > 25
    draw_study(CHARACTERS, evidence, tmp_path / "a.png")
    for _, draw in analysis_figures(CHARACTERS, evidence).values():
        draw(tmp_path / "b.png")
    for figure in drawn:
        assert_lines_are_told_apart(figure)
    curves, operations, words = drawn
    assert [axes.get_title("left") for axes in words.axes] == [CONSTANT_RATE, FALLING_RATE]
    for axes in words.axes:  # the schedules that know spaces only, too
        lines = [look(line) for line in axes.lines if len(line.get_xdata()) == 3]
        assert len(set(lines)) == len(lines)
    assert len(curves.axes) == len(operations.axes) == 2


@pytest.mark.slow
def test_lines_of_all_kept_figures_are_told_apart(tmp_path, drawn):
    evidence = evidence_of(ROOT)
    for study in (study for paper in PAPERS for study in paper.studies if study.runs(evidence)):
        draw_study(study, evidence, tmp_path / "a.png")
        for _, draw in analysis_figures(study, evidence).values():
            draw(tmp_path / "a.png")
    draw_studies(evidence, tmp_path)
    crossing.draw(ROOT)
    assert len(drawn) > 30
    for figure in drawn:
        assert_lines_are_told_apart(figure)


def test_a_network_has_one_style_with_both_learning_rates():
    falling = {"A": False, "A, annealed": True, "B": False, "C, annealed": True}
    split = panels(falling)
    assert split == {CONSTANT_RATE: ["A", "B"], FALLING_RATE: ["A, annealed", "C, annealed"]}
    looks = styles(split)
    assert looks["A"] == looks["A, annealed"]
    assert len(set(looks.values())) == 3
    assert panels({"A": False, "B": True}) == {"": ["A", "B"]}
    assert panels({"A, annealed": True}) == {"": ["A, annealed"]}


# Hard masks


def test_hard_masks_are_open_markers_at_their_own_operations_and_scores(tmp_path, drawn):
    one, other = CHARACTERS.networks[0], CHARACTERS.networks[1]
    assert (one.name, other.name) == ("VCRNN-256", "VCRNN-256, guide")
    chars(tmp_path, one, 0, {"paper_equivalent_size": 108.0, "bits_per_character": 1.87})
    chars(tmp_path, other, 1)
    shows, draw = analysis_figures(CHARACTERS, Evidence(load(tmp_path)))["operations_variable_computation"]
    assert "open markers: with the hard mask" in shows
    draw(tmp_path / "a.png")
    (axes,) = drawn[0].axes
    opened = {
        line.get_color(): line.get_xydata().tolist() for line in axes.lines if line.get_fillstyle() == "none" and len(line.get_xdata())
    }
    own = by_label(axes)["VCRNN"][0]
    assert opened == {own: [[108.0, 1.87]]}
    filled = [line for line in axes.lines if line.get_color() == own and line.get_fillstyle() == "full" and line.get_marker() != "None"]
    assert [line.get_xydata().tolist() for line in filled] == [[[110.0, 1.84]]]
    assert [text.get_text() for text in drawn[0].legends[0].get_texts()] == ["VCRNN", "VCRNN guided", "open: the same, with the hard mask"]


def test_nothing_is_said_of_hard_masks_that_were_not_measured(tmp_path, drawn):
    chars(tmp_path, CHARACTERS.networks[0])
    shows, draw = analysis_figures(CHARACTERS, Evidence(load(tmp_path)))["operations_variable_computation"]
    draw(tmp_path / "a.png")
    assert "hard" not in shows
    assert [text.get_text() for text in drawn[0].legends[0].get_texts()] == ["VCRNN"]


def test_the_caption_says_what_open_markers_are():
    assert "open with the hard mask" in variable_computation.PAPER.caption
    assert characters.EXPERIMENT is CHARACTERS.networks[0].experiment


# Published levels


def test_accuracies_are_cut_at_twice_the_error_and_all_published_rows_are_named(tmp_path, drawn):
    network = IMAGES.networks[0]
    make_run(tmp_path, network.experiment, network.flags, 0, {1_000: 0.2, 2_000: 0.91}, "accuracy")
    draw_study(IMAGES, Evidence(load(tmp_path)), tmp_path / "a.png")
    (axes,) = drawn[0].axes
    bottom, top = axes.get_ylim()
    assert bottom == pytest.approx(0.82)
    assert 0.951 < top < 0.97
    said = {" ".join(text.get_text().split()): text.get_position()[1] for text in axes.texts if text.get_text()}
    rows = {f"{name}, published validation: {valid:.1f}%" for name, (valid, _) in low_rank.PUBLISHED_IMAGES.items()}
    assert said.keys() == rows | {"constant predictor: 10.0% (below the axes)"}
    assert np.all(-np.diff(sorted(said.values(), reverse=True)) > 0.1)
    drawn_at = {line.get_ydata()[0] for line in axes.lines if line.get_linestyle() != "None" and len(line.get_xdata()) == 2}
    assert {valid / 100 for valid, _ in low_rank.PUBLISHED_IMAGES.values()} <= drawn_at


def test_published_test_scores_are_never_drawn_without_ours():
    """A label of a level beside curves of another split names its split."""
    for study in (study for paper in PAPERS for study in paper.studies if study.score_name.startswith("validation")):
        assert all(("published test" if study.tested else "validation") in name for name in study.levels), study.name


@pytest.mark.parametrize("tested", [False, True])
def test_crosses_are_test_scores_at_the_best_update(tested, tmp_path, drawn):
    chars(tmp_path, CHARACTERS.networks[0])
    draw_study(replace(CHARACTERS, tested=tested), Evidence(load(tmp_path)), tmp_path / "a.png")
    (axes,) = drawn[0].axes
    crosses = [line.get_xydata().tolist() for line in axes.lines if line.get_marker() == "x" and len(line.get_xdata())]
    assert crosses == ([[[3_000, 1.84]]] if tested else [])
    assert ("our test scores" in by_label(axes)) == tested


def test_a_page_says_what_crosses_are(tmp_path):
    network = CHARACTERS.networks[0]
    make_run(tmp_path, network.experiment, network.flags, 0, {3_000: 2.0}, CHARACTERS.score, SOFT)
    text = curves_page(Judged(variable_computation.PAPER, Evidence(load(tmp_path))))
    assert text.count("crosses are test scores of our runs") == 1


# Published curves


def test_a_published_curve_over_a_setting_has_a_panel_of_its_own(tmp_path, drawn):
    (study,) = (study for study in highway.STUDIES if study.published_over)
    make_run(tmp_path, highway.WORDS, "--preset equal-2", 0, {1_327: 130.0}, "perplexity", {"perplexity": 127.0})
    ((_, draw),) = analysis_figures(study, Evidence(load(tmp_path))).values()
    draw(tmp_path / "a.png")
    ours, published = drawn[0].axes
    assert ours.lines[-1].get_xydata().tolist() == [[2, 127.0]]
    assert published.lines[0].get_xydata().tolist() == [
        [depth, test] for depth, (_, test) in enumerate(highway.FIGURE_5A_POINTS["tied"], 1)
    ]
    assert "19 to 24 million" in published.get_title("left")


def test_published_losses_by_share_have_a_panel_of_their_own(tmp_path, drawn):
    name = "lattice_efficiency_ptb"
    draw_studies(Evidence((), {name: evidence_of(ROOT).studies[name]}), tmp_path)
    ours, published = drawn[0].axes
    assert len(published.lines) == len(FIGURE_5["PTB"])
    assert {tuple(line.get_ydata()) for line in published.lines} == set(FIGURE_5["PTB"].values())
    assert min(y for line in ours.lines for y in line.get_ydata()) > 1.5 > published.get_ylim()[1]


def test_a_run_that_learns_nothing_does_not_cut_the_axis(tmp_path, drawn):
    network = IMAGES.networks[0]
    make_run(tmp_path, network.experiment, network.flags, 0, {1_000: 0.1, 2_000: 0.11}, "accuracy")
    draw_study(replace(IMAGES, levels={}), Evidence(load(tmp_path)), tmp_path / "a.png")
    assert drawn[0].axes[0].get_ylim()[0] <= 0.1


def test_levels_have_styles_of_their_own():
    axes = Figure().subplots()
    draw_levels(axes, {str(level): level for level in range(8)})
    assert len({look(line) for line in axes.lines}) == 8


@pytest.mark.parametrize(
    ("places", "expected"),
    [
        ([0.9, 0.5], [0.9, 0.5]),
        ([0.5, 0.5], [0.5, 0.4]),
        ([1.0, 1.0, 0.3], [0.95, 0.85, 0.3]),
        ([0.02, 0.01, 0.0], [0.25, 0.15, 0.05]),
        ([-3.0], [0.05]),
    ],
)
def test_labels_are_moved_as_far_as_they_overlap(places, expected):
    assert spread(places, [0.1] * len(places)) == pytest.approx(expected)


# Means of seeds


def test_a_thick_line_is_the_median_of_the_seeds_and_the_band_their_range():
    axes = Figure().subplots()
    _draw(axes, [{1: 1.0, 2: 5.0}, {1: 2.0}, {1: 6.0}], plots.line_style(0))
    assert axes.lines[-1].get_xydata().tolist() == [[1, 2.0]]
    heights = axes.collections[0].get_paths()[0].vertices[:, 1]
    assert (heights.min(), heights.max()) == (1.0, 6.0)


def test_a_line_over_a_setting_is_the_mean_of_its_seeds(tmp_path, drawn):
    (study,) = (study for study in highway.STUDIES if study.published_over)
    for seed, perplexity in enumerate((127.0, 131.0)):
        test = {"perplexity": perplexity}
        make_run(tmp_path, highway.WORDS, "--preset equal-2", seed, {1_327: 130.0}, "perplexity", test, name=f"run-{seed}")
    ((_, draw),) = analysis_figures(study, Evidence(load(tmp_path))).values()
    draw(tmp_path / "a.png")
    line, dots = drawn[0].axes[0].lines
    assert line.get_xydata().tolist() == [[2, 129.0]]
    assert sorted(dots.get_ydata()) == [127.0, 131.0]


def test_words_show_the_mean_schedule_and_dotted_that_of_spaces_only():
    axes = Figure().subplots()
    words = [{"offsets": [0, 1], "means": [m, 0.5], "control": [0.25, 0.25]} for m in (0.25, 0.75)]
    _draw_words(axes, [SimpleNamespace(analysis={"words": one}) for one in words], plots.line_style(0), "VCRNN")
    solid, dotted = axes.lines
    assert solid.get_ydata().tolist() == [0.5, 0.5]
    assert (dotted.get_linestyle(), dotted.get_ydata().tolist()) == (":", [0.25, 0.25])


def test_a_family_has_a_line_through_the_means_of_its_networks():
    axes = Figure().subplots()
    networks = [[Point("RNN", "RNN", size, score, "") for size, score in own] for own in (((90, 1.75),), ((50, 2.0), (52, 3.0)))]
    _draw_family(axes, networks, [], plots.line_style(0), "RNN")
    assert axes.lines[0].get_xydata().tolist() == [[51, 2.5], [90, 1.75]]


# Layers of highway networks


def test_bars_of_gates_stand_at_their_layers(drawn, tmp_path):
    found = [{"network": name, "layer": layer, "mean": 0.5, "deviation": 0.1} for name in ("untrained", "trained") for layer in (1, 2)]
    highway_figures._gates(found, "", tmp_path / "a.png")
    centres = [bar.get_x() + bar.get_width() / 2 for bar in drawn[0].axes[0].patches]
    assert centres == pytest.approx([0.8, 1.8, 1.2, 2.2])


def test_lesions_are_drawn_as_they_are_kept(monkeypatch, tmp_path):
    given = []
    monkeypatch.setattr(highway_figures, "lesion_figure", lambda found, *_: given.append(found))
    highway_figures._lesions({"intact": 1.0, "shut": [2.0], "opened": [3.0]}, "", tmp_path / "a.png")
    assert given == [(1.0, (2.0,), (3.0,))]


def test_steps_after_the_end_of_an_example_are_white(monkeypatch, tmp_path):
    given = []
    monkeypatch.setattr(highway_figures, "gate_figure", lambda activity, *_: given.append(activity))
    highway_figures._heat_map([[[0.1, 0.2, 0.3]], [[0.4]]], "", tmp_path / "a.png")
    np.testing.assert_array_equal(given[0], [[[0.1, 0.2, 0.3]], [[0.4, np.nan, np.nan]]])


@pytest.mark.parametrize("name", ["lattice_convergence_ptb"])
def test_epochs_stand_beside_published_epochs_and_below_the_cap(name, tmp_path, drawn):
    study = evidence_of(ROOT).studies[name]
    draw_studies(Evidence((), {name: study}), tmp_path)
    axes = drawn[0].axes[0]
    (published,) = (line for line in axes.lines if line.get_marker() == "D")
    assert min(published.get_ydata()) >= 2, "losses are below 1"
    heights = sorted(y for line in axes.lines if line.get_alpha() == 0.6 for y in line.get_ydata())
    assert heights == sorted(run["epochs_to_best"] for run in study["runs"] if run["share"] == 100)
    assert study["options"]["epochs"] in {line.get_ydata()[0] for line in axes.lines if line.get_linestyle() == "-"}
