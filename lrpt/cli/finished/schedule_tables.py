"""Subcommands of experiments with variable computation on melodies and on words: mean m_t by the symbol read.

    python -m experiments.music notes RUN_DIRECTORY        mean m_t by length and kind of note (Table 2, section 5.1)
    python -m experiments.europarl words RUN_DIRECTORY     mean m_t around the ends of words (section 5.2)

Source: Jernite et al. 2017. Each subcommand prints tables. Plots are in the figures/ of the run, numbers in its notes.json and words.json.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lrpt.analysis.schedule_groups import around_figure, length_figure
from lrpt.cli.experiment import Subcommand
from lrpt.cli.finished.run_commands import OnRun, on_run
from lrpt.cli.finished.schedule_numbers import REACH, around_words, by_note, read_schedule, reads_characters, reads_melodies
from lrpt.errors import UsageError
from lrpt.runs.console import Console
from lrpt.runs.files import write_json
from lrpt.trained.loading import Loaded

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
class OfSplit(OnRun):
    """Options of the split and the number of steps."""

    counts = ("length",)

    split: str = "valid"
    """train, valid or test"""
    length: int = 50_000
    """largest number of steps to read"""


@dataclass(frozen=True)
class Notes(OfSplit):
    """Print and plot the mean updated share m_t by the length and kind of the note read."""


@dataclass(frozen=True)
class Words(OfSplit):
    """Print and plot the mean updated share m_t around the white spaces after words."""

    counts = ("length", "reach")

    reach: int = REACH
    """steps before and after the end of a word"""


def show_notes(options: Notes, trained: Loaded, console: Console) -> Path:
    """Print the paper's values beside those of the run. Write every group with its number of steps to `notes.json`.

    Raises:
      UsageError: the network does not read melodies or has no scheduler, or there is no such split.
    """
    if not reads_melodies(trained):
        raise UsageError(f"{options.run} does not read melodies: name a run of experiments.music")
    found = by_note(trained, read_schedule(trained, options.split, options.length))
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


def show_words(options: Words, trained: Loaded, console: Console) -> Path:
    """Print mean m_t around word ends, beside a control that knows the white spaces only, and write both to `words.json`.

    The control is the mean of m on white spaces, and the mean on all other symbols.

    Raises:
      UsageError: the network does not read characters or has no scheduler, there is no such split, or no word has `reach` steps on both
        sides of its end.
    """
    if not reads_characters(trained):
        raise UsageError(f"{options.run} does not read characters: name a run of a character language model")
    found = around_words(trained, read_schedule(trained, options.split, options.length), options.reach)
    rows = [[f"{k:+d}", f"{mean:.3f}", f"{other:.3f}"] for k, mean, other in zip(found.offsets, found.means, found.control, strict=True)]
    console.table(["steps from the end of a word", "mean m", "knowing spaces only"], rows)
    console.say(f"of the variance of m, white spaces explain {found.explained:.3f}")
    write_json(options.numbers / "words.json", found._asdict())
    return around_figure(np.asarray(found.means), options.figures / "words.png", trained.config.model.label)


MELODY_COMMANDS: Mapping[str, Subcommand] = {"notes": on_run(Notes, show_notes)}
WORD_COMMANDS: Mapping[str, Subcommand] = {"words": on_run(Words, show_words)}
