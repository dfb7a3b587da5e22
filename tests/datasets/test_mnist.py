"""Tests of MNIST: the published files if they are available, and small files in their place for all failures."""

import gzip
import hashlib
import os
import struct
from functools import partial
from pathlib import Path

import mirrors
import numpy as np
import pytest

from lrpt.datasets import mnist
from lrpt.datasets.prepared import examples_of
from lrpt.tasks import PermutedImages

COUNTS = {"train": 30, "test": 12}
NAMES = [source.name for source in mnist.FILES]


def content(name):
    """Make an idx file with as many random images or labels as the split has."""
    count = COUNTS["train" if name.startswith("train") else "test"]
    shape = (count, 28, 28) if "images" in name else (count,)
    values = np.random.default_rng(len(name)).integers(0, 256 if "images" in name else 10, shape, np.uint8)
    return gzip.compress(struct.pack(f">HBB{len(shape)}I", 0, 8, len(shape), *shape) + values.tobytes(), mtime=0), values


@pytest.fixture
def published(tmp_path, monkeypatch):
    """Register small files in place of the published ones, in a directory that serves as the mirror."""
    with mirrors.empty_mirror(tmp_path, monkeypatch, mnist.load_mnist) as mirror:
        for name in NAMES:
            (mirror / name).write_bytes(content(name)[0])
        monkeypatch.setattr(mnist, "FILES", tuple(mirrors.source_of(mirror / name) for name in NAMES))
        monkeypatch.setattr(mnist, "COUNTS", COUNTS)
        yield mirror


@pytest.fixture
def user(tmp_path, published):
    """Make a user's directory with all four files."""
    directory = tmp_path / "user"
    directory.mkdir()
    for name in NAMES:
        (directory / name).write_bytes(content(name)[0])
    return directory


def offline(mirror):
    for path in mirror.iterdir():
        path.unlink()


load = partial(mirrors.load_anew, mnist.load_mnist)
message = partial(mirrors.message, load)
prepared = partial(mirrors.prepared, "lrpt_mnist")


def assert_right(arrays):
    for split, prefix in (("train", "train"), ("test", "t10k")):
        np.testing.assert_array_equal(arrays[f"{split}_images"], content(f"{prefix}-images-idx3-ubyte.gz")[1].reshape(-1, 784))
        np.testing.assert_array_equal(arrays[f"{split}_labels"], content(f"{prefix}-labels-idx1-ubyte.gz")[1])


def times(directory):
    return {path: path.stat().st_mtime_ns for path in directory.rglob("*")}


def test_files_in_the_directory_are_prepared_there_in_file_order(user, published, capsys):
    offline(published)
    assert_right(load(user))
    assert prepared(user).is_dir()
    assert "".join(capsys.readouterr()) == ""


def test_files_in_a_folder_of_that_name_are_found(user, published):
    offline(published)
    (user / "mnist").mkdir()
    for name in NAMES:
        (user / name).rename(user / "mnist" / name)
    assert_right(load(user))


def test_prepared_data_need_no_files(user, published):
    load(user)
    offline(published)
    for name in NAMES:
        (user / name).unlink()
    assert_right(load(user))


def test_a_directory_that_is_read_only_is_left_alone(user, published, tmp_path):
    offline(published)
    user.chmod(0o555)
    try:
        before = times(user)
        assert_right(load(user))
        assert times(user) == before
    finally:
        user.chmod(0o755)
    assert prepared(tmp_path / "cache" / "lrpt").is_dir()


def test_missing_files_are_downloaded(user, published):
    (user / NAMES[2]).unlink()
    assert_right(load(user))
    assert (user / "mnist" / NAMES[2]).is_file()


def test_without_a_directory_everything_is_in_the_cache(published, tmp_path):
    assert_right(load(None))
    assert {path.name for path in (tmp_path / "cache" / "lrpt" / "mnist").iterdir()} == set(NAMES)


def test_missing_files_without_a_network_are_named_with_their_place(published, tmp_path):
    offline(published)
    text = message(tmp_path / "nowhere")
    assert text.startswith(f"missing data: 4 of 4 files are not in {tmp_path / 'nowhere'} or its folder mnist")
    assert "--data.dir" in text
    assert mnist.FILES[0].name in text
    assert "`python -m lrpt.datasets mnist` prints" in text
    assert not (tmp_path / "nowhere").exists()


DAMAGE = {
    "truncated": lambda whole: whole[:-20],
    "one bit": lambda whole: whole[:9] + bytes([whole[9] ^ 4]) + whole[10:],
    "another file": lambda _: b"<html>404</html>",
    "empty": lambda _: b"",
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_file_that_is_not_the_published_one_is_named_with_both_checksums(user, damage):
    path = user / NAMES[0]
    damaged = damage(path.read_bytes())
    path.write_bytes(damaged)
    text = message(user)
    assert text.startswith(f"{path} is damaged")
    assert hashlib.sha256(damaged).hexdigest() in text
    assert mnist.FILES[0].sha256 in text
    assert mnist.FILES[0].url in text


def test_a_damaged_file_is_an_error_even_where_prepared_data_would_do(user):
    load(user)
    (user / NAMES[1]).write_bytes(b"")
    assert "is damaged" in message(user)


def test_a_download_that_is_another_file_is_not_kept(user, published):
    (user / NAMES[3]).unlink()
    (published / NAMES[3]).write_bytes(b"<html>log in first</html>")
    text = message(user)
    assert "is another file" in text
    assert mnist.FILES[3].sha256 in text
    assert not list((user / "mnist").iterdir())


@pytest.mark.skipif(os.geteuid() == 0, reason="root can read everything")
def test_a_file_that_cannot_be_read_is_named(user):
    (user / NAMES[0]).chmod(0)
    assert "cannot be read" in message(user)


def test_a_file_in_the_place_of_the_directory_is_refused(user):
    assert message(user / NAMES[0]).startswith(f"data.dir is {user / NAMES[0]}, which is a file")


def test_no_place_to_write_is_an_error(user, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    user.chmod(0o555)
    try:
        assert message(user).startswith("prepared data cannot be written to")
    finally:
        user.chmod(0o755)


def test_a_full_disk_is_an_error(user, monkeypatch):
    def full(*_, **__):
        raise RuntimeError("write() failed: No space left on device")  # like the writer of array_record

    monkeypatch.setattr(mnist.LrptMnist, "download_and_prepare", full)
    assert "No space left on device" in message(user)


def truncate(path):
    path.write_bytes(path.read_bytes()[:-200])


def flip(path):
    whole = bytearray(path.read_bytes())
    whole[len(whole) // 3] ^= 1
    path.write_bytes(whole)


@pytest.mark.parametrize("harm", [Path.unlink, truncate, flip], ids=["missing", "truncated", "one bit"])
@pytest.mark.parametrize("pattern", ["*train*", "dataset_info.json", "features.json"])
def test_a_prepared_set_that_is_damaged_is_made_again(user, pattern, harm):
    load(user)
    (path,) = prepared(user).glob(pattern)
    harm(path)
    assert_right(load(user))


class Two:
    """A prepared split of two examples."""

    def __len__(self):
        return 2

    def __getitems__(self, places):
        return ["example"] * len(places)


@pytest.mark.parametrize("count", [1, 3])
def test_a_split_of_another_number_of_examples_is_refused(count):
    assert len(examples_of({"train": Two()}, "train", 2)) == 2
    with pytest.raises(ValueError, match=f"2 examples are prepared for 'train', expected {count}"):
        examples_of({"train": Two()}, "train", count)


def test_what_a_killed_process_left_is_removed(user):
    left = prepared(user).parent / "incomplete.ABCDEF_1.0.0"
    left.mkdir(parents=True)
    (left / "part").write_bytes(b"1")
    assert_right(load(user))
    assert not left.exists()


def test_arrays_are_shared_and_cannot_be_changed(user):
    arrays = load(user)
    assert mnist.load_mnist(user) is arrays
    with pytest.raises(ValueError, match="read-only"):
        arrays["train_images"][0, 0] = 1


def test_images_task_takes_them(user, monkeypatch):
    monkeypatch.setattr("lrpt.tasks.images.MNIST_TRAIN", 20)
    task = PermutedImages("mnist", dir=user, permuted=False).build(0)
    assert [task.splits[name].size for name in ("train", "valid", "test")] == [20, 10, 12]
    images, labels = content(NAMES[0])[1], content(NAMES[1])[1]
    example = task.splits["valid"].example(task.splits["valid"].arrays, 3)
    np.testing.assert_array_equal(example.inputs[:, 0], images[23].reshape(-1) / np.float32(256))
    assert example.targets == labels[23]


# Known class counts of the published files, and the mean that is commonly used to normalize them.
TRAIN_CLASSES = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
TEST_CLASSES = [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]


def test_the_published_files(data_dir, tmp_path):
    (tmp_path / "mnist").symlink_to(data_dir / "mnist")
    arrays = load(tmp_path)
    assert {name: array.shape for name, array in arrays.items()} == {
        "train_images": (60_000, 784), "train_labels": (60_000,), "test_images": (10_000, 784), "test_labels": (10_000,)
    }  # fmt: skip
    np.testing.assert_array_equal(np.bincount(arrays["train_labels"]), TRAIN_CLASSES)
    np.testing.assert_array_equal(np.bincount(arrays["test_labels"]), TEST_CLASSES)
    np.testing.assert_array_equal(arrays["train_labels"][:5], [5, 0, 4, 1, 9])
    assert abs(arrays["train_images"].mean() / 255 - 0.1307) < 5e-5

    task = PermutedImages("mnist", dir=tmp_path).build(0)
    assert {name: split.size for name, split in task.splits.items()} == {"train": 50_000, "valid": 10_000, "test": 10_000}
    assert task.splits["train"].example(task.splits["train"].arrays, 0).inputs.max() == 255 / 256
