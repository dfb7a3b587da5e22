"""Tests of vocabularies: encoding and decoding."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lrpt.datasets import vocabulary
from lrpt.datasets.vocabulary import END, UNKNOWN, UNKNOWN_CHARACTER, ByteCharacters, WordVocabulary
from lrpt.errors import UsageError
from lrpt.tasks import ByteVocabulary, Vocabulary

texts = st.text(st.sampled_from("\na bé–😀\x00\x85\uffff"), max_size=30)


@given(train=texts, other=texts)
def test_every_character_has_the_number_of_its_symbol_or_is_unknown(train, other):
    vocabulary = Vocabulary.of(train)
    for text in (train, other):
        numbers = [vocabulary.symbols.index(c) if c in vocabulary.symbols else UNKNOWN for c in text]
        assert vocabulary.encode(text).tolist() == numbers
    assert vocabulary.decode(vocabulary.encode(train)) == train


@pytest.mark.parametrize("length", [2, 6, 7])
def test_a_text_is_encoded_in_pieces_as_in_one(length, monkeypatch):
    text = "ab\nbbaa"[:length]
    whole = Vocabulary.of("ab").encode(text)
    monkeypatch.setattr(vocabulary, "_PIECE", 3)
    np.testing.assert_array_equal(Vocabulary.of("ab").encode(text), whole)


def test_symbols_are_in_the_order_of_their_code_points():
    vocabulary = Vocabulary.of("b a\nz\nA")
    assert vocabulary.symbols == ("\n", "<unk>", " ", "A", "a", "b", "z")
    assert len(vocabulary) == 7
    assert vocabulary.encode("a\nq").tolist() == [4, END, UNKNOWN]
    assert vocabulary.decode([4, UNKNOWN, END]) == "a<unk>\n"


def test_words_that_are_rare_are_unknown():
    text = "b a <eos> b\n\n a c <unk> b"
    assert WordVocabulary.of(text).symbols == ("<eos>", "<unk>", "a", "b", "c")
    vocabulary = WordVocabulary.of(text, min_count=2)
    assert vocabulary.symbols == ("<eos>", "<unk>", "a", "b")
    assert vocabulary.encode("a c\n\nb").tolist() == [2, UNKNOWN, END, 3, END]


@pytest.mark.parametrize("text", ["", "\n", UNKNOWN_CHARACTER])
def test_a_vocabulary_without_characters(text):
    vocabulary = Vocabulary.of(text)
    assert len(vocabulary) == 2
    assert vocabulary.encode(f"a\n{UNKNOWN_CHARACTER}").tolist() == [UNKNOWN, END, UNKNOWN]


def test_characters_that_cannot_be_written_are_unknown():
    assert Vocabulary.of("a").encode("\udcff").tolist() == [UNKNOWN]


@pytest.mark.parametrize(("characters", "kind"), [(254, np.uint8), (255, np.uint16)])
def test_numbers_take_no_more_room_than_they_need(characters, kind):
    text = "".join(map(chr, range(1000, 1000 + characters)))
    vocabulary = Vocabulary.of(text)
    numbers = vocabulary.encode(text)
    assert numbers.dtype == kind
    assert numbers.tolist() == list(range(2, 2 + characters))


@given(st.binary(min_size=1, max_size=40))
def test_bytes_have_the_numbers_of_their_order(content):
    vocabulary = ByteVocabulary.of(content)
    present = sorted(set(content))
    assert vocabulary.symbols == tuple(map(chr, present))
    assert vocabulary.encode(content).tolist() == [present.index(byte) for byte in content]
    assert vocabulary.encode(content).dtype == np.uint8
    assert vocabulary.decode(vocabulary.encode(content)) == content.decode("utf-8", "replace")


def test_a_byte_without_a_number_is_named_with_its_place():
    with pytest.raises(ValueError, match="byte 0x63 at position 2 has no number"):
        ByteVocabulary.of(b"ab").encode(b"abc")


@pytest.mark.parametrize("number", [-1, 4, 999_999])
@pytest.mark.parametrize("kind", [Vocabulary, ByteCharacters, WordVocabulary, ByteVocabulary])
def test_a_number_without_a_symbol_is_refused(kind, number):
    """Python would read -1 as the last symbol."""
    vocabulary = kind(("\n", "<", "a", "b"))
    with pytest.raises(UsageError, match=f"the numbers contain {number}: expected 0 to 3, as the vocabulary has 4 symbols"):
        vocabulary.decode(np.array([2, number]))
