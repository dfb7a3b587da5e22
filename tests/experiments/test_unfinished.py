"""Runs that one machine leaves unfinished and another one goes on with: their archives."""

import io
import shutil
import tarfile

import pytest
from tiny import CONFIG, assert_same_run, interrupted_after

from experiments.reproduce.archives import LARGEST, archive_of, keep, restore
from lrpt.errors import UsageError
from lrpt.training.loop import fit

pytestmark = pytest.mark.slow

NAMES = {"experiment": "copy_memory", "preset": "quick"}


@pytest.fixture
def stopped(tmp_path):
    """Return the directory of a run that a signal ended after two calls."""
    path = tmp_path / "first" / "copy_memory" / "quick-seed0"
    with interrupted_after(2):
        fit(CONFIG, {0: path}, names=NAMES, devices=1)
    return path


def packed(path, files):
    path.parent.mkdir(parents=True)
    with tarfile.open(path, "w:xz") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))


def test_another_machine_ends_with_the_same_numbers(stopped, tmp_path):
    keep(stopped, tmp_path / "archives")
    moved = tmp_path / "second" / "copy_memory" / "quick-seed0"
    assert restore(moved, tmp_path / "archives")
    for path in (stopped, moved):
        fit(CONFIG, {0: path}, names=NAMES, devices=1)
    assert_same_run(moved, stopped)


def test_no_path_of_a_machine_is_kept(stopped, tmp_path):
    with tarfile.open(keep(stopped, tmp_path / "archives")) as archive:
        contents = [archive.extractfile(member).read() for member in archive.getmembers()]
    assert len(contents) > 5
    assert not any(str(tmp_path).encode() in content for content in contents)


def test_what_is_there_is_left_alone(stopped, tmp_path):
    keep(stopped, tmp_path / "archives")
    before = (stopped / "metrics.jsonl").read_bytes()
    assert not restore(stopped, tmp_path / "archives")
    assert not restore(stopped.with_name("another"), tmp_path / "archives")
    assert (stopped / "metrics.jsonl").read_bytes() == before


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({"../outside": b""}, "holds '../outside', which is no file of a run"),
        ({"checkpoints/../../outside": b""}, "holds 'checkpoints/../../outside', which is no file of a run"),
        ({"result.json": b"{}"}, "holds 'result.json'"),
        ({"checkpoints/1/state": bytes(10 * LARGEST + 1)}, "unpacks to 50,000,001 bytes"),
    ],
)
def test_strange_archives(files, says, tmp_path):
    path = tmp_path / "runs" / "copy_memory" / "quick-seed0"
    packed(archive_of(path, tmp_path), files)
    with pytest.raises(UsageError, match=says):
        restore(path, tmp_path)
    assert not path.exists()
    assert not (tmp_path / "runs").exists()


def test_a_damaged_archive(stopped, tmp_path):
    archive = keep(stopped, tmp_path / "archives")
    shutil.rmtree(stopped)
    archive.write_bytes(archive.read_bytes()[:500])
    with pytest.raises(UsageError, match="is damaged"):
        restore(stopped, tmp_path / "archives")
    assert not list(stopped.parent.iterdir())


def test_nothing_is_left_of_an_unpacking_that_was_killed(stopped, tmp_path):
    keep(stopped, tmp_path / "archives")
    moved = tmp_path / "second" / "copy_memory" / "quick-seed0"
    stale = moved.with_name(f".{moved.name}.unpacking") / "checkpoints" / "99"
    stale.mkdir(parents=True)
    assert restore(moved, tmp_path / "archives")
    assert not (moved / "checkpoints" / "99").exists()


def test_a_run_that_is_too_large(stopped, tmp_path, monkeypatch):
    monkeypatch.setattr("experiments.reproduce.archives.LARGEST", 100)
    with pytest.raises(UsageError, match=f"of at most 100: keep {stopped} itself"):
        keep(stopped, tmp_path / "archives")
    assert not (tmp_path / "archives").exists()
