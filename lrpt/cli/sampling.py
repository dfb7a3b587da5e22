"""The `sample` subcommand of language models: text from a checkpoint.

python -m experiments.char_lm sample RUN_DIRECTORY --prompt "def " --temperature 0.8
"""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Int

from lrpt.cli.flags import check_seeds
from lrpt.cli.run_commands import Reading, on_run
from lrpt.datasets.vocabulary import ByteVocabulary, WordVocabulary
from lrpt.errors import UsageError, check_at_least
from lrpt.networks.sampling import sample
from lrpt.runs.console import Console
from lrpt.training.loading import Loaded

BEGINNING = 0
"""Symbol 0, the line end, with which every text begins in training and sampling. A network of sentences starts at each of them again."""

MOST = 10_000_000
"""Largest number of symbols in one text."""


@dataclass(frozen=True)
class Options(Reading):
    """Options of `sample`."""

    prompt: str = ""
    """text that the sample continues"""
    length: int = 500
    """number of symbols to sample"""
    temperature: float = 1.0
    """divisor of the logits: below 1 favours probable symbols, 0 takes the most probable one"""
    seed: int = 0
    """seed of the samples"""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_at_least(1, self, "length")
        check_seeds(self.seed)
        if self.length > MOST:
            raise UsageError(f"length is {self.length}: expected at most {MOST}")
        if any("\ud800" <= character <= "\udfff" for character in self.prompt):
            raise UsageError("prompt holds bytes that are no UTF-8: give it as UTF-8 text")
        if not 0 <= self.temperature < float("inf"):
            raise UsageError(f"temperature is {self.temperature}: expected a finite number, 0 or more")


def show_sample(options: Options, trained: Loaded, console: Console) -> None:
    """Print a text to standard output, without line breaks of the console."""
    print(write(options, trained))


def write(options: Options, trained: Loaded) -> str:
    """Return the prompt and its continuation.

    Raises:
      UsageError: the run has no language model.
    """
    vocabulary, model = trained.vocabulary, trained.model
    if vocabulary is None:
        raise UsageError(f"{options.run} holds a run of {trained.experiment}, which is no language model: name a run of a language model")
    read, end = np.concatenate([[BEGINNING], numbers_of(vocabulary, options.prompt)]).astype(np.int32), None
    if not trained.interface.streams:
        read, end = read[np.flatnonzero(read == BEGINNING)[-1] :], BEGINNING
    symbols = jax.jit(lambda read, key: sample(model, trained.variables, read, options.length, key, options.temperature, end))(
        jnp.asarray(read), jax.random.key(options.seed)
    )
    between = " " * (isinstance(vocabulary, WordVocabulary) and options.prompt[-1:].strip() != "")
    return options.prompt + between + vocabulary.decode(np.asarray(symbols))


def numbers_of(vocabulary: Any, prompt: str) -> Int[np.ndarray, " p"]:
    """Encode a prompt. For words, add no line end that is not in the prompt.

    Raises:
      UsageError: the prompt has a symbol that the vocabulary does not have.
    """
    try:
        numbers = vocabulary.encode(prompt.encode() if isinstance(vocabulary, ByteVocabulary) else prompt)
    except ValueError as error:
        known = "".join(vocabulary.symbols)
        raise UsageError(f"prompt is {prompt!r}, whose {error} in the text that was learned: it has {known[:80]!r}") from None
    unfinished = isinstance(vocabulary, WordVocabulary) and numbers.size and not prompt.endswith("\n")
    return numbers[:-1] if unfinished else numbers


SAMPLE = {"sample": on_run(Options, show_sample, "Print text from a trained language model: a run or a kept result, and a prompt.")}
