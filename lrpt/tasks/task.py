"""What is asked of a network: examples, what is predicted from them, and how a prediction is judged."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import jax
from jaxtyping import Array, Bool, Float, Int

from lrpt.datasets.vocabulary import ByteVocabulary, Vocabulary


class Example(NamedTuple):
    """One example, or a batch of them with a leading axis.

    Attributes:
      inputs: (t, m) floats, or (t,) integers below the task's `input_size`.
      targets: what is to be predicted, once or at every step.
      mask: (t,) true where a step counts, or None where every step does.
    """

    inputs: Float[Array, "*b t m"] | Int[Array, "*b t"]
    targets: Array
    mask: Bool[Array, "*b t"] | None = None


@dataclass(frozen=True)
class Split:
    """A set of examples, each a pure function of `arrays` and its index, so that any of them can be made anywhere, at any time.

    Attributes:
      size: how many there are.
      arrays: what examples are made from: images, or nothing but a random key. Same shapes for every seed.
      example: `(arrays, index) -> Example`; pure, traced under `jit`; reads everything that depends on the seed from `arrays`.
    """

    size: int
    arrays: Any
    example: Callable[[Any, Int[Array, ""]], Example]

    def batch(self, arrays: Any, indices: Int[Array, " b"]) -> Example:
        """The examples at `indices`, stacked."""
        return jax.vmap(self.example, (None, 0))(arrays, indices)


@dataclass(frozen=True)
class Task:
    """Splits and a judge.

    Attributes:
      splits: 'train', 'valid' (by which a model is chosen) and 'test'; 'valid' may be the same object as 'test' where the papers do so.
      input_size: width m of the inputs, or the number of symbols where they are integers.
      output_size: width of the predictions.
      reads: 'last' where one prediction is made after the last step, 'all' where one is made at each.
      measure: `(predictions, batch) -> figures`, each figure of shape (b,), one value for each example; 'loss' is what training lowers
        (nats, or squared error).
      summarize: turns means of these figures over examples into what is reported, which still has a 'loss'; figures that it does not know
        stay as they are.
      streams: whether example i + 1 of a split continues example i, so that the state is carried from one to the next.
      vocabulary: the symbols of inputs and predictions by number, where they are those of a text.
      notes: what a reader of the results should know about the data, as JSON can hold it.
    """

    splits: Mapping[str, Split]
    input_size: int
    output_size: int
    reads: Literal["last", "all"]
    measure: Callable[[Array, Example], dict[str, Float[Array, " b"]]]
    summarize: Callable[[Mapping[str, float]], dict[str, float]] = dict
    streams: bool = False
    vocabulary: Vocabulary | ByteVocabulary | None = None
    notes: Mapping[str, Any] = field(default_factory=dict)
