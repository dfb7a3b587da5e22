"""Segments of padding, which loops leave out: most sentences of a batch end long before the longest one of the text."""

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from lrpt.recurrence.loops import BY_RULE, Loop, Step, Tuning, in_chunks

SEGMENT = 32
"""Steps in a segment, which is computed or left out as a whole."""


def skipping(loop: Loop) -> Loop:
    """Return the loop for inputs `(xs, mask)` that leaves out segments whose mask is false everywhere.

    In such a segment the carry does not change and outputs are zero, which is what the masked body computes, too. Under `vmap` nothing is
    left out.
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
