"""Symbols of melodies: notes and rests with their lengths, and bars."""

from fractions import Fraction
from functools import cache
from typing import NamedTuple, Self

REST, BAR_LINE = "z", "|"
NAMES = ("C", "C#", "D", "D#", "E", "F", "F#", "G", "G#", "A", "A#", "B")


class Symbol(NamedTuple):
    """A note, a rest or a bar.

    Attributes:
      pitch: the MIDI note, 60 for the middle C; None for rests and bars.
      length: in quarter notes, as in Table 2 of Jernite et al. (2017); 0 for bars.
    """

    pitch: int | None
    length: Fraction

    @property
    def kind(self) -> str:
        """Return 'note', 'rest' or 'bar'."""
        return "note" if self.pitch is not None else "rest" if self.length else "bar"

    def __str__(self) -> str:
        """Write the symbol as 'F#5:1/2', 'z:1' or '|'. Enharmonic notes have the same name."""
        return _text(self.pitch, self.length.numerator, self.length.denominator)

    @classmethod
    def of(cls, text: str) -> Self:
        """Parse the text of a symbol.

        Raises:
          ValueError: the text is not a symbol.
        """
        if text == BAR_LINE:
            return cls(None, Fraction(0))
        name, _, length = text.partition(":")
        if name == REST:
            return cls(None, Fraction(length))
        octave = name.lstrip("ABCDEFG#")
        return cls(NAMES.index(name.removesuffix(octave)) + 12 * (int(octave) + 1), Fraction(length))


@cache
def _text(pitch: int | None, numerator: int, denominator: int) -> str:
    if pitch is None and not numerator:
        return BAR_LINE
    name = REST if pitch is None else f"{NAMES[pitch % 12]}{pitch // 12 - 1}"
    return f"{name}:{Fraction(numerator, denominator)}"


BAR = Symbol(None, Fraction(0))
