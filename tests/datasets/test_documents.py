"""Tests of texts that need no download, and of invalid files."""

import os
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mirrors import message

from lrpt.datasets.documents import cut, python_documentation, user_file
from lrpt.errors import UsageError
from lrpt.tasks import NextSymbol

PARTS = ["train", "valid", "test"]


def written(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@given(st.text(st.sampled_from("ab\n"), min_size=20, max_size=400))
def test_the_parts_are_the_text_and_none_is_empty(text):
    parts = cut(text)
    assert list(parts) == PARTS
    assert "".join(parts.values()) == text
    assert all(parts.values())


def test_cuts_are_at_the_first_line_end_behind_90_and_95_percent():
    text = "".join(f"line {number:03d}\n" for number in range(1000))
    assert [part.count("\n") for part in cut(text).values()] == [901, 50, 49]
    assert all(part.endswith("\n") for part in cut(text).values())


def test_a_text_without_line_ends_is_cut_anywhere():
    assert [len(part) for part in cut("a" * 1000).values()] == [900, 50, 50]


@pytest.mark.parametrize("end", [*range(90), *range(93, 100)])
def test_a_line_end_that_would_leave_a_part_nothing_is_passed_over(end):
    text = "a" * end + "\n" + "a" * (99 - end)
    assert min(len(part) for part in cut(text).values()) >= 1


def test_python_documentation_is_english_and_says_nothing_twice():
    text = python_documentation()
    assert len(text) > 200_000
    assert text.count(" the ") > 1000
    paragraphs = text.split("\n\n")
    assert len(paragraphs) == len(set(paragraphs))
    assert python_documentation() == text


def test_a_python_without_documentation_is_told_what_to_do(monkeypatch):
    monkeypatch.setitem(sys.modules, "pydoc_data.topics", None)
    with pytest.raises(UsageError, match=r"data.source is python, and this Python has no documentation .*--data.file"):
        python_documentation()


def test_line_ends_of_every_kind_and_no_byte_order_mark(tmp_path):
    assert user_file(written(tmp_path / "text", "\ufeffa\r\nb\rc\n\nd\u2028e\x0c\n")) == "a\nb\nc\n\nd\u2028e\x0c\n"


WRONG = {
    "not UTF-8": (b"caf\xe9 \n" * 100, "which is not UTF-8 (byte 0xe9 at position 3): convert it"),
    "empty": (b"", "which holds no text"),
    "blank": (b" \n\n\t", "which holds no text"),
}


@pytest.mark.parametrize(("content", "expected"), WRONG.values(), ids=WRONG)
def test_a_file_that_is_no_text(content, expected, tmp_path):
    path = written(tmp_path / "text", content)
    assert message(lambda: NextSymbol(file=path).build(0)).startswith(f"data.file is {path}, {expected}")


def test_a_file_that_is_missing_or_a_directory(tmp_path):
    for path, reason in ((tmp_path / "nowhere", "No such file"), (tmp_path, "Is a directory")):
        text = message(lambda path=path: NextSymbol(file=path).build(0))
        assert text.startswith(f"data.file is {path}, which cannot be read ({reason}")
        assert "UTF-8" in text


@pytest.mark.skipif(os.geteuid() == 0, reason="root can read everything")
def test_a_file_that_is_not_ours(tmp_path):
    path = written(tmp_path / "text", "a\n" * 100)
    path.chmod(0)
    assert "cannot be read (Permission denied)" in message(lambda: NextSymbol(file=path).build(0))
