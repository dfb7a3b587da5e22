"""Which settings may differ between runs that share a compiled program."""

import math
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest
from tiny import CONFIG, changed

from lrpt.errors import UsageError
from lrpt.networks.conditional import ConditionalConfig
from lrpt.networks.sequence_model import ModelConfig
from lrpt.training.config import TrainConfig, dense_width


@pytest.mark.parametrize(
    "groups",
    [
        {"optim": {"learning_rate": 0.5}},
        {"train": {"start": Path("start.npz")}},
        {"model": {"carry_bias": 3.0}},
        {"model": {"initialization": "uniform"}},
    ],
)
def test_what_a_program_gets_as_an_argument_may_differ(groups):
    assert changed(**groups) != CONFIG
    assert changed(**groups).compilation_key == CONFIG.compilation_key


@pytest.mark.parametrize(
    "groups",
    [
        {"optim": {"recipe": "adam"}},
        {"optim": {"decay": 0.5}},
        {"optim": {"weight_decay": 0.1}},
        {"optim": {"summed_steps": 2}},
        {"optim": {"halve_after": 2}},
        {"train": {"batch_size": 5}},
        {"train": {"fresh_every": 2}},
        {"train": {"evaluate_every": 5}},
        {"model": {"trainable_initial_state": False}},
        {"model": {"output_dropout": 0.1}},
        {"data": {"lag": 4}},
    ],
)
def test_what_is_compiled_into_a_program_may_not(groups):
    assert changed(**groups).compilation_key != CONFIG.compilation_key


@pytest.mark.parametrize("field", ["checkpoint_minutes", "stop_below"])
@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan, 0.0, -1.0])
def test_times_and_losses_are_finite_and_above_0(field, value):
    """JSON has no infinity: `config.json` would hold null."""
    with pytest.raises(UsageError, match=rf"train\.{field} is {value}: expected a finite number above 0"):
        changed(train={field: value})


@pytest.mark.parametrize("field", ["updates", "fresh_every", "evaluate_every"])
def test_counts_of_programs_fit_into_32_bits(field):
    assert getattr(changed(train={field: 2**31 - 1}).train, field) == 2**31 - 1
    with pytest.raises(UsageError, match=rf"train\.{field} is 2147483648: expected 2147483647 or less"):
        changed(train={field: 2**31})


@dataclass(frozen=True)
class Own:
    """A network of a user's, which has none of the fields of this library's."""


@pytest.mark.parametrize(
    ("model", "width"),
    [
        (ModelConfig(size=9, parametrization="dense"), 9),
        (ModelConfig(size=9, parametrization="low_rank"), 0),
        (ModelConfig(size=9, parametrization="adapter_plus_diagonal"), 9),
        (ConditionalConfig(9), 9),
        (Own(), 0),
        (SimpleNamespace(size=9), 9),
        (SimpleNamespace(size=(9, 9), matrices="own"), 0),
    ],
)
def test_width_of_dense_recurrent_matrices(model, width):
    assert dense_width(model) == width


def test_defaults_of_programs():
    """Presets set what their papers have; programs that say nothing get these."""
    model, train = ModelConfig(), TrainConfig()
    assert (model.initial.carry_bias, model.initial.scale, model.matrices.rank, model.inputs.rank) == (1.0, 0.04, 24, 1)
    assert (train.updates, train.batch_size, train.evaluate_every, train.evaluation_rows) == (10_000, 20, 500, 500)


def test_texts_are_evaluated_in_as_many_streams_as_training_reads():
    """More streams would begin in the initial state more often: with 500, a text of 90 kB loses 0.03 nats."""
    assert TrainConfig(batch_size=7, order="stream").evaluation_rows == 7
    assert TrainConfig(batch_size=7, order="stream", evaluation_batch=3).evaluation_rows == 3
    assert TrainConfig(batch_size=7, evaluation_batch=3).evaluation_rows == 3
