"""Learning rates that follow the validation error.

A rule is a pure function of its own state, which is a pytree of scalars and goes into checkpoints as it is. It returns a factor, and leaves
it to the training loop to multiply the learning rate: with `optax.inject_hyperparams` that is a leaf of the optimizer's state.
"""

import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float
from optax.contrib import ReduceLROnPlateauState

StallState = ReduceLROnPlateauState


def never_stalled() -> StallState:
    """The state before the first evaluation: factor 1."""
    return _halving(1).init(())  # type: ignore[return-value]


def halve_when_stalled(state: StallState, error: float | Float[Array, ""], patience: int = 3) -> tuple[StallState, Float[Array, ""]]:
    """Halves the learning rate after `patience` evaluations without a new best (Miceli Barone 2016, appendix A.1: three epochs).

    Evaluations are counted from the best one or from the last halving, whichever is later, as in lowrank-highwaynetwork
    (incremental_annealer.py). An error that equals the best, or is NaN, is none better. When it halves, the original also goes back to the
    best parameters, and keeps the moments of Adam: a caller who wants that compares the factor with the one before.

    Args:
      state: what the last call returned, or `never_stalled()`.
      error: of this evaluation; lower is better.
      patience: evaluations.

    Returns:
      The new state, and the factor by which to multiply the learning rate that training started with.
    """
    _, after = _halving(patience).update((), state, value=error)
    return after, jnp.asarray(after.scale)  # type: ignore[return-value]


def stalled_for_good(state: StallState, halvings: int = 14) -> Bool[Array, ""]:
    """Whether there have been more halvings than that: in lowrank-highwaynetwork training ends instead of the fifteenth."""
    return jnp.asarray(state.scale) < 0.5**halvings


def _halving(patience: int) -> optax.GradientTransformationExtraArgs:
    # optax refuses a tolerance of zero. This one is lost in rounding: any error below the best is a new best.
    return optax.contrib.reduce_on_plateau(factor=0.5, patience=patience, rtol=1e-10)
