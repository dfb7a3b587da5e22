"""Word-level language modelling: predict each word of a text from those before it."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lrpt.datasets.vocabulary import UNKNOWN, WordVocabulary
from lrpt.errors import check_at_least, check_choice
from lrpt.metrics import word_metrics
from lrpt.tasks.sources import by_source, take_paths, unused_places
from lrpt.tasks.task import Task
from lrpt.tasks.text import Symbols, identity, load_texts, stream_task

_WORD_OR_MARK = re.compile(r"<unk>|\w+|[^\w\s]")
SOURCES = ("python", "ptb")


@dataclass(frozen=True)
class NextWord:
    """Word-level language modelling (Zilly et al. 2017, section 5.2, on the Penn Treebank).

    Sources. 'ptb' is the Penn Treebank of Mikolov et al. (2010). Its words are separated by blanks, and its rare words are already replaced
    by the literal '<unk>'. 'python' is the documentation included in every Python. Like a `file`, it is split 90/5/5 at line ends and put
    into lower case; punctuation marks become words, and words with fewer than `min_count` occurrences in the training split become '<unk>'.
    '<eos>', symbol 0, ends each line that is not blank; '<unk>' is symbol 1.

    | ptb | training | validation | test |
    |---|---|---|---|
    | words, with one <eos> for each line | 929,589 | 73,760 | 82,430 |
    | different words, with <eos> and <unk> | 10,000 | | |

    The text is one sequence. Example i is the window of words i s, ..., (i + 1) s - 1, where s is `steps`. Each word is predicted from the
    word before it, and the first word from an <eos>. An incomplete last window is dropped from the training split. It is padded in the
    other splits, so that each word is predicted exactly once.

    In the order 'stream' each row of a batch reads a contiguous part of the text, like a column in the authors' `reader.py`. Their reader
    cuts columns before windows, so that its columns may begin up to `steps` words away from these.
    """

    source: str = "python"
    """python (documentation included in every Python, nothing to download) or ptb (Penn Treebank)"""
    file: Path | None = None
    """a text file in UTF-8 to use instead of the source"""
    dir: Path | None = None
    """directory of the Penn Treebank files; downloads and prepared data go there too if it is writable (None: the user's cache)"""
    min_count: int = 3
    """occurrences in the training split that a word needs to have its own symbol (ptb: every word has one)"""
    steps: int = 35
    """words in a window"""

    def __post_init__(self) -> None:
        take_paths(self)
        check_choice("data.source", self.source, SOURCES)
        check_at_least(1, self, "data.min_count", "data.steps")

    @property
    def unused(self) -> dict[str, str]:
        """Return the settings that have no effect, and why."""
        has_words = self.file is None and self.source == "ptb"
        return unused_places(self.source, self.file) | ({"min_count": by_source(self.source)} if has_words else {})

    def build(self, seed: int) -> Task:
        """Build splits that hold the text as an array of word numbers. The seed has no effect.

        Raises:
          UsageError: the file is missing, damaged, not UTF-8 or too small.
        """
        texts, min_count = load_texts(self.source, self.file, self.dir), 1
        if self.file is not None or self.source != "ptb":
            texts, min_count = {name: words_and_marks(text) for name, text in texts.items()}, self.min_count
        vocabulary = WordVocabulary.of(texts["train"], min_count)
        symbols = {name: vocabulary.encode(text) for name, text in texts.items()}
        return stream_task(symbols, vocabulary, self.steps, word_metrics, self._metadata(texts, symbols, len(vocabulary)))

    def _metadata(self, texts: dict[str, str], symbols: dict[str, Symbols], types: int) -> dict[str, Any]:
        return {
            **identity(self.source, self.file, texts),
            "types": types,
            "words": {name: int(own.size) for name, own in symbols.items()},
            "unknown_words": {name: int(np.sum(own == UNKNOWN)) for name, own in symbols.items()},
        }


def words_and_marks(text: str) -> str:
    """Return the lines of a text in lower case, with one blank between words and punctuation marks."""
    return "\n".join(" ".join(_WORD_OR_MARK.findall(line.lower())) for line in text.split("\n"))
