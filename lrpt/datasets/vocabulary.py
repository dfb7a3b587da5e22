"""Vocabularies: mappings between the symbols of a text and their numbers."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from string import whitespace
from typing import Self

import numpy as np
from jaxtyping import Int, UInt

from lrpt.errors import UsageError

END, UNKNOWN = 0, 1

END_CHARACTER, UNKNOWN_CHARACTER = "\n", "\N{REPLACEMENT CHARACTER}"
END_WORD, UNKNOWN_WORD = "<eos>", "<unk>"


@dataclass(frozen=True)
class Vocabulary:
    """Numbers for characters. As in dl4mt-lm, 0 is the end of a line and 1 stands for every unknown character.

    Attributes:
      symbols: the printed form of each symbol by number: the end of a line, '<unk>', then single characters.
    """

    symbols: tuple[str, ...]

    @classmethod
    def of(cls, text: str) -> Self:
        """Assign numbers to the characters of `text` in the order of their code points."""
        return cls((END_CHARACTER, "<unk>", *sorted({*text} - {END_CHARACTER, UNKNOWN_CHARACTER})))

    def __len__(self) -> int:
        return len(self.symbols)

    @property
    def white_spaces(self) -> tuple[int, ...]:
        """Return the numbers of line ends, blanks and other white space, where words begin and end."""
        return tuple(number for number, symbol in enumerate(self.symbols) if symbol.isspace())

    def encode(self, text: str) -> UInt[np.ndarray, " n"]:
        """Return the number of each character, in the smallest sufficient integer type. U+FFFD stands for the unknown symbol."""
        own = np.array([ord(END_CHARACTER), ord(UNKNOWN_CHARACTER), *map(ord, self.symbols[2:])], np.uint32)
        pieces = [_numbers(text[start : start + _PIECE], own) for start in range(0, len(text), _PIECE)]
        return np.concatenate([np.zeros(0, np.min_scalar_type(len(own) - 1)), *pieces])

    def decode(self, numbers: Iterable[int] | Int[np.ndarray, " n"]) -> str:
        """Return the text of these symbols. The unknown symbol is printed as '<unk>'."""
        return "".join(_symbols(self.symbols, numbers))


def _symbols(symbols: Sequence[str], numbers: Iterable[int] | Int[np.ndarray, " n"]) -> Iterator[str]:
    """Yield the symbol of each number.

    Raises:
      UsageError: a number is negative, which Python would count from the end, or too large.
    """
    for number in map(int, numbers):
        if not 0 <= number < len(symbols):
            count = len(symbols)
            raise UsageError(f"the numbers contain {number}: expected 0 to {count - 1}, as the vocabulary has {count} symbols")
        yield symbols[number]


_PIECE = 1 << 22
"""Characters that are encoded at once, so that a text of 100 million takes little memory."""


def _numbers(text: str, own: UInt[np.ndarray, " k"]) -> UInt[np.ndarray, " n"]:
    """Return the index of each character among the code points `own`, or `UNKNOWN`."""
    order = np.argsort(own)
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4")
    nearest = order[np.minimum(np.searchsorted(own, codes, sorter=order), len(own) - 1)]
    return np.where(own[nearest] == codes, nearest, UNKNOWN).astype(np.min_scalar_type(len(own) - 1))


@dataclass(frozen=True)
class ByteCharacters(Vocabulary):
    """Numbers for the characters of a text with one character for each byte, the one with the same number."""

    @property
    def white_spaces(self) -> tuple[int, ...]:
        """Return the numbers of ASCII white space: the bytes 0x85 and 0xa0 are parts of characters of UTF-8."""
        return tuple(number for number, symbol in enumerate(self.symbols) if symbol in whitespace)

    def decode(self, numbers: Iterable[int] | Int[np.ndarray, " n"]) -> str:
        """Return the text of these bytes, decoded as UTF-8. Invalid bytes become U+FFFD."""
        return super().decode(numbers).encode("latin-1").decode("utf-8", "replace")


@dataclass(frozen=True)
class WordVocabulary(Vocabulary):
    """Numbers for words, which are separated by white space. 0 is the end of a line and 1 stands for every unknown word.

    Attributes:
      symbols: '<eos>', '<unk>', then the words.
    """

    @classmethod
    def of(cls, text: str, min_count: int = 1) -> Self:
        """Assign numbers to the words that occur at least `min_count` times in `text`, in the order of their code points.

        '<unk>' is the unknown word.
        """
        counts = Counter(text.split())
        kept = (word for word, count in counts.items() if count >= min_count)
        return cls((END_WORD, UNKNOWN_WORD, *sorted({*kept} - {END_WORD, UNKNOWN_WORD})))

    def encode(self, text: str) -> UInt[np.ndarray, " n"]:
        """Return the number of each word, and a 0 after each line that is not blank, in the smallest sufficient integer type."""
        numbers = {word: number for number, word in enumerate(self.symbols)}
        lines = (line.split() for line in text.split("\n"))
        found = [numbers.get(word, UNKNOWN) for line in lines if line for word in (*line, END_WORD)]
        return np.array(found, np.min_scalar_type(len(self) - 1))

    def decode(self, numbers: Iterable[int] | Int[np.ndarray, " n"]) -> str:
        """Return the words, separated by blanks."""
        return " ".join(_symbols(self.symbols, numbers))


@dataclass(frozen=True)
class ByteVocabulary:
    """Numbers for bytes, like `Vocabulary` for characters. There is no unknown symbol, and the end of a line is an ordinary byte.

    Attributes:
      symbols: the bytes as characters of ISO 8859-1, in ascending order.
    """

    symbols: tuple[str, ...]

    @classmethod
    def of(cls, text: bytes) -> Self:
        """Assign numbers to the bytes that occur in `text`."""
        present = np.bincount(np.frombuffer(text, np.uint8), minlength=256).nonzero()[0]
        return cls(tuple(map(chr, present)))

    def __len__(self) -> int:
        return len(self.symbols)

    def encode(self, text: bytes) -> UInt[np.ndarray, " n"]:
        """Return the number of each byte.

        Raises:
          ValueError: a byte has no number; the message names the byte and its position.
        """
        numbers, known = np.zeros(256, np.uint8), np.zeros(256, bool)
        numbers[self._bytes()], known[self._bytes()] = np.arange(len(self)), True
        codes = np.frombuffer(text, np.uint8)
        if not np.all(known[codes]):
            place = int(np.argmin(known[codes]))
            raise ValueError(f"byte 0x{codes[place]:02x} at position {place} has no number")
        return numbers[codes]

    def decode(self, numbers: Iterable[int] | Int[np.ndarray, " n"]) -> str:
        """Return the text of these bytes, decoded as UTF-8. Invalid bytes become U+FFFD."""
        return "".join(_symbols(self.symbols, numbers)).encode("latin-1").decode("utf-8", "replace")

    def _bytes(self) -> UInt[np.ndarray, " k"]:
        return np.array([*map(ord, self.symbols)], np.uint8)
