"""Tests of melodies: splits, symbols, unreadable files, and O'Neill's tunes if they are available."""

import hashlib
import re

import numpy as np
import pytest
from mirrors import empty_mirror, source_of
from test_text import PARTS, examples, predicted

from lrpt.datasets import irish
from lrpt.datasets.abc import drawn_tunes
from lrpt.errors import UsageError
from lrpt.tasks import NextNote
from lrpt.tasks.music import symbols_of

BAD = "X:99\nT:Bad\nK:C\nA Y c\n"


def folder(tmp_path, **files):
    for name, text in files.items():
        path = tmp_path / f"{name}.abc"
        path.write_text(text)
    return tmp_path


def test_parts_are_the_symbols_of_their_tunes(tmp_path):
    task = NextNote(file=folder(tmp_path, a=drawn_tunes(40)), steps=20).build(0)
    assert (task.streams, task.reads, task.metadata["skipped_tunes"]) == (True, "all", 0)
    assert task.input_size == task.output_size == len(task.vocabulary) == task.metadata["types"]
    for part in PARTS:
        targets = np.concatenate(predicted(examples(task.splits[part])))
        assert task.metadata["symbols"][part] - targets.size < (20 if part == "train" else 1)
        melodies = task.vocabulary.decode(targets).split("<eos>")
        assert len(melodies) - 1 in (task.metadata["tunes"][part], task.metadata["tunes"][part] - 1)
        assert all(melody.split().count("|") == 16 for melody in melodies[:-1])
    assert [symbol if symbol is None else str(symbol) for symbol in symbols_of(task.vocabulary)] == [
        None,
        None,
        *task.vocabulary.symbols[2:],
    ]


def test_drawn_melodies_are_those_of_the_documentation():
    """In the shares of 16,000, 1,511 and 2,000 tunes, as far as 400 tunes can have them."""
    metadata = NextNote().build(0).metadata
    assert metadata["tunes"] == {"train": 327, "valid": 31, "test": 42}
    assert metadata["symbols"] == {"train": 31_774, "valid": 3_106, "test": 4_089}
    assert metadata["types"] == 102


def test_variants_stay_together(tmp_path):
    copies = "\n".join(drawn_tunes(30).replace("X:", f"X:{copy}") for copy in range(3))
    task = NextNote(file=folder(tmp_path, a=copies), steps=20).build(0)
    assert sum(task.metadata["tunes"].values()) == 90
    assert all(count % 3 == 0 for count in task.metadata["tunes"].values())


def test_tunes_that_cannot_be_read_are_counted_and_named(tmp_path):
    task = NextNote(file=folder(tmp_path, a=drawn_tunes(30), b=BAD * 25)).build(0)
    assert task.metadata["skipped_tunes"] == 25
    assert len(task.metadata["skipped"]) == 20
    assert task.metadata["skipped"][0] == "b.abc, tune 99 'Bad', line 4: 'Y c' stands where a note, a rest or a bar was expected"


def test_files_without_tunes_are_one_line(tmp_path):
    with pytest.raises(UsageError, match=r"a folder without \.abc files: name another folder, or a file"):
        NextNote(file=tmp_path).build(0)
    with pytest.raises(UsageError, match=r"which cannot be read \(No such file"):
        NextNote(file=tmp_path / "nowhere.abc").build(0)
    with pytest.raises(UsageError, match=r"no tune that can be read: bad\.abc, tune 99 'Bad', line 4: 'Y c' stands"):
        NextNote(file=folder(tmp_path, bad=BAD) / "bad.abc").build(0)
    with pytest.raises(UsageError, match=r"no tune that can be read: there is no field X:"):
        NextNote(file=folder(tmp_path, none="no music here") / "none.abc").build(0)
    for tunes, families in ((drawn_tunes(1), 1), (re.sub("X:.*", r"\g<0>\nT:Untitled", drawn_tunes(20)), 1), (drawn_tunes(2), 2)):
        with pytest.raises(UsageError, match=rf"the \w+ split is empty: \d+ tunes are {families} without variants; give more"):
            NextNote(file=folder(tmp_path, one=tunes) / "one.abc").build(0)


def test_a_file_of_another_encoding_is_read(tmp_path):
    path = tmp_path / "old.abc"
    path.write_bytes(drawn_tunes(30).replace("Drawn", "Dr\xe1wn").encode("latin-1"))
    assert NextNote(file=path).build(0).metadata["skipped_tunes"] == 0


@pytest.fixture
def published(tmp_path, monkeypatch):
    """Register two small files in place of O'Neill's, in a directory that serves as the mirror."""
    with empty_mirror(tmp_path, monkeypatch, irish.load_irish_abc) as mirror:
        for count, name in ((20, "1-20.abc"), (21, "21-40.abc")):
            (mirror / name).write_text(drawn_tunes(count))
        monkeypatch.setattr(irish, "FILES", tuple(map(source_of, sorted(mirror.iterdir()))))
        yield mirror


def test_published_files_are_downloaded_and_prepared_once(published):
    expected = {"1-20.abc": drawn_tunes(20), "21-40.abc": drawn_tunes(21)}
    assert irish.load_irish_abc() == expected
    assert list(irish.load_irish_abc()) == list(expected)
    irish.load_irish_abc.cache_clear()
    for file in published.iterdir():
        file.unlink()
    assert irish.load_irish_abc() == expected
    assert sum(NextNote("irish").build(0).metadata["tunes"].values()) == 41


def test_a_damaged_file_is_refused(published):
    (published / "1-20.abc").write_text("X:1")
    with pytest.raises(UsageError, match=r"1-20\.abc is damaged, incomplete or another file: its sha256 is"):
        irish.load_irish_abc(published)


# Counted in these files; the paper's collection is another one, with 730 different symbols.
def test_the_tunes_of_o_neill(data_dir):
    irish.load_irish_abc.cache_clear()
    notes = NextNote("irish", dir=data_dir).build(0).metadata
    assert notes["tunes"] == {"train": 1_644, "valid": 156, "test": 206}
    assert notes["symbols"] == {"train": 211_937, "valid": 19_841, "test": 26_663}
    assert (notes["types"], notes["skipped_tunes"]) == (386, 3)


def test_the_vocabulary_is_that_of_the_training_split(tmp_path):
    """Each tune has one symbol of its own: a last note of its own length."""
    rng = np.random.default_rng(0)
    notes = ["".join(rng.choice(list("CDEFGABc"), 24)) for _ in range(40)]
    tunes = "".join(f"X:{i}\nT:tune {i}\nL:1/8\nK:C\n{tune}C{i + 1}|\n\n" for i, tune in enumerate(notes, start=1))
    metadata = NextNote(file=folder(tmp_path, a=tunes), steps=5).build(0).metadata
    assert metadata["unknown_symbols"] == {"train": 0, "valid": metadata["tunes"]["valid"], "test": metadata["tunes"]["test"]}


def test_the_first_tunes_by_their_hashes_are_for_the_test_and_the_next_ones_for_validation(tmp_path):
    """Another division would make other splits of O'Neill's tunes. A tune spells its number; it is too short to have an incipit."""
    tunes = "".join(f"X:{i}\nT:tune {i}\nL:1/4\nK:C\n{f'{i:06b}'.translate({48: 'C', 49: 'D'})}|\n\n" for i in range(40))
    splits = NextNote(file=folder(tmp_path, a=tunes), steps=1).build(0)
    ordered = sorted(range(40), key=lambda i: hashlib.sha256(f"title tune {i}".encode()).hexdigest())
    for part, expected in (("test", ordered[:5]), ("valid", ordered[5:9]), ("train", ordered[9:])):
        text = splits.vocabulary.decode(np.concatenate(predicted(examples(splits.splits[part]))))
        bits = text.replace("C4:1", "0").replace("D4:1", "1").replace(" ", "").replace("|", "")
        assert {int(tune, 2) for tune in bits.split("<eos>") if tune} == set(expected)
