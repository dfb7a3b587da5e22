"""Every preset of every experiment for two updates, large ones once for all that differ in size alone."""

import json
from dataclasses import replace

import numpy as np
import pytest

from experiments import adding, char_lm, conditional, copy_memory, highway_mnist, jsb, permuted_mnist, wiki, word_lm
from lrpt.data import bytes as bytes_
from lrpt.data import images, ptb, text, wikipedia
from lrpt.data import jsb as jsb_files
from lrpt.training.command import main

EXPERIMENTS = [module.EXPERIMENT for module in (adding, char_lm, conditional, copy_memory, highway_mnist, permuted_mnist)]
LARGE = [module.EXPERIMENT for module in (jsb, wiki, word_lm)]
OF_ANOTHER_TEXT = {("conditional", "paper"), ("conditional", "bits")}
"""They differ from quick ones in nothing else."""
PRESETS = [(e, preset) for e in EXPERIMENTS for preset in e.presets if (e.name, preset) not in OF_ANOTHER_TEXT]

SMALL = "--no-compare --model.size 6 --model.depth 2 --train.batch-size 4 --train.evaluation-batch 8 --train.updates 2"
OF_TEXTS = f"{SMALL} --model.embedding 6 --data.steps 4"
SHRUNK = {"jsb": SMALL, "wiki": OF_TEXTS, "word_lm": OF_TEXTS}


def different():
    """The first of each lot of large presets that differ in size alone."""
    found = {}
    for experiment in LARGE:
        for name, preset in experiment.presets.items():
            config = preset.config
            model = replace(config.model, size=6, depth=2, embedding=config.model.embedding and 6, carry_bias=0.0)
            found.setdefault((experiment.name, model, config.optim.weight_decay_form, config.data), (experiment, name))
    return list(found.values())


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
    if experiment.name == "conditional":
        few = ["--model.size", "8", "--model.slow-size", "6", "--data.steps", "20"]
        few += ["--train.batch-size", "4", "--train.evaluation-batch", "4"]
    main(experiment, ["--preset", preset, "--no-compare", "--train.updates", "2", "--workdir", str(tmp_path / "run"), *few])
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert (result["experiment"], result["preset"], result["updates"], result["stopped"]) == (experiment.name, preset, 2, "updates")
    assert np.isfinite(result["metrics"]["test"]["loss"])
    assert (tmp_path / "run" / "figures" / "learning_curves.png").exists()


def fake_wikipedia(name, dir):
    return dict.fromkeys(("train", "valid", "test"), b"the cat sat on a mat " * 20)


def fake_jsb(format, dir):
    pieces = [np.eye(88, dtype=np.uint8)[40 : 43 + i % 3] for i in range(8)]
    return {"train": pieces, "valid": pieces[:3], "test": pieces[:4]}


@pytest.mark.parametrize(("experiment", "preset"), different(), ids=lambda value: getattr(value, "name", value))
def test_two_updates_of_what_is_large(experiment, preset, tmp_path, monkeypatch):
    monkeypatch.setattr(ptb, "load_ptb", fake_ptb)
    monkeypatch.setattr(wikipedia, "load_wikipedia", fake_wikipedia)
    monkeypatch.setattr(jsb_files, "load_jsb", fake_jsb)
    if preset == "quick" and experiment.name != "jsb":
        monkeypatch.setattr(text, "python_documentation", lambda: fake_ptb(None)["train"] * 10)
        monkeypatch.setattr(bytes_, "python_documentation", lambda: fake_ptb(None)["train"] * 10)
    main(experiment, ["--preset", preset, *SHRUNK[experiment.name].split(), "--workdir", str(tmp_path)])
    result = json.loads((tmp_path / "result.json").read_text())
    assert (result["updates"], result["stopped"]) == (2, "updates")
    assert np.isfinite(result["metrics"]["test"]["loss"])


def test_every_experiment_has_the_two_presets_that_all_have():
    assert all({"quick", "paper"} <= experiment.presets.keys() for experiment in [*EXPERIMENTS, *LARGE])
