"""Tests of the forms of a text: blanks, line ends, split points and bytes, against reading the files in one line."""

import codecs

import numpy as np
import pytest

from lrpt.datasets import ptb
from lrpt.datasets.documents import AS_WRITTEN, cut
from lrpt.datasets.vocabulary import WordVocabulary
from lrpt.errors import UsageError
from lrpt.runs.configuration import from_json, to_json
from lrpt.tasks import NextSymbol
from lrpt.tasks.text import load_texts
from lrpt.trained.writing import numbers_of

PARTS = ("train", "valid", "test")
RAW = {"blanks": "kept", "line_ends": "kept", "cuts": "exact"}


def read_by_codecs(file, encoding="utf-8"):
    with codecs.open(file, encoding=encoding) as opened:
        return opened.read()


def decoded(task):
    """Return the text of each split, read from its arrays."""
    counts = task.metadata["symbols"]
    return [task.vocabulary.decode(task.splits[part].arrays["text"][1 : 1 + counts[part]]) for part in PARTS]


def as_the_original(text):
    """Return the splits of chahuja/lru, dataUtils.py, with valid_frac and test_frac of 0.05."""
    size = int(0.05 * len(text))
    train = len(text) - size - size
    return [text[:train], text[train : train + size], text[train + size :]]


def test_the_joined_treebank_as_written(data_dir):
    files = [data_dir / "ptb" / f"ptb.{part}.txt" for part in PARTS]
    text = "".join(read_by_codecs(file) for file in files)
    task = NextSymbol("ptb_joined", dir=data_dir / "ptb", reading="stream", steps=50, **RAW).build(0)
    assert decoded(task) == as_the_original(text)
    assert (sum(task.metadata["symbols"].values()), task.input_size) == (5_951_345, 51)


def test_war_and_peace_as_written(data_dir):
    file = data_dir / "warpeace" / "warpeace_input.txt"
    text = read_by_codecs(file)
    task = NextSymbol(file=file, reading="stream", steps=50, **RAW).build(0)
    assert decoded(task) == as_the_original(text)
    assert (sum(task.metadata["symbols"].values()), text[0], text.count("\r\n")) == (3_258_227, "\ufeff", 62_014)
    assert task.input_size == len({*text}) + 1


@pytest.mark.parametrize("options", [{"source": "enwik8"}, {"encoding": "bytes", **RAW}])
def test_bytes_of_a_file(data_dir, options):
    (file,) = (data_dir / "enwik8_prefix").iterdir()
    task = NextSymbol(file=file, reading="stream", steps=50, **options).build(0)
    read = read_by_codecs(file, "latin-1")
    for part, text in zip(PARTS, as_the_original(read), strict=True):
        numbers = task.splits[part].arrays["text"][1 : 1 + len(text)]
        assert "".join(np.array(task.vocabulary.symbols)[numbers]) == text
    assert task.input_size == len({*read}) + 1 == 201
    assert ("prefix" in task.metadata) == ("source" in options)


def written(tmp_path, content):
    path = tmp_path / "text"
    path.write_bytes(content)
    return path


CONTENT = "\ufeff".encode() + "caf\u00e9 au lait\r\nb\rc\r\n".encode() * 30


def test_each_setting_changes_what_it_names(tmp_path):
    path = written(tmp_path, CONTENT)
    whole = CONTENT.decode("utf-8")
    usual, kept, exact, of_bytes = (
        "".join(load_texts("python", path, None, NextSymbol(file=path, **options).form).values())
        for options in ({}, {"line_ends": "kept"}, {"cuts": "exact"}, {"encoding": "bytes", "line_ends": "kept"})
    )
    assert usual == exact == whole[1:].replace("\r\n", "\n").replace("\r", "\n")
    assert (kept, of_bytes.encode("latin-1")) == (whole, CONTENT)
    assert [len(text) for text in load_texts("python", path, None, AS_WRITTEN).values()] == [len(t) for t in as_the_original(whole)]


def test_exact_cuts_do_not_move_to_a_line_end():
    text = "ab\n" * 111
    assert list(cut(text, "exact").values()) == as_the_original(text) == [text[:301], text[301:317], text[317:]]
    assert list(cut(text).values()) != as_the_original(text)


def test_shares_of_a_text_are_cut_in_its_form(tmp_path):
    path = written(tmp_path, b"ab\n" * 200)
    task = NextSymbol(file=path, reading="stream", steps=4, text_share=55.5, cuts="exact").build(0)
    assert list(task.metadata["symbols"].values()) == [len(text) for text in as_the_original("x" * 333)]


def test_blanks_of_the_treebank_are_kept_at_both_ends(monkeypatch):
    monkeypatch.setattr(ptb, "load_ptb", lambda dir: dict.fromkeys(PARTS, "a b\nc\n"))
    assert load_texts("ptb", None, None, NextSymbol(blanks="kept").form) == dict.fromkeys(PARTS, " a b \n c \n")


def test_bytes_are_written_and_prompted_as_utf_8(tmp_path):
    path = written(tmp_path, "d\u00e9j\u00e0 vu\n".encode() * 30)
    vocabulary = NextSymbol(file=path, reading="stream", steps=5, encoding="bytes").build(0).vocabulary
    numbers = numbers_of(vocabulary, "d\u00e9j\u00e0")
    assert (len(numbers), vocabulary.decode(numbers)) == (6, "d\u00e9j\u00e0")


@pytest.mark.parametrize(("prompt", "ends"), [("one two", False), ("one two\n", True), ("one two\n ", True), ("one two ", False)])
def test_a_prompt_of_words_keeps_the_line_end_that_it_has(prompt, ends):
    vocabulary = WordVocabulary.of("one two\n")
    numbers = numbers_of(vocabulary, prompt)
    assert [vocabulary.symbols[number] for number in numbers] == ["one", "two", *["<eos>"] * ends]


def test_a_recorded_configuration_without_these_settings_means_what_it_meant():
    recorded = {name: value for name, value in to_json(NextSymbol("ptb_joined")).items() if name not in (*RAW, "encoding")}
    found = from_json(NextSymbol, recorded)
    assert (found.blanks, found.line_ends, found.cuts, found.encoding) == ("stripped", "folded", "lines", "utf-8")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"blanks": "some"}, "data.blanks is 'some': choose from stripped, kept"),
        ({"line_ends": "CR"}, "data.line_ends is 'CR': choose from folded, kept"),
        ({"cuts": "words"}, "data.cuts is 'words': choose from lines, exact"),
        ({"encoding": "cp037"}, "data.encoding is 'cp037': choose from utf-8, bytes"),
    ],
)
def test_unknown_forms_are_refused(options, says):
    with pytest.raises(UsageError, match=says):
        NextSymbol(**options)


def test_a_file_that_is_not_text8_is_refused(tmp_path):
    with pytest.raises(UsageError, match=r"more than small letters and blanks \(byte 0x0a at position 3\)"):
        NextSymbol("text8", file=written(tmp_path, b"abc\n" * 50), reading="stream").build(0)
