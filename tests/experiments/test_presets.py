"""Presets of every experiment: they are networks at their own size, and train for two updates at a small one."""

import json

import numpy as np
import pytest

import experiments
from lrpt.cells import CELLS
from lrpt.cli.command import main

EXPERIMENTS = [module.EXPERIMENT for module in map(experiments.module, experiments.names()) if hasattr(module, "EXPERIMENT")]

SMALL = "--no-compare --train.batch-size 4 --train.evaluation-batch 8 --train.updates 2"
FEW_EXAMPLES = f"{SMALL} --data.test-size 8"
OF_TEXTS = f"{SMALL} --data.steps 4"
SHRUNK = dict.fromkeys(("adding", "copy_memory"), FEW_EXAMPLES) | dict.fromkeys(
    ("bit_lm", "char_lm", "conditional", "europarl", "lattice", "music", "variable_computation", "wiki", "word_lm"), OF_TEXTS
)


def setting(model, name):
    """The value of a setting by its short name; None where the model has no such setting."""
    for field in model.short_names.get(name, name).split("."):
        model = getattr(model, field, None)
    return model


def small(model):
    """The settings that make a network small."""
    settings = {name: 6 for name in ("size", "slow_size", "embedding") if setting(model, name)}
    if hasattr(model, "depth"):
        settings["depth"] = 1 + (CELLS[model.cell].deep if hasattr(model, "cell") else True)
    return {**settings, "rank": 2}


def aspects(experiment, config):
    """What decides which code a configuration runs, as (name, value); tasks and cells also by experiment."""
    names = ("parametrization", "tied", "weight_norm", "tie_embedding", "gate_masks")
    found = {(name, setting(config.model, name)) for name in names}
    found |= {("drops", getattr(getattr(config.model, "dropout", None), "drops", None)), ("recipe", config.optim.recipe)}
    found |= {(experiment.name, "cell", setting(config.model, "cell"), type(config.model)), (experiment.name, "data", type(config.data))}
    return found | {(type(config.data), name, getattr(config.data, name, None)) for name in ("reading", "variant", "words")}


def different():
    """Presets in which every aspect of every preset occurs."""
    found, seen = [], set()
    for experiment in EXPERIMENTS:
        for name, preset in experiment.presets.items():
            own = aspects(experiment, preset.config)
            if own - seen:
                found.append((experiment, name))
            seen |= own
    return found


@pytest.mark.slow
@pytest.mark.parametrize(("experiment", "preset"), different(), ids=lambda value: getattr(value, "name", value))
def test_two_updates(experiment, preset, tmp_path, little_data):
    sizes = [f"--model.{name}={value}" for name, value in small(experiment.presets[preset].config.model).items()]
    flags = [*SHRUNK.get(experiment.name, SMALL).split(), *sizes]
    main(experiment, ["--preset", preset, *flags, "--workdir", str(tmp_path / "run")])
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert (result["experiment"], result["preset"], result["updates"], result["stopped"]) == (experiment.name, preset, 2, "updates")
    assert np.isfinite(result["metrics"]["test"]["loss"])
    assert (tmp_path / "run" / "figures" / "learning_curves.png").exists()


@pytest.mark.slow
@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda experiment: experiment.name)
def test_presets_are_networks_at_their_own_size(experiment):
    models = [preset.config.model for preset in experiment.presets.values()]
    for model in {(type(model), setting(model, "cell"), setting(model, "layers")): model for model in models}.values():
        of_two_levels = hasattr(model, "slow_size")
        assert model.parameter_shapes(100 if of_two_levels else 50, 50)


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda experiment: experiment.name)
def test_every_experiment_has_the_two_presets_that_all_have(experiment):
    of_a_paper = {"paper"} if experiment.name != "sequences" else set()  # data of the user
    assert {"quick"} | of_a_paper <= experiment.presets.keys()
