"""Labelled sequences in a user's file: one .npz of arrays, or one CSV table with a row for each step."""

import csv
import re
import zipfile
from collections import Counter
from collections.abc import Sequence
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int, Shaped

from lrpt.datasets.data_file import not_utf8, read_bytes
from lrpt.datasets.splits import PARTS
from lrpt.errors import UsageError

ARRAYS = ("inputs", "targets", "lengths", "split")
"""Arrays of an .npz file. The last two may be missing."""

COLUMNS = ("sequence", "target", "split")
"""Columns of a CSV table that are no features. `split` may be missing."""

INTEGER = re.compile(r"[+-]?(0|[1-9][0-9]*)")
"""A label that is a whole number. Python's `int` also reads 01 and 1_0, which are names."""


class Labelled(NamedTuple):
    """Sequences with one label each.

    Attributes:
      inputs: (sequences, steps, features), zero after the end of a sequence; float64 if float32 might not hold all digits of the file.
      lengths: number of steps of each sequence.
      targets: a label for each sequence: numbers, or names of classes.
      split: 'train', 'valid' or 'test' for each sequence; None if the file has no splits.
    """

    inputs: Float[np.ndarray, "s t m"]
    lengths: Int[np.ndarray, " s"]
    targets: Shaped[np.ndarray, "s ..."]
    split: Shaped[np.ndarray, " s"] | None


def read_labelled(path: Path) -> Labelled:
    """Read an .npz or CSV file of labelled sequences.

    An .npz file has `inputs` (sequences, steps) or (sequences, steps, features), `targets` (sequences,) or, for regression, (sequences,
    outputs), and optionally `lengths` and `split` (names of parts).

    A CSV table has a header, a row for each step, in order, and the columns `sequence` (a name or number), `target` and optionally `split`.
    All other columns are features. Blanks after a comma do not count.

    Raises:
      UsageError: the file is missing, a device or a pipe, too large, damaged, or has other content. The message says which.
    """
    readers = {".npz": _read_npz, ".csv": _read_csv}
    if path.suffix not in readers:
        raise UsageError(f"data.file is {path}: expected a file that ends with {' or '.join(readers)}")
    content = read_bytes(path, f"name a file that ends with {' or '.join(readers)}")
    try:
        found = readers[path.suffix](content)
    except UnicodeDecodeError as error:
        raise not_utf8(path, error, "convert it") from error
    except Exception as error:  # csv, zipfile, zlib and NumPy raise a dozen different errors for damage
        raise UsageError(f"data.file is {path}: {(error.args or ('it is damaged',))[0]}") from error
    return _checked(found, path)


def _read_npz(content: bytes) -> Labelled:
    with _archive(BytesIO(content)) as arrays:
        if missing := {"inputs", "targets"} - set(arrays.files):
            raise ValueError(f"it has no array {' and no '.join(sorted(missing))}, but {', '.join(arrays.files) or 'none'}")
        if unknown := sorted(set(arrays.files) - set(ARRAYS)):
            raise ValueError(f"it has an array {' and one '.join(unknown)}: expected no others than {', '.join(ARRAYS)}")
        inputs, targets = _array(arrays, "inputs"), _array(arrays, "targets")
        if inputs.ndim not in (2, 3) or inputs.dtype.kind not in "iuf":
            raise ValueError(
                f"inputs are {inputs.dtype} of shape {inputs.shape}: expected real numbers of shape (sequences, steps, features); "
                "store the parts of complex numbers as two features"
            )
        lengths = _array(arrays, "lengths") if "lengths" in arrays.files else np.full(len(inputs), inputs.shape[1])
        split = _as_text(_array(arrays, "split")) if "split" in arrays.files else None
    return Labelled(_exact(inputs.reshape(*inputs.shape[:2], *inputs.shape[2:] or (1,))), lengths, _as_text(targets), split)


def _as_text(names: Shaped[np.ndarray, "*s"]) -> Shaped[np.ndarray, "*s"]:
    """Return names that are stored as bytes as text, and all else as it is."""
    return np.char.decode(names, "utf-8") if names.dtype.kind == "S" else names


def _exact(inputs: np.ndarray) -> Float[np.ndarray, "..."]:
    """Return real numbers as float32, or as float64 if their type may hold more digits."""
    return inputs.astype(np.float32 if np.can_cast(inputs.dtype, np.float32) else np.float64)


def narrowed(inputs: Float[np.ndarray, "*s"]) -> Float[np.ndarray, "*s"]:
    """Return numbers as float32. `_checked` refuses those that are too large, so they need no warning."""
    with np.errstate(over="ignore"):
        return inputs.astype(np.float32, copy=False)


def _archive(file: BytesIO) -> Any:
    if not zipfile.is_zipfile(file):
        raise ValueError("it is no .npz file: write one with np.savez")
    file.seek(0)
    return np.load(file, allow_pickle=False)


def _array(arrays: Any, name: str) -> np.ndarray:
    """Return an array of an archive. NumPy stores a list of lists of different lengths as Python objects, which it does not read again."""
    try:
        return arrays[name]
    except ValueError as error:
        if "allow_pickle" not in str(error):
            raise
        raise ValueError(
            f"{name} is a list of Python objects: pad sequences of different lengths, and give lengths; store names as {name}.astype(str)"
        ) from None


def _read_csv(content: bytes) -> Labelled:
    reader = csv.DictReader(StringIO(content.decode("utf-8-sig"), newline=""), skipinitialspace=True)
    rows = list(reader)
    names = reader.fieldnames or ()
    if not {"sequence", "target"} <= {*names}:
        found = ", ".join(names) or "an empty file"
        commas = "; separate columns by commas" if ";" in found or "\t" in found else ""
        raise ValueError(f"expected a header with the columns sequence and target, and rows below it, and found {found}{commas}")
    if not rows:
        raise ValueError("it has a header and no rows: write a row for each step of a sequence")
    _check_columns(names, rows)
    features = [name for name in rows[0] if name not in COLUMNS]
    sequences: dict[str, list[int]] = {}
    for number, row in enumerate(rows):
        sequences.setdefault(row["sequence"], []).append(number)
    values = np.array([_numbers(row, features, line) for line, row in enumerate(rows, start=2)], np.float64)
    lengths = np.array([*map(len, sequences.values())])
    inputs = np.zeros((len(sequences), lengths.max(), len(features)))
    for place, numbers in enumerate(sequences.values()):
        inputs[place, : len(numbers)] = values[numbers]
    split = _label_of_each(rows, sequences, "split") if "split" in rows[0] else None
    return Labelled(inputs, lengths, _as_numbers(_label_of_each(rows, sequences, "target")), split)


def _check_columns(names: Sequence[str], rows: Sequence[dict[Any, Any]]) -> None:
    """Check that every column has a value in each row, and every value a column of its own: `csv.DictReader` would drop the others."""
    if repeated := [name for name, count in Counter(names).items() if count > 1]:
        raise ValueError(f"several columns are called {', '.join(repeated)}: give each a name of its own")
    for line, row in enumerate(rows, start=2):
        if None in row:
            raise ValueError(f"line {line} has {len(names) + len(row[None])} values, and the header {len(names)}: write 0.5, not 0,5")
        if missing := [name for name in names if row[name] is None]:
            raise ValueError(f"line {line} has no value of {', '.join(missing)}: give one for each column of the header")
        if empty := [name for name in COLUMNS if not row.get(name, "-").strip()]:  # would be a name like any other
            raise ValueError(f"line {line} has an empty {' and an empty '.join(empty)}: write a value there, or leave the sequence out")


def _numbers(row: dict[str, Any], features: Sequence[str], line: int) -> list[float]:
    try:
        return [float(row[name]) for name in features]
    except (TypeError, ValueError):
        raise ValueError(f"line {line} has a feature that is no number: {', '.join(f'{name}={row[name]}' for name in features)}") from None


def _label_of_each(rows: Sequence[dict[str, str]], sequences: dict[str, list[int]], column: str) -> Shaped[np.ndarray, " s"]:
    """Return the label of each sequence, which is the same in all its rows."""
    found = {name: dict.fromkeys(rows[number][column].strip() for number in numbers) for name, numbers in sequences.items()}
    for name, labels in found.items():
        if len(labels) > 1:
            raise ValueError(f"sequence {name} has several values of {column}: {', '.join(labels)}")
    return np.array([next(iter(labels)) for labels in found.values()])


def _as_numbers(labels: Shaped[np.ndarray, " s"]) -> Shaped[np.ndarray, " s"]:
    """Return whole numbers; numbers of which one has a decimal point; or names as they are.

    Python reads 1_0 as 10, and 1e5 as a float: of such names, two would become one class, or targets of regression.
    """
    words = labels.tolist()
    try:
        if all(map(INTEGER.fullmatch, words)):
            return np.array([*map(int, words)], np.int64)
        if any("." in word for word in words) and not any("_" in word for word in words):
            return np.array([*map(float, words)])
    except (ValueError, OverflowError):  # a name with a point; a number that is too large for a class is a name
        pass
    return labels


def _checked(found: Labelled, path: Path) -> Labelled:
    """Return the sequences with zeros after their ends."""
    count, steps, features = found.inputs.shape
    infinite = _first_infinite(found.targets)
    unknown = np.unique(found.split[~np.isin(found.split, PARTS)]) if found.split is not None else ()
    problems = {
        "it has no sequence": count == 0,
        "inputs have 0 steps: expected 1 or more": steps == 0,
        "it has no feature": features == 0,
        f"targets are {found.targets.dtype}: expected real numbers or names": found.targets.dtype.kind == "c",
        f"targets are of shape {found.targets.shape}, and there are {count} sequences": found.targets.shape[:1] != (count,),
        f"a target is not a finite number of float32: the first is that of sequence {infinite}, counted from 0": infinite is not None,
        f"lengths are {_said(found.lengths)}: expected {count} integers from 1 to {steps}": not _are_lengths(found.lengths, count, steps),
        f"split is {_said(found.split)}: expected a name for each of {count} sequences": found.split is not None
        and found.split.shape != (count,),
        f"split has the name {', '.join(map(str, unknown))}: expected {', '.join(PARTS)}": len(unknown) > 0,
    }
    for problem, holds in problems.items():
        if holds:
            raise UsageError(f"data.file is {path}: {problem}")
    inside = np.arange(steps) < found.lengths[:, None]
    inputs = np.where(inside[..., None], found.inputs, 0)
    if not (is_finite := np.isfinite(narrowed(inputs))).all():
        sequence, step, feature = (int(place) for place in np.argwhere(~is_finite)[0])
        where = f"the first is feature {feature} at step {step} of sequence {sequence}, counted from 0"
        raise UsageError(f"data.file is {path}: values that are not finite numbers: {np.sum(~is_finite)}; {where}")
    return found._replace(inputs=inputs)


def _first_infinite(targets: Shaped[np.ndarray, "s *k"]) -> int | None:
    """Return the first sequence with a target that is not finite in float32; None if there is none."""
    if targets.dtype.kind != "f":
        return None
    places = np.argwhere(~np.isfinite(narrowed(targets)))
    return int(places[0, 0]) if len(places) else None


def _said(array: np.ndarray | None) -> str:
    """Return the type, the shape and the first few values of an array."""
    if array is None:
        return "not given"
    few = ", ".join(map(str, array.ravel()[:3]))
    return f"{array.dtype} of shape {array.shape} ({few}{', ...' if array.size > 3 else ''})"


def _are_lengths(lengths: np.ndarray, count: int, steps: int) -> bool:
    return lengths.shape == (count,) and np.issubdtype(lengths.dtype, np.integer) and bool(np.all((lengths >= 1) & (lengths <= steps)))
