"""What steps have in common where a schedule is high or low: lengths and kinds of notes, repetitions, places beside the ends of words.

m_t belongs to the step that reads a symbol, and may decide by it; so do the groups here. Means of groups are those of
`lrpt.analysis.schedules.means_by_symbol`.
"""

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Protocol

import numpy as np
from jaxtyping import Bool, Float

from lrpt.analysis.figures import png
from lrpt.errors import UsageError

OTHER = ""
"""The group of steps that belong to none."""


class Sound(Protocol):
    """What a step reads of a melody."""

    @property
    def kind(self) -> str:
        """'note', 'rest' or 'bar'."""
        ...

    @property
    def pitch(self) -> int | None:
        """Of a note."""
        ...

    @property
    def length(self) -> Fraction:
        """In quarter notes."""
        ...


Sounds = Sequence[Sound | None]


def lengths(sounds: Sounds) -> list[str]:
    """The length of each note, as '3/4' (Jernite et al. 2017, Table 2)."""
    return [OTHER if sound is None or sound.kind != "note" else str(sound.length) for sound in sounds]


def kinds(sounds: Sounds) -> list[str]:
    """'note', 'rest' or 'bar' (their section 5.1: 0.14 on bars, 0.34 on rests, 0.46 on all others than bars)."""
    return [OTHER if sound is None else sound.kind for sound in sounds]


def bars_and_others(sounds: Sounds) -> list[str]:
    """'bar', or 'no bar' for notes and rests."""
    return [OTHER if sound is None else "bar" if sound.kind == "bar" else "no bar" for sound in sounds]


def repetitions(sounds: Sounds) -> list[str]:
    """'first' and 'second' of notes of one pitch that follow each other with nothing between them (their section 5.1: 0.51 and 0.45).

    Lengths may differ, of which the paper says nothing. A third one and those behind it are in no group.
    """
    pitches = [None, *(None if sound is None else sound.pitch for sound in sounds), None]
    found = []
    for before, own, after in zip(pitches, pitches[1:], pitches[2:], strict=False):
        first = own is not None and own == after and own != before
        found.append("first" if first else "second" if own is not None and own == before and found[-1] == "first" else OTHER)
    return found


def around(m: Float[np.ndarray, " t"], boundary: Bool[np.ndarray, " t"], reach: int = 6) -> Float[np.ndarray, " k"]:
    r"""The mean of a schedule at each distance from a boundary.

    .. math::
        a_k = \frac{1}{|B|} \sum_{t \in B} m_{t+k}, \quad k = -r, ..., r

    B are the boundaries that have r steps on both sides.

    Args:
      m: over T steps.
      boundary: whether each step reads one: for words a white space behind something else.
      reach: r.

    Raises:
      UsageError: no boundary has so many steps on both sides.
    """
    places = np.flatnonzero(boundary)
    places = places[(places >= reach) & (places < len(m) - reach)]
    if not places.size:
        raise UsageError(
            f"none of {int(np.sum(boundary))} boundaries has {reach} steps on both sides: choose a smaller reach, or more steps"
        )
    return np.asarray(m, np.float64)[places[:, None] + np.arange(-reach, reach + 1)].mean(axis=0)


def around_figure(means: Float[np.ndarray, " k"], path: Path, title: str = "", what: str = "the end of a word") -> Path:
    """Draws what `around` gives, and writes a PNG."""
    reach = len(means) // 2
    with png(path) as figure:
        axes = figure.subplots()
        axes.plot(np.arange(-reach, reach + 1), means, "o-")
        axes.axvline(0, color="0.7", linewidth=1)
        axes.set(xlabel=f"steps from {what}", ylabel="mean $m_t$", ylim=(0, None))
        axes.set_title(title)
    return path


def length_figure(means: Sequence[tuple[str, float]], path: Path, title: str = "") -> Path:
    """Draws the mean of a schedule at each length of notes, shortest first, and writes a PNG."""
    ordered = sorted(means, key=lambda item: Fraction(item[0]))
    with png(path) as figure:
        axes = figure.subplots()
        axes.bar([name for name, _ in ordered], [value for _, value in ordered], color="#0072B2")
        axes.set(xlabel="length of a note (quarter notes)", ylabel="mean $m_t$", ylim=(0, None))
        axes.set_title(title)
    return path
