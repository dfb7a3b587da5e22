"""Metrics and analyses of kept results: numbers that are missing, not finite or of another state."""

import json
import math
from types import SimpleNamespace

import pytest
from kept_runs import make_run, write

from experiments import adding
from experiments.jsb.command import EXPERIMENT as JSB
from experiments.report.claims.contests import Final
from experiments.report.claims.quantities import lowest
from experiments.report.command import main
from experiments.report.kept.analyses import keep_analysis, largest_difference
from experiments.report.kept.records import read
from experiments.report.kept.verification import compared, differences
from lrpt.runs.console import Console

INFINITY = math.inf


@pytest.mark.parametrize(
    ("kept", "computed", "largest"),
    [
        ({"a": [1.0, 2.0]}, {"a": [1.0, 2.5]}, 0.25),
        ({"a": [1.0, 2.0]}, {"a": [1.0, math.nan]}, INFINITY),
        ({"a": [1.0, None]}, {"a": [1.0, 2.0]}, INFINITY),
        ({"a": [1.0, None]}, {"a": [1.0, INFINITY]}, 0.0),
        ({"a": [1.0]}, {"a": [1.0, 2.0]}, INFINITY),
    ],
)
def test_a_number_that_is_no_longer_finite_makes_analyses_differ(kept, computed, largest):
    assert largest_difference(kept, computed) == largest


@pytest.mark.parametrize(
    ("printed", "computed", "relative", "says"),
    [
        ({"loss": 2.0, "update": 3, "seconds": 1.0, "split": "valid"}, {"loss": 1.0}, 0.5, "valid loss: 2.0 printed, 1.0 computed"),
        ({"loss": 0.00025}, {"loss": 0.00050}, 0.25, "valid loss: 0.00025 printed, 0.0005 computed"),
        ({"loss": 2.0}, {"accuracy": 1.0}, INFINITY, "valid loss: 2.0 printed, not computed"),
        ({"loss": None}, {"loss": 1.0}, INFINITY, "valid loss: not finite printed, 1.0 computed"),
        ({"loss": None}, {"loss": INFINITY}, 0.0, "valid loss: not finite printed, inf computed"),
        ({"loss": 1.0}, {"loss": math.nan}, INFINITY, "valid loss: 1.0 printed, nan computed"),
    ],
)
def test_every_printed_metric_is_compared(printed, computed, relative, says):
    assert list(differences({"valid": printed}, {"valid": computed})) == [(relative, says)]


def test_a_result_without_metrics_differs():
    trained = SimpleNamespace(evaluate=lambda: {"test": {}})
    record = SimpleNamespace(result=None)
    assert compared(trained, record, {"update": 3})[0] == "differs"


@pytest.mark.parametrize(("stored", "stays"), [({"valid_loss": 1.5}, True), ({"valid_loss": 1.25}, False)])
def test_an_analysis_of_another_state_with_the_same_update_is_removed(stored, stays, tmp_path):
    path = make_run(tmp_path, JSB, "--preset paper", curve={70: 1.5}, analysis=stored)
    keep_analysis(path, path, Console())
    assert (path / "analysis.json").exists() == stays


@pytest.fixture
def infinite(tmp_path):
    """A finished run whose training loss was not finite once, and whose perplexity was not finite at the last evaluation."""
    path = make_run(tmp_path / "runs", adding.EXPERIMENT, "--preset paper", test={"loss": 0.1, "perplexity": None})
    lines = [
        {"update": 1, "seconds": 1.0, "split": "train", "loss": None},
        {"update": 1, "seconds": 1.0, "split": "valid", "loss": 3.0, "perplexity": 20.0},
        {"update": 28_000, "seconds": 1.0, "split": "train", "loss": 1.0},
        {"update": 28_000, "seconds": 1.0, "split": "valid", "loss": 1.0, "perplexity": None},
    ]
    write(path / "metrics.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_metrics_that_are_not_finite_are_kept_and_skipped(infinite, tmp_path):
    main(["--collect", str(tmp_path / "runs")], tmp_path)
    kept = tmp_path / "experiments" / "results" / "adding" / infinite.name
    assert (kept / "metrics.jsonl").read_text() == (infinite / "metrics.jsonl").read_text()
    run = read(kept)
    assert run.curve("perplexity") == {1: 20.0}
    assert run.curve("loss") == {1: 3.0, 28_000: 1.0}
    assert lowest("perplexity", "perplexity", 10.0, 1).read(run) == 20.0
    assert Final("perplexity", "perplexity", "{}").last_gain(run) == 0
    assert run.tested("perplexity") is None


def test_a_validation_loss_that_is_not_finite_is_damage(infinite, tmp_path, assert_refused):
    path = infinite / "metrics.jsonl"
    path.write_text(path.read_text().replace('"loss": 3.0', '"loss": null'))
    words = ["--collect", str(tmp_path / "runs")]
    assert_refused(lambda words: main(words, tmp_path), words, "metrics.jsonl is damaged (it has no usable 'loss')", code=1)
