"""Tasks: examples, data splits, and the metrics computed on predictions."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import checkify
from jaxtyping import Array, Bool, Float, Int, PyTree

from lrpt.datasets.vocabulary import ByteVocabulary, Vocabulary
from lrpt.errors import UsageError, in_words
from lrpt.metrics import GRADIENT_NORM, RESERVED
from lrpt.scaling import UNSCALED, Scaling

AnyVocabulary = Vocabulary | ByteVocabulary

TRACED = (
    "JAX traces `example`: hold the data in `arrays` as arrays of NumPy or JAX, not as lists, and let the index select from them only, "
    "without int(index) or an `if`"
)
"""Note on errors of examples."""


class Example(NamedTuple):
    """One example, or a batch of them with a leading axis.

    Attributes:
      inputs: (t, m) floats, (t,) integers below the task's `input_size`, or (m,) floats if examples have no steps.
      targets: one target for the example, or one for every step.
      mask: (t,) booleans, true at steps that count; None if all do.
    """

    inputs: Float[Array, "*b t m"] | Int[Array, "*b t"] | Float[Array, "*b m"]
    targets: Array
    mask: Bool[Array, "*b t"] | None = None


@dataclass(frozen=True)
class Split:
    """A set of examples. Each is a pure function of `arrays` and its index, so that any process can make any example at any time.

    Attributes:
      size: number of examples.
      arrays: the data that examples are made from, such as images or only a random key. Its shapes are the same for every seed.
      example: `(arrays, index) -> Example`; pure, and traced under `jit`. It must read everything that depends on the seed from `arrays`.
      lengths: number of steps of each example before its padding, if examples have several lengths and the host knows them.
    """

    size: int
    arrays: Any
    example: Callable[[Any, Int[Array, ""]], Example]
    lengths: Int[np.ndarray, " size"] | None = None

    def batch(self, arrays: PyTree, indices: Int[Array, " b"] | Int[np.ndarray, " b"] | Sequence[int]) -> Example:
        """Return the examples at `indices`, stacked.

        Args:
          arrays: `self.arrays`, or those of another seed. NumPy arrays are copied to the device at each call outside of `jit`.
          indices: numbers of examples.

        Raises:
          UsageError: `indices` is no list of integers, or `example` does not return an `Example`.
        """
        rows = jnp.asarray(indices)
        if rows.ndim != 1 or not jnp.issubdtype(rows.dtype, jnp.integer):
            raise UsageError(f"indices are {rows.dtype} of shape {rows.shape}: give the numbers of examples, integers of shape (b,)")
        self._check_indices(indices)
        try:
            found = jax.vmap(self.example, (None, 0))(_of_jax(arrays), rows)
        except jax.errors.JAXTypeError as error:
            error.add_note(TRACED)
            raise
        if not isinstance(found, Example):
            raise UsageError(f"an example of the task is a {type(found).__name__}: return an lrpt.tasks.Example(inputs, targets, mask)")
        return found

    def _check_indices(self, indices: Any) -> None:
        """Raise a UsageError if an index on the host is that of no example. JAX would take the nearest row of an array."""
        known = np.asarray([] if isinstance(indices, jax.Array) else indices)
        if known.size and not (known.min() >= 0 and known.max() < self.size):
            wrong = known.min() if known.min() < 0 else known.max()
            raise UsageError(f"indices contain {wrong}: the split has the examples 0 to {self.size - 1}")

    def check_size(self, name: str) -> None:
        """Raise a UsageError if the last example reads behind the end of an array, where JAX would read its last entry again.

        Args:
          name: name of the split.
        """
        try:
            error, _ = checkify.checkify(self.example, errors=checkify.index_checks)(_of_jax(self.arrays), jnp.int32(self.size - 1))
        except Exception:  # of the example itself, which `batch` reports, or of an operation that cannot be checked
            return
        if error.get():
            raise UsageError(f"split '{name}' has size {self.size}, and its last example reads behind the end of an array")


def _of_jax(arrays: PyTree) -> PyTree:
    """Return arrays of JAX, from which an example may select by a traced index."""
    return jax.tree.map(lambda a: a if isinstance(a, jax.Array) else jnp.asarray(a), arrays)


@dataclass(frozen=True)
class Task:
    """Data splits and the metrics computed on them.

    Attributes:
      splits: 'train', 'valid' (for model selection) and 'test'. 'valid' may be the same object as 'test', as in some of the papers.
      input_size: width m of the inputs, or the number of symbols if they are integers, or of codes (`lrpt.symbols.codes_of`).
      output_size: width of the predictions.
      reads: 'last' for one prediction after the last step, 'all' for one at each step.
      metrics: `(predictions, batch) -> metrics`. Each metric has shape (b,), one value per example; training minimizes 'loss' (in nats, a
        squared error, or a squared hinge). Seeds that are trained together share one compiled function, so it must not depend on the seed.
      summarize: maps the means of these metrics over examples to the reported metrics, which include 'loss'. Unknown metrics are kept.
      streams: whether example i + 1 of a split continues example i, so that the state is carried over.
      vocabulary: the symbols of inputs and predictions by number, if they are symbols of a text.
      metadata: JSON-compatible metadata on the data, for readers of the results.
      scaling: how inputs and targets were scaled. Exported programs contain it, so that they work in the units of the data.
    """

    splits: Mapping[str, Split]
    input_size: int
    output_size: int
    reads: Literal["last", "all"]
    metrics: Callable[[Array, Example], dict[str, Float[Array, " b"]]]
    summarize: Callable[[Mapping[str, float]], dict[str, float]] = dict
    streams: bool = False
    vocabulary: AnyVocabulary | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    scaling: Scaling = UNSCALED

    def summary(self, means: Mapping[str, float]) -> dict[str, float]:
        """Return the reported metrics as Python numbers, by `summarize`.

        Raises:
          UsageError: there is no loss, or a value is no number.
        """
        found = self.summarize(means)
        if "loss" not in found:
            raise UsageError(f"summarize of the task returns {', '.join(found) or 'nothing'}: add 'loss'")
        for name, value in found.items():
            if np.ndim(value) or not np.issubdtype(np.asarray(value).dtype, np.number):
                raise UsageError(f"summarize of the task returns {in_words(value)} as '{name}': return one number for each metric")
        return {name: value if isinstance(value, int | float) else float(value) for name, value in found.items()}

    def metrics_of(self, predictions: Array, batch: Example) -> dict[str, Float[Array, " b"]]:
        """Return the metrics of a batch as floats. Booleans, such as whether an answer is right, become 0 and 1.

        Raises:
          UsageError: there is no loss, or a metric does not have one value for each example.
        """
        found = self.metrics(predictions, batch)
        if "loss" not in found:
            raise UsageError(f"the task has the metrics {', '.join(found) or 'none'}: add 'loss', which training minimizes")
        if taken := [name for name in found if name in RESERVED or name.startswith(GRADIENT_NORM)]:
            raise UsageError(f"the task has a metric '{taken[0]}', a name that lines of metrics use for something else: rename it")
        rows = jax.tree.leaves(batch.inputs)[0].shape[0]
        found = {name: jnp.asarray(value, jnp.result_type(value, jnp.float32)) for name, value in found.items()}
        for name, value in found.items():
            if value.shape != (rows,):
                raise UsageError(f"the metric '{name}' has shape {value.shape} for {rows} examples: return one value for each, ({rows},)")
        return found

    def check_splits(self) -> None:
        """Raise a UsageError unless there are the splits that training needs."""
        if not isinstance(self.splits, Mapping):
            raise UsageError(f"the splits of the task are {in_words(self.splits)}: give a mapping of 'train', 'valid' and 'test'")
        if missing := [name for name in ("train", "valid", "test") if name not in self.splits]:
            raise UsageError(
                f"the task has the splits {', '.join(self.splits) or 'none'}: add {' and '.join(missing)}; one split may have several names"
            )
        for name, split in self.splits.items():
            if split.size < 1:
                raise UsageError(f"split '{name}' has {split.size} examples: give it one or more")
            if split.lengths is not None and np.shape(split.lengths) != (split.size,):
                raise UsageError(f"split '{name}' has {split.size} examples, and lengths of shape {np.shape(split.lengths)}")
