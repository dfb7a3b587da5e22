"""Runs that one machine leaves unfinished and another one goes on with: their archives."""

import errno
import io
import json
import shutil
import tarfile
from pathlib import Path

import pytest
from kept_runs import write
from tiny import CONFIG, assert_same_run, changed, interrupted_after

from experiments import char_lm
from experiments.report.kept.collecting import collect
from experiments.reproduce import archives
from experiments.reproduce.archives import LARGEST, archive_of, keep, newest, restore
from lrpt.cli.flags import parse
from lrpt.errors import UsageError
from lrpt.runs.checkpoint import SEAL
from lrpt.runs.console import Console
from lrpt.runs.layout import OLDER
from lrpt.runs.run_directory import InUse, RunDirectory
from lrpt.training.loop import Job, fit, is_finished

pytestmark = pytest.mark.slow

NAMES = {"experiment": "copy_memory", "preset": "quick"}
TRAIN = {"updates": 4, "batch_size": 4, "evaluate_every": 2, "updates_per_call": 1}


@pytest.fixture
def stopped(tmp_path):
    """Return the directory of a run that a signal ended after two calls."""
    path = tmp_path / "first" / "copy_memory" / "quick-seed0"
    with interrupted_after(2):
        fit(CONFIG, {0: path}, names=NAMES, devices=1)
    return path


@pytest.fixture
def further(stopped, tmp_path):
    """Return the directory of the same run on another machine, which came further and is not finished either."""
    path = tmp_path / "second" / "copy_memory" / "quick-seed0"
    shutil.copytree(stopped, path)
    with interrupted_after(1):
        fit(CONFIG, {0: path}, names=NAMES, devices=1)
    return path


def checkpoints(path):
    return sorted(int(folder.name) for folder in (path / "checkpoints").iterdir() if folder.name.isdecimal())


def damage(path, update):
    """Flip a bit in the largest file of a checkpoint."""
    files = (file for file in (path / "checkpoints" / str(update) / "state").rglob("*") if file.is_file())
    largest = max(files, key=lambda file: file.stat().st_size)
    content = bytearray(largest.read_bytes())
    content[len(content) // 2] ^= 0x40
    largest.write_bytes(content)


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


def test_the_one_that_went_further_is_unpacked_and_the_other_one_moved_aside(stopped, further, tmp_path):
    older, archives = checkpoints(stopped), tmp_path / "archives"
    keep(further, archives)
    found = restore(stopped, archives)
    assert (found.update, found.aside) == (checkpoints(further)[-1], stopped.with_name(f"{stopped.name}.1{OLDER}"))
    assert (checkpoints(stopped), checkpoints(found.aside)) == (checkpoints(further), older)
    assert restore(stopped, archives) is None
    collect(stopped.parent, tmp_path / "results", Console(quiet=True), weights=False)
    assert [path.name for path in (tmp_path / "results" / "copy_memory").iterdir()] == [stopped.name]


def test_an_archive_that_went_further_is_not_replaced(stopped, further, tmp_path):
    keep(stopped, tmp_path / "archives")
    archive = keep(further, tmp_path / "archives")
    before = archive.read_bytes()
    assert newest(stopped, tmp_path / "archives") == checkpoints(further)[-1] > checkpoints(stopped)[-1]
    assert keep(stopped, tmp_path / "archives") == archive
    assert archive.read_bytes() == before


@pytest.mark.parametrize(("name", "content"), [("result.json", {"updates": 11}), ("failure.json", {"update": 9})])
def test_a_run_that_has_ended_is_not_replaced_even_if_its_checkpoints_were_removed(name, content, stopped, further, tmp_path):
    keep(further, tmp_path / "archives")
    shutil.rmtree(stopped / "checkpoints")
    write(stopped / name, content)
    assert restore(stopped, tmp_path / "archives") is None


def test_a_run_in_progress_is_not_moved(stopped, further, tmp_path):
    keep(further, tmp_path / "archives")
    other = RunDirectory(stopped)
    other.lock()
    with pytest.raises(InUse):
        restore(stopped, tmp_path / "archives")
    other.release()
    assert [path.name for path in stopped.parent.iterdir()] == [stopped.name]


def test_a_damaged_checkpoint_is_not_packed(further, tmp_path):
    """It would get a seal of its damaged content. Without an intact one, nothing is packed, and the archive that is there stays."""
    *earlier, last = checkpoints(further)
    damage(further, last)
    said = []
    archive = keep(further, tmp_path / "archives", said.append)
    assert newest(further, tmp_path / "archives") == earlier[-1]
    assert said == [f"the checkpoint of update {last} in {further} is damaged: it is not packed"]
    for update in earlier:
        damage(further, update)
    before = archive.read_bytes()
    assert keep(further, tmp_path / "archives").read_bytes() == before
    archive.unlink()
    with pytest.raises(UsageError, match="every checkpoint is damaged"):
        keep(further, tmp_path / "archives")


def test_a_checkpoint_of_another_run_is_not_packed(further, tmp_path):
    """Its files match its seal, but its parameters are not of this run."""
    *earlier, last = checkpoints(further)
    path = further / "checkpoints" / str(last) / SEAL
    path.write_text(json.dumps({**json.loads(path.read_text()), "run": "another"}))
    keep(further, tmp_path / "archives")
    assert newest(further, tmp_path / "archives") == earlier[-1]


def test_a_checkpoint_that_is_damaged_is_no_progress(stopped, further, tmp_path):
    keep(stopped, tmp_path / "archives")
    for update in checkpoints(further):
        damage(further, update)
    assert restore(further, tmp_path / "archives").update == checkpoints(stopped)[-1]


@pytest.mark.parametrize("name", [".1.removed", ".99", "99"])
def test_what_is_left_of_a_checkpoint_is_not_packed(name, stopped, tmp_path):
    """A process died while it removed or wrote the checkpoint: there is a seal, and no file of those it names."""
    half = stopped / "checkpoints" / name
    half.mkdir()
    shutil.copy(stopped / "checkpoints" / str(checkpoints(stopped)[0]) / "seal.json", half)
    with tarfile.open(keep(stopped, tmp_path / "archives")) as archive:
        assert not any(f"/{name}/" in member for member in archive.getnames())


def test_a_run_without_a_file_is_named(stopped, tmp_path):
    (stopped / "environment.json").unlink()
    with pytest.raises(UsageError, match=r"quick-seed0 cannot be packed \(No such file"):
        keep(stopped, tmp_path / "archives")


def test_a_run_on_a_file_of_the_user_goes_on_where_the_file_has_another_path(tmp_path):
    """The archive says PATH. The file of the plan takes its place, and another text is refused by its digest."""
    texts = [tmp_path / "a" / "book.txt", tmp_path / "b" / "book.txt", tmp_path / "c" / "book.txt"]
    for text in texts:
        write(text, "".join(f"line {i} of a book\n" for i in range(60)) + "another" * (text == texts[2]))
    own, other, wrong = (
        changed(parse(char_lm.EXPERIMENT, ["--data.steps", "10"]).config, data={"file": text}, train=TRAIN, model={"size": 4, "rank": 2})
        for text in texts
    )
    names, path = {"experiment": "char_lm", "preset": "quick"}, tmp_path / "runs" / "char_lm" / "quick-seed0"
    with interrupted_after(1):
        fit(own, {0: path}, names=names, devices=1)
    keep(path, tmp_path / "archives")
    moved = tmp_path / "second" / "char_lm" / "quick-seed0"
    restore(moved, tmp_path / "archives", other)
    assert json.loads((moved / "config.json").read_text())["data"]["file"] == str(texts[1])
    assert not is_finished(Job(other, 0, moved), names)
    shutil.rmtree(moved)
    restore(moved, tmp_path / "archives", wrong)
    with pytest.raises(UsageError, match="holds a run on a text with SHA-256"):
        fit(wrong, {0: moved}, names=names, devices=1)


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


def test_a_full_disk_is_no_damage_of_the_archive(stopped, tmp_path, monkeypatch):
    keep(stopped, tmp_path / "archives")
    moved = tmp_path / "second" / "copy_memory" / "quick-seed0"

    def full(path, *_, **__):
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(UsageError, match=r"second/copy_memory/quick-seed0 cannot be written \(No space left on device\): free space"):
        restore(moved, tmp_path / "archives")
    assert not list(moved.parent.iterdir())


def test_nothing_is_left_of_an_unpacking_that_was_killed(stopped, tmp_path):
    keep(stopped, tmp_path / "archives")
    moved = tmp_path / "second" / "copy_memory" / "quick-seed0"
    stale = moved.with_name(f".{moved.name}.unpacking") / "run" / "checkpoints" / "99"
    stale.mkdir(parents=True)
    assert restore(moved, tmp_path / "archives")
    assert not (moved / "checkpoints" / "99").exists()
    assert list(moved.parent.iterdir()) == [moved]


def test_an_archive_that_another_command_unpacks_is_left_to_it(stopped, tmp_path):
    keep(stopped, tmp_path / "archives")
    moved = tmp_path / "second" / "copy_memory" / "quick-seed0"
    place = moved.with_name(f".{moved.name}.unpacking")
    (place / "run").mkdir(parents=True)
    other = RunDirectory(place)
    other.lock()
    with pytest.raises(InUse, match="another command is at work in"):
        restore(moved, tmp_path / "archives")
    assert (place / "run").exists()
    other.release()
    assert restore(moved, tmp_path / "archives")


def test_an_archive_that_another_command_has_just_unpacked_is_not_unpacked_again(stopped, tmp_path, monkeypatch):
    """It would move aside the run, which the other command is about to train."""
    keep(stopped, tmp_path / "archives")
    moved = tmp_path / "second" / "copy_memory" / "quick-seed0"
    reading = archives._files_in

    def slowly(*arguments):
        monkeypatch.setattr(archives, "_files_in", reading)
        assert restore(moved, tmp_path / "archives")
        return reading(*arguments)

    monkeypatch.setattr(archives, "_files_in", slowly)
    assert restore(moved, tmp_path / "archives") is None
    assert list(moved.parent.iterdir()) == [moved]


def test_a_run_that_is_too_large(stopped, tmp_path, monkeypatch):
    monkeypatch.setattr("experiments.reproduce.archives.LARGEST", 100)
    with pytest.raises(UsageError, match=f"of at most 100: keep {stopped} itself"):
        keep(stopped, tmp_path / "archives")
    assert not (tmp_path / "archives").exists()
