"""Scaling between the units of a task's data and those of its network: inputs are standardized, predictions are in standard deviations.

input of the network = (input - mean) / standard_deviation
prediction = output of the network * standard_deviation + mean
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from lrpt.errors import UsageError


class Moments(NamedTuple):
    """Mean and standard deviation of each component of a vector."""

    mean: tuple[float, ...]
    standard_deviation: tuple[float, ...]

    def standardized(self, values: Any) -> Float[Array, "*b m"]:
        """Return (values - mean) / standard_deviation.

        Raises:
          UsageError: the last axis of the values has another size.
        """
        mean, deviation = self._rows(values)
        return (values - mean) / deviation

    def restored(self, values: Any) -> Float[Array, "*b m"]:
        """Return values * standard_deviation + mean.

        Raises:
          UsageError: the last axis of the values has another size.
        """
        mean, deviation = self._rows(values)
        return values * deviation + mean

    def _rows(self, values: Any) -> tuple[Array, Array]:
        """Return mean and standard deviation with as many axes as the values."""
        if not values.ndim or values.shape[-1] != len(self.mean):
            raise UsageError(f"values have shape {values.shape}: expected {len(self.mean)} components in the last axis")
        shape = (*(1,) * (values.ndim - 1), len(self.mean))
        return jnp.asarray(self.mean, jnp.float32).reshape(shape), jnp.asarray(self.standard_deviation, jnp.float32).reshape(shape)


@dataclass(frozen=True)
class Scaling:
    """Scaling of inputs and predictions.

    Attributes:
      inputs: mean and standard deviation of each feature; None if the network reads the data as they are.
      predictions: of each output; None if the network predicts in the units of the data, and for classes.
    """

    inputs: Moments | None = None
    predictions: Moments | None = None

    def standardize(self, inputs: Any) -> Any:
        """Return inputs (..., features) in the units of the network, given the units of the data.

        Raises:
          UsageError: they have another number of features.
        """
        return inputs if self.inputs is None else self.inputs.standardized(inputs)

    def restore(self, predictions: Any) -> Any:
        """Return predictions (..., outputs) in the units of the data, given the units of the network.

        Raises:
          UsageError: they have another number of outputs.
        """
        return predictions if self.predictions is None else self.predictions.restored(predictions)

    def to_json(self) -> dict[str, dict[str, list[float]]]:
        """Return the constants as they are written to files. What is not scaled is left out."""
        parts = {"inputs": self.inputs, "predictions": self.predictions}
        return {
            part: {name: [float(value) for value in values] for name, values in found._asdict().items()}
            for part, found in parts.items()
            if found is not None
        }

    @classmethod
    def from_json(cls, found: Mapping[str, Mapping[str, list[float]]]) -> "Scaling":
        """Return the scaling with the constants that `to_json` gives."""
        return cls(**{part: Moments(*(tuple(constants[name]) for name in Moments._fields)) for part, constants in found.items()})


UNSCALED = Scaling()
"""No scaling: the network computes in the units of the data."""
