"""Classification and regression of whole sequences from a user's file."""

import hashlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PyTree

from lrpt.datasets.digits import all_digits
from lrpt.datasets.labelled import Labelled, narrowed, read_labelled
from lrpt.datasets.splits import PARTS, random_parts
from lrpt.errors import UsageError
from lrpt.losses import squared_error
from lrpt.scaling import Moments, Scaling
from lrpt.tasks.images import class_metrics
from lrpt.tasks.sources import take_paths
from lrpt.tasks.task import Example, Split, Task


class Labels(NamedTuple):
    """Targets of all sequences, and what a network needs to predict them.

    Attributes:
      targets: classes as numbers, or standardized targets of regression.
      outputs: width of the predictions.
      metrics: computes the metrics of predictions, as `Task.metrics` does.
      summarize: computes further metrics from means of metrics, as `Task.summarize` does.
      moments: mean and standard deviation of the targets of regression, in the units of the file; None for classes.
      metadata: entries of `Task.metadata`.
    """

    targets: np.ndarray
    outputs: int
    metrics: Callable[[Array, Example], dict[str, Float[Array, " b"]]]
    summarize: Callable[[Mapping[str, float]], dict[str, float]]
    moments: Moments | None
    metadata: dict[str, Any]


@dataclass(frozen=True)
class LabelledSequences:
    """Classification or regression of whole sequences: the label is predicted after the last step.

    Labels that are integers, booleans or names are classes. Labels that are floats, whole ones included, are targets of regression, whose
    loss is the squared error in units of the standard deviation of each output; `rmse` is the root mean squared error over all outputs in
    their own units. A number in a CSV table is a float if it has a decimal point.

    Without a file, sequences are the rows of scikit-learn's 8x8 digits: 1,797 sequences of 8 steps with 8 features.
    """

    file: Path | None = None
    """an .npz or CSV file of sequences, see docs/own_data.md (None: 8x8 digits, row by row)"""
    standardize: bool = True
    """subtract the mean of each feature and divide by its standard deviation, both of the training split"""

    def __post_init__(self) -> None:
        take_paths(self)

    def build(self, seed: int) -> Task:
        """Build splits. The seed has no effect: a file without splits is always split in the same way, 80/10/10 at random.

        Raises:
          UsageError: the file is missing or damaged, a split is empty, all sequences are of one class, or a class does not occur in the
            training split; inputs that are not standardized vary by less than float32 can hold.
        """
        found = _digits() if self.file is None else read_labelled(self.file)
        parts = split_of(found)
        train = parts == "train"
        labels = self._labels(found.targets, train)
        scaling = Scaling(moments_of_features(found, train) if self.standardize else None, labels.moments)
        notice = self._notice(found)
        inputs = narrowed(found.inputs) if scaling.inputs is None else standardized(found, scaling.inputs)
        splits = {}
        for part in PARTS:
            rows = parts == part
            if not rows.any():
                raise UsageError(f"data.file is {self.file}: no sequence is in its {part} split")
            lengths = found.lengths[rows].astype(np.int32)
            splits[part] = Split(
                int(rows.sum()), {"inputs": inputs[rows], "lengths": lengths, "targets": labels.targets[rows]}, example, lengths
            )
        metadata = {**labels.metadata, "scaling": scaling.to_json(), "sequences": {part: split.size for part, split in splits.items()}}
        metadata |= {"steps": inputs.shape[1], "text": str(self.file or "digits"), **notice}
        metadata |= digests(found, parts)
        functions = {"metrics": labels.metrics, "summarize": labels.summarize}
        return Task(splits, inputs.shape[2], labels.outputs, "last", **functions, metadata=metadata, scaling=scaling)

    def _notice(self, found: Labelled) -> dict[str, str]:
        """Return a notice if a feature varies by less than float32 can hold.

        Raises:
          UsageError: there is such a feature, and inputs are not standardized.
        """
        if (feature := _too_fine(found)) is None:
            return {}
        says = f"data.file is {self.file}: feature {feature} varies by less than float32 can hold: "
        if not self.standardize:
            raise UsageError(says + "subtract a constant from it, or leave out --data.no-standardize")
        return {"notice": says + "predictions for new inputs are in float32, so subtract a constant from it if you need them"}

    def _labels(self, labels: np.ndarray, train: np.ndarray) -> Labels:
        if np.issubdtype(labels.dtype, np.floating):
            return _regression(labels.reshape(len(labels), -1).astype(np.promote_types(labels.dtype, np.float32)), train)
        if labels.ndim != 1:
            raise UsageError(
                f"data.file is {self.file}: targets of shape {labels.shape} are classes: expected one for each sequence, such as "
                f"targets.argmax(axis=1) of one-hot targets; a label for each step needs a task of your own"
            )
        classes, targets = np.unique(labels, return_inverse=True)
        if len(classes) == 1:
            raise UsageError(
                f"data.file is {self.file}: all targets are the class {classes[0]}: expected two or more classes, or floats for regression"
            )
        if unseen := set(range(len(classes))) - set(targets[train].tolist()):
            advice = "; for regression, write floats" if np.issubdtype(labels.dtype, np.number) else ""
            raise UsageError(f"data.file is {self.file}: the training split lacks the class {classes[min(unseen)]}{advice}")
        return Labels(targets.astype(np.int32), len(classes), class_metrics, dict, None, {"classes": [str(name) for name in classes]})


def _regression(targets: Float[np.ndarray, "s k"], train: np.ndarray) -> Labels:
    """Return targets minus their mean, divided by the standard deviation of each output, both of the training split."""
    moments = _moments(targets[train])
    mean, scales = moments
    metrics = partial(regression_metrics, weights=_weights(scales))
    scaled = ((targets - np.asarray(mean, targets.dtype)) / np.asarray(scales, targets.dtype)).astype(np.float32)
    return Labels(scaled, len(scales), metrics, Summary(scales), moments, {})


def _weights(scales: tuple[float, ...]) -> tuple[float, ...]:
    """Return the weights of the outputs in `rmse`, at most 1, so that squares of large units do not overflow."""
    return tuple((scale / max(scales)) ** 2 for scale in scales)


def digests(found: Labelled, parts: np.ndarray) -> dict[str, str]:
    """Return two SHA-256: of inputs and targets, and of lengths and splits too. Earlier versions recorded the first alone.

    Inputs count as float32, because earlier versions read no other digits.
    """
    content = hashlib.sha256(narrowed(found.inputs).tobytes() + found.targets.tobytes())
    metadata = {"sha256": content.hexdigest()}
    content.update(found.lengths.astype(np.int64).tobytes() + " ".join(map(str, parts)).encode())
    return {**metadata, "sha256_of_splits": content.hexdigest()}


WEIGHTED = "weighted_error"
"""The squared error of the outputs, each with the weight of its unit, relative to the largest one."""


@dataclass(frozen=True)
class Summary:
    """Summary of regression: `rmse`, in the unit of the targets, over all outputs.

    Attributes:
      scales: standard deviation of each output, by which it was divided.
    """

    scales: tuple[float, ...]

    def __call__(self, means: Mapping[str, float]) -> dict[str, float]:
        kept = {name: value for name, value in means.items() if name != WEIGHTED}
        return {**kept, "rmse": max(self.scales) * math.sqrt(means[WEIGHTED])}


def example(arrays: PyTree, index: Int[Array, ""]) -> Example:
    """Return the sequence at `index` as (steps, features) floats, with its target; the mask is false after its end."""
    inputs = jnp.asarray(arrays["inputs"])[index]
    return Example(inputs, jnp.asarray(arrays["targets"])[index], jnp.arange(inputs.shape[0]) < jnp.asarray(arrays["lengths"])[index])


def regression_metrics(predictions: Float[Array, "b k"], batch: Example, weights: tuple[float, ...]) -> dict[str, Float[Array, " b"]]:
    """Return 'loss', the squared error of each example, as a mean over its targets, and the mean with weights."""
    errors = squared_error(predictions, batch.targets)
    return {"loss": errors.mean(axis=-1), WEIGHTED: (errors * jnp.asarray(weights, errors.dtype)[None]).mean(axis=-1)}


def moments_of_features(found: Labelled, train: np.ndarray) -> Moments:
    """Return mean and standard deviation of each feature over the steps of the training split; 1 for the deviation of a constant."""
    return _moments(found.inputs[train][_inside(found)[train]])


def _moments(values: Float[np.ndarray, "s m"]) -> Moments:
    """Return mean and standard deviation of each column; 1 for the deviation of a constant, which may be above 0 by rounding."""
    mean, scale = values.mean(0, dtype=np.float64), values.std(0, dtype=np.float64)  # sums of many numbers need float64
    varies = (values.min(0) < values.max(0)) & (scale > 0)
    return Moments(tuple(mean.tolist()), tuple(np.where(varies, scale, 1).tolist()))


def standardized(found: Labelled, moments: Moments) -> Float[np.ndarray, "s t m"]:
    """Return inputs in standard deviations from the mean, computed in the precision of the file. Padding stays 0."""
    mean, scale = np.asarray(moments, found.inputs.dtype)
    return np.where(_inside(found)[..., None], (found.inputs - mean) / scale, 0).astype(np.float32)


def _too_fine(found: Labelled) -> int | None:
    """Return the first feature that float32 rounds by more than a tenth of its standard deviation, or None."""
    if found.inputs.dtype == np.float32:
        return None
    values = found.inputs[_inside(found)]
    error = np.abs(values - narrowed(values)).max(0)
    too_fine = (values.min(0) < values.max(0)) & (error > 0.1 * values.std(0))
    return int(np.argmax(too_fine)) if too_fine.any() else None


def _inside(found: Labelled) -> Bool[np.ndarray, "s t"]:
    """Return which steps are not padding."""
    return np.arange(found.inputs.shape[1]) < found.lengths[:, None]


def split_of(found: Labelled) -> np.ndarray:
    """Return the split of each sequence: as the file says, or at random, always in the same way."""
    return random_parts(len(found.inputs)) if found.split is None else found.split


def _digits() -> Labelled:
    images, labels = all_digits()
    return Labelled(images.reshape(-1, 8, 8).astype(np.float32), np.full(len(labels), 8), labels, None)
