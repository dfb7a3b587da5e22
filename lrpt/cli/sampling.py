"""The `sample` subcommand of language models: text from a checkpoint.

python -m experiments.char_lm sample RUN_DIRECTORY --prompt "def " --temperature 0.8
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import tyro
from jaxtyping import Int

from lrpt.cli.command import OF_A_READER, leaving_with_a_line, main
from lrpt.cli.experiment import Experiment
from lrpt.cli.flags import check_seeds, parse_dataclass
from lrpt.cli.trained import Trained
from lrpt.datasets.vocabulary import ByteVocabulary, WordVocabulary
from lrpt.errors import UsageError, check_at_least
from lrpt.networks.sampling import sample
from lrpt.runs.console import Console

BEGINNING = 0
"""What every text begins with, in training too: the end of the line before. A network of sentences begins afresh at each."""

MOST = 10_000_000
"""symbols in one text"""


@dataclass(frozen=True)
class Options:
    """What a command line says."""

    run: tyro.conf.Positional[Path]
    """run directory of a language model, finished or not"""
    prompt: str = ""
    """the text to go on from"""
    length: int = 500
    """symbols to write"""
    temperature: float = 1.0
    """below 1 probable symbols become more so; at 0 the most probable one is taken"""
    seed: int = 0
    """another seed writes another text"""

    def __post_init__(self) -> None:
        check_at_least(1, self, "length")
        check_seeds(self.seed)
        if self.length > MOST:
            raise UsageError(f"length is {self.length}: expected at most {MOST}")
        if any("\ud800" <= character <= "\udfff" for character in self.prompt):
            raise UsageError("prompt holds bytes that are no UTF-8: give it as UTF-8 text")
        if not 0 <= self.temperature < float("inf"):
            raise UsageError(f"temperature is {self.temperature}: expected a finite number, 0 or more")


def run_or_sample(experiment: Experiment[Any], arguments: Sequence[str] | None = None) -> None:
    """As `lrpt.cli.command.main`; with the first argument 'sample' it prints a text instead."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words[:1] != ["sample"]:
        main(experiment, words)
        return
    console = Console()
    with leaving_with_a_line(console, OF_A_READER):
        about = "Text from a trained language model: the best checkpoint of a run, and a prompt."
        default = Options(Path(), length=500)
        options = parse_dataclass(Options, words[1:], f"python -m experiments.{experiment.name} sample", about, default)
        print(write(options, console))


def write(options: Options, console: Console) -> str:
    """The prompt and what the model makes of it.

    Raises:
      UsageError: the run cannot be read, or is not that of a language model.
    """
    trained = Trained(options.run, console)
    vocabulary, model = trained.run.task.vocabulary, trained.run.model
    if vocabulary is None:
        raise UsageError(f"{options.run} holds a run of {trained.experiment.name}, whose symbols are no text: name one of a language model")
    read, end = np.concatenate([[BEGINNING], numbers_of(vocabulary, options.prompt)]).astype(np.int32), None
    if not trained.run.task.streams:
        read, end = read[np.flatnonzero(read == BEGINNING)[-1] :], BEGINNING
    symbols = jax.jit(lambda read, key: sample(model, trained.variables, read, options.length, key, options.temperature, end))(
        jnp.asarray(read), jax.random.key(options.seed)
    )
    between = " " * (isinstance(vocabulary, WordVocabulary) and options.prompt[-1:].strip() != "")
    return options.prompt + between + vocabulary.decode(np.asarray(symbols))


def numbers_of(vocabulary: Any, prompt: str) -> Int[np.ndarray, " p"]:
    """The symbols of a prompt; of words no line end that the prompt has not.

    Raises:
      UsageError: a byte that the text does not have.
    """
    try:
        numbers = vocabulary.encode(prompt.encode() if isinstance(vocabulary, ByteVocabulary) else prompt)
    except ValueError as error:
        known = "".join(vocabulary.symbols)
        raise UsageError(f"prompt is {prompt!r}, whose {error} in the text that was learned: it has {known[:80]!r}") from None
    unfinished = isinstance(vocabulary, WordVocabulary) and numbers.size and not prompt.endswith("\n")
    return numbers[:-1] if unfinished else numbers
