"""A run that takes a second, and everything it computes: what tests of training and of the command line start from."""

import dataclasses
import json
import os
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import jax
import numpy as np
import pytest
from table import assert_close

from experiments.copy_memory import EXPERIMENT
from lrpt.cli.flags import words
from lrpt.networks.sequence_model import ModelConfig, SequenceModel
from lrpt.networks.variable_computation import VariableConfig
from lrpt.optim import OptimConfig
from lrpt.runs.checkpoint import Checkpoints
from lrpt.runs.configuration import flatten, to_json
from lrpt.runs.console import Console
from lrpt.runs.named_arrays import to_named
from lrpt.runs.signals import Interrupted, StopRequests
from lrpt.tasks import Adding, CopyMemory, NextSymbol, Split
from lrpt.training import loop
from lrpt.training.config import RunConfig, TrainConfig
from lrpt.training.step import init_state

__all__ = [
    "CONFIG",
    "EVEN",
    "EXPERIMENT",
    "Apart",
    "arrays",
    "assert_same_run",
    "changed",
    "command",
    "driven",
    "flags",
    "interrupted_after",
    "lines",
    "numbers",
    "rewind",
    "sharpening",
    "tree",
    "write_stream",
]

# Calls end at 3, 4, 7, 8 and 11: evaluations do not fall on their own rhythm. Evaluations are at 4, 8 and 11.
CONFIG = RunConfig(
    ModelConfig(size=4, rank=2, recurrence="plain"),
    OptimConfig("copy_memory", 0.01),
    TrainConfig(updates=11, batch_size=4, evaluate_every=4, evaluation_batch=8, updates_per_call=3),
    CopyMemory("variable_length", lag=3, train_size=50, test_size=20),
)


def changed(config=CONFIG, **groups):
    """Return a configuration that differs in some fields: `changed(train={"updates": 20})`."""
    return dataclasses.replace(config, **{name: dataclasses.replace(getattr(config, name), **fields) for name, fields in groups.items()})


@dataclasses.dataclass(frozen=True)
class Apart(Adding):
    """The adding task with a validation split of its own."""

    def build(self, seed):
        task = super().build(seed)
        test = task.splits["test"]
        valid = Split(test.size, test.arrays, lambda arrays, index: test.example(arrays, test.size + index))
        return dataclasses.replace(task, splits={**task.splits, "valid": valid})


EVEN = changed(train={"updates": 12, "updates_per_call": 2})
"""All calls are of one length, so that there is one program to compile. Evaluations are at 4, 8 and 12."""


def flags(config=CONFIG):
    """Return the command line that gives a configuration to its experiment, whatever the preset."""
    return [word for name, value in flatten(to_json(config)).items() for word in words(name, value)]


def command(path: Path, config=CONFIG, *more):
    """Return the command line that trains a configuration on one device in a directory."""
    return [*flags(config), "--devices", "1", "--workdir", str(path), *more]


def sharpening(path: Path, sharpness, growth, end, learning_rate, **train):
    """Return a network whose masks get sharper, on a text that it writes: epochs have five updates, evaluations are after every four."""
    path.write_text("abcab cab\n" * 5)
    model = VariableConfig("vcrnn", 5, parametrization="dense", sharpness=sharpness, sharpness_growth=growth, sharpness_end=end)
    settings = TrainConfig(batch_size=2, order="stream", evaluate_every=4, evaluation_batch=1, **train)
    return RunConfig(model, OptimConfig("adam", learning_rate), settings, NextSymbol(file=path, reading="stream", steps=4))


def write_stream(path: Path):
    """Write 30 lines of nine random symbols, and return the path."""
    rng = np.random.default_rng(0)
    path.write_text("\n".join("".join(rng.choice(list("abcde "), 9)) for _ in range(30)))
    return path


def lines(path: Path):
    """metrics.jsonl, without the times."""
    found = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    return [{name: value for name, value in line.items() if name != "seconds"} for line in found]


@cache
def _template(config):
    task = config.data.build(0)
    model = SequenceModel(config.model, task.input_size, task.output_size, task.reads)
    return jax.device_get(init_state(model, task, config.optim.build(), 0))


def arrays(path: Path, config=CONFIG):
    """Parameters, optimizer state and update of the newest checkpoint, by name; nothing may be damaged."""

    def damaged(message):
        raise AssertionError(message)

    checkpoints = Checkpoints(path / "checkpoints", damaged)
    state = checkpoints.latest(_template(config)).state
    return {jax.tree_util.keystr(name): np.asarray(leaf).tolist() for name, leaf in jax.tree_util.tree_leaves_with_path(state)}


def numbers(path: Path, config=CONFIG):
    """Everything a finished run has computed, to the last bit: its lines, its result, and where its parameters ended."""
    result = json.loads((path / "result.json").read_text())
    return lines(path), {name: result[name] for name in ("updates", "stopped", "best_update", "metrics")}, arrays(path, config)


def assert_same_run(one, other):
    """Check that lines, results and parameters are the same, but for rounding."""
    for a, b in zip(lines(one), lines(other), strict=True):
        assert a.keys() == b.keys()
        assert a["split"] == b["split"]
        assert_close([a[name] for name in a if name != "split"], [b[name] for name in a if name != "split"])
    assert_close(arrays(one), arrays(other), rtol=1e-4, atol=1e-5)


def tree(path: Path):
    """Return the content of every file below a directory."""
    return {file.relative_to(path).as_posix(): file.read_bytes() for file in sorted(path.rglob("*")) if file.is_file()}


def rewind(path: Path, update):
    """Leave a directory as a crash after the checkpoint of `update` does."""
    (path / "result.json").unlink()
    for checkpoint in (path / "checkpoints").iterdir():
        if int(checkpoint.name) > update:
            shutil.rmtree(checkpoint)


def driven(root: Path, jobs):
    """Return the exit statuses of what `driver.py` does; what job i says is in `root`/i.log."""
    (root / "jobs.json").write_text(json.dumps([{**job, "log": str(root / f"{i}.log")} for i, job in enumerate(jobs)]))
    driver = [sys.executable, "-W", "ignore", str(Path(__file__).parent / "training" / "driver.py"), str(root / "jobs.json")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(driver, capture_output=True, text=True, timeout=600, env=environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@contextmanager
def interrupted_after(calls):
    """A signal comes during the call of that number, and training ends by it; yields what pytest says of that."""

    class Stop(StopRequests):
        left = calls

        @property
        def received(self):
            self.left -= 1
            return signal.SIGTERM if self.left < 0 else None

        @received.setter
        def received(self, value):
            pass

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "StopRequests", Stop)
        with pytest.raises(Interrupted) as raised:
            yield raised


class Listening(Console):
    """A console that keeps the warnings."""

    def __init__(self):
        super().__init__(quiet=True)
        self.warnings = []

    def warn(self, text):
        self.warnings.append(text)


def named_start():
    """Start parameters by name."""
    return to_named(_template(CONFIG).params)
