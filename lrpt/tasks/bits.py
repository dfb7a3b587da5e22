"""Bit-level language modelling: predict each bit of a text from those before it."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, PyTree

from lrpt.datasets.vocabulary import ByteVocabulary
from lrpt.errors import UsageError, check_at_least, check_choice
from lrpt.metrics import bit_metrics
from lrpt.symbols import codes_of
from lrpt.tasks.sources import take_paths, unused_places
from lrpt.tasks.task import Example, Split, Task
from lrpt.tasks.text import SOURCES, identity, load_texts, text_metrics, windows

WIDTH = 8
"""Bits of a character."""
BITS = ("0", "1")
"""Symbols of a text of bits."""
LIMIT = np.iinfo(np.int32).max


@dataclass(frozen=True)
class NextBit:
    """Bit-level language modelling (Jernite et al. 2017, section 5.2 and Table 3, on the Penn Treebank).

    A character is the eight bits of its UTF-8 byte, most significant bit first; the Penn Treebank is ASCII. The paper states neither the
    order of the bits nor whether the highest bit, always 0 in ASCII, is predicted. Here it is, and bits per character are 8 times bits per
    bit. The paper prints the latter only. `buffer` appends that many 0 bits to each character (section 5.2.1 and Figure 2: 8 and 24).
    They are predicted too.

    enwik8 and text8 have the splits of `NextByte`. The other sources, and every `file`, have those of `NextSymbol`: a text is cut 90/5/5 %
    at line ends. '<unk>' is five characters.

    The text is one sequence of bits. Example i is the window of bits i s, ..., (i + 1) s - 1, where s is `steps`. Each bit is predicted
    from the bit before it, and the first bit of the text from a 0. An incomplete last window is dropped from the training split. It is
    padded in the other splits, so that each bit is predicted exactly once.

    With `characters`, inputs also mark the ends of characters, for the networks in `lrpt.networks.conditional`. An input is then b + 2 u,
    where b is the bit, and u is 1 + the byte that the bit completes, or 0 if it completes none.
    """

    source: str = "python"
    """python (its documentation, no download), ptb (Penn Treebank), ptb_joined (split 90/5/5), europarl_cs, europarl_de, enwik8, text8"""
    file: Path | None = None
    """a text file in UTF-8 to use instead of the source"""
    dir: Path | None = None
    """directory of the source's files; downloads and prepared data go there too if it is writable (None: the user's cache)"""
    buffer: int = 0
    """0 bits appended to each character; 8 and 24 in the paper"""
    characters: bool = False
    """inputs also contain the character that a bit completes, for conditional networks"""
    steps: int = 200
    """bits in a window"""

    def __post_init__(self) -> None:
        take_paths(self)
        check_choice("data.source", self.source, SOURCES)
        check_at_least(0, self, "data.buffer")
        check_at_least(1, self, "data.steps")

    @property
    def unused(self) -> dict[str, str]:
        """Return the settings that have no effect, and why."""
        return unused_places(self.source, self.file)

    @property
    def period(self) -> int:
        """Return the number of bits between the starts of two characters."""
        return WIDTH + self.buffer

    def build(self, seed: int) -> Task:
        """Build splits that hold the text as an array of bytes. The seed has no effect.

        Raises:
          UsageError: the file is missing, damaged, not UTF-8, too small, or too large for 32-bit indices of its bits.
        """
        texts = self._texts()
        splits = {part: self._split(part, np.frombuffer(text, np.uint8)) for part, text in texts.items()}
        input_size = codes_of(2, 256 if self.characters else 0)
        metadata = self._metadata(texts)
        summarize = partial(bit_metrics, period=self.period)
        return Task(splits, input_size, 2, "all", text_metrics, summarize, True, ByteVocabulary(BITS), metadata)

    def _texts(self) -> dict[str, bytes]:
        if self.file is None and self.source in ("enwik8", "text8"):
            from lrpt.datasets.wikipedia import load_wikipedia  # imported here because it takes a second

            return load_wikipedia(self.source, self.dir)
        source = self.source if self.file is None else "python"  # a file is UTF-8 here, whatever the source
        return {part: text.encode() for part, text in load_texts(source, self.file, self.dir).items()}

    def _split(self, part: str, text: np.ndarray) -> Split:
        bits = text.size * self.period
        if bits + self.steps > LIMIT:
            advice = "choose a smaller --data.buffer or a smaller text"
            raise UsageError(f"data.buffer is {self.buffer}, and the {part} split has {bits:,} bits, more than {LIMIT:,}: {advice}")
        starts, lengths = windows(part, bits, self.steps)
        masked = bool(lengths[-1] < self.steps)
        return Split(len(starts), text, partial(_window, steps=self.steps, period=self.period, characters=self.characters, masked=masked))

    def _metadata(self, texts: dict[str, bytes]) -> dict[str, Any]:
        return {
            **identity(self.source, self.file, texts),
            "characters": {part: len(text) for part, text in texts.items()},
            "bits": {part: len(text) * self.period for part, text in texts.items()},
        }


def _window(arrays: PyTree, index: Int[Array, ""], steps: int, period: int, characters: bool, masked: bool) -> Example:
    """Return the window at `index`: its bits as targets, and the bit before each of them as inputs.

    Both are (steps,) integers, padded with 0.
    """
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
