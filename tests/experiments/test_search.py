"""Search by successive halving: what is drawn, which trials go on, and a search that really trains."""

import json
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib.figure import Figure
from tiny import EVEN, EXPERIMENT, changed, flags, sharpening

from experiments.search.command import Options, Search, main, tell
from experiments.search.figure import draw_search
from experiments.search.halving import best_line, ranked, rungs
from experiments.search.space import Choice, Range, draw, read
from lrpt.analysis import plots
from lrpt.analysis.curves import Curve
from lrpt.engines.schedule import Report
from lrpt.runs.console import Console


def test_ranges_and_choices():
    assert read("optim.learning-rate=1e-4..1e-2") == Range("optim.learning-rate", 1e-4, 1e-2, False)
    assert read("model.size=8..64") == Range("model.size", 8, 64, True)
    assert read("model.rank=8,24") == Choice("model.rank", ("8", "24"))
    assert read("data.file=../a,../b") == Choice("data.file", ("../a", "../b"))


def test_switches_are_chosen_by_true_and_false(tmp_path):
    search = Search(EXPERIMENT, Options(over=("model.weight-norm=True,False",), runs=2, workdir=tmp_path), flags(EVEN))
    assert sorted(command.model.matrices.weight_norm for command in search.commands) == [False, True]


def test_draws_are_a_function_of_the_seed_and_cover_the_range_evenly_on_a_logarithmic_scale():
    space = [read("optim.learning-rate=1e-4..1e-2"), read("model.size=8..64")]
    trials = draw(space, 200, 0)
    assert trials == draw(space, 200, 0)
    assert trials[:50] != draw(space, 50, 1)
    rates, sizes = (np.array([float(trial[name]) for trial in trials]) for name in ("optim.learning-rate", "model.size"))
    assert 1e-4 <= rates.min() < 1.5e-4
    assert 0.4 < np.mean(rates < 1e-3) < 0.6
    assert set(sizes) <= set(range(8, 65))


@pytest.mark.parametrize(
    ("low", "shares"),
    [(0, [1 / 4, 1 / 4, 1 / 4, 1 / 4]), (-1, [1 / 5] * 5), (1, np.log([3, 5 / 3, 7 / 5]) / np.log(7))],
)
def test_ends_of_whole_numbers_are_drawn_as_often_as_the_others(low, shares):
    """Above 0, a whole number has its share of the logarithmic scale: from half a unit below to half a unit above."""
    rng = np.random.default_rng(0)
    drawn = [Range("model.rank", low, 3, True).draw(rng) for _ in range(4_000)]
    assert set(drawn) == {str(number) for number in range(low, 4)}
    np.testing.assert_allclose([drawn.count(str(number)) / 4_000 for number in range(low, 4)], shares, atol=0.03)


@pytest.mark.parametrize(("word", "end"), [("0..0.9997", "0.9997"), ("1.0004..1.1", "1.0004"), ("-0.9997..-0.5", "-0.9997")])
def test_rounding_stays_in_the_range(word, end):
    found, rng = read(f"optim.momentum={word}"), np.random.default_rng(0)
    drawn = {found.draw(rng) for _ in range(20_000)}
    assert end in drawn
    assert all(found.low <= float(text) <= found.high for text in drawn)
    assert all(text == f"{float(text):.3g}" for text in drawn - {end})


def test_a_small_grid_is_taken_whole():
    space = [read("model.rank=1,2"), read("train.batch-size=4,8")]
    assert len(draw(space, 20, 0)) == 4
    assert len(draw(space, 3, 0)) == 3
    assert [trial["model.rank"] for trial in draw([read("model.rank=1..3")], 20, 0)] == ["1", "2", "3"]
    grid = [read("model.size=1..30"), read("model.rank=1,2,3")]
    assert len({tuple(trial.values()) for trial in draw(grid, 90, 1)}) == 90


def test_rungs_end_at_evaluations_and_the_last_one_is_whole():
    assert rungs(20, 4000, 250, 3) == [(20, 500), (7, 1250), (3, 4000)]
    assert rungs(9, 900, 100, 3) == [(9, 100), (3, 300), (1, 900)]
    assert rungs(1, 900, 100, 3) == [(1, 900)]
    assert rungs(27, 100, 100, 3) == [(27, 100)]
    assert rungs(81, 2000, 500, 3) == [(81, 500), (1, 2000)]  # of five rounds, four would end at the first evaluation
    assert rungs(20, 2000, 500, 3) == [(20, 500), (3, 2000)]
    assert rungs(243, 24_300, 100, 3)[-1] == (1, 24_300)  # the logarithm of 243 to the base 3 rounds to less than 5


def test_trials_are_ranked_by_their_lowest_loss_and_those_without_a_finite_one_come_last():
    found = ranked({0: 2.0, 1: float("nan"), 2: 1.0, 3: float("inf"), 4: 1.5})
    assert found[:3] == [2, 4, 0]
    assert set(found[3:]) == {1, 3}
    lines = [{"update": 4, "loss": 3.0}, {"update": 8, "loss": 2.0}, {"update": 12, "loss": 1.0}]
    assert [best_line(lines, until, lambda update: True) for until in (2, 8, 20)] == [None, lines[1], lines[2]]


def test_evaluations_with_soft_masks_do_not_rank_a_trial():
    """As for the best state of a run: the lowest of those that count, and the latest one as long as none counts."""
    lines = [{"update": 4, "loss": 1.0}, {"update": 8, "loss": 2.0}, {"update": 12, "loss": 4.0}, {"update": 16, "loss": 3.0}]
    assert [best_line(lines, until, lambda update: update > 8) for until in (4, 8, 12, 20)] == lines


@pytest.mark.slow
def test_a_search(tmp_path, capsys):
    """The trial that goes on has one run directory, and its first evaluations stay as they were."""
    config = changed(EVEN, train={"updates": 24, "evaluate_every": 4})
    words = [word for word in flags(config) if word not in ("--optim.learning-rate", "0.01")]
    main(["copy_memory", "--over", "optim.learning-rate=1e-6,1e-2,2e-2", "--runs", "3", "--workdir", str(tmp_path), *words])
    found = json.loads((tmp_path / "search.json").read_text())
    assert found["rungs"] == [[3, 8], [1, 24]]
    assert [trial["updates"] for trial in found["trials"]] == [24, 8, 8]
    assert found["trials"][-1]["optim.learning-rate"] == "1e-6"
    assert (tmp_path / "figures" / "search.png").is_file()
    assert "2 runs" not in capsys.readouterr().out


@pytest.mark.parametrize(("bad", "best"), [({0}, "trial-001"), ({0, 1}, "trial-002"), ({0, 1, 2}, None)])
def test_a_trial_that_diverged_goes_no_further_and_is_never_the_best(bad, best, tmp_path, monkeypatch, capsys):
    trained = []

    def train(jobs, *_):
        trained.append(sorted(one.job.path.name for one in jobs))
        return Report([], {})

    def evaluations(_, trial):
        return [{"split": "valid", "update": 1, "loss": float("nan") if trial in bad else 1.0 + trial, "accuracy": 0.5}]

    monkeypatch.setattr("experiments.search.command.train_all", train)
    monkeypatch.setattr("experiments.search.command.Search.evaluations", evaluations)
    with pytest.raises(SystemExit) if best is None else nullcontext():
        main(["copy_memory", "--over", "optim.learning-rate=1,1e-2,2e-2", "--runs", "3", "--workdir", str(tmp_path)])
    said = capsys.readouterr()
    assert trained[1:] == ([[best]] if best else [])
    assert (f"{best}   table" in said.out) if best else ("all 3 trials failed or diverged" in said.err)
    assert (tmp_path / "search.json").is_file()


def test_the_table_shows_the_metric_of_the_preset(tmp_path, monkeypatch, capsys):
    lines = [{"split": "valid", "update": 1, "loss": 1.0, "recall": 0.5}]
    monkeypatch.setattr("experiments.search.command.train_all", lambda *_: Report([], {}))
    monkeypatch.setattr("experiments.search.command.Search.evaluations", lambda *_: lines)
    main(["copy_memory", "--preset", "wide-state", "--over", "optim.learning-rate=1e-2,2e-2", "--workdir", str(tmp_path)])
    assert "valid recall" in capsys.readouterr().out
    assert [trial["recall"] for trial in json.loads((tmp_path / "search.json").read_text())["trials"]] == [0.5, 0.5]


def test_trials_that_would_repeat_others_are_not_counted(tmp_path, monkeypatch, capsys):
    """The rank of dense matrices has no effect, so that two of four trials are one."""
    over = ("model.parametrization=dense,low_rank", "model.rank=1,2")
    search = Search(EXPERIMENT, Options(over=over, runs=4, workdir=tmp_path), ["--model.size", "4"])
    assert [tuple(trial.values()) for trial in search.trials] == [("dense", "1"), ("low_rank", "1"), ("low_rank", "2")]
    assert [rung.trials for rung in search.rungs] == [3, 1]
    monkeypatch.setattr("experiments.search.command.train_all", lambda *_: Report([], {}))
    monkeypatch.setattr(search, "evaluations", lambda trial: [{"update": 1, "loss": 1.0 + trial}])
    assert search.run(Console()) == ([0, 1, 2], 3)
    said = capsys.readouterr()
    assert "1 of 4 trials would repeat others, and are not trained" in said.out
    assert "is out" not in said.err


def test_a_trial_that_failed_goes_no_further_and_dropped_ones_keep_their_places(tmp_path, monkeypatch):
    """Trial 0 has the lowest loss, and its process dies in the first round; of the others one in two goes on."""
    search = Search(EXPERIMENT, Options(over=("optim.learning-rate=1e-3,2e-3,3e-3,4e-3",), runs=4, keep=2, workdir=tmp_path), [])
    trained = []

    def train(jobs, *_):
        trained.append([one.job.path for one in jobs])
        return Report([], {search.path(0): "it died"} if len(trained) == 1 else {})

    monkeypatch.setattr("experiments.search.command.train_all", train)
    monkeypatch.setattr(search, "evaluations", lambda trial: [{"update": 1, "loss": 1.0 + trial}])
    assert search.run(Console(quiet=True)) == ([1, 2, 3, 0], 3)
    assert trained[1:] == [[search.path(1), search.path(2)], [search.path(1)]]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "0 are named"),
        (["adding", "jsb"], "2 are named"),
        (["adding"], "over is empty"),
        (["adding", "--over", "model.rank"], "over is 'model.rank'"),
        (["adding", "--over", "model.rank=a..b"], "expected a flag"),
        (["adding", "--over", "model.rank=8..2"], "the first is the smaller"),
        (["adding", "--over", "train.updates=1,2"], "those of the halving"),
        (["adding", "--over", "train.evaluate_every=1,2"], "those of the halving"),
        (["adding", "--over", "model.rank=1,2", "model.rank=3,4"], "a flag twice"),
        (["adding", "--over", "optim.learning_rate=1,2", "optim.learning-rate=3,4"], "a flag twice"),
        (["adding", "--over", "model.rank=1,2", "--seeds", "3"], "--seeds is no flag of a search"),
        (["adding", "--over", "model.rank=1,2", "--seeds=3"], "--seeds is no flag of a search"),
        (["adding", "--over", "model.rank=1,2", "--vary", "model.size=8,16"], "--vary is no flag of a search"),
        (["adding", "--over", "model.rank=1,2", "--distributed.auto"], "leave --distributed out"),
        (["adding", "--over", "model.nothing=1,2"], "model.nothing"),
        (["adding", "--over", "model.chunk=4,0", "model.rank=1,2"], "(in the trial with chunk 0, rank 1)"),
        (["adding", "--over", "model.rank=1,2", "--runs", "1000000"], "limit is 10,000"),
        (["adding", "--over", "model.rank=1,2", "--keep", "1"], "keep is 1"),
        (["adding", "--over", "model.rank=1..9", "--seed", "-1"], "seed is -1: expected 0 to "),
    ],
)
def test_wrong_flags(words, says, assert_refused):
    assert_refused(main, words, says)


def test_evaluations_of_a_trial_count_as_those_of_its_run(tmp_path):
    """Its mask gets sharper for some epochs of five updates."""
    search = Search(EXPERIMENT, Options(over=("optim.learning-rate=1e-3,2e-3",), runs=2, workdir=tmp_path), [])
    assert search.counts(0)(1)
    config = sharpening(tmp_path / "text", 0.1, 0.1, 0.3, 0.01, updates=40)
    search.commands[0] = SimpleNamespace(config=config)
    counted = [search.counts(0)(update) for update in range(1, 41)]
    assert counted == [config.model.settled(update - 1, 5) for update in range(1, 41)]
    assert set(counted) == {False, True}


def test_a_round_is_ranked_by_what_was_known_at_its_end(tmp_path, monkeypatch):
    """Trial 1 was trained to the end by an earlier search, after which its loss is the lowest."""
    search = Search(EXPERIMENT, Options(over=("optim.learning-rate=1e-3,2e-3,3e-3",), runs=3, workdir=tmp_path), [])
    first, last = (rung.updates for rung in search.rungs)
    lines = {k: [{"update": first, "loss": 1.0 + k}] for k in range(3)}
    lines[1].append({"update": last, "loss": 0.1})
    trained = []
    monkeypatch.setattr(
        "experiments.search.command.train_all", lambda jobs, *_: trained.append([one.job.path for one in jobs]) or Report([], {})
    )
    monkeypatch.setattr(search, "evaluations", lines.__getitem__)
    search.run(Console(quiet=True))
    assert trained[1:] == [[search.path(0)]]


def test_the_table_shows_the_evaluation_that_ranks_a_trial(tmp_path, monkeypatch):
    search = Search(EXPERIMENT, Options(over=("optim.learning-rate=1e-3,2e-3",), runs=2, workdir=tmp_path), ["--preset", "wide-state"])
    lines = [{"update": 1, "loss": 1.0, "recall": 0.5}, {"update": 2, "loss": 3.0, "recall": 0.2}]
    drawn = []
    monkeypatch.setattr(search, "evaluations", lambda trial: lines)
    monkeypatch.setattr("experiments.search.command.draw_search", lambda curves, *_: drawn.append(curves))
    tell(search, [0, 1], 2, Console(quiet=True))
    assert [(curve.updates, curve.scores) for curve in drawn[0]] == [([1, 2], [0.5, 0.2])] * 2
    (trial, _) = json.loads((tmp_path / "search.json").read_text())["trials"]
    assert (trial["updates"], trial["loss"], trial["recall"]) == (2, 1.0, 0.5)


def test_failed_trials_of_later_rounds_come_before_those_of_earlier_ones(tmp_path, monkeypatch):
    search = Search(EXPERIMENT, Options(over=("optim.learning-rate=1e-3,2e-3,3e-3,4e-3",), runs=4, keep=2, workdir=tmp_path), [])
    rounds = []

    def train(jobs, *_):
        rounds.append(jobs)
        return Report([], {search.path(len(rounds) - 1): "it died"} if len(rounds) < 3 else {})

    monkeypatch.setattr("experiments.search.command.train_all", train)
    monkeypatch.setattr(search, "evaluations", lambda trial: [{"update": 1, "loss": 1.0 + trial}])
    assert search.run(Console(quiet=True)) == ([2, 3, 1, 0], 2)


def test_draws_and_runs_have_the_seed_of_the_search(tmp_path):
    over = ("optim.learning-rate=1e-4..1e-2",)
    one, other = (Search(EXPERIMENT, Options(over=over, runs=2, seed=seed, workdir=tmp_path), []) for seed in (0, 3))
    assert one.trials != other.trials
    assert other._job(0, 4).job.seed == 3


def test_the_best_trials_are_named_and_the_others_are_grey(tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(plots, "_save_png", lambda figure, path: drawn.append(figure))
    monkeypatch.setattr(Figure, "savefig", lambda *_, **__: None)
    draw_search([Curve(str(k), [1, 2], [3.0 + k, 2.0 + k]) for k in range(7)], "loss", tmp_path / "a.png", "")
    (axes,) = drawn[0].axes
    grey = [line.get_ydata().tolist() for line in axes.lines if line.get_color() == "0.8"]
    assert grey == [[9.0, 8.0], [8.0, 7.0]]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["0", "1", "2", "3", "4"]
