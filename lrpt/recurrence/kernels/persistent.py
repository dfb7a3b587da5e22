"""Two Pallas kernels for Mosaic GPU: a low-rank GRU over a whole sequence in one launch, forward and backward.

The bodies are tested in Pallas's GPU interpret mode on CPU, which has no clusters, tensor-core rounding, register layouts or swizzled
memory. On a Hopper GPU, tests compare values and gradients with the plain path in full precision. docs/gpu.md has errors and times.

A block of threads processes 8 examples, which are the columns of its tiles. It copies the factors to shared memory once and keeps the
state in registers; only the inputs and outputs of each step pass through global memory. Products run on the tensor cores (`wgmma`), which
take single-precision operands as TF32 (10 bits of mantissa, rounded to nearest) and accumulate in float32. XLA does the same on these
devices by default, but the kernels do it for every `jax_default_matmul_precision`.

Products run while the block goes on with element-wise functions that do not need them: the reset gate and its product come first, and the
update gate is computed meanwhile.

Factors that do not fit one block are split over a cluster of blocks, each with its own part of the state's components. A low-rank product
then needs one exchange: the sum over the parts of d numbers for each example, which the blocks write into each other's shared memory.

Both kernels multiply by three matrices in two steps: `narrow` maps the n components to d, `wide` maps them back to n. Forward these are R
and L, backward L^T and R^T, so that each kernel reads every factor in the order in which it is stored in shared memory.
"""

import inspect
from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu
from jaxtyping import Array, Float, PyTree

from lrpt.recurrence.kernels.plan import EXAMPLES, ROWS, KernelPlan

UPDATE, RESET, CANDIDATE = range(3)

_IDX = inspect.signature(plgpu.load).parameters.get("idx")
# Index argument that loads a whole reference: JAX 0.10 requires it, JAX 0.11 deprecates it, JAX 0.12 has no such argument.
_WHOLE = ((),) if _IDX is not None and _IDX.default is _IDX.empty else ()


def forward(
    plan: KernelPlan,
    inputs: Float[Array, "t tiles parts 3 rows examples"],
    start: Float[Array, "tiles parts rows examples"],
    narrow: Float[Array, "parts narrow_rows rows"],
    wide: Float[Array, "parts 3 rows d"],
    diagonal: Float[Array, "parts 3 rows"],
) -> Float[Array, "t tiles parts rows examples"]:
    """Compute the states of `lrpt.cells.gru` at every step from x W + b, which does not depend on the state."""
    body = partial(_forward, plan, inputs.shape[0])
    out = jax.ShapeDtypeStruct((*inputs.shape[:3], *inputs.shape[4:]), jnp.float32)
    products = (plan.pair_rows, ROWS)
    return _launch(plan, body, out, inputs.shape[1], products, slots=1)(inputs, start, narrow, wide, diagonal)


def backward(
    plan: KernelPlan,
    streams: Float[Array, "t tiles parts 5 rows examples"],
    narrow: Float[Array, "parts narrow_rows rows"],
    wide: Float[Array, "parts 3 rows d"],
    diagonal: Float[Array, "parts 3 rows"],
) -> tuple[Float[Array, "t tiles parts 3 rows examples"], Float[Array, "tiles parts rows examples"]]:
    r"""Compute cotangents of the three pre-activations at every step, and of the state before the first step.

    Args:
      plan: layout of the problem.
      streams: at each step the state h before it, u, r, m, and the cotangent of the state h' after it.
      narrow: the factors L^T of the three gates, stacked.
      wide: the factors R^T.
      diagonal: the diagonals, zeros for matrices without one.
    """
    body = partial(_backward, plan, streams.shape[0])
    out = (
        jax.ShapeDtypeStruct((*streams.shape[:3], 3, *streams.shape[4:]), jnp.float32),
        jax.ShapeDtypeStruct((*streams.shape[1:3], *streams.shape[4:]), jnp.float32),
    )
    return _launch(plan, body, out, streams.shape[1], (ROWS,) * 3, slots=2)(streams, narrow, wide, diagonal)


def _launch(plan: KernelPlan, body: Any, out: Any, tiles: int, products: Sequence[int], slots: int) -> Any:
    """Return the kernel that runs `body` for every tile and part.

    Args:
      plan: layout of the problem.
      body: the kernel, which gets references to the arguments, the results and the scratch memory.
      out: shapes and types of the results.
      tiles: number of tiles of examples.
      products: rows of each narrow product.
      slots: vectors of n components that are multiplied at one time.
    """
    here = plan.parts if plan.interpret else 1  # in interpret mode all parts share one block
    scratch = {
        "narrow_here": _shared((here, plan.narrow_rows, plan.rows)),
        "wide_here": _shared((here, 3, plan.rows, plan.rank)),
        "vectors": [_columns(plan, here, plan.rows, plan.rows) for _ in range(slots)],
        "narrowed": [_columns(plan, here, rows, plan.rank) for rows in products],
        "partial": [_shared((plan.parts, rows, EXAMPLES)) for rows in products if plan.parts > 1],
        "loaded": plgpu.Barrier(num_barriers=4 * here),
        "arrived": plgpu.Barrier(num_arrivals=plan.parts, num_barriers=len(products)),
    }
    if plan.interpret:
        mesh = {"num_threads": plan.parts, "thread_name": "part"}
    else:
        mesh = {"cluster": (plan.parts,), "cluster_names": ("part",), "num_threads": 1, "thread_name": "warpgroup"}
    launch = {"grid": (tiles,), "grid_names": ("tile",), "interpret": plan.interpret, "compiler_params": _compiler(plan)}
    return plgpu.kernel(body, out_type=out, scratch_types=scratch, **launch, **mesh)


def _compiler(plan: KernelPlan) -> Any:
    """Return settings of the compiler.

    `exp` is that of the special function unit, with a relative error of about 1e-7. A block that works alone needs no barriers but those of
    `_Block.write`: threads read shared memory only through products, and between the last product that reads an operand and the next write
    to it, all threads have waited for that product and then met at the barrier of another write.
    """
    return plgpu.CompilerParams(approx_math=True, unsafe_no_auto_barriers=plan.parts == 1)


def _shared(shape: tuple[int, ...], minor: int | None = None) -> Any:
    """Return shared memory in the tiles that `wgmma` reads, with the widest swizzle that rows of `minor` numbers allow."""
    swizzle = plgpu.find_swizzle(32 * (minor or shape[-1]))
    transforms = (plgpu.TilingTransform((8, swizzle // 4)), plgpu.SwizzleTransform(swizzle))
    return plgpu.SMEM(shape, jnp.float32, transforms=transforms)


def _columns(plan: KernelPlan, here: int, rows: int, minor: int) -> Any:
    """Return a (rows, 8) operand. Tensor cores need contiguous columns; interpret mode has no transposed references."""
    return plgpu.SMEM((here, rows, EXAMPLES), jnp.float32) if plan.interpret else _shared((here, EXAMPLES, rows), minor)


class _Block:
    """Factors of one part in shared memory, and products with them."""

    def __init__(self, plan: KernelPlan, narrow: Any, wide: Any, diagonal: Any, scratch: dict[str, Any]) -> None:
        self.plan = plan
        self.tile, self.part = lax.axis_index("tile"), lax.axis_index("part")
        self.own = self.part if plan.interpret else 0
        self.narrow, self.wide = scratch["narrow_here"].at[self.own], scratch["wide_here"].at[self.own]
        self.vectors = [self.transposed(ref.at[self.own]) for ref in scratch["vectors"]]
        self.narrowed = [self.transposed(ref.at[self.own]) for ref in scratch["narrowed"]]
        self.partial, self.arrived = scratch["partial"], scratch["arrived"]
        self.copy(narrow.at[self.part], wide.at[self.part], scratch["loaded"])
        column = plgpu.Layout.WGMMA.reduce(1)
        self.diagonal = [self.read(diagonal, (self.part, gate), column) for gate in range(3)]

    def copy(self, narrow: Any, wide: Any, loaded: Any) -> None:
        pairs = [(narrow, self.narrow)] + [(wide.at[gate], self.wide.at[gate]) for gate in range(3)]
        for i, (source, target) in enumerate(pairs):
            plgpu.copy_gmem_to_smem(source, target, loaded.at[4 * self.own + i])
        for i in range(len(pairs)):
            plgpu.barrier_wait(loaded.at[4 * self.own + i])

    def transposed(self, ref: Any) -> Any:
        return ref if self.plan.interpret else ref.transpose((1, 0))

    def read(self, ref: Any, index: tuple[Any, ...], layout: Any = plgpu.Layout.WGMMA) -> Array:
        """Load an array into registers, in the layout of the results of `wgmma`."""
        return ref[index] if self.plan.interpret else plgpu.load(ref.at[index], *_WHOLE, layout=layout, optimized=False)

    def zeros(self) -> Array:
        value = jnp.zeros((self.plan.rows, EXAMPLES), jnp.float32)
        return value if self.plan.interpret else plgpu.layout_cast(value, plgpu.Layout.WGMMA)

    def write(self, ref: Any, value: Array) -> None:
        """Write an operand to the shared memory that the tensor cores read."""
        ref[...] = value if self.plan.interpret else plgpu.layout_cast(_to_tf32(value), plgpu.Layout.WGMMA_TRANSPOSED)
        plgpu.commit_smem()

    def times_diagonal(self, gate: int, value: Array) -> Array:
        return lax.broadcast_in_dim(self.diagonal[gate], value.shape, (0,)) * value

    def start_shrinking(self, total: Any, gate: int, slot: int, product: int) -> None:
        """Start to multiply a vector by the narrow factor of a gate, and of gates in the same tiles."""
        first = gate * self.plan.rank
        plgpu.wgmma(total, self.narrow.at[first : first + self.narrowed[product].shape[0]], self.vectors[slot])

    def end_shrinking(self, total: Any, product: int, in_flight: int = 0) -> Any:
        """Sum over the parts what `start_shrinking` computes, and return the operand that holds it."""
        self.write(self.narrowed[product], self.sum_over_parts(_result(total, in_flight), product))
        return self.narrowed[product]

    def sum_over_parts(self, summand: Array, product: int) -> Array:
        """Send this block's summand to all blocks, and sum theirs. A block overwrites a summand only once it has this block's next one."""
        if self.plan.parts == 1:
            return summand
        received, arrived = self.partial[product], self.arrived.at[product]
        if self.plan.interpret:
            received[self.part] = summand
            plgpu.barrier_arrive(arrived)
        else:
            for peer in range(self.plan.parts):
                plgpu.async_store_smem(summand, received.at[self.part], arrived, cluster_idx=jnp.int32(peer), cluster_dim="part")
        plgpu.barrier_wait(arrived)
        summands = [self.read(received, (part,)) for part in range(self.plan.parts)]
        return sum(summands[1:], summands[0])

    def start_widening(self, total: Any, gate: int, vector: Any) -> None:
        """Start to add the product of a gate's wide factor with a vector of d components."""
        plgpu.wgmma(total, self.wide.at[gate], vector)

    def accumulators(self, body: Any, products: Sequence[int], wide: int) -> Any:
        """Call `body` with the totals of the narrow products and of `wide` products of n components, which start at zero."""
        rows = (*products, *(self.plan.rows for _ in range(wide)))
        return pl.run_scoped(body, *(plgpu.WGMMAAccumulatorRef((n, EXAMPLES), jnp.float32) for n in rows))


def _result(total: Any, in_flight: int = 0) -> Array:
    """Wait until at most the last `in_flight` products are unfinished, and return the total of a finished one."""
    return plgpu.wgmma_accumulator_load(total, wait_n=in_flight)


def _to_tf32(a: Array) -> Array:
    """Add half of the 13 bits that the tensor cores drop: they round to the nearest number then, and the error is half as large."""
    half = lax.bitcast_convert_type(lax.bitcast_convert_type(a, jnp.int32) + 0x1000, jnp.float32)
    return jnp.where(a == a, half, a)  # NaN stays NaN


def _sigmoid(a: Array) -> Array:
    return 1 / (1 + jnp.exp(-a))


def _tanh(a: Array) -> Array:
    return 1 - 2 / (1 + jnp.exp(2 * a))


def _forward(
    plan: KernelPlan, steps: int, inputs: Any, start: Any, narrow: Any, wide: Any, diagonal: Any, states: Any, **scratch: Any
) -> None:
    block = _Block(plan, narrow, wide, diagonal, scratch)
    here, rank = (block.tile, block.part), plan.rank

    def read(t: Any) -> tuple[Array, ...]:
        return tuple(block.read(inputs, (t, *here, gate)) for gate in range(3))

    def compute(h: Array, x: tuple[Array, ...], pair_total: Any, last_total: Any, of_u: Any, of_r: Any, of_m: Any) -> Array:
        block.write(block.vectors[0], h)
        block.start_shrinking(pair_total, UPDATE, 0, 0)
        pair = block.end_shrinking(pair_total, 0)
        block.start_widening(of_r, RESET, pair.at[rank : 2 * rank])
        block.start_widening(of_u, UPDATE, pair.at[:rank])
        v = h * _sigmoid(x[RESET] + block.times_diagonal(RESET, h) + _result(of_r, in_flight=1))
        block.write(block.vectors[0], v)
        block.start_shrinking(last_total, CANDIDATE, 0, 1)
        u = _sigmoid(x[UPDATE] + block.times_diagonal(UPDATE, h) + _result(of_u, in_flight=1))
        last = block.end_shrinking(last_total, 1)
        block.start_widening(of_m, CANDIDATE, last.at[:rank])
        m = _tanh(x[CANDIDATE] + block.times_diagonal(CANDIDATE, v) + _result(of_m))
        return (1 - u) * m + u * h

    def step(t: Any, carry: PyTree) -> Any:
        h, x = carry
        following = read(jnp.minimum(t + 1, steps - 1))  # loads while this step computes
        h = block.accumulators(partial(compute, h, x), (plan.pair_rows, ROWS), wide=3)
        states[(t, *here)] = h
        return h, following

    lax.fori_loop(0, steps, step, (block.read(start, here), read(0)))


def _backward(
    plan: KernelPlan, steps: int, streams: Any, narrow: Any, wide: Any, diagonal: Any, d_inputs: Any, d_start: Any, **scratch: Any
) -> None:
    block = _Block(plan, narrow, wide, diagonal, scratch)
    here, rank = (block.tile, block.part), plan.rank

    def read(t: Any) -> tuple[Array, ...]:
        return tuple(block.read(streams, (t, *here, stream)) for stream in range(5))

    def compute(t: Any, d_h: Array, saved: tuple[Array, ...], of_m: Any, of_u: Any, of_r: Any, v_total: Any, h_total: Any) -> Array:
        h, u, r, m, _ = saved
        d_m = d_h * (1 - u) * (1 - m * m)
        block.write(block.vectors[0], d_m)
        block.start_shrinking(of_m, CANDIDATE, 0, 0)
        d_u = d_h * (h - m) * u * (1 - u)
        block.write(block.vectors[1], d_u)
        narrow_m = block.end_shrinking(of_m, 0)
        block.start_widening(v_total, CANDIDATE, narrow_m.at[:rank])
        block.start_shrinking(of_u, UPDATE, 1, 1)
        d_inputs[(t, *here, UPDATE)] = d_u
        d_inputs[(t, *here, CANDIDATE)] = d_m
        d_v = block.times_diagonal(CANDIDATE, d_m) + _result(v_total, in_flight=1)
        d_r = d_v * h * r * (1 - r)
        block.write(block.vectors[0], d_r)
        block.start_shrinking(of_r, RESET, 0, 2)
        d_inputs[(t, *here, RESET)] = d_r
        narrow_u = block.end_shrinking(of_u, 1, in_flight=1)
        block.start_widening(h_total, UPDATE, narrow_u.at[:rank])
        d_h = d_h * u + d_v * r + block.times_diagonal(UPDATE, d_u) + block.times_diagonal(RESET, d_r)
        narrow_r = block.end_shrinking(of_r, 2, in_flight=1)
        block.start_widening(h_total, RESET, narrow_r.at[:rank])
        return d_h + _result(h_total)

    def step(i: Any, carry: PyTree) -> Any:
        d_h, saved = carry
        t = steps - 1 - i
        following = read(jnp.maximum(t - 1, 0))
        d_h = block.accumulators(partial(compute, t, d_h + saved[4], saved), (ROWS,) * 3, wide=2)
        return d_h, following

    d_h, _ = lax.fori_loop(0, steps, step, (block.zeros(), read(steps - 1)))
    d_start[here] = d_h
