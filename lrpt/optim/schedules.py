"""Learning rate schedules that follow the validation error.

A schedule is a pure function of its own state, a pytree of scalars that is stored in checkpoints. It returns a factor. The training loop
multiplies the learning rate by it; with `optax.inject_hyperparams` the learning rate is a leaf of the optimizer's state.
"""

import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float
from optax.contrib import ReduceLROnPlateauState

StallState = ReduceLROnPlateauState


def never_stalled() -> StallState:
    """Return the state before the first evaluation, with factor 1."""
    return _halving(1).init(())  # type: ignore[return-value]


def halve_when_stalled(state: StallState, error: float | Float[Array, ""], patience: int = 3) -> tuple[StallState, Float[Array, ""]]:
    """Halve the learning rate after `patience` evaluations without a new best error (Miceli Barone 2016, appendix A.1: three epochs).

    Evaluations are counted since the best one or the last halving, whichever is later, as in lowrank-highwaynetwork
    (incremental_annealer.py). An error equal to the best one, or NaN, is not a new best. At each halving the original also returns to the
    best parameters but keeps Adam's moments. A caller can do the same when the factor changes.

    Args:
      state: the state returned by the last call, or `never_stalled()`.
      error: the error of this evaluation; lower is better.
      patience: number of evaluations.

    Returns:
      The new state, and the factor for the initial learning rate.
    """
    _, after = _halving(patience).update((), state, value=error)
    return after, jnp.asarray(after.scale)  # type: ignore[return-value]


def stalled_for_good(state: StallState, halvings: int = 14) -> Bool[Array, ""]:
    """Return whether the learning rate was halved more than `halvings` times.

    lowrank-highwaynetwork ends training instead of a fifteenth halving.
    """
    return jnp.asarray(state.scale) < 0.5**halvings


def _halving(patience: int) -> optax.GradientTransformationExtraArgs:
    # optax rejects a tolerance of zero. This one disappears in rounding, so that any error below the best is a new best.
    return optax.contrib.reduce_on_plateau(factor=0.5, patience=patience, rtol=1e-10)
