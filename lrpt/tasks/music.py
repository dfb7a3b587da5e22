"""Melodies as sequences of symbols: predict each note, rest or bar from those before it."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lrpt.datasets.abc import Symbol, Tune, divide, drawn_tunes, read_tune, split_tunes, traits
from lrpt.datasets.vocabulary import UNKNOWN, Vocabulary, WordVocabulary
from lrpt.errors import UsageError, check_at_least, check_choice
from lrpt.metrics import word_figures
from lrpt.tasks.task import Task
from lrpt.tasks.text import Symbols, as_split, measure_text, windows

SOURCES = ("drawn", "irish")
TUNES = {"train": 16_000, "valid": 1_511, "test": 2_000}
"""Those of the paper."""
SHOWN = 20
"""Skipped tunes whose messages the notes keep."""


@dataclass(frozen=True)
class NextNote:
    r"""Predict each symbol of a melody from those before it (Jernite et al. 2017, section 5.1 and Table 1).

    A symbol is a note with its pitch and its length in quarter notes ('F#5:1/2'), a rest with its length ('z:1'), or a bar ('|'); what of a
    tune in ABC notation becomes which symbol is said in `lrpt.datasets.abc.reader`. Each tune is ended by '<eos>', symbol 0; '<unk>',
    symbol 1, stands for what the training part lacks. The paper's preprocessing is not published: it has neither polyphony nor meter, as
    here.

    | source | tunes: training, validation, test | symbols | different symbols |
    |---|---|---|---|
    | the paper: thesession.org | 16,000 / 1,511 / 2,000 | 2.4 M / 227,000 / 288,000 | 730 |
    | irish: O'Neill's "Music of Ireland" (1903) | 1,644 / 156 / 206 | 211,937 / 19,841 / 26,663 | 386 |
    | drawn: melodies drawn at random | 327 / 31 / 42 of 400 | 31,774 / 3,106 / 4,089 | 102 |

    Tunes are divided as in the paper, 82 / 7.7 / 10.3 %, whole families at a time: tunes that share a title, a number in a collection, or
    the intervals between their first notes. A tune that cannot be read is left out; `Task.notes` says how many were, and why the first of
    them.

    A part is one sequence. Example i are its symbols i s, ..., (i + 1) s - 1, where s is `steps`, each predicted from the one before it,
    the very first from an '<eos>'. An incomplete last window is left out of the training part; in the other parts it is padded.
    """

    source: str = "drawn"
    """drawn (melodies drawn at random, nothing to download) or irish (O'Neill's tunes, downloaded if need be)"""
    file: Path | None = None
    """a file of yours in ABC notation, or a folder of such files, instead of the source"""
    dir: Path | None = None
    """where O'Neill's files are or are to be put, and prepared data too if it can be written (default: the user's cache)"""
    tunes: int = 400
    """how many are drawn"""
    steps: int = 50
    """symbols in a window"""

    def __post_init__(self) -> None:
        check_choice("data.source", self.source, SOURCES)
        check_at_least(1, self, "data.tunes", "data.steps")

    def build(self, seed: int) -> Task:
        """Splits with the symbols as an array of numbers; nothing depends on the seed.

        Raises:
          UsageError: a file that is missing, damaged or has no tune that can be read; a part that fills no window.
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
        splits = {part: as_split(numbers, *windows(part, numbers.size, self.steps)) for part, numbers in symbols.items()}
        notes = self._notes(texts, where, symbols, skipped) | {"types": len(vocabulary)}
        return Task(splits, len(vocabulary), len(vocabulary), "all", measure_text, word_figures, True, vocabulary, notes)

    def _texts(self) -> dict[str, str]:
        """ABC notation by the name of the file that has it."""
        if self.file is not None:
            return abc_files(self.file)
        if self.source == "drawn":
            return {"drawn": drawn_tunes(self.tunes)}
        from lrpt.datasets.irish import load_irish_abc  # here, because it takes a second that other melodies need not wait for

        return load_irish_abc(self.dir)

    def _notes(
        self, texts: Mapping[str, str], where: Mapping[str, Sequence[int]], symbols: Mapping[str, Symbols], skipped: Sequence[str]
    ) -> dict[str, Any]:
        return {
            "text": str(self.file) if self.file is not None else self.source,
            "sha256": hashlib.sha256("".join(texts.values()).encode()).hexdigest(),
            "tunes": {part: len(numbers) for part, numbers in where.items()},
            "symbols": {part: int(numbers.size) for part, numbers in symbols.items()},
            "unknown_symbols": {part: int(np.sum(numbers == UNKNOWN)) for part, numbers in symbols.items()},
            "skipped_tunes": len(skipped),
            "skipped": list(skipped[:SHOWN]),
        }


def _parts(of: Sequence[Sequence[str]]) -> dict[str, list[int]]:
    """As `divide`, with what is left for training, so that a small collection has tunes to validate by and to test."""
    shares = {part: TUNES[part] / sum(TUNES.values()) for part in ("test", "valid", "train")}
    found = divide(of, shares)
    return {part: found[part] for part in TUNES}


def read_tunes(texts: Mapping[str, str]) -> tuple[list[tuple[Tune, list[Symbol]]], list[str]]:
    """The tunes that can be read with their symbols, and for each of the others what is wrong with it."""
    read, skipped = [], []
    for name, text in texts.items():
        for tune in split_tunes(text, name):
            try:
                read.append((tune, read_tune(tune)))
            except UsageError as error:
                skipped.append(str(error))
    return read, skipped


def abc_files(path: Path) -> dict[str, str]:
    """The texts of a file, or of the files of a folder and the folders in it whose names end in .abc, by their names.

    Files that are not UTF-8 are read as ISO 8859-1, as the standard's section 2.1 has it for older ones.

    Raises:
      UsageError: a file that is missing or cannot be read; a folder without such files.
    """
    files = sorted(path.rglob("*.abc")) if path.is_dir() else [path]
    if not files:
        raise UsageError(f"data.file is {path}, a folder with no file that ends in .abc: name another one, or a file")
    try:
        return {str(file.relative_to(path)) if path.is_dir() else file.name: _decoded(file.read_bytes()) for file in files}
    except OSError as error:
        advice = "name a file in ABC notation, or a folder of them"
        raise UsageError(f"data.file is {path}, which cannot be read ({error.strerror}): {advice}") from error


def _decoded(content: bytes) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return content.decode("latin-1")


def symbols_of(vocabulary: Vocabulary) -> list[Symbol | None]:
    """The note, rest or bar that each number stands for; None for the end of a tune and the unknown symbol."""
    return [None if text.startswith("<") else Symbol.of(text) for text in vocabulary.symbols]
