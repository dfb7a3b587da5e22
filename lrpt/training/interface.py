"""Interface between a task and its network: what a trained network has to know of its task, so that no data are needed to use it."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array

from lrpt.networks.protocol import Reads
from lrpt.runs.classes import class_of, qualified_name
from lrpt.scaling import UNSCALED, Scaling
from lrpt.tasks.task import AnyVocabulary, Task


class Interface(NamedTuple):
    """Interface between a task and its network.

    Attributes:
      input_size: width of the inputs or number of symbols, or of codes (`lrpt.symbols.codes_of`).
      output_size: width of the predictions.
      reads: 'last' for one prediction after the last step, 'all' for one at each step.
      streams: whether each example continues the one before.
      step: shape of the inputs of one step of a sequence, or of a whole example without steps.
      dtype: data type of the inputs.
      is_sequence: whether inputs have steps.
      text: SHA-256 of the text that was read, if there is one.
      scaling: of inputs and predictions, from the units of the data to those of the network.
    """

    input_size: int
    output_size: int
    reads: Reads
    streams: bool
    step: tuple[int, ...]
    dtype: str
    is_sequence: bool
    text: str | None
    scaling: Scaling = UNSCALED

    @classmethod
    def of(cls, task: Task) -> "Interface":
        """Return the interface of a task. One example is traced, and no data are read."""
        train = task.splits["train"]
        inputs = jax.eval_shape(train.batch, train.arrays, jnp.zeros((1,), jnp.int32)).inputs
        is_sequence = have_steps(inputs)
        step = tuple(inputs.shape[1 + is_sequence :])
        text = task.metadata.get("sha256")
        shapes = step, str(inputs.dtype), is_sequence
        return cls(int(task.input_size), int(task.output_size), task.reads, task.streams, *shapes, text, task.scaling)

    @classmethod
    def from_json(cls, recorded: Mapping[str, Any]) -> "Interface":
        """Return the interface that `to_json` described."""
        known = {name: recorded[name] for name in cls._fields}
        return cls(**{**known, "step": tuple(recorded["step"]), "scaling": Scaling.from_json(recorded["scaling"])})

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        return {**self._asdict(), "scaling": self.scaling.to_json()}

    def inputs(self, rows: int) -> jax.ShapeDtypeStruct:
        """Return the shape of inputs of one step."""
        return jax.ShapeDtypeStruct((rows, *(1,) * self.is_sequence, *self.step), self.dtype)

    def zeros(self, rows: int) -> Array:
        """Return inputs of one step for what depends on their shape alone."""
        inputs = self.inputs(rows)
        return jnp.zeros(inputs.shape, inputs.dtype)


def have_steps(inputs: Array | jax.ShapeDtypeStruct) -> bool:
    """Return whether a batch of inputs has an axis of steps: vectors (b, t, m) and symbols (b, t) have one, vectors (b, m) have none."""
    return inputs.ndim == 3 or bool(jnp.issubdtype(inputs.dtype, jnp.integer))


def description(interface: Interface, vocabulary: AnyVocabulary | None) -> dict[str, Any]:
    """Return an interface and the symbols of the task as JSON values, as a run and a kept result have them."""
    symbols = None if vocabulary is None else {"class": qualified_name(type(vocabulary)), "symbols": list(vocabulary.symbols)}
    return {"task": interface.to_json(), "vocabulary": symbols}


def described_vocabulary(found: Mapping[str, Any]) -> AnyVocabulary | None:
    """Return the symbols of a `description`, or None if the task has none."""
    recorded = found["vocabulary"]
    return None if recorded is None else class_of(recorded["class"])(tuple(recorded["symbols"]))
