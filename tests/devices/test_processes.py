"""Several processes, joined on the loopback interface: the numbers of one, whatever happens to whichever of them.

All jobs go to one driver program, as the start of a program is what takes time here.
"""

import shutil

import numpy as np
import pytest
from table import assert_close
from tiny import EVEN, EXPERIMENT, assert_same_run, command, driven, flags, lines, write_stream

from experiments import char_lm
from lrpt.cli.command import main
from lrpt.devices import parallel, processes
from lrpt.errors import RemoteFailure, UsageError
from lrpt.networks.sequence_model import ModelConfig
from lrpt.optim import OptimConfig
from lrpt.tasks import NextSymbol
from lrpt.training.config import RunConfig, TrainConfig
from lrpt.training.loop import fit

ON_TWO = ["--devices", "2"]
JOBS = {
    "whole": {"argv": ON_TWO, "together": 2, "of": 0},
    "terminated": {"argv": ON_TWO, "together": 2, "of": 1, "end": "terminate", "at": 3},
    "seeds": {"argv": [*ON_TWO, "--seeds", "2"], "together": 2, "of": 0},
    "stream": {"argv": [*ON_TWO, "--no-compare"], "together": 2, "of": 0, "end": "terminate", "at": 3, "experiment": "char_lm"},
    "alone": {"argv": ["--devices", "1"], "end": "terminate", "at": 4, "directory": "both"},
    "together": {"argv": ON_TWO, "together": 2, "of": 0, "directory": "both"},
}


@pytest.fixture(scope="module")
def stream(tmp_path_factory):
    """Streams of a text, whose state is carried from window to window."""
    path = write_stream(tmp_path_factory.mktemp("text") / "text.txt")
    train = TrainConfig(updates=16, batch_size=4, order="stream", evaluate_every=8, evaluation_batch=4, updates_per_call=2)
    model = ModelConfig(size=6, rank=2, recurrence="plain")
    return RunConfig(model, OptimConfig("adam", 0.01), train, NextSymbol(file=path, reading="stream", steps=5))


@pytest.fixture(scope="module")
def ended(tmp_path_factory, stream):
    root = tmp_path_factory.mktemp("processes")
    described = []
    for name, job in JOBS.items():
        path, config = root / job.get("directory", name), stream if "experiment" in job else EVEN
        described.append({"end": None, "at": None} | job | {"argv": [*flags(config), "--workdir", str(path), *job["argv"]]})
    statuses = driven(root, described)
    logs = {name: [path.read_text() for path in sorted(root.glob(f"{i}.log*"))] for i, name in enumerate(JOBS)}
    return root, dict(zip(JOBS, statuses, strict=True)), logs


@pytest.fixture(scope="module")
def single(tmp_path_factory):
    """One process, one device."""
    path = tmp_path_factory.mktemp("single") / "run"
    fit(EVEN, {0: path}, devices=1)
    return path


@pytest.mark.slow
def test_two_processes_of_two_devices_are_one_of_one_but_for_rounding(ended, single):
    root, statuses, logs = ended
    assert (statuses["whole"], logs["whole"]) == ([0, 0], ["", ""])
    assert_same_run(root / "whole", single)
    assert {path.name for path in (root / "whole").iterdir()} == {path.name for path in single.iterdir()} | {"figures"}


@pytest.mark.slow
def test_a_signal_to_one_process_ends_all_with_a_checkpoint(ended, single, tmp_path):
    """Which one process on one device can go on from."""
    root, statuses, logs = ended
    assert statuses["terminated"] == [143, 143]
    assert logs["terminated"][0].startswith("lrpt: error: stopped by SIGTERM at update 6; the same command resumes there")
    assert logs["terminated"][1] == ""
    shutil.copytree(root / "terminated", tmp_path / "run")
    main(EXPERIMENT, command(tmp_path / "run", EVEN))
    assert_same_run(tmp_path / "run", single)


@pytest.mark.slow
def test_the_state_of_streams_is_brought_together(ended, stream, tmp_path):
    """Each process has that of its own rows; the checkpoint has all, and one process goes on with them."""
    root, statuses, _ = ended
    assert statuses["stream"] == [143, 143]
    fit(stream, {0: tmp_path / "single"}, devices=1)
    shutil.copytree(root / "stream", tmp_path / "run")
    assert not (tmp_path / "run" / "metrics.jsonl").read_text(), "the state was to be that of a checkpoint before any evaluation"
    main(char_lm.EXPERIMENT, command(tmp_path / "run", stream, "--no-compare"))
    for found, expected in zip(lines(tmp_path / "run"), lines(tmp_path / "single"), strict=True):
        assert_close(found["loss"], expected["loss"], rtol=1e-4)


@pytest.mark.slow
def test_several_processes_go_on_from_the_checkpoint_of_one(ended, single):
    root, statuses, logs = ended
    assert (statuses["alone"], statuses["together"], logs["together"]) == (143, [0, 0], ["", ""])
    assert_same_run(root / "both", single)


@pytest.mark.slow
def test_several_models_are_refused_in_one_line(ended):
    root, statuses, logs = ended
    assert statuses["seeds"] == [2, 2]
    (line,) = "".join(logs["seeds"]).splitlines()
    assert "2 models train side by side, and 2 processes share one: train one seed at a time" in line
    assert not (root / "seeds").exists()


def test_each_process_has_its_own_part_of_a_batch(monkeypatch):
    layout, rows, dealt = parallel.Layout(1, 4, 1, 2), np.arange(16).reshape(2, 8), []
    for index in range(2):
        monkeypatch.setattr(processes, "index", lambda index=index: index)
        dealt += list(parallel.shard_batch(layout, [rows]))
    np.testing.assert_array_equal(np.concatenate(dealt, axis=1), rows)


def test_each_process_has_its_own_part_of_a_state(monkeypatch):
    monkeypatch.setattr(parallel, "_stack", lambda layout, trees: trees)
    layout, rows, dealt = parallel.Layout(1, 4, 1, 2), np.arange(16).reshape(8, 2), []
    for index in range(2):
        monkeypatch.setattr(processes, "index", lambda index=index: index)
        dealt += parallel.scatter(layout, [rows])
    np.testing.assert_array_equal(np.concatenate(dealt), rows)


@pytest.mark.devices(4)
@pytest.mark.parametrize(("batch", "wanted", "shards"), [(8, None, 8), (4, None, 4), (6, None, 6), (12, 2, 4)])
def test_devices_that_processes_use(batch, wanted, shards, monkeypatch):
    """Of four each: as many as divide the batch."""
    monkeypatch.setattr(processes, "count", lambda: 2)
    assert parallel.layout(1, batch, wanted) == parallel.Layout(1, shards, 1, 2)


@pytest.mark.devices(4)
@pytest.mark.parametrize(("batch", "wanted"), [(7, None), (6, 2)])
def test_a_batch_that_processes_do_not_divide(batch, wanted, monkeypatch):
    monkeypatch.setattr(processes, "count", lambda: 2)
    with pytest.raises(UsageError, match=f"train.batch_size is {batch}, which 2 processes with {wanted or 1} device"):
        parallel.layout(1, batch, wanted)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"coordinator_address": "host:1"}, "distributed.num_processes is missing: give all of"),
        ({"num_processes": 2, "process_id": 0}, "distributed.coordinator_address is missing"),
        ({"coordinator_address": "host", "num_processes": 2, "process_id": 0}, "coordinator_address is host: expected HOST:PORT"),
        ({"coordinator_address": "host:1", "num_processes": 2, "process_id": 2}, "process_id is 2: expected 0 to"),
        ({"coordinator_address": "host:1", "num_processes": 0, "process_id": 0}, "num_processes is 0"),
        ({"auto": True, "heartbeat": 0}, "heartbeat is 0: expected 1 or more"),
    ],
)
def test_flags_that_do_not_fit(given, says):
    with pytest.raises(UsageError, match=says):
        processes.Distributed(**given)


class Wire:
    """Messages from the first process, as the others get them."""

    def __init__(self, monkeypatch):
        self.sent = []
        monkeypatch.setattr(processes, "count", lambda: 2)
        monkeypatch.setattr(processes, "index", lambda: self.process)
        monkeypatch.setattr(processes, "_broadcast", self.broadcast)
        self.process = 0

    def broadcast(self, message):
        if self.process == 0:
            self.sent.append(message)
            return message
        return self.sent.pop(0)

    def on_the_other(self, function):
        self.process = 1
        return processes.on_primary(function)


def test_what_the_first_finds_is_found_by_all(monkeypatch):
    wire = Wire(monkeypatch)
    assert processes.on_primary(lambda: processes.on_primary(lambda: 3) + 1) == 4
    assert wire.on_the_other(pytest.fail) == 4


def test_what_the_first_cannot_do_ends_all(monkeypatch):
    wire = Wire(monkeypatch)

    def fail():
        raise UsageError("the disk is full", code=1)

    with pytest.raises(UsageError):
        processes.on_primary(fail)
    with pytest.raises(RemoteFailure, match="the disk is full") as raised:
        wire.on_the_other(pytest.fail)
    assert raised.value.code == 1


def test_other_flags_on_another_process_are_refused_by_all(monkeypatch):
    wire, told = Wire(monkeypatch), []
    monkeypatch.setattr(processes, "highest", lambda number: told.append(number) or max(told))
    processes.check_alike({"train.batch_size": 4})
    wire.sent.append((None, ("process 1 was started with other flags", 2)))
    wire.process = 1
    with pytest.raises(RemoteFailure):
        processes.check_alike({"train.batch_size": 8})
    assert told == [0, 1]
    wire.process = 0
    with pytest.raises(UsageError, match="process 1 was started with other flags than process 0"):
        processes.check_alike({"train.batch_size": 4})


def test_what_every_process_makes_is_made_on_the_first_before(monkeypatch):
    """Such as a task, which no message can hold: each process has its own."""
    wire = Wire(monkeypatch)
    assert processes.primary_first(lambda: "of the first") == "of the first"
    wire.process = 1
    assert processes.primary_first(lambda: "of the second") == "of the second"
    assert not wire.sent


def test_the_largest_number_of_all_processes_counts(monkeypatch):
    """A signal to one process stops all."""
    monkeypatch.setattr(processes, "count", lambda: 2)
    monkeypatch.setattr(processes.multihost_utils, "process_allgather", lambda number: np.stack([number, np.int32(30)]))
    assert processes.highest(0) == 30


@pytest.mark.parametrize("length", [3, 8, 21])
def test_messages_of_any_length_are_sent_in_blocks(length, monkeypatch):
    sent, message = [], "x" * length
    monkeypatch.setattr(processes, "BLOCK", 8)
    monkeypatch.setattr(processes, "is_primary", lambda: True)
    monkeypatch.setattr(processes.multihost_utils, "broadcast_one_to_all", lambda part: sent.append(part) or part)
    assert processes._broadcast(message) == message
    monkeypatch.setattr(processes, "is_primary", lambda: False)
    monkeypatch.setattr(processes.multihost_utils, "broadcast_one_to_all", lambda _: sent.pop(0))
    assert processes._broadcast(None) == message
    assert not sent
