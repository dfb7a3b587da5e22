"""Tests of Europarl in its published layout, in small: the text, its archive, and the requirements of a guided schedule."""

import io
import tarfile

import pytest
from test_text import PARTS, examples, predicted

from lrpt.datasets import europarl
from lrpt.errors import UsageError
from lrpt.tasks import NextBit, NextSymbol, Vocabulary

CZECH = "".join(f"  Příliš žluťoučký kůň č. {number}.\n" + "\n" * (number % 5 == 0) for number in range(60))
LINES = [line.strip() for line in CZECH.split("\n") if line]


@pytest.fixture
def published(tmp_path, monkeypatch):
    """Make a folder with the Czech text and the German archive."""
    (tmp_path / "europarl-v7.cs-en.cs").write_text(CZECH)
    with tarfile.open(tmp_path / "de-en.tgz", "w:gz") as archive:
        for name in ("europarl-v7.de-en.en", "europarl-v7.de-en.de"):
            content = ("Umweltfreundliches\n" if name.endswith("de") else "English\n").encode() * 100
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    europarl.load_europarl.cache_clear()
    yield tmp_path
    europarl.load_europarl.cache_clear()


def test_a_text_is_its_lines_without_blank_ones(published):
    texts = europarl.load_europarl("europarl_cs", published)
    assert list(texts) == list(PARTS)
    assert "".join(texts.values()).split("\n") == [*LINES, ""]
    assert all(text.endswith("\n") for text in texts.values())


@pytest.mark.parametrize(("more", "lines"), [(0, 2), (1, 3)])
def test_a_text_ends_with_the_line_that_reaches_its_size(more, lines, published, monkeypatch):
    monkeypatch.setattr(europarl, "CHARACTERS", len(f"{LINES[0]}\n{LINES[1]}\n") + more)
    assert "".join(europarl.load_europarl("europarl_cs", published).values()) == "".join(f"{line}\n" for line in LINES[:lines])


def test_texts_have_about_as_many_characters_as_the_papers():
    """Jernite et al. 2017, section 5.2.2: about 20M."""
    assert europarl.CHARACTERS == 20_000_000


def test_a_text_is_found_in_its_archive(published):
    assert "".join(europarl.load_europarl("europarl_de", published).values()) == "Umweltfreundliches\n" * 100


def test_texts_are_tasks_of_characters_and_of_bits(published):
    task = NextSymbol("europarl_cs", dir=published, reading="stream", steps=40).build(0)
    assert task.vocabulary.decode(predicted(examples(task.splits["train"], [0]))[0]).startswith("Příliš žluťoučký kůň č. 0.\nPříliš")
    assert task.metadata["text"] == "europarl_cs"
    assert task.metadata["white_spaces"] == [0, task.vocabulary.symbols.index(" ")]
    bits = NextBit("europarl_cs", dir=published).build(0)
    assert sum(bits.metadata["characters"].values()) == len("".join(f"{line}\n" for line in LINES).encode())


def test_white_spaces_are_where_words_end():
    vocabulary = Vocabulary.of("ab\tc d\xa0e\n")
    assert [vocabulary.symbols[number] for number in vocabulary.white_spaces] == ["\n", "\t", " ", "\xa0"]


def test_what_is_missing_or_damaged_is_one_line(published):
    with pytest.raises(
        UsageError, match=r"neither europarl-v7\.cs-en\.cs nor cs-en\.tgz is in .*: get https://www\.statmt\.org/europarl/v7/cs-en\.tgz"
    ):
        europarl.load_europarl("europarl_cs", published / "elsewhere")
    for content in (b"no archive", (published / "de-en.tgz").read_bytes()[:100]):
        (published / "de-en.tgz").write_bytes(content)
        with pytest.raises(UsageError, match=r"de-en\.tgz is damaged, or not europarl-v7\.de-en\.de in UTF-8") as raised:
            europarl.load_europarl("europarl_de", published)
        assert "\n" not in str(raised.value)
    (published / "europarl-v7.cs-en.cs").write_bytes(b"\xff\n" * 9)
    with pytest.raises(UsageError, match=r"europarl-v7\.cs-en\.cs is damaged, or not europarl-v7\.cs-en\.cs in UTF-8"):
        europarl.load_europarl("europarl_cs", published)
