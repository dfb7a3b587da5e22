"""The presets of the lattices: what they train, how large it is, and two updates of each model."""

import json
from dataclasses import replace

import numpy as np
import pytest

from experiments.lattice.command import (
    BUDGETS,
    EXPERIMENT,
    PYTHON_SYMBOLS,
    QUICK_BUDGET,
    ROWS,
    SMALL_BUDGETS,
    SMALL_EPOCH,
    VARIANTS,
    row_name,
)
from experiments.lattice.models import MODELS, PTB, PUBLISHED, TEXTS, name_of, sized
from lrpt.cli.command import main
from lrpt.networks.counting import count

PRESETS = {name: preset.config for name, preset in EXPERIMENT.presets.items()}
SMALL = "--model.size 6 --model.embedding 6 --data.steps 4 --train.batch-size 4 --train.evaluation-batch 8 --train.updates 2"


def parameters(model, size, symbols):
    return count(replace(model, size=size, embedding=size), symbols, symbols).true


def test_there_is_a_row_for_each_model_budget_and_text():
    """56 rows of Table 1, RHNs of two layers and tied grid LSTMs on the treebank, and seven models with four layers."""
    table = {row_name(name, budget, text) for name in PUBLISHED for budget in BUDGETS for text in TEXTS}
    assert len(table) == 56
    assert table <= ROWS.keys()
    assert len(ROWS) == 56 + 2 * 2 + 7 * 2
    assert {PRESETS[name].model.cell for name in table} == {model.cell for model in PUBLISHED.values()}
    assert len(PRESETS) == 1 + len(ROWS) + len(MODELS) * len(SMALL_BUDGETS)


@pytest.mark.parametrize("layers", [2, 4])
@pytest.mark.parametrize("name", MODELS)
def test_a_network_tells_its_name(name, layers):
    assert name_of(sized(name, 50_000, 51, layers)) == name


def test_a_tied_grid_lstm_is_wider_and_of_the_same_size():
    tied, untied = (PRESETS[f"{name}-1m"].model for name in ("grid-lstm-tied", "grid-lstm"))
    assert (tied.shared_layers, untied.shared_layers, tied.size > untied.size) == (True, False, True)
    assert abs(parameters(tied, tied.size, PTB.symbols) - 1_000_000) < 20_000


@pytest.mark.parametrize("name", MODELS)
def test_small_models_are_of_one_size(name):
    """To the unit they are so in the original code, which has more biases."""
    model = PRESETS[f"{name}-300k"].model
    assert abs(parameters(model, model.size, PTB.symbols) - SMALL_BUDGETS["300k"]) < 0.015 * SMALL_BUDGETS["300k"]


@pytest.mark.parametrize("name", VARIANTS)
def test_variants_of_quick_are_of_one_size(name):
    model = replace(PRESETS["quick"].model, **VARIANTS[name])
    assert abs(parameters(model, model.size, PYTHON_SYMBOLS) - QUICK_BUDGET) < 0.02 * QUICK_BUDGET


FILES = {"warpeace": "warpeace/warpeace_input.txt"}


@pytest.mark.parametrize(("preset", "epoch"), [("paper", 428), ("lru-300k", SMALL_EPOCH), ("lru-10m-warpeace", 234)])
def test_an_epoch_is_one_reading_of_the_training_part(preset, epoch, data_dir):
    config = PRESETS[preset]
    places = {"dir": data_dir} | ({"file": data_dir / FILES["warpeace"]} if config.data.file else {})
    task = replace(config.data, **places).build(0)
    assert task.splits["train"].size // config.train.batch_size == config.train.evaluate_every == epoch
    if config.data.text_share is None:
        assert task.input_size == (TEXTS["warpeace"] if config.data.file else PTB).symbols


def test_epochs_of_bytes():
    assert {TEXTS[text].epoch for text in ("enwik8", "text8")} == {90_000_000 // 50 // 250}


def test_a_book_that_is_missing_is_asked_for(assert_refused, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert_refused(lambda words: main(EXPERIMENT, words), ["--preset", "gru-10m-warpeace"], "data.file is warpeace_input.txt, which cannot")


@pytest.mark.slow
@pytest.mark.parametrize("preset", ["paper", "grid-lstm-10m"])
def test_two_updates(preset, tmp_path, little_data):
    main(EXPERIMENT, ["--preset", preset, *SMALL.split(), "--workdir", str(tmp_path), "--data.source", "ptb_joined"])
    result = json.loads((tmp_path / "result.json").read_text())
    figures = result["metrics"]["test"]
    assert (result["updates"], result["config"]["data"]["source"]) == (2, "ptb_joined")
    assert np.isfinite(figures["loss"])
    assert figures["bits_per_character"] == pytest.approx(figures["loss"] / np.log(2))


@pytest.mark.slow
def test_quick_compares_two_models(tmp_path, little_data):
    flags = "--data.steps 4 --train.batch-size 4 --train.evaluation-batch 8 --train.updates 2 --train.evaluate-every 2"
    main(EXPERIMENT, [*flags.split(), "--workdir", str(tmp_path)])
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert [result["config"]["model"]["cell"] for result in summary["results"]] == ["gru_cudnn", "lru"]
