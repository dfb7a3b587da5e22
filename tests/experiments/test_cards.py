"""Model cards of kept results: what they say, and that their commands exist."""

import shlex
from copy import copy
from dataclasses import is_dataclass, replace

import pytest
from kept_runs import make_run

import experiments
from experiments.report.command import ROOT, main
from experiments.report.kept.records import load
from experiments.report.pages.cards import card, card_pages, commands, described, models_page
from experiments.report.wording.data_terms import OWN_FILE, SOURCES, WITHOUT_SOURCE, terms_of
from lrpt import tasks
from lrpt.tasks import bits, bytes, chorales, images, music, text, words


@pytest.fixture(scope="module")
def results():
    return described(load(ROOT / "experiments" / "results"), ROOT)


def test_every_source_of_every_task_has_terms():
    modules = (bits, bytes, chorales, images, music, text, words)
    assert {name for module in modules for name in module.SOURCES} == SOURCES.keys()
    others = {name for name in tasks.__all__ if is_dataclass(getattr(tasks, name)) and hasattr(getattr(tasks, name), "build")}
    without = {name for name in others if not hasattr(getattr(tasks, name)(), "source")}
    assert without == WITHOUT_SOURCE.keys()
    for name in without:
        assert terms_of(getattr(tasks, name)()).licence


def test_a_file_of_the_user_has_its_own_terms(tmp_path):
    assert terms_of(tasks.NextSymbol(file=tmp_path / "book.txt")) is OWN_FILE
    assert terms_of(tasks.NextSymbol("ptb")) is SOURCES["ptb"]


@pytest.mark.slow
def test_cards_are_up_to_date_and_listed(results):
    texts = card_pages(load(ROOT / "experiments" / "results"), ROOT)
    assert len(texts) == len(results) + 1
    for path, shown in texts.items():
        assert (ROOT / path).read_text() == shown, f"run python -m experiments.report: {path} is stale"


def test_a_card_has_the_numbers_of_the_result(results):
    one = next(one for one in results if one.record.name == "copy-500-gru")
    shown = card(one)
    for part in ("GRU 128, 54,794 parameters", "| 35,000 updates of 20 examples", "score, test split | loss 0.03129", "Apache-2.0"):
        assert part in shown
    assert one.parameters == one.record.result["parameters"]["true"]


def test_a_metric_that_is_not_finite_is_no_number_of_a_card(results):
    """A perplexity beyond the largest float is stored as null."""
    one = next(one for one in results if one.experiment.score == "perplexity" and one.record.result is not None)
    metrics = {**one.record.result["metrics"], "test": {"loss": 800.0, "perplexity": None}}
    diverged = one._replace(record=replace(one.record, result={**one.record.result, "metrics": metrics}))
    assert "| score, test split | loss 800 |" in card(diverged)
    assert "| not finite |" in models_page([diverged], 1)


def test_cards_show_the_metric_of_the_preset(results):
    one = next(one for one in results if one.record.name == "copy-500-gru")
    metrics = {**one.record.result["metrics"], "test": {"loss": 0.25, "recall": 0.75}}
    trained = copy(one.trained)
    trained.preset = "wide-state"
    wide = one._replace(record=replace(one.record, result={**one.record.result, "metrics": metrics}), trained=trained)
    assert "score, test split | recall 0.75, loss 0.25" in card(wide)
    assert "| recall | 0 | 0.75 |" in models_page([wide], 1)


def test_commands_of_cards_are_understood(results):
    for one in results:
        for line in commands(one):
            words = shlex.split(line)
            assert words[:2] == ["python", "-m"]
            module = experiments.module(words[2].removeprefix("experiments."))
            held = getattr(module, "EXPERIMENT", None)
            assert held is None or words[3] in held.subcommands, line


def test_only_networks_with_recurrent_matrices_are_compressed(results):
    found = {one.label: any("compress" in line for line in commands(one)) for one in results if one.record.experiment == "copy_memory"}
    assert set(found.values()) == {True, False}
    assert all(compressed == ("uRNN" not in label) for label, compressed in found.items())


@pytest.mark.slow
def test_a_card_of_weights_that_are_gone_is_stale(tmp_path, assert_refused):
    kept = make_run(tmp_path / "experiments" / "results", test={"loss": 0.0009}, command="python -m experiments.example")
    main([], tmp_path)
    (kept / "README.md").write_text("a card")
    assert_refused(
        lambda words: main(words, tmp_path), ["--check"], "README.md is a card of weights that are not kept", code=1, printed=True
    )
