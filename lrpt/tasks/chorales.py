"""Polyphonic music: predict which notes sound next, from chorales or from progressions of chords that are drawn when they are needed."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from lrpt.datasets.piano_roll import LOWEST, NOTES
from lrpt.errors import UsageError, check_at_least, check_choice
from lrpt.losses import binary_cross_entropy
from lrpt.metrics import piece_figures
from lrpt.tasks.synthetic import below, key_of, uniform_numbers
from lrpt.tasks.task import Example, Split, Task

SOURCES = ("synthetic", "jsb")
FORMATS = ("json", "mat")

SYNTHETIC_PIECES = {"train": 229, "valid": 76, "test": 77}

# The synthetic pieces. How often a triad of one degree of the scale follows that of another, and the lowest notes of the four voices.
SCALES = ((0, 2, 4, 5, 7, 9, 11), (0, 2, 3, 5, 7, 8, 11))
FOLLOWS = (
    (0, 2, 1, 4, 4, 3, 0),
    (1, 0, 0, 0, 4, 0, 1),
    (0, 1, 0, 3, 0, 3, 0),
    (3, 2, 0, 0, 4, 0, 1),
    (6, 0, 0, 1, 0, 3, 0),
    (0, 3, 1, 3, 2, 0, 0),
    (4, 0, 0, 0, 0, 1, 0),
)
HELD = 1 / 3
VOICES = (41, 50, 57, 62)
DRAWS = 5


@dataclass(frozen=True)
class Chorales:
    r"""Predict which of 88 notes sound in the next frame of a piece (Zilly et al. 2017, sections 5.1 and 6, on the JSB chorales).

    A frame is a vector of 88 zeros and ones, one for each MIDI note from 21 to 108, for the length of a quarter note. From frames
    1, ..., f the network predicts frame f + 1 by 88 probabilities. What is lost at a frame is the sum of 88 binary cross-entropies in
    nats, the negative log-likelihood of the field; the paper does not print its formula. `Task.summarize` gives its mean over all frames
    of a split as 'loss', and the mean over pieces of their own means, which a batch of training lowers, as 'piece_loss'.

    | source | pieces | frames of a piece |
    |---|---|---|
    | jsb: chorales of Bach (Boulanger-Lewandowski et al. 2012) | 229, 76, 77 | 25 to 160 |
    | synthetic: progressions of triads, nothing to download | 229, 76, 77 | L/2 to L, where L is `length` |

    The first frame has none before it and is not predicted, as is usual for these files (TCN, `music_test.py`); with `first_frame` it is,
    from silence. Pieces are padded to the longest of their part.

    A synthetic piece is in a major or minor key, drawn from the 24. Its first triad is the tonic's; a frame repeats the one before it with
    probability 1/3, and else has another triad, drawn as `FOLLOWS` says, of which the bass has the root, and three other voices have any
    of its notes.
    """

    source: str = "synthetic"
    """synthetic (chord progressions, nothing to download) or jsb (chorales of Bach)"""
    format: str = "json"
    """published file of jsb that is read: json (lists of notes) or mat (zeros and ones); they hold the same pieces"""
    file: Path | None = None
    """pieces of yours in one of these formats, .json or .mat, instead of the source"""
    dir: Path | None = None
    """where the published file is or is to be put, and prepared data too if it can be written (default: the user's cache)"""
    first_frame: bool = False
    """predict the first frame of a piece too"""
    length: int = 64
    """L: frames of the longest synthetic piece"""

    def __post_init__(self) -> None:
        check_choice("data.source", self.source, SOURCES)
        check_choice("data.format", self.format, FORMATS)
        check_at_least(4, self, "data.length")

    def build(self, seed: int) -> Task:
        """Splits of pieces; the seed decides the synthetic ones.

        Raises:
          UsageError: a file that is missing or damaged, or has a piece with nothing to predict.
        """
        if self.file is None and self.source == "synthetic":
            splits, notes = self._synthetic(seed), {}
        else:
            pieces = self._pieces()
            splits = {part: as_split(pieces[part]) for part in pieces}
            frames = {part: sum(map(len, pieces[part])) - len(pieces[part]) for part in pieces}
            notes = {
                "music": f"jsb ({self.format})" if self.file is None else str(self.file),
                "pieces": {part: len(pieces[part]) for part in pieces},
                "predicted_frames": frames,
            }
        return Task(splits, NOTES, NOTES, "all", measure_frames, piece_figures, notes=notes)

    def _pieces(self) -> dict[str, list[np.ndarray]]:
        from lrpt.datasets.jsb import load_jsb, read_pieces  # here, because it takes a second that synthetic pieces need not wait for

        found = load_jsb(self.format, self.dir) if self.file is None else read_pieces(self.file)
        silence = np.zeros((int(self.first_frame), NOTES), np.uint8)
        pieces = {part: [np.concatenate([silence, piece]) for piece in found[part]] for part in found}
        for part in pieces:
            if min(map(len, pieces[part]), default=0) < 2:
                what = "no pieces" if not pieces[part] else "a piece of fewer than two frames"
                raise UsageError(
                    f"data.file is {self.file}, whose {part} part has {what}: leave such pieces out, or predict --data.first-frame"
                )
        return pieces

    def _synthetic(self, seed: int) -> dict[str, Split]:
        splits, first = {}, 0
        for part, count in SYNTHETIC_PIECES.items():
            example = partial(synthetic_piece, first=first, length=self.length, first_frame=self.first_frame)
            splits[part] = Split(count, key_of(seed), example)
            first += count
        return splits


def as_split(pieces: list[np.ndarray]) -> Split:
    """These pieces, padded to the longest of them."""
    lengths = np.array([*map(len, pieces)], np.int32)
    steps = int(lengths.max()) - 1
    frames = np.pad(np.concatenate(pieces), ((0, steps + 1), (0, 0)))
    arrays = {"frames": frames, "starts": np.cumsum(lengths, dtype=np.int32) - lengths, "lengths": lengths}
    return Split(len(pieces), arrays, partial(piece, steps=steps))


def piece(arrays: Any, index: Int[Array, ""], steps: int) -> Example:
    """The piece at `index`: inputs and targets are (steps, 88) floats, the targets one frame later; the mask tells the padding."""
    start = jnp.asarray(arrays["starts"])[index]
    frames = jax.lax.dynamic_slice(jnp.asarray(arrays["frames"]), (start, jnp.zeros_like(start)), (steps + 1, NOTES))
    return next_frames(frames.astype(jnp.float32), jnp.asarray(arrays["lengths"])[index])


def next_frames(frames: Float[Array, "f 88"], length: Int[Array, ""]) -> Example:
    """Predict the frames behind the first of a piece that has `length` of them."""
    mask = jnp.arange(1, frames.shape[0]) < length
    return Example(jnp.where(mask[:, None], frames[:-1], 0), jnp.where(mask[:, None], frames[1:], 0), mask)


def synthetic_piece(arrays: Any, index: Int[Array, ""], first: int, length: int, first_frame: bool) -> Example:
    """The piece at `index` behind the `first` ones of the stream."""
    uniform = uniform_numbers(arrays, first + index, 3 + DRAWS * length)
    frames = chord_progression(uniform[0], uniform[1], uniform[3:].reshape(length, DRAWS))
    count = length // 2 + below(uniform[2], length - length // 2 + 1)
    silence = jnp.zeros((int(first_frame), NOTES))
    return next_frames(jnp.concatenate([silence, frames]), count + int(first_frame))


def chord_progression(tonic: Float[Array, ""], mode: Float[Array, ""], uniform: Float[Array, "f 5"]) -> Float[Array, "f 88"]:
    """The frames that these random numbers on [0, 1) stand for: of each frame whether the chord is held, its degree, and three voices."""
    weights = np.cumsum(FOLLOWS, axis=1)
    bounds = jnp.asarray(weights[:, :-1] / weights[:, -1:], jnp.float32)

    def chord(before: tuple[Array, Array], u: Array) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
        degree, tones = before
        held = u[0] < HELD
        after = jnp.where(held, degree, jnp.sum(u[1] >= bounds[degree])), jnp.where(held, tones, below(u[2:], 3))
        return after, after

    start = jnp.zeros((), jnp.int32), below(uniform[0, 2:], 3)
    _, (degrees, tones) = jax.lax.scan(chord, start, uniform[1:])
    degrees, tones = jnp.append(start[0], degrees), jnp.concatenate([start[1][None], tones])
    tones = jnp.pad(tones, ((0, 0), (1, 0)))  # the bass has the root
    scale = jnp.asarray(SCALES)[below(mode, len(SCALES))]
    classes = below(tonic, 12) + scale[(degrees[:, None] + 2 * tones) % 7]
    lowest = jnp.asarray(VOICES)[None]
    notes = lowest + (classes - lowest) % 12
    return jax.nn.one_hot(notes - LOWEST, NOTES).max(axis=1)


def measure_frames(logits: Float[Array, "b t 88"], batch: Example) -> dict[str, Float[Array, " b"]]:
    """'nats': what is lost at the frames of a piece; 'frames': how many are predicted; 'loss': nats for each of them."""
    losses = binary_cross_entropy(logits.astype(jnp.float32), batch.targets)
    counted = jnp.ones_like(losses, bool) if batch.mask is None else batch.mask
    nats = jnp.sum(losses, axis=-1, where=counted)
    frames = jnp.sum(counted, axis=-1, dtype=jnp.float32)
    return {"loss": nats / frames, "nats": nats, "frames": frames}
