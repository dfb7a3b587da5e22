"""Configurations as JSON, both ways, and what is wrong with others."""

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import numpy as np
import pytest

import experiments
from lrpt.errors import UsageError
from lrpt.networks.sequence_model import ModelConfig
from lrpt.optim import OptimConfig
from lrpt.runs.classes import CLASSES, class_of
from lrpt.runs.configuration import defaults, flatten, from_json, to_json
from lrpt.tasks import Adding
from lrpt.training.config import RunConfig, TrainConfig

EXPERIMENTS = [module.EXPERIMENT for module in map(experiments.module, experiments.names()) if hasattr(module, "EXPERIMENT")]
KEPT = sorted((Path(__file__).parents[2] / "experiments" / "results").glob("*/*/config.json"))


@dataclass(frozen=True)
class Inner:
    path: Path | None = None
    pair: tuple[int, float] = (1, 2.0)
    numbers: tuple[int, ...] = ()


@dataclass(frozen=True)
class Outer:
    needed: int
    share: float = 0.5
    mode: Literal["a", "b"] = "a"
    on: bool = False
    inner: Inner = field(default_factory=lambda: Inner(numbers=(7,)))


def through_json(config):
    return json.loads(json.dumps(to_json(config)))


def run_config(content, model, data):
    kinds = {"model": model, "optim": OptimConfig, "train": TrainConfig, "data": data}
    return RunConfig(**{name: from_json(kind, content.get(name), name) for name, kind in kinds.items()})


def read(content, config):
    return run_config(content, type(config.model), type(config.data))


@pytest.mark.parametrize("config", [Outer(1), Outer(2, 1.0, "b", True, Inner(Path("a/b"), (3, 4.0), (5, 6)))])
def test_a_configuration_comes_back(config):
    assert from_json(Outer, through_json(config)) == config


@dataclass(frozen=True)
class Containers:
    numbers: list[int] = field(default_factory=list)
    weights: dict[str, float] = field(default_factory=dict)


def test_numbers_of_numpy_become_those_of_python():
    config = Outer(np.int64(1), np.float32(0.5), on=np.bool_(True), inner=Inner(numbers=(np.int32(7),)))
    assert from_json(Outer, through_json(config)) == Outer(1, 0.5, on=True, inner=Inner(numbers=(7,)))


def test_lists_and_dictionaries_come_back():
    config = Containers([3, 4], {"a": 0.5})
    assert from_json(Containers, through_json(config)) == config
    for content, message in (
        ({"numbers": 3}, r"x.numbers is 3: expected list\[int\]"),
        ({"weights": [1]}, r"x.weights is \[1\]: expected dict"),
    ):
        with pytest.raises(UsageError, match=message):
            from_json(Containers, content, "x")


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda experiment: experiment.name)
def test_every_preset_comes_back(experiment):
    for preset in experiment.presets.values():
        config = replace(preset.config, train=replace(preset.config.train, start=Path("a.npz")))
        assert read(through_json(config), config) == config


def test_what_is_missing_has_its_default():
    assert from_json(Outer, {"needed": 3, "inner": {"pair": [5, 6]}}) == Outer(3, inner=Inner(pair=(5, 6.0), numbers=(7,)))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({}, "x.needed is missing: Outer needs it"),
        ({"needed": 1, "more": 2}, "x.more is no setting of Outer: choose from needed, share"),
        ({"needed": 1, "inner": {"more": 2}}, "x.inner.more is no setting of Inner"),
        ({"needed": "1"}, "x.needed is '1': expected a whole number"),
        ({"needed": True}, "x.needed is True: expected a whole number"),
        ({"needed": 1, "share": "much"}, "x.share is 'much': expected a number"),
        ({"needed": 1, "share": True}, "x.share is True: expected a number"),
        ({"needed": 1, "mode": "c"}, "x.mode is 'c': expected 'a' or 'b'"),
        ({"needed": 1, "on": 1}, "x.on is 1: expected true or false"),
        ({"needed": 1, "inner": 4}, "x.inner is 4: expected an object"),
        ({"needed": 1, "inner": {"path": 4}}, "x.inner.path is 4: expected a path or null"),
        ({"needed": 1, "inner": {"pair": [1]}}, r"x.inner.pair is \[1\]: expected 2 values"),
        ({"needed": 1, "inner": {"numbers": ["a"]}}, "x.inner.numbers is 'a': expected a whole number"),
        ([1], r"x is \[1\]: expected an object"),
    ],
)
def test_what_is_wrong_is_one_line(content, message):
    with pytest.raises(UsageError, match=message):
        from_json(Outer, content, "x")


CONFIG = RunConfig(ModelConfig("lstm", 8, rank=2, embedding=3, state_dropout=0.5), OptimConfig("adam"), TrainConfig(), Adding(9))


@pytest.mark.parametrize("path", KEPT, ids=lambda path: f"{path.parts[-3]}/{path.parts[-2]}")
def test_kept_results_are_read(path):
    content = json.loads(path.read_text())
    config = run_config(content, **{group: class_of(name) for group, name in content[CLASSES].items()})
    recorded = flatten({name: part for name, part in content.items() if isinstance(part, dict) and name != CLASSES})
    found = flatten(to_json(config))
    assert recorded.items() <= found.items()
    assert {name: found[name] for name in found.keys() - recorded.keys()}.items() <= defaults(config).items()


def test_defaults_are_those_of_the_classes():
    assert {"model.matrices.rank": 24, "model.size": 128, "optim.decay": 1.0}.items() <= defaults(CONFIG).items()
    assert "optim.recipe" not in defaults(CONFIG)
