"""Whatever interrupts a run, the same command ends with the numbers of an uninterrupted one."""

import dataclasses
import json
import shutil
from contextlib import closing
from types import SimpleNamespace

import numpy as np
import pytest
from table import assert_close
from tiny import (
    CONFIG,
    EVEN,
    EXPERIMENT,
    Apart,
    Listening,
    arrays,
    changed,
    command,
    interrupted_after,
    lines,
    named_start,
    numbers,
    rewind,
    tree,
)

from lrpt.cli.command import main
from lrpt.errors import UsageError
from lrpt.runs.checkpoint import Checkpoints
from lrpt.runs.console import Console
from lrpt.runs.run_directory import InUse, RunDirectory
from lrpt.training import starting
from lrpt.training.loop import fit
from lrpt.training.run import Run
from lrpt.training.trainer import Trainer


def train(path, config=CONFIG, seed=0, console=None):
    return fit(config, {seed: path}, devices=1, console=console)[0]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The directory of an uninterrupted run."""
    path = tmp_path_factory.mktemp("whole") / "run"
    train(path)
    return path


@pytest.fixture
def run(whole, tmp_path):
    """A copy of it that may be harmed."""
    shutil.copytree(whole, tmp_path / "run")
    return tmp_path / "run"


def interrupted(path, calls, config=CONFIG):
    with interrupted_after(calls) as raised:
        train(path, config)
    return str(raised.value)


def test_a_run_is_reproducible(whole, tmp_path):
    train(tmp_path / "again")
    assert numbers(tmp_path / "again") == numbers(whole)


@pytest.mark.slow
def test_stopped_at_every_boundary(whole, tmp_path):
    said = [interrupted(tmp_path / "run", 1) for _ in range(5)]
    assert said == [f"stopped by SIGTERM at update {update}; the same command resumes there" for update in (3, 4, 7, 8, 11)]
    assert not (tmp_path / "run" / "result.json").exists()
    train(tmp_path / "run")
    assert numbers(tmp_path / "run") == numbers(whole)


def test_a_signal_does_not_hide_that_a_checkpoint_could_not_be_written(tmp_path, monkeypatch):
    def full(self, *arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Checkpoints, "save", full)
    with pytest.raises(UsageError, match="No space left on device"), interrupted_after(1):
        train(tmp_path / "run")


def test_stopped_before_the_first_call(whole, tmp_path):
    assert "at update 0" in interrupted(tmp_path / "run", 0)
    train(tmp_path / "run")
    assert numbers(tmp_path / "run") == numbers(whole)


def test_a_signal_after_the_last_update_is_not_forgotten(whole, tmp_path):
    assert "at update 11" in interrupted(tmp_path / "run", 6)
    assert numbers(tmp_path / "run") == numbers(whole)


@pytest.mark.slow
def test_checkpoints_by_the_clock(whole, tmp_path, monkeypatch):
    """Between evaluations, too: a crash without a signal loses what came after the last call that began."""
    config, calls = changed(train={"checkpoint_minutes": 1e-9}), []

    def crash(self, bar):
        calls.append(self.update)
        if len(calls) == 4:
            raise MemoryError
        return call(self, bar)

    call = Trainer._train_call
    monkeypatch.setattr(Trainer, "_train_call", crash)
    with pytest.raises(MemoryError):
        train(tmp_path / "run", config)
    assert calls == [0, 3, 4, 7]
    assert sorted(int(saved.name) for saved in (tmp_path / "run" / "checkpoints").iterdir()) == [4, 7]
    train(tmp_path / "run", config)
    assert calls[4:] == [7, 8]
    assert numbers(tmp_path / "run", config)[:2] == numbers(whole)[:2]


def test_a_checkpoint_is_due_so_many_minutes_after_the_last_one(tmp_path, monkeypatch):
    clock = SimpleNamespace(now=100.0, monotonic=lambda: clock.now)
    monkeypatch.setattr("lrpt.training.run.time", clock)
    run = Run({}, changed(train={"checkpoint_minutes": 2.0}), 0, tmp_path, Console(quiet=True))
    found = []
    for now in (219.0, 221.0):
        clock.now = now
        found.append(run.is_due)
    run.save(run.initial_state())
    for now in (340.0, 342.0):
        clock.now = now
        found.append(run.is_due)
    assert found == [False, True, False, True]


def test_halved_learning_rates_reach_the_updates_also_of_a_resumed_run(tmp_path, monkeypatch):
    """A learning rate that is lost in rounding: each evaluation but the first finds no new best and halves it."""
    config = changed(EVEN, optim={"learning_rate": 1e-30, "halve_after": 1}, train={"updates": 16})
    call, rates = Trainer._train_call, {}

    def recorded(self, bar):
        rates[self.update] = float(np.ravel(self._learning_rates)[0])
        call(self, bar)

    monkeypatch.setattr(Trainer, "_train_call", recorded)
    assert "at update 10" in interrupted(tmp_path / "run", 5, config)
    train(tmp_path / "run", config)
    halvings = dict(zip(range(0, 16, 2), (0, 0, 0, 0, 1, 1, 2, 2), strict=True))  # at updates 8 and 12
    assert rates == pytest.approx({update: 1e-30 * 0.5**count for update, count in halvings.items()}, rel=1e-6, abs=0)


@pytest.mark.parametrize("update", [4, 8, 11])
def test_crash_after_a_checkpoint(whole, run, update):
    """Lines of later updates are dropped, and written again."""
    if update == 4:  # it was removed when those of 8 and 11 had come
        shutil.rmtree(run)
        train(run, changed(train={"updates": 4}))
    rewind(run, update)
    train(run)
    assert numbers(run) == numbers(whole)


def test_half_a_line_is_dropped(whole, run):
    rewind(run, 8)
    text = (run / "metrics.jsonl").read_bytes()
    (run / "metrics.jsonl").write_bytes(text[: text.rindex(b'"split": "valid"')])
    train(run)
    assert numbers(run) == numbers(whole)


def damaged_line(text):
    return [b"\x00\xff" * 30 if i == 1 else line for i, line in enumerate(text)]


def another_number(text):
    return [line.replace(b'"loss": ', b'"loss": 1') if i == 1 else line for i, line in enumerate(text)]


@pytest.mark.parametrize("harm", [damaged_line, another_number, lambda text: text[1:], lambda text: text[:1], lambda text: []])
def test_metrics_that_were_altered_are_restored_from_the_checkpoint(whole, run, harm):
    rewind(run, 8)
    path, console = run / "metrics.jsonl", Listening()
    path.write_bytes(b"".join(line + b"\n" for line in harm(path.read_bytes().splitlines())))
    train(run, console=console)
    assert console.warnings == [f"{path} is not what this run wrote: restored from the checkpoint of update 8"]
    assert numbers(run) == numbers(whole)


def flip(checkpoint):
    """One bit of the file with the arrays."""
    (file,) = (checkpoint / "state" / "d").iterdir()
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def test_a_damaged_checkpoint_is_passed_over_with_one_warning(whole, run):
    rewind(run, 11)
    flip(run / "checkpoints" / "11")
    console = Listening()
    train(run, console=console)
    assert numbers(run) == numbers(whole)
    assert len(console.warnings) == 1
    assert "checkpoint of update 11" in console.warnings[0]
    assert "damaged" in console.warnings[0]


def test_damaged_checkpoints_do_not_stay_among_the_latest_ones(run):
    """Each would take the place of an intact one, of which two are kept."""
    rewind(run, 11)
    flip(run / "checkpoints" / "11")
    with closing(Run({"experiment": "custom", "preset": "custom"}, CONFIG, 0, run, Console(quiet=True))) as resumed:
        update = int(resumed.start().update)
        assert 0 < update < 11
        assert resumed.checkpoints.updates()[0] == update


def test_a_finished_run_is_left_alone(whole, run):
    before = tree(run)
    times = {path: path.stat().st_mtime_ns for path in run.rglob("*")}
    result = train(run)
    assert tree(run) == before
    assert {path: path.stat().st_mtime_ns for path in run.rglob("*")} == times
    assert result == json.loads((run / "result.json").read_text())


def test_a_finished_run_needs_no_data(run, monkeypatch):
    monkeypatch.setattr(type(CONFIG.data), "build", lambda *_: pytest.fail("data were made"))
    assert train(run) == json.loads((run / "result.json").read_text())


def test_a_run_that_met_its_criterion_needs_no_data(tmp_path, monkeypatch):
    monkeypatch.setattr(type(CONFIG.data), "build", lambda *_: pytest.fail("data were made"))
    run = Run({}, changed(train={"stop_below": 1.0}), 0, tmp_path, Console(quiet=True))
    assert starting.is_complete(run, {"updates": 4, "best_update": 4, "stopped": "criterion", "metrics": {"valid": {"loss": 0.5}}})


@pytest.mark.slow
def test_a_finished_command_says_so_and_returns(tmp_path, capsys):
    argv = command(tmp_path / "run")
    main(EXPERIMENT, argv)
    before = tree(tmp_path / "run")
    first = capsys.readouterr().out.splitlines()
    main(EXPERIMENT, argv)
    second = capsys.readouterr().out.splitlines()
    assert tree(tmp_path / "run") == before
    assert second[0] == f"LRD-GRU 4/2 seed 0: finished already, see {tmp_path / 'run' / 'result.json'}"
    assert second[1:] == first[-len(second) + 1 :]


def test_more_updates_continue_to_the_numbers_of_one_longer_run(tmp_path):
    short, long = (changed(train={"updates": updates}) for updates in (8, 14))
    train(tmp_path / "run", short)
    first = json.loads((tmp_path / "run" / "result.json").read_text())
    train(tmp_path / "run", long)
    train(tmp_path / "long", long)
    assert numbers(tmp_path / "run") == numbers(tmp_path / "long")
    assert first["updates"] == 8


@pytest.mark.slow
def test_a_stricter_criterion_continues(whole, tmp_path):
    """A run that met its criterion goes on where a lower loss, or none, is asked for."""
    figures = [line for line in lines(whole) if line["split"] == "valid"]
    first = train(tmp_path / "run", changed(train={"stop_below": figures[0]["loss"] + 1e-3}))
    assert (first["stopped"], first["updates"], first["metrics"]["valid"]["loss"]) == ("criterion", 4, figures[0]["loss"])
    second = train(tmp_path / "run", changed(train={"stop_below": figures[1]["loss"] + 1e-3}))
    assert (second["stopped"], second["updates"]) == ("criterion", 8)
    assert train(tmp_path / "run", changed(train={"stop_below": figures[0]["loss"]})) == second
    assert train(tmp_path / "run")["stopped"] == "updates"
    assert numbers(tmp_path / "run") == numbers(whole)


@pytest.mark.slow
def test_fewer_updates_than_were_made(tmp_path):
    """What was trained beyond is evaluated once, and kept."""
    interrupted(tmp_path / "run", 3)
    result = train(tmp_path / "run", changed(train={"updates": 5}))
    assert (result["updates"], result["best_update"]) == (7, 7)
    assert [line["update"] for line in lines(tmp_path / "run")] == [4, 4, 7, 7]
    train(tmp_path / "run")
    assert [line["update"] for line in lines(tmp_path / "run")] == [4, 4, 7, 7, 8, 8, 11, 11]


@pytest.mark.slow
def test_calls_of_another_length_differ_by_rounding(whole, tmp_path):
    interrupted(tmp_path / "run", 2)
    train(tmp_path / "run", changed(train={"updates_per_call": 2}))
    assert_close(arrays(tmp_path / "run"), arrays(whole))


@pytest.mark.slow
def test_a_damaged_best_checkpoint(tmp_path):
    """The result is then that of the latest evaluation, and says so; everything in it is of one update."""
    config = changed(optim={"recipe": "adding", "learning_rate": 0.5}, train={"updates": 16})
    config = dataclasses.replace(config, data=Apart(6, train_size=50, test_size=20))
    result = train(tmp_path / "run", config)
    assert result["best_update"] < 16, "the test needs a run whose last loss is not its best"
    assert result["metrics"]["test"] != result["metrics"]["valid"]
    flip(tmp_path / "run" / "checkpoints" / str(result["best_update"]))
    (tmp_path / "run" / "result.json").unlink()
    console = Listening()
    again = train(tmp_path / "run", config, console=console)
    assert len(console.warnings) == 1
    assert f"the best checkpoint, of update {result['best_update']}," in console.warnings[0]
    assert again["best_update"] == 16
    assert again["metrics"]["valid"]["loss"] == lines(tmp_path / "run")[-1]["loss"]
    assert again["metrics"]["test"] != result["metrics"]["test"]


def test_the_best_checkpoint_is_kept_among_equals(tmp_path):
    """A learning rate too small to change anything: all losses are the same, and the first is the best."""
    config = changed(optim={"learning_rate": 1e-30}, train={"updates": 20})
    assert train(tmp_path / "run", config)["best_update"] == 4
    assert sorted(path.name for path in (tmp_path / "run" / "checkpoints").iterdir()) == ["16", "20", "4"]


def test_another_command_between_the_check_and_the_lock_is_noticed(tmp_path, monkeypatch):
    lock, other = RunDirectory.lock, changed(optim={"learning_rate": 0.02}, train={"updates": 4})

    def lock_late(directory):
        monkeypatch.setattr(RunDirectory, "lock", lock)
        train(tmp_path / "run", other)
        lock(directory)

    monkeypatch.setattr(RunDirectory, "lock", lock_late)
    with pytest.raises(UsageError, match=r"holds a run with optim.learning_rate = 0.02, not 0.01"):
        train(tmp_path / "run")
    assert train(tmp_path / "run", other)["config"]["optim"]["learning_rate"] == 0.02
    assert [line["update"] for line in lines(tmp_path / "run")] == [4, 4]


def test_a_directory_that_another_command_has_just_made_is_left_to_it(tmp_path, monkeypatch):
    opening = RunDirectory.open

    def open_late(directory, *arguments):
        monkeypatch.setattr(RunDirectory, "open", opening)
        train(tmp_path / "run", changed(train={"updates": 4}))
        return opening(directory, *arguments)

    monkeypatch.setattr(RunDirectory, "open", open_late)
    with pytest.raises(InUse, match="another command has just begun a run in"):
        train(tmp_path / "run")
    assert json.loads((tmp_path / "run" / "result.json").read_text())["updates"] == 4


def test_a_result_without_checkpoints_is_not_dropped(run, capsys):
    shutil.rmtree(run / "checkpoints")
    before = tree(run)
    with pytest.raises(UsageError, match=f"{run} holds the result of 11 updates and no checkpoint to resume from: .*remove result.json"):
        train(run, changed(train={"updates": 20}))
    assert tree(run) == before
    (run / "result.json").unlink()
    assert train(run)["updates"] == 11
    assert f"{run} has metrics up to update 11 and no checkpoint: starts again at update 0" in capsys.readouterr().err


@pytest.mark.parametrize("groups", [{"train": {"patience": 9}}, {"optim": {"halve_after": 9}}])
def test_an_end_between_evaluations_does_not_count_in_a_longer_run(tmp_path, groups):
    short, long = (changed(changed(**groups), train={"updates": updates}) for updates in (6, 8))
    train(tmp_path / "run", short)
    with pytest.raises(UsageError, match=r"ended at update 6, no multiple of train.evaluate_every = 4.*checkpoints/6 to resume before"):
        train(tmp_path / "run", long)
    assert train(tmp_path / "run", short)["updates"] == 6
    (tmp_path / "run" / "result.json").unlink()
    shutil.rmtree(tmp_path / "run" / "checkpoints" / "6")
    train(tmp_path / "run", long)
    train(tmp_path / "long", long)
    assert numbers(tmp_path / "run", long) == numbers(tmp_path / "long", long)


def test_one_command_at_a_time(run, monkeypatch):
    """A command that waits for another tries often, so it looks at the lock before it compiles the initial state."""
    rewind(run, 8)
    before = tree(run)
    directory = RunDirectory(run)
    directory.lock()
    with monkeypatch.context() as patch:
        patch.setattr(Run, "initial_state", pytest.fail)
        with pytest.raises(InUse, match=f"another command is at work in {run}"):
            train(run)
    assert tree(run) == before
    directory.release()
    train(run)


@pytest.fixture
def started(tmp_path):
    """A finished run from a start file, and its configuration with more updates."""
    np.savez(tmp_path / "start.npz", **named_start())
    short, long = (changed(train={"updates": updates, "start": tmp_path / "start.npz"}) for updates in (4, 8))
    train(tmp_path / "run", short)
    return tmp_path, short, long


def recorded(path):
    return json.loads((path / "config.json").read_text()).get("start_sha256")


def test_a_start_file_with_other_arrays_is_refused_and_not_one_with_the_same(started):
    root, short, long = started
    np.savez_compressed(root / "start.npz", **{name: array.astype(np.float64) for name, array in reversed(named_start().items())})
    train(root / "run", long)
    np.savez(root / "start.npz", **{f"params/{name}": array for name, array in named_start().items()})  # as kept weights have it
    train(root / "run", long)
    before = tree(root / "run")
    np.savez(root / "start.npz", **{name: array + 0.1 for name, array in named_start().items()})
    for config in (short, long, changed(long, train={"updates": 12})):
        with pytest.raises(UsageError, match=f"{root / 'run'} holds a run that started from other arrays .*, or name another --workdir"):
            train(root / "run", config)
    assert tree(root / "run") == before
    (root / "start.npz").unlink()
    assert train(root / "run", long)["updates"] == 8


def test_a_run_that_recorded_no_start_arrays_is_resumed(started):
    root, _, long = started
    content = json.loads((root / "run" / "config.json").read_text())
    assert len(content.pop("start_sha256")) == 64
    (root / "run" / "config.json").write_text(json.dumps(content))
    np.savez(root / "start.npz", **{name: array + 0.1 for name, array in named_start().items()})
    assert train(root / "run", long)["updates"] == 8
    assert recorded(root / "run") is None, "the file of today may be another one than the run began with"


@pytest.mark.parametrize(("update", "end"), [(0, 4), (3, 4), (4, 8), (8, 10), (9, 10), (13, 14), (98, 99)])
def test_calls_end_where_they_end_in_a_run_that_was_never_cut(update, end):
    own = SimpleNamespace(program=SimpleNamespace(updates_per_call=4), update=update, config=SimpleNamespace(evaluate_every=10, updates=99))
    assert Trainer._next_boundary(own) == end
