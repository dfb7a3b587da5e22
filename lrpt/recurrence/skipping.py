"""Leaving out what is nothing but padding: sentences of a batch end long before the longest sentence of the text does."""

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from lrpt.recurrence.loops import BY_RULE, Loop, Step, Tuning, in_chunks

SEGMENT = 32
"""Steps that are computed or left out together."""


def skipping(loop: Loop) -> Loop:
    """The same loop for inputs `(xs, mask)`, which leaves out segments of steps in which no row has a step that counts.

    There the carry stays as it is and outputs are zero, as the body itself would have it. Under `vmap` nothing is left out.
    """

    def run(step: Step, params: Any, carry: Any, xs: Any, tuning: Tuning = BY_RULE) -> tuple[Any, Any]:
        if xs[1].shape[0] < 2 * SEGMENT:
            return loop(step, params, carry, xs, tuning)

        def nothing(carry: Any, xs: Any) -> tuple[Any, Any]:
            _, ys = jax.eval_shape(computed, carry, xs)
            return carry, jax.tree.map(lambda y: jnp.zeros(y.shape, y.dtype), ys)

        def computed(carry: Any, xs: Any) -> tuple[Any, Any]:
            return loop(step, params, carry, xs, tuning)

        def segment(carry: Any, xs: Any) -> tuple[Any, Any]:
            return lax.cond(jnp.any(xs[1]), computed, nothing, carry, xs)

        return in_chunks(segment, carry, xs, SEGMENT)

    return run
