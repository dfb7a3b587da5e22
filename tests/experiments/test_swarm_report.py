"""The swarm's section of REPRODUCTION.md."""

import json

import pytest

from experiments.report.swarm import KEPT, section
from lrpt.errors import UsageError


def dot(cell, depth, loss):
    return {"cell": cell, "depth": depth, "size": 7, "parameters": 1_234, "lowest_train_loss": loss, "updates": 70, "seconds": 30.0}


OPTIONS = {"cells": ["rhn", "dt_rnn"], "depths": [1, 2], "settings": 3, "evaluate_every": 35}
RANGES = {"learning_rate": [0.01, 1.0], "spread": [1e-4, 0.1], "carry_bias": [0.0, 1.0]}
SUMMARY = {
    "dots": [dot("dt_rnn", 2, 9.0), dot("rhn", 1, 3.0), dot("rhn", 1, 1.0), dot("rhn", 1, 1.504)],
    "options": OPTIONS | RANGES,
    "environment": {"cpus": 2, "command": "python -m experiments.jsb swarm --data.dir /somebody/data"},
}


def keep(root, content):
    path = root / KEPT
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)


def test_has_a_row_for_each_architecture_and_depth(tmp_path):
    keep(tmp_path, json.dumps(SUMMARY))
    text = section(tmp_path)
    assert "| RHN | 1 | 7 | 1,234 | 1.00 | 1.50 | 3.00 |\n| DT-RNN | 2 | 7 | 1,234 | 9.00 | 9.00 | 9.00 |" in text
    said = " ".join(text.split())
    assert "4 networks, the finished ones of 12, 3 random settings for each architecture and depth, 70 updates" in said
    assert "Learning rates are from 0.01 to 1, standard deviations of initial matrices from 0.0001 to 0.1," in said
    assert "Training took 2 minutes on a machine with 2 cores" in said
    assert "`python -m experiments.jsb swarm --data.dir PATH`" in said


def test_names_the_command_where_nothing_is_kept_and_refuses_what_is_damaged(tmp_path):
    assert "Not yet run: `python -m experiments.jsb swarm" in section(tmp_path)
    keep(tmp_path, "{")
    with pytest.raises(UsageError, match="is damaged"):
        section(tmp_path)
