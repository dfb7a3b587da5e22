"""Tasks of users whose description is no JSON, networks that look at data when they are initialized, and defaults that have changed."""

import json
from dataclasses import dataclass, replace

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tiny import CONFIG, write_stream

import lrpt
from lrpt.errors import UsageError
from lrpt.networks.protocol import NetworkDefaults
from lrpt.optim import OptimConfig
from lrpt.runs.classes import class_of
from lrpt.runs.configuration import to_json
from lrpt.runs.same_run import differences
from lrpt.scaling import Moments, Scaling
from lrpt.tasks import Adding, NextSymbol
from lrpt.training.config import RunConfig, TrainConfig
from lrpt.training.interface import Interface
from lrpt.training.loop import fit
from lrpt.training.step import init_state


class Odd:
    """A vocabulary of which nothing is known."""


@dataclass(frozen=True)
class Own(Adding):
    vocabulary: bool = False

    def build(self, seed):
        task = super().build(seed)
        scaling = Scaling(Moments(*np.ones((2, 2), np.float32)))
        given = {"vocabulary": Odd()} if self.vocabulary else {"scaling": scaling}
        return replace(task, **given)


@pytest.mark.slow
@pytest.mark.parametrize("vocabulary", [False, True])
def test_a_task_that_is_hard_to_describe_is_trained(vocabulary, tmp_path):
    data = Own(4, 8, 4, vocabulary=vocabulary)
    config = RunConfig(lrpt.ModelConfig(size=3, rank=1), OptimConfig("adam"), TrainConfig(updates=2, batch_size=2), data)
    fit(config, {0: tmp_path / "run"}, devices=1)
    assert (tmp_path / "run" / "task.json").exists() == (not vocabulary)
    assert lrpt.load(tmp_path / "run", data=Own).interface.input_size == 2


def test_numbers_of_numpy_are_described():
    task = replace(Own(4, 8, 4).build(0), input_size=np.int64(2))
    recorded = json.loads(json.dumps(Interface.of(task).to_json()))
    assert (recorded["input_size"], recorded["scaling"]["inputs"]["mean"]) == (2, [1.0, 1.0])


class Normalized(nn.Module):
    """Its initial scale depends on the data, as that of ActNorm."""

    @nn.compact
    def __call__(self, inputs, mask=None):
        scale = self.param("scale", lambda _: 1 / jnp.abs(inputs).max())
        return (scale * inputs).sum(axis=-1)


def test_networks_see_an_example_when_they_are_initialized():
    task = Adding(4, 8, 4).build(0)
    state = init_state(Normalized(), task, OptimConfig("adam").build(), 0)
    first = task.splits["train"].batch(task.splits["train"].arrays, [0]).inputs[:, :1]
    np.testing.assert_allclose(state.params["scale"], 1 / jnp.abs(first).max())


def test_the_default_number_of_streams_is_the_batch(tmp_path):
    stream = CONFIG.train.__class__(order="stream", batch_size=8)
    of = {number: {"train": to_json(replace(stream, evaluation_batch=number))} for number in (None, 8, 500)}
    assert differences(of[8], of[None], {}) == differences(of[None], of[8], {}) == []
    assert differences(of[500], of[None], {}) == [("train.evaluation_batch", 500, 8)]


def test_classes_of_the_program_are_those_of_the_program(monkeypatch):
    """It is not imported a second time under its own name."""
    program = type(jax)("__main__")
    program.__dict__.update(__file__="no_such_program.py", Odd=Odd, __spec__=None)
    monkeypatch.setitem(__import__("sys").modules, "__main__", program)
    assert class_of("no_such_program:Odd") is Odd
    with pytest.raises(UsageError, match="class no_such_program:Other cannot be imported"):
        class_of("no_such_program:Other")


class Windowed(nn.Module):
    """A network of streams whose state is the window before."""

    @nn.compact
    def advance(self, inputs, mask=None, start=None, train=False):
        table = self.param("table", nn.initializers.normal(), (16, 16))
        return table[inputs], inputs

    def __call__(self, inputs, mask=None):
        return self.advance(inputs, mask)[0]


@dataclass(frozen=True)
class WindowedConfig(NetworkDefaults):
    label = "windowed"

    @property
    def without_initialization(self):
        return self

    def build(self, input_size, output_size, reads, axis_name=None):
        return Windowed()

    def parameter_shapes(self, input_size, output_size):
        return {"table": jax.ShapeDtypeStruct((16, 16), "float32")}


@pytest.mark.slow
def test_a_state_as_long_as_a_window_is_loaded_with_the_shapes_of_the_task(tmp_path):
    data = NextSymbol(file=write_stream(tmp_path / "text"), reading="stream", steps=4)
    train = TrainConfig(updates=2, batch_size=2, order="stream", evaluate_every=2)
    fit(RunConfig(WindowedConfig(), OptimConfig("adam"), train, data), {0: tmp_path / "run"}, devices=1)
    assert lrpt.load(tmp_path / "run", model=WindowedConfig).update == 2
