"""The learning rate of a run that follows its validation loss."""

from collections.abc import Sequence

import jax

from lrpt.optim import OptimConfig
from lrpt.optim.schedules import halve_when_stalled, never_stalled, stalled_for_good


class Annealing:
    """Halvings of the learning rate, on the host, between the calls of a compiled program that takes the rate as an argument.

    Args:
      config: whether and when it is halved.
      numbers: where it stands, as a checkpoint holds it.
    """

    def __init__(self, config: OptimConfig, numbers: Sequence[float] | None = None) -> None:
        self.config = config
        self._state = never_stalled()
        if numbers is not None:
            leaves, treedef = jax.tree.flatten(self._state)
            self._state = treedef.unflatten(jax.numpy.asarray(n, leaf.dtype) for n, leaf in zip(numbers, leaves, strict=True))

    @property
    def numbers(self) -> list[float]:
        """The state, as JSON can hold it."""
        return [float(leaf) for leaf in jax.tree.leaves(self._state)]

    @property
    def factor(self) -> float:
        """What is left of the learning rate."""
        return float(jax.numpy.asarray(self._state.scale))

    @property
    def over(self) -> bool:
        """Whether training ends, as no more halvings are left."""
        return self.config.halve_after is not None and bool(stalled_for_good(self._state, self.config.halvings))

    def evaluated(self, loss: float) -> bool:
        """Takes note of an evaluation. Returns whether the learning rate is now another."""
        if self.config.halve_after is None:
            return False
        before = self.factor
        self._state, _ = halve_when_stalled(self._state, loss, self.config.halve_after)
        return self.factor != before
