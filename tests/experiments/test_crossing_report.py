"""The page about comparisons on equal terms: differences and their errors, counts of outcomes, figures."""

import json

import pytest

from experiments.fair_crossing.significance import ErrorRatio
from experiments.report.pages import crossing
from experiments.report.wording.markdown import RESULTS
from lrpt.analysis.significance import holm
from lrpt.errors import UsageError

ENVIRONMENT = {"cpus": 2, "command": "python -m experiments.fair_crossing --data.dir PATH"}
OPTIONS = {"updates": 3_000, "cells": ["gru"], "budget": 20_000, "rates": [1e-3, 1e-2], "seeds": 3}
SCORES = {
    "characters": {"dense": (2.00, 2.02, 2.04), "low_rank": (1.80, 1.82, 1.84), "low_rank_plus_diagonal": (2.00, 2.03, 2.04)},
    "digits": {"dense": (0.90, 0.91, 0.92), "low_rank": (0.70, 0.71, 0.72), "low_rank_plus_diagonal": (0.90, 0.91, 0.92)},
}


@pytest.fixture
def root(tmp_path):
    """A repository that keeps a comparison at equal parameters of three GRUs on two tasks."""
    runs = [
        {"task": task, "cell": "gru", "parametrization": kind, "size": 62, "sizes": {}, "parameters": 20_100, "learning_rate": 0.01}
        | {"seed": seed, "score": score, "seconds": 600.0}
        for task, kinds in SCORES.items()
        for kind, scores in kinds.items()
        for seed, score in enumerate(scores)
    ]
    path = tmp_path / RESULTS / "fair_crossing_parameters.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"options": OPTIONS, "environment": ENVIRONMENT, "runs": runs}))
    return tmp_path


def test_ratios_larger_than_their_errors_are_marked_and_those_not_run_are_named(root):
    text = crossing.section(root)
    assert "| dense: bits per character | 2.020 |  |\n| low rank | 0.90 * | 0.90 (1 of 1) * |\n| low rank plus diagonal | 1.002 |" in text
    assert "| GRU | low rank | 62 | 20,100 | 0.01 | 3 | 1.820 | 0.020 |" in text
    assert "Test bits per character, divided by that of dense matrices." in text
    assert "18 runs at the chosen rates took 3.0 hours of a core" in text
    assert "that had other work to do: `python -m experiments.fair_crossing --cells gru --rates 0.001 0.01`" in text
    assert "Not yet run: `python -m experiments.fair_crossing --equal time" in text


def test_networks_at_equal_time_have_a_share_of_the_parameters_in_the_geometric_mean(root):
    path = root / RESULTS / "fair_crossing_parameters.json"
    content = json.loads(path.read_text())
    sizes = {"dense": 20_000, "low_rank": 5_000, "low_rank_plus_diagonal": 20_000}
    runs = [run | {"parameters": sizes[run["parametrization"]], "time": 1.0} for run in content["runs"]]
    path.with_name("fair_crossing_time.json").write_text(json.dumps(content | {"runs": runs}))
    assert "their networks have 0.50 of the parameters of those with " in crossing.section(root)


def test_the_questions_of_the_paper_are_answered_for_each_task(root):
    """Fewer bits are a smaller error, and a lower accuracy is a larger one: 0.29 of the digits are wrong after 0.09."""
    text = crossing.section(root)
    assert "| errors | characters | digits |" in text
    assert "| low rank / dense | 0.90 * | 3.23 * |\n| low rank plus diagonal / dense | 1.002 | 1.000 |" in text
    assert "| low rank plus diagonal / low rank | 1.11 * | 0.31 * |" in text


def test_the_ratios_of_all_tasks_are_corrected_together(monkeypatch):
    """Each of four ratios with p = 0.02 would be significant among those of its own task."""
    ratios = {"low_rank": 0.9, "low_rank_plus_diagonal": 1.1}
    found = [ErrorRatio(None, kind, ratio, 0.02, True, 1, 1) for kind, ratio in ratios.items()]
    assert holm([one.p for one in found]) == [True, True]
    monkeypatch.setattr(crossing, "_over", lambda summary, other: {task: crossing._by_kind(found) for task in SCORES})
    full, low_rank = crossing._summarized({})
    assert {one.significant for part in (full, low_rank) for own in part.values() for one in own.values()} == {False}
    assert [list(own) for own in (*full.values(), *low_rank.values())] == [list(ratios)] * 2 + [["low_rank_plus_diagonal"]] * 2


def test_a_sentence_says_what_it_means_for_the_paper(root):
    text = crossing.section(root)
    (said,) = crossing.meanings(root)
    assert said in text
    assert said == (
        "At equal parameters, compared with dense matrices, low rank is significantly better on characters and worse on digits, and low "
        "rank plus diagonal is neither significantly better nor worse on any task. Compared with low "
        "rank alone, the diagonal is significantly better on digits and worse on characters."
    )


def test_each_task_has_a_figure_on_either_terms(root):
    results = root / RESULTS
    (results / "fair_crossing_time.json").write_text((results / "fair_crossing_parameters.json").read_text())
    crossing.draw(root)
    for task in SCORES:
        for terms in ("parameters", "time"):
            assert (results / "figures" / f"fair_crossing_{terms}_{task}.png").stat().st_size > 10_000
            assert f"fair_crossing_{terms}_{task}.png" in crossing.section(root)


def test_the_time_of_an_update_stands_beside_the_width(root):
    results = root / RESULTS
    summary = json.loads((results / "fair_crossing_parameters.json").read_text())
    for run in summary["runs"]:
        run["time"] = 0.987
        run["parameters"] = 40_200 if run["parametrization"] == "dense" else 20_100
    (results / "fair_crossing_time.json").write_text(json.dumps(summary))
    text = crossing.section(root)
    assert "An update takes about as long as that of a GRU with dense matrices and 20,000 parameters; the column time" in text
    assert "their networks have 0.50 of the parameters of those with dense matrices, in the geometric mean." in text
    assert "| cell | matrices | width | parameters | time | rate | seeds | bits per character | sd |" in text
    assert "| GRU | low rank | 62 | 20,100 | 0.99 | 0.01 | 3 | 1.820 | 0.020 |" in text


def test_without_results_the_page_says_what_would_make_them(tmp_path):
    assert crossing.section(tmp_path).count("Not yet run: `python -m experiments.fair_crossing") == 2


def test_damaged_files_are_named(root):
    (root / RESULTS / "fair_crossing_time.json").write_text("{")
    with pytest.raises(UsageError, match="is damaged"):
        crossing.section(root)


def test_a_summary_that_names_a_path_of_a_machine_is_refused(root):
    path = root / RESULTS / "fair_crossing_parameters.json"
    path.write_text(path.read_text().replace("PATH", "/somebody/data"))
    with pytest.raises(UsageError, match="names a path of some machine: collect the study with --collect"):
        crossing.section(root)
