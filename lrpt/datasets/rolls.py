"""A user's piano rolls: one file of pieces, or a folder of .mat files."""

import re
from collections.abc import Callable, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any, TypeVar

import scipy.io

from lrpt.datasets.data_file import read_bytes
from lrpt.datasets.jsb import FILES, READERS, Piece, Pieces, from_bits, read_mat
from lrpt.datasets.piano_roll import NOTES
from lrpt.datasets.splits import PARTS, random_parts
from lrpt.errors import UsageError

T = TypeVar("T")

WORDS = {"train": "train", "training": "train", "valid": "valid", "validation": "valid", "val": "valid", "test": "test", "testing": "test"}
"""Words in the name of a file or folder -> the split that they name."""
IN_PARTS = {f"{part}data" for part in PARTS}
"""Variables of a .mat file that is already split."""


def read_rolls(path: Path, fewest: int) -> tuple[Pieces, dict[str, str]]:
    """Read the pieces of a file or of a folder. Return them with metadata: a 'notice' if a folder was split at random.

    The suffix of a file decides its format. `read_folder` says which files of a folder are in which split.

    Raises:
      UsageError: a file cannot be read or has other contents; in a folder also if a piece has fewer than `fewest` frames, or if a split is
        empty.
    """
    return read_folder(path, fewest) if path.is_dir() else (_read_file(path), {})


def _read_file(path: Path) -> Pieces:
    suffix = path.suffix.removeprefix(".")
    if suffix not in READERS:
        formats = f".{' or .'.join(READERS)}, the two formats of JSB chorales"
        raise UsageError(f"data.file is {path}: expected a name that ends in {formats}, or a folder of .mat files")
    return _parsed(path, READERS[suffix], f"make it like {FILES[suffix].name}")


def _parsed(path: Path, read: Callable[[bytes], T], advice: str) -> T:
    content = read_bytes(path, "name another file")
    try:
        return read(content)
    except Exception as error:  # malformed files raise many unrelated exceptions
        raise UsageError(f"data.file is {path}, which does not hold pieces of 88 notes ({error}): {advice}") from error


def read_folder(folder: Path, fewest: int) -> tuple[Pieces, dict[str, str]]:
    """Read all .mat files of a folder and its subfolders, in the order of their paths. Hidden files are left out.

    A file with the variables 'traindata', 'validdata' and 'testdata' adds its pieces to each split. Any other file holds one matrix of
    (frames, 88) zeros and ones, or one cell array of such matrices, under any name. All its pieces are in the split that a word of its
    path names (`WORDS`): 'test/a.mat', 'a_test.mat'. If no file names a split, files are split 80/10/10 at random, always in the same way.

    Raises:
      UsageError: there is no .mat file, or one has other contents or short pieces; some files name a split and others do not; a split is
        empty.
    """
    paths = {str(path.relative_to(folder)): path for path in sorted(folder.rglob("*.mat")) if not path.name.startswith(".")}
    if not paths:
        raise UsageError(f"data.file is {folder}, a folder without .mat files: name another folder, or a file")
    advice = "give it one matrix of (frames, 88) zeros and ones, or one cell array of such matrices"
    found = {name: _parsed(path, _pieces_of, advice) for name, path in paths.items()}
    for name, pieces in found.items():
        _check_lengths(folder / name, pieces, fewest)
    parts, notice = _parts(folder, found)
    splits = {part: [piece for name in found for piece in _of_part(found[name], parts[name], part)] for part in PARTS}
    for part in PARTS:
        if not splits[part]:
            named = "which needs three files or more" if notice else f"where no file names {part}"
            raise UsageError(f"data.file is {folder}, {named}: the {part} split is empty, put files in a subfolder {part}")
    return splits, notice


def _pieces_of(content: bytes) -> Pieces | list[Piece]:
    """Return the pieces of a .mat file, by split if the file is split."""
    variables = {name: value for name, value in scipy.io.loadmat(BytesIO(content)).items() if not name.startswith("__")}
    if variables.keys() >= IN_PARTS:
        return read_mat(content)
    rolls = [name for name, value in variables.items() if value.dtype == object or value.shape[1:] == (NOTES,)]
    if len(rolls) != 1:
        shapes = ", ".join(f"{name} of shape {value.shape}" for name, value in variables.items())
        raise ValueError(f"it has {'no' if not rolls else 'more than one'} matrix of 88 columns or cell array: {shapes or 'nothing'}")
    value = variables[rolls[0]]
    return [from_bits(piece) for piece in (value.ravel() if value.dtype == object else [value])]


def _check_lengths(path: Path, pieces: Pieces | list[Piece], fewest: int) -> None:
    every: Sequence[Any] = [piece for part in pieces.values() for piece in part] if isinstance(pieces, dict) else pieces
    if min(map(len, every), default=0) < fewest:
        problem = ("an empty piece", "a piece of fewer than two frames")[fewest > 1] if every else "no pieces"
        advice = "remove it" + (", or predict --data.first-frame" if every and fewest > 1 else "")
        raise UsageError(f"data.file has {path}, which has {problem}: {advice}")


def _of_part(pieces: Pieces | list[Piece], named: str | None, part: str) -> list[Piece]:
    return pieces[part] if isinstance(pieces, dict) else (pieces if named == part else [])


def _parts(folder: Path, found: Mapping[str, Pieces | list[Piece]]) -> tuple[dict[str, str | None], dict[str, str]]:
    """Return the split of each file, None for one that is split itself, and a notice if splits are random."""
    parts = {name: None if isinstance(pieces, dict) else part_of(folder, name) for name, pieces in found.items()}
    silent = [name for name, pieces in found.items() if parts[name] is None and not isinstance(pieces, dict)]
    if not silent:
        return parts, {}
    if spoken := [name for name in found if name not in silent]:
        advice = f"put every file in a subfolder {', '.join(PARTS[:-1])} or {PARTS[-1]}, or none"
        raise UsageError(f"data.file is {folder}, where {spoken[0]} has a split and {silent[0]} has none: {advice}")
    drawn = random_parts(len(silent)).tolist()
    counts = ", ".join(f"{drawn.count(part)} {part}" for part in PARTS)
    notice = f"no file of {folder} names a split, so {len(drawn)} files are split at random: {counts}"
    return dict(zip(silent, drawn, strict=True)), {"notice": notice}


def part_of(folder: Path, name: str) -> str | None:
    """Return the split that the words of a path within the folder name, or None.

    Raises:
      UsageError: it names two.
    """
    words = re.split(r"[^a-z]+", name.lower().removesuffix(".mat"))
    parts = sorted({WORDS[word] for word in words if word in WORDS})
    if len(parts) > 1:
        raise UsageError(f"data.file is {folder}, where {name} names the splits {' and '.join(parts)}: rename it, so that it names one")
    return parts[0] if parts else None
