"""Loops over time: twins with the same arguments and the same numbers, which differ in what they keep for the backward pass.

Each is `loop(step, params, carry, xs) -> (carry, ys)` for a body `step(params, carry, x) -> (carry, y)`, time on the leading axis of `xs`.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
from jax import lax

Step = Callable[[Any, Any, Any], tuple[Any, Any]]
Loop = Callable[[Step, Any, Any, Any], tuple[Any, Any]]

CHUNK = 28


def plain(step: Step, params: Any, carry: Any, xs: Any) -> tuple[Any, Any]:
    """`lax.scan`: reverse mode keeps every intermediate of every step."""
    return lax.scan(partial(step, params), carry, xs)


def checkpoint(step: Step, params: Any, carry: Any, xs: Any) -> tuple[Any, Any]:
    """A scan over chunks that are recomputed in the backward pass: memory grows with T / CHUNK states and one chunk's intermediates."""

    @partial(jax.checkpoint, prevent_cse=False)
    def chunk(params: Any, carry: Any, xs: Any) -> tuple[Any, Any]:
        return plain(step, params, carry, xs)

    length = jax.tree.leaves(xs)[0].shape[0]
    whole = length - length % CHUNK
    chunked = jax.tree.map(lambda a: a[:whole].reshape((-1, CHUNK, *a.shape[1:])), xs)
    carry, ys = lax.scan(partial(chunk, params), carry, chunked)
    ys = jax.tree.map(lambda a: a.reshape((whole, *a.shape[2:])), ys)
    if whole == length:
        return carry, ys
    carry, rest = chunk(params, carry, jax.tree.map(lambda a: a[whole:], xs))
    return carry, jax.tree.map(lambda a, b: jax.numpy.concatenate([a, b]), ys, rest)
