"""Settings without effect: what configurations call unused changes nothing, and the command line warns of it."""

from dataclasses import fields, replace
from functools import cache

import jax
import jax.numpy as jnp
import pytest
from table import SIZES, every_cell
from tiny import changed as tiny
from tiny import flags

from experiments import char_lm, copy_memory, variable_computation
from lrpt.cells import CELLS
from lrpt.cli.command import main, planned
from lrpt.cli.flags import combinations
from lrpt.cli.unused import warnings
from lrpt.networks.conditional import ConditionalConfig
from lrpt.networks.configuration import TiedStorageConfig
from lrpt.networks.highway_classifier import HighwayConfig, HighwayDropoutConfig
from lrpt.networks.sequence_model import ModelConfig
from lrpt.networks.variable_computation import VariableConfig
from lrpt.optim import OptimConfig
from lrpt.parametrizations import ALL_FORMS, FORMS
from lrpt.parametrizations.initialization import INITIALIZATIONS
from lrpt.settings import unused_settings
from lrpt.tasks import Chorales, NextBit, NextByte, NextNote, NextSymbol, NextWord, PermutedImages
from lrpt.training.config import TrainConfig

SMALL = {"size": 8, "parametrization": "dense", **SIZES, "rank": 2}
OTHERS = {"matrices.rank": 1, "matrices.blocks": 4, "matrices.density": 0.25, "matrices.tied": True}
"""Setting -> another value that every parametrization takes."""


def changed(config, name, value):
    group, _, field = name.partition(".")
    return replace(config, **{group: replace(getattr(config, group), **{field: value})})


@cache
def computed(config):
    """Return the outputs of a small network, and its parameters."""
    model = config.build(8, 3, "all")
    inputs = jnp.linspace(-1, 1, 2 * 5 * 8).reshape(2, 5, 8)
    return jax.tree.leaves(model.init_with_output(jax.random.key(0), inputs))


def alike(one, other):
    return len(one) == len(other) and all(a.shape == b.shape and bool(jnp.array_equal(a, b)) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("kind", FORMS)
def test_matrices_ignore_the_settings_that_they_call_unused_and_no_others(kind):
    config = ModelConfig("elman", **{**SMALL, "parametrization": kind})
    unused = unused_settings(config)
    two = ModelConfig("gru", **{**SMALL, "parametrization": kind})  # an Elman network has one matrix, which shares nothing
    for name, value in OTHERS.items():
        base = two if name == "matrices.tied" else config
        assert alike(computed(base), computed(changed(base, name, value))) == (name in unused), name


@every_cell
def test_cells_ignore_the_settings_that_they_call_unused_and_no_others(cell):
    config = ModelConfig(cell, **SMALL)
    unused = unused_settings(config)
    for name, value in {"matrices.kind": "low_rank", "inputs.kind": "low_rank", "initial.carry_bias": 2.5}.items():
        assert alike(computed(config), computed(changed(config, name, value))) == (name in unused), name


@pytest.mark.parametrize("kind", INITIALIZATIONS)
def test_initializations_ignore_the_scale_that_they_call_unused(kind):
    config = ModelConfig("gru", **SMALL, initialization=kind)
    assert alike(computed(config), computed(replace(config, initial_scale=0.3))) == ("initial.scale" in unused_settings(config))


@every_cell
def test_only_cells_with_a_scheduler_use_its_settings(cell):
    unused = {name for name in unused_settings(VariableConfig(cell)) if name.startswith(("schedule.", "mask."))}
    every = {f"{group}.{field.name}" for group in ("schedule", "mask") for field in fields(getattr(VariableConfig(), group))}
    assert unused == ({"schedule.guided_target"} if CELLS[cell].schedule else every)


def test_settings_that_need_another_one():
    assert unused_settings(OptimConfig("adam")).keys() == {"weight_decay_form", "decay_after", "halvings", "return_to_best"}
    assert not unused_settings(OptimConfig("adam", weight_decay=1e-3, decay=0.5, halve_after=1))
    assert unused_settings(TrainConfig(order="epochs")).keys() == {"fresh_every"}
    assert not unused_settings(TrainConfig(order="stream"))
    no_penalty = unused_settings(VariableConfig("vcrnn", penalty_weight=0.0))
    assert no_penalty["schedule.target"] == "model.schedule.penalty_weight is 0"
    assert {"mask.growth", "mask.smooth"} <= unused_settings(VariableConfig("vcrnn", sharpness=1.0, sharpness_end=1.0)).keys()
    assert "shared_layers" in unused_settings(ModelConfig())
    assert "shared_layers" not in unused_settings(ModelConfig(layers=2))
    assert "dropout.gate_masks" not in unused_settings(ModelConfig(state_dropout=0.1))
    assert "loop.materialize" in unused_settings(ModelConfig(parametrization="dense"))
    assert "loop.materialize" not in unused_settings(ModelConfig(parametrization="dense", input_parametrization="low_rank"))
    assert "loop.materialize" not in unused_settings(ModelConfig("unitary_without_fourier", parametrization="dense"))
    kernel = unused_settings(ModelConfig(parametrization="low_rank", input_parametrization="low_rank", recurrence="kernel"))
    assert {"loop.chunk", "loop.store", "loop.pack", "loop.unroll", "loop.materialize"} <= kernel.keys()
    assert {"loop.chunk", "loop.store"} <= unused_settings(ModelConfig(recurrence="plain")).keys()


def test_settings_of_highway_networks_that_need_another_one():
    assert not unused_settings(HighwayConfig()).keys() & {"penalty_form", "dropout.shared_masks", "dropout.projections"}
    assert "penalty_form" in unused_settings(HighwayConfig(readout_penalty=0.0))
    assert "dropout.projections" in unused_settings(HighwayConfig(matrices=TiedStorageConfig("dense")))
    for kind in ALL_FORMS:
        unused = "dropout.projections" in unused_settings(HighwayConfig(matrices=TiedStorageConfig(kind)))
        assert unused == (not kind.startswith(("low_rank", "adapter"))), kind
    none = HighwayDropoutConfig(states=0.0, projections=0.0)
    assert "dropout.shared_masks" in unused_settings(HighwayConfig(dropout=none))


@pytest.mark.parametrize("config", [HighwayConfig(), ConditionalConfig(), VariableConfig("vcrnn"), ModelConfig("unitary")])
def test_unused_settings_are_settings(config):
    for name in unused_settings(config):
        owner = config
        for part in name.split("."):
            assert hasattr(owner, part), name
            owner = getattr(owner, part)


PYTHON = NextSymbol(reading="stream")
DATA = [
    (PYTHON, {"max_length": 7, "blanks": "kept", "line_ends": "kept", "encoding": "bytes"}, {"steps": 9, "cuts": "exact"}),
    (NextNote(), {}, {"tunes": 50}),
    (NextByte(), {}, {"steps": 9}),
    (NextBit(), {}, {"buffer": 8}),
    (NextWord(), {}, {"min_count": 9}),
    (Chorales(), {"format": "mat", "longest": 9}, {"length": 9}),
    (PermutedImages(), {}, {"permuted": False}),
]


@pytest.mark.parametrize(("config", "unused", "used"), DATA, ids=lambda value: type(value).__name__)
def test_data_ignore_the_settings_that_they_call_unused(config, unused, used, tmp_path, monkeypatch):
    lines = [f"{'a few words, ' * 40}and number {line % 200}\n" for line in range(997)]  # long: 90 % is in one
    monkeypatch.setattr("lrpt.tasks.text.python_documentation", lambda: "".join(lines))
    assert unused_settings(config).keys() == {"dir", *unused}
    for name, value in {"dir": tmp_path, **unused}.items():
        assert _examples(config) == _examples(replace(config, **{name: value})), name
    for name, value in used.items():
        assert _examples(config) != _examples(replace(config, **{name: value})), name


def _examples(config):
    """Return sizes, the hash of the data, and the first example."""
    task = config.build(0)
    train = task.splits["train"]
    first = jax.tree.map(lambda leaf: jnp.asarray(leaf).tolist(), train.example(train.arrays, 0))
    return train.size, task.metadata.get("sha256"), first


def test_a_file_replaces_a_source(tmp_path):
    file = tmp_path / "text.txt"
    assert unused_settings(NextSymbol(file=file)) == dict.fromkeys(("source", "dir", "blanks"), "data.file is given") | {
        "steps": "data.reading is sentences"
    }
    assert "source" not in unused_settings(NextSymbol("enwik8", file=file))
    assert unused_settings(NextBit("enwik8", file=file)).keys() >= {"source", "dir"}
    file.write_bytes(b"the cat sat\r\non the mat\r\n" * 99)
    as_bytes = NextSymbol(file=file, encoding="bytes", reading="stream")
    assert "line_ends" not in unused_settings(as_bytes)
    assert _examples(as_bytes) != _examples(replace(as_bytes, line_ends="kept"))
    assert unused_settings(NextNote(file=file)).keys() == {"source", "dir", "tunes"}
    assert unused_settings(Chorales(file=file)).keys() == {"source", "dir", "format", "length"}
    assert not unused_settings(NextWord("python", file=file)).keys() & {"min_count"}


def warned(experiment, *words):
    commands = combinations(experiment, words)
    preset = experiment.presets[next(iter(commands.values())).preset].config
    jobs = planned(experiment, commands)
    return list(warnings(preset, [command.config for command in commands.values()], [job.config for job in jobs]))


def test_flags_without_effect_are_named_and_no_others():
    dense = ("--no-compare", "--model.matrices.kind", "dense")
    copying = copy_memory.EXPERIMENT
    assert warned(copying, *dense) == []
    assert warned(copying, *dense, "--model.rank", "8") == ["model.matrices.rank is 8, which has no effect: model.matrices.kind is dense"]
    assert warned(copying, "--no-compare", "--model.matrices.kind", "low_rank", "--model.rank", "8") == []
    assert warned(copying, "--vary", "model.parametrization=dense,low_rank", "--model.rank", "8") == []
    assert warned(variable_computation.EXPERIMENT, "--no-compare", "--model.cell", "gru", "--model.target", "0.45") == [
        "model.schedule.target is 0.45, which has no effect: model.cell is gru, which has no scheduler"
    ]
    assert warned(char_lm.EXPERIMENT, "--data.dir", "/here") == ["data.dir is /here, which has no effect: data.source is python"]


def test_variations_that_would_be_one_run_are_trained_once(tmp_path, capsys):
    grid = ["--no-compare", "--vary", "model.parametrization=dense,low_rank", "model.rank=2,4"]
    main(copy_memory.EXPERIMENT, [*flags(tiny(train={"updates": 1})), *grid, "--workdir", str(tmp_path)])
    names = [f"quick-parametrization{name}-seed0" for name in ("dense-rank2", "low_rank-rank2", "low_rank-rank4")]
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_dir() and (path / "result.json").exists()) == names
    said = capsys.readouterr().err
    assert "quick-parametrizationdense-rank4-seed0 would repeat quick-parametrizationdense-rank2-seed0, and is not trained" in said
    assert "no effect" not in said  # low rank has a rank


def test_no_preset_warns():
    for experiment in (copy_memory.EXPERIMENT, char_lm.EXPERIMENT, variable_computation.EXPERIMENT):
        for preset in experiment.presets:
            assert warned(experiment, "--preset", preset, "--huge") == []


def test_a_run_says_it_before_training(tmp_path, capsys):
    main(
        copy_memory.EXPERIMENT,
        ["--no-compare", "--model.matrices.kind", "dense", "--model.rank", "8", "--train.updates", "1", "--workdir", str(tmp_path / "run")],
    )
    assert "lrpt: warning: model.matrices.rank is 8, which has no effect: model.matrices.kind is dense" in capsys.readouterr().err
