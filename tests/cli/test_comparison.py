"""Comparisons: a learning rate for each model is chosen on the validation split, and sizes are plotted."""

import json
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure
from tiny import EVEN, changed, flags

from lrpt.analysis.curves import Curve, Sized, in_words, learning_curves, score_over_parameters
from lrpt.cli import command, summary
from lrpt.cli.command import closing, main, planned
from lrpt.cli.experiment import Experiment, Preset
from lrpt.cli.flags import combinations
from lrpt.cli.summary import has_rates_to_choose, spread, with_best_learning_rates
from lrpt.runs.console import Console
from lrpt.runs.layout import OLDER
from lrpt.runs.run_directory import RunDirectory
from lrpt.training.loop import fit

RATES = (0.001, 0.01)
SIZES = {"gru-2": {"size": 2, "parametrization": "dense"}, "gru-4": {"size": 4, "parametrization": "dense"}, "lrd-2": {"rank": 2}}
PRESETS = {"quick": Preset(EVEN, "about", compare=True, learning_rates=RATES)}
EXPERIMENT = Experiment("copy_memory", "Repeat symbols.", "nothing", PRESETS, SIZES)


def jobs(*arguments):
    return planned(EXPERIMENT, combinations(EXPERIMENT, arguments))


def test_every_variant_trains_with_every_learning_rate():
    found = {job.path.name: (job.config.model.label, job.config.optim.learning_rate) for job in jobs()}
    assert found["quick-gru-2-learning_rate0.001-seed0"] == ("GRU 2", 0.001)
    assert found["quick-lrd-2-learning_rate0.01-seed0"] == ("LRD-GRU 4/2", 0.01)
    assert len(found) == len(SIZES) * len(RATES)


@pytest.mark.parametrize("rate", [0.5, EVEN.optim.learning_rate])
@pytest.mark.parametrize("flag", ["--optim.learning-rate ", "--optim.learning_rate="])
def test_a_given_learning_rate_is_the_only_one(rate, flag):
    """Also if it is that of the preset."""
    found = jobs(*f"{flag}{rate}".split())
    assert [job.path.name for job in found] == [f"quick-{name}-seed0" for name in SIZES]
    assert {job.config.optim.learning_rate for job in found} == {rate}


def test_a_single_model_has_the_learning_rate_of_the_preset():
    (job,) = jobs("--no-compare")
    assert job.config == EVEN


@pytest.mark.slow
def test_a_single_model_that_a_comparison_has_trained_is_not_trained_again(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rate = str(RATES[1])
    (compared,) = [job.path for job in jobs() if job.config.model == EVEN.model and job.config.optim.learning_rate == RATES[1]]
    single = ["--no-compare", "--optim.learning-rate", rate]
    own = Path("runs/copy_memory/quick-seed0")
    assert [job.path for job in jobs(*single)] == [own]
    assert EVEN.optim.learning_rate == RATES[1]
    fit(EVEN, {0: compared}, names={"experiment": "copy_memory", "preset": "quick"}, devices=1)
    assert [job.path for job in jobs(*single)] == [compared]
    assert [job.path for job in jobs(*single, "--train.batch-size", "3")] == [own]
    own.mkdir()
    (own / "config.json").write_text("{}")
    assert [job.path for job in jobs(*single)] == [own]


def test_a_preset_may_have_its_own_models_score_and_last_lines():
    own = Preset(EVEN, "about", compare=True, variants={"gru-3": {"size": 3}}, score="recall", closing="Own: runs/copy_memory/x")
    experiment = replace(EXPERIMENT, presets={**PRESETS, "own": own}, closing="Usual.")
    usual, ours = combinations(experiment, []), combinations(experiment, ["--preset", "own", "--workdir", "here"])
    (job,) = planned(experiment, ours)
    assert job.config.model.size == 3
    assert closing(experiment, ours[""]) == "Own: here/x"
    assert closing(experiment, usual[""]) == "Usual."
    assert [experiment.score_of(preset) for preset in ("own", "quick", "custom")] == ["recall", "loss", "loss"]


@pytest.mark.slow
@pytest.mark.parametrize(("cell", "said"), [("gru", True), ("lstm", False)])
def test_last_lines_about_one_cell_are_left_out_after_a_comparison_of_another(cell, said, tmp_path, capsys):
    own = Preset(changed(EVEN, train={"updates": 1}), "about", compare=True, variants={"gru-3": {"size": 3}, "gru-4": {"size": 4}})
    experiment = replace(EXPERIMENT, presets={"quick": own}, closing="What you saw: GRUs")
    main(experiment, ["--model.cell", cell, "--workdir", str(tmp_path), "--devices", "1"])
    assert ("What you saw: GRUs" in capsys.readouterr().out) == said


def test_several_seeds_are_not_suggested_after_several_seeds():
    hints = ("Train more (--seeds 5).", "  python -m experiments.x --seeds 3   more", "  python -m experiments.y   another")
    experiment = replace(EXPERIMENT, presets=PRESETS, closing="\n".join(hints))
    one, three = (combinations(experiment, ["--seeds", number])[""] for number in ("1", "3"))
    assert closing(experiment, one) == "\n".join(hints)
    assert closing(experiment, three) == "\n".join((hints[0], hints[2]))


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ([0.93], "0.93"),
        ([500, 500], "500"),
        ([0.1, 0.1, 0.1], "0.1"),
        ([0.9, 1.0], "0.950 ± 0.071"),
        ([0.1, 0.4, 0.1], "0.20 ± 0.17"),
        ([1000.0, 3000.0], "2,000 ± 1,414"),
        ([1.0, 1.0002], "1.00010 ± 0.00014"),
        ([float("inf"), 1.0], "inf"),
    ],
)
def test_means_have_the_digits_of_their_deviation(values, text):
    with np.errstate(invalid="ignore"):
        assert spread(values) == text


@pytest.mark.parametrize(("flag", "value"), [("--model.size", "7"), ("--model.rank", "1"), ("--model.parametrization", "dense")])
def test_what_a_comparison_varies_is_no_flag_of_it(flag, value, assert_refused):
    says = f"model.{flag.partition('.')[2]} is {value}, and the comparison varies it: give --no-compare"
    assert_refused(lambda words: main(EXPERIMENT, words), [flag, value], says)
    assert jobs(flag, value, "--no-compare")


def result(model, rate, seed, valid, batch=20):
    metrics = {"valid": {"loss": valid, "accuracy": valid}}
    config = {"optim": {"learning_rate": rate}, "train": {"batch_size": batch}}
    return {"model": model, "preset": "quick", "seed": seed, "config": config, "metrics": metrics}


@pytest.mark.parametrize(
    ("models", "varies"),
    [
        ({"LRD-GRU 128/8": 10, "LRD-GRU 128/16": 20}, True),
        ({"LRD-GRU 128/8": 10, "GRU 128": 20}, False),
        ({"parity": 10, "parity 2": 10}, False),
    ],
)
def test_sizes_are_plotted_if_a_kind_of_model_has_several(models, varies):
    found = [{"model": name, "parameters": {"true": size}} for name, size in models.items()]
    assert summary.varies_in_size([*found, *found]) == varies


def test_the_mean_over_seeds_on_the_validation_split_decides():
    scores = [("A", 0.1, 0, 0.5), ("A", 0.1, 1, 0.9), ("A", 1.0, 0, 0.6), ("A", 1.0, 1, 0.6), ("B", 1.0, 0, 0.3)]
    found = [result(*score) for score in scores]
    assert with_best_learning_rates(found, "loss") == [2, 3, 4]
    assert with_best_learning_rates(found, "accuracy") == [0, 1, 4]


def test_a_learning_rate_whose_score_is_not_finite_is_chosen_last():
    found = [result("A", rate, 0, valid) for rate, valid in ((1.0, float("nan")), (0.1, 5.0), (0.5, 4.0))]
    for score, place in (("loss", 2), ("accuracy", 1)):
        assert with_best_learning_rates(found, score) == [place]


def test_a_score_of_unknown_direction_is_refused_before_training(tmp_path, monkeypatch, capsys):
    """Otherwise the worst learning rate would be chosen if lower is better."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match=r"^2$"):
        main(replace(EXPERIMENT, score="pinball"), ["--devices", "1"])
    assert "metric 'pinball' are better: add its name to lrpt.metrics.LOWER_IS_BETTER or HIGHER_IS_BETTER" in capsys.readouterr().err
    assert not Path("runs").exists()


def test_a_learning_rate_is_chosen_for_each_setting_of_a_model():
    scores = [("A", 0.1, 0, 0.5, 20), ("A", 1.0, 0, 0.6, 20), ("A", 0.1, 0, 0.5, 40), ("A", 1.0, 0, 0.4, 40)]
    found = [result(*score) for score in scores]
    assert with_best_learning_rates(found, "loss") == [0, 3]
    assert has_rates_to_choose(found)


def test_learning_rates_of_a_single_model_are_what_is_asked_for():
    assert not has_rates_to_choose([result("A", rate, seed, 0.5) for rate in (0.1, 1.0) for seed in range(2)])
    assert not has_rates_to_choose([result("A", 0.1, 0, 0.5), result("B", 1.0, 0, 0.5)])


def test_labels_have_the_settings_that_differ_whichever_result_has_them():
    configs = {"rank": 8}, {"rank": 8, "lag": 3}, {"rank": 4}
    found = [{"model": "A", "preset": "quick", "config": {"data": config}} for config in configs]
    expected = ["A rank 8, lag None", "A rank 8, lag 3", "A rank 4, lag None"]
    assert summary.labels_of(found) == expected
    assert summary.labels_of(found[::-1]) == expected[::-1]
    others = [{**found[0], "model": "B"}, {**found[0], "model": "B", "preset": "paper"}]
    assert summary.labels_of([found[0], *others, *found[1:]]) == [expected[0], "B (quick)", "B (paper)", *expected[1:]]
    assert summary.labels_of(found, silent={"data.lag"}) == ["A rank 8", "A rank 8", "A rank 4"]


def test_labels_of_many_results_read_each_configuration_once(monkeypatch):
    read = []
    monkeypatch.setattr(summary, "flatten", lambda config: read.append(config) or {"seed": len(read)})
    assert len(set(summary.labels_of([result("A", 0.1, seed, 0.5) for seed in range(50)]))) == 50
    assert len(read) == 50


def test_a_recipe_may_decide_on_the_learning_rate(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(summary, "draw_curves", lambda root, *rest: root / "curves.png")
    rows = [
        {**result("A", None, seed, 0.5), "parameters": {"true": 10, "paper": 10}, "seconds": 1.0, "updates": 5, "preset": "quick"}
        for seed in (0, 1)
    ]
    for row in rows:
        row["metrics"]["test"] = row["metrics"]["valid"]
    summary.summarize(tmp_path, "loss", rows, [tmp_path / "a", tmp_path / "b"], "title", Console())
    assert "learning rate" not in capsys.readouterr().out


def finished(path, rate, valid, test):
    """The result of a run, whose directory has metrics of two evaluations."""
    directory = RunDirectory(path)
    path.mkdir()
    directory.append_metrics([{"update": u, "split": s, "loss": f * u} for u in (1, 2) for s, f in (("train", 9.0), ("valid", valid))])
    row = {**result("A", rate, 0, valid), "parameters": {"true": 1234, "paper": 56}, "seconds": 1.5, "updates": 2}
    row["metrics"]["test"] = {"loss": test}
    return row


def test_the_table_and_the_curves_have_the_splits_and_runs_that_they_name(tmp_path, monkeypatch):
    """Of two learning rates the one with the lower validation loss is shown, though its test loss is higher."""
    shown, drawn = [], []
    monkeypatch.setattr(Console, "table", lambda _, columns, rows, title: shown.extend(dict(zip(columns, r, strict=True)) for r in rows))
    monkeypatch.setattr(summary, "learning_curves", lambda curves, *rest: drawn.extend(curves))
    paths = [tmp_path / "worse", tmp_path / "better"]
    rows = [finished(paths[0], 0.1, 0.5, 0.2), finished(paths[1], 1.0, 0.25, 0.7)]
    summary.summarize(tmp_path, "loss", rows, paths, "title", Console(quiet=True), chooses=True)
    of_model = {"model": "A", "parameters": "1,234", "paper's count": "56", "valid loss": "0.25", "test loss": "0.7"}
    assert shown == [of_model | {"updates": "2", "seconds": "1.5", "learning rate": "1"}]
    assert drawn == [Curve("A", [1, 2], [0.25, 0.5])]


@pytest.mark.devices(2)
@pytest.mark.slow
def test_the_table_and_the_plot_show_each_model_once(tmp_path, capsys):
    main(EXPERIMENT, ["--devices", "2", "--workdir", str(tmp_path)])
    said = capsys.readouterr().out
    rows = [line.split() for line in said.splitlines() if line.startswith(("GRU 2 ", "GRU 4 ", "LRD-GRU 4/2 ")) and "update" not in line]
    summary = json.loads((tmp_path / "summary.json").read_text())["results"]
    assert len(summary) == len(SIZES) * len(RATES)
    assert [row[:2] for row in rows] == [["GRU", "2"], ["GRU", "4"], ["LRD-GRU", "4/2"]]
    for row in rows:
        of_model = [one for one in summary if one["model"] == " ".join(row[:2])]
        best = min(of_model, key=lambda one: one["metrics"]["valid"]["loss"])
        assert float(row[-1]) == best["config"]["optim"]["learning_rate"]
    for name in ("score_over_parameters", "learning_curves"):
        assert (tmp_path / "figures" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert (tmp_path / "figures" / f"{name}.pdf").read_bytes().startswith(b"%PDF")


def test_the_run_with_the_lowest_validation_loss_is_shown_at_the_end(tmp_path, monkeypatch):
    """Its training and test losses do not count."""
    shown, losses = [], ((2.0, 0.1), (1.0, 0.3), (3.0, 0.2))
    monkeypatch.setattr(
        command, "fit_all", lambda *_, **options: [{"metrics": {"valid": {"loss": a}, "test": {"loss": b}}} for a, b in losses]
    )
    monkeypatch.setattr(command, "summarize", lambda *_: None)
    experiment = replace(EXPERIMENT, ending=lambda path, console: shown.append(path.name))
    main(experiment, ["--no-compare", "--seeds", "3", "--workdir", str(tmp_path)])
    assert shown == ["quick-seed1"]


def test_equal_plots_are_equal_files(tmp_path):
    models = [Sized("GRU", "4", 100, 0.5), Sized("GRU", "4", 100, 0.7), Sized("GRU", "8", 400, 0.9)]
    written = [score_over_parameters(models, "accuracy", tmp_path / name, "title") for name in ("a.png", "b.png")]
    for ending in (".png", ".pdf"):
        first, second = (path.with_suffix(ending).read_bytes() for path in written)
        assert first == second


def test_seeds_are_averaged_over_the_updates_that_all_of_them_have(tmp_path, monkeypatch):
    figure = Figure()
    monkeypatch.setattr("lrpt.analysis.curves.saved_figure", lambda *_: nullcontext(figure))
    curves = [Curve("GRU", [100, 200, 300, 400], [4.0, 3.0, 2.0, 1.0]), Curve("GRU", [200, 400, 600], [5.0, 2.0, 9.0])]
    learning_curves(curves, "accuracy", tmp_path / "curves.png")
    np.testing.assert_array_equal(figure.axes[0].lines[0].get_xydata(), [[200, 4.0], [400, 1.5]])


def test_a_line_is_the_mean_of_all_seeds_in_a_band_of_their_range(tmp_path, monkeypatch):
    figure = Figure()
    monkeypatch.setattr("lrpt.analysis.curves.saved_figure", lambda *_: nullcontext(figure))
    learning_curves([Curve("GRU", [100, 200], scores) for scores in ([1.0, 6.0], [2.0, 5.0], [9.0, 1.0])], "accuracy", tmp_path / "a.png")
    (axes,) = figure.axes
    np.testing.assert_array_equal(axes.lines[0].get_xydata(), [[100, 4.0], [200, 4.0]])
    corners = axes.collections[0].get_paths()[0].vertices
    assert {tuple(corner) for corner in corners} == {(100, 1.0), (100, 9.0), (200, 1.0), (200, 6.0)}


def test_a_point_is_the_mean_of_the_seeds_of_one_size_with_a_bar_for_their_range(tmp_path, monkeypatch):
    """Networks of two sizes may have equally many parameters."""
    figure = Figure()
    monkeypatch.setattr("lrpt.analysis.curves.saved_figure", lambda *_: nullcontext(figure))
    scores = {("9/1", 300): [4.0], ("4", 100): [1.0, 2.0, 9.0], ("8", 300): [3.0, 5.0]}
    models = [Sized("GRU", size, parameters, score) for (size, parameters), found in scores.items() for score in found]
    score_over_parameters(models, "accuracy", tmp_path / "sizes.png")
    (axes,) = figure.axes
    (points,) = axes.containers
    np.testing.assert_array_equal(points.lines[0].get_xydata(), [[100, 4.0], [300, 4.0], [300, 4.0]])
    bars = [segment.tolist() for segment in points.lines[2][0].get_segments()]
    assert bars == [[[100, 1.0], [100, 9.0]], [[300, 4.0], [300, 4.0]], [[300, 3.0], [300, 5.0]]]
    assert [text.get_text() for text in axes.texts] == ["4", "9/1", "8"]


def test_metrics_are_named_in_words():
    assert in_words("bits_per_character") == "bits per character"
    assert in_words("multiplications") == "multiplications"
    assert "nats" in in_words("loss")


def test_flags_reach_every_model():
    words = [word for word in flags(replace(EVEN, train=replace(EVEN.train, updates=2))) if word != "--no-compare"]
    assert "--train.updates" in words
    assert {job.config.train.updates for job in jobs("--train.updates", "2")} == {2}


def test_a_damaged_result_beside_the_others_loses_no_summary(tmp_path, capsys, monkeypatch):
    """And a run that an archive has replaced counts neither as a result nor as damage."""
    monkeypatch.setattr(summary, "draw_curves", lambda root, *rest: root / "curves.png")
    row = {**result("A", None, 0, 0.5), "parameters": {"true": 10, "paper": 10}, "seconds": 1.0, "updates": 5, "preset": "quick"}
    row["metrics"]["test"] = row["metrics"]["valid"]
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "result.json").write_text("{")
    older = tmp_path / f"damaged.1{OLDER}"
    older.mkdir()
    (older / "result.json").write_text("{")
    summary.summarize(tmp_path, "loss", [row], [tmp_path / "a"], "title", Console())
    said = capsys.readouterr().err
    assert said.count("summary.json leaves it out") == 1
    assert OLDER not in said
    assert json.loads((tmp_path / "summary.json").read_text())["results"] == []


def test_settings_that_end_alike_have_their_full_names_in_labels():
    rows = [result("A", 0.1, 0, 0.5) for _ in range(2)]
    for row, rank in zip(rows, (4, 8), strict=True):
        row["config"] = {**row["config"], "matrices": {"rank": rank}, "inputs": {"rank": 2 * rank}, "lag": rank}
    assert summary.labels_of(rows)[0] == "A matrices.rank 4, inputs.rank 8, lag 4"
