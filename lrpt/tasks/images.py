"""Image classification: images as sequences of pixels in a random order, or as vectors."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import get_args

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from lrpt.datasets.digits import ImagesAndLabels, load_digits
from lrpt.errors import check_choice
from lrpt.losses import Over, cross_entropy, squared_hinge
from lrpt.metrics import accuracy
from lrpt.tasks.sources import take_paths, unused_places
from lrpt.tasks.task import Example, Split, Task

CLASSES = 10
ORIGINAL = "original"
ORDERS_OF_IMAGES = ("drawn", ORIGINAL)
ORIGINAL_SEED = 1234
"""of NumPy's legacy generator in RNN_mnist.py, and in the other scripts of lowrank-gru"""
MNIST_TRAIN = 50_000


@dataclass(frozen=True)
class _Images:
    """Source of images and its directory."""

    source: str = "digits"
    """digits (8x8 pixels, nothing to download) or mnist (28x28)"""
    dir: Path | None = None
    """directory of the MNIST files; downloads and prepared data go there too if it is writable (None: the user's cache)"""

    def __post_init__(self) -> None:
        take_paths(self)
        check_choice("data.source", self.source, SOURCES)

    @property
    def unused(self) -> dict[str, str]:
        """Return the settings that have no effect, and why."""
        return unused_places(self.source)


@dataclass(frozen=True)
class PermutedImages(_Images):
    """Classification of images that are read one pixel per step in a fixed random order (Le et al. 2015; Miceli Barone 2018, 3.3).

    'mnist' has 784 steps. As in the paper's code (`RNN_mnist.py` of lowrank-gru), the last 10,000 of the 60,000 training images are the
    validation split, and bytes are divided by 256. 'digits' are the 1,797 images of 8 x 8 pixels that scikit-learn includes: 64 steps,
    1,197 images for training, 300 each for validation and test, pixels divided by 16.

    The order 'original' is that of `RNN_mnist.py`, which has one seed for everything: it shuffles the images for training and those for
    validation, and then draws the order of the pixels, which all its runs share.
    """

    permuted: bool = True
    """read pixels in a random order, else row by row"""
    order: str = "drawn"
    """drawn: pixels in an order drawn from the seed, images as in their files; original: pixels and images in the order of RNN_mnist.py"""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("data.order", self.order, ORDERS_OF_IMAGES)

    @property
    def unused(self) -> dict[str, str]:
        return super().unused | ({} if self.permuted else {"order": "data.permuted is False"})

    def build(self, seed: int) -> Task:
        """Build splits of uint8 images. The seed only decides the order of the pixels, and with order 'original' nothing.

        Raises:
          UsageError: MNIST files are missing or damaged.
        """
        load, scale = SOURCES[self.source]
        parts = load(self.dir)
        pixels = parts["train"][0].shape[1]
        if self.permuted and self.order == ORIGINAL:
            parts, order = in_original_order(parts)
        else:
            order = np.random.default_rng(seed).permutation(pixels) if self.permuted else np.arange(pixels)
        splits = {
            name: Split(
                len(labels),
                {"images": images, "labels": labels.astype(np.int32), "order": order.astype(np.int32)},
                partial(pixel_sequence, scale=scale),
            )
            for name, (images, labels) in parts.items()
        }
        return Task(splits, 1, CLASSES, "last", class_metrics)


@dataclass(frozen=True)
class ImageVectors(_Images):
    """Classification of images from all pixels at once (Miceli Barone 2016, appendix A.1).

    Images and splits are the same as in `PermutedImages`. The loss is the squared hinge of each class against the rest. It is summed over
    classes as in the paper; the code lowrank-highwaynetwork averages it.
    """

    over: str = "sum"
    """how the loss combines classes: sum, or mean as in the original code"""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("data.over", self.over, get_args(Over))

    def build(self, seed: int) -> Task:
        """Build splits of uint8 images. The seed has no effect.

        Raises:
          UsageError: MNIST files are missing or damaged.
        """
        load, scale = SOURCES[self.source]
        parts = load(self.dir)
        splits = {
            name: Split(len(labels), {"images": images, "labels": labels.astype(np.int32)}, partial(pixel_vector, scale=scale))
            for name, (images, labels) in parts.items()
        }
        return Task(splits, parts["train"][0].shape[1], CLASSES, "last", partial(score_metrics, over=self.over))


def in_original_order(
    parts: dict[str, ImagesAndLabels],
) -> tuple[dict[str, ImagesAndLabels], Int[np.ndarray, " pixels"]]:
    """Return the images in the order of `RNN_mnist.py` of lowrank-gru, and its order of the pixels.

    Test images keep their order, which decides no metric.
    """
    generator = np.random.RandomState(ORIGINAL_SEED)
    shuffled = dict(parts)
    for name in ("train", "valid"):
        images, labels = parts[name]
        places = np.arange(len(labels))
        generator.shuffle(places)
        shuffled[name] = images[places], labels[places]
    return shuffled, generator.permutation(parts["train"][0].shape[1])


def pixel_vector(arrays: PyTree, index: Int[Array, ""], scale: float) -> Example:
    """Return the image at `index` as floats, multiplied by `scale`. The target is its class."""
    return Example(jnp.asarray(arrays["images"])[index].astype(jnp.float32) * scale, jnp.asarray(arrays["labels"])[index])


def score_metrics(scores: Float[Array, "b k"], batch: Example, over: str) -> dict[str, Float[Array, " b"]]:
    """Return 'loss', the squared hinge, and 'accuracy' for each example."""
    return {"loss": squared_hinge(scores, batch.targets, over), "accuracy": accuracy(scores, batch.targets)}


def pixel_sequence(arrays: PyTree, index: Int[Array, ""], scale: float) -> Example:
    """Return the image at `index` as (pixels, 1) floats; step t has pixel order[t], multiplied by `scale`. The target is its class."""
    pixels = jnp.asarray(arrays["images"])[index][jnp.asarray(arrays["order"])]
    return Example(pixels[:, None].astype(jnp.float32) * scale, jnp.asarray(arrays["labels"])[index])


def class_metrics(logits: Float[Array, "b k"], batch: Example) -> dict[str, Float[Array, " b"]]:
    """Return 'loss', the cross-entropy in nats, and 'accuracy' for each example."""
    return {"loss": cross_entropy(logits, batch.targets), "accuracy": accuracy(logits, batch.targets)}


def _digits(dir: Path | None) -> dict[str, ImagesAndLabels]:
    return load_digits()


def _mnist(dir: Path | None) -> dict[str, ImagesAndLabels]:
    """Load MNIST in file order: 50,000 images for training, 10,000 for validation, 10,000 for test."""
    from lrpt.datasets.mnist import load_mnist  # imported here because tensorflow-datasets takes a second

    arrays = load_mnist(dir)
    images, labels = arrays["train_images"], arrays["train_labels"]
    return {
        "train": (images[:MNIST_TRAIN], labels[:MNIST_TRAIN]),
        "valid": (images[MNIST_TRAIN:], labels[MNIST_TRAIN:]),
        "test": (arrays["test_images"], arrays["test_labels"]),
    }


SOURCES = {"digits": (_digits, 1 / 16), "mnist": (_mnist, 1 / 256)}
