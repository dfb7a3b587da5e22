"""The fair comparison: sizes that come closest, the choice of the learning rate, significance, and what is written."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib.figure import Figure
from scipy import stats

from experiments.fair_crossing import command, figure, timing
from experiments.fair_crossing.command import main
from experiments.fair_crossing.pairs import TunedPair, ended
from experiments.fair_crossing.problems import SCORES, problems
from experiments.fair_crossing.significance import differences, overall, scores_of
from experiments.fair_crossing.sizes import Size, at_parameters, at_time, fits, frame_of
from experiments.report.kept.summaries import crossing_name
from experiments.report.wording.markdown import RESULTS
from lrpt.analysis import plots
from lrpt.analysis.significance import holm
from lrpt.cli.studies import grouped
from lrpt.errors import UsageError
from lrpt.networks.configuration import InitialConfig, TiedStorageConfig
from lrpt.networks.counting import count
from lrpt.networks.sequence_model import ModelConfig
from lrpt.parametrizations import MatrixConfig
from lrpt.runs.console import Console
from lrpt.tasks import NextSymbol

INITIAL = InitialConfig(trainable_state=False)
KEPT = Path(__file__).parents[2] / RESULTS
FIELDS = {"task", "cell", "parametrization", "size", "sizes", "parameters", "learning_rate", "seed", "score", "seconds"}


@pytest.mark.slow
@pytest.mark.parametrize("cell", ["gru", "lru"])
@pytest.mark.parametrize("kind", ["dense", "low_rank", "monarch", "circulant", "sparse"])
def test_no_other_width_is_closer_to_the_budget_and_the_count_is_that_of_the_network(cell, kind):
    frame = frame_of(cell, INITIAL, 7, 5, 2, 0.5)
    at = frame.sizes(kind)
    budget = at(18).parameters + 5
    found = at_parameters(frame, kind, budget)
    assert found.parameters == count(frame.sized(found), 7, 5).true
    others = [size for width in range(2, 60) if fits(frame, size := at(width))]
    assert abs(found.parameters - budget) == min(abs(size.parameters - budget) for size in others) <= 5


@pytest.mark.parametrize("kind", ["monarch", "kronecker"])
def test_widths_that_blocks_do_not_divide_do_not_end_the_search(kind):
    assert abs(at_parameters(frame_of("gru", INITIAL, 10, 10, 2, 0.25), kind, 20_000).parameters - 20_000) < 400


def test_the_share_gives_way_where_blocks_fit_no_width_of_that_size():
    """An LSTM on text of 104 symbols has 16 thousand parameters or 24 thousand, of those whose Monarch matrices hold a quarter."""
    frame = frame_of("lstm", INITIAL, 104, 104, 2, 0.25)
    found = at_parameters(frame, "monarch", 20_000)
    assert abs(found.parameters - 20_000) < 2_000
    assert not fits(frame, found)
    assert fits(frame, found, within=1.5)


def test_budgets_that_no_width_reaches_are_refused():
    with pytest.raises(UsageError, match="no gru with monarch matrices has about 30 parameters"):
        at_parameters(frame_of("gru", INITIAL, 7, 5, 2, 0.25), "monarch", 30)


@pytest.mark.parametrize("seconds", [0.05, 0.17, 0.5])
@pytest.mark.parametrize("power", [0.7, 1.0, 2.0])
def test_a_width_at_equal_time_is_found_with_few_measurements(seconds, power):
    """With a time that grows with a power of the width."""
    frame, asked = frame_of("gru", INITIAL, 7, 5, 2, 0.25), []

    def relative(width):
        return width**power / 10 ** (2 * power) / seconds

    def measure(model):
        asked.append(model.size)
        return relative(model.size)

    found = at_time(frame, "low_rank", range(8, 200), measure)
    nearest = min(abs(np.log(relative(width))) for width in range(8, 200))
    assert found.time == relative(found.width)
    assert abs(found.time - 1) < 0.03 or abs(np.log(found.time)) == nearest
    assert len(asked) < 10


def test_widths_with_another_share_are_tried_if_no_other_is_about_as_fast():
    """Monarch matrices with a quarter of the parameters have widths of 42 and more here."""
    frame = frame_of("lru", INITIAL, 10, 10, 2, 0.25)
    found = at_time(frame, "monarch", range(6, 100), lambda model: model.size / 30)
    assert 27 <= found.width <= 33
    assert not fits(frame, found)


@pytest.mark.slow
def test_times_are_relative_to_the_reference_whose_width_is_that_at_equal_parameters(tmp_path):
    options = command.Options(NextSymbol(reading="stream", steps=4), lag=2, budget=300, equal="time", workdir=tmp_path)
    sizing = command.Sizing(options, problems(options.data, options.lag)["copy"])
    reference = sizing.size("gru", "dense")
    assert reference == at_parameters(sizing.frame("gru"), "dense", 300)._replace(time=1.0)
    update = sizing.update(sizing.frame("gru").sized(reference))
    assert 0.3 < timing.relative_time(update, sizing.reference) < 3
    assert timing.relative_time(lambda: [update() for _ in range(20)], sizing.reference) > 3


def test_sizes_that_were_measured_against_another_cell_are_refused(tmp_path):
    options = command.Options(NextSymbol(reading="stream", steps=4), ("copy",), ("gru",), ("dense",), "time", 300, lag=2, workdir=tmp_path)
    (pair,) = command.pairs(options)
    assert pair.size.time == 1
    assert command.pairs(options) == [pair]
    with pytest.raises(UsageError, match=r"holds sizes for other options .*'reference': 'gru'"):
        command.pairs(replace(options, cells=("lstm",)))


@pytest.mark.parametrize(
    "change", [{"equal": "time"}, {"budget": 400}, {"share": 0.5}, {"depth": 3}, {"lag": 3}, {"data": NextSymbol("ptb", reading="stream")}]
)
def test_sizes_of_other_options_are_refused(change, tmp_path):
    options = command.Options(NextSymbol(reading="stream", steps=4), ("copy",), ("gru",), ("dense",), budget=300, lag=2, workdir=tmp_path)
    command.pairs(options)
    with pytest.raises(UsageError, match="holds sizes for other options"):
        command.pairs(replace(options, **change))


@pytest.mark.parametrize(
    "content", ["nope", "[" * 100_000, "[]", '{"sizes": {}}', '{"options": {}, "sizes": {"copy-gru-dense": {"size": 3}}}']
)
def test_damaged_sizes_are_refused(content, tmp_path):
    (tmp_path / command.SIZES).write_text(content)
    with pytest.raises(UsageError, match=r"sizes\.json is damaged: remove it"):
        command.pairs(command.Options(tasks=("copy",), cells=("gru",), matrices=("dense",), workdir=tmp_path))


def pair_at(rate, kind):
    return SimpleNamespace(rate=lambda: rate, names={"task": "copy", "cell": "gru", "parametrization": kind})


def test_pairs_that_diverged_at_all_rates_are_named(capsys):
    command.name_lost([pair_at(0.1, "dense"), pair_at(None, "monarch")], Console())
    assert "copy-gru-monarch diverged at all learning rates" in " ".join(capsys.readouterr().err.split())
    command.name_lost([pair_at(0.1, "dense")], Console())
    assert not capsys.readouterr().err
    with pytest.raises(UsageError, match="copy-gru-monarch diverged at all") as error:
        command.name_lost([pair_at(None, "monarch")], Console())
    assert error.value.code == 1


def errors(rng, centres):
    """Return five losses of each of several pairs, about its centre."""
    return {cell: {kind: centre * np.exp(rng.normal(0, 0.2, 5)) for kind, centre in kinds.items()} for cell, kinds in centres.items()}


CENTRES = {"gru": {"dense": 1.0, "a": 0.3, "b": 1.05}, "rhn": {"dense": 2.0, "a": 0.9, "b": 2.0}, "elman": {"a": 1.0}}


def test_a_difference_in_one_cell_is_tested_by_welch():
    """Oracle: SciPy's test of two samples with variances of their own."""
    scores = errors(np.random.default_rng(0), CENTRES)
    for one in differences(scores, "loss"):
        own, others = (np.log(scores[one.cell][kind]) for kind in (one.parametrization, "dense"))
        expected = stats.ttest_ind(own, others, equal_var=False)
        np.testing.assert_allclose((one.ratio, one.p), (np.exp(own.mean() - others.mean()), expected.pvalue), rtol=1e-9)


def test_a_difference_over_all_cells_has_the_level_that_it_is_tested_at():
    """Oracle: the rate of false alarms among equal pairs of very different variances."""
    rng, deviations, found = np.random.default_rng(1), (0.01, 0.1, 1.0), []
    for _ in range(2_000):
        scores = {f"cell{n}": {kind: np.exp(rng.normal(0, sd, 3)) for kind in ("dense", "a")} for n, sd in enumerate(deviations)}
        (one,) = overall(scores, "loss")
        assert (one.cell, one.cells) == (None, 3)
        found.append(one.p < 0.05)
    assert 0.02 < np.mean(found) < 0.06


def test_the_mean_over_all_cells_counts_each_cell_alike():
    scores = {"gru": {"dense": [1.0, 1.1], "a": [4.0, 4.4]}, "rhn": {"dense": [1.0, 1.1], "a": [1.0, 1.1]}}
    (one,) = overall(scores, "loss")
    assert one.ratio == pytest.approx(2.0)
    assert one.better == 0


def test_the_correction_of_holm_covers_all_differences():
    scores = errors(np.random.default_rng(0), CENTRES)
    found = {(one.cell, one.parametrization): one.significant for one in differences(scores, "loss")}
    assert found == {("gru", "a"): True, ("gru", "b"): False, ("rhn", "a"): True, ("rhn", "b"): False}
    found = [one.p for one in differences(scores, "loss")]
    assert not any(holm(found, 3.9 * min(found)))  # four differences


def test_accuracies_are_compared_by_their_errors():
    accuracies = {"gru": {"dense": [0.90, 0.92], "a": [0.95, 0.96]}}
    losses = {"gru": {kind: [1 - one for one in own] for kind, own in accuracies["gru"].items()}}
    (one,), (other,) = differences(accuracies, "accuracy"), differences(losses, "loss")
    np.testing.assert_allclose((one.ratio, one.p), (other.ratio, other.p))
    assert one.ratio == pytest.approx(0.5)
    assert one.better == 1


@pytest.mark.parametrize("dense", [[1.0], [1.0, 1.2]])
def test_one_seed_of_a_pair_tells_nothing(dense):
    assert differences({"gru": {"dense": dense, "a": [2.0]}}, "loss")[0].p is None


@pytest.mark.parametrize(
    ("best", "tried"),
    [
        (1e-2, {3e-3, 1e-2, 3e-2}),
        (3e-3, {1e-3, 3e-3, 1e-2, 3e-2}),
        (3e-4, {3e-4, 1e-3, 3e-3, 1e-2, 3e-2}),  # the end of the grid
        (1e-1, {3e-3, 1e-2, 3e-2, 1e-1, 3e-1}),
    ],
)
def test_further_rates_are_tried_while_the_best_one_lies_at_an_end(best, tried, tmp_path, monkeypatch):
    """A network whose loss is the distance to the best rate, in decades. Rates above 0.02 diverge if the best one is low."""
    trained = {}
    options = command.Options(rates=(3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1, 3e-1), seeds=2, workdir=tmp_path)
    model = ModelConfig(size=4, matrices=TiedStorageConfig("dense"))
    pair = TunedPair(options, "copy", problems(NextSymbol(), 2)["copy"], model, Size(4, MatrixConfig(), 1))

    def directory(path):
        rate = trained.get(path)
        diverged = rate is not None and best < 3e-3 and rate > 0.02
        result = None if rate is None or diverged else {"metrics": {"valid": {"loss": abs(np.log10(rate / best))}}}
        failure = {} if diverged else None
        return SimpleNamespace(result=lambda: result, failure=lambda: failure, divergence=lambda: failure)

    monkeypatch.setattr("experiments.fair_crossing.pairs.RunDirectory", directory)
    while jobs := [job for job in pair.search() if not ended(job)]:
        assert pair.rate() is None
        trained |= {job.path: job.config.optim.learning_rate for job in jobs}
    assert set(trained.values()) == tried
    assert pair.rate() == best
    assert [(job.seed, job.config.optim.learning_rate) for job in pair.chosen()] == [(0, best), (1, best)]


def test_a_rate_at_which_any_seed_diverges_is_not_chosen(tmp_path, monkeypatch):
    """Seed 5 diverges at 0.01, the best rate of seed 4, so that both seeds train at 0.003, the next best one."""
    trained = {}
    options = command.Options(rates=(1e-3, 3e-3, 1e-2), seeds=2, seed=4, workdir=tmp_path)
    model = ModelConfig(size=4, matrices=TiedStorageConfig("dense"))
    pair = TunedPair(options, "copy", problems(NextSymbol(), 2)["copy"], model, Size(4, MatrixConfig(), 1))

    def directory(path):
        rate, seed = trained.get(path, (None, None))
        diverged = (rate, seed) == (1e-2, 5)
        score = {"valid": {"loss": abs(np.log10(rate / 9e-3)) if rate else 0}, "test": {pair.problem.score: 0.5}}
        result = None if rate is None or diverged else {"metrics": score, "seconds": 1.0}
        failure = {} if diverged else None
        return SimpleNamespace(result=lambda: result, failure=lambda: failure, divergence=lambda: failure)

    monkeypatch.setattr("experiments.fair_crossing.pairs.RunDirectory", directory)
    while jobs := pair.missing():
        trained |= {job.path: (job.config.optim.learning_rate, job.seed) for job in jobs}
    assert [(row["seed"], row["learning_rate"]) for row in pair.rows()] == [(4, 3e-3), (5, 3e-3)]
    assert [row["score"] for row in pair.rows()] == [0.5, 0.5], "the score is that of the test split"


@pytest.mark.parametrize("name", list(SCORES))
def test_each_task_trains_as_its_problem_says_and_evaluates_as_often_as_asked(name):
    problem = problems(NextSymbol(reading="stream", steps=4), 2)[name]
    config = problem.config(frame_of("gru", INITIAL, 7, 5, 1, 0.5).sized(Size(4, MatrixConfig(), 0)), 1e-3, 24, 12)
    assert (config.train.updates, config.train.evaluate_every) == (24, 2)
    assert replace(config.train, updates=1, evaluate_every=1) == replace(problem.train, updates=1, evaluate_every=1)


def test_bars_reach_from_the_lowest_to_the_highest_seed():
    (mean,), ((below,), (above,)) = figure._mean_and_bar([{"score": score} for score in (1.0, 2.0, 6.0)])
    assert (mean, mean - below, mean + above) == (3.0, 1.0, 6.0)


def test_gates_that_pass_the_state_on_start_as_open_as_each_task_has_them():
    found = problems(NextSymbol(reading="stream", steps=4), 2)
    assert {name: one.initial.carry_bias for name, one in found.items()} == {"copy": 4.0, "digits": 1.0, "characters": 0.0}


def test_only_the_dense_network_of_the_first_cell_is_the_reference(tmp_path, monkeypatch):
    data = NextSymbol(reading="stream", steps=4)
    options = command.Options(data, ("copy",), ("gru", "lstm"), ("dense",), "time", 300, lag=2, workdir=tmp_path)
    monkeypatch.setattr(command.Sizing, "_relative_time", lambda _, model: model.size / 4.9)
    sizing = command.Sizing(options, problems(data, 2)["copy"])
    assert [sizing.size(cell, "dense").time for cell in ("gru", "lstm")] == [1.0, 5 / 4.9]


def test_a_line_of_the_table_has_the_ratio_and_the_p_value_of_its_pair():
    said = [
        {"cell": "gru", "parametrization": "low_rank", "ratio": 0.5, "p": 0.012, "significant": True},
        {"cell": "lstm", "parametrization": "low_rank", "ratio": 2.0, "p": None, "significant": False},
    ]
    assert command._compared(("gru", "low_rank"), said) == ["0.500 *", "0.012"]
    assert command._compared(("lstm", "low_rank"), said) == ["2.000", ""]
    assert command._compared(("gru", "dense"), said) == ["", ""]


def rows_of(scores):
    """Return a run of two cells with each of two parametrizations."""
    pairs = [(cell, kind) for cell in ("gru", "lstm") for kind in ("dense", "monarch")]
    return [{"cell": cell, "parametrization": kind, "score": score} for (cell, kind), score in zip(pairs, scores, strict=True)]


def test_parametrizations_stand_on_both_sides_of_the_name_of_their_cell():
    axes = Figure().subplots()
    figure._by_cell(axes, rows_of([1.0, 2.0, 3.0, 4.0]))
    places = [bar.lines[0].get_xdata()[0] for bar in axes.containers]
    assert places == pytest.approx([-0.175, 0.175, 0.825, 1.175])


@pytest.mark.parametrize(("highest", "scale"), [(2.9, "linear"), (3.1, "log")])
def test_scores_that_differ_more_than_threefold_have_a_logarithmic_axis(highest, scale, tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(plots, "_save_png", lambda figure, path: drawn.append(figure))
    monkeypatch.setattr(Figure, "savefig", lambda *_, **__: None)
    figure.score_figure(rows_of([1.0, highest, 2.0, 2.0]), tmp_path / "a.png", "loss", "", "parameters")
    assert drawn[0].axes[0].get_yscale() == scale


@pytest.mark.slow
def test_trains_everything_once_and_at_the_rate_with_the_lowest_validation_loss(tmp_path, capsys):
    (tmp_path / "text").write_text("the cat sat on a mat\n" * 40)
    words = (
        "--tasks characters --cells gru --matrices dense circulant --budget 900 --seeds 2 --updates 2 --evaluations 1 --rates 0.01 0.0001"
    )
    where = ["--data.file", str(tmp_path / "text"), "--data.steps", "4", "--workdir", str(tmp_path / "runs")]
    main([*words.split(), *where])
    summary = json.loads((tmp_path / "runs" / command.SUMMARY).read_text())
    assert [set(row) for row in summary["runs"]] == [FIELDS] * 4
    assert {row["learning_rate"] for row in summary["runs"]} == {0.01}  # two updates at 1e-4 reach nothing
    assert len(list((tmp_path / "runs").glob("*-seed*"))) == 2 * 3
    assert (tmp_path / "runs" / "figures" / "characters.png").exists()
    found = [(one["cell"], one["parametrization"]) for one in summary["differences"]["characters"]]
    assert found == [("gru", "circulant"), (None, "circulant")]

    main([*words.split(), *where])  # all are finished
    assert json.loads((tmp_path / "runs" / command.SUMMARY).read_text()) == summary
    capsys.readouterr()
    with pytest.raises(SystemExit):
        main([*words.replace("900", "1200").split(), *where])
    assert "holds sizes for other options" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        ("--tasks copy sort", "tasks is 'sort': choose from copy, digits, characters"),
        ("--matrices hankel", "matrices is 'hankel': choose from "),
        ("--matrices adapter", "matrices is 'adapter': choose from "),
        ("--cells unitary", "cells is 'unitary': it has no recurrent matrices"),
        ("--equal speed", "equal is 'speed': choose from parameters, time"),
        ("--share 0", "share is 0.0: expected a number above 0, at most 1"),
        ("--rates 0", "rates is 0.0: give learning rates above 0"),
        ("--seeds 0", "seeds is 0: expected 1 or more"),
    ],
)
def test_bad_options_are_one_line(flags, says, assert_refused):
    assert_refused(main, flags.split(), says)


def test_small_errors_of_accuracies_are_told_apart_and_none_counts_as_one_in_ten_thousand():
    accuracies = {"gru": {"dense": [0.99, 0.992], "a": [0.999, 0.9992], "b": [1.0, 1.0]}}
    a, b = differences(accuracies, "accuracy")
    assert a.ratio == pytest.approx(0.1)
    assert b.ratio == pytest.approx(1e-4 / (0.01 * 0.008) ** 0.5)


@pytest.mark.parametrize("equal", ["parameters", "time"])
def test_the_kept_differences_are_those_of_the_kept_runs(equal):
    kept = json.loads((KEPT / f"{crossing_name(equal)}.json").read_text())
    for task, runs in grouped(kept["runs"], "task").items():
        scores = scores_of(runs)
        found = [*differences(scores, SCORES[task]), *overall(scores, SCORES[task])]
        for one, own in zip(found, kept["differences"][task], strict=True):
            assert {name: pytest.approx(v) for name, v in one._asdict().items()} == own


def test_the_parameters_are_met_to_a_tenth():
    found = at_parameters(frame_of("lstm", InitialConfig(trainable_state=False), 104, 104, 2, 0.25), "monarch", 21_500)
    assert abs(found.parameters - 21_500) <= 2_150
