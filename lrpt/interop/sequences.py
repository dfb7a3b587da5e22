"""Sequences with the arguments of Flax's RNN layers, run by the loops of this library."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax.linen.recurrent import flip_sequences
from jax.core import Tracer
from jaxtyping import Array, Bool, Int, PyTree

from lrpt.cells import Cell, cell_named, stacked
from lrpt.errors import UsageError, check_counts
from lrpt.networks.configuration import SequenceLoopConfig
from lrpt.networks.protocol import as_state_if_named_alike
from lrpt.recurrence import KERNEL, Step, recur
from lrpt.recurrence.explicit import with_auto_axes
from lrpt.recurrence.materialize import materialized, merged


def network_cell(cell: str, features: int, depth: int, layers: int) -> Cell:
    """Return a cell of the table, or a stack of it.

    Raises:
      UsageError: there is no such cell, a size is no integer, or the sizes do not fit the cell.
    """
    entry = cell_named(cell)
    check_counts(features=features, depth=depth, layers=layers)
    if depth > 1 and not entry.deep:
        raise UsageError(f"depth is {depth}: expected 1 for {cell}, which has one transition in a step")
    return entry if layers == 1 else stacked(entry, layers)


def check_cell(cell: object, kind: type) -> None:
    """Raise a UsageError unless the cell of an RNN layer is of the class that the layer can run."""
    if not isinstance(cell, kind):
        raise UsageError(
            f"the cell is a {type(cell).__module__}.{type(cell).__name__}: give a {kind.__module__}.{kind.__name__}, such as "
            f"Cell('gru', ...), or run it with the RNN of Flax"
        )


def as_own(carry: PyTree, own: Any) -> Any:
    """Return a carry in the structure of `own`: Flax gives the state of an LSTM as a tuple (c, h), this library as an `LSTMCarry`.

    Names decide where an array of a dict goes, because JAX sorts the layers of a restored stack as '0', '1', '10', '2'. Without names, the
    order decides.

    Raises:
      UsageError: it has another number of arrays.
    """
    given, needed = len(jax.tree.leaves(carry)), len(jax.tree.leaves(own))
    if given != needed:
        raise UsageError(f"the state has {given} arrays: this cell expects {needed}, as its `initialize_carry` returns them")
    structure, named = jax.tree.structure(own), as_state_if_named_alike(carry, own)
    return named if jax.tree.structure(named) == structure else jax.tree.unflatten(structure, jax.tree.leaves(carry))


def check_carry(carry: PyTree, widths: Any, batch: tuple[int, ...]) -> None:
    """Raise a UsageError unless the arrays of a state of the cell's structure have the given widths, and a row for each input."""
    for leaf, width in zip(jax.tree.leaves(carry), jax.tree.leaves(widths), strict=True):
        if jnp.shape(leaf) != (*batch, width):
            raise UsageError(
                f"the state has an array of shape {jnp.shape(leaf)}, and inputs have the batch {batch}: give {(*batch, width)}, as "
                f"`initialize_carry` returns it for the shape of these inputs"
            )


def check_first(carry: PyTree, own: PyTree) -> None:
    """Raise a UsageError unless the arrays of a state before the first step are as wide as those of `own`, the cell's own state."""
    for leaf, expected in zip(jax.tree.leaves(carry), jax.tree.leaves(own), strict=True):
        if jnp.shape(leaf)[-1:] != expected.shape[-1:]:
            raise UsageError(f"the state before the first step has an array of shape {jnp.shape(leaf)}: the cell expects {expected.shape}")


@dataclass(frozen=True)
class Order:
    """Axes and direction of a sequence.

    Attributes:
      time_major: whether inputs are (time, *batch, features) and not (*batch, time, features).
      reverse: read each sequence from its end to its beginning.
      keep_order: return outputs of a reversed sequence in the order of the inputs.
      feature_axes: axes of one input: 1, or 0 for symbols.
    """

    time_major: bool = False
    reverse: bool = False
    keep_order: bool = False
    feature_axes: int = 1

    def time_axis(self, inputs: Array) -> int:
        """Return the axis of time.

        Raises:
          UsageError: the inputs have too few axes.
        """
        if inputs.ndim <= self.feature_axes:
            raise UsageError(
                f"inputs have shape {inputs.shape}: expected {('(*batch, time)', '(*batch, time, features)')[self.feature_axes]}"
            )
        return 0 if self.time_major else inputs.ndim - self.feature_axes - 1

    def batch(self, inputs: Array) -> tuple[int, ...]:
        """Return the sizes of the leading axes of the state."""
        axis, last = self.time_axis(inputs), inputs.ndim - self.feature_axes
        return tuple(size for k, size in enumerate(inputs.shape[:last]) if k != axis)


def run(
    step: Step,
    params: PyTree,
    carry: PyTree,
    inputs: Array,
    order: Order,
    lengths: Int[Array, "*batch"] | None = None,
    *,
    resets: Bool[Array, "..."] | None = None,
    loop: SequenceLoopConfig,
    with_carry: bool = True,
) -> tuple[PyTree, Array]:
    """Run a cell over sequences, as `flax.linen.RNN` does.

    Outputs behind the end of a sequence are computed from the padding there, as in Flax.

    Args:
      step: the step of a cell.
      params: its parameters.
      carry: the state before the first step, leaves (*batch, n).
      inputs: (*batch, time, features) or (time, *batch, features), without features if they are symbols.
      order: axes and direction.
      lengths: number of steps of each sequence (None: all).
      resets: true at the first steps of episodes, (*batch, time) or (time, *batch) (None: nowhere). Each episode is read from a state of
        zeros: from its first step on, in reverse from its last one on.
      loop: the loop over time.
      with_carry: whether the state is needed.

    Returns:
      The state after the last step of each sequence, and the outputs of all steps. A sequence of length 0 keeps its first state.

    Raises:
      UsageError: inputs, lengths and state do not have the same batch, lengths are known to be no numbers of steps, resets are no booleans
        of all steps, or the loop is not a `SequenceLoopConfig`.
    """
    if not isinstance(loop, SequenceLoopConfig):
        raise UsageError(f"loop is {loop!r}: give a SequenceLoopConfig of lrpt.networks.configuration, such as SequenceLoopConfig('plain')")
    batch, axis = order.batch(inputs), order.time_axis(inputs)
    _check_batch("the state before the first step", batch, [leaf.shape[:-1] for leaf in jax.tree.leaves(carry)])
    _check_lengths(lengths, inputs.shape[axis])
    _check_batch("seq_lengths", batch, [] if lengths is None else [jnp.shape(lengths)])
    _check_resets(resets, inputs.shape[: inputs.ndim - order.feature_axes])
    xs: PyTree = _time_major(inputs, axis, batch)
    first = jax.tree.map(lambda a: a.reshape(math.prod(batch), a.shape[-1]), carry)
    rows = None if lengths is None else jnp.asarray(lengths).reshape(math.prod(batch))
    if resets is not None:
        begins = _time_major(jnp.asarray(resets), axis, batch)
        step, xs = _resetting(step), (xs, _ends(begins, rows) if order.reverse else begins)
    in_order = partial(_in_order, step, order, loop, with_carry)
    last, ys = with_auto_axes(in_order, params, first, xs, rows, time=True)
    ys = jnp.moveaxis(ys.reshape(ys.shape[0], *batch, ys.shape[-1]), 0, axis)
    return jax.tree.map(lambda a: a.reshape(*batch, a.shape[-1]), last), ys


def _time_major(inputs: Array, axis: int, batch: tuple[int, ...]) -> Array:
    """Return inputs with the axis of time first, and one axis for all sequences."""
    xs = jnp.moveaxis(inputs, axis, 0)
    return xs.reshape(xs.shape[0], math.prod(batch), *xs.shape[1 + len(batch) :])


def _ends(begins: Bool[Array, "t b"], lengths: Int[Array, " b"] | None) -> Bool[Array, "t b"]:
    """Return true at the steps before those that begin an episode, except for the last step of a sequence, which keeps its first state."""
    ends = jnp.concatenate([begins[1:], jnp.zeros_like(begins[:1])])
    return ends if lengths is None else ends & (jnp.arange(len(ends))[:, None] + 1 < lengths[None])


def _resetting(step: Step) -> Step:
    """Return a step that takes (input, reset), and begins with a state of zeros in rows whose reset is true."""

    def body(params: PyTree, carry: PyTree, x: tuple[PyTree, Array]) -> Any:
        inputs, reset = x
        return step(params, jax.tree.map(lambda h: jnp.where(reset[:, None], jnp.zeros_like(h), h), carry), inputs)

    return body


def _in_order(
    step: Step, order: Order, loop: SequenceLoopConfig, with_carry: bool, params: PyTree, carry: PyTree, xs: PyTree, lengths: Array | None
) -> tuple[PyTree, Array]:
    """Run a cell over time-major sequences of one batch axis. Outputs of reversed sequences are in the order of the inputs if asked for."""
    xs = jax.tree.map(lambda a: _flipped(a, lengths), xs) if order.reverse else xs
    carry, ys = _recur(step, params, carry, xs, lengths if with_carry else None, loop)
    return carry, _flipped(ys, lengths) if order.reverse and order.keep_order else ys


def _check_batch(name: str, batch: tuple[int, ...], shapes: list[tuple[int, ...]]) -> None:
    for shape in shapes:
        if shape != batch:
            raise UsageError(f"{name} has the batch {shape}, and inputs have the batch {batch}: give one entry for each sequence")


def _check_lengths(lengths: Any, steps: int) -> None:
    """Raise a UsageError unless lengths are integers from 0 to the number of steps. Only their type is known inside of `jax.jit`."""
    if lengths is None:
        return
    if isinstance(lengths, list | tuple):
        raise UsageError(f"seq_lengths are a {type(lengths).__name__}: give an array, such as jnp.asarray(seq_lengths)")
    if not jnp.issubdtype(jnp.result_type(lengths), jnp.integer):
        raise UsageError(f"seq_lengths are {jnp.result_type(lengths)}: give integers from 0 to {steps}")
    for length in () if isinstance(lengths, Tracer) else np.ravel(lengths):
        if not 0 <= length <= steps:
            raise UsageError(f"seq_lengths contain {length}, and the sequences have {steps} steps: give integers from 0 to {steps}")


def _check_resets(resets: Any, shape: tuple[int, ...]) -> None:
    """Raise a UsageError unless resets are booleans of a shape: one for each step of each sequence."""
    if resets is not None and not (jnp.issubdtype(jnp.result_type(resets), bool) and jnp.shape(resets) == shape):
        raise UsageError(
            f"resets are {jnp.result_type(resets)} of shape {jnp.shape(resets)}: give booleans of shape {shape}, true at steps that begin "
            f"with a state of zeros"
        )


def _recur(step: Step, params: PyTree, carry: PyTree, xs: PyTree, lengths: Array | None, loop: SequenceLoopConfig) -> tuple[PyTree, Array]:
    if loop.kind != KERNEL:
        steps, rows = jax.tree.leaves(xs)[0].shape[:2]
        params = merged(materialized(params, loop.materialize, steps * rows), loop.materialize, steps)
    recurrence: dict[str, Any] = {"loop": loop.kind, "tuning": loop.tuning()}
    if lengths is None:
        return recur(step, params, carry, xs, **recurrence)
    _, (ys, carries) = recur(_with_carries(step), params, carry, xs, **recurrence)
    return jax.tree.map(lambda own, all_steps: _last(lengths, own, all_steps), carry, carries), ys


def _last(lengths: Array, first: Array, carries: Array) -> Array:
    """Select the state after the last step of each row."""
    if not carries.shape[0]:
        return first
    picked = carries[jnp.maximum(lengths - 1, 0), jnp.arange(carries.shape[1])]
    return jnp.where(lengths[:, None] > 0, picked, first)


def _with_carries(step: Step) -> Callable[..., Any]:
    def body(params: PyTree, carry: PyTree, x: PyTree) -> Any:
        carry, (y, info) = step(params, carry, x)
        return carry, ((y, carry), info)

    return body


def _flipped(xs: Array, lengths: Array | None) -> Array:
    """Reverse each row of a time-major sequence up to its length. Padding stays behind it."""
    return flip_sequences(xs, lengths, num_batch_dims=1, time_major=True)
