"""Bit-level language modelling: predict each bit of a text from those before it."""

import hashlib
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from lrpt.datasets.vocabulary import ByteVocabulary
from lrpt.errors import UsageError, check_at_least, check_choice
from lrpt.metrics import bit_figures
from lrpt.symbols import CodedSize
from lrpt.tasks.task import Example, Split, Task
from lrpt.tasks.text import load_texts, measure_text, name_of_text, windows

SOURCES = ("python", "ptb", "ptb_joined", "europarl_cs", "europarl_de", "enwik8", "text8")
WIDTH = 8
"""Bits of a character."""
LIMIT = np.iinfo(np.int32).max


@dataclass(frozen=True)
class NextBit:
    r"""Predict each bit of a text from those before it (Jernite et al. 2017, section 5.2 and Table 3, on the Penn Treebank).

    A character is the eight bits of its byte in UTF-8, most significant first; the Penn Treebank is ASCII. The paper does not state the
    order of the bits, nor that of the highest one, which is 0 in all of ASCII, is predicted too; here it is, as its 'bits per bit' of
    0.215 and 1.72 bits per character suggest. With `buffer`, so many 0 bits stand behind each character (section 5.2.1 and Figure 2: 8 and
    24). They too are predicted.

    Sources are those of `NextSymbol` and `NextByte`, cut as there, with '<unk>' as five characters.

    The text is one sequence of bits. Example i are its bits i s, ..., (i + 1) s - 1, where s is `steps`, each predicted from the one before
    it, the very first from a 0. An incomplete last window is left out of the training part; in the other parts it is padded, so that each
    bit is predicted exactly once.

    For networks that are told where characters end (`lrpt.networks.conditional`), inputs are b + 2 u with `characters`, where b is the bit
    and u is 1 + the byte that it completes, or 0 where it completes none.
    """

    source: str = "python"
    """python (documentation that every Python carries, nothing to download), ptb (Penn Treebank), ptb_joined, europarl_cs, europarl_de,
    enwik8 or text8"""
    file: Path | None = None
    """a text of yours in UTF-8, instead of the source"""
    dir: Path | None = None
    """where the files of the source are or are to be put, and prepared data too if it can be written (default: the user's cache)"""
    buffer: int = 0
    """0 bits behind each character; 8 and 24 in the paper"""
    characters: bool = False
    """inputs also say which character a bit completes, for conditional networks"""
    steps: int = 200
    """bits in a window"""

    def __post_init__(self) -> None:
        check_choice("data.source", self.source, SOURCES)
        check_at_least(0, self, "data.buffer")
        check_at_least(1, self, "data.steps")

    @property
    def period(self) -> int:
        """Bits from the start of a character to that of the next."""
        return WIDTH + self.buffer

    def build(self, seed: int) -> Task:
        """Splits with the text as an array of bytes; nothing depends on the seed.

        Raises:
          UsageError: a file that is missing, damaged, not UTF-8, too small, or too large to number its bits.
        """
        texts = self._texts()
        splits = {part: self._split(part, np.frombuffer(text, np.uint8)) for part, text in texts.items()}
        input_size = CodedSize(2, 256) if self.characters else 2
        notes = self._notes(texts)
        summarize = partial(bit_figures, period=self.period)
        return Task(splits, input_size, 2, "all", measure_text, summarize, True, ByteVocabulary(("0", "1")), notes)

    def _texts(self) -> dict[str, bytes]:
        if self.file is None and self.source in ("enwik8", "text8"):
            from lrpt.datasets.wikipedia import load_wikipedia  # here, because it takes a second that other texts need not wait for

            return load_wikipedia(self.source, self.dir)
        return {part: text.encode() for part, text in load_texts(self.source, self.file, self.dir).items()}

    def _split(self, part: str, text: np.ndarray) -> Split:
        bits = text.size * self.period
        if bits + self.steps > LIMIT:
            advice = "choose a smaller --data.buffer or a smaller text"
            raise UsageError(f"data.buffer is {self.buffer}, and the {part} part has {bits:,} bits, more than {LIMIT:,}: {advice}")
        starts, lengths = windows(part, bits, self.steps)
        masked = bool(lengths[-1] < self.steps)
        return Split(len(starts), text, partial(_window, steps=self.steps, period=self.period, characters=self.characters, masked=masked))

    def _notes(self, texts: dict[str, bytes]) -> dict[str, Any]:
        return {
            "text": name_of_text(self.source, self.file),
            "sha256": hashlib.sha256(b"".join(texts.values())).hexdigest(),
            "characters": {part: len(text) for part, text in texts.items()},
            "bits": {part: len(text) * self.period for part, text in texts.items()},
        }


def _window(arrays: Any, index: Int[Array, ""], steps: int, period: int, characters: bool, masked: bool) -> Example:
    """The bits of the window at `index` as targets, and those before each of them as inputs; (steps,) integers, padded with 0."""
    text = jnp.asarray(arrays)
    position = index * steps - 1 + jnp.arange(steps + 1)
    counts = (position >= 0) & (position < text.size * period)
    place, shift = position // period, WIDTH - 1 - position % period
    byte = text[jnp.clip(place, 0, text.size - 1)].astype(jnp.int32)
    bit = jnp.where(counts & (shift >= 0), (byte >> jnp.maximum(shift, 0)) & 1, 0)
    completed = jnp.where(counts & (shift == 0), 1 + byte, 0)
    mask = counts[1:]
    inputs = jnp.where(mask, (bit + 2 * completed if characters else bit)[:-1], 0)
    return Example(inputs, bit[1:], mask if masked else None)
