"""Every preset of every experiment: it is a network at its own size, and trains for two updates at a small one."""

import json

import numpy as np
import pytest

from experiments import adding, char_lm, conditional, copy_memory, highway_mnist, permuted_mnist, wiki, word_lm
from experiments.jsb import command as jsb
from experiments.lattice import command as lattice
from lrpt.cells import CELLS
from lrpt.cli.command import main
from lrpt.symbols import CodedSize

MODULES = (adding, char_lm, conditional, copy_memory, highway_mnist, jsb, lattice, permuted_mnist, wiki, word_lm)
EXPERIMENTS = [module.EXPERIMENT for module in MODULES]

SMALL = "--no-compare --train.batch-size 4 --train.evaluation-batch 8 --train.updates 2"
FEW_EXAMPLES = f"{SMALL} --data.test-size 8"
OF_TEXTS = f"{SMALL} --data.steps 4"
SHRUNK = dict.fromkeys(("adding", "copy_memory"), FEW_EXAMPLES) | dict.fromkeys(
    ("char_lm", "conditional", "lattice", "wiki", "word_lm"), OF_TEXTS
)


def small(model):
    """The settings that make a network small."""
    settings = {name: 6 for name in ("size", "slow_size", "embedding") if getattr(model, name, None)}
    if hasattr(model, "depth"):
        settings["depth"] = 1 + (CELLS[model.cell].deep if hasattr(model, "cell") else True)
    return {**settings, "rank": 2}


def kind(config):
    """What decides which code a configuration runs."""
    names = ("cell", "parametrization", "tied", "weight_norm", "tie_embedding", "drops", "gate_masks")
    model = [getattr(config.model, name, None) for name in names]
    data = [getattr(config.data, name, None) for name in ("reading", "variant", "words")]
    return type(config.data), *model, bool(getattr(config.model, "embedding", None)), config.optim.recipe, *data


def different():
    """The first of each lot of presets that differ in sizes, step sizes and sources of data alone."""
    found = {}
    for experiment in EXPERIMENTS:
        for name, preset in experiment.presets.items():
            found.setdefault((experiment.name, kind(preset.config)), (experiment, name))
    return list(found.values())


@pytest.mark.parametrize(("experiment", "preset"), different(), ids=lambda value: getattr(value, "name", value))
def test_two_updates(experiment, preset, tmp_path, little_data):
    sizes = [f"--model.{name}={value}" for name, value in small(experiment.presets[preset].config.model).items()]
    flags = [*SHRUNK.get(experiment.name, SMALL).split(), *sizes]
    main(experiment, ["--preset", preset, *flags, "--workdir", str(tmp_path / "run")])
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert (result["experiment"], result["preset"], result["updates"], result["stopped"]) == (experiment.name, preset, 2, "updates")
    assert np.isfinite(result["metrics"]["test"]["loss"])
    assert (tmp_path / "run" / "figures" / "learning_curves.png").exists()


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda experiment: experiment.name)
def test_every_preset_is_a_network(experiment):
    for preset in experiment.presets.values():
        of_two_levels = hasattr(preset.config.model, "slow_size")
        assert preset.config.model.parameter_shapes(CodedSize(50, 1) if of_two_levels else 50, 50)


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda experiment: experiment.name)
def test_every_experiment_has_the_two_presets_that_all_have(experiment):
    assert {"quick", "paper"} <= experiment.presets.keys()
