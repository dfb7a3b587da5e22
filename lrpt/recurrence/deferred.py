"""The fast loop: weight gradients once for each chunk of steps, for any cell, without a hand-written gradient.

Reverse mode through `lax.scan` stores every intermediate of every step and forms small weight gradients at each step. The fast loop stores
the state before each step, and products that are more expensive to recompute than to store, such as the projection of a vector by R. If
that would take much memory, it stores only the state before each chunk of steps. The backward pass takes the chunks, last one first:

1. It recomputes and linearizes the steps of a chunk in one batch, since their states are known.
2. It walks back through them with the linear maps alone. The cotangent of the state goes from step to step; the output cotangents of the
   operators are stored.
3. It computes each operator's gradient from all its inputs and output cotangents in the chunk at once.

If a single step fills the caches, it is a chunk of its own, and none of its arrays is copied.

To record inputs and output cotangents, the step is linearized with intercepted operators. A call records its input v and adds a
perturbation of zero to the output, whose cotangent is that of the output. Matrices are constants of this linearization. So a cell may call
`apply` and nothing else: anything else that it read from a matrix would be lost from the gradient, and is refused.

A `Composite` operator, such as a low-rank matrix, is intercepted by its parts: the products with R and with L^T are results of the walk and
not recomputed for the gradients. An R that several matrices share is applied to the state once, forward and backward. Projections of the
same vector by different matrices are one wider product.

docs/fast_loop.md has a worked example and the invariants.
"""

import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, PyTree

from lrpt.matrices import Dense
from lrpt.recurrence.interception import replayed, trace_calls
from lrpt.recurrence.leaves import Distinct, Static, added, distinct, instantiated, or_none, told_apart
from lrpt.recurrence.linearize import LinearStep, Wanted
from lrpt.recurrence.loops import BY_RULE, CHUNK, Step, Tuning, checkpoint, cut, in_chunks, in_words, is_known, join, plain, scan
from lrpt.recurrence.products import Calls

VALUES_PER_CHUNK = 30_000
"""Steps times batch times width of a chunk: about a dozen arrays of this size fit in the cache of a core."""

WEIGHTS_PER_VALUE = 18
"""Weights for each value of a step up to which chunks are short, and may be single steps.

Measured on a CPU: short chunks make an update 8 % faster at 7 weights, change nothing at 15, and make it 5 % slower at 19.
"""

VALUES_OF_LONG_CHUNKS = 90_000
"""Values of a chunk on accelerators, where each operation takes time to start, and on CPUs above `WEIGHTS_PER_VALUE`, where fewer
accumulations save more than arrays that fit in the cache."""

STORED_BYTES = 256 * 2**20
"""Memory above which only the states before chunks are stored."""


class ChunkPlan(NamedTuple):
    """Choices for a sequence: steps in a chunk, whether the state before every step is stored, and the tuning."""

    length: int
    all_steps: bool
    tuning: Tuning


class Saved(NamedTuple):
    """States before each step, or before each chunk only, and outputs of products that the forward pass stores, or none."""

    carries: PyTree
    kept: list[Any]


def fast(step: Step, params: PyTree, carry: PyTree, xs: PyTree, tuning: Tuning = BY_RULE) -> tuple[PyTree, PyTree]:
    """Run a step over a sequence, with the values of `loops.plain` and its reverse-mode gradients of any order.

    By rule a chunk has about 30,000 values (steps times batch times width: 230 rows of 128), or 90,000 on accelerators and if there are
    many weights, within 1 to 64 steps. The state before every step is stored if that takes at most 256 MiB. Otherwise
    only the states before chunks are stored, and in a sequence of T steps a chunk has about sqrt(T) steps or more.

    Sizes may be symbolic (`jax.export`). Rules then have no number of values to go by: a chunk has about 28 steps if the number of rows is
    symbolic, and one step if the number of steps is.

    Raises:
      AttributeError: the cell reads something of a matrix other than `apply`.
      TypeError: forward-mode differentiation, which needs `plain`; a matrix made of parts that are not stored in it; or one that uses its
        arrays outside of calls of its parts.
      RuntimeError: the cell is not pure: it made other matrix calls when it was traced again.
    """
    steps = jax.tree.leaves(xs)[0].shape[0]
    if steps == 0:
        return plain(step, params, carry, xs)
    params, carry = jax.tree.map(_as_array, (params, carry))
    if not supported():
        return checkpoint(step, params, carry, xs, tuning)
    calls = trace_calls(step, params, carry, _first(xs))
    weights = sum(array.size for array in distinct(params)[0])
    try:
        with _advice_on_closures():
            return _run(step, calls, params, carry, xs, _plan(steps, calls, carry, weights, tuning))
    except TypeError as error:
        if "forward-mode" in str(error):  # JAX has no error class for it
            raise TypeError(
                f"the fast loop has no forward-mode derivative: use {in_words('plain')} for jvp, jacfwd and linearize"
            ) from error
        raise


@contextmanager
def _advice_on_closures() -> Iterator[None]:
    """Add a note to the error of a step that uses a traced value which it does not get as an argument."""
    try:
        yield
    except jax.errors.UnexpectedTracerError as error:
        error.add_note(
            "the fast loop differentiates what a step gets as arguments, in calls of `apply` outside of lax.scan and lax.cond: pass a "
            f"value that the step closes over in its parameters, carry or inputs, or use {in_words('plain')}"
        )
        raise


@cache
def supported() -> bool:
    """Return whether this loop works with this version of JAX: it relies on the closure of `jax.vjp` and on jaxprs. If not, warn."""

    def step(matrix: Any, carry: Array, x: Array) -> tuple[Array, None]:
        return jnp.tanh(matrix.apply(carry) + x), None

    def loss(kernel: Array) -> Array:
        matrix, carry, xs = Dense(kernel), jnp.zeros((1, 3)), jnp.zeros((2, 1, 3))
        return jnp.sum(_run(step, trace_calls(step, matrix, carry, xs[0]), matrix, carry, xs, ChunkPlan(2, True, BY_RULE))[0])

    try:
        jax.eval_shape(jax.grad(loss), jnp.zeros((3, 3)))
    except Exception as error:
        warnings.warn(f"the fast loop does not work with jax {jax.__version__} ({type(error).__name__}): using 'checkpoint'", stacklevel=2)
        return False
    return True


def _plan(steps: Any, calls: Calls, carry: PyTree, weights: int, tuning: Tuning) -> ChunkPlan:
    """Return the choices for a sequence."""
    if not is_known(steps):
        return ChunkPlan(1, True, tuning)  # chunks of one step are the only ones that divide every sequence
    chunk = min(tuning.chunk, max(1, steps)) if tuning.chunk else None
    kept = carry, calls.kept_outputs()
    if not all(is_known(size) for leaf in jax.tree.leaves((kept, calls.outputs)) for size in leaf.shape):
        return ChunkPlan(chunk or near_divisor(steps, CHUNK), tuning.store != "boundaries", tuning)
    values = max([calls.largest_output(), *(leaf.size for leaf in jax.tree.leaves(carry))])
    length, all_steps = chunk_length(steps, values, weights), keeps_all(steps, kept, tuning)
    if not all_steps:
        length = near_divisor(steps, max(length, math.isqrt(steps)))  # a chunk of few steps would save little memory
    return ChunkPlan(chunk or length, all_steps, tuning)


def chunk_length(steps: int, values: int, weights: int = 0) -> int:
    """Return the default length of a chunk: on a CPU 30,000 values, 1 to 64 steps, preferably a divisor of the sequence's length.

    A chunk of one step needs no copies of the chunk's arrays, but reads and writes all gradient accumulators at each step. So a chunk has
    90,000 values and at least two steps if there are many weights, as in dense matrices. On accelerators it has 90,000 values.

    Args:
      steps: length of the sequence.
      values: values in a step: batch size times width.
      weights: size of all parameters of the step.
    """
    few = weights <= WEIGHTS_PER_VALUE * values
    size = VALUES_PER_CHUNK if few and jax.default_backend() == "cpu" else VALUES_OF_LONG_CHUNKS
    return near_divisor(steps, max(1 if few else 2, min(64, size // max(1, values))))


def near_divisor(steps: int, longest: int) -> int:
    """Return the largest divisor of `steps` up to `longest`, or `longest` if all divisors up to it are at most half as large."""
    longest = min(longest, steps)
    divisors = [k for k in range(longest // 2 + 1, longest + 1) if steps % k == 0]
    return divisors[-1] if divisors else longest


def keeps_all(steps: int, kept: PyTree, tuning: Tuning) -> bool:
    """Return whether to store the state before every step, not only before every chunk."""
    if tuning.store != "auto":
        return tuning.store == "all"
    return steps * sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(kept)) <= STORED_BYTES


def _run(step: Step, calls: Calls, params: PyTree, carry: PyTree, xs: PyTree, plan: ChunkPlan) -> tuple[PyTree, PyTree]:
    """Run `lax.scan` with the reverse mode of this module."""
    arrays, build = distinct(params)

    def bound(arrays: list[Any]) -> Any:
        return replayed(step, calls, calls.operators(arrays), arrays, build(arrays))

    @jax.custom_vjp
    def run(arrays: PyTree, carry: PyTree, xs: PyTree) -> tuple[PyTree, PyTree]:
        body = bound(told_apart(arrays))
        return scan(lambda carry, x: body(carry, x)[0], carry, xs, plan.tuning)

    def forward(*perturbed: PyTree) -> tuple[PyTree, PyTree]:
        arrays, carry, xs = jax.tree.map(lambda p: _as_array(p.value), perturbed)
        arrays = told_apart(arrays)
        frozen = frozenset(i for i, p in enumerate(perturbed[0]) if not p.perturbed)
        wanted = Wanted(any(p.perturbed for p in jax.tree.leaves(perturbed[2])), frozen)
        body = bound(arrays)
        last, ys, saved = (_with_steps if plan.all_steps else _with_boundaries)(body, carry, xs, plan)
        return (last, ys), (arrays, saved, xs, Static(wanted))

    def backward(residuals: PyTree, cotangents: PyTree) -> tuple[PyTree, PyTree, PyTree]:
        arrays, saved, xs, wanted = residuals
        with _advice_on_closures():
            linear = LinearStep(step, calls, Distinct(told_apart(arrays), build), _first(saved.carries), _first(xs), wanted.value)
            return _backward(linear, saved, xs, cotangents, plan)

    run.defvjp(forward, backward, symbolic_zeros=True)
    return run(arrays, carry, xs)


def _with_steps(bound: Any, carry: PyTree, xs: PyTree, plan: ChunkPlan) -> tuple[PyTree, PyTree, Saved]:
    """Return (last carry, ys, what is saved of each step)."""

    def body(before: PyTree, x: PyTree) -> tuple[PyTree, PyTree]:
        (after, y), kept = bound(before, x)
        return after, (Saved(before, kept), y)

    last, (saved, ys) = scan(body, carry, xs, plan.tuning)
    return last, ys, saved


def _with_boundaries(bound: Any, carry: PyTree, xs: PyTree, plan: ChunkPlan) -> tuple[PyTree, PyTree, Saved]:
    """Return (last carry, ys, what is saved of each chunk)."""

    def chunk(before: PyTree, xs: PyTree) -> tuple[PyTree, PyTree]:
        after, ys = scan(lambda carry, x: bound(carry, x)[0], before, xs, plan.tuning)
        return after, (Saved(jax.tree.map(lambda a: a[None], before), []), ys)

    last, (saved, ys) = in_chunks(chunk, carry, xs, plan.length)
    return last, ys, saved


def _backward(linear: LinearStep, saved: Saved, xs: PyTree, cotangents: PyTree, plan: ChunkPlan) -> tuple[PyTree, PyTree, PyTree]:
    """Map cotangents of (last carry, ys) to those of (the arrays of the parameters, first carry, xs)."""
    nothing = jax.tree.map(jnp.zeros_like, linear.calls.kept_outputs())
    fixed = linear.fixed_residuals(_first(saved.carries), _first(xs), nothing)
    d_last, d_ys = (instantiated(part) for part in cotangents)
    if plan.length == 1 and plan.all_steps:
        start, walk = (d_last, linear.zeros()), partial(_step, linear, fixed)
        (d_first, gradients), d_x = scan(walk, start, (saved, xs, d_ys), plan.tuning, reverse=True)
        return linear.by_array(gradients), or_none(saved.carries, d_first), or_none(xs, d_x) if linear.wanted.inputs else None
    chunk = partial(_chunk, linear, fixed, plan)
    chunks, rest = divmod(jax.tree.leaves(xs)[0].shape[0], plan.length)
    states = plan.length if plan.all_steps else 1
    sequence = cut(saved, chunks, states), cut(xs, chunks, plan.length), cut(d_ys, chunks, plan.length)
    walked, d_rest = (d_last, linear.zeros()), None
    if rest:
        walked, d_rest = chunk(walked, tuple(part[1] for part in sequence))
    (d_first, gradients), d_x = lax.scan(chunk, walked, tuple(part[0] for part in sequence), reverse=True)
    return linear.by_array(gradients), or_none(saved.carries, d_first), or_none(xs, join(d_x, d_rest)) if linear.wanted.inputs else None


def _step(linear: LinearStep, fixed: list[Any], walked: PyTree, of_step: Any) -> tuple[PyTree, PyTree]:
    """Walk back through one step, with its weight gradients, as `_chunk` does through several."""
    saved, x, d_y = of_step
    d_after, (matrices, raw) = walked
    residuals, inputs = linear.recompute(saved.carries, x, saved.kept)
    d_before, d_outputs, d_raw, d_x = linear.pull(residuals, fixed, (d_after, d_y))
    matrices = linear.add_matrix_gradients(matrices, inputs, d_outputs, chunk=False)
    return (d_before, (matrices, added(raw, d_raw))), d_x


def _chunk(linear: LinearStep, fixed: list[Any], plan: ChunkPlan, walked: PyTree, of_chunk: PyTree) -> tuple[PyTree, PyTree]:
    """Walk back through a chunk: (cotangent of the state after it, gradients so far) -> ((that before it, gradients), d x)."""
    saved, xs, d_ys = of_chunk
    if not plan.all_steps:
        _, _, saved = _with_steps(linear.advance, _first(saved.carries), xs, plan)
    d_after, (matrices, raw) = walked
    in_batch: Any = jax.vmap if linear.is_alike_in_batches else _one_by_one
    varying, inputs = in_batch(linear.recompute)(saved.carries, xs, saved.kept)
    one, d_y = jax.eval_shape(_first, (varying, d_ys))
    equal = linear.equal_cotangents(one, fixed, (d_after, d_y))  # the scan stores each cotangent once

    def body(walked: PyTree, of_step: Any) -> tuple[PyTree, PyTree]:
        d_after, raw = walked
        residuals, d_y = of_step
        d_before, d_outputs, d_raw, d_x = linear.pull(residuals, fixed, (d_after, d_y))
        return (d_before, added(raw, d_raw)), ({i: d_outputs[i] for i in equal}, d_x)

    steps = jax.tree.leaves(xs)[0].shape[0]
    (d_before, raw), (stored, d_x) = scan(body, (d_after, raw), (varying, d_ys), plan.tuning, reverse=True, steps=steps)
    matrices = linear.add_matrix_gradients(matrices, inputs, [stored[i] for i in equal], chunk=True)
    return (d_before, (matrices, raw)), d_x


def _one_by_one(function: Any) -> Any:
    """Return a function of the steps of a chunk that computes them one after another, with what `jax.vmap` would compute for most."""
    return lambda *args: lax.map(lambda of_step: function(*of_step), args)


def _as_array(leaf: Any) -> Any:
    """Return a Python number as an array. Arrays stay the same objects, by which shared ones are known."""
    return leaf if isinstance(leaf, jax.Array | np.ndarray) else jnp.asarray(leaf)


def _first(xs: PyTree) -> Any:
    return jax.tree.map(lambda a: a[0], xs)
