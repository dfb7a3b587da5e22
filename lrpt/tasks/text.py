"""Character-level language modelling: predict each symbol of a text from the symbols before it."""

import hashlib
import platform
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree, UInt

from lrpt.datasets.documents import BLANKS, CUTS, ENCODINGS, LINE_ENDS, USUAL, Form, cut, python_documentation, user_file
from lrpt.datasets.europarl import load_europarl
from lrpt.datasets.splits import PARTS
from lrpt.datasets.vocabulary import END, UNKNOWN, UNKNOWN_CHARACTER, ByteCharacters, ByteVocabulary, Vocabulary
from lrpt.errors import UsageError, check_at_least, check_choice, check_numbers
from lrpt.losses import cross_entropy
from lrpt.metrics import corpus_metrics, sentence_metrics, sums_over_steps
from lrpt.precision import at_least_single
from lrpt.symbols import codes_of
from lrpt.tasks.sources import by_source, take_paths, unused_places
from lrpt.tasks.task import Example, Split, Task

SOURCES_OF_BYTES = ("enwik8", "text8")
"""Sources whose symbols are bytes."""
SOURCES = ("python", "ptb", "ptb_joined", "europarl_cs", "europarl_de", *SOURCES_OF_BYTES)
TOKENS = ("gru", "lstm")
READINGS = ("sentences", "stream")

Symbols = UInt[np.ndarray, " n"]
Excerpts = tuple[Int[np.ndarray, " s"], Int[np.ndarray, " s"]]
"""Start positions in the text, and numbers of symbols."""


@dataclass(frozen=True)
class NextSymbol:
    """Character-level language modelling (Miceli Barone 2018, section 3.4 and Table 2).

    **Sources.** 'python' is the documentation included in every Python; like a `file`, it is split 90/5/5 at line ends. 'ptb' is the Penn
    Treebank of Mikolov et al. (2010), without the blanks around each line. 'ptb_joined' concatenates its three files and splits the result
    90/5/5, as Ahuja and Morency (2018) do. Results on 'ptb_joined' are not comparable with results on 'ptb'. 'europarl_cs' and
    'europarl_de' are the beginnings of the Czech and the German Europarl (`lrpt.datasets.europarl`). 'enwik8' and 'text8' are texts of
    Wikipedia with one symbol for each byte; a `file` then is that text or a prefix of it, and `Task.metadata` has an entry 'prefix'.
    `NextByte` reads the same texts without a symbol for unknown bytes.

    **Form of a text.** The original code of Ahuja and Morency (2018; chahuja/lru, dataUtils.py) reads every character of a file and splits
    it at exact places. Symbols that are nearly free to predict then count too, so that losses in nats per symbol are lower.

    | setting | default | original code | difference |
    |---|---|---|---|
    | blanks | stripped | kept | a blank at each end of the treebank's lines: 1.7 % of its symbols |
    | line_ends | folded | kept | CR before LF in a file, and a byte-order mark: 1.9 % of War and Peace |
    | cuts | lines | exact | split points are not moved to a line end |
    | encoding | utf-8 | utf-8, and one byte for each symbol on enwik8 | a byte is a symbol, of which enwik8 has 205 |

    **Symbols.** A text is a sequence of lines, each ended by symbol 0. Symbol 1 stands for every character that the training split lacks.
    `Task.metadata` contains the numbers of white-space symbols, at which a guided schedule computes more.

    **Shares.** Studies of the effect of data size read a share of a text. The original code of Ahuja and Morency (2018) shortens the whole
    text before splitting it (`text_share`), so that every share has another test split. `train_share` shortens the training split only. The
    vocabulary is still that of the whole training split.

    **Tokens.** The Penn Treebank replaces rare words by the literal '<unk>', which is read in two ways:

    | tokens | '<unk>' is | symbols of ptb | predictions in the test split |
    |---|---|---|---|
    | gru | five characters (the GRUs of Table 2, dl4mt-lm) | 49 characters + 2 = 51 | 442,423 |
    | lstm | the symbol 1 (its LSTMs, lowrank-lstm) | 47 characters + 2 = 49 | 423,247 |

    **Reading 'sentences'.** Every line is an example: the network starts from its initial state, reads symbol 0, and predicts the line and
    the 0 that ends it. Blank lines are skipped. Lines of more than `max_length` symbols are skipped too, as in dl4mt-lm (`TextIterator`;
    with tokens 'gru' this is one line of ptb's training split); `Task.metadata` contains their number. Sentences are padded to the longest
    of their split.

    **Reading 'stream'.** The text is one sequence, line ends included. Example i is the window of symbols i s, ..., (i + 1) s - 1, where s
    is `steps`. Each symbol is predicted from the symbol before it, and the first one from a symbol 0. An incomplete last window is dropped
    from the training split. It is padded in the other splits, so that each symbol is predicted exactly once.

    **Words.** With `words`, inputs also mark the ends of words, for the networks in `lrpt.networks.conditional`. An input is then s + V u,
    where s is one of V symbols and u numbers the word that the symbol completes. White space after another character completes a word. u is
    0 if no word is completed, 1 for a rare word, and 2 or more for words with at least `words` occurrences in the training split.
    """

    source: str = "python"
    """python (its documentation, no download), ptb (Penn Treebank), ptb_joined (split 90/5/5), europarl_cs, europarl_de, enwik8, text8"""
    file: Path | None = None
    """a text file to use instead of the source; with source enwik8 or text8: that file, unpacked, or a prefix of it"""
    dir: Path | None = None
    """directory of the source's files; downloads and prepared data go there too if it is writable (None: the user's cache)"""
    tokens: str = "gru"
    """how '<unk>' is read: gru (five characters, as for the paper's GRUs) or lstm (one symbol, as for its LSTMs)"""
    reading: str = "sentences"
    """sentences (each line is a sequence) or stream (windows that continue each other)"""
    max_length: int = 500
    """symbols of the longest line that is read; for sentences"""
    steps: int = 35
    """symbols in a window; for stream"""
    text_share: float | None = None
    """per cent of the text to read, from its start, before it is split; test splits differ between shares (None: all)"""
    train_share: float | None = None
    """per cent of the training split to read, from its start; the other splits do not change (None: all)"""
    words: int | None = None
    """at the end of a word, inputs also name it if it occurs at least this often in training; for stream (None: symbols only)"""
    blanks: str = "stripped"
    """blanks at both ends of the treebank's lines: stripped, or kept (as published)"""
    line_ends: str = "folded"
    """line ends of a file: folded (LF for CRLF and CR, no byte-order mark) or kept"""
    cuts: str = "lines"
    """split points of a file, ptb_joined and python: lines (moved forward to a line end) or exact"""
    encoding: str = "utf-8"
    """encoding of a file: utf-8 or bytes (each byte is a symbol; always so with source enwik8 or text8)"""

    def __post_init__(self) -> None:
        take_paths(self)
        check_choice("data.source", self.source, SOURCES)
        self._check_shares()
        check_choice("data.tokens", self.tokens, TOKENS)
        check_choice("data.reading", self.reading, READINGS)
        for name, known in (("blanks", BLANKS), ("line_ends", LINE_ENDS), ("cuts", CUTS), ("encoding", ENCODINGS)):
            check_choice(f"data.{name}", getattr(self, name), known)
        check_at_least(1, self, "data.max_length", "data.steps", "data.words")
        if self.words is not None and self.reading != "stream":
            raise UsageError(f"data.words is {self.words}, and each sentence starts from the initial state: choose --data.reading stream")

    @property
    def unused(self) -> dict[str, str]:
        """Return the settings that have no effect, and why."""
        of_bytes, of_file = self.source in SOURCES_OF_BYTES, self.file is not None
        used = {
            "max_length": self.reading == "sentences",
            "steps": self.reading == "stream",
            "blanks": not of_file and self.source in ("ptb", "ptb_joined"),
            "line_ends": of_file and not of_bytes,
            "cuts": not of_bytes and (of_file or self.source in ("python", "ptb_joined") or self.text_share is not None),
            "encoding": of_file and not of_bytes,
        }
        reasons: dict[str, str] = dict.fromkeys(("max_length", "steps"), f"data.reading is {self.reading}")
        otherwise = "data.file is given" if of_file and not of_bytes else by_source(self.source)
        found = {name: reasons.get(name, otherwise) for name, is_used in used.items() if not is_used}
        return unused_places(self.source, self.file, SOURCES_OF_BYTES) | found

    def _check_shares(self) -> None:
        check_numbers(self, "data.text_share", "data.train_share", optional=True)
        for name in ("text_share", "train_share"):
            value = getattr(self, name)
            if value is not None and not 0 < value <= 100:
                raise UsageError(f"data.{name} is {value}: expected a number above 0, at most 100")
        if self.text_share is not None and self.file is None and self.source == "ptb":
            raise UsageError(
                f"data.text_share is {self.text_share}, and ptb has published splits: choose source ptb_joined, or train_share"
            )

    @property
    def form(self) -> Form:
        """Return how the text is read. The published splits of enwik8 and text8 are exact."""
        of_bytes = self.source in SOURCES_OF_BYTES
        return Form(self.blanks, self.line_ends, "exact" if of_bytes else self.cuts, "bytes" if of_bytes else self.encoding)

    def build(self, seed: int) -> Task:
        """Build splits that hold the text as an array of symbol numbers. The seed has no effect.

        Raises:
          UsageError: the file is missing, damaged, not UTF-8 or too small, or has bytes that text8 does not have.
        """
        texts = self._texts()
        of_bytes = self.form.encoding == "bytes" and (self.file is not None or self.source in SOURCES_OF_BYTES)
        vocabulary = (ByteCharacters if of_bytes else Vocabulary).of(texts["train"])
        texts["train"] = beginning(texts["train"], self.train_share)
        parts = {name: vocabulary.encode(text) for name, text in texts.items()}
        excerpts = {name: self._excerpts(name, symbols) for name, symbols in parts.items()}
        read, units = self._input_symbols(texts, parts, len(vocabulary), of_bytes)
        splits = {name: as_split(parts[name], *where, read[name]) for name, where in excerpts.items()}
        stream = self.reading == "stream"
        summarize = corpus_metrics if stream else sentence_metrics
        metadata = self._metadata(texts, parts, excerpts) | {"white_spaces": list(vocabulary.white_spaces)} | self._remark()
        size = len(vocabulary)
        return Task(splits, codes_of(size, units), size, "all", text_metrics, summarize, stream, vocabulary, metadata)

    def _input_symbols(self, texts: dict[str, str], parts: dict[str, Symbols], size: int, of_bytes: bool) -> tuple[dict[str, Any], int]:
        """Return the input number of each symbol, and how many different units (words) a symbol may complete."""
        if self.words is None:
            return parts, 0
        numbers = common_words(texts["train"], self.words, of_bytes)
        return {name: parts[name] + size * completed_words(text, numbers, of_bytes) for name, text in texts.items()}, len(numbers) + 1

    def _texts(self) -> dict[str, str]:
        """Load the three splits of the text. With tokens 'lstm', '<unk>' is one character."""
        texts = dict(load_texts(self.source, self.file, self.dir, self.form))
        if self.text_share is not None:
            texts = cut(beginning("".join(texts[part] for part in PARTS), self.text_share), self.form.cuts)
        return {name: text.replace("<unk>", UNKNOWN_CHARACTER) if self.tokens == "lstm" else text for name, text in texts.items()}

    def _excerpts(self, part: str, symbols: Symbols) -> Excerpts:
        if self.reading == "stream":
            return windows(part, symbols.size, self.steps)
        starts, lengths = lines(symbols)
        kept = lengths <= self.max_length + 1
        if not np.any(kept):
            raise UsageError(
                f"data.max_length is {self.max_length}, and no line of the {part} split ({symbols.size} symbols) has 1 to "
                f"{self.max_length} symbols: name a larger --data.file, raise --data.max-length, or choose --data.reading stream"
            )
        return starts[kept], lengths[kept]

    def _metadata(self, texts: dict[str, str], parts: dict[str, Symbols], excerpts: dict[str, Excerpts]) -> dict[str, Any]:
        """Describe the text, and how much of it is unknown or skipped."""
        metadata = {
            **identity(self.source, self.file, texts),
            "symbols": {name: int(symbols.size) for name, symbols in parts.items()},
            "unknown_symbols": {name: int(np.sum(symbols == UNKNOWN)) for name, symbols in parts.items()},
        }
        if self.reading == "stream":
            return metadata
        return metadata | {"lines_too_long": {name: len(lines(parts[name])[0]) - len(starts) for name, (starts, _) in excerpts.items()}}

    def _remark(self) -> dict[str, Any]:
        """Return the entry 'prefix' of the metadata if a file stands for a text of Wikipedia and is another one."""
        if self.file is None or self.source not in SOURCES_OF_BYTES:
            return {}
        from lrpt.datasets.wikipedia import remark  # imported here because it takes a second

        return remark(self.source, _bytes_of(self.file, self.source))


def load_texts(source: str, file: Path | None, dir: Path | None, form: Form = USUAL) -> dict[str, str]:
    """Load the three splits of the text in `file`, or of `source` if `file` is None. `dir` is searched for the source's files.

    Raises:
      UsageError: the file is missing, damaged or not UTF-8, or has bytes that text8 does not have.
    """
    if file is not None:
        return cut(_bytes_of(file, source).decode("latin-1") if source in SOURCES_OF_BYTES else user_file(file, form), form.cuts)
    if source in ("ptb", "ptb_joined"):
        return _treebank(source, dir, form)
    if source.startswith("europarl"):
        return load_europarl(source, dir)
    if source in SOURCES_OF_BYTES:
        from lrpt.datasets.wikipedia import load_wikipedia  # imported here because it takes a second

        return {part: content.decode("latin-1") for part, content in load_wikipedia(source, dir).items()}
    return cut(python_documentation(), form.cuts)


def _treebank(source: str, dir: Path | None, form: Form) -> dict[str, str]:
    """Return the published splits of the Penn Treebank, or those of its three files as one text."""
    from lrpt.datasets.ptb import load_ptb, with_blanks  # imported here because it takes a second

    texts = load_ptb(dir)
    if form.blanks == "kept":
        texts = {part: with_blanks(text) for part, text in texts.items()}
    return cut("".join(texts[part] for part in PARTS), form.cuts) if source == "ptb_joined" else texts


def _bytes_of(file: Path, source: str) -> bytes:
    """Return the content of a file that stands for a text of Wikipedia. Its bytes must be in that text's alphabet."""
    from lrpt.datasets.wikipedia import check_alphabet  # imported here because it takes a second

    content = user_file(file, Form(line_ends="kept", encoding="bytes")).encode("latin-1")
    check_alphabet(source, content, file)
    return content


def beginning(text: str, share: float | None) -> str:
    """Return the first `share` per cent of the characters of a text, or all of them if `share` is None."""
    return text if share is None else text[: round(len(text) * share / 100)]


def identity(source: str, file: Path | None, texts: Mapping[str, str | bytes]) -> dict[str, Any]:
    """Return the entries 'text' (its name) and 'sha256' of the metadata of texts: those of `file`, or of `source` if it is None.

    The name of Python's documentation contains the version of Python, because each version has its own.
    """
    name = f"python {platform.python_version()}" if source == "python" else source
    content = b"".join(text.encode() if isinstance(text, str) else text for text in texts.values())
    return {"text": name if file is None else str(file), "sha256": hashlib.sha256(content).hexdigest()}


def _words(text: str, of_bytes: bool) -> Iterator[re.Match[str]]:
    """Yield the words, which white space separates. Of bytes, only those of ASCII are white space: others are parts of characters."""
    return re.finditer(r"\S+", text, re.ASCII if of_bytes else 0)


def common_words(text: str, min_count: int, of_bytes: bool = False) -> dict[str, int]:
    """Assign numbers from 2 on to the words that occur at least `min_count` times, in the order of their code points.

    White space separates words.
    """
    counts = Counter(found[0] for found in _words(text, of_bytes))
    return {word: number for number, word in enumerate(sorted(word for word in counts if counts[word] >= min_count), 2)}


def completed_words(text: str, numbers: Mapping[str, int], of_bytes: bool = False) -> Int[np.ndarray, " n"]:
    """Return, for each character, the number of the word that it completes; 1 for unnumbered words, 0 if it completes none.

    A word is completed by the white space after it.
    """
    units = np.zeros(len(text) + 1, np.int32)
    for found in _words(text, of_bytes):
        units[found.end()] = numbers.get(found[0], 1)
    return units[:-1]


def windows(part: str, count: int, steps: int) -> Excerpts:
    """Return consecutive windows of `steps` symbols. The last one may be shorter; it is dropped from the training split.

    Raises:
      UsageError: the split is too short for a window.
    """
    size = count - count % steps if part == "train" else count
    if size == 0:
        advice = "name a larger --data.file" + (", or choose fewer --data.steps" if count > 0 else "")
        raise UsageError(f"data.steps is {steps}, and the {part} split has {count} symbols: {advice}")
    starts = np.arange(0, size, steps)
    return starts, np.minimum(steps, size - starts)


def lines(symbols: Symbols) -> Excerpts:
    """Return the lines of a text that are not blank, each with its end symbol.

    The last line is included even if its end symbol is missing.
    """
    ends = np.flatnonzero(np.append(symbols, END) == END) + 1
    lengths = np.diff(ends, prepend=0)
    return (ends - lengths)[lengths > 1], lengths[lengths > 1]


def as_split(
    symbols: Symbols, starts: Int[np.ndarray, " s"], lengths: Int[np.ndarray, " s"], read: Int[np.ndarray, " n"] | Symbols | None = None
) -> Split:
    """Make a split of excerpts of a text, padded to the longest of them. Examples have no masks if all excerpts have the same length.

    The text is stored once. One symbol 0 in front of it is the input of the first prediction. The symbols 0 behind it allow reading the
    longest excerpt at any start. `read` contains the input number of each symbol if inputs are not the symbols themselves.
    """
    steps = int(lengths.max())
    kept = {"text": symbols} if read is None or read is symbols else {"text": symbols, "read": read}
    texts = {name: np.pad(numbers, (1, steps), constant_values=END) for name, numbers in kept.items()}
    arrays = {**texts, "starts": starts.astype(np.int32), "lengths": lengths.astype(np.int32)}
    masked = bool(np.any(lengths < steps))
    return Split(len(starts), arrays, partial(excerpt, steps=steps, masked=masked), lengths.astype(np.int32) if masked else None)


def stream_task(
    symbols: Mapping[str, Symbols],
    vocabulary: Vocabulary | ByteVocabulary,
    steps: int,
    summarize: Callable[[Mapping[str, float]], dict[str, float]],
    metadata: dict[str, Any],
) -> Task:
    """Return the task that predicts each symbol of encoded splits, which are read in windows of a stream."""
    splits = {name: as_split(own, *windows(name, own.size, steps)) for name, own in symbols.items()}
    return Task(splits, len(vocabulary), len(vocabulary), "all", text_metrics, summarize, True, vocabulary, metadata)


def excerpt(arrays: PyTree, index: Int[Array, ""], steps: int, masked: bool) -> Example:
    """Return the excerpt at `index`: its symbols as targets, and the input before each of them.

    Both are (steps,) integers, padded with 0.
    """
    start, length = jnp.asarray(arrays["starts"])[index], jnp.asarray(arrays["lengths"])[index]

    def around(name: str) -> Int[Array, " n"]:
        return jax.lax.dynamic_slice(jnp.asarray(arrays[name]), (start,), (steps + 1,)).astype(jnp.int32)

    text = around("text")
    read = around("read") if "read" in arrays else text
    mask = jnp.arange(steps) < length
    return Example(jnp.where(mask, read[:-1], END), jnp.where(mask, text[1:], END), mask if masked else None)


def text_metrics(logits: Float[Array, "b t k"], batch: Example) -> dict[str, Float[Array, " b"]]:
    """Return 'nats', the summed cross-entropy of an excerpt, 'symbols', the number of its predictions, and 'loss', nats per symbol."""
    return sums_over_steps(cross_entropy(at_least_single(logits), batch.targets), batch.mask, "symbols")
