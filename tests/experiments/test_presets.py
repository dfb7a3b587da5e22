"""Every preset of every experiment for two updates, at its own size but for the larger language models."""

import json

import numpy as np
import pytest

from experiments import adding, char_lm, copy_memory, highway_mnist, permuted_mnist
from lrpt.data import images, ptb
from lrpt.training.command import main

EXPERIMENTS = [module.EXPERIMENT for module in (adding, char_lm, copy_memory, highway_mnist, permuted_mnist)]
PRESETS = [(experiment, preset) for experiment in EXPERIMENTS for preset in experiment.presets]


def fake_mnist(dir):
    rng = np.random.default_rng(0)
    return {name: (rng.integers(0, 256, (40, 784), np.uint8), rng.integers(0, 10, 40)) for name in ("train", "valid", "test")}


def fake_ptb(dir):
    lines = ["the cat sat <unk>", "on a mat", "and slept till n o'clock"] * 15
    return {name: "".join(f"{line}\n" for line in lines) for name in ("train", "valid", "test")}


@pytest.mark.parametrize(("experiment", "preset"), PRESETS, ids=[f"{e.name}-{p}" for e, p in PRESETS])
def test_two_updates(experiment, preset, tmp_path, monkeypatch):
    monkeypatch.setitem(images.SOURCES, "mnist", (fake_mnist, 1 / 256))
    monkeypatch.setattr(ptb, "load_ptb", fake_ptb)
    few = ["--data.test-size", "20"] if experiment.name in ("adding", "copy_memory") else []
    if experiment.name == "char_lm" and preset not in ("quick", "paper"):
        few = ["--model.size", "48", "--model.rank", "8"]
    main(experiment, ["--preset", preset, "--no-compare", "--train.updates", "2", "--workdir", str(tmp_path / "run"), *few])
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert (result["experiment"], result["preset"], result["updates"], result["stopped"]) == (experiment.name, preset, 2, "updates")
    assert np.isfinite(result["metrics"]["test"]["loss"])
    assert (tmp_path / "run" / "figures" / "learning_curves.png").exists()


def test_every_experiment_has_the_two_presets_that_all_have():
    assert all({"quick", "paper"} <= experiment.presets.keys() for experiment in EXPERIMENTS)
