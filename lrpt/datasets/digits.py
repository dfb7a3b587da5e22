"""The 8x8 digits that scikit-learn contains, in a fixed stratified split, read without the import of scikit-learn, which takes a second."""

from importlib.util import find_spec
from pathlib import Path

import numpy as np
from jaxtyping import Int, UInt8

from lrpt.errors import UsageError

HELD_OUT = 300
"""Images in the validation split, and in the test split."""

ImagesAndLabels = tuple[UInt8[np.ndarray, "n pixels"], Int[np.ndarray, " n"]]


def all_digits() -> ImagesAndLabels:
    """Return all images, with pixels from 0 to 16, and labels, in the order of the file.

    Raises:
      UsageError: scikit-learn is not installed.
    """
    rows = np.loadtxt(_file(), delimiter=",", dtype=np.uint8)
    return rows[:, :-1], rows[:, -1].astype(np.int64)


def load_digits() -> dict[str, ImagesAndLabels]:
    """Return images, with pixels from 0 to 16, and labels: 1,197 for training, 300 for validation, 300 for test. No seed changes them.

    They are those of `sklearn.datasets.load_digits`, split twice by `sklearn.model_selection.train_test_split(stratify=labels,
    random_state=0)`.

    Raises:
      UsageError: scikit-learn is not installed.
    """
    images, labels = all_digits()
    rest, test = stratified_split(labels, HELD_OUT)
    train, valid = (rest[part] for part in stratified_split(labels[rest], HELD_OUT))
    return {name: (images[part], labels[part]) for name, part in (("train", train), ("valid", valid), ("test", test))}


def _file() -> Path:
    package = find_spec("sklearn")
    if package is None or not package.submodule_search_locations:
        raise UsageError("data.source is digits, which scikit-learn contains, and it is not installed: pip install scikit-learn")
    return Path(package.submodule_search_locations[0]) / "datasets" / "data" / "digits.csv.gz"


def stratified_split(labels: Int[np.ndarray, " n"], held_out: int) -> tuple[Int[np.ndarray, " m"], Int[np.ndarray, " k"]]:
    """Split indices into two parts with the same shares of the classes 0, 1, ..., as scikit-learn's StratifiedShuffleSplit does.

    Args:
      labels: the class of each example.
      held_out: size of the second part.
    """
    random = np.random.RandomState(0)
    counts = np.bincount(labels)
    classes = np.split(np.argsort(labels, kind="stable"), np.cumsum(counts)[:-1])
    first = _shares(counts, len(labels) - held_out, random)
    second = _shares(counts - first, held_out, random)
    orders = [own[random.permutation(len(own))] for own in classes]
    parts = (
        [own[:n] for own, n in zip(orders, first, strict=True)],
        [own[n : n + m] for own, n, m in zip(orders, first, second, strict=True)],
    )
    one, other = (random.permutation(np.concatenate(part)) for part in parts)
    return one, other


def _shares(counts: Int[np.ndarray, " c"], total: int, random: np.random.RandomState) -> Int[np.ndarray, " c"]:
    """Divide `total` in proportion to `counts`. What rounding leaves goes to the largest remainders, among equal ones at random."""
    exact = counts / counts.sum() * total
    shares = np.floor(exact)
    left = int(total - shares.sum())
    for remainder in np.unique(exact - shares)[::-1]:
        if left <= 0:
            break
        (places,) = np.where(exact - np.floor(exact) == remainder)
        chosen = random.choice(places, size=min(len(places), left), replace=False)
        shares[chosen] += 1
        left -= len(chosen)
    return shares.astype(int)
