"""Tests of ABC notation against the standard 2.1, construct by construct, and of invalid notation."""

import re
from fractions import Fraction
from io import BytesIO

import numpy as np
import pytest

from lrpt.datasets.abc import (
    BAR,
    Symbol,
    Tune,
    divide,
    drawn_tunes,
    families,
    key_signature,
    midi_file,
    read_tune,
    split_tunes,
    traits,
    write_tune,
)
from lrpt.datasets.abc.variants import plain_title
from lrpt.errors import UsageError


def symbols(music, header="L:1/4", key="C"):
    """Return the symbols of a tune with this music, written out."""
    (tune,) = split_tunes(f"X:1\nT:Test\n{header}\nK:{key}\n{music}\n", "test.abc")
    return " ".join(map(str, read_tune(tune)))


def pitches(music, **options):
    return re.sub(r":[\d/]+", "", symbols(music, **options))


def lengths(music, **options):
    return [str(Symbol.of(text).length) for text in symbols(music, **options).split() if text != "|"]


# Sections 4.1 and 4.2, 3.1.14 and 11.3.
@pytest.mark.parametrize(
    ("music", "key", "expected"),
    [
        ("C, C c c' c''", "C", "C3 C4 C5 C6 C7"),
        ("^C _D =E ^^F __G", "C", "C#4 C#4 E4 G4 F4"),
        ("F C G B", "D", "F#4 C#4 G4 B4"),
        ("F B E A", "Eb", "F4 A#4 D#4 G#4"),
        ("F B", "Gm", "F4 A#4"),
        ("F C", "G mixolydian", "F4 C4"),
        ("F C B", "Ador", "F#4 C4 B4"),
        ("F B", "D Phr ^f", "F#4 A#4"),
        ("F B", "D exp _b", "F4 A#4"),
        ("F C G", "HP", "F#4 C#4 G4"),
        ("F C", "none", "F4 C4"),
        ("^F f F | F", "C", "F#4 F#5 F#4 | F4"),
        ("=F F | F", "D", "F4 F4 | F#4"),
        ("^F-|F F|F", "C", "F#4 | F#4 F4 | F4"),
        ("F [K:G] F", "C", "F4 F#4"),
        ("^C [K:G] C F", "C", "C#4 C4 F#4"),
        ("^F-|[=F,F]", "C", "F#4 | F4"),
        ("F C G", "HP ^g", "F#4 C#4 G#4"),
    ],
)
def test_pitches(music, key, expected):
    assert pitches(music, key=key) == expected


@pytest.mark.parametrize(("scope", "expected"), [("pitch", "F#4 F#5 F#4"), ("octave", "F#4 F5 F#4"), ("not", "F#4 F5 F4")])
def test_how_far_accidentals_reach(scope, expected):
    assert pitches("^F f F", header=f"I:propagate-accidentals {scope}") == expected
    assert pitches(f"%%propagate-accidentals {scope}\n^F f F") == pitches(f"[I:propagate-accidentals {scope}] ^F f F") == expected


# Sections 4.3 to 4.5, 4.13.
@pytest.mark.parametrize(
    ("music", "expected"),
    [
        ("A A2 A/ A/2 A// A3/2 A3/ A/4", "1 2 1/2 1/2 1/4 3/2 3/2 1/4"),
        ("z z2 x/ A", "1 2 1/2 1"),
        ("A>B A<B A>>B A<<B A>>>B", "3/2 1/2 1/2 3/2 7/4 1/4 1/4 7/4 15/8 1/8"),
        ("A2>B2 A > B A{cd}>B A>~B", "3 1 3/2 1/2 3/2 1/2 3/2 1/2"),
        ("(3ABc d", "2/3 2/3 2/3 1"),
        ("(2AB (4ABcd (6ABcdef (8ABcdefga", "3/2 3/2 3/4 3/4 3/4 3/4" + " 1/3" * 6 + " 3/8" * 8),
        ("(5ABcde", "2/5 " * 5),
        ("[M:6/8] (5ABcde", "3/5 " * 5),
        ("[M:9/8] (5ABcde [M:12/8] (7ABcdefg [M:3/4] (7ABcdefg", "3/5 " * 5 + "3/7 " * 7 + "2/7 " * 7),
        ("(3:2:2 G2c (3::2 G2c (3:2:4 GABc d", "4/3 2/3 4/3 2/3 2/3 2/3 2/3 2/3 1"),
        ("(3A>Bc (3zAB", "1 1/3 2/3 2/3 2/3 2/3"),
        ("[L:1/8] A [L:1/16] A", "1/2 1/4"),
        ("Z2 | A", "8 1"),
    ],
)
def test_lengths(music, expected):
    assert lengths(music) == expected.split()


@pytest.mark.parametrize(("header", "expected"), [("M:6/8", "1/2"), ("M:2/4", "1/4"), ("M:3/4", "1/2"), ("M:C|", "1/2"), ("M:none", "1/2")])
def test_the_unit_length_goes_by_the_meter(header, expected):
    assert lengths("A", header=header) == [expected]
    assert lengths("A", header=f"{header}\nL:1/4") == ["1"]


# Sections 4.8 to 4.11, 4.14 to 4.20, 7.
@pytest.mark.parametrize(
    ("music", "expected"),
    [
        ("|: A | B :: c :|[1 d :|2 e || f |]", "A4 | B4 | C5 | D5 | E5 | F5 |"),
        ("A |\n| B | | c", "A4 | B4 | C5"),
        ('{/e}A{Bc} "Am"B .c ~d !trill!e uf (AB) "^text"c', "A4 B4 C5 D5 E5 F5 A4 B4 C5"),
        ("[CEG] [c2A,] [G,C]2 [CE]", "G4 C5 C4 E4"),
        ("A`B y c \\\nd $ e*", "A4 B4 C5 D5 E5"),
        ("V:1\nA B |\nV:2\nC D |\nV:1\nc d |\n[V:2] E [V:1] f", "A4 B4 | C5 D5 | F5"),
        ("A B & c d | e", "A4 B4 | E5"),
        ("A B % c d\n% e\nw: la la\nc", "A4 B4 C5"),
    ],
)
def test_what_is_made_simpler(music, expected):
    assert pitches(music) == expected


def test_ties_join_notes_of_one_pitch():
    assert symbols("A-A B-c d2-|d") == "A4:2 B4:1 C5:1 D5:2 | D5:1"
    assert symbols("A-A>B [CE-]E") == "A4:5/2 B4:1/2 E4:2"
    assert symbols("A2-(3ABc") == "A4:8/3 B4:2/3 C5:2/3"


def test_chords_have_the_length_of_their_first_note():
    assert symbols("[C2E]2 [CE]/ [CE]>A") == "E4:4 E4:1/2 E4:3/2 A4:1/2"


@pytest.mark.parametrize(
    ("music", "expected"),
    [
        ("A B |\nA Y c", r"line 6: 'Y c' stands where a note, a rest or a bar was expected"),
        ("A> |", r"line 5: a bar stands where the second note of a broken rhythm was expected"),
        (">A", r"line 5: '>' stands where no note is before it"),
        ("A0", r"line 5: a note of length 0"),
        ("A/0", r"line 5: a length is divided by 0"),
        ("A//2", r"line 5: the length '//2' has 2 slashes and a number"),
        ("(3AB", r"line 5: the music ends where the last notes of a tuplet"),
        ("(1A", r"line 5: the tuplet '\(1' stands where \(2 to \(9 was expected"),
        ("[K:H]A", r"line 5: the key is 'H', expected a tonic from A to G and a mode"),
        ("[M:x]A", r"line 5: the meter is 'x', expected a fraction such as M:6/8"),
        ("[L:0]A", r"line 5: the unit length is '0', expected a fraction such as L:1/8"),
        ("[M:none]Z A", r"line 5: 'Z' stands in free meter"),
        ("A []", r"line 5: '\[\]' stands where a chord of notes was expected"),
        ("z |", r"line 5: the music has no note"),
    ],
)
def test_what_is_no_abc_is_one_line_with_its_place(music, expected):
    with pytest.raises(UsageError, match=rf"^test\.abc, tune 1 'Test', {expected}") as raised:
        symbols(music)
    assert "\n" not in str(raised.value)


def test_a_header_without_a_key_is_named():
    (tune,) = split_tunes("X:7\nT:Keyless\n\nABc", "some.abc")
    with pytest.raises(UsageError, match=r"^some\.abc, tune 7 'Keyless': it has no field K:"):
        read_tune(tune)


@pytest.mark.parametrize(
    ("field", "sharps"),
    [
        ("F#", 6),
        ("Cb", -7),
        ("Bbmin", -5),
        ("A minor", 0),
        ("DLydian", 3),
        ("E Phrygian", 0),
        ("Bloc", 0),
        ("G clef=bass", 1),
        ("em", None),
    ],
)
def test_signatures_have_as_many_sharps_as_the_circle_of_fifths(field, sharps):
    if sharps is None:
        with pytest.raises(ValueError, match="the key is 'em'"):
            key_signature(field)
    else:
        assert sum(key_signature(field).values()) == sharps


def test_keys_that_name_no_key_change_nothing():
    assert key_signature("clef=bass octave=-1") is None
    assert key_signature("treble-8") is None
    with pytest.raises(ValueError, match=r"has 8 sharps or flats, expected at most 7"):
        key_signature("G#")


def test_files_are_cut_at_empty_lines_and_numbers():
    text = "M:6/8\n\nX:1\nT:One\nK:C\nabc\n\nfree text\n\nX: 2\nT:Two\nL:1/4\nK:G\nabc\nX:3\nK:D % sharps\nE:|\n"
    one, two, three = split_tunes(text, "a.abc")
    assert (one.number, one.title, one.lines) == ("1", "One", [(6, "abc")])
    assert two.fields == {"M": ["6/8"], "T": ["Two"], "L": ["1/4"], "K": ["G"]}
    assert (three.place, three.fields["K"], three.lines) == ("a.abc, tune 3", ["D"], [(17, "E:|")])


def test_symbols_are_written_and_read():
    for symbol in (Symbol(66, Fraction(1, 3)), Symbol(None, Fraction(3, 2)), BAR, Symbol(59, Fraction(2)), Symbol(0, Fraction(1))):
        assert Symbol.of(str(symbol)) == symbol
    assert [Symbol.of(text).kind for text in ("F#4:1/3", "z:2", "|")] == ["note", "rest", "bar"]
    assert str(Symbol(66, Fraction(1, 3))) == "F#4:1/3"


@pytest.mark.parametrize(
    "title",
    ["The Fairy Reel", "Fairy Reel, The", "FAIRY REEL., THE", "Fairy Reel (2nd setting)", "The Fairy Reel, setting 2", "Fáiry Reel #2"],
)
def test_titles_of_variants_are_alike(title):
    assert plain_title(title) == "fairy reel"


def test_a_comment_begins_at_a_percent_sign_that_is_not_escaped():
    (tune,) = split_tunes("X:1 % one\nT:50\\% off % a title\nK:C\nA\n", "f")
    assert (tune.number, tune.title) == ("1", "50\\% off")


def test_variants_share_a_title_a_number_or_a_beginning():
    def traits_of(music, **fields):
        tune = Tune("f", "1", {"K": ["C"], **{name: [value] for name, value in fields.items()}}, [(1, music)])
        return [*traits(tune, read_tune(tune))]

    scale = "CDEFGABcdefga"
    of = [
        traits_of("CDE", T="One"),
        traits_of("GGG", T="The One", B="O'Neill's 5"),
        traits_of("AAA", T="Two", B="o'neill's 5"),
        traits_of(scale, T="Three"),
        traits_of(f"{scale}{scale}", T="Four"),
        traits_of("CCC", T="Five"),
        traits_of("EEE", T="Six", B="O'Neill's"),
        traits_of("GAG", T="Seven", B="O'Neill's"),
        traits_of(scale[:-1], T="Eight"),
        traits_of(scale[:-1], T="Nine"),
    ]
    assert families(of) == [[0, 1, 2], [3, 4], [5], [6], [7], [8], [9]]


def test_families_are_not_divided():
    of = [[f"title {number // 3}"] for number in range(300)]
    parts = divide(of, {"a": 0.1, "b": 0.3, "c": 0.6})
    assert sorted(number for numbers in parts.values() for number in numbers) == list(range(300))
    assert [len(part) for part in parts.values()] == [30, 90, 180]
    of_part = {number // 3: part for part, numbers in parts.items() for number in numbers}
    assert all(of_part[number // 3] == part for part, numbers in parts.items() for number in numbers)
    assert divide(of, {"a": 0.1, "b": 0.3, "c": 0.6}) == parts


def test_the_division_does_not_depend_on_the_order_of_the_tunes():
    """Files of a collection may be read in another order. Tunes of a family have different titles, and a book in common."""
    of, shares = [[f"title {number}", f"book {number // 2}"] for number in range(100)], {"a": 0.2, "b": 0.3, "c": 0.5}
    backwards = {part: {99 - number for number in numbers} for part, numbers in divide(of[::-1], shares).items()}
    assert backwards == {part: set(numbers) for part, numbers in divide(of, shares).items()}


def test_drawn_tunes_fill_their_bars():
    for tune in split_tunes(drawn_tunes(12), "drawn"):
        bars, melody = [Fraction(0)], read_tune(tune)
        for symbol in melody:
            bars = [*bars, Fraction(0)] if symbol == BAR else [*bars[:-1], bars[-1] + symbol.length]
        assert melody[-1] == BAR
        assert set(bars[:-1]) == {Fraction(3) if tune.fields["M"] == ["6/8"] else Fraction(4)}
        assert len(bars) == 17
    assert drawn_tunes(3) == drawn_tunes(12)[: len(drawn_tunes(3))]


# Writing


def written(text):
    """Write symbols, and return the key and the music."""
    lines = write_tune([Symbol.of(word) for word in text.split()], 7, "A tune").splitlines()
    assert lines[:4] == ["X:7", "T:A tune", "M:none", "L:1/8"]
    return lines[4].removeprefix("K:"), " ".join(lines[5:])


@pytest.mark.parametrize(
    ("music", "expected"),
    [
        ("C4:1 E4:1/2 G4:1/4 C5:3/4", ("C", "C2 E G/2 c3/2 |]")),
        ("G3:1/2 B4:1/2 | C6:1/2 z:2 D#2:1/2", ("C", "G, B | c' z4 ^D,, |]")),
        ("F#4:1/2 G4:1/2 F4:1/2 F#4:1/2 | F#4:1/2 F#4:1/2", ("G", "F G =F ^F | F F |]")),
        ("A#4:1/2 F4:1/2 D#4:1/2 A#4:1/2", ("Bb", "B F E B |]")),
        ("C4:1/3 D4:1/3 z:1/3 E4:1/3 F4:1/6", ("C", "(3C D z".replace(" ", "") + " E2/3 F/3 |]")),
        ("| C4:1/2 | | D4:1/2 |", ("C", "C | D |]")),
    ],
)
def test_symbols_become_notation(music, expected):
    assert written(music) == expected


def test_every_drawn_tune_is_read_again_as_it_was_written():
    for tune in split_tunes(drawn_tunes(60), "drawn"):
        melody = read_tune(tune)
        (again,) = split_tunes(write_tune(melody, 1, ""), "written")
        assert [*read_tune(again), BAR][: len(melody)] == melody


def test_random_symbols_are_read_again_as_they_were_written():
    rng = np.random.default_rng(0)
    for _ in range(60):
        melody = [
            Symbol(int(pitch), Fraction(int(rng.integers(1, 9)), int(rng.choice([1, 2, 3, 4, 6])))) for pitch in rng.integers(36, 97, 40)
        ]
        for place in (31, 17, 8):
            melody.insert(place, BAR)
        (again,) = split_tunes(write_tune(melody, 1, ""), "written")
        assert read_tune(again)[: len(melody)] == melody


def test_midi_files_play_the_notes_for_their_lengths():
    mido = pytest.importorskip("mido")
    melody = [Symbol.of(word) for word in ("C4:1", "z:1/2", "F#5:1/3", "|", "C4:2")]
    file = mido.MidiFile(file=BytesIO(midi_file([melody, melody], tempo=60)))
    notes = [(m.type, m.note, m.time / file.ticks_per_beat) for m in file.tracks[0] if m.type.startswith("note")]
    one = [(60, 0, 1), (78, 0.5, 1 / 3), (60, 0, 2)]
    events = [event for pitch, wait, length in one for event in (("note_on", pitch, wait), ("note_off", pitch, length))]
    assert notes == [*events, ("note_on", 60, 4.0), *events[1:]]
    assert file.length == pytest.approx(2 * (1 + 1 / 2 + 1 / 3 + 2) + 4)  # one quarter note is a second
    waiting = mido.MidiFile(file=BytesIO(midi_file([[*melody, Symbol.of("z:1/4")], melody])))
    waits = [m.time / waiting.ticks_per_beat for m in waiting.tracks[0] if m.type == "note_on"]
    assert waits == [0, 0.5, 0, 4.25, 0.5, 0]


def test_a_pitch_that_midi_does_not_have_is_refused():
    pytest.importorskip("mido")
    with pytest.raises(UsageError, match="the pitch 128: MIDI has 0 to 127"):
        midi_file([[Symbol(127, Fraction(1)), Symbol(128, Fraction(1))]])


def test_a_tune_with_traits_of_two_families_joins_them():
    assert families([["a"], ["b"], ["a", "b"]]) == [[0, 1, 2]]


def test_a_new_meter_changes_the_usual_unit_of_notes_that_were_read_before():
    (tune,) = split_tunes("X:1\nM:2/4\nK:C\nA2 A | [M:6/8] A2 A\n", "file")
    assert [s.length for s in read_tune(tune) if s.kind == "note"] == [Fraction(1, 2), Fraction(1, 4), 1, Fraction(1, 2)]


def test_a_rest_of_bars_ends_a_tie():
    assert symbols("C-ZC") == "C4:1 z:4 C4:1"
