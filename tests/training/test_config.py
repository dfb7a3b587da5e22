"""Which settings may differ between runs that share a compiled program."""

from pathlib import Path

import pytest
from tiny import CONFIG, changed


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
    assert changed(**groups).program == CONFIG.program


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
    assert changed(**groups).program != CONFIG.program
