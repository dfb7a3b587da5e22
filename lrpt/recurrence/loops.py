"""Loops over time with the same arguments and the same results. They differ in what they store for the backward pass.

Each is `loop(step, params, carry, xs) -> (carry, ys)` for a body `step(params, carry, x) -> (carry, y)`, time on the leading axis of `xs`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, Protocol, get_args

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import PyTree

from lrpt.errors import UsageError, check_at_least, check_choice

Step = Callable[[Any, Any, Any], tuple[Any, Any]]
Store = Literal["auto", "all", "boundaries"]
Pack = Literal["auto", "always", "never"]

CHUNK = 28
"""Steps in a chunk if no number of values decides it: of `checkpoint`, and of the fast loop with a symbolic number of rows."""

UNROLLED = 8
"""Steps in an iteration of a compiled loop on GPUs, where starting an iteration takes about as long as a step of a small network."""


@dataclass(frozen=True)
class Tuning:
    """Choices that a loop makes by rule by default. No choice changes the numbers by more than rounding.

    Attributes:
      chunk: steps in a chunk of the backward pass (None: by rule).
      store: 'all' to store the state before every step, 'boundaries' to store the states before chunks and recompute the others, 'auto' for
        'all' up to a limit of memory.
      pack: whether segments of a masked sequence are computed only for the rows that have steps left (`recurrence.packing`). 'auto' does so
        on CPUs for at least 8 rows and 64 steps. Sequences of 64 steps or more skip segments of padding in any case.
      unroll: steps in an iteration of the compiled loop, the argument `unroll` of `lax.scan` (None: 8 on GPUs, and 1 elsewhere, where more
        gain nothing). Compilation takes longer with more of them.

    Raises:
      UsageError: there is no such choice, or a number is no integer or below 1.
    """

    chunk: int | None = None
    store: Store = "auto"
    pack: Pack = "auto"
    unroll: int | None = None

    def __post_init__(self) -> None:
        check_at_least(1, self, "chunk", "unroll")
        check_choice("store", self.store, get_args(Store))
        check_choice("pack", self.pack, get_args(Pack))

    @property
    def unrolled(self) -> int:
        """Return the steps in an iteration of a compiled loop."""
        return self.unroll or (UNROLLED if jax.default_backend() == "gpu" else 1)


BY_RULE = Tuning()


def in_words(loop: str) -> str:
    """Return the name of a loop for messages: the argument of `recur`, and the setting of configurations."""
    return f"loop '{loop}' (in configurations recurrence '{loop}')"


def is_known(size: Any) -> bool:
    """Return whether a size of an array is a number, not a symbol of `jax.export`, which cannot be compared with every number."""
    return isinstance(size, int)


class Loop(Protocol):
    """A loop over time, as in `LOOPS`."""

    def __call__(self, step: Step, params: PyTree, carry: PyTree, xs: PyTree, tuning: Tuning = BY_RULE) -> tuple[PyTree, PyTree]: ...


def plain(step: Step, params: PyTree, carry: PyTree, xs: PyTree, tuning: Tuning = BY_RULE) -> tuple[PyTree, PyTree]:
    """Run `lax.scan`. Reverse mode stores every intermediate of every step. There is nothing to tune but `unroll`.

    Arguments and results: see the module.
    """
    return scan(partial(step, params), carry, xs, tuning)


def scan(
    body: Callable[[PyTree, PyTree], tuple[PyTree, PyTree]],
    carry: PyTree,
    xs: PyTree,
    tuning: Tuning,
    reverse: bool = False,
    steps: int | None = None,
) -> tuple[PyTree, PyTree]:
    """Run `lax.scan` with as many steps in an iteration as the tuning says: one if their number is symbolic.

    `steps` is their number, if `xs` may hold no array.

    With a single step, nothing asks for the device: a network whose parameters are only counted is traced for one.
    """
    length: Any = jax.tree.leaves(xs)[0].shape[0] if steps is None else steps
    several = is_known(length) and length > 1
    return lax.scan(body, carry, xs, steps, reverse=reverse, unroll=min(tuning.unrolled, length) if several else 1)


def checkpoint(step: Step, params: PyTree, carry: PyTree, xs: PyTree, tuning: Tuning = BY_RULE) -> tuple[PyTree, PyTree]:
    """Scan over chunks that the backward pass recomputes from the states between them. It stores the intermediates of one chunk.

    Arguments and results: see the module.
    """

    @partial(jax.checkpoint, prevent_cse=False)
    def chunk(params: PyTree, carry: PyTree, xs: PyTree) -> tuple[PyTree, PyTree]:
        return plain(step, params, carry, xs, tuning)

    return in_chunks(partial(chunk, params), carry, xs, tuning.chunk or CHUNK)


def in_chunks(chunk: Callable[[PyTree, PyTree], tuple[PyTree, PyTree]], carry: PyTree, xs: PyTree, length: int) -> tuple[PyTree, PyTree]:
    """Scan `chunk(carry, xs) -> (carry, ys)` over chunks of a sequence and join the results. The last chunk may be shorter.

    Raises:
      UsageError: the number of steps is symbolic.
    """
    steps = jax.tree.leaves(xs)[0].shape[0]
    if not is_known(steps):
        raise UsageError(f"the number of steps is symbolic ({steps}), so chunks do not divide it: use {in_words('fast')} or 'plain'")
    length = max(1, min(length, steps))  # without jit, JAX refuses a scan over no chunks
    chunks, left = divmod(steps, length)
    whole, rest = cut(xs, chunks, length)
    carry, ys = lax.scan(chunk, carry, whole)
    last = None
    if left:
        carry, last = chunk(carry, rest)
    return carry, join(ys, last)


def cut(tree: PyTree, chunks: int, length: int) -> tuple[PyTree, PyTree]:
    """Split a sequence into (chunks with a leading axis, the steps that are left over)."""
    whole = jax.tree.map(lambda a: a[: chunks * length].reshape((chunks, length, *a.shape[1:])), tree)
    return whole, jax.tree.map(lambda a: a[chunks * length :], tree)


def join(whole: PyTree, rest: PyTree) -> PyTree:
    """Join what `cut` split. `rest` is None if nothing was left over."""
    whole = jax.tree.map(lambda a: a.reshape((a.shape[0] * a.shape[1], *a.shape[2:])), whole)
    return whole if rest is None else jax.tree.map(lambda a, b: jnp.concatenate([a, b]), whole, rest)
