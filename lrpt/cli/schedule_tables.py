"""Subcommands of experiments with variable computation on melodies and on words: mean m_t by the symbol read.

    python -m experiments.music notes RUN_DIRECTORY        mean m_t by length and kind of note (Table 2, section 5.1)
    python -m experiments.europarl words RUN_DIRECTORY     mean m_t around the ends of words (section 5.2)

Source: Jernite et al. 2017. Each subcommand prints tables. Plots are in the figures/ of the run, numbers in its notes.json and words.json.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float

from lrpt.analysis.schedule_groups import OTHER, around, around_figure, bars_and_others, kinds, length_figure, lengths, repetitions
from lrpt.analysis.schedules import explained, knowing, means_by_symbol
from lrpt.cli.experiment import Subcommand
from lrpt.cli.run_commands import OnRun, on_run
from lrpt.cli.schedule_numbers import read_schedule
from lrpt.datasets.vocabulary import Vocabulary, WordVocabulary
from lrpt.errors import UsageError
from lrpt.runs.console import Console
from lrpt.runs.run_directory import write_json
from lrpt.tasks.music import symbols_of
from lrpt.training.loading import Loaded

GROUPS = {"length": lengths, "kind": kinds, "bars": bars_and_others, "repetition": repetitions}
PUBLISHED = {
    "length": {"1/4": 0.61, "1/3": 0.77, "1/2": 0.39, "3/4": 0.59, "1": 0.44, "3/2": 0.46, "2": 0.57},
    "kind": {"bar": 0.14, "rest": 0.34},
    "bars": {"bar": 0.14, "no bar": 0.46},
    "repetition": {"first": 0.51, "second": 0.45},
}
"""Table 2 and section 5.1, of another collection of tunes."""
RARE = 20
"""Groups with fewer steps are left out of the plot."""


@dataclass(frozen=True)
class OfPart(OnRun):
    """Options of the split and the number of steps."""

    counts = ("length",)

    split: str = "valid"
    """train, valid or test"""
    length: int = 50_000
    """largest number of steps to read"""


@dataclass(frozen=True)
class Notes(OfPart):
    """Print and plot mean m_t by the length and kind of the note read."""


@dataclass(frozen=True)
class Words(OfPart):
    """Print and plot mean m_t around the white spaces after words."""

    counts = ("length", "reach")

    reach: int = 6
    """steps before and after the end of a word"""


def show_notes(options: Notes, trained: Loaded, console: Console) -> Path:
    """Print the paper's values beside those of the run. Write every group with its number of steps to `notes.json`."""
    vocabulary = trained.vocabulary
    if not isinstance(vocabulary, WordVocabulary) or "|" not in vocabulary.symbols:
        raise UsageError(f"{options.run} does not read melodies: name a run of experiments.music")
    read, known = read_schedule(trained, options.split, options.length), symbols_of(vocabulary)
    sounds = [known[number] for number in read.symbols]
    found = {name: _means(read.proportions, group(sounds)) for name, group in GROUPS.items()}
    rows = [
        [name, of, f"{mean:.3f}", f"{count:,}", f"{PUBLISHED[name][of]:.2f}" if of in PUBLISHED[name] else ""]
        for name, means in found.items()
        for of, (mean, count) in means.items()
        if count >= RARE
    ]
    console.table(["by", "of", "mean m", "steps", "paper"], rows)
    write_json(options.numbers / "notes.json", found)
    drawn = [(of, mean) for of, (mean, count) in found["length"].items() if count >= RARE]
    return length_figure(drawn, options.figures / "notes.png", trained.config.model.label)


def _means(m: Float[np.ndarray, "t k"], groups: Sequence[str]) -> dict[str, tuple[float, int]]:
    return {of: mean for of, mean in means_by_symbol(m.mean(axis=1), groups).items() if of != OTHER}


def show_words(options: Words, trained: Loaded, console: Console) -> Path:
    """Print mean m_t around word ends, beside a control that knows the white spaces only, and write both to `words.json`.

    The control is the mean of m on white spaces, and the mean on all other symbols.
    """
    vocabulary = trained.vocabulary
    if not isinstance(vocabulary, Vocabulary) or isinstance(vocabulary, WordVocabulary):
        raise UsageError(f"{options.run} does not read characters: name a run of a character language model")
    read = read_schedule(trained, options.split, options.length)
    blank = np.isin(read.symbols, vocabulary.white_spaces)
    ends = blank & ~np.append(True, blank[:-1])
    m = read.proportions.mean(axis=1)
    means, control = (around(one, ends, options.reach) for one in (m, knowing(m, blank)))
    offsets = range(-options.reach, options.reach + 1)
    rows = [[f"{k:+d}", f"{mean:.3f}", f"{other:.3f}"] for k, mean, other in zip(offsets, means, control, strict=True)]
    console.table(["steps from the end of a word", "mean m", "knowing spaces only"], rows)
    console.say(f"of the variance of m, white spaces explain {explained(m, blank.tolist()):.3f}")
    found = {"offsets": list(offsets), "means": means.tolist(), "control": control.tolist(), "words": int(ends.sum())}
    write_json(options.numbers / "words.json", found)
    return around_figure(means, options.figures / "words.png", trained.config.model.label)


OF_MELODIES: Mapping[str, Subcommand] = {"notes": on_run(Notes, show_notes)}
OF_WORDS: Mapping[str, Subcommand] = {"words": on_run(Words, show_words)}
