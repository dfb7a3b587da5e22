"""Word-level language modelling: predict each word of a text from those before it."""

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lrpt.datasets.vocabulary import UNKNOWN, WordVocabulary
from lrpt.errors import check_at_least, check_choice
from lrpt.metrics import word_figures
from lrpt.tasks.task import Task
from lrpt.tasks.text import Symbols, as_split, load_texts, measure_text, name_of_text, windows

_WORD_OR_MARK = re.compile(r"<unk>|\w+|[^\w\s]")
SOURCES = ("python", "ptb")


@dataclass(frozen=True)
class NextWord:
    r"""Predict each word of a text from those before it (Zilly et al. 2017, section 5.2, on the Penn Treebank).

    Sources. 'ptb' are the Penn Treebank files of Mikolov et al. (2010), whose words stand between blanks and whose rare words are the
    literal '<unk>' already. 'python' is the documentation that every Python carries, cut 90/5/5 at line ends as a file of the user's is;
    these two are put into lower case, punctuation marks become words, and words that are less than `min_count` times in the training part
    become '<unk>'. Each line that is not blank is ended by '<eos>', symbol 0; '<unk>' is symbol 1.

    | ptb | training | validation | test |
    |---|---|---|---|
    | words, with one <eos> for each line | 929,589 | 73,760 | 82,430 |
    | different words, with <eos> and <unk> | 10,000 | | |

    The text is one sequence. Example i are its words i s, ..., (i + 1) s - 1, where s is `steps`, each predicted from the one before it,
    the very first from an <eos>. An incomplete last window is left out of the training part; in the other parts it is padded, so that each
    word is predicted exactly once. In the order 'stream' each row of a batch reads a contiguous part of the text, as a column does in the
    authors' reader (`reader.py`); that reader cuts columns before windows, so that its columns may begin up to `steps` words away from
    these.
    """

    source: str = "python"
    """python (documentation that every Python carries, nothing to download) or ptb (Penn Treebank)"""
    file: Path | None = None
    """a text of yours in UTF-8, instead of the source"""
    dir: Path | None = None
    """where the Penn Treebank files are or are to be put, and prepared data too if it can be written (default: the user's cache)"""
    min_count: int = 3
    """how often a word must be in the training part to have a symbol of its own (ptb: all have)"""
    steps: int = 35
    """words in a window"""

    def __post_init__(self) -> None:
        check_choice("data.source", self.source, SOURCES)
        check_at_least(1, self, "data.min_count", "data.steps")

    def build(self, seed: int) -> Task:
        """Splits with the text as an array of numbers; nothing depends on the seed.

        Raises:
          UsageError: a file that is missing, damaged, not UTF-8 or too small.
        """
        texts, min_count = load_texts(self.source, self.file, self.dir), 1
        if self.file is not None or self.source != "ptb":
            texts, min_count = {name: words_and_marks(text) for name, text in texts.items()}, self.min_count
        vocabulary = WordVocabulary.of(texts["train"], min_count)
        parts = {name: vocabulary.encode(text) for name, text in texts.items()}
        splits = {name: as_split(symbols, *windows(name, symbols.size, self.steps)) for name, symbols in parts.items()}
        notes = self._notes(texts, parts, len(vocabulary))
        return Task(splits, len(vocabulary), len(vocabulary), "all", measure_text, word_figures, True, vocabulary, notes)

    def _notes(self, texts: dict[str, str], parts: dict[str, Symbols], types: int) -> dict[str, Any]:
        return {
            "text": name_of_text(self.source, self.file),
            "sha256": hashlib.sha256("".join(texts.values()).encode()).hexdigest(),
            "types": types,
            "words": {name: int(symbols.size) for name, symbols in parts.items()},
            "unknown_words": {name: int(np.sum(symbols == UNKNOWN)) for name, symbols in parts.items()},
        }


def words_and_marks(text: str) -> str:
    """The lines of the text in lower case, with one blank between words and punctuation marks."""
    return "\n".join(" ".join(_WORD_OR_MARK.findall(line.lower())) for line in text.split("\n"))
