"""Loops over time: twins with the same arguments and the same numbers, which differ in what they keep for the backward pass.

Each is `loop(step, params, carry, xs) -> (carry, ys)` for a body `step(params, carry, x) -> (carry, y)`, time on the leading axis of `xs`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from jax import lax

Step = Callable[[Any, Any, Any], tuple[Any, Any]]
Store = Literal["auto", "all", "boundaries"]

CHUNK = 28


@dataclass(frozen=True)
class Tuning:
    """What a loop would otherwise choose by rule. No choice changes the numbers by more than rounding.

    Attributes:
      chunk: steps that the backward pass takes at once.
      store: the states that the fast loop keeps: those before every step, or those before every chunk, from which it computes the others
        again.
    """

    chunk: int | None = None
    store: Store = "auto"


BY_RULE = Tuning()


@runtime_checkable
class Loop(Protocol):
    """What stands in `LOOPS`."""

    def __call__(self, step: Step, params: Any, carry: Any, xs: Any, tuning: Tuning = BY_RULE) -> tuple[Any, Any]: ...


def plain(step: Step, params: Any, carry: Any, xs: Any, tuning: Tuning = BY_RULE) -> tuple[Any, Any]:
    """`lax.scan`: reverse mode keeps every intermediate of every step. There is nothing to tune."""
    return lax.scan(partial(step, params), carry, xs)


def checkpoint(step: Step, params: Any, carry: Any, xs: Any, tuning: Tuning = BY_RULE) -> tuple[Any, Any]:
    """A scan over chunks that are recomputed in the backward pass, which needs the states between chunks and one chunk's intermediates."""

    @partial(jax.checkpoint, prevent_cse=False)
    def chunk(params: Any, carry: Any, xs: Any) -> tuple[Any, Any]:
        return plain(step, params, carry, xs)

    return in_chunks(partial(chunk, params), carry, xs, tuning.chunk or CHUNK)


def in_chunks(chunk: Callable[[Any, Any], tuple[Any, Any]], carry: Any, xs: Any, length: int) -> tuple[Any, Any]:
    """`chunk(carry, xs) -> (carry, ys)` over chunks of a sequence, the last of which may be shorter; the results are joined."""
    chunks, left = divmod(jax.tree.leaves(xs)[0].shape[0], length)
    whole, rest = cut(xs, chunks, length)
    carry, ys = lax.scan(chunk, carry, whole)
    last = None
    if left:
        carry, last = chunk(carry, rest)
    return carry, join(ys, last)


def cut(tree: Any, chunks: int, length: int) -> tuple[Any, Any]:
    """(that many chunks, with a leading axis of them; what is left over)."""
    whole = jax.tree.map(lambda a: a[: chunks * length].reshape((chunks, length, *a.shape[1:])), tree)
    return whole, jax.tree.map(lambda a: a[chunks * length :], tree)


def join(whole: Any, rest: Any) -> Any:
    """The inverse of `cut`; `rest` is None where nothing was left over."""
    whole = jax.tree.map(lambda a: a.reshape((a.shape[0] * a.shape[1], *a.shape[2:])), whole)
    return whole if rest is None else jax.tree.map(lambda a, b: jnp.concatenate([a, b]), whole, rest)
