"""Classification and regression of whole sequences from a user's file."""

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from lrpt.datasets.labelled import Labelled, read_labelled
from lrpt.datasets.splits import PARTS, random_parts
from lrpt.errors import UsageError
from lrpt.losses import squared_error
from lrpt.tasks.images import class_metrics
from lrpt.tasks.task import Example, Split, Task


@dataclass(frozen=True)
class LabelledSequences:
    """Classification or regression of whole sequences: the label is predicted after the last step.

    Labels that are whole numbers or names are classes. Other numbers are targets of regression, whose loss is the squared error in units
    of their standard deviation; `rmse` is the root mean squared error in their own unit.

    Without a file, sequences are the rows of scikit-learn's 8x8 digits: 1,797 sequences of 8 steps with 8 features.
    """

    file: Path | None = None
    """an .npz or CSV file of sequences, see docs/own_data.md (None: 8x8 digits, row by row)"""
    standardize: bool = True
    """subtract the mean of each feature and divide by its standard deviation, both of the training split"""

    def build(self, seed: int) -> Task:
        """Build splits. The seed has no effect: a file without splits is always split in the same way, 80/10/10 at random.

        Raises:
          UsageError: the file is missing or damaged, a split is empty, or a class does not occur in the training split.
        """
        found = _digits() if self.file is None else read_labelled(self.file)
        parts = split_of(found)
        train = parts == "train"
        inputs = standardized(found, train) if self.standardize else found.inputs
        targets, outputs, measures, metadata = self._labels(found.targets, train)
        splits = {}
        for part in PARTS:
            rows = parts == part
            if not rows.any():
                raise UsageError(f"data.file is {self.file}: no sequence is in its {part} split")
            lengths = found.lengths[rows].astype(np.int32)
            splits[part] = Split(int(rows.sum()), {"inputs": inputs[rows], "lengths": lengths, "targets": targets[rows]}, example, lengths)
        metadata |= {"sequences": {part: split.size for part, split in splits.items()}, "steps": inputs.shape[1]}
        metadata |= {"sha256": hashlib.sha256(found.inputs.tobytes() + found.targets.tobytes()).hexdigest()}
        metadata |= {"text": str(self.file or "digits")}
        return Task(splits, inputs.shape[2], outputs, "last", *measures, metadata=metadata)

    def _labels(self, labels: np.ndarray, train: np.ndarray) -> tuple[np.ndarray, int, tuple[Any, ...], dict[str, Any]]:
        """Return targets, the width of the predictions, metrics and their summary, and metadata."""
        if np.issubdtype(labels.dtype, np.floating):
            targets = labels.reshape(len(labels), -1)
            mean, scale = targets[train].mean(0), float(targets[train].std()) or 1.0
            scaled = ((targets - mean) / scale).astype(np.float32)
            metadata = {"mean": mean.tolist(), "standard_deviation": scale}
            return scaled, targets.shape[1], (regression_metrics, Summary(scale)), metadata
        if labels.ndim != 1:
            raise UsageError(f"data.file is {self.file}: targets of shape {labels.shape} are classes: expected one for each sequence")
        classes, targets = np.unique(labels, return_inverse=True)
        if unseen := set(range(len(classes))) - set(targets[train].tolist()):
            raise UsageError(f"data.file is {self.file}: the training split lacks the class {classes[min(unseen)]}")
        return targets.astype(np.int32), max(len(classes), 2), (class_metrics,), {"classes": [str(name) for name in classes]}


@dataclass(frozen=True)
class Summary:
    """Summary of regression: `rmse`, in the unit of the targets.

    Attributes:
      scale: standard deviation of the targets, by which they were divided.
    """

    scale: float

    def __call__(self, means: Mapping[str, float]) -> dict[str, float]:
        return {**means, "rmse": self.scale * math.sqrt(means["loss"])}


def example(arrays: Any, index: Int[Array, ""]) -> Example:
    """Return the sequence at `index` as (steps, features) floats, with its target; the mask is false after its end."""
    inputs = jnp.asarray(arrays["inputs"])[index]
    return Example(inputs, jnp.asarray(arrays["targets"])[index], jnp.arange(inputs.shape[0]) < jnp.asarray(arrays["lengths"])[index])


def regression_metrics(predictions: Float[Array, "b k"], batch: Example) -> dict[str, Float[Array, " b"]]:
    """Return 'loss', the squared error of each example, as a mean over its targets."""
    return {"loss": squared_error(predictions, batch.targets).mean(axis=-1)}


def standardized(found: Labelled, train: np.ndarray) -> Float[np.ndarray, "s t m"]:
    """Return inputs with mean 0 and standard deviation 1 for each feature over the steps of the training split. Padding stays 0."""
    inside = np.arange(found.inputs.shape[1]) < found.lengths[:, None]
    values = found.inputs[train][inside[train]]
    scale = values.std(0)
    return np.where(inside[..., None], (found.inputs - values.mean(0)) / np.where(scale > 0, scale, 1), 0).astype(np.float32)


def split_of(found: Labelled) -> np.ndarray:
    """Return the split of each sequence: as the file says, or at random, always in the same way."""
    return random_parts(len(found.inputs)) if found.split is None else found.split


def _digits() -> Labelled:
    from sklearn.datasets import load_digits  # imported here because it takes a second

    images, labels = load_digits(return_X_y=True)
    return Labelled(images.reshape(-1, 8, 8).astype(np.float32), np.full(len(labels), 8), labels, None)
