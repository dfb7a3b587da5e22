"""What training asks of a network: a configuration that builds it. Any Flax module that answers so can be trained."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, Self

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

Reads = Literal["last", "all"]

SOWN = "penalties", "figures"
"""Flax collections in which a network leaves scalars that training adds to the loss, and values (b,) that are reported as figures."""


class Start(NamedTuple):
    """Where a sequence begins that continues another one.

    Attributes:
      carry: the state that the other one ended in, each leaf (b, ...).
      fresh: whether the network begins in its own initial state all the same.
    """

    carry: Any
    fresh: Bool[Array, ""]

    def instead_of(self, initial: Any) -> Any:
        """The state to begin in, for a network whose own initial state is this."""
        return jax.tree.map(lambda own, other: jnp.where(self.fresh, own, other), initial, self.carry)


class NetworkConfig(Protocol):
    """A frozen dataclass that describes a network.

    The module that it builds has `advance(inputs, mask, start, *, train) -> (predictions, carry)` and `__call__(inputs, mask)` with the
    predictions alone. In training it may use the random numbers 'dropout', change its own collections (such as 'batch_stats'), and sow
    'penalties' and 'figures' (`SOWN`).
    """

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def label(self) -> str:
        """A short name for tables and figures."""
        ...

    @property
    def compiled(self) -> Self:
        """The part that decides what is compiled: without what decides the start of the parameters alone."""
        ...

    @property
    def needs_gpu(self) -> bool:
        """Whether it runs nowhere else."""
        ...

    def settings(self, epoch: Int[Array, ""]) -> Mapping[str, Array]:
        """Values for the variables of the collection 'settings' in an epoch, counted from 0.

        A key stands for every variable whose name ends so.
        """
        ...

    def summarize(self, figures: Mapping[str, float]) -> dict[str, float]:
        """The same figures of a task, with what the network knows to say beside them."""
        ...

    def build(self, input_size: int, output_size: int, reads: Reads, axis_name: str | None = None, sharers: int = 1) -> nn.Module:
        """Return the network for a task.

        Args:
          input_size: width of the inputs, or the number of symbols.
          output_size: width of the predictions.
          reads: 'last' for one prediction after the last step, 'all' for one at each step.
          axis_name: mapped axis over which batches are sharded, if there is one.
          sharers: devices that run the network at the same time and share a cache.
        """
        ...

    def parameter_shapes(self, input_size: int, output_size: int) -> Any:
        """Shapes of the parameters.

        Raises:
          UsageError: the configuration does not fit together.
        """
        ...


class Steady:
    """A configuration of a network that is the same in all epochs, and has nothing to add to the figures of a task."""

    def settings(self, epoch: Int[Array, ""]) -> dict[str, Array]:
        return {}

    def summarize(self, figures: Mapping[str, float]) -> dict[str, float]:
        return dict(figures)
