"""Melodies in ABC notation: files, keys, the notes, rests and bars of a tune, read and written; and the detection of variants of a tune."""

from lrpt.datasets.abc.drawn import drawn_tunes
from lrpt.datasets.abc.keys import key_signature
from lrpt.datasets.abc.midi import midi_file
from lrpt.datasets.abc.reader import read_tune
from lrpt.datasets.abc.symbols import BAR, Symbol
from lrpt.datasets.abc.tunes import Tune, split_tunes
from lrpt.datasets.abc.variants import divide, families, traits
from lrpt.datasets.abc.writer import write_tune

__all__ = [
    "BAR",
    "Symbol",
    "Tune",
    "divide",
    "drawn_tunes",
    "families",
    "key_signature",
    "midi_file",
    "read_tune",
    "split_tunes",
    "traits",
    "write_tune",
]
