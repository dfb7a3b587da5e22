"""MNIST (LeCun, Cortes and Burges 1998), through tensorflow-datasets without TensorFlow."""

import gzip
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow_datasets as tfds
from jaxtyping import UInt8

from lrpt.datasets.prepared import PublishedFiles, examples_of, load_prepared
from lrpt.datasets.sources import Source

# The original site no longer exists. The builder of tensorflow-datasets uses this mirror too.
_MIRROR = "https://storage.googleapis.com/cvdf-datasets/mnist/"
_PUBLISHED = (
    ("train-images-idx3-ubyte.gz", 9_912_422, "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"),
    ("train-labels-idx1-ubyte.gz", 28_881, "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"),
    ("t10k-images-idx3-ubyte.gz", 1_648_877, "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"),
    ("t10k-labels-idx1-ubyte.gz", 4_542, "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"),
)
FILES = tuple(Source(name, _MIRROR + name, size, sha256) for name, size, sha256 in _PUBLISHED)
FOLDER = "mnist"
COUNTS = {"train": 60_000, "test": 10_000}
PIXELS = 28 * 28


class LrptMnist(PublishedFiles):
    """A tfds builder with images and labels in file order, images as flat rows of bytes.

    The builder included in tensorflow-datasets needs TensorFlow to unpack the files, and shuffles them.
    """

    about = "Handwritten digits, 28 x 28 pixels."

    def _features(self) -> dict[str, Any]:
        image = tfds.features.Tensor(shape=(PIXELS,), dtype=np.uint8, encoding=tfds.features.Encoding.BYTES)
        return {"image": image, "label": tfds.features.ClassLabel(num_classes=10)}

    def _split_generators(self, dl_manager: tfds.download.DownloadManager) -> dict[str, Any]:
        return {"train": self._generate_examples("train"), "test": self._generate_examples("t10k")}

    def _generate_examples(self, prefix: str) -> Iterator[tuple[int, dict[str, Any]]]:
        images = _read_idx(self._files[f"{prefix}-images-idx3-ubyte.gz"]).reshape(-1, PIXELS)
        labels = _read_idx(self._files[f"{prefix}-labels-idx1-ubyte.gz"])
        for index, (image, label) in enumerate(zip(images, labels, strict=True)):
            yield index, {"image": image, "label": int(label)}


def _read_idx(path: Path) -> UInt8[np.ndarray, " n"]:
    """Return the data of an idx file. Its header has two zeros, the type, the number of axes, and the length of each axis in four bytes."""
    content = np.frombuffer(gzip.decompress(path.read_bytes()), np.uint8)
    return content[4 + 4 * content[3] :]


@lru_cache(maxsize=1)
def load_mnist(dir: Path | None = None) -> dict[str, UInt8[np.ndarray, "..."]]:
    """Load the images and labels of MNIST as bytes in file order.

    The arrays are 'train_images' (60000, 784), 'train_labels' (60000,), 'test_images' (10000, 784) and 'test_labels' (10000,).
    `load_prepared` lists the directories that are searched.

    Raises:
      UsageError: a file is damaged, or missing and cannot be downloaded, or no directory is writable.
    """
    return load_prepared(LrptMnist, _read, FILES, dir, FOLDER)


def _read(prepared: Any) -> dict[str, UInt8[np.ndarray, "..."]]:
    arrays = {}
    for split, count in COUNTS.items():
        examples = examples_of(prepared, split, count)
        arrays[f"{split}_images"] = np.stack([example["image"] for example in examples])
        arrays[f"{split}_labels"] = np.array([example["label"] for example in examples], np.uint8)
    for array in arrays.values():
        array.flags.writeable = False  # the cache returns the same arrays to every caller
    return arrays
