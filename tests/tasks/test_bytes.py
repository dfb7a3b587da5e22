"""Tests of files as bytes: windows, alphabets, prefixes, and small files in place of enwik8 and text8."""

import hashlib
from zipfile import ZipFile

import numpy as np
import pytest
from mirrors import empty_mirror, source_of
from test_text import PARTS, examples, predicted, uniform_metrics

from lrpt.datasets import wikipedia
from lrpt.errors import UsageError
from lrpt.tasks import NextByte
from lrpt.tasks.bytes import cut_bytes

CONTENT = bytes(np.random.default_rng(0).choice(np.frombuffer(b"<ab\n\xc3\xa9\x00\xff>", np.uint8), 2_000))
LETTERS = bytes(np.random.default_rng(1).choice(np.frombuffer(b" abxyz", np.uint8), 2_000))


def task_of(tmp_path, content=CONTENT, **options):
    path = tmp_path / "file"
    path.write_bytes(content)
    return NextByte(file=path, **options).build(0)


def bytes_of(task, part):
    """Return the bytes that a split predicts."""
    numbers = np.concatenate(predicted(examples(task.splits[part])))
    return bytes(ord(task.vocabulary.symbols[number]) for number in numbers)


@pytest.mark.parametrize("size", [2_000, 1_999, 60])
def test_parts_are_90_5_and_5_percent_in_file_order(size):
    parts = cut_bytes(CONTENT[:size])
    assert list(parts) == list(PARTS)
    assert b"".join(parts.values()) == CONTENT[:size]
    assert len(parts["train"]) == size * 9 // 10
    assert len(parts["valid"]) + len(parts["train"]) == size * 19 // 20


@pytest.mark.parametrize("steps", [1, 70])
def test_windows_of_a_file_are_its_bytes(tmp_path, steps):
    task = task_of(tmp_path, steps=steps)
    assert task.streams
    assert task.input_size == task.output_size == len(task.vocabulary) == len(set(CONTENT))
    train, valid, test = (bytes_of(task, part) for part in PARTS)
    assert len(train) == 1_800 - 1_800 % steps
    assert train + CONTENT[len(train) : 1_800] + valid + test == CONTENT
    assert task.metadata["bytes"] == {"train": 1_800, "valid": 100, "test": 100}
    assert "prefix" not in task.metadata


def test_figures_are_in_bits(tmp_path):
    task = task_of(tmp_path)
    assert uniform_metrics(task)["bits_per_character"] == pytest.approx(np.log2(task.output_size), rel=1e-5)


def test_symbols_are_the_bytes_of_all_splits(tmp_path):
    """Bytes that only the test split has are symbols too, and part of the digest."""
    content = CONTENT[:-1] + b"z"
    task = task_of(tmp_path, content)
    assert "".join(task.vocabulary.symbols).encode("latin-1") == bytes(sorted({*content}))
    assert bytes_of(task, "test") == content[1_900:]
    assert task.metadata["sha256"] == hashlib.sha256(content).hexdigest()


def test_letters_of_text8_are_27_whatever_the_file_has(tmp_path):
    task = task_of(tmp_path, LETTERS, source="text8")
    assert task.input_size == 27
    assert "".join(task.vocabulary.symbols) == " abcdefghijklmnopqrstuvwxyz"
    assert bytes_of(task, "test") == LETTERS[1_900:]


def test_what_is_not_of_text8_is_named_with_its_place(tmp_path):
    with pytest.raises(UsageError, match=r"which has more than small letters and blanks \(byte 0x41 at position 3\): name text8"):
        task_of(tmp_path, b"ab A" + LETTERS, source="text8")


@pytest.mark.parametrize("source", ["enwik8", "text8"])
def test_a_file_that_is_not_the_whole_is_a_prefix(tmp_path, source):
    task = task_of(tmp_path, LETTERS, source=source)
    assert task.metadata["prefix"] == f"2,000 bytes that are not the published {source}: no result on {source}"


def test_files_that_cannot_be_read_or_are_too_small(tmp_path):
    with pytest.raises(UsageError, match=r"which cannot be read \(No such file"):
        NextByte(file=tmp_path / "nowhere").build(0)
    with pytest.raises(UsageError, match=r"data.file is .*, which holds no text: name a file"):
        task_of(tmp_path, b"")
    with pytest.raises(UsageError, match=r"data.steps is 50, and the train split has 36 symbols: .*fewer --data.steps"):
        task_of(tmp_path, CONTENT[:40])


def test_python_is_the_default_and_needs_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    task = NextByte().build(0)
    assert 60 < task.input_size < 256
    assert task.metadata["bytes"]["train"] > 200_000
    assert not list(tmp_path.iterdir())


@pytest.fixture
def published(tmp_path, monkeypatch):
    """Register archives of 2,000 bytes in place of the published ones, in a directory that serves as the mirror."""
    with empty_mirror(tmp_path, monkeypatch, wikipedia.load_wikipedia) as mirror:
        corpora = {}
        for name, content in (("enwik8", CONTENT), ("text8", LETTERS)):
            archive = mirror / f"{name}.zip"
            with ZipFile(archive, "w") as file:
                file.writestr(name, content)
            md5 = hashlib.md5(content, usedforsecurity=False).hexdigest()
            corpora[name] = wikipedia.Corpus(source_of(archive), md5, wikipedia.CORPORA[name].alphabet)
        monkeypatch.setattr(wikipedia, "CORPORA", corpora)
        monkeypatch.setattr(wikipedia, "CHUNK", 20)
        yield mirror


@pytest.mark.parametrize(("name", "content"), [("enwik8", CONTENT), ("text8", LETTERS)])
def test_archives_are_prepared_once_and_cut_at_90_and_95_percent(published, name, content):
    assert wikipedia.load_wikipedia(name, published) == cut_bytes(content)
    wikipedia.load_wikipedia.cache_clear()
    (published / f"{name}.zip").unlink()
    assert wikipedia.load_wikipedia(name, published) == cut_bytes(content)
    task = NextByte(name, dir=published, steps=10).build(0)
    assert task.metadata["text"] == name
    assert bytes_of(task, "valid") == content[1_800:1_900]


def test_archives_are_downloaded(published):
    assert wikipedia.load_wikipedia("text8") == cut_bytes(LETTERS)


def test_an_archive_that_is_not_the_published_one_is_refused(published):
    (published / "text8.zip").write_bytes(b"PK")
    with pytest.raises(UsageError, match=r"text8.zip is damaged, incomplete or another file: its sha256 is"):
        wikipedia.load_wikipedia("text8", published)


def test_the_unpacked_file_is_no_prefix(published, tmp_path):
    task = task_of(tmp_path, CONTENT, source="enwik8")
    assert "prefix" not in task.metadata
    assert "prefix" in task_of(tmp_path, CONTENT[:-1] + b"a", source="enwik8").metadata


# Counted in these files: 4,154,399 bytes of 200 kinds, and 3,010,294 letters and blanks.
@pytest.mark.parametrize(("name", "size", "symbols"), [("enwik8", 4_154_399, 200), ("text8", 3_010_294, 27)])
def test_the_prefixes(data_dir, name, size, symbols):
    (file,) = (data_dir / f"{name}_prefix").iterdir()
    task = NextByte(name, file=file).build(0)
    assert sum(task.metadata["bytes"].values()) == size
    assert task.input_size == symbols
    assert task.metadata["prefix"].startswith(f"{size:,} bytes that are not the published {name}")
    assert task.splits["train"].size == size * 9 // 10 // 50
