"""The symbols of a text, by number."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

import numpy as np
from jaxtyping import Int, UInt

END, UNKNOWN = 0, 1

END_CHARACTER, UNKNOWN_CHARACTER = "\n", "\N{REPLACEMENT CHARACTER}"


@dataclass(frozen=True)
class Vocabulary:
    """Numbers for characters. The end of a line is 0, and whatever has no number of its own is 1, as in dl4mt-lm.

    Attributes:
      symbols: how each symbol is printed, in the order of the numbers: the end of a line, '<unk>', then single characters.
    """

    symbols: tuple[str, ...]

    @classmethod
    def of(cls, text: str) -> Self:
        """The characters of `text`, in the order of their code points."""
        return cls((END_CHARACTER, "<unk>", *sorted({*text} - {END_CHARACTER, UNKNOWN_CHARACTER})))

    def __len__(self) -> int:
        return len(self.symbols)

    def encode(self, text: str) -> UInt[np.ndarray, " n"]:
        """The number of each character, in the smallest type that holds them all. U+FFFD stands for the unknown symbol."""
        own = np.array([ord(END_CHARACTER), ord(UNKNOWN_CHARACTER), *map(ord, self.symbols[2:])], np.uint32)
        order = np.argsort(own)
        codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4")
        nearest = order[np.minimum(np.searchsorted(own, codes, sorter=order), len(own) - 1)]
        return np.where(own[nearest] == codes, nearest, UNKNOWN).astype(np.min_scalar_type(len(own) - 1))

    def decode(self, numbers: Iterable[int] | Int[np.ndarray, " n"]) -> str:
        """The text of these symbols; the unknown one is printed as '<unk>'."""
        return "".join(self.symbols[int(number)] for number in numbers)
