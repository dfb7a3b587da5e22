"""The learning rate of a run that follows its validation loss."""

from collections.abc import Sequence

import jax

from lrpt.optim import OptimConfig
from lrpt.optim.schedules import halve_when_stalled, never_stalled, stalled_for_good


class Annealing:
    """Halvings of the learning rate, on the host, between the calls of a compiled program that takes the learning rate as an argument.

    Args:
      config: configuration of the optimizer, which says whether and when the rate is halved.
      numbers: the state from a checkpoint; by default the initial state.
    """

    def __init__(self, config: OptimConfig, numbers: Sequence[float] | None = None) -> None:
        self.config = config
        self._state = never_stalled()
        if numbers is not None:
            leaves, treedef = jax.tree.flatten(self._state)
            self._state = treedef.unflatten(jax.numpy.asarray(n, leaf.dtype) for n, leaf in zip(numbers, leaves, strict=True))

    @property
    def numbers(self) -> list[float]:
        """Return the state as numbers for JSON."""
        return [float(leaf) for leaf in jax.tree.leaves(self._state)]

    @property
    def factor(self) -> float:
        """Return the factor by which the learning rate has been reduced."""
        return float(jax.numpy.asarray(self._state.scale))

    @property
    def over(self) -> bool:
        """Return whether training ends because no halvings are left."""
        return self.config.halve_after is not None and bool(stalled_for_good(self._state, self.config.halvings))

    def evaluated(self, loss: float) -> bool:
        """Record the validation loss of an evaluation. Return whether the learning rate has changed."""
        if self.config.halve_after is None:
            return False
        before = self.factor
        self._state, _ = halve_when_stalled(self._state, loss, self.config.halve_after)
        return self.factor != before
