"""enwik8 and text8: the first 100,000,000 bytes of an English Wikipedia of 2006, with and without markup, through tensorflow-datasets."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import tensorflow_datasets as tfds

from lrpt.datasets.prepared import PublishedFiles, examples_of, load_prepared
from lrpt.datasets.sources import Source
from lrpt.errors import UsageError

FOLDER = "wikipedia"
CHUNK = 1_000_000
CHUNKS = {"train": range(90), "valid": range(90, 95), "test": range(95, 100)}


@dataclass(frozen=True)
class Corpus:
    """A published text.

    Attributes:
      archive: the zip file that contains the text in a file with the corpus's name.
      md5: checksum of the unpacked file (http://mattmahoney.net/dc/textdata.html for enwik8).
      alphabet: the bytes that may occur in the text.
    """

    archive: Source
    md5: str
    alphabet: bytes = bytes(range(256))


def _archive(name: str, size: int, sha256: str) -> Source:
    return Source(f"{name}.zip", f"https://mattmahoney.net/dc/{name}.zip", size, sha256)


CORPORA = {
    "enwik8": Corpus(
        _archive("enwik8", 36_445_475, "547994d9980ebed1288380d652999f38a14fe291a6247c157c3d33d4932534bc"),
        "a1fa5ffddb56f4953e226637dabbb36a",
    ),
    "text8": Corpus(
        _archive("text8", 31_344_016, "a6640522afe85d1963ad56c05b0ede0a0c000dddc9671758a6cc09b7a38e5232"),
        "3bea1919949baf155f99411df5fada7e",
        b" abcdefghijklmnopqrstuvwxyz",
    ),
}


class _Builder(PublishedFiles, skip_registration=True):
    """A tfds builder with the text in file order, one example per million bytes: 90 for training, 5 for validation, 5 for test."""

    corpus: str
    about = "Bytes of Wikipedia."

    def _features(self) -> dict[str, Any]:
        chunk = tfds.features.Tensor(shape=(CHUNK,), dtype=np.uint8, encoding=tfds.features.Encoding.BYTES)
        return {"bytes": chunk}

    def _split_generators(self, dl_manager: tfds.download.DownloadManager) -> dict[str, Any]:
        return {part: self._generate_examples(part) for part in CHUNKS}

    def _generate_examples(self, part: str) -> Iterator[tuple[int, dict[str, Any]]]:
        with ZipFile(self._files[f"{self.corpus}.zip"]) as archive, archive.open(self.corpus) as file:
            file.seek(CHUNKS[part].start * CHUNK)
            for index in CHUNKS[part]:
                yield index, {"bytes": np.frombuffer(file.read(CHUNK), np.uint8)}


class LrptEnwik8(_Builder):
    """A builder of enwik8, XML with 205 different bytes."""

    corpus = "enwik8"


class LrptText8(_Builder):
    """A builder of text8, which consists of the 26 lower-case letters and blanks."""

    corpus = "text8"


_BUILDERS = {"enwik8": LrptEnwik8, "text8": LrptText8}


@lru_cache(maxsize=1)
def load_wikipedia(name: str, dir: Path | None = None) -> dict[str, bytes]:
    """Load 'train' (90,000,000 bytes), 'valid' (5,000,000) and 'test' (5,000,000) of a corpus in `CORPORA`, in file order.

    `load_prepared` lists the directories that are searched.

    Raises:
      UsageError: the archive is damaged, or missing and cannot be downloaded, or no directory is writable.
    """
    return load_prepared(_BUILDERS[name], _read, [CORPORA[name].archive], dir, FOLDER)


def _read(prepared: Any) -> dict[str, bytes]:
    texts = {}
    for part, expected in CHUNKS.items():
        texts[part] = b"".join(chunk["bytes"].tobytes() for chunk in examples_of(prepared, part, len(expected)))
    return texts


def check_alphabet(name: str, content: bytes, file: Path | None) -> None:
    """Check that a file has no bytes outside the corpus's alphabet.

    Raises:
      UsageError: there is one; the message names it and its position.
    """
    if unexpected := set(content) - set(CORPORA[name].alphabet):
        place = min(map(content.index, unexpected))
        where = f"byte 0x{content[place]:02x} at position {place}"
        advice = f"name {name} or a prefix of it, or choose another --data.source"
        raise UsageError(f"data.file is {file}, which has more than small letters and blanks ({where}): {advice}")


def remark(name: str, content: bytes) -> dict[str, str]:
    """Return the entry 'prefix' of `Task.metadata` if `content` is not the complete corpus; otherwise nothing."""
    if is_published(name, content):
        return {}
    return {"prefix": f"{len(content):,} bytes that are not the published {name}: no result on {name}"}


def is_published(name: str, content: bytes) -> bool:
    """Return whether `content` is the complete corpus `name` of `CORPORA`."""
    return len(content) == CHUNKS["test"].stop * CHUNK and hashlib.md5(content, usedforsecurity=False).hexdigest() == CORPORA[name].md5
