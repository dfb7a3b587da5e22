"""The persistent GRU kernel behind the interface of the plain loop: supported cells, layout of arrays, and gradient.

The kernels do only what must go step by step. The contribution of the inputs is one product over all steps before the forward kernel. The
backward pass recomputes the gates from the stored states in one batch. The backward kernel then walks back to the cotangents of the three
pre-activations, and the gradients of the factors are computed from those, again in one batch.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.nn import sigmoid
from jaxtyping import Array, Bool, Float, Int, PyTree

from lrpt.cells.gru import GRUParams, gru
from lrpt.cells.stacked import StackParams
from lrpt.errors import UsageError
from lrpt.matrices import Diagonal, LowRank, Sum
from lrpt.matrices.rows import by_row
from lrpt.recurrence.kernels.plan import EXAMPLES, MAX_RANK, MAX_SIZE, KernelPlan, plan_for
from lrpt.recurrence.loops import in_words
from lrpt.symbols import is_symbols

SHUT = 1e9
"""Pre-activation of an update gate that keeps the state as it is: its sigmoid is 1 and the derivative 0, to the last bit."""

Recurrent = tuple[Any, Any, Any]


def sequence(
    step: Any,
    params: GRUParams,
    h: Float[Array, "b n"],
    xs: Float[Array, "t b m"] | Int[Array, "t b"],
    mask: Bool[Array, "t b"] | None = None,
    *,
    outputs: str = "all",
    interpret: Any = False,
) -> tuple[Float[Array, "b n"], Float[Array, "*t b n"]]:
    """Run a GRU over a sequence in one launch. Arguments, results and gradients are those of `lrpt.recurrence.recur`.

    Differentiable once, in reverse mode; `vmap` adds blocks to the launch. Runs on NVIDIA GPUs of compute capability 9.0, where products
    inside the loop round their operands to TF32. Over 784 steps of a GRU 128/24, states then have a relative error of 7e-5 and gradients of
    6e-4, as with `recur` in JAX's default precision on that device. In interpret mode results agree with `recur` to single precision.

    Args:
      step: `lrpt.cells.gru.gru`, the only supported cell.
      params: with recurrent matrices of low rank, or low rank plus diagonal, of size n up to 256 and rank up to 64, tied or not, and input
        matrices of any kind.
      h: state before the first step.
      xs: inputs, (t, b, m) floats or (t, b) integers.
      mask: true where a step counts, (t, b). `recur` checks its shape.
      outputs: 'all' or 'last'; the gates ('info') do not leave the kernel.
      interpret: parameters of Pallas's GPU interpret mode, to run on CPU.

    Raises:
      UsageError: another cell or a stack, other matrices, sizes, numbers or outputs, inputs that are not one array, no rows, or no steps.
    """
    reason = _unsupported(step, params, h, xs, outputs)
    if reason:
        raise UsageError(
            f"the GRU kernel does not take {reason}: expected cell gru in one layer, recurrent matrices low_rank or low_rank_plus_diagonal "
            f"of size up to {MAX_SIZE} and rank up to {MAX_RANK}, float32, one array of inputs (t, b, ...) with one step or more, and "
            f"outputs 'all' or 'last'; choose {in_words('fast')}"
        )
    if mask is not None:
        xs = jnp.where(by_row(mask, xs), xs, jnp.zeros_like(xs))
    like_states = jnp.zeros((*xs.shape[:2], h.shape[1]), h.dtype)
    inputs = [gate.input.apply(xs) + gate.bias.apply(like_states) for gate in params]
    if mask is not None:
        inputs[0] = jnp.where(mask[:, :, None], inputs[0], SHUT)
    states = _run(interpret, tuple(gate.recurrent for gate in params), jnp.stack(inputs, 1), h)
    return states[-1], _outputs(states, mask, outputs)


class _Parts(NamedTuple):
    """The arrays of a matrix of low rank plus diagonal."""

    left: Float[Array, "d n"]
    right: Float[Array, "d n"]
    diagonal: Float[Array, " n"]


def _parts(operator: Any) -> _Parts | None:
    """Return the arrays of a low-rank matrix, with its diagonal or a diagonal of zeros; None for other operators."""
    match operator:
        case LowRank(left, right):
            return _Parts(left, right, jnp.zeros(operator.shape[0], left.dtype))
        case Sum((LowRank(left, right), Diagonal(diagonal))):
            return _Parts(left, right, diagonal)
    return None


def _all_parts(recurrent: Recurrent) -> list[_Parts]:
    """Return the arrays of matrices that the kernel supports."""
    return [parts for matrix in recurrent if (parts := _parts(matrix)) is not None]


def _rank(recurrent: Recurrent) -> int:
    """Return the largest rank of these matrices."""
    return max(parts.left.shape[0] for parts in _all_parts(recurrent))


def _unsupported(step: Any, params: PyTree, h: PyTree, xs: PyTree, outputs: str) -> str:
    """Return the reason why the kernel does not support the arguments, or an empty string."""
    if isinstance(params, StackParams):
        return "a stack of layers"
    if step is not gru:
        return f"cell {getattr(step, '__name__', step)}"
    others = [type(gate.recurrent).__name__ for gate in params if _parts(gate.recurrent) is None]
    if others:
        return f"recurrent matrix {others[0]}"
    if not hasattr(xs, "shape"):
        return f"inputs of type {type(xs).__name__}"
    if (h.ndim, xs.ndim) not in ((2, 2), (2, 3)) or is_symbols(xs) != (xs.ndim == 2):
        return f"a state of shape {h.shape} with inputs of shape {xs.shape}, as those of a single sequence without an axis of rows"
    rank = _rank(tuple(gate.recurrent for gate in params))
    floats = [a for a in jax.tree.leaves((params, h, xs)) if not jnp.issubdtype(a.dtype, jnp.integer)]
    types = {str(a.dtype) for a in floats} - {"float32"}
    checks = {
        f"size {h.shape[-1]}": h.shape[-1] > MAX_SIZE,
        f"rank {rank}": rank > MAX_RANK,
        f"numbers of type {', '.join(sorted(types))}": types,
        f"outputs '{outputs}'": outputs not in ("all", "last"),
        "a sequence of no steps": xs.shape[0] == 0,
    }
    return next((reason for reason, wrong in checks.items() if wrong), "")


def _outputs(states: Float[Array, "t b n"], mask: Bool[Array, "t b"] | None, outputs: str) -> Float[Array, "*t b n"]:
    """Return y of every step, or of the last step that counts; zero if none counts."""
    if outputs == "last":
        states, mask = states[-1], None if mask is None else jnp.any(mask, 0)
    return states if mask is None else jnp.where(mask[..., None], states, jnp.zeros_like(states))


def _states(interpret: Any, recurrent: Recurrent, inputs: Float[Array, "t 3 b n"], h: Float[Array, "b n"]) -> Float[Array, "t b n"]:
    """Compute the states after every step from x W + b of the three gates."""
    from lrpt.recurrence.kernels import persistent  # imports Pallas, which takes seconds

    plan = _plan(recurrent, interpret)
    factors = _factors(plan, recurrent, narrow="right", wide="left")
    states = persistent.forward(plan, _pack(plan, inputs), _pack(plan, h[None, None])[0, :, :, 0], *factors)
    return _unpack(states[:, :, :, None], *h.shape)[:, 0]


def _save(interpret: Any, recurrent: Recurrent, inputs: Array, h: Array) -> tuple[Array, PyTree]:
    states = _states(interpret, recurrent, inputs, h)
    return states, (recurrent, inputs, h, states)


def _pull(interpret: Any, saved: PyTree, d_states: Float[Array, "t b n"]) -> tuple[Recurrent, Array, Array]:
    """Return the cotangents of the recurrent matrices, of the inputs' contributions and of the first state."""
    from lrpt.recurrence.kernels import persistent

    recurrent, inputs, h, states = saved
    before = jnp.concatenate([h[None], states[:-1]])
    u, r = (sigmoid(inputs[:, gate] + recurrent[gate].apply(before)) for gate in (0, 1))
    reset = before * r
    m = jnp.tanh(inputs[:, 2] + recurrent[2].apply(reset))

    plan = _plan(recurrent, interpret)
    factors = _factors(plan, recurrent, narrow="left", wide="right")
    d_inputs, d_start = persistent.backward(plan, _pack(plan, jnp.stack([before, u, r, m, d_states], 1)), *factors)
    d_inputs, d_h = _unpack(d_inputs, *h.shape), _unpack(d_start[None, :, :, None], *h.shape)[0, 0]

    def products(recurrent: Recurrent) -> tuple[Array, ...]:
        return tuple(matrix.apply(v) for matrix, v in zip(recurrent, (before, before, reset), strict=True))

    (d_recurrent,) = jax.vjp(products, recurrent)[1](tuple(jnp.moveaxis(d_inputs, 1, 0)))
    return d_recurrent, d_inputs, d_h


_run: Any = jax.custom_vjp(_states, nondiff_argnums=(0,))
_run.defvjp(_save, _pull)


def _plan(recurrent: Recurrent, interpret: Any) -> KernelPlan:
    return plan_for(recurrent[0].shape[0], _rank(recurrent), interpret)


def _pad(array: Array, *shape: int) -> Array:
    return jnp.pad(array, [(0, to - size) for to, size in zip(shape, array.shape, strict=True)])


def _factors(plan: KernelPlan, recurrent: Recurrent, narrow: str, wide: str) -> tuple[Array, Array, Array]:
    """Return the factors that map to d, those that map back to n, and the diagonals, each split into parts for `persistent`."""
    matrices = _all_parts(recurrent)
    rows = jnp.concatenate([_pad(getattr(matrix, narrow), plan.rank, plan.size) for matrix in matrices])
    columns = jnp.stack([_pad(getattr(matrix, wide), plan.rank, plan.size).T for matrix in matrices])
    diagonals = [matrix.diagonal for matrix in matrices]

    if not plan.interpret:  # to the nearest TF32 number; the tensor cores would drop the other bits
        rows, columns = (lax.reduce_precision(factors, exponent_bits=8, mantissa_bits=10) for factors in (rows, columns))

    def by_part(array: Array, axis: int) -> Array:
        return jnp.moveaxis(array.reshape(*array.shape[:axis], plan.parts, plan.rows, *array.shape[axis + 1 :]), axis, 0)

    rows = _pad(rows, plan.narrow_rows, plan.size)
    return by_part(rows, 1), by_part(columns, 1), by_part(jnp.stack([_pad(d, plan.size) for d in diagonals]), 1)


def _pack(plan: KernelPlan, array: Float[Array, "t k b n"]) -> Float[Array, "t tiles parts k rows examples"]:
    """Split examples into tiles of eight, innermost, and components into parts; both are padded with zeros."""
    steps, kinds, batch, _ = array.shape
    tiles = -(-batch // EXAMPLES)
    padded = _pad(array, steps, kinds, EXAMPLES * tiles, plan.size)
    return jnp.transpose(padded.reshape(steps, kinds, tiles, EXAMPLES, plan.parts, plan.rows), (0, 2, 4, 1, 5, 3))


def _unpack(array: Float[Array, "t tiles parts k rows examples"], batch: int, size: int) -> Float[Array, "t k b n"]:
    steps, tiles, parts, kinds, rows, _ = array.shape
    whole = jnp.transpose(array, (0, 3, 1, 5, 2, 4)).reshape(steps, kinds, tiles * EXAMPLES, parts * rows)
    return whole[:, :, :batch, :size]
