"""Packed batches: rows sorted by length, and segments of steps that are computed for as many rows as still have steps left.

Sentences of one batch end at different steps, so most steps of a padded batch are padding. PyTorch users know the remedy as packed
sequences. The number of rows in a segment is chosen on the device among a few static numbers, so that one compiled program serves every
batch.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, PyTree

from lrpt.errors import UsageError
from lrpt.recurrence.loops import BY_RULE, Tuning, is_known
from lrpt.recurrence.switched import Segment, plain_switch, recomputing_switch

SEGMENT = 16
"""Approximate number of steps in a segment, in which the number of rows is constant."""

SHORTEST = 64
"""Fewest steps of a sequence that is packed by rule."""

PARTS = 8
"""Different numbers of rows: eighths of the batch."""

PARTS_WITH_RESIDUALS = 4
"""Different numbers of rows if reverse mode stores the residuals of every branch: quarters of the batch."""

FEWEST_ROWS = 8
"""Smallest batch that is packed by rule: steps of fewer rows take as long as steps of eight."""


@runtime_checkable
class RowWise(Protocol):
    """A node of parameters that holds an array with a row for each row of the batch, such as a dropout mask."""

    def of_rows(self, rows: slice | Int[Array, " b"]) -> PyTree:
        """Return the node for these rows of the batch."""
        ...


def take_rows(tree: PyTree, rows: slice | Int[Array, " b"]) -> PyTree:
    """Return parameters for some rows of the batch, in the order of `rows`."""
    return jax.tree.map(lambda n: n.of_rows(rows) if _is_row_wise(n) else n, tree, is_leaf=_is_row_wise)


def _is_row_wise(node: Any) -> bool:
    return isinstance(node, RowWise)


class Packing(NamedTuple):
    """The order of the rows of a batch, and the number of rows of each segment.

    Attributes:
      order: rows by their last step that counts, latest first.
      numbers: for each segment, the place of its number of rows in `row_counts`.
    """

    order: Int[Array, " b"]
    numbers: Int[Array, " s"]

    @staticmethod
    def of(mask: Bool[Array, "t b"], row_counts: Sequence[Any], segment: int) -> "Packing":
        """Pack a batch whose length is a multiple of `segment`."""
        steps = jnp.arange(1, mask.shape[0] + 1)[:, None]
        lengths = jnp.max(jnp.where(mask, steps, 0), axis=0)
        starts = jnp.arange(0, mask.shape[0], segment)
        left = jnp.sum(lengths[None] > starts[:, None], axis=1)
        return Packing(jnp.argsort(-lengths, stable=True), jnp.searchsorted(jnp.asarray(row_counts), left))


def is_packed(mask: Bool[Array, "t b"], tuning: Tuning) -> bool:
    """Return whether a sequence is packed: it has rows and steps, and at least 64 steps unless packing is asked for."""
    if not is_known(mask.shape[0]) or any(is_known(size) and size == 0 for size in mask.shape):
        return False
    return mask.shape[0] >= SHORTEST or tuning.pack == "always"


def row_counts(rows: Any, pack: str, parts: int) -> tuple[Any, ...]:
    """Return the numbers of rows that a segment may have: none, and the whole batch or, if it is packed, 1 to `parts` equal parts of it.

    By rule ('auto') batches of at least 8 rows are packed on CPUs. Accelerators compute 32 rows as fast as 8, and `vmap` over models
    computes every branch. A symbolic number of rows (`jax.export`) has no parts.
    """
    if not is_known(rows):
        return 0, rows
    by_rule = pack == "auto" and rows >= FEWEST_ROWS and jax.default_backend() == "cpu"
    parts = parts if pack == "always" or by_rule else 1
    return tuple(sorted({math.ceil(rows * part / parts) for part in range(parts + 1)}))


def packed(
    segment: Segment, parameters: PyTree, carry: PyTree, xs: PyTree, mask: Bool[Array, "t b"], tuning: Tuning = BY_RULE, *, recompute: bool
) -> PyTree:
    """Run segments of a sequence on the rows that have steps left. Results are those of one segment of all steps and rows.

    Rows that have no step left keep their carry and have outputs of zero, which is what a masked step computes.

    Args:
      segment: `(parameters, carry, (xs, mask)) -> (carry, ys)` for any number of steps and rows.
      parameters: arguments of every segment, in which `RowWise` nodes depend on the rows.
      carry: state before the first step, leaves (b, ...).
      xs: inputs, leaves (t, b, ...).
      mask: true at steps that count.
      tuning: `pack` decides whether segments may have fewer rows than the batch. A segment without rows is left out in any case.
      recompute: run segments again in the backward pass (`recomputing_switch`) instead of storing the residuals of every branch.
    """
    steps, rows = mask.shape
    length = math.ceil(steps / math.ceil(steps / SEGMENT))
    counts = row_counts(rows, tuning.pack, PARTS if recompute else PARTS_WITH_RESIDUALS)
    sequence = jax.tree.map(lambda a: _padded(a, -steps % length), (xs, mask))
    packing = Packing.of(sequence[1], counts, length)
    sort = len(counts) > 2
    if sort:
        parameters = take_rows(parameters, packing.order)
        carry, sequence = _ordered(carry, packing.order, 0), _ordered(sequence, packing.order, 1)
    cut = jax.tree.map(lambda a: a.reshape((-1, length, *a.shape[1:])), sequence)
    switch = recomputing_switch if recompute else plain_switch
    carry, ys = switch(branches(segment, counts), parameters, carry, cut, packing.numbers)
    ys = jax.tree.map(lambda y: y.reshape((-1, *y.shape[2:]))[:steps], ys)
    inverse = jnp.argsort(packing.order)
    return (_ordered(carry, inverse, 0), _ordered(ys, inverse, 1)) if sort else (carry, ys)


def _padded(a: Array, steps: Any) -> Array:
    """Append steps: of zeros, or of the last PRNG keys again, which `jnp.pad` does not know."""
    if jnp.issubdtype(a.dtype, jax.dtypes.prng_key):
        return jnp.concatenate([a, jnp.broadcast_to(a[-1:], (steps, *a.shape[1:]))])
    return jnp.pad(a, ((0, steps),) + ((0, 0),) * (a.ndim - 1))


def _ordered(tree: PyTree, order: Int[Array, " b"], axis: int) -> PyTree:
    return jax.tree.map(lambda a: jnp.take(a, order, axis=axis, unique_indices=True, mode="clip"), tree)


def branches(segment: Segment, counts: Sequence[Any]) -> list[Segment]:
    """Return for each number of rows the function that runs a segment on the first rows and passes the others on."""

    def nothing(parameters: PyTree, carry: PyTree, sequence: PyTree) -> tuple[PyTree, PyTree]:
        ys = jax.eval_shape(segment, parameters, carry, sequence)[1]
        return carry, jax.tree.map(jnp.zeros_like, ys)

    def of_first(count: Any) -> Callable[[Any, Any, Any], tuple[Any, Any]]:
        def branch(parameters: PyTree, carry: PyTree, sequence: PyTree) -> tuple[PyTree, PyTree]:
            def padded(y: Array) -> Array:
                return jnp.pad(y, ((0, 0), (0, sequence[1].shape[1] - count)) + ((0, 0),) * (y.ndim - 2))

            first = jax.tree.map(lambda h: h[:count], carry), jax.tree.map(lambda x: x[:, :count], sequence)
            after, ys = _on_some_rows(segment, take_rows(parameters, slice(count)), *first, of=sequence[1].shape[1])
            return jax.tree.map(lambda new, old: jnp.concatenate([new, old[count:]]), after, carry), jax.tree.map(padded, ys)

        return branch

    return [of_first(count) if count else nothing for count in counts]


def _on_some_rows(segment: Segment, parameters: PyTree, carry: PyTree, sequence: PyTree, *, of: Any) -> tuple[PyTree, PyTree]:
    """Run a segment on the first rows of a batch, on all of which it can be run.

    Raises:
      UsageError: it cannot be run on fewer rows than the batch has.
    """
    rows = sequence[1].shape[1]
    try:
        return segment(parameters, carry, sequence)
    except (TypeError, ValueError) as error:
        if rows == of:
            raise
        raise UsageError(
            f"the step cannot be computed for {rows} of the {of} rows of a padded batch, as packing asks for: give arrays with an entry "
            f"for each row in the inputs, in the state or as nodes of the parameters with `of_rows` (lrpt.recurrence.RowWise), or turn "
            f"packing off with pack='never' ({str(error).partition(chr(10))[0]})"
        ) from error
