"""Byte-level language modelling: predict each byte of a file from those before it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lrpt.datasets.data_file import read_bytes
from lrpt.datasets.documents import python_documentation
from lrpt.datasets.vocabulary import ByteVocabulary
from lrpt.errors import UsageError, check_at_least, check_choice
from lrpt.metrics import corpus_metrics
from lrpt.tasks.sources import take_paths, unused_places
from lrpt.tasks.task import Task
from lrpt.tasks.text import SOURCES_OF_BYTES, identity, stream_task

SOURCES = ("python", "enwik8", "text8")


@dataclass(frozen=True)
class NextByte:
    """Byte-level language modelling (Zilly et al. 2017, section 5.2.2, on enwik8 and text8).

    | source | bytes | different bytes | training, validation, test |
    |---|---|---|---|
    | python: documentation included in every Python, in UTF-8 | some 370,000 | some 100 | 90 %, 5 %, 5 % |
    | enwik8 | 100,000,000 | 205 | the first 90,000,000, the next 5,000,000, the last 5,000,000 |
    | text8 | 100,000,000 | 27 | the same as enwik8 |

    A `file` replaces the source and is split 90/5/5 % at byte positions. With the source enwik8 or text8, the file must be that text,
    unpacked, or a prefix of it. Results on a prefix are not comparable with published results; `Task.metadata` then has an entry 'prefix'.

    Symbols are the different bytes of all three splits in ascending order, as in the authors' code. text8 always has 27 symbols.

    The file is one sequence. Example i is the window of bytes i s, ..., (i + 1) s - 1, where s is `steps`. Each byte is predicted from the
    byte before it, and the first byte from symbol 0 (a blank in text8). An incomplete last window is dropped from the training split. It is
    padded in the other splits, so that each byte is predicted exactly once.
    """

    source: str = "python"
    """python (documentation included in every Python, nothing to download), enwik8 or text8"""
    file: Path | None = None
    """a file to use instead of the source; with source enwik8 or text8: that file, unpacked, or a prefix of it"""
    dir: Path | None = None
    """directory of enwik8.zip or text8.zip; downloads and prepared data go there too if it is writable (None: the user's cache)"""
    steps: int = 50
    """bytes in a window"""

    def __post_init__(self) -> None:
        take_paths(self)
        check_choice("data.source", self.source, SOURCES)
        check_at_least(1, self, "data.steps")

    @property
    def unused(self) -> dict[str, str]:
        """Return the settings that have no effect, and why."""
        return unused_places(self.source, self.file, SOURCES_OF_BYTES)

    def build(self, seed: int) -> Task:
        """Build splits that hold the file as an array of symbol numbers. The seed has no effect.

        Raises:
          UsageError: the file is missing, damaged, too small, or contains bytes outside the source's alphabet.
        """
        texts = self._texts()
        whole = b"".join(texts.values())
        vocabulary = ByteVocabulary.of(self._alphabet(whole))
        symbols = {name: vocabulary.encode(text) for name, text in texts.items()}
        return stream_task(symbols, vocabulary, self.steps, corpus_metrics, self._metadata(whole, texts))

    def _texts(self) -> dict[str, bytes]:
        if self.file is not None:
            return cut_bytes(_content(self.file))
        if self.source == "python":
            return cut_bytes(python_documentation().encode())
        from lrpt.datasets.wikipedia import load_wikipedia  # imported here because it takes a second

        return load_wikipedia(self.source, self.dir)

    def _alphabet(self, whole: bytes) -> bytes:
        if self.source != "text8":
            return whole
        from lrpt.datasets.wikipedia import CORPORA, check_alphabet  # imported here as in _texts

        check_alphabet("text8", whole, self.file)
        return CORPORA["text8"].alphabet

    def _metadata(self, whole: bytes, texts: dict[str, bytes]) -> dict[str, Any]:
        metadata = identity(self.source, self.file, texts) | {"bytes": {name: len(text) for name, text in texts.items()}}
        if self.file is None or self.source == "python":
            return metadata
        from lrpt.datasets.wikipedia import remark  # imported here as in _texts

        return metadata | remark(self.source, whole)


def cut_bytes(content: bytes) -> dict[str, bytes]:
    """Split bytes into the first 90 % for training, the next 5 % for validation, and the last 5 % for test.

    Both split points are rounded down, so that 105 bytes are 94, 5 and 6. `lrpt.datasets.documents.cut` with 'exact' rounds the sizes of
    validation and test instead, as the code of another paper does: 95, 5 and 5. Finished runs depend on each of the two.
    """
    first, second = (len(content) * percent // 100 for percent in (90, 95))
    return {"train": content[:first], "valid": content[first:second], "test": content[second:]}


def _content(path: Path) -> bytes:
    content = read_bytes(path, "name a file")
    if not content:
        raise UsageError(f"data.file is {path}, which holds no text: name a file with bytes to predict")
    return content
