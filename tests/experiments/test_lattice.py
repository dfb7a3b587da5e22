"""The presets of the lattices: what they train, how large it is, and two updates of each model."""

import json
from dataclasses import replace

import numpy as np
import pytest

from experiments.lattice import BUDGETS, EXPERIMENT, MODELS, PTB_SYMBOLS, PYTHON_SYMBOLS, QUICK_BUDGET, VARIANTS
from lrpt.counting import count
from lrpt.data import ptb, text
from lrpt.training.command import main

ROWS = {name: preset.config for name, preset in EXPERIMENT.presets.items() if name != "quick"}
SMALL = "--model.size 6 --model.embedding 6 --data.steps 4 --train.batch-size 4 --train.evaluation-batch 8 --train.updates 2"


def parameters(model, size, symbols):
    return count(replace(model, size=size, embedding=size), symbols, symbols).true


def assert_closest(model, symbols, budget):
    off = [abs(parameters(model, model.size + by, symbols) - budget) for by in (-1, 0, 1)]
    assert min(off) == off[1]


def fake_ptb(dir):
    lines = ["the cat sat <unk>", "on a mat", "and slept till n o'clock"] * 15
    return {name: "".join(f"{line}\n" for line in lines) for name in ("train", "valid", "test")}


def test_there_is_a_row_for_each_model_and_budget():
    assert len(ROWS) == len(MODELS) * len(BUDGETS)
    assert {config.model.cell for config in ROWS.values()} == set(MODELS.values())


@pytest.mark.parametrize("name", ROWS)
def test_no_other_width_is_closer_to_the_budget(name):
    assert_closest(ROWS[name].model, PTB_SYMBOLS, BUDGETS["10m" if name == "paper" else name.rpartition("-")[2]])


@pytest.mark.parametrize("name", VARIANTS)
def test_variants_of_quick_are_of_one_size(name):
    assert_closest(replace(EXPERIMENT.presets["quick"].config.model, **VARIANTS[name]), PYTHON_SYMBOLS, QUICK_BUDGET)


@pytest.mark.parametrize("preset", ["paper", "grid-lstm-10m", "rhn-24m"])
def test_two_updates(preset, tmp_path, monkeypatch):
    monkeypatch.setattr(ptb, "load_ptb", fake_ptb)
    main(EXPERIMENT, ["--preset", preset, *SMALL.split(), "--workdir", str(tmp_path), "--data.source", "ptb_joined"])
    result = json.loads((tmp_path / "result.json").read_text())
    figures = result["metrics"]["test"]
    assert (result["updates"], result["config"]["data"]["source"]) == (2, "ptb_joined")
    assert np.isfinite(figures["loss"])
    assert figures["bits_per_character"] == pytest.approx(figures["loss"] / np.log(2))


def test_quick_compares_two_models(tmp_path, monkeypatch):
    monkeypatch.setattr(text, "python_documentation", lambda: fake_ptb(None)["train"] * 10)
    flags = "--data.steps 4 --train.batch-size 4 --train.evaluation-batch 8 --train.updates 2 --train.evaluate-every 2"
    main(EXPERIMENT, [*flags.split(), "--workdir", str(tmp_path)])
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert [result["config"]["model"]["cell"] for result in summary["results"]] == ["gru_cudnn", "lru"]
