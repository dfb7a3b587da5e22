"""Melodies in ABC notation: files, keys, the notes, rests and bars of a tune, and which tunes are variants of each other."""

from lrpt.data.abc.drawn import drawn_tunes
from lrpt.data.abc.keys import key_signature
from lrpt.data.abc.reader import read_tune
from lrpt.data.abc.symbols import BAR, Symbol
from lrpt.data.abc.tunes import Tune, split_tunes
from lrpt.data.abc.variants import divide, families, traits

__all__ = ["BAR", "Symbol", "Tune", "divide", "drawn_tunes", "families", "key_signature", "read_tune", "split_tunes", "traits"]
