"""The pool of processes, with real ones: what they return, how they die, and how they are stopped."""

import json
import os
import signal
import threading
import time
from types import SimpleNamespace

import pytest
from tiny import EVEN, changed, numbers

from lrpt.cells import CELLS
from lrpt.engines import local
from lrpt.engines.jobs import Unit
from lrpt.engines.local import LocalEngine
from lrpt.engines.worker import check_programs
from lrpt.errors import UsageError
from lrpt.runs import imports
from lrpt.training.loop import Job, fit

NAMES = {"experiment": "copy_memory", "preset": "quick"}
LONG = changed(EVEN, train={"updates": 100_000})
SECONDS = 120


@pytest.fixture
def engine():
    held = LocalEngine(1)
    yield held
    held.close()


def unit(path, config=EVEN):
    return Unit((Job(config, 0, path),), NAMES)


def outcomes(engine, handle):
    until = time.monotonic() + SECONDS
    while not (found := engine.wait([handle], 0.2)):
        assert time.monotonic() < until
    ((_, several),) = found
    return several


def end(engine, handle):
    (outcome,) = outcomes(engine, handle)
    return outcome


def until_trained(path):
    until = time.monotonic() + SECONDS
    while not (path / "checkpoints" / "4").exists():
        assert time.monotonic() < until
        time.sleep(0.02)


def test_a_run_has_the_numbers_of_this_process(engine, tmp_path):
    assert end(engine, engine.submit(unit(tmp_path / "run"))).how == "finished"
    fit(EVEN, {0: tmp_path / "here"}, devices=1)
    assert numbers(tmp_path / "run") == numbers(tmp_path / "here")
    ran, here = (json.loads((tmp_path / name / "environment.json").read_text()) for name in ("run", "here"))
    assert ran["command"] == here["command"], "the user's, not that of the process that trained it"


def test_the_first_of_several_runs_that_cannot_be_trained_is_named(tmp_path):
    wrong = unit(tmp_path / "wrong", changed(EVEN, model={"rank": 5}))
    alone, beside = check_programs([wrong]), check_programs([unit(tmp_path / "right"), wrong])
    assert alone.startswith("rank 5 does not fit")
    assert beside == f"wrong: {alone}"


@pytest.mark.slow
def test_a_process_imports_what_the_command_has_imported(engine, tmp_path, monkeypatch):
    """The module registers the cell of the run."""
    (tmp_path / "mine_of_test.py").write_text("from lrpt import CELLS\n\nCELLS['mine_of_test'] = CELLS['gru']\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(CELLS, "mine_of_test", CELLS["gru"])
    imports.import_module("mine_of_test")
    run = unit(tmp_path / "run", changed(EVEN, model={"cell": "mine_of_test"}))
    assert engine.call(check_programs, [run]) is None
    assert end(engine, engine.submit(run)).how == "finished"


@pytest.mark.slow
def test_a_killed_process_is_lost_and_a_stopped_one_leaves_a_checkpoint(engine, tmp_path):
    """And a run whose directory holds another one has failed."""
    handle = engine.submit(unit(tmp_path / "run", LONG))
    until_trained(tmp_path / "run")
    os.kill(engine._children[handle].process.pid, signal.SIGKILL)
    assert end(engine, handle) == ("lost", "its process ended with status -9", False)

    handle = engine.submit(unit(tmp_path / "run", LONG))
    time.sleep(1)
    assert end(engine, engine.submit(unit(tmp_path / "run", LONG))).how == "busy"
    engine.stop()
    assert end(engine, handle).how in ("stopped", "lost")  # lost where it had not yet begun to listen

    other = changed(EVEN, model={"rank": 1})
    failed = end(engine, engine.submit(unit(tmp_path / "run", other)))
    assert failed.how == "failed"
    assert "holds a run with" in failed.reason


def test_a_call_returns_what_the_function_does(engine):
    assert engine.call(max, [3, 5, 4]) == 5


def die(unit):
    os.kill(os.getpid(), signal.SIGKILL)


def test_each_run_of_a_process_that_died_is_lost(engine, tmp_path, monkeypatch):
    monkeypatch.setattr(local, "train", die)
    stacked = Unit(tuple(Job(EVEN, seed, tmp_path / str(seed)) for seed in range(3)), NAMES)
    assert outcomes(engine, engine.submit(stacked)) == [("lost", "its process ended with status -9", False)] * 3


def test_a_call_whose_process_died_is_one_line(engine):
    with pytest.raises(UsageError, match=r"^die was not completed, because its process ended with status -9: .*, and repeat the command$"):
        engine.call(die, None)


def wait_long(started):
    started.write_text(str(os.getpid()))
    time.sleep(SECONDS)


@pytest.fixture
def interrupted_once():
    """Send Ctrl-C to this process alone as soon as a file has content."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)

    def interrupt(file):
        while not (file.exists() and file.read_text()):
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGINT)

    yield lambda file: threading.Thread(target=interrupt, args=(file,), daemon=True).start()
    signal.signal(signal.SIGINT, before)


def test_ctrl_c_ends_the_process_of_a_call(engine, tmp_path, interrupted_once):
    """At once: the process is in a session of its own, so that the signal of the terminal does not come to it."""
    started = tmp_path / "started"
    begin = time.monotonic()
    interrupted_once(started)
    with pytest.raises(KeyboardInterrupt):
        engine.call(wait_long, started)
    assert time.monotonic() - begin < SECONDS / 2
    with pytest.raises(ProcessLookupError):
        os.kill(int(started.read_text()), 0)


class Started:
    """A process that a test plays, and what it was asked for."""

    def __init__(self, function, arguments, environment, place=0, runs=1):
        self.environment, self.place, self.receiver, self.process = environment, place, object(), self
        self.asked = []

    def result(self):
        return ["finished"]

    def terminate(self):
        self.asked.append("terminate")

    def join(self, seconds):
        self.asked.append("join" if seconds > local.PATIENCE / 2 else "no time")

    def kill(self):
        self.asked.append("kill")


def test_each_process_has_an_accelerator_that_no_other_has(tmp_path, monkeypatch):
    monkeypatch.setattr(local.hardware, "visible_accelerators", lambda: ["4", "7"])
    monkeypatch.setattr(local, "_Child", Started)
    engine = LocalEngine()
    one, other = (engine.submit(unit(tmp_path)) for _ in range(2))
    seen = [engine._children[handle].environment["CUDA_VISIBLE_DEVICES"] for handle in (one, other)]
    monkeypatch.setattr(local, "wait", lambda handles, seconds: handles)
    engine.wait([one], 0)
    seen.append(engine._children[engine.submit(unit(tmp_path))].environment["CUDA_VISIBLE_DEVICES"])
    assert seen == ["4", "7", "4"]


def test_processes_have_time_for_a_checkpoint_before_they_are_killed(tmp_path, monkeypatch):
    monkeypatch.setattr(local, "_Child", Started)
    engine = LocalEngine(1)
    child = engine._children[engine.submit(unit(tmp_path))]
    engine.close()
    assert child.asked == ["terminate", "join", "kill"]


def test_a_process_whose_pool_has_died_is_asked_to_end(monkeypatch):
    asked, ended = [], []
    monkeypatch.setattr(os, "kill", lambda process, number: asked.append((process, number)))
    monkeypatch.setattr(local.multiprocessing, "parent_process", lambda: SimpleNamespace(join=lambda: ended.append(True)))
    local._end_with_parent()
    assert (ended, asked) == ([True], [(os.getpid(), signal.SIGTERM)])


@pytest.mark.parametrize(("processes", "shares"), [(None, None), (3, "0.450")])
def test_processes_are_spread_over_the_accelerators(processes, shares, monkeypatch):
    monkeypatch.setattr(local.hardware, "visible_accelerators", lambda: ["4", "7"])
    engine = LocalEngine(processes)
    found = [engine._environment(place) for place in range(engine.slots)]
    assert [one["CUDA_VISIBLE_DEVICES"] for one in found] == ["4", "7", "4"][: engine.slots]
    assert {one.get("XLA_PYTHON_CLIENT_MEM_FRACTION") for one in found} == {shares}
