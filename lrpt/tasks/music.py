"""Melodies as sequences of symbols: predict each note, rest or bar from the symbols before it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lrpt.datasets.abc import Symbol, Tune, divide, drawn_tunes, families, read_tune, split_tunes, traits
from lrpt.datasets.data_file import read_bytes
from lrpt.datasets.vocabulary import UNKNOWN, Vocabulary, WordVocabulary
from lrpt.errors import UsageError, check_at_least, check_choice
from lrpt.metrics import word_metrics
from lrpt.tasks.sources import by_source, take_paths, unused_places
from lrpt.tasks.task import Task
from lrpt.tasks.text import Symbols, identity, stream_task

SOURCES = ("drawn", "irish")
TUNES = {"train": 16_000, "valid": 1_511, "test": 2_000}
"""Tunes per split in the paper."""
SHOWN = 20
"""Number of skipped tunes whose error messages are kept in the metadata."""


@dataclass(frozen=True)
class NextNote:
    """Language modelling of melodies (Jernite et al. 2017, section 5.1 and Table 1).

    A symbol is a note with its pitch and its length in quarter notes ('F#5:1/2'), a rest with its length ('z:1'), or a bar ('|').
    `lrpt.datasets.abc.reader` describes how ABC notation is converted to symbols. '<eos>', symbol 0, ends each tune; '<unk>', symbol 1,
    stands for symbols that the training split lacks. The paper's preprocessing is not published. It has neither polyphony nor meter, as
    here.

    | source | tunes: training, validation, test | symbols | different symbols |
    |---|---|---|---|
    | the paper: thesession.org | 16,000 / 1,511 / 2,000 | 2.4 M / 227,000 / 288,000 | 730 |
    | irish: O'Neill's "Music of Ireland" (1903) | 1,644 / 156 / 206 | 211,937 / 19,841 / 26,663 | 386 |
    | drawn: melodies drawn at random | 327 / 31 / 42 of 400 | 31,774 / 3,106 / 4,089 | 102 |

    Tunes are split as in the paper, 82 / 7.7 / 10.3 %. Variants of a tune stay together: tunes that share a title, a number in a
    collection, or the intervals between their first notes. Tunes that cannot be read are skipped; `Task.metadata` contains their number and
    the first error messages.

    A split is one sequence. Example i is the window of symbols i s, ..., (i + 1) s - 1, where s is `steps`. Each symbol is predicted from
    the symbol before it, and the first one from an '<eos>'. An incomplete last window is dropped from the training split and padded in the
    others.
    """

    source: str = "drawn"
    """drawn (melodies drawn at random, nothing to download) or irish (O'Neill's tunes, downloaded if necessary)"""
    file: Path | None = None
    """a file in ABC notation, or a folder of such files, to use instead of the source"""
    dir: Path | None = None
    """directory of O'Neill's files; downloads and prepared data go there too if it is writable (None: the user's cache)"""
    tunes: int = 400
    """number of melodies to draw; for drawn"""
    steps: int = 50
    """symbols in a window"""

    def __post_init__(self) -> None:
        take_paths(self)
        check_choice("data.source", self.source, SOURCES)
        check_at_least(1, self, "data.tunes", "data.steps")

    @property
    def unused(self) -> dict[str, str]:
        """Return the settings that have no effect, and why."""
        found = unused_places(self.source, self.file)
        draws = self.file is None and self.source == "drawn"
        return found if draws else found | {"tunes": found.get("source", by_source(self.source))}

    def build(self, seed: int) -> Task:
        """Build splits that hold symbols as an array of numbers. The seed has no effect.

        Raises:
          UsageError: a file is missing, damaged or has no readable tune, or a split is too short for a window.
        """
        texts = self._texts()
        read, skipped = read_tunes(texts)
        if not read:
            why = (*skipped, "there is no field X:, with which a tune begins")[0]
            raise UsageError(f"data.file is {self.file}, which has no tune that can be read: {why}")
        where = _parts([[*traits(tune, melody)] for tune, melody in read])
        parts = {part: "".join(f"{' '.join(map(str, read[number][1]))}\n" for number in where[part]) for part in where}
        vocabulary = WordVocabulary.of(parts["train"])
        symbols = {part: vocabulary.encode(text) for part, text in parts.items()}
        metadata = self._metadata(texts, where, symbols, skipped) | {"types": len(vocabulary)} | notice(where, skipped)
        return stream_task(symbols, vocabulary, self.steps, word_metrics, metadata)

    def _texts(self) -> dict[str, str]:
        """Load ABC notation by file name."""
        if self.file is not None:
            return abc_files(self.file)
        if self.source == "drawn":
            return {"drawn": drawn_tunes(self.tunes)}
        from lrpt.datasets.irish import load_irish_abc  # imported here because it takes a second

        return load_irish_abc(self.dir)

    def _metadata(
        self, texts: Mapping[str, str], where: Mapping[str, Sequence[int]], symbols: Mapping[str, Symbols], skipped: Sequence[str]
    ) -> dict[str, Any]:
        return {
            **identity(self.source, self.file, texts),
            "tunes": {part: len(numbers) for part, numbers in where.items()},
            "symbols": {part: int(numbers.size) for part, numbers in symbols.items()},
            "unknown_symbols": {part: int(np.sum(numbers == UNKNOWN)) for part, numbers in symbols.items()},
            "skipped_tunes": len(skipped),
            "skipped": list(skipped[:SHOWN]),
        }


def notice(where: Mapping[str, Sequence[int]], skipped: Sequence[str]) -> dict[str, str]:
    """Return a line on the tunes that were skipped, as an entry 'notice' of the metadata; nothing if all were read."""
    read = sum(map(len, where.values()))
    return {"notice": f"{read:,} of {read + len(skipped):,} tunes read; the first one skipped is {skipped[0]}"} if skipped else {}


def _parts(traits_of_tunes: Sequence[Sequence[str]]) -> dict[str, list[int]]:
    """Divide tunes by their traits into the paper's shares. The training split gets the remainder.

    Test and validation come first, so that a small collection has tunes for both.
    """
    shares = {part: TUNES[part] / sum(TUNES.values()) for part in ("test", "valid", "train")}
    found = divide(traits_of_tunes, shares)
    if empty := [part for part, numbers in found.items() if not numbers]:
        raise UsageError(
            f"the {empty[0]} split is empty: {len(traits_of_tunes)} tunes are {len(families(traits_of_tunes))} without variants; give more "
            f"tunes, and different titles or none (tunes with the same title, number in a book or beginning stay in one split)"
        )
    return {part: found[part] for part in TUNES}


def read_tunes(texts: Mapping[str, str]) -> tuple[list[tuple[Tune, list[Symbol]]], list[str]]:
    """Read the tunes of all texts. Return readable tunes with their symbols, and an error message for each of the others."""
    read, skipped = [], []
    for name, text in texts.items():
        for tune in split_tunes(text, name):
            try:
                read.append((tune, read_tune(tune)))
            except UsageError as error:
                skipped.append(str(error))
    return read, skipped


def abc_files(path: Path) -> dict[str, str]:
    """Read a file, or all .abc files of a folder and its subfolders. Return texts by file name.

    Files that are not UTF-8 are read as ISO 8859-1, as section 2.1 of the standard prescribes for older files.

    Raises:
      UsageError: the file is missing or cannot be read, or the folder contains no .abc file.
    """
    files = sorted(path.rglob("*.abc")) if path.is_dir() else [path]
    if not files:
        raise UsageError(f"data.file is {path}, a folder without .abc files: name another folder, or a file")
    advice = "name a file in ABC notation, or a folder of them"
    return {str(file.relative_to(path)) if path.is_dir() else file.name: _decoded(read_bytes(file, advice)) for file in files}


def _decoded(content: bytes) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return content.decode("latin-1")


def symbols_of(vocabulary: Vocabulary) -> list[Symbol | None]:
    """Return the note, rest or bar of each number in a vocabulary; None for the end of a tune and the unknown symbol."""
    return [None if text.startswith("<") else Symbol.of(text) for text in vocabulary.symbols]


def holds_melodies(vocabulary: Vocabulary) -> bool:
    """Return whether a vocabulary has the symbols of melodies, which `symbols_of` reads."""
    try:
        symbols_of(vocabulary)
    except ValueError:
        return False
    return True
