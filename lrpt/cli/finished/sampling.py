"""The `sample` subcommand of language models: text from a checkpoint.

python -m experiments.char_lm sample RUN_DIRECTORY --prompt "def " --temperature 0.8
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Int, PyTree

from lrpt.cli.finished.run_commands import Reading, on_run
from lrpt.cli.finished.trained import read_run
from lrpt.cli.flags import check_seeds
from lrpt.datasets.vocabulary import (
    UNKNOWN,
    UNKNOWN_CHARACTER,
    UNKNOWN_WORD,
    ByteCharacters,
    ByteVocabulary,
    Vocabulary,
    WordVocabulary,
)
from lrpt.errors import UsageError, check_at_least, check_not_negative
from lrpt.networks.sampling import check_writes, reads_units, sample
from lrpt.runs.console import Console
from lrpt.tasks.task import AnyVocabulary
from lrpt.trained.loading import Loaded
from lrpt.training.observers import Evaluation

BEGINNING = 0
"""Symbol 0, the line end, with which every text begins in training and sampling. A network of sentences starts at each of them again."""

ENDING = 200
"""Symbols of the text at the end of training."""

SHOWN = 10
"""Largest number of unknown characters or words in a warning."""

MOST = 10_000_000
"""Largest number of symbols in one text."""


@dataclass(frozen=True)
class Options(Reading):
    """Options of `sample`."""

    prompt: str = ""
    """text that the sample continues"""
    length: int = 500
    """number of symbols to sample"""
    samples: int = 1
    """number of samples, each of --length symbols"""
    temperature: float = 1.0
    """divisor of the logits: below 1 favours probable symbols, 0 takes the most probable one"""
    top_k: int | None = None
    """draw from the k most probable symbols only (None: from all)"""
    seed: int = 0
    """seed of the first sample; the next sample has the next seed"""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_at_least(1, self, "length", "samples", "top_k")
        check_seeds(self.seed, self.samples)
        if self.length * self.samples > MOST:
            raise UsageError(f"length is {self.length} and samples is {self.samples}: expected at most {MOST} symbols together")
        if any("\ud800" <= character <= "\udfff" for character in self.prompt):
            raise UsageError("prompt holds bytes that are no UTF-8: give it as UTF-8 text")
        check_not_negative(self, "temperature")

    @property
    def seeds(self) -> range:
        """Return the seed of each text."""
        return range(self.seed, self.seed + self.samples)


def show_sample(options: Options, trained: Loaded, console: Console) -> None:
    """Print the texts to standard output, without line breaks of the console. Lines with a number separate several texts.

    Raises:
      UsageError: the run has no language model that can write, or its vocabulary has nothing of the prompt.
    """
    if trained.vocabulary is not None:
        check_known(options.prompt, trained.vocabulary, console)
    for number, text in enumerate(write(options, trained), start=1):
        print(*([f"--- {number}"] if options.samples > 1 else []), text, sep="\n")


def write(options: Options, trained: Loaded) -> Iterator[str]:
    """Yield the prompt and its continuation for each text.

    Raises:
      UsageError: the run has no language model.
    """
    writer = writer_of(options, trained)
    for seed in options.seeds:
        yield writer.text(trained.variables, options.prompt, seed)


def writer_of(options: Options, trained: Loaded) -> "Writer":
    """Return the writer of a trained language model.

    Raises:
      UsageError: the run has no language model, or one whose inputs also say which unit they complete.
    """
    if trained.vocabulary is None:
        raise UsageError(f"{options.run} holds a run of {trained.experiment}, which is no language model: name a run of a language model")
    check_writes(trained.model)
    return Writer(trained.model, trained.vocabulary, trained.interface.streams, options.length, options.temperature, options.top_k)


class Writer:
    """A compiled language model that writes texts.

    Args:
      model: the network.
      vocabulary: its symbols.
      streams: whether it was trained on one stream; otherwise it starts from its initial state after each line end.
      length: number of symbols of a text.
      temperature, top_k: see `lrpt.networks.sampling.sample`.
    """

    def __init__(
        self, model: nn.Module, vocabulary: AnyVocabulary, streams: bool, length: int, temperature: float = 1.0, top_k: int | None = None
    ) -> None:
        self.vocabulary, self.streams = vocabulary, streams
        end = None if streams else BEGINNING
        self._sample = jax.jit(lambda variables, read, key: sample(model, variables, read, length, key, temperature, end, top_k))

    def numbers(self, variables: PyTree, prompt: Int[np.ndarray, " p"], seed: int = 0) -> Int[np.ndarray, " n"]:
        """Return the numbers of the symbols that continue a prompt."""
        read = np.concatenate([[BEGINNING], prompt]).astype(np.int32)
        if not self.streams:
            read = read[np.flatnonzero(read == BEGINNING)[-1] :]
        return np.asarray(self._sample(variables, jnp.asarray(read), jax.random.key(seed)))

    def text(self, variables: PyTree, prompt: str = "", seed: int = 0) -> str:
        """Return the prompt and its continuation.

        Raises:
          UsageError: the vocabulary lacks a symbol of the prompt.
        """
        symbols = self.numbers(variables, numbers_of(self.vocabulary, prompt), seed)
        between = " " if isinstance(self.vocabulary, WordVocabulary) and prompt[-1:].strip() != "" else ""
        return prompt + between + self.vocabulary.decode(symbols)


class Samples:
    """An observer that prints a text of each network after each evaluation.

    Args:
      length: number of symbols.
      console: where the text is printed.
      render: converts the text, if something else is to be printed.
    """

    def __init__(self, length: int, console: Console, render: Callable[[str], str] = str) -> None:
        self.length, self.console, self.render = length, console, render
        self._writers: dict[tuple[nn.Module, AnyVocabulary, bool], Writer] = {}
        self._cannot_write: set[str] = set()

    def evaluated(self, evaluation: Evaluation) -> None:
        """Print one text of the current parameters, or once that the network writes none."""
        if reads_units(evaluation.model):
            if evaluation.label not in self._cannot_write:
                self._cannot_write.add(evaluation.label)
                self.console.warn(f"{evaluation.label} writes no text, because it also reads which unit each symbol completes")
            return
        text = self.render(self._writer(evaluation).text(evaluation.variables))
        self.console.say(f"{evaluation.label} writes at update {evaluation.update}:\n{text}")

    def _writer(self, evaluation: Evaluation) -> Writer:
        """Return the compiled function of a network and a vocabulary. Equal networks may have been trained on different texts."""
        vocabulary, streams = evaluation.task.vocabulary, evaluation.task.streams
        assert vocabulary is not None  # experiments whose networks write text have such tasks
        key = evaluation.model, vocabulary, streams
        if key not in self._writers:
            self._writers[key] = Writer(evaluation.model, vocabulary, streams, self.length)
        return self._writers[key]


def show_ending(run: Path, console: Console) -> None:
    """Print a text of a trained run. Print none if its inputs also say which unit each symbol completes."""
    trained = read_run(run, console)
    if reads_units(trained.model):
        return
    (text,) = write(Options(run, length=ENDING), trained)
    console.say(f"\n{run} writes:\n{text}")


def numbers_of(vocabulary: AnyVocabulary, prompt: str) -> Int[np.ndarray, " p"]:
    """Encode a prompt. For words, add no line end that is not in the prompt.

    Raises:
      UsageError: the prompt has a symbol that the vocabulary does not have.
    """
    text: Any = prompt.encode() if isinstance(vocabulary, ByteVocabulary) else prompt
    if isinstance(vocabulary, ByteCharacters):
        text = prompt.encode().decode("latin-1")
    try:
        numbers = vocabulary.encode(text)
    except ValueError as error:
        known = "".join(vocabulary.symbols)
        raise UsageError(f"prompt is {prompt!r}, whose {error} in the text that was learned: it has {known[:80]!r}") from None
    unfinished = isinstance(vocabulary, WordVocabulary) and numbers.size and not prompt.rstrip(" \t").endswith("\n")
    return numbers[:-1] if unfinished else numbers


def check_known(prompt: str, vocabulary: AnyVocabulary, console: Console) -> None:
    """Warn of the characters or words of a prompt that are read as the unknown symbol.

    Raises:
      UsageError: the vocabulary has none of them.
    """
    units = units_of(vocabulary, prompt)
    unknown = [unit for unit in units if UNKNOWN in numbers_of(vocabulary, unit)]
    if unknown and len(unknown) == len(units):
        raise UsageError(f"prompt is {prompt!r}: expected at least one {_unit(vocabulary)} of the text that was learned")
    if unknown:
        shown = ", ".join(map(repr, unknown[:SHOWN])) + (f" and {len(unknown) - SHOWN} more" if len(unknown) > SHOWN else "")
        console.warn(f"the text that was learned has no {_unit(vocabulary)} {shown}: the network reads the unknown symbol instead")


def units_of(vocabulary: AnyVocabulary, prompt: str) -> list[str]:
    """Return the characters or words of a prompt, each once, without a given unknown symbol; none if a vocabulary has no such symbol."""
    if isinstance(vocabulary, WordVocabulary):
        return [word for word in dict.fromkeys(prompt.split()) if word != UNKNOWN_WORD]
    return [sign for sign in dict.fromkeys(prompt) if sign != UNKNOWN_CHARACTER] if isinstance(vocabulary, Vocabulary) else []


def _unit(vocabulary: AnyVocabulary) -> str:
    return "word" if isinstance(vocabulary, WordVocabulary) else "character"


OF_TEXT: dict[str, Any] = {"observes_text": Samples, "ending": show_ending}
"""Fields of an experiment whose networks write text."""

SAMPLE = {"sample": on_run(Options, show_sample, "Print text from a trained language model: a run or a kept result, and a prompt.")}
