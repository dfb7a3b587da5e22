"""Polyphonic music: predict which notes sound next, in chorales or in randomly generated chord progressions."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from lrpt.datasets.piano_roll import LOWEST, NOTES
from lrpt.errors import UsageError, check_at_least, check_choice
from lrpt.losses import binary_cross_entropy
from lrpt.metrics import piece_metrics, sums_over_steps
from lrpt.precision import at_least_single
from lrpt.tasks.sources import by_source, take_paths, unused_places
from lrpt.tasks.synthetic import below, key_of, uniform_numbers
from lrpt.tasks.task import Example, Split, Task

SOURCES = ("synthetic", "jsb")
FORMATS = ("json", "mat")

SYNTHETIC_PIECES = {"train": 229, "valid": 76, "test": 77}

# The synthetic pieces. FOLLOWS[i][j] is proportional to the probability that a triad on degree j follows a triad on degree i of the scale.
# VOICES are the lowest notes of the four voices.
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
    """Prediction of the notes of the next frame of a piece (Zilly et al. 2017, sections 5.1 and 6, on the JSB chorales).

    A frame is a vector of 88 zeros and ones, one for each MIDI note from 21 to 108, and lasts a quarter note. From frames 1, ..., f the
    network predicts frame f + 1 as 88 probabilities. The loss of a frame is the sum of 88 binary cross-entropies in nats, called negative
    log-likelihood in the literature; the main text of the paper does not print its formula. `Task.summarize` computes two means. 'loss' is
    the mean over all frames of a split. 'piece_loss' is the mean over pieces of their mean losses, which training on a batch minimizes.

    | source | pieces | frames of a piece |
    |---|---|---|
    | jsb: chorales of Bach (Boulanger-Lewandowski et al. 2012) | 229, 76, 77 | 25 to 160 |
    | synthetic: progressions of triads, nothing to download | 229, 76, 77 | L/2 to L, where L is `length` |

    The first frame of a piece has no frame before it and is not predicted, as is usual for these files (TCN, `music_test.py`). With
    `first_frame` it is predicted from silence. Pieces are padded to the longest of their split, because a compiled update has one
    shape. With `longest`, long pieces are cut first, and each part begins from the initial state.

    A synthetic piece is in one of the 24 major and minor keys, chosen at random. It begins with the triad of the tonic. Each later frame
    repeats the frame before it with probability 1/3, and otherwise has another triad, drawn by the weights `FOLLOWS`. The bass has the root
    of the triad, and each of three other voices has any of its notes.
    """

    source: str = "synthetic"
    """synthetic (chord progressions, nothing to download) or jsb (chorales of Bach)"""
    format: str = "json"
    """published file of jsb to read: json (lists of notes) or mat (zeros and ones); both contain the same pieces"""
    file: Path | None = None
    """a file of pieces in one of these formats, .json or .mat, or a folder of .mat files, to use instead of the source"""
    dir: Path | None = None
    """directory of the published file; downloads and prepared data go there too if it is writable (None: the user's cache)"""
    first_frame: bool = False
    """predict the first frame of a piece too"""
    length: int = 64
    """L: frames of the longest synthetic piece"""
    longest: int | None = None
    """cut longer pieces of a file into parts of at most this many frames, all of them predicted (None: pieces stay whole)"""

    def __post_init__(self) -> None:
        take_paths(self)
        check_choice("data.source", self.source, SOURCES)
        check_choice("data.format", self.format, FORMATS)
        check_at_least(4, self, "data.length")
        check_at_least(2, self, "data.longest")

    @property
    def unused(self) -> dict[str, str]:
        """Return the settings that have no effect, and why."""
        found = unused_places(self.source, self.file)
        if self.file is not None:
            return found | dict.fromkeys(("format", "length"), found["source"])
        others = ("format", "longest") if self.source == "synthetic" else ("length",)
        return found | dict.fromkeys(others, by_source(self.source))

    def build(self, seed: int) -> Task:
        """Build splits of pieces. The seed only decides the synthetic pieces.

        Raises:
          UsageError: a file is missing or damaged, or contains a piece with nothing to predict.
        """
        if self.file is None and self.source == "synthetic":
            splits, metadata = self._synthetic(seed), {}
        else:
            pieces, notice = self._pieces()
            splits = {part: as_split(pieces[part]) for part in pieces}
            frames = {part: sum(map(len, pieces[part])) - len(pieces[part]) for part in pieces}
            metadata = {
                "music": f"jsb ({self.format})" if self.file is None else str(self.file),
                "sha256": digest(pieces),
                "pieces": {part: len(pieces[part]) for part in pieces},
                "predicted_frames": frames,
                **notice,
            }
        return Task(splits, NOTES, NOTES, "all", frame_metrics, piece_metrics, metadata=metadata)

    def _pieces(self) -> tuple[dict[str, list[np.ndarray]], dict[str, str]]:
        """Return the pieces of each split, and metadata on how a folder was split."""
        from lrpt.datasets.jsb import load_jsb  # imported here because it takes a second
        from lrpt.datasets.rolls import read_rolls

        found, notice = (load_jsb(self.format, self.dir), {}) if self.file is None else read_rolls(self.file, 2 - self.first_frame)
        silence = np.zeros((int(self.first_frame), NOTES), np.uint8)
        pieces = {part: [np.concatenate([silence, piece]) for piece in found[part]] for part in found}
        self._check_pieces(pieces)
        if self.longest is not None:
            pieces = {part: [cut for one in pieces[part] for cut in parts(one, self.longest)] for part in pieces}
        return pieces, notice

    def _check_pieces(self, pieces: Mapping[str, list[np.ndarray]]) -> None:
        """Raise a UsageError if a split has no pieces, or a piece with nothing to predict."""
        for part, own in pieces.items():
            given = f"data.file is {self.file}, whose {part} split has"
            if not own:
                raise UsageError(f"{given} no pieces: put at least one piece of two frames into each split")
            if min(map(len, own)) < 2:
                raise UsageError(f"{given} a piece of fewer than two frames: remove such pieces, or predict --data.first-frame")

    def _synthetic(self, seed: int) -> dict[str, Split]:
        splits, first = {}, 0
        for part, count in SYNTHETIC_PIECES.items():
            example = partial(synthetic_piece, first=first, length=self.length, first_frame=self.first_frame)
            splits[part] = Split(count, key_of(seed), example)
            first += count
        return splits


def parts(piece: np.ndarray, longest: int) -> list[np.ndarray]:
    """Cut a piece into parts of at most `longest` frames.

    The last frame of a part is the first one of the next part, so that each frame but the first of the piece is predicted once.
    """
    return [piece[start : start + longest] for start in range(0, len(piece) - 1, longest - 1)]


def digest(pieces: Mapping[str, list[np.ndarray]]) -> str:
    """Return the SHA-256 of all pieces, with their lengths and splits."""
    found = hashlib.sha256()
    for part, own in pieces.items():
        for piece in own:
            found.update(f"{part} {piece.shape} ".encode() + piece.astype(np.uint8).tobytes())
    return found.hexdigest()


def as_split(pieces: list[np.ndarray]) -> Split:
    """Make a split of pieces, padded to the longest of them."""
    lengths = np.array([*map(len, pieces)], np.int32)
    steps = int(lengths.max()) - 1
    frames = np.pad(np.concatenate(pieces), ((0, steps + 1), (0, 0)))
    arrays = {"frames": frames, "starts": np.cumsum(lengths, dtype=np.int32) - lengths, "lengths": lengths}
    return Split(len(pieces), arrays, partial(piece, steps=steps), lengths - 1)


def piece(arrays: PyTree, index: Int[Array, ""], steps: int) -> Example:
    """Return the piece at `index`. Inputs and targets are (steps, 88) floats, targets one frame later; the mask is false for padding."""
    start = jnp.asarray(arrays["starts"])[index]
    frames = jax.lax.dynamic_slice(jnp.asarray(arrays["frames"]), (start, jnp.zeros_like(start)), (steps + 1, NOTES))
    return next_frames(frames.astype(jnp.float32), jnp.asarray(arrays["lengths"])[index])


def next_frames(frames: Float[Array, "f 88"], length: Int[Array, ""]) -> Example:
    """Make an example that predicts all frames after the first, of a piece with `length` frames and padding after them."""
    mask = jnp.arange(1, frames.shape[0]) < length
    return Example(jnp.where(mask[:, None], frames[:-1], 0), jnp.where(mask[:, None], frames[1:], 0), mask)


def synthetic_piece(arrays: PyTree, index: Int[Array, ""], first: int, length: int, first_frame: bool) -> Example:
    """Generate the piece at `index` of a split. The split begins at piece `first` of the stream of pieces."""
    uniform = uniform_numbers(arrays, first + index, 3 + DRAWS * length)
    frames = chord_progression(uniform[0], uniform[1], uniform[3:].reshape(length, DRAWS))
    count = length // 2 + below(uniform[2], length - length // 2 + 1)
    silence = jnp.zeros((int(first_frame), NOTES))
    return next_frames(jnp.concatenate([silence, frames]), count + int(first_frame))


def chord_progression(tonic: Float[Array, ""], mode: Float[Array, ""], uniform: Float[Array, "f 5"]) -> Float[Array, "f 88"]:
    """Generate the frames of a piece from random numbers on [0, 1).

    Row f of `uniform` decides frame f: whether it repeats the chord before it, the degree of the scale, and the notes of three voices.
    """
    weights = np.cumsum(FOLLOWS, axis=1)
    bounds = jnp.asarray(weights[:, :-1] / weights[:, -1:], jnp.float32)

    def next_chord(before: tuple[Array, Array], u: Array) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
        degree, tones = before
        held = u[0] < HELD
        after = jnp.where(held, degree, jnp.sum(u[1] >= bounds[degree], dtype=jnp.int32)), jnp.where(held, tones, below(u[2:], 3))
        return after, after

    start = jnp.zeros((), jnp.int32), below(uniform[0, 2:], 3)
    _, (degrees, tones) = jax.lax.scan(next_chord, start, uniform[1:])
    degrees, tones = jnp.append(start[0], degrees), jnp.concatenate([start[1][None], tones])
    tones = jnp.pad(tones, ((0, 0), (1, 0)))  # the bass has the root
    scale = jnp.asarray(SCALES)[below(mode, len(SCALES))]
    classes = below(tonic, 12) + scale[(degrees[:, None] + 2 * tones) % 7]
    lowest = jnp.asarray(VOICES)[None]
    notes = lowest + (classes - lowest) % 12
    return jax.nn.one_hot(notes - LOWEST, NOTES).max(axis=1)


def frame_metrics(logits: Float[Array, "b t 88"], batch: Example) -> dict[str, Float[Array, " b"]]:
    """Return 'nats', the summed loss of a piece, 'frames', the number of its predicted frames, and 'loss', nats per frame."""
    return sums_over_steps(binary_cross_entropy(at_least_single(logits), batch.targets), batch.mask, "frames")


def constant_loss(split: Split) -> float:
    r"""Return the loss of the best predictor of a split that always gives the same 88 probabilities, in nats per frame.

    The best probabilities are the shares :math:`p_k` of the predicted frames in which note k sounds, and the loss is the sum of their
    entropies, :math:`-\sum_k [p_k \log p_k + (1 - p_k) \log(1 - p_k)]`.
    """
    pieces = split.batch(split.arrays, jnp.arange(split.size))
    frames = np.asarray(pieces.targets, np.float64)[np.asarray(pieces.mask)]
    p = frames.mean(axis=0)
    return float(sum(-(q[q > 0] * np.log(q[q > 0])).sum() for q in (p, 1 - p)))
