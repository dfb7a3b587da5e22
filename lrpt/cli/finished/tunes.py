"""The `sample` subcommand of melodies: tunes from a checkpoint, as ABC notation or MIDI.

python -m experiments.music sample RUN_DIRECTORY --prompt "GABc dedB" --output tunes.mid
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int

from lrpt.cli.finished.run_commands import on_run
from lrpt.cli.finished.sampling import ENDING, Options, Samples
from lrpt.cli.finished.trained import read_run
from lrpt.datasets.abc import Symbol, Tune, midi_file, read_tune, split_tunes, write_tune
from lrpt.datasets.vocabulary import END_WORD, UNKNOWN, UNKNOWN_WORD, WordVocabulary
from lrpt.errors import UsageError
from lrpt.runs.console import Console
from lrpt.runs.files import write_bytes
from lrpt.tasks.music import holds_melodies
from lrpt.tasks.task import AnyVocabulary
from lrpt.trained.loading import Loaded
from lrpt.trained.writing import BEGINNING

Melody = list[Symbol]


@dataclass(frozen=True)
class TuneOptions(Options):
    """Options of `sample` for melodies."""

    prompt: str = ""
    """notes in ABC notation, or symbols such as 'D4:1/2 |', that the first tune continues; a header (X:1, K:G) is allowed"""
    length: int = 200
    """number of notes, rests and bars to sample; a tune has about 100"""
    output: Path | None = None
    """file to write: .abc, or .mid (needs the extra midi); None: ABC notation is printed"""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.output is not None and self.output.suffix not in FORMATS:
            raise UsageError(f"output is {self.output}: expected a name that ends in {' or '.join(FORMATS)}")


def show_tunes(options: TuneOptions, trained: Loaded, console: Console) -> None:
    """Print the tunes, or write them to a file.

    Raises:
      UsageError: the network was not trained on melodies, or a symbol of the prompt is unknown.
    """
    writer, vocabulary = trained.writer, check_melodies(trained.vocabulary, options.run)
    prompt = prompt_numbers(options.prompt, vocabulary)
    melodies = []
    for seed in options.seeds:
        drawn = writer.numbers(trained.variables, prompt, options.length, seed, options.temperature, options.top_k)
        melodies += melodies_of(vocabulary.decode(np.concatenate([prompt, drawn])))
    if options.output is None:
        print(as_abc(melodies))
    else:
        write_bytes(options.output, FORMATS[options.output.suffix](melodies))
        console.say(f"written: {options.output}, {len(melodies)} tunes")


def check_melodies(vocabulary: AnyVocabulary | None, run: Path) -> WordVocabulary:
    """Return the vocabulary of a run. Raise a UsageError if it has other symbols than those of melodies."""
    if not (isinstance(vocabulary, WordVocabulary) and holds_melodies(vocabulary)):
        raise UsageError(f"{run} holds a run on a text, not on melodies: name a run of python -m experiments.music")
    return vocabulary


def melodies_of(text: str) -> list[Melody]:
    """Split decoded symbols into tunes. Unknown symbols, and tunes without a note, are left out."""
    tunes = [[Symbol.of(word) for word in part.split() if word != UNKNOWN_WORD] for part in text.split(END_WORD)]
    return [tune for tune in tunes if any(symbol.kind == "note" for symbol in tune)]


def as_abc(melodies: Sequence[Melody]) -> str:
    """Write tunes in ABC notation, with an empty line between them."""
    return "\n".join(write_tune(melody, number, f"Sample {number}") for number, melody in enumerate(melodies, start=1))


FORMATS: dict[str, Callable[[Sequence[Melody]], bytes]] = {".abc": lambda melodies: as_abc(melodies).encode(), ".mid": midi_file}
"""Writers of tunes by the ending of the file."""


def prompt_numbers(prompt: str, vocabulary: WordVocabulary) -> Int[np.ndarray, " p"]:
    """Encode a prompt in ABC notation or in symbols, without the end of the tune.

    Raises:
      UsageError: it is neither, or the vocabulary lacks one of its symbols.
    """
    if not prompt.strip():
        return np.zeros(0, np.int32)
    words = prompt.split()
    if not set(words) <= {*vocabulary.symbols}:
        words = [str(symbol) for symbol in _read(prompt)]
    numbers = vocabulary.encode(" ".join(words))[:-1]
    for word, number in zip(words, numbers, strict=True):
        if number in (UNKNOWN, BEGINNING):
            raise UsageError(f"prompt has '{word}', which no tune of the training split has: use other notes or lengths")
    return numbers.astype(np.int32)


def _read(prompt: str) -> Sequence[Symbol]:
    """Read ABC notation, with eighths as the unit and the key C if it has no header."""
    tunes = split_tunes(prompt, "prompt")
    return read_tune(tunes[0] if tunes else Tune("prompt", "1", {"L": ["1/8"], "K": ["C"]}, [*enumerate(prompt.splitlines(), start=1)]))


def _rendered(text: str) -> str:
    return as_abc(melodies_of(text))


def show_ending(run: Path, console: Console) -> None:
    """Print a tune of a trained run."""
    trained = read_run(run, console)
    console.say(f"\n{run} writes, in ABC notation:\n{_rendered(trained.writer.text(trained.variables, '', ENDING))}")


TUNE_HOOKS: dict[str, Any] = {"observes_text": partial(Samples, render=_rendered), "ending": show_ending}
"""Fields of an experiment whose networks write melodies."""

SAMPLE_TUNES = {"sample": on_run(TuneOptions, show_tunes, "Write melodies of a trained network in ABC notation or MIDI.")}
"""The subcommand of melodies."""
