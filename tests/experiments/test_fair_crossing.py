"""The fair comparison: sizes that come closest, the choice of the learning rate, significance, and what is written."""

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from experiments.fair_crossing import command, timing
from experiments.fair_crossing.command import main
from experiments.fair_crossing.problems import SCORES, problems
from experiments.fair_crossing.significance import differences
from experiments.fair_crossing.sizes import Size, at_parameters, at_time, fits, frame_of
from lrpt.errors import UsageError
from lrpt.networks.configuration import InitialConfig
from lrpt.networks.counting import count
from lrpt.parametrizations import MatrixConfig
from lrpt.tasks import NextSymbol

INITIAL = InitialConfig(trainable_state=False)
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


def test_the_width_at_equal_time_is_the_closest_of_those_that_were_measured():
    """With a time that grows with the square of the width; the nearest by ratio is found with few measurements."""
    frame, asked = frame_of("gru", INITIAL, 7, 5, 2, 0.25), []

    def measure(model):
        asked.append(model.size)
        return model.size**2 / 1e4

    for seconds in (0.05, 0.17, 0.5):
        found = at_time(frame, "low_rank", seconds, range(8, 80), measure)
        assert found.width == min(range(8, 80), key=lambda width: abs(np.log(width**2 / 1e4 / seconds)))
    assert len(asked) < 30


@pytest.mark.slow
def test_the_time_of_an_update_is_measured():
    problem = problems(NextSymbol(reading="stream", steps=4), 2)["copy"]
    task = problem.data.build(0)
    model = frame_of("gru", problem.initial, task.input_size, task.output_size, 1, 0.5).sized(Size(4, MatrixConfig(), 0))
    assert 0 < timing.seconds_per_update(problem.config(model, 1e-3, 4, 1), task) < 60


def test_differences_are_those_of_scipy_with_the_correction_of_holm():
    rng = np.random.default_rng(0)
    scores = {"gru": {"dense": rng.normal(0, 1, 5), "a": rng.normal(4, 1, 5), "b": rng.normal(0.1, 1, 5)}, "rhn": {"a": [1.0, 2.0]}}
    a, b = differences(scores)
    assert a.p == pytest.approx(stats.ttest_ind(scores["gru"]["a"], scores["gru"]["dense"], equal_var=False).pvalue)
    assert (a.parametrization, a.significant, b.parametrization, b.significant) == ("a", True, "b", False)
    np.testing.assert_allclose(a.mean, scores["gru"]["a"].mean() - scores["gru"]["dense"].mean())
    p = stats.ttest_ind(scores["gru"]["a"], scores["gru"]["dense"], equal_var=False).pvalue
    assert not differences(scores, level=1.5 * p)[0].significant  # two differences: the smaller one is held against half of the level
    assert differences({"gru": {"dense": [1.0], "a": [2.0]}})[0].p is None


@pytest.mark.parametrize("name", list(SCORES))
def test_each_task_trains_as_its_problem_says_and_evaluates_as_often_as_asked(name):
    problem = problems(NextSymbol(reading="stream", steps=4), 2)[name]
    config = problem.config(frame_of("gru", INITIAL, 7, 5, 1, 0.5).sized(Size(4, MatrixConfig(), 0)), 1e-3, 24, 12)
    assert (config.train.updates, config.train.evaluate_every) == (24, 2)
    assert replace(config.train, updates=1, evaluate_every=1) == replace(problem.train, updates=1, evaluate_every=1)


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
    assert [one["parametrization"] for one in summary["differences"]["characters"]] == ["circulant"]

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
        ("--equal speed", "equal is 'speed': choose from parameters, time"),
        ("--share 0", "share is 0.0: expected a number above 0, at most 1"),
        ("--rates 0", "rates is 0.0: give learning rates above 0"),
        ("--seeds 0", "seeds is 0: expected 1 or more"),
    ],
)
def test_bad_options_are_one_line(flags, says, assert_refused):
    assert_refused(main, flags.split(), says)
