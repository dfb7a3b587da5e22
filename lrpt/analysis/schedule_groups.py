"""Groups of steps for means of a schedule: lengths and kinds of notes, repeated notes, distances from the ends of words.

m_t belongs to the step that reads a symbol and may depend on that symbol, and so may the groups here.
`lrpt.analysis.schedules.means_by_symbol` computes means of groups.
"""

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Protocol

import numpy as np
from jaxtyping import Bool, Float

from lrpt.analysis.plots import saved_figure
from lrpt.errors import UsageError

OTHER = ""
"""Group of the steps that belong to no other group."""


class Sound(Protocol):
    """A note, rest or bar of a melody."""

    @property
    def kind(self) -> str:
        """Return 'note', 'rest' or 'bar'."""
        ...

    @property
    def pitch(self) -> int | None:
        """Return the pitch of a note, None for others."""
        ...

    @property
    def length(self) -> Fraction:
        """Return the length in quarter notes."""
        ...


Sounds = Sequence[Sound | None]


def lengths(sounds: Sounds) -> list[str]:
    """Group notes by length, such as '3/4' (Jernite et al. 2017, Table 2)."""
    return [OTHER if sound is None or sound.kind != "note" else str(sound.length) for sound in sounds]


def kinds(sounds: Sounds) -> list[str]:
    """Group steps into 'note', 'rest' and 'bar' (their section 5.1: 0.14 on bars, 0.34 on rests, 0.46 on everything but bars)."""
    return [OTHER if sound is None else sound.kind for sound in sounds]


def bars_and_others(sounds: Sounds) -> list[str]:
    """Group steps into 'bar' and 'no bar', which are notes and rests."""
    return [OTHER if sound is None else "bar" if sound.kind == "bar" else "no bar" for sound in sounds]


def repetitions(sounds: Sounds) -> list[str]:
    """Group repeated notes: 'first' and 'second' of adjacent notes of one pitch (their section 5.1: 0.51 and 0.45).

    Lengths may differ; the paper does not mention them. A third repetition and later ones are in no group.
    """
    pitches = [None, *(None if sound is None else sound.pitch for sound in sounds), None]
    found = []
    for before, own, after in zip(pitches, pitches[1:], pitches[2:], strict=False):
        first = own is not None and own == after and own != before
        found.append("first" if first else "second" if own is not None and own == before and found[-1] == "first" else OTHER)
    return found


def around(m: Float[np.ndarray, " t"], boundary: Bool[np.ndarray, " t"], reach: int = 6) -> Float[np.ndarray, " k"]:
    r"""Compute the mean of a schedule at each distance from a boundary.

    .. math::
        a_k = \frac{1}{|B|} \sum_{t \in B} m_{t+k}, \quad k = -r, ..., r

    B are the boundaries with at least r steps on both sides.

    Args:
      m: the schedule over T steps.
      boundary: whether each step reads a boundary; for words, white space after another character.
      reach: r.

    Raises:
      UsageError: no boundary has r steps on both sides.
    """
    places = np.flatnonzero(boundary)
    places = places[(places >= reach) & (places < len(m) - reach)]
    if not places.size:
        raise UsageError(
            f"none of {int(np.sum(boundary))} boundaries has {reach} steps on both sides: choose a smaller reach, or more steps"
        )
    return np.asarray(m, np.float64)[places[:, None] + np.arange(-reach, reach + 1)].mean(axis=0)


def around_figure(means: Float[np.ndarray, " k"], path: str | Path, title: str = "") -> Path:
    """Plot the result of `around` the ends of words, and write a PNG and a PDF."""
    reach = len(means) // 2
    with saved_figure(path) as figure:
        axes = figure.subplots()
        axes.plot(np.arange(-reach, reach + 1), means, "o-")
        axes.axvline(0, color="0.7", linewidth=1)
        axes.set(xlabel="steps from the end of a word", ylabel="mean $m_t$", ylim=(0, None))
        axes.set_title(title)
    return Path(path)


def length_figure(means: Sequence[tuple[str, float]], path: str | Path, title: str = "") -> Path:
    """Plot the mean of a schedule for each note length, shortest first, and write a PNG and a PDF."""
    ordered = sorted(means, key=lambda item: Fraction(item[0]))
    with saved_figure(path) as figure:
        axes = figure.subplots()
        axes.bar([name for name, _ in ordered], [value for _, value in ordered], color="#0072B2")
        axes.set(xlabel="length of a note (quarter notes)", ylabel="mean $m_t$", ylim=(0, None))
        axes.set_title(title)
    return Path(path)
