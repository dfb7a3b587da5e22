"""Melodies written in ABC notation, version 2.1, so that programs play them and `read_tune` reads the same symbols again."""

from collections.abc import Iterator, Sequence
from fractions import Fraction

from lrpt.datasets.abc.keys import FIFTHS, ORDER_OF_SHARPS, key_signature
from lrpt.datasets.abc.symbols import BAR, NAMES, Symbol

UNIT = Fraction(1, 2)
"""Unit length in quarter notes, L:1/8."""
KEYS = ("C", "G", "F", "D", "Bb", "A", "Eb", "E", "Ab", "B", "Db", "F#", "Gb", "C#", "Cb")
"""Major keys, those with few sharps or flats first."""
LINE = 4
"""Bars in a line."""
_SEMITONES = {letter: NAMES.index(letter) for letter in FIFTHS}
_SIGNS = {0: "=", 1: "^", -1: "_"}


def write_tune(symbols: Sequence[Symbol], number: int, title: str) -> str:
    """Write a tune: its header, and lines of four bars.

    The key is the major key in which the fewest notes need an accidental. Three neighbours whose lengths are thirds become a triplet.
    Meter and repeats are not part of the symbols, so that the meter is free.

    Args:
      symbols: notes, rests and bars; at least one note.
      number: the field X.
      title: the field T.
    """
    key = nearest_key(symbols)
    header = f"X:{number}\nT:{title}\nM:none\nL:1/8\nK:{key}\n"
    bars = [" ".join(_tokens(bar, key)) for bar in _bars(symbols)]
    lines = [" | ".join(bars[start : start + LINE]) for start in range(0, len(bars), LINE)]
    return header + " |\n".join(lines) + " |]\n"


def nearest_key(symbols: Sequence[Symbol]) -> str:
    """Return the major key that has most of the notes."""
    classes = [symbol.pitch % 12 for symbol in symbols if symbol.pitch is not None]

    def misses(key: str) -> int:
        scale = {(_SEMITONES[letter] + change) % 12 for letter, change in _alterations(key).items()}
        return sum(pitch not in scale for pitch in classes)

    return min(KEYS, key=misses)


def _alterations(key: str) -> dict[str, int]:
    """Return by how many semitones the key changes each letter."""
    return dict.fromkeys(ORDER_OF_SHARPS, 0) | (key_signature(key) or {})


def _bars(symbols: Sequence[Symbol]) -> list[list[Symbol]]:
    """Split a melody at its bar lines; bars without notes and rests are left out."""
    bars: list[list[Symbol]] = [[]]
    for symbol in symbols:
        if symbol == BAR:
            bars.append([])
        else:
            bars[-1].append(symbol)
    return [bar for bar in bars if bar]


def _tokens(bar: Sequence[Symbol], key: str) -> Iterator[str]:
    """Yield the notes and rests of a bar; an accidental holds until the bar ends."""
    altered, place = _alterations(key), 0
    while place < len(bar):
        three = [symbol.length * Fraction(3, 2) for symbol in bar[place : place + 3]]
        is_triplet = len(three) == 3 and all(bar[place + i].length.denominator % 3 == 0 and _is_plain(three[i]) for i in range(3))
        lengths = three if is_triplet else [bar[place].length]
        notes = [_name(symbol, altered) + _length(length / UNIT) for symbol, length in zip(bar[place:], lengths, strict=False)]
        yield ("(3" if is_triplet else "") + "".join(notes)
        place += len(notes)


def _is_plain(length: Fraction) -> bool:
    """Return whether a length is a multiple of a power of 1/2."""
    return length.denominator & (length.denominator - 1) == 0


def _name(symbol: Symbol, altered: dict[str, int]) -> str:
    """Return the pitch, with an accidental if the bar so far does not imply it. Record that accidental in `altered`."""
    if symbol.pitch is None:
        return "z"
    letter = next((one for one, change in altered.items() if (_SEMITONES[one] + change - symbol.pitch) % 12 == 0), None)
    sign = ""
    if letter is None:
        name = NAMES[symbol.pitch % 12]
        letter, change = name[0], len(name) - 1
        sign, altered[letter] = _SIGNS[change], change
    octave = (symbol.pitch - _SEMITONES[letter] - altered[letter]) // 12 - 1
    written = letter.lower() + "'" * (octave - 5) if octave > 4 else letter + "," * (4 - octave)
    return sign + written


def _length(factor: Fraction) -> str:
    """Return a multiple of the unit length as '', '2', '3/2', '/2'."""
    above = "" if factor.numerator == 1 else str(factor.numerator)
    return above if factor.denominator == 1 else f"{above}/{factor.denominator}"
