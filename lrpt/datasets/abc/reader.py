"""The parser of melodies in ABC notation, version 2.1 (abcnotation.com/wiki/abc:standard:v2.1).

It reads:

- pitches with octaves, key signatures and accidentals;
- accidentals, which hold for all octaves until the end of their bar (section 11.3), or as `propagate-accidentals` says;
- unit lengths, and their defaults by meter;
- broken rhythm, and tuplets with their defaults by meter;
- rests, including rests of whole bars;
- changes of K, L and M between lines and inside them.

The result is a sequence of (pitch, length) symbols with bars. It needs some simplifications:

- A chord becomes its highest note, with the length of its first note.
- Grace notes, slurs, decorations, chord symbols, annotations and lyrics are ignored.
- Tied notes of one pitch become one note, unless a bar is between them. A tie between different pitches is a slur.
- Repeats are not played twice, and variant endings follow each other. Every kind of bar line is one bar, and adjacent bar lines are one
  bar. A tune does not begin with a bar.
- Only the first of several voices is read. Of a bar with overlays (&), only the part before the first overlay is read.
"""

import re
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache, lru_cache
from typing import NamedTuple

from lrpt.datasets.abc.keys import ALTERATIONS, key_signature
from lrpt.datasets.abc.symbols import BAR, Symbol
from lrpt.datasets.abc.tunes import Tune, as_field
from lrpt.errors import UsageError

_LENGTH = r"(?P<{0}times>\d+)?(?P<{0}slashes>/+)?(?P<{0}parts>\d+)?"
_PITCH = r"(?P<{0}sign>\^\^|\^|__|_|=)?(?P<{0}letter>[A-Ga-g])(?P<{0}octave>[,']*)"
_NOTE = re.compile((_PITCH + _LENGTH).format(""))
_PLAIN = re.compile(r"(?:\^\^|\^|__|_|=)?[A-Ga-g][,']*(?:\d+)?/*(?:\d+)?")
"""A note like that of `_TOKEN`, without its parts. No other token begins like one."""
_TOKEN = re.compile(
    "|".join(
        (
            r"(?P<text>\"[^\"]*\")",
            r"(?P<grace>\{[^}]*\})",
            r"(?P<field>\[[A-Za-z]:[^\]]*\])",
            r"(?P<bar>\.?(?:\[\||:*\||::)[:|]*\]?(?:\s*\[?[1-9][\d,-]*)?|\[[1-9][\d,-]*)",
            r"(?P<tuplet>\((?P<p>\d+)(?::(?P<q>\d*))?(?::(?P<r>\d*))?)",
            r"(?P<chord>\[(?P<inner>[^\]]*)\]" + _LENGTH.format("chord_") + ")",
            r"(?P<rest>[zx]" + _LENGTH.format("rest_") + ")",
            r"(?P<bars>[ZX](?P<count>\d*))",
            r"(?P<broken>>+|<+)",
            r"(?P<tie>-)",
            r"(?P<overlay>&+)",
            r"(?P<nothing>\s+|![^!\s|]*!|\+[^+\s|]*\+|y\d*|[()~.`\\$*;?@#!]|[H-Wh-w])",
        )
    )
)
_CHORD_LENGTH = ("chord_times", "chord_slashes", "chord_parts")
_REST_LENGTH = ("rest_times", "rest_slashes", "rest_parts")
_PASSED_OVER = {"text", "grace", "nothing"}
_TUPLETS = {2: 3, 3: 2, 4: 3, 6: 2, 8: 3}
_COMPOUND = {(6, 8), (9, 8), (12, 8)}
_SEMITONES = {"C": 0, "D": 2, "E": 4, "F": 5, "G": 7, "A": 9, "B": 11}
_PROPAGATE = re.compile(r"(?:%%|I:)\s*propagate-accidentals\s+(not|octave|pitch)")


def read_tune(tune: Tune) -> list[Symbol]:
    """Read the notes, rests and bars of a tune.

    Raises:
      UsageError: a token is not ABC notation or is misplaced; the message names the file, the tune, the line, and what is expected.
    """
    if "K" not in tune.fields:
        raise UsageError(f"{tune.place}: it has no field K:, expected one at the end of its header")
    reader, where = _Reader(), "the header"
    try:
        for letter in "IMLK":
            for contents in tune.fields.get(letter, []):
                reader.read_field(letter, contents)
        for number, line in tune.lines:
            where = f"line {number}"
            reader.read_line(line)
        reader.end()
    except ValueError as error:
        raise UsageError(f"{tune.place}, {where}: {error}") from None
    return reader.symbols


class _Note(NamedTuple):
    """A note as it is written.

    Attributes:
      name: its letter and octave.
      natural: its MIDI note without key and accidentals.
      sign: its accidental.
      length: the parts of its length.
    """

    name: tuple[str, int]
    natural: int
    sign: str | None
    length: tuple[str | None, ...]


@lru_cache(maxsize=2**16)
def _note(text: str) -> _Note:
    """Parse a note. Music repeats few notes, so that most of them need no parsing."""
    found = _NOTE.fullmatch(text)
    assert found is not None
    letter, marks = found["letter"], found["octave"]
    octave = 4 + letter.islower() + marks.count("'") - marks.count(",")
    natural = 12 * (octave + 1) + _SEMITONES[letter.upper()]
    return _Note((letter.upper(), octave), natural, found["sign"], found.group("times", "slashes", "parts"))


@lru_cache(maxsize=2**16)
def _symbol(pitch: int | None, numerator: int, denominator: int) -> Symbol:
    """Return one object for all equal symbols: millions of them would keep Python's garbage collection busy."""
    return Symbol(pitch, Fraction(numerator, denominator))


@cache
def _factors(sign: str) -> tuple[Fraction, Fraction]:
    """Return the length factors of the notes before and behind the sign of a broken rhythm.

    In a>b the first note becomes longer by the amount by which the second becomes shorter.
    """
    short = Fraction(1, 2 ** len(sign))
    return (2 - short, short) if ">" in sign else (short, 2 - short)


@dataclass
class _Tied:
    """The first note of a tie: its letter with the octave, and its pitch."""

    name: tuple[str, int]
    pitch: int


@dataclass
class _Reader:
    """The parser's state at a position in the music."""

    symbols: list[Symbol] = field(default_factory=list)
    key: dict[str, int] = field(default_factory=dict)
    unit: Fraction | None = None
    lengths: dict[tuple[str | None, ...], Fraction] = field(default_factory=dict)
    """Lengths by how they are written, as long as the unit length holds."""
    meter: tuple[int, int] | None = (4, 4)
    scope: str = "pitch"
    accidentals: dict[tuple[str, int] | str, int] = field(default_factory=dict)
    last: tuple[tuple[str, int] | None, Fraction] | None = None
    """Letter and octave of the last note (None for a rest), and the part of its symbol's length that this note added."""
    tied: _Tied | None = None
    broken: Fraction | None = None
    """The length factor of the next note."""
    tuplet: tuple[Fraction, int] = (Fraction(1), 0)
    """The length factor of a tuplet, and the number of notes it still applies to."""
    voice: str | None = None
    silent: bool = False
    overlaid: bool = False

    def read_line(self, line: str) -> None:
        if found := _PROPAGATE.match(line):
            self.scope = found[1]
        elif (found := as_field(line)) is not None:
            self.read_field(*found)
        elif not line.startswith("%%"):
            self.read_music(line)

    def read_field(self, letter: str, contents: str) -> None:
        if letter == "V":
            self.choose_voice(contents)
        elif letter == "I" and (found := _PROPAGATE.match(f"I:{contents}")):
            self.scope = found[1]
        elif not self.silent and letter in "KLM":
            {"K": self.change_key, "L": self.change_unit, "M": self.change_meter}[letter](contents)

    def choose_voice(self, contents: str) -> None:
        name = (contents.split() or [""])[0]
        if self.voice is None and not self.symbols:
            self.voice = name
        self.silent = name != self.voice

    def change_key(self, contents: str) -> None:
        key = key_signature(contents)
        if key is not None:
            self.key, self.accidentals = key, {}

    def change_unit(self, contents: str) -> None:
        found = re.match(r"(\d+)\s*(?:/\s*(\d+))?", contents.strip())
        if found is None or not int(found[1]) or not int(found[2] or 1):
            raise ValueError(f"the unit length is '{contents.strip()}', expected a fraction such as L:1/8")
        self.unit, self.lengths = 4 * Fraction(int(found[1]), int(found[2] or 1)), {}

    def change_meter(self, contents: str) -> None:
        text = contents.strip()
        common = {"C": (4, 4), "C|": (2, 2), "none": None, "": None}
        found = re.match(r"\(?(\d+(?:\s*\+\s*\d+)*)\)?\s*/\s*(\d+)", text)
        if text in common:
            self.meter = common[text]
        elif found and int(found[2]):
            self.meter = (sum(map(int, found[1].split("+"))), int(found[2]))
        else:
            raise ValueError(f"the meter is '{text}', expected a fraction such as M:6/8, C, C| or none")
        self.lengths = {}

    @property
    def unit_length(self) -> Fraction:
        """Return the unit length in quarter notes: the field L, else a sixteenth in meters below 3/4 and an eighth in others."""
        if self.unit is not None:
            return self.unit
        return Fraction(1, 4) if self.meter and Fraction(*self.meter) < Fraction(3, 4) else Fraction(1, 2)

    def read_music(self, line: str) -> None:
        place = 0
        while place < len(line):
            if note := _PLAIN.match(line, place):  # most tokens are notes, and this expression is fast
                place = note.end()
                if not self.silent and not self.overlaid:
                    self.read_note(_note(note[0]))
                continue
            found = _TOKEN.match(line, place)
            if found is None:
                raise ValueError(f"'{line[place : place + 12]}' stands where a note, a rest or a bar was expected")
            place = found.end()
            kind = found.lastgroup
            if kind == "field":
                self.read_field(found["field"][1], found["field"][3:-1])
            elif not self.silent and kind not in _PASSED_OVER and (kind == "bar" or not self.overlaid):
                getattr(self, f"read_{kind}")(found)

    def read_overlay(self, found: re.Match[str]) -> None:
        self.overlaid = True

    def read_bar(self, found: re.Match[str]) -> None:
        if self.broken is not None:
            raise ValueError("a bar stands where the second note of a broken rhythm was expected")
        self.accidentals, self.overlaid, self.last = {}, False, None
        if self.symbols and self.symbols[-1] != BAR:
            self.symbols.append(BAR)

    def read_tuplet(self, found: re.Match[str]) -> None:
        p = int(found["p"])
        usual = _TUPLETS.get(p, 3 if self.meter in _COMPOUND else 2)
        q, r = int(found["q"] or usual), int(found["r"] or p)
        if not 2 <= p <= 9 or q < 1 or r < 1:
            raise ValueError(f"the tuplet '{found[0]}' stands where (2 to (9 was expected")
        self.tuplet = Fraction(q, p), r

    def read_note(self, note: _Note) -> None:
        self.add(note.name, self.pitch_of(note), self.length_of(note.length))

    def read_chord(self, found: re.Match[str]) -> None:
        inner = [_note(note[0]) for note in _NOTE.finditer(found["inner"])]
        if not inner:
            raise ValueError(f"'{found[0]}' stands where a chord of notes was expected")
        name, pitch = max(((note.name, self.pitch_of(note)) for note in inner), key=lambda of: of[1])
        self.add(name, pitch, _sounding(self.length_of(inner[0].length) * _times(*found.group(*_CHORD_LENGTH))))
        if "-" in found["inner"]:
            self.read_tie(found)

    def read_rest(self, found: re.Match[str]) -> None:
        self.add(None, None, self.length_of(found.group(*_REST_LENGTH)))

    def read_bars(self, found: re.Match[str]) -> None:
        """Read a rest of whole bars."""
        if self.meter is None:
            raise ValueError(f"'{found[0]}' stands in free meter, where a rest with a length was expected")
        count = int(found["count"] or 1)
        if not count:
            raise ValueError(f"'{found[0]}' stands where a rest of one bar or more was expected")
        self.last, self.tied = None, None
        self.symbols.append(Symbol(None, 4 * count * Fraction(*self.meter)))

    def read_broken(self, found: re.Match[str]) -> None:
        """Read the sign of a broken rhythm."""
        if self.last is None or self.broken is not None:
            raise ValueError(f"'{found[0]}' stands where no note is before it")
        first, self.broken = _factors(found["broken"])
        name, own = self.last
        symbol, longer = self.symbols[-1], first * own
        self.symbols[-1] = symbol._replace(length=longer if symbol.length is own else symbol.length + longer - own)
        self.last = name, longer

    def read_tie(self, found: re.Match[str]) -> None:
        pitch = self.symbols[-1].pitch if self.symbols else None
        if self.last is not None and self.last[0] is not None and pitch is not None:
            self.tied = _Tied(self.last[0], pitch)

    def pitch_of(self, note: _Note) -> int:
        """Return the MIDI note."""
        name = note.name
        held = name if self.scope == "octave" else name[0]
        if note.sign is not None:
            alteration = ALTERATIONS[note.sign]
            if self.scope != "not":
                self.accidentals[held] = alteration
        elif self.tied is not None and self.tied.name == name and held not in self.accidentals:
            return self.tied.pitch
        else:
            alteration = self.accidentals.get(held, self.key.get(name[0], 0))
        return note.natural + alteration

    def length_of(self, written: tuple[str | None, ...]) -> Fraction:
        """Return the length of what is written behind a note. Multiplying fractions takes longer than all else that a note needs."""
        length = self.lengths.get(written)
        if length is None:
            self.lengths[written] = length = _sounding(_times(*written) * self.unit_length)
        return length

    def add(self, name: tuple[str, int] | None, pitch: int | None, length: Fraction) -> None:
        factor, left = self.tuplet
        if left:
            length, self.tuplet = length * factor, (factor, left - 1)
        if self.broken is not None:
            length, self.broken = length * self.broken, None
        tied, self.tied = self.tied, None
        if tied is not None and tied.pitch == pitch and self.symbols[-1] != BAR:
            self.symbols[-1] = Symbol(pitch, self.symbols[-1].length + length)
        else:
            symbol = _symbol(pitch, length.numerator, length.denominator)
            self.symbols.append(symbol)
            length = symbol.length
        self.last = name, length

    def end(self) -> None:
        if self.broken is not None or self.tuplet[1]:
            raise ValueError("the music ends where the last notes of a tuplet or of a broken rhythm were expected")
        if not any(symbol.kind == "note" for symbol in self.symbols):
            raise ValueError("the music has no note, expected some behind the field K:")


def _sounding(length: Fraction) -> Fraction:
    """Return a length above 0."""
    if not length:
        raise ValueError("a note of length 0 stands where one that sounds was expected")
    return length


def _times(times: str | None, marks: str | None, parts: str | None) -> Fraction:
    """Return the length factor of a note, written as '3/2', '2', '/', '//', '/4' or nothing."""
    slashes = len(marks or "")
    if parts is not None and not int(parts):
        raise ValueError("a length is divided by 0, expected a number above it")
    if parts is not None and slashes > 1:
        raise ValueError(f"the length '{'/' * slashes}{parts}' has {slashes} slashes and a number, expected one of both")
    return Fraction(int(times or 1), int(parts) if parts else 2**slashes)
