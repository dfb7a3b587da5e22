"""Many runs on an engine that a test plays: each is trained once, what is lost is trained again, what fails is named."""

import json
import os
import signal
from collections import deque
from itertools import count
from pathlib import Path

import pytest
from tiny import EVEN, changed

from lrpt.engines import schedule, worker
from lrpt.engines.engine import EngineOptions
from lrpt.engines.jobs import MOST_STACKED, NamedJob, Unit, distinct, even_stack, units
from lrpt.engines.progress import labels, last_evaluation
from lrpt.engines.schedule import Stopped, train_all
from lrpt.engines.worker import Outcome
from lrpt.errors import RemoteFailure, UsageError
from lrpt.runs.console import Console
from lrpt.runs.run_directory import InUse, RunDirectory
from lrpt.runs.signals import Interrupted
from lrpt.training.loop import Job, SomeFailed

NAMES = {"experiment": "copy_memory", "preset": "quick"}
FINISHED, LOST, NODE = Outcome("finished"), Outcome("lost", "killed"), Outcome("lost", "its node is lost", node=True)


class Played:
    """An engine on which the runs of a directory end as a list says, and then are finished."""

    slots, accelerators, queues = 2, 0, False

    def __init__(self, ends=(), error=None):
        self.ends, self.error = {name: deque(outcomes) for name, outcomes in dict(ends).items()}, error
        self.trained, self.paths, self.stopped, self.closed = [], [], False, False

    def call(self, function, *arguments):
        return self.error

    def submit(self, unit):
        self.trained.append(unit.paths[0].name)
        self.paths.append(tuple(path.name for path in unit.paths))
        return len(self.trained)

    def wait(self, handles, seconds):
        assert len(handles) <= self.slots
        found = []
        for handle in handles[:1]:
            ends = self.ends.get(self.trained[handle - 1])
            end = ends.popleft() if ends else FINISHED
            found.append((handle, [end() if callable(end) else end] * len(self.paths[handle - 1])))
        return found

    def stop(self):
        self.stopped = True

    def close(self):
        self.closed = True


@pytest.fixture
def play(monkeypatch, tmp_path):
    """Trains four runs on such an engine."""
    monkeypatch.setattr(schedule, "BUSY", 0.0)

    def train(engine, jobs=None, ended=lambda path: None, **options):
        monkeypatch.setattr(schedule, "open_engine", lambda options: engine)
        return train_all(jobs or runs(tmp_path), EngineOptions(**options), Console(quiet=True), ended=ended)

    return train


def test_a_place_that_cannot_be_written_is_one_line_before_any_run(play, tmp_path):
    (tmp_path / "file").touch()
    engine = Played()
    with pytest.raises(
        UsageError, match=rf"^{tmp_path}/file/below cannot be written \(Not a directory\): make it writable, or name another"
    ):
        play(engine, runs(tmp_path / "file" / "below"))
    assert not engine.trained


def runs(root, config=EVEN, count=4):
    return [NamedJob(Job(config, seed, root / f"run{seed}"), NAMES) for seed in range(count)]


def test_every_run_is_trained_once(play):
    engine = Played()
    report = play(engine)
    assert engine.trained == ["run0", "run1", "run2", "run3"]
    assert (len(report.finished), report.failed, engine.closed) == (4, {}, True)


class Queueing(Played):
    """An engine that queues four runs. It begins one of them, which was interrupted before, and ends the others in the queue at once."""

    slots, queues = 4, True

    def __init__(self, begun):
        super().__init__()
        self.begun, self.ticks = begun, 0

    def wait(self, handles, seconds):
        self.ticks += 1
        if self.ticks == 2:
            (self.begun / "environment.json").write_text("{}")
            os.utime(self.begun / "environment.json", ns=(1, 1))
        return super().wait(handles, seconds) if self.ticks > 3 else []


def test_a_queued_run_is_training_once_its_process_has_opened_its_directory(play, monkeypatch, tmp_path):
    told = []
    monkeypatch.setattr(schedule.Board, "set", lambda board, path, state, reason="": told.append((path.name, state)))
    (tmp_path / "run1").mkdir()
    (tmp_path / "run1" / "environment.json").write_text("{}")
    play(Queueing(tmp_path / "run1"))
    assert told[:5] == [*((f"run{seed}", "queued") for seed in range(4)), ("run1", "training")]
    assert sorted(told[5:]) == [(f"run{seed}", "finished") for seed in range(4)]


def test_a_queued_unit_is_training_once_its_process_has_opened_any_of_its_directories(play, monkeypatch, tmp_path):
    """A unit whose first run was trained before opens others only."""
    told = []
    monkeypatch.setattr(schedule.Board, "set", lambda board, path, state, reason="": told.append((path.name, state)))
    for name in ("run0", "run1"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "environment.json").write_text("{}")
    play(Queueing(tmp_path / "run1"), stack=2)
    assert told[4:6] == [("run0", "training"), ("run1", "training")]


def test_runs_of_an_engine_without_a_queue_are_training_at_once(play, monkeypatch):
    told = []
    monkeypatch.setattr(schedule.Board, "set", lambda board, path, state, reason="": told.append(state))
    play(Played())
    assert set(told) == {"training", "finished"}


def test_a_run_that_fails_is_named_and_not_tried_again(play, tmp_path):
    engine = Played({"run1": [Outcome("failed", "the loss is nan")]})
    report = play(engine)
    assert report.failed == {tmp_path / "run1": "the loss is nan"}
    assert engine.trained == ["run0", "run1", "run2", "run3"]
    assert [one.job.seed for one in report.finished] == [0, 2, 3]


def test_every_end_is_told_once_and_early(play):
    """A lost run has not ended. Two runs are on their way when the first end is told."""
    engine, told = Played({"run0": [LOST], "run1": [Outcome("failed", "the loss is nan")]}), []
    play(engine, ended=lambda path: told.append((path.name, len(engine.trained))))
    assert sorted(name for name, _ in told) == ["run0", "run1", "run2", "run3"]
    assert told[0] == ("run1", 3)


def test_a_lost_process_is_replaced_and_then_given_up(play, tmp_path):
    engine = Played({"run0": [LOST, LOST], "run1": [LOST] * 9})
    report = play(engine)
    assert report.failed == {tmp_path / "run1": "killed, 3 times in a row without a new checkpoint"}
    assert sorted(engine.trained) == sorted(["run0"] * 3 + ["run1"] * 3 + ["run2", "run3"])


@pytest.mark.parametrize("damaged", [False, True])
def test_of_runs_given_up_together_one_with_a_result_has_finished(play, monkeypatch, tmp_path, damaged):
    """run1 has a result when the process of run0 and run1 dies; that of run3, whose process dies too, may be damaged."""
    engine, told = Played({"run0": [LOST] * 3, "run2": [LOST] * 3}), []

    def is_finished(job, names):
        if engine.trained and damaged and job.path.name == "run3":
            raise UsageError("result.json is damaged")
        return bool(engine.trained) and job.path.name in ("run1", "run3")

    monkeypatch.setattr(schedule, "is_finished", is_finished)
    report = play(engine, ended=lambda path: told.append(path.name), stack=2)
    failed = ["run0", "run2", "run3"] if damaged else ["run0", "run2"]
    assert sorted(path.name for path in report.failed) == failed
    assert sorted([*failed, *(one.job.path.name for one in report.finished)]) == sorted(told) == ["run0", "run1", "run2", "run3"]


def checkpointing(path):
    """A process that is lost after one more checkpoint of the run in `path`."""
    updates = count(4, 4)

    def further():
        (path / "checkpoints" / str(next(updates))).mkdir(parents=True)
        return LOST

    return further


def test_a_new_checkpoint_is_a_new_start(play, tmp_path):
    assert play(Played({"run0": [checkpointing(tmp_path / "run0")] * 7})).failed == {}


def test_a_new_checkpoint_of_any_run_that_trains_with_others_is_a_new_start(play, tmp_path):
    """Also if the first of them makes none, because it has finished."""
    assert play(Played({"run0": [checkpointing(tmp_path / "run1")] * 7}), stack=2).failed == {}


def test_a_run_whose_process_alone_was_stopped_is_trained_again(play):
    """By a signal to that process and not to this one: it has a checkpoint, and no result."""
    engine, told = Played({"run1": [Outcome("stopped", "stopped by SIGTERM")]}), []
    play(engine, ended=lambda path: told.append(path.name))
    assert engine.trained.count("run1") == 2
    assert sorted(told) == ["run0", "run1", "run2", "run3"]


def test_a_run_that_is_stopped_alone_without_end_is_given_up(play, tmp_path):
    """Something stops each of its processes before the first checkpoint."""
    engine = Played({"run1": [Outcome("stopped", "stopped by SIGTERM")] * 9})
    assert play(engine).failed == {tmp_path / "run1": "stopped by SIGTERM, 3 times in a row without a new checkpoint"}


def test_runs_that_had_finished_before_are_reported_and_not_trained(play, monkeypatch):
    engine = Played()
    monkeypatch.setattr(schedule, "is_finished", lambda job, names: job.seed == 2)
    assert [one.job.seed for one in play(engine).finished] == [0, 1, 2, 3]
    assert engine.trained == ["run0", "run1", "run3"]


def test_lost_nodes_do_not_count(play):
    assert play(Played({"run0": [NODE] * 20})).failed == {}


def test_a_run_of_another_command_is_looked_at_again(play):
    engine = Played({"run0": [Outcome("busy", "another command is at work")] * 3})
    assert play(engine).failed == {}
    assert engine.trained.count("run0") == 4


def test_a_run_that_is_in_use_is_not_tried_before_it_is_free(play, tmp_path):
    """Each try would start a process that imports JAX and reads the data."""
    (tmp_path / "run0").mkdir()
    other, looks = RunDirectory(tmp_path / "run0"), count()
    other.lock()
    engine = Played({"run0": [Outcome("busy", "another command is at work")] * 99})
    single = engine.wait

    def wait(handles, seconds):
        if next(looks) == 12:
            other.release()
            engine.ends.clear()
        return single(handles, seconds)

    engine.wait = wait
    assert play(engine).failed == {}
    assert engine.trained.count("run0") == 2
    assert not other.is_in_use()


def test_runs_of_which_one_is_free_are_tried_before_the_other_is(play, tmp_path):
    """run0 stays in use until run1, which trains with it, is tried again."""
    (tmp_path / "run0").mkdir()
    other, looks = RunDirectory(tmp_path / "run0"), count()
    other.lock()
    engine = Played({"run0": [Outcome("busy", "another command is at work")]})
    single = engine.wait

    def wait(handles, seconds):
        assert next(looks) < 20
        return single(handles, seconds)

    engine.wait = wait
    assert play(engine, stack=2).failed == {}
    assert engine.paths == [("run0", "run1"), ("run2", "run3"), ("run0", "run1")]
    other.release()


@pytest.mark.parametrize("order", [("finished", "busy"), ("busy", "finished")])
def test_of_runs_that_train_together_only_those_that_have_not_ended_are_trained_again(order, play, tmp_path):
    """run0 and run1 train together, and one of them is at first in use by another command."""
    engine, told = Played(), []
    of_unit = {("run0", "run1"): [Outcome(how) for how in order]}
    single = engine.wait

    def wait(handles, seconds):
        return [(handle, of_unit.pop(engine.paths[handle - 1], outcomes)) for handle, outcomes in single(handles, seconds)]

    engine.wait = wait
    report = play(engine, stack=2, ended=lambda path: told.append(path.name))
    assert engine.paths == [("run0", "run1"), ("run2", "run3"), (f"run{order.index('busy')}",)]
    assert sorted(told) == ["run0", "run1", "run2", "run3"]
    assert (len(report.finished), report.failed) == (4, {})


def test_what_does_not_fit_is_said_before_anything_is_trained(play):
    engine = Played(error="rank 99 does not fit")
    with pytest.raises(UsageError, match="rank 99 does not fit"):
        play(engine)
    assert (engine.trained, engine.closed) == ([], True)


def test_one_unit_of_each_program_is_checked(play, tmp_path):
    """The first one of each."""
    engine, checked = Played(), []
    engine.call = lambda function, units: checked.extend(unit.paths[0] for unit in units)
    wide = changed(EVEN, model={"size": 3})
    play(engine, [*runs(tmp_path / "a", count=2), *runs(tmp_path / "b", wide, count=2)])
    assert sorted(checked) == [tmp_path / "a" / "run0", tmp_path / "b" / "run0"]


@pytest.fixture
def hangups():
    """Lets SIGHUP have its usual effect, which `nohup` takes from the tests too."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_stops_all_runs(play, number, hangups):
    def interrupted():
        os.kill(os.getpid(), number)
        return Outcome("stopped")

    engine = Played({"run0": [interrupted]})
    with pytest.raises(Stopped, match="stopped with 1 of 4 runs finished; the same command goes on") as raised:
        play(engine)
    assert (raised.value.code, engine.stopped, engine.closed) == (128 + number, True, True)
    assert engine.trained == ["run0", "run1"]


def test_a_process_that_the_signal_kills_while_it_starts_is_no_failure(play):
    """It arrives as lost, and a single try is allowed."""

    def interrupted():
        os.kill(os.getpid(), signal.SIGTERM)
        return FINISHED

    told: list[str] = []
    with pytest.raises(Stopped):
        play(Played({"run0": [interrupted], "run1": [LOST]}), ended=lambda path: told.append(path.name), tries=1)
    assert told == ["run0"]


ERRORS = [
    (InUse("another command is at work"), ("busy", "another command is at work")),
    (Interrupted(signal.SIGTERM, 4), ("stopped", "stopped by SIGTERM at update 4; the same command resumes there")),
    (UsageError("rank 9\ndoes not fit"), ("failed", "rank 9 does not fit")),
    (RemoteFailure("gone"), ("lost", "another process of the run is lost (gone)")),
    (OSError(28, "No space left", "a/b"), ("failed", "No space left (a/b): put that right, and repeat the command")),
    (MemoryError("8 GiB"), ("failed", "out of memory (8 GiB): choose a smaller model, batch or data set")),
    (ZeroDivisionError("by zero"), ("failed", "ZeroDivisionError: by zero")),
]


@pytest.mark.parametrize(("error", "outcome"), ERRORS, ids=[type(error).__name__ for error, _ in ERRORS])
def test_what_training_raises_is_the_outcome_of_each_run(error, outcome, failing):
    assert failing(error) == [(*outcome, False)] * 2


def test_the_loss_of_another_process_of_a_run_is_no_failure_of_the_run(failing, monkeypatch):
    error = RuntimeError("Gloo all-reduce failed: connection closed by peer")
    assert {outcome.how for outcome in failing(error)} == {"failed"}
    monkeypatch.setattr(worker.processes, "count", lambda: 2)
    assert {outcome.how for outcome in failing(error)} == {"lost"}


def test_each_process_of_a_run_has_its_number(tmp_path):
    (job,) = runs(tmp_path, count=1)
    found = Unit((job.job,), NAMES).rank(1, 2, "host:1").distributed
    assert (found.coordinator_address, found.num_processes, found.process_id) == ("host:1", 2, 1)


def test_runs_beside_one_that_failed_have_finished(failing, tmp_path):
    error = SomeFailed({tmp_path / "run1": UsageError("run1 diverged")}, {tmp_path / "run0": {}})
    assert failing(error) == [FINISHED, Outcome("failed", "run1 diverged")]


def test_each_failed_run_has_its_own_reason(failing, tmp_path):
    error = SomeFailed({tmp_path / "run0": InUse("run0 is in use"), tmp_path / "run1": UsageError("run1 diverged")}, {})
    assert failing(error) == [Outcome("busy", "run0 is in use"), Outcome("failed", "run1 diverged")]


@pytest.fixture
def failing(monkeypatch, tmp_path):
    """The outcomes of two runs whose training raises an error."""
    monkeypatch.setattr(worker, "record_command", lambda command: None)
    monkeypatch.setattr(worker.parallel, "request_devices", lambda *_: None)

    def outcomes(error):
        def fail(*_, **__):
            raise error

        monkeypatch.setattr(worker, "fit_all", fail)
        return worker.train(Unit(tuple(one.job for one in runs(tmp_path, count=2)), NAMES))

    return outcomes


def test_equal_runs_are_one(tmp_path):
    """The rank of dense matrices decides nothing; that of others, the seed and the experiment do."""
    dense = [changed(EVEN, model={"parametrization": "dense", "rank": rank}) for rank in (1, 2)]
    low = [changed(EVEN, model={"rank": rank}) for rank in (1, 2)]
    jobs = [NamedJob(Job(config, 0, tmp_path / str(i)), NAMES) for i, config in enumerate([*dense, *low, *low])]
    jobs += [NamedJob(Job(low[0], 1, tmp_path / "seed"), NAMES), NamedJob(Job(low[0], 0, tmp_path / "other"), {"experiment": "adding"})]
    assert [one.job.path.name for one in distinct(jobs)] == ["0", "2", "3", "seed", "other"]


def test_runs_of_one_program_are_stacked(tmp_path):
    jobs = [*runs(tmp_path / "a", count=5), *runs(tmp_path / "b", changed(EVEN, model={"size": 3}), count=1)]
    assert [len(unit.jobs) for unit in units(jobs, 2, 1)] == [2, 2, 1, 1]
    assert [even_stack(jobs, accelerators) for accelerators in (1, 2, 5)] == [5, 3, 1]
    assert even_stack(runs(tmp_path / "many", count=MOST_STACKED + 1), 1) == MOST_STACKED


def test_the_newest_validation_of_a_run_is_shown(tmp_path):
    """The last line may be one of training, or half-written; the beginning of a long file is not read."""
    line = json.dumps({"update": 4, "split": "valid", "loss": 0.5})
    lines = [line.replace("4", "2", 1), line, '{"update": 8, "split": "train", "loss": 0.1}', '["valid"]', '{"update": 8, "split": "val']
    assert last_evaluation(tmp_path) == {}
    for before in ("", "x" * 10_000 + "\n"):
        (tmp_path / "metrics.jsonl").write_text(before + "\n".join(lines))
        assert last_evaluation(tmp_path) == {"update": 4, "split": "valid", "loss": 0.5}


def test_directories_of_equal_names_are_told_apart():
    one, other, third = Path("runs/a/seed0"), Path("runs/b/seed0"), Path("runs/b/seed1")
    assert labels([one, third]) == {one: "seed0", third: "seed1"}
    assert labels([one, other, third]) == {one: "a/seed0", other: "b/seed0", third: "b/seed1"}


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"address": "head:1"}, "address is head:1, and the engine is local"),
        ({"hosts": 2}, "hosts is 2, and the engine is local"),
        ({"engine": "ray", "hosts": 2, "stack": 2}, "choose one of the two"),
        ({"processes": 0}, "processes is 0"),
        ({"cpus": -1.0}, "cpus is -1.0"),
    ],
)
def test_options_that_do_not_fit(options, says):
    with pytest.raises(UsageError, match=says):
        EngineOptions(**options)


def test_without_the_extra_ray_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    monkeypatch.delitem(__import__("sys").modules, "lrpt.engines.cluster", raising=False)
    with pytest.raises(UsageError, match=r"engine is ray, which is not installed: pip install -e '\.\[cluster\]'"):
        schedule.open_engine(EngineOptions(engine="ray"))


def test_runs_of_several_presets_are_not_stacked(tmp_path):
    """A process records one preset for all of its runs."""
    presets = ["quick", "other", "quick"]
    jobs = [NamedJob(Job(EVEN, seed, tmp_path / str(seed)), {"experiment": "copy_memory", "preset": p}) for seed, p in enumerate(presets)]
    found = units(jobs, 3, 1)
    assert [([job.seed for job in unit.jobs], unit.names["preset"]) for unit in found] == [([0, 2], "quick"), ([1], "other")]


LOST_OF_TWO = [([FINISHED, LOST], LOST), ([LOST, NODE], NODE), ([LOST, Outcome("failed", "nan")], Outcome("failed", "nan"))]


@pytest.mark.filterwarnings("ignore")  # what Ray's own code is warned of
@pytest.mark.parametrize(("outcomes", "of_run"), LOST_OF_TWO)
def test_a_run_of_several_processes_has_the_worst_of_their_outcomes(outcomes, of_run, monkeypatch):
    """And the loss of a node comes before that of a process, because it does not count."""
    pytest.importorskip("ray")
    from lrpt.engines import cluster

    monkeypatch.setattr(cluster, "remove_placement_group", lambda places: None)
    for ended in (outcomes, outcomes[::-1]):
        group = object.__new__(cluster._Group)
        group.pending, group.places, group.ended = [], None, ended
        assert group._close() == [of_run]
