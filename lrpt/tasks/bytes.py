"""Byte-level language modelling: predict each byte of a file from those before it."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lrpt.datasets.documents import python_documentation
from lrpt.datasets.vocabulary import ByteVocabulary
from lrpt.errors import UsageError, check_at_least, check_choice
from lrpt.metrics import corpus_figures
from lrpt.tasks.task import Task
from lrpt.tasks.text import as_split, measure_text, name_of_text, windows

SOURCES = ("python", "enwik8", "text8")


@dataclass(frozen=True)
class NextByte:
    r"""Predict each byte of a file from those before it (Zilly et al. 2017, section 5.2.2, on enwik8 and text8).

    | source | bytes | different bytes | training, validation, test |
    |---|---|---|---|
    | python: the documentation that every Python carries, in UTF-8 | some 370,000 | some 100 | 90 %, 5 %, 5 % |
    | enwik8 | 100,000,000 | 205 | the first 90,000,000, the next 5,000,000, the last 5,000,000 |
    | text8 | 100,000,000 | 27 | as enwik8 |

    A file of yours takes the place of the source and is cut 90/5/5 %, at bytes as the source is. With the source enwik8 or text8 it is
    taken for a part of that text: the file itself, unpacked, or a prefix of it. Results on a prefix are not comparable with published
    ones, and `Task.notes` says so under 'prefix'.

    Symbols are the different bytes of all three parts, in ascending order, as in the authors' code; those of text8 are always 27.

    The file is one sequence. Example i are its bytes i s, ..., (i + 1) s - 1, where s is `steps`, each predicted from the one before it,
    the very first from the symbol 0 (in text8 a blank). An incomplete last window is left out of the training part; in the other parts it
    is padded, so that each byte is predicted exactly once.
    """

    source: str = "python"
    """python (documentation that every Python carries, nothing to download), enwik8 or text8"""
    file: Path | None = None
    """a file of yours, instead of the source; with source enwik8 or text8: that file, or a prefix of it"""
    dir: Path | None = None
    """where enwik8.zip or text8.zip is or is to be put, and prepared data too if it can be written (default: the user's cache)"""
    steps: int = 50
    """bytes in a window"""

    def __post_init__(self) -> None:
        check_choice("data.source", self.source, SOURCES)
        check_at_least(1, self, "data.steps")

    def build(self, seed: int) -> Task:
        """Splits with the file as an array of numbers; nothing depends on the seed.

        Raises:
          UsageError: a file that is missing, damaged or too small, or has bytes that the source does not have.
        """
        texts = self._texts()
        whole = b"".join(texts.values())
        vocabulary = ByteVocabulary.of(self._alphabet(whole))
        parts = {name: vocabulary.encode(text) for name, text in texts.items()}
        splits = {name: as_split(symbols, *windows(name, symbols.size, self.steps)) for name, symbols in parts.items()}
        notes = self._notes(whole, texts)
        return Task(splits, len(vocabulary), len(vocabulary), "all", measure_text, corpus_figures, True, vocabulary, notes)

    def _texts(self) -> dict[str, bytes]:
        if self.file is not None:
            return cut_bytes(_content(self.file))
        if self.source == "python":
            return cut_bytes(python_documentation().encode())
        from lrpt.datasets.wikipedia import load_wikipedia  # here, because it takes a second that other files need not wait for

        return load_wikipedia(self.source, self.dir)

    def _alphabet(self, whole: bytes) -> bytes:
        if self.source != "text8":
            return whole
        from lrpt.datasets.wikipedia import CORPORA  # as above

        alphabet = CORPORA["text8"].alphabet
        if foreign := set(whole) - set(alphabet):
            place = min(map(whole.index, foreign))
            where = f"byte 0x{whole[place]:02x} at position {place}"
            advice = "name text8 or a prefix of it, or choose another --data.source"
            raise UsageError(f"data.file is {self.file}, which has more than small letters and blanks ({where}): {advice}")
        return alphabet

    def _notes(self, whole: bytes, texts: dict[str, bytes]) -> dict[str, Any]:
        notes = {
            "text": name_of_text(self.source, self.file),
            "sha256": hashlib.sha256(whole).hexdigest(),
            "bytes": {name: len(text) for name, text in texts.items()},
        }
        if self.file is None or self.source == "python":
            return notes
        from lrpt.datasets.wikipedia import is_published  # as above

        if is_published(self.source, whole):
            return notes
        return notes | {"prefix": f"{len(whole):,} bytes that are not the published {self.source}: no result on {self.source}"}


def cut_bytes(content: bytes) -> dict[str, bytes]:
    """The first 90 %, the next 5 % and the last 5 %, for training, validation and test."""
    first, second = (len(content) * percent // 100 for percent in (90, 95))
    return {"train": content[:first], "valid": content[first:second], "test": content[second:]}


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"data.file is {path}, which cannot be read ({error.strerror}): name a file") from error
