"""Storage that fails: a full disk, a directory that must not be written, a clock that goes backwards.

What is intact is used, what is not is named. Damaged and truncated checkpoints are in test_checkpoint.py, half-written lines and files in
test_run_directory.py, processes that are killed while they write in test_kill.py.
"""

import builtins
import errno
import io
import os
import shutil
import stat
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from tiny import EVEN, EXPERIMENT, command, numbers, tree

from lrpt.cli.command import main
from lrpt.runs import checkpoint, files, weights
from lrpt.runs.checkpoint import Checkpoints
from lrpt.runs.files import naming, write_bytes, write_text
from lrpt.runs.run_directory import RunDirectory

train = partial(main, EXPERIMENT)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The directory of a run that nothing disturbed."""
    path = tmp_path_factory.mktemp("whole") / "run"
    train(command(path, EVEN))
    return path


def full(*_, **__):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def space_for_a_checkpoint(monkeypatch, calls):
    """There is space for so many, and for none after them."""
    left, reserve = iter([True] * calls), os.posix_fallocate
    monkeypatch.setattr("os.posix_fallocate", lambda *args: reserve(*args) if next(left, False) else full())


def space_for_a_seal(monkeypatch, calls):
    left, write = iter([True] * calls), checkpoint.write_json
    monkeypatch.setattr(checkpoint, "write_json", lambda *args: write(*args) if next(left, False) else full())


class Full(io.TextIOWrapper):
    """A file of which the last write reaches the disk by half."""

    def writelines(self, lines):
        text = "".join(lines)
        self.write(text[: len(text) // 2])
        self.flush()
        full()


def space_for_metrics(monkeypatch, calls):
    left, opened = iter([True] * calls), builtins.open

    def open_(path, mode="r", *args, **kwargs):
        if Path(path).name == "metrics.jsonl" and mode == "a" and not next(left, False):
            return Full(opened(path, "ab"))
        return opened(path, mode, *args, **kwargs)

    monkeypatch.setattr("pathlib.Path.open", lambda self, mode="r", *args, **kwargs: open_(self, mode, *args, **kwargs))


def test_an_error_that_is_not_of_the_system_keeps_its_text(tmp_path):
    with pytest.raises(OSError, match=r"^nothing to do with a disk$"), naming(tmp_path):
        raise OSError("nothing to do with a disk")
    with pytest.raises(OSError, match=f"{os.strerror(errno.ENOSPC)}: '{tmp_path}'"), naming(tmp_path):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.skipif(os.name != "posix", reason="this system cannot sync a directory")
def test_a_file_is_on_disk_before_it_takes_its_place_and_its_name_after_it(tmp_path, monkeypatch):
    """Else a power failure could leave an empty file in the place of the old one."""
    done, sync, replace = [], os.fsync, Path.replace

    def kept(descriptor):
        content = (
            sorted(path.name for path in tmp_path.iterdir()) if stat.S_ISDIR(os.fstat(descriptor).st_mode) else os.pread(descriptor, 9, 0)
        )
        done.append(content)
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", kept)
    monkeypatch.setattr(Path, "replace", lambda *paths: done.append("replace") or replace(*paths))
    for write, content in ((write_text, "text"), (write_bytes, b"bytes")):
        write(tmp_path / "file", content)
    assert done == [b"text", "replace", ["file"], b"bytes", "replace", ["file"]]


def test_two_processes_that_write_one_file_do_not_meet(tmp_path, monkeypatch):
    """As two commands that write one summary: one writes the whole file while the other is about to rename its own."""
    processes, sync = iter((1, 2)), files.sync
    monkeypatch.setattr(os, "getpid", lambda: next(processes, 3))

    def interrupted(path):
        monkeypatch.setattr(files, "sync", sync)
        write_text(tmp_path / "file", "of the second")
        sync(path)

    monkeypatch.setattr(files, "sync", interrupted)
    write_text(tmp_path / "file", "of the first")
    assert tree(tmp_path) == {"file": b"of the first"}


def test_metrics_are_on_disk_before_a_checkpoint_follows_them(tmp_path, monkeypatch):
    """Else a power failure could leave a checkpoint without the metrics before it."""
    synced = []
    monkeypatch.setattr(os, "fsync", lambda at: synced.append(os.fstat(at).st_size))
    RunDirectory(tmp_path).append_metrics([{"update": 4, "split": "valid", "loss": 1.0}])
    assert synced == [(tmp_path / "metrics.jsonl").stat().st_size]


@pytest.mark.parametrize("written", [0, 1])
def test_a_death_while_weights_are_kept_leaves_none(tmp_path, monkeypatch, written):
    class Death(BaseException):
        pass

    left = iter([True] * written)

    def dying(write, path, content):
        if not next(left, False):
            raise Death
        write(path, content)

    with monkeypatch.context() as patch:
        for name in ("write_bytes", "write_json"):
            patch.setattr(weights, name, partial(dying, getattr(weights, name)))
        with pytest.raises(Death):
            weights.keep(tmp_path, b"arrays", {"update": 4})
    assert not weights.are_kept(tmp_path)


def test_a_file_system_that_cannot_sync_directories(tmp_path, monkeypatch):
    sync = os.fsync
    monkeypatch.setattr(os, "fsync", lambda at: full() if stat.S_ISDIR(os.fstat(at).st_mode) else sync(at))
    write_text(tmp_path / "file", "text")
    assert (tmp_path / "file").read_text() == "text"


def test_a_checkpoint_is_on_disk_before_it_is_visible(tmp_path, monkeypatch):
    synced, rename = [], Path.rename
    monkeypatch.setattr(os, "fsync", lambda at: synced.append(os.fstat(at).st_ino))

    def visible(hidden, path):
        assert {entry.stat().st_ino for entry in (hidden, *hidden.rglob("*"))} <= {*synced}
        synced.clear()
        return rename(hidden, path)

    monkeypatch.setattr(Path, "rename", visible)
    Checkpoints(tmp_path, pytest.fail).save(1, {"a": np.ones(3)}, {})
    assert synced == [tmp_path.stat().st_ino]


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="this system cannot reserve space")
@pytest.mark.parametrize("space", [space_for_a_checkpoint, space_for_a_seal, space_for_metrics])
def test_a_disk_that_is_full(whole, tmp_path, capfd, monkeypatch, assert_refused, space):
    """The second checkpoint, its seal, or the figures before it find no space; with space the same command ends as if nothing had been."""
    path = tmp_path / "run"
    with monkeypatch.context() as patch:
        space(patch, 1)
        kept = "what was written before is intact, and the same command resumes from it"
        assert_refused(train, command(path, EVEN), "No space left on device", kept, code=1, printed=True)
    assert {"4"} <= {entry.name for entry in (path / "checkpoints").glob("[0-9]*")} <= {"4", "8"}
    train(command(path, EVEN))
    warnings = [line for line in capfd.readouterr().err.splitlines() if "update 8" in line]
    assert not warnings
    assert numbers(path, EVEN) == numbers(whole, EVEN)


def test_a_run_that_must_not_be_written(whole, tmp_path, monkeypatch, assert_refused):
    """One line that names the directory; nothing in it changes. (The administrator may write everywhere, so the answer is made up.)"""
    path = tmp_path / "run"
    shutil.copytree(whole, path)
    (path / "result.json").unlink()
    before = tree(path)

    def refuse(*_):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    with monkeypatch.context() as patch:
        patch.setattr("lrpt.runs.files.write_text", refuse)
        says = f"{path} cannot be written (Permission denied): make it writable, or name another directory with --workdir"
        assert_refused(train, command(path, EVEN), says, code=1, printed=True)
    assert tree(path) == before


def test_a_finished_run_that_must_not_be_written_is_read(whole, tmp_path, capfd, monkeypatch):
    monkeypatch.setattr("lrpt.runs.files.write_text", full)
    main(EXPERIMENT, command(whole, EVEN))
    assert "finished already" in capfd.readouterr().out


@pytest.mark.slow
def test_the_date_goes_backwards(whole, tmp_path, monkeypatch):
    """From one look at the clock to the next, in the middle of a run, and between its checkpoints: nothing depends on it."""
    now = iter(range(2_000_000_000, 0, -1000))
    monkeypatch.setattr("time.time", lambda: float(next(now)))
    monkeypatch.setattr("time.time_ns", lambda: next(now) * 10**9)
    main(EXPERIMENT, command(tmp_path / "run", EVEN))
    assert numbers(tmp_path / "run", EVEN) == numbers(whole, EVEN)


def test_checkpoints_are_in_the_order_of_updates_whatever_their_dates(whole, tmp_path):
    shutil.copytree(whole / "checkpoints", tmp_path / "checkpoints")
    for age, name in enumerate(("12", "8")):
        for file in (tmp_path / "checkpoints" / name).rglob("*"):
            os.utime(file, (10**9 * (age + 1), 10**9 * (age + 1)))
    checkpoints = Checkpoints(tmp_path / "checkpoints", pytest.fail)
    assert checkpoints.updates()[0] == 12
