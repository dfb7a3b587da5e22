"""Tests of the Penn Treebank: the published files if they are available, and small files in their place for failures."""

import hashlib
from functools import partial

import mirrors
import numpy as np
import pytest

from lrpt.datasets import ptb
from lrpt.tasks import NextSymbol

SENTENCES = {"train": 60, "valid": 5, "test": 7}
NAMES = [source.name for source in ptb.FILES]


def content(name):
    """Make lines in the published form, each between two blanks. Splits differ."""
    return "".join(f" {name} <unk> {number} \n" for number in range(SENTENCES[name.split(".")[1]])).encode()


@pytest.fixture
def published(tmp_path, monkeypatch):
    """Register small files in place of the published ones, in a directory that serves as the mirror."""
    with mirrors.empty_mirror(tmp_path, monkeypatch, ptb.load_ptb) as mirror:
        for name in NAMES:
            (mirror / name).write_bytes(content(name))
        monkeypatch.setattr(ptb, "FILES", tuple(mirrors.source_of(mirror / name) for name in NAMES))
        monkeypatch.setattr(ptb, "SENTENCES", SENTENCES)
        yield mirror


@pytest.fixture
def user(tmp_path, published):
    """Make a user's directory with all three files; the mirror has none."""
    directory = tmp_path / "user"
    published.rename(directory)
    return directory


load = partial(mirrors.load_anew, ptb.load_ptb)
message = partial(mirrors.message, load)
prepared = partial(mirrors.prepared, "lrpt_ptb")


def assert_right(texts):
    assert texts == {name.split(".")[1]: "".join(f"{line.strip()}\n" for line in content(name).decode().splitlines()) for name in NAMES}


def test_files_in_the_directory_are_prepared_there(user, capsys):
    assert_right(load(user))
    assert prepared(user).is_dir()
    assert "".join(capsys.readouterr()) == ""


def test_files_in_a_folder_of_that_name_are_found(user):
    (user / "ptb").mkdir()
    for name in NAMES:
        (user / name).rename(user / "ptb" / name)
    assert_right(load(user))


def test_prepared_data_need_no_files(user):
    load(user)
    for name in NAMES:
        (user / name).unlink()
    assert_right(load(user))


def test_missing_files_are_downloaded(published, tmp_path):
    assert_right(load(None))
    assert {path.name for path in (tmp_path / "cache" / "lrpt" / "ptb").iterdir()} == set(NAMES)


def test_missing_files_without_a_network_are_named_with_their_place(user, tmp_path):
    text = message(tmp_path / "nowhere")
    assert text.startswith(f"missing data: 3 of 3 files are not in {tmp_path / 'nowhere'} or its folder ptb")
    assert "--data.dir" in text
    assert ptb.FILES[0].name in text
    assert "`python -m lrpt.datasets ptb` prints" in text


def test_a_file_that_is_not_the_published_one_is_named_with_both_checksums(user):
    path = user / NAMES[0]
    path.write_bytes(content(NAMES[0])[:-9])
    text = message(user)
    assert text.startswith(f"{path} is damaged")
    assert hashlib.sha256(path.read_bytes()).hexdigest() in text
    assert ptb.FILES[0].sha256 in text


@pytest.mark.parametrize("pattern", ["*train*", "dataset_info.json"])
def test_a_prepared_set_that_is_damaged_is_made_again(user, pattern):
    load(user)
    (path,) = prepared(user).glob(pattern)
    path.write_bytes(path.read_bytes()[:-60])
    assert_right(load(user))


@pytest.mark.parametrize("number", [6, 8])
def test_a_prepared_set_of_another_number_of_sentences_is_made_again(user, monkeypatch, number):
    monkeypatch.setattr(ptb, "SENTENCES", SENTENCES | {"test": number})
    with pytest.raises(ValueError, match=f"7 sentences are prepared for 'test', expected {number}"):
        load(user)
    monkeypatch.setattr(ptb, "SENTENCES", SENTENCES)
    assert_right(load(user))


def test_the_task_takes_them(user):
    task = NextSymbol("ptb", dir=user).build(0)
    assert {name: split.size for name, split in task.splits.items()} == SENTENCES
    assert task.metadata["text"] == "ptb"


def predictions(task):
    return {name: int(np.sum(split.arrays["lengths"])) for name, split in task.splits.items()}


@pytest.fixture
def files(data_dir, tmp_path):
    (tmp_path / "ptb").symlink_to(data_dir / "ptb")
    return tmp_path


# Known counts of the published files: 5,017,482 / 393,042 / 442,423 characters with line ends, 10,000 different words.
def test_the_published_files(files):
    texts = load(files)
    assert {name: len(text) for name, text in texts.items()} == {"train": 5_017_482, "valid": 393_042, "test": 442_423}
    assert {name: len(text.split()) + text.count("\n") for name, text in texts.items()} == {
        "train": 929_589, "valid": 73_760, "test": 82_430
    }  # fmt: skip
    assert len(set(texts["train"].split())) + 1 == 10_000


def test_sentences_as_the_paper_s_gru_reads_them(files):
    task = NextSymbol("ptb", dir=files).build(0)
    assert task.input_size == task.output_size == 51
    assert {name: split.size for name, split in task.splits.items()} == {"train": 42_067, "valid": 3_370, "test": 3_761}
    assert predictions(task) == {"train": 5_017_482 - 519, "valid": 393_042, "test": 442_423}
    assert task.metadata["lines_too_long"] == {"train": 1, "valid": 0, "test": 0}
    assert task.metadata["unknown_symbols"] == {"train": 0, "valid": 0, "test": 0}
    first = task.splits["test"].example(task.splits["test"].arrays, np.int32(0))
    assert task.vocabulary.decode(np.asarray(first.targets)).startswith("no it was n't black monday\n")
    valid = NextSymbol("ptb", dir=files, max_length=391).build(0).splits["valid"]
    assert valid.size == 3_370


def test_a_stream_as_the_paper_s_lstm_reads_it(files):
    task = NextSymbol("ptb", dir=files, tokens="lstm", reading="stream").build(0)
    assert task.input_size == 49
    assert task.splits["test"].size == -(-423_247 // 35)
    assert predictions(task)["test"] == 423_247
    assert task.metadata["unknown_symbols"]["test"] == 4_794
