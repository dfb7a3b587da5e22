"""`recur`: a cell over time, with a choice of outputs, a padding mask, and a choice of loops."""

from functools import partial
from typing import Any, Literal, get_args

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, PyTree

from lrpt.errors import check_choice
from lrpt.matrices.rows import by_row
from lrpt.recurrence.arguments import check_arguments, check_rows_of_outputs, checked_step
from lrpt.recurrence.deferred import fast
from lrpt.recurrence.explicit import with_auto_axes
from lrpt.recurrence.kernels import sequence
from lrpt.recurrence.loops import BY_RULE, Loop, Step, Tuning, checkpoint, plain
from lrpt.recurrence.packing import is_packed, packed
from lrpt.recurrence.varying import alike
from lrpt.tables import Table

Outputs = Literal["all", "last", "info"]

LOOPS: Table[Loop] = Table({"fast": fast, "plain": plain, "checkpoint": checkpoint})
"""Loops by name, with the same arguments and the same results."""

KERNEL = "kernel"
"""Name of the accelerator kernel that runs a whole sequence in one launch; it is given instead of the name of a loop."""


def recur(
    step: Step,
    params: PyTree,
    carry: PyTree,
    xs: PyTree,
    mask: Bool[Array, "t b"] | None = None,
    *,
    outputs: Outputs = "all",
    loop: str = "plain",
    tuning: Tuning = BY_RULE,
    readout: Any = None,
) -> tuple[PyTree, PyTree]:
    """Run a cell over a sequence.

    Args:
      step: a cell, `(params, carry, x) -> (carry, (y, info))`.
      params: the cell's parameters.
      carry: its state before the first step, each leaf (b, ...).
      xs: inputs, each leaf (t, b, ...).
      mask: padding mask, true for steps that count. A step that does not count leaves the state unchanged and has an output of zero. With
        a mask, each leaf of y and info must be (b, ...).
      outputs: 'all' returns y of every step, 'last' returns y of each row's last step that counts, and zeros for a row without one (nothing
        else is stored), 'info' returns the pair (y, info) of every step.
      loop: a name in `LOOPS`; or 'kernel', which is `lrpt.recurrence.kernels.sequence`: low-rank GRUs on an NVIDIA GPU only.
      tuning: choices that the loop would otherwise make by rule.
      readout: an operator that is applied to y: to steps that count, and to some of the others, where its result has no meaning.

    Raises:
      UsageError: there is no such loop or choice of outputs; the step is no function, or does not return (carry, (y, info)) with a carry of
        the given shapes and types; mask or carry do not have the time and batch axes of the inputs; the mask is not boolean; there is a
        mask, and an output has no rows; inputs or carry do not fit a matrix; there is no step, and `outputs` is 'last'; the kernel does not
        support this cell or these sizes.

    Returns:
      The carry after the last step, and the outputs: (t, b, ...) leaves, or (b, ...) for 'last'.
    """
    check_choice("loop", loop, [*LOOPS, KERNEL])
    check_choice("outputs", outputs, get_args(Outputs))
    check_arguments(step, carry, xs, mask, outputs)
    run = partial(_recur, step, outputs=outputs, loop=loop, tuning=tuning)
    return with_auto_axes(run, (params, readout), carry, xs, mask, time=outputs != "last")


def _recur(
    step: Step, parameters: PyTree, carry: PyTree, xs: PyTree, mask: Any, *, outputs: Outputs, loop: str, tuning: Tuning
) -> tuple[PyTree, PyTree]:
    """Run a cell over a sequence, as `recur` does, without explicit axes of a mesh."""
    (params, readout), carry, xs, mask = alike((parameters, carry, xs, mask))
    if loop == KERNEL:
        carry, ys = sequence(step, params, carry, xs, mask, outputs=outputs)
        return carry, _read(readout, ys, outputs)
    body = checked_step(step) if outputs == "info" else _without_info(checked_step(step))
    carry = _settled(body, params, carry, xs)
    leaf = _leaf_that_is_output(body, params, carry, xs) if outputs == "last" else None
    if mask is not None:
        body = _masked(body)
    run = partial(_run, loop=loop, tuning=tuning, mask=mask)
    if outputs != "last":
        return run(body, (params, readout), carry, xs, outputs=outputs)
    if leaf is not None:
        carry, _ = run(_without_output(body), (params, None), carry, xs)
        y = jax.tree.leaves(carry)[leaf]
        return carry, _read(readout, y if mask is None else _select(jnp.any(mask, 0), y, jnp.zeros_like(y)), outputs)
    first = jax.tree.map(lambda a: a[0], xs if mask is None else (xs, mask))
    y = jax.eval_shape(lambda: body(params, carry, first)[1])
    (carry, y), _ = run(_keep_last(body, mask is not None), (params, None), (carry, jax.tree.map(jnp.zeros_like, y)), xs)
    return carry, _read(readout, y, outputs)


def _settled(body: Step, params: PyTree, carry: PyTree, xs: PyTree) -> PyTree:
    """Return the carry in the types that the step returns, where its own come from Python numbers. `lax.scan` would change these inside."""
    if not any(jax.typeof(leaf).weak_type for leaf in jax.tree.leaves(carry)):
        return carry
    x = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape[1:], a.dtype), xs)
    after, _ = jax.eval_shape(body, params, carry, x)
    return jax.tree.map(lambda a, b: jnp.asarray(a, b.dtype) if jax.typeof(a).weak_type else a, carry, after)


def _run(
    body: Step, parameters: PyTree, carry: PyTree, xs: PyTree, *, loop: str, tuning: Tuning, mask: Any, outputs: Outputs = "all"
) -> tuple[PyTree, PyTree]:
    """Run a loop and the readout over a sequence; over segments of it if there is a mask and the sequence is long enough for several.

    Without rows there are no chunks to choose, and all loops are `plain`.
    """
    loop = "plain" if 0 in jax.tree.leaves(xs)[0].shape[1:2] else loop

    def segment(parameters: PyTree, carry: PyTree, xs: PyTree) -> tuple[PyTree, PyTree]:
        params, readout = parameters
        carry, ys = LOOPS[loop](body, params, carry, xs, tuning)
        return carry, _read(readout, ys, outputs)

    if mask is None:
        return segment(parameters, carry, xs)
    if not is_packed(mask, tuning):
        return segment(parameters, carry, (xs, mask))
    return packed(segment, parameters, carry, xs, mask, tuning, recompute=loop == "fast")


def _read(readout: Any, outputs: Any, kind: Outputs) -> Any:
    """Apply the readout, if there is one, to y."""
    if readout is None:
        return outputs
    if kind != "info":
        return readout.apply(outputs)
    y, info = outputs
    return readout.apply(y), info


def _without_info(step: Step) -> Step:
    def body(params: PyTree, carry: PyTree, x: PyTree) -> tuple[PyTree, PyTree]:
        carry, (y, _) = step(params, carry, x)
        return carry, y

    return body


def _without_output(body: Step) -> Step:
    def silent(params: PyTree, carry: PyTree, x: PyTree) -> tuple[PyTree, None]:
        return body(params, carry, x)[0], None

    return silent


def _leaf_that_is_output(body: Step, params: PyTree, carry: PyTree, xs: PyTree) -> int | None:
    """Return the number of the leaf of the new state that is also the output, None if there is none: it need not be carried twice."""
    first = jax.tree.map(lambda a: a[0], xs)
    traced, (_, y) = jax.make_jaxpr(partial(body, params), return_shape=True)(carry, first)
    if not isinstance(y, jax.ShapeDtypeStruct):
        return None  # several arrays, or none
    *state, y = traced.jaxpr.outvars
    return next((i for i, leaf in enumerate(state) if leaf is y), None)


def _select(valid: Bool[Array, " b"], new: PyTree, old: PyTree) -> PyTree:
    """Select row by row: `new` for valid rows, else `old`."""
    return jax.tree.map(lambda n, o: jnp.where(by_row(valid, n), n, o), new, old)


def _masked(body: Step) -> Step:
    def masked(params: PyTree, carry: PyTree, x_and_valid: tuple[PyTree, PyTree]) -> tuple[PyTree, PyTree]:
        x, valid = x_and_valid
        x = _select(valid, x, jax.tree.map(jnp.zeros_like, x))  # a NaN in the padding would turn gradients into 0 * NaN
        new, y = body(params, carry, x)
        check_rows_of_outputs(y, valid.shape[0])
        return _select(valid, new, carry), _select(valid, y, jax.tree.map(jnp.zeros_like, y))

    return masked


def _keep_last(body: Step, masked: bool) -> Step:
    def last(params: PyTree, carry_and_y: tuple[PyTree, PyTree], x: PyTree) -> tuple[PyTree, None]:
        carry, old = carry_and_y
        carry, y = body(params, carry, x)
        return (carry, _select(x[1], y, old) if masked else y), None

    return last
