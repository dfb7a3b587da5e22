"""The `sample` subcommand of language models: text from a checkpoint.

python -m experiments.char_lm sample RUN_DIRECTORY --prompt "def " --temperature 0.8
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import flax.linen as nn

from lrpt.cli.finished.run_commands import Reading, on_run
from lrpt.cli.finished.trained import read_run
from lrpt.cli.flags import check_seeds
from lrpt.errors import UsageError, check_at_least, check_not_negative
from lrpt.networks.sampling import reads_units
from lrpt.runs.console import Console
from lrpt.tasks.task import AnyVocabulary
from lrpt.trained.loading import Loaded
from lrpt.trained.writing import Writer, unknown_in_words
from lrpt.training.observers import Evaluation

ENDING = 200
"""Symbols of the text at the end of training."""

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
    if unknown := unknown_in_words(trained.writer.vocabulary, options.prompt):
        console.warn(unknown)
    for number, seed in enumerate(options.seeds, start=1):
        text = trained.writer.text(trained.variables, options.prompt, options.length, seed, options.temperature, options.top_k)
        print(*([f"--- {number}"] if options.samples > 1 else []), text, sep="\n")


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
        text = self.render(self._writer(evaluation).text(evaluation.variables, "", self.length))
        self.console.say(f"{evaluation.label} writes at update {evaluation.update}:\n{text}")

    def _writer(self, evaluation: Evaluation) -> Writer:
        """Return the compiled function of a network and a vocabulary. Equal networks may have been trained on different texts."""
        vocabulary, streams = evaluation.task.vocabulary, evaluation.task.streams
        assert vocabulary is not None  # experiments whose networks write text have such tasks
        key = evaluation.model, vocabulary, streams
        if key not in self._writers:
            self._writers[key] = Writer(evaluation.model, vocabulary, streams)
        return self._writers[key]


def show_ending(run: Path, console: Console) -> None:
    """Print a text of a trained run. Print none if its inputs also say which unit each symbol completes."""
    trained = read_run(run, console)
    if not reads_units(trained.model):
        console.say(f"\n{run} writes:\n{trained.writer.text(trained.variables, '', ENDING)}")


TEXT_HOOKS: dict[str, Any] = {"observes_text": Samples, "ending": show_ending}
"""Fields of an experiment whose networks write text."""

SAMPLE = {"sample": on_run(Options, show_sample, "Print text from a trained language model: a run or a kept result, and a prompt.")}
