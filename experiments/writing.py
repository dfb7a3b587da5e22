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

from experiments.trained import Trained
from lrpt.data.vocabulary import ByteVocabulary
from lrpt.errors import UsageError, check_at_least
from lrpt.sampling import sample
from lrpt.training.command import main
from lrpt.training.console import Console, Explained
from lrpt.training.experiment import Experiment
from lrpt.training.flags import parse_dataclass

BEGINNING = 0
"""What every text begins with, in training too: the end of the line before. A network of sentences begins afresh at each."""


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
        if not 0 <= self.temperature < float("inf"):
            raise UsageError(f"temperature is {self.temperature}: expected a finite number, 0 or more")


def run_or_sample(experiment: Experiment[Any], arguments: Sequence[str] | None = None) -> None:
    """As `lrpt.training.command.main`; with the first argument 'sample' it prints a text instead."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words[:1] != ["sample"]:
        main(experiment, words)
        return
    console = Console()
    with Explained(console):
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
    bytes_read = isinstance(vocabulary, ByteVocabulary)
    prompt = vocabulary.encode(options.prompt.encode()) if bytes_read else vocabulary.encode(options.prompt)
    read, end = np.concatenate([[BEGINNING], prompt]).astype(np.int32), None
    if not trained.run.task.streams:
        read, end = read[np.flatnonzero(read == BEGINNING)[-1] :], BEGINNING
    symbols = jax.jit(lambda read, key: sample(model, trained.variables, read, options.length, key, options.temperature, end))(
        jnp.asarray(read), jax.random.key(options.seed)
    )
    return options.prompt + vocabulary.decode(np.asarray(symbols))
