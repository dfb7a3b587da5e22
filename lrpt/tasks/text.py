"""Language modelling: predict each symbol of a text from those before it."""

import hashlib
import platform
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, UInt

from lrpt.datasets.documents import cut, python_documentation, user_file
from lrpt.datasets.europarl import load_europarl
from lrpt.datasets.vocabulary import END, UNKNOWN, UNKNOWN_CHARACTER, Vocabulary
from lrpt.errors import UsageError, check_at_least, check_choice
from lrpt.losses import cross_entropy
from lrpt.metrics import corpus_figures, sentence_figures
from lrpt.symbols import CodedSize
from lrpt.tasks.task import Example, Split, Task

SOURCES = ("python", "ptb", "ptb_joined", "europarl_cs", "europarl_de")
TOKENS = ("gru", "lstm")
READINGS = ("sentences", "stream")

Symbols = UInt[np.ndarray, " n"]
Excerpts = tuple[Int[np.ndarray, " s"], Int[np.ndarray, " s"]]
"""Where each begins in the text, and how many symbols it has."""


@dataclass(frozen=True)
class NextSymbol:
    r"""Predict each character of a text from those before it (Miceli Barone 2018, section 3.4 and Table 2).

    Sources. 'python' is the documentation that every Python carries, cut 90/5/5 at line ends as a file of the user's is. 'ptb' are the
    Penn Treebank files of Mikolov et al. (2010), without the blanks around each line. 'ptb_joined' are these three, one behind the other,
    cut as a file of the user's is. So Ahuja and Morency (2018) read them; their code (chahuja/lru) leaves the blanks in, and does not move
    cuts to line ends. Results on 'ptb_joined' are not comparable with those on 'ptb'. 'europarl_cs' and 'europarl_de' are the beginnings of
    the Czech and the German Europarl (`lrpt.datasets.europarl`). A text is a sequence of lines, each ended by the symbol 0; symbol 1 stands
    for every character that the training part lacks. `Task.notes` has the numbers of white spaces, at which a guided schedule computes
    more.

    Studies of how scores change with the amount of data read a share of a text. The original code of Ahuja and Morency (2018) shortens the
    whole text before it is cut (`text_share`), so that every share is tested on another text. `train_share` leaves validation and test
    part as they are, and the symbols too, which are those of the whole training part.

    Readings of the literal '<unk>', into which the rare words of the Penn Treebank were turned:

    | tokens | '<unk>' is | symbols of ptb | predictions in the test part |
    |---|---|---|---|
    | gru | five characters (the GRUs of Table 2, dl4mt-lm) | 49 characters + 2 = 51 | 442,423 |
    | lstm | the symbol 1 (its LSTMs, lowrank-lstm) | 47 characters + 2 = 49 | 423,247 |

    In the reading 'sentences' every line is an example: the network starts from its initial state, reads symbol 0, and predicts the line
    and the 0 that ends it. Blank lines are no examples, nor are lines of more than `max_length` symbols, which dl4mt-lm leaves out too
    (`TextIterator`; with tokens 'gru' one of ptb's training part, none of the others): `Task.notes` says how many. Sentences are padded
    to the longest of their part.

    In the reading 'stream' the text is one sequence, line ends included. Example i are its symbols i s, ..., (i + 1) s - 1, where s is
    `steps`, each predicted from the one before it, the very first from a symbol 0. An incomplete last window is left out of the training
    part; in the other parts it is padded, so that each symbol is predicted exactly once.

    For networks that are told where words end (`lrpt.networks.conditional`), inputs are s + V u with `words`, where s is one of V symbols
    and u is the word that it completes, a blank or a line end behind something else: 0 where it completes none, 1 where it is a rare one,
    and from 2 on for those that are at least `words` times in the training part.
    """

    source: str = "python"
    """python (documentation that every Python carries, nothing to download), ptb (Penn Treebank), ptb_joined (its three parts as one
    text, cut 90/5/5), europarl_cs or europarl_de"""
    file: Path | None = None
    """a text of yours in UTF-8, instead of the source"""
    dir: Path | None = None
    """where the files of the source are or are to be put, and prepared data too if it can be written (default: the user's cache)"""
    tokens: str = "gru"
    """'<unk>' is: gru (five characters, as the paper's GRUs read it) or lstm (one symbol, as its LSTMs do)"""
    reading: str = "sentences"
    """sentences (each line by itself) or stream (windows that continue each other)"""
    max_length: int = 500
    """symbols of the longest line that is read, for sentences"""
    steps: int = 35
    """symbols in a window, for stream"""
    text_share: float | None = None
    """per cent of the text that are read, from its start, before it is cut: test parts differ from share to share (None: all)"""
    train_share: float | None = None
    """per cent of the training part that are read, from its start: validation and test part stay (None: all)"""
    words: int | None = None
    """inputs also say which word a symbol completes, if it is at least so often in the training part: for conditional networks, and for
    stream"""

    def __post_init__(self) -> None:
        check_choice("data.source", self.source, SOURCES)
        self._check_shares()
        check_choice("data.tokens", self.tokens, TOKENS)
        check_choice("data.reading", self.reading, READINGS)
        check_at_least(1, self, "data.max_length", "data.steps", "data.words")
        if self.words is not None and self.reading != "stream":
            raise UsageError(f"data.words is {self.words}, and sentences begin afresh: choose --data.reading stream")

    def _check_shares(self) -> None:
        for name in ("text_share", "train_share"):
            value = getattr(self, name)
            if value is not None and not 0 < value <= 100:
                raise UsageError(f"data.{name} is {value}: expected a number above 0, at most 100")
        if self.text_share is not None and self.file is None and self.source == "ptb":
            raise UsageError(f"data.text_share is {self.text_share}, and ptb has given parts: choose source ptb_joined, or train_share")

    def build(self, seed: int) -> Task:
        """Splits with the text as an array of numbers; nothing depends on the seed.

        Raises:
          UsageError: a file that is missing, damaged, not UTF-8 or too small.
        """
        texts = self._texts()
        vocabulary = Vocabulary.of(texts["train"])
        texts["train"] = beginning(texts["train"], self.train_share)
        parts = {name: vocabulary.encode(text) for name, text in texts.items()}
        excerpts = {name: self._excerpts(name, symbols) for name, symbols in parts.items()}
        read, units = self._read(texts, parts, len(vocabulary))
        splits = {name: as_split(parts[name], *where, read[name]) for name, where in excerpts.items()}
        stream = self.reading == "stream"
        summarize = corpus_figures if stream else sentence_figures
        notes = self._notes(texts, parts, excerpts) | {"white_spaces": list(vocabulary.white_spaces)}
        input_size = CodedSize(len(vocabulary), units) if units else len(vocabulary)
        return Task(splits, input_size, len(vocabulary), "all", measure_text, summarize, stream, vocabulary, notes)

    def _read(self, texts: dict[str, str], parts: dict[str, Symbols], size: int) -> tuple[dict[str, Any], int]:
        """What stands for each symbol where it is read, and how many different words one may complete."""
        if self.words is None:
            return parts, 0
        numbers = common_words(texts["train"], self.words)
        return {name: parts[name] + size * completed_words(text, numbers) for name, text in texts.items()}, len(numbers) + 1

    def _texts(self) -> dict[str, str]:
        """The three parts of the text. The unknown symbol is one character in them."""
        texts = dict(load_texts(self.source, self.file, self.dir))
        if self.text_share is not None:
            texts = cut(beginning("".join(texts[part] for part in ("train", "valid", "test")), self.text_share))
        return {name: text.replace("<unk>", UNKNOWN_CHARACTER) if self.tokens == "lstm" else text for name, text in texts.items()}

    def _excerpts(self, part: str, symbols: Symbols) -> Excerpts:
        if self.reading == "stream":
            return windows(part, symbols.size, self.steps)
        starts, lengths = lines(symbols)
        kept = lengths <= self.max_length + 1
        if not np.any(kept):
            raise UsageError(
                f"data.max_length is {self.max_length}, and no line of the {part} part ({symbols.size} symbols) has 1 to {self.max_length} "
                "symbols: name a larger --data.file, raise --data.max-length, or choose --data.reading stream"
            )
        return starts[kept], lengths[kept]

    def _notes(self, texts: dict[str, str], parts: dict[str, Symbols], excerpts: dict[str, Excerpts]) -> dict[str, Any]:
        """Which text it was, and what of it was not read as it stands."""
        notes = {
            "text": name_of_text(self.source, self.file),
            "sha256": hashlib.sha256("".join(texts.values()).encode()).hexdigest(),
            "symbols": {name: int(symbols.size) for name, symbols in parts.items()},
            "unknown_symbols": {name: int(np.sum(symbols == UNKNOWN)) for name, symbols in parts.items()},
        }
        if self.reading == "stream":
            return notes
        return notes | {"lines_too_long": {name: len(lines(parts[name])[0]) - len(starts) for name, (starts, _) in excerpts.items()}}


def load_texts(source: str, file: Path | None, dir: Path | None) -> dict[str, str]:
    """The three parts of the text of `file`, or where that is None of a source, whose files are looked for in `dir`.

    Raises:
      UsageError: a file that is missing, damaged or not UTF-8.
    """
    if file is None and source in ("ptb", "ptb_joined"):
        from lrpt.datasets.ptb import load_ptb  # here, because it takes a second that other texts need not wait for

        texts = load_ptb(dir)
        return cut("".join(texts[part] for part in ("train", "valid", "test"))) if source == "ptb_joined" else texts
    if file is None and source.startswith("europarl"):
        return load_europarl(source, dir)
    return cut(python_documentation() if file is None else user_file(file))


def beginning(text: str, share: float | None) -> str:
    """The first so many per cent of the characters of a text; all of them for None."""
    return text if share is None else text[: round(len(text) * share / 100)]


def name_of_text(source: str, file: Path | None) -> str:
    """What the notes call a text: the documentation of another version of Python is another text."""
    if file is not None:
        return str(file)
    return f"python {platform.python_version()}" if source == "python" else source


def common_words(text: str, min_count: int) -> dict[str, int]:
    """The numbers, from 2 on, of what stands between white spaces at least `min_count` times, in the order of their code points."""
    counts = Counter(text.split())
    return {word: number for number, word in enumerate(sorted(word for word in counts if counts[word] >= min_count), 2)}


def completed_words(text: str, numbers: Mapping[str, int]) -> Int[np.ndarray, " n"]:
    """At each white space behind a word the word's number, 1 where it has none; 0 elsewhere."""
    units = np.zeros(len(text) + 1, np.int32)
    for found in re.finditer(r"\S+", text):
        units[found.end()] = numbers.get(found[0], 1)
    return units[:-1]


def windows(part: str, count: int, steps: int) -> Excerpts:
    """Windows of `steps` symbols that continue each other. The last may be shorter; it is left out of the training part.

    Raises:
      UsageError: a part that fills no window.
    """
    size = count - count % steps if part == "train" else count
    if size == 0:
        advice = "name a larger --data.file" + ", or choose fewer --data.steps" * (count > 0)
        raise UsageError(f"data.steps is {steps}, and the {part} part has {count} symbols: {advice}")
    starts = np.arange(0, size, steps)
    return starts, np.minimum(steps, size - starts)


def lines(symbols: Symbols) -> Excerpts:
    """The lines of a text, each with its end, but for blank ones. The last line may lack its end, which counts nevertheless."""
    ends = np.flatnonzero(np.append(symbols, END) == END) + 1
    lengths = np.diff(ends, prepend=0)
    return (ends - lengths)[lengths > 1], lengths[lengths > 1]


def as_split(
    symbols: Symbols, starts: Int[np.ndarray, " s"], lengths: Int[np.ndarray, " s"], read: Int[np.ndarray, " n"] | Symbols | None = None
) -> Split:
    """These excerpts of a text, padded to the longest of them; without masks where all have the same length.

    The text is kept once, between a symbol 0 that the first prediction is made from and as many as any excerpt may reach beyond the end.
    Where inputs are not its symbols, `read` are what stands for each of them.
    """
    steps = int(lengths.max())
    kept = {"text": symbols} if read is None or read is symbols else {"text": symbols, "read": read}
    texts = {name: np.pad(numbers, (1, steps), constant_values=END) for name, numbers in kept.items()}
    arrays = {**texts, "starts": starts.astype(np.int32), "lengths": lengths.astype(np.int32)}
    return Split(len(starts), arrays, partial(excerpt, steps=steps, masked=bool(np.any(lengths < steps))))


def excerpt(arrays: Any, index: Int[Array, ""], steps: int, masked: bool) -> Example:
    """The targets are the symbols of the excerpt at `index`, the inputs those before each of them; (steps,) integers, padded with 0."""
    start, length = jnp.asarray(arrays["starts"])[index], jnp.asarray(arrays["lengths"])[index]

    def around(name: str) -> Int[Array, " n"]:
        return jax.lax.dynamic_slice(jnp.asarray(arrays[name]), (start,), (steps + 1,)).astype(jnp.int32)

    text = around("text")
    read = around("read") if "read" in arrays else text
    mask = jnp.arange(steps) < length
    return Example(jnp.where(mask, read[:-1], END), jnp.where(mask, text[1:], END), mask if masked else None)


def measure_text(logits: Float[Array, "b t k"], batch: Example) -> dict[str, Float[Array, " b"]]:
    """'nats': the summed cross-entropy of an excerpt; 'symbols': how many it predicts; 'loss': nats for each of them."""
    losses = cross_entropy(logits.astype(jnp.float32), batch.targets)
    counted = jnp.ones_like(losses, bool) if batch.mask is None else batch.mask
    nats = jnp.sum(losses, axis=-1, where=counted)
    symbols = jnp.sum(counted, axis=-1, dtype=jnp.float32)
    return {"loss": nats / symbols, "nats": nats, "symbols": symbols}
