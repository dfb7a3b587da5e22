"""Training on one or several devices. No other file splits work among them.

There are two ways to use several devices, both by `pmap`:

- The batch of one model is split over all devices, and gradients are averaged.
- Every device trains its own models, and nothing is exchanged. A CPU, which JAX can present as several devices, trains one model
  on each. An accelerator trains as many as needed, by `vmap`.

The same code runs on one device. The devices of several processes can only split the batch of one model: each process passes its
own rows to its own devices.
"""

import contextlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from lrpt.devices import hardware, processes
from lrpt.devices.compilation import keep_programs
from lrpt.errors import UsageError

AXIS = "devices"


@dataclass(frozen=True)
class Layout:
    """Assignment of models and shards to devices.

    Either `models` train side by side, `stacked` of them on each device, or one model trains with batches split into `shards`. With several
    `processes`, the shards are ordered by process, and each process has the same number of shards.
    """

    models: int
    shards: int
    stacked: int = 1
    processes: int = 1

    @property
    def devices(self) -> list[Any]:
        """Return the devices that train, of all processes."""
        if self.processes == 1:
            return jax.local_devices()[: self.models * self.shards // self.stacked]
        return [device for i in range(self.processes) for device in jax.local_devices(i)[: self.shards // self.processes]]

    @property
    def own_shards(self) -> range:
        """Return the indices of the shards on devices of this process."""
        each = self.shards // self.processes
        first = processes.index() * each if self.processes > 1 else 0
        return range(first, first + each)


ROWS_PER_SHARD = 8
"""Fewest rows of a shard by rule: a step on a smaller shard would take as long as a step on this one."""

SHARDS = 4
"""Largest number of CPU devices that share a batch by rule."""


SHARDED_WIDTH = 640
"""Largest width of dense recurrent matrices with which a batch is split by rule. Each shard reads all of a matrix at every step; one device
divides it among the cores, which is faster for wider matrices (docs/performance.md has the times)."""


def request_devices(wanted: int | None, models: int, batch_size: int, dense_width: int = 0, keep: bool = True) -> None:
    """Request the number of CPU devices that is useful, and the widest vectors of the CPU. Call it before JAX starts.

    The number of accelerators is fixed. A CPU is divided into `wanted` CPU devices. By default, several models get one device each,
    up to the number of cores. A single model gets one device for each core that has at least 8 rows of every batch, up to 4, or one
    device in all if its dense recurrent matrices are wider than 640 (`dense_width`). Each of several processes has its own devices.

    Compiled programs are kept on disk for the next process if `keep` is true (`lrpt.devices.compilation`).
    """
    if keep:
        keep_programs()
    _prefer_wide_vectors()
    count = wanted or (min(models, hardware.cores()) if models > 1 else _useful_shards(batch_size, dense_width))
    with contextlib.suppress(RuntimeError):  # JAX is already running, in a notebook or a test: use its devices
        jax.config.update("jax_num_cpu_devices", count)


def _useful_shards(batch_size: int, dense_width: int) -> int:
    if dense_width > SHARDED_WIDTH:
        return 1
    return max(
        n for n in range(1, min(hardware.cores(), SHARDS) + 1) if n == 1 or (batch_size % n == 0 and batch_size // n >= ROWS_PER_SHARD)
    )


def _prefer_wide_vectors() -> None:
    """Set the vector width of XLA to 512 bits, unless the user has set it.

    By default XLA uses half the width of AVX-512, which makes small networks a tenth slower.
    """
    flag = "--xla_cpu_prefer_vector_width"
    if flag not in os.environ.get("XLA_FLAGS", ""):
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {flag}=512".strip()


def layout(models: int, batch_size: int, wanted: int | None = None) -> Layout:
    """Return the layout of several models, which train side by side, or of one model whose batch is split over as many devices as fit.

    Raises:
      UsageError: `wanted` exceeds the number of devices, or does not divide the batch.
    """
    found = jax.local_device_count()
    if wanted is not None and not 1 <= wanted <= found:
        raise UsageError(f"devices is {wanted}, and {found} {hardware.platform()} device(s) were found: choose 1 to {found}")
    count = wanted or found
    if processes.count() > 1:
        return _layout_of_processes(models, batch_size, count, wanted is not None)
    if models > 1 and hardware.on_cpu():
        return Layout(min(models, count), 1)
    if models > 1:
        used = min(models, count)
        stacked = -(-models // used)
        return Layout(used * stacked, 1, stacked)
    if wanted is None and hardware.on_cpu() and batch_size % count:
        return Layout(1, 1)
    if wanted is None:
        count = _fitting(count, batch_size)[0]
    check_devices(count, batch_size)
    return Layout(1, count)


def _layout_of_processes(models: int, batch_size: int, count: int, exactly: bool) -> Layout:
    """Return a layout with at most `count` devices of each process, as many as divide the batch; with exactly `count` if `exactly`."""
    several = processes.count()
    if models > 1:
        raise UsageError(f"{models} models train side by side, and {several} processes share one: train one seed at a time")
    fitting = _fitting(count, batch_size, several)
    if not fitting or (exactly and fitting[0] != count):
        raise UsageError(
            f"train.batch_size is {batch_size}, which {several} processes with {count if exactly else 1} device(s) each do not divide: "
            f"choose another --train.batch-size or --devices"
        )
    return Layout(1, fitting[0] * several, 1, several)


def _fitting(count: int, batch_size: int, several: int = 1) -> list[int]:
    """Return the numbers of devices, at most `count` of each of `several` processes, that divide a batch; the largest first."""
    return [n for n in range(count, 0, -1) if batch_size % (n * several) == 0]


def check_devices(count: int, batch_size: int) -> None:
    """Raise a UsageError unless `count` devices can share a batch."""
    if batch_size % count:
        raise UsageError(
            f"devices is {count}, which does not divide train.batch_size, {batch_size}: choose another --devices or --train.batch-size"
        )


def average(layout: Layout) -> Callable[[Any], Any]:
    """Return a function that computes the mean over the devices that share a batch. Integers, such as counters, stay as they are."""
    if layout.shards == 1:
        return lambda tree: tree

    def mean(leaf: jax.Array) -> jax.Array:
        return jax.lax.pmean(leaf, AXIS) if jnp.issubdtype(leaf.dtype, jnp.inexact) else leaf

    return lambda tree: jax.tree.map(mean, tree)


def axis_of_batch(layout: Layout) -> str | None:
    """Return the mapped axis over which a batch is split, or None if it is not split."""
    return AXIS if layout.shards > 1 else None


def own_key(layout: Layout) -> Callable[[jax.Array], jax.Array]:
    """Return a function that folds the device index into a PRNG key. Dropout masks therefore depend on the number of devices."""
    if layout.shards == 1:
        return lambda key: key
    return lambda key: jax.random.fold_in(key, jax.lax.axis_index(AXIS))


def total(layout: Layout) -> Callable[[Any], Any]:
    """Return a function that computes the sum over the devices that share a split in evaluation."""
    if layout.shards == 1:
        return lambda tree: tree
    return lambda tree: jax.lax.psum(tree, AXIS)


def compile_for(layout: Layout, function: Callable[..., Any], donate: tuple[int, ...] = ()) -> Callable[..., Any]:
    """Compile `function` for all devices. Arguments and results have a leading axis of devices, and one of models if these are stacked."""
    if layout.stacked > 1:
        function = jax.vmap(function)
    return jax.pmap(function, axis_name=AXIS, devices=layout.devices, donate_argnums=donate)


def place(layout: Layout, trees: Sequence[Any]) -> PyTree:
    """Copy one tree for each model to the devices that train the model. The result has a leading axis of devices."""
    return _stack(layout, [tree for tree in trees for _ in layout.own_shards])


def scatter(layout: Layout, trees: Sequence[Any]) -> PyTree:
    """Copy one tree of batch rows for each model to the devices, as `place` does. Each shard gets its own rows."""
    if not jax.tree.leaves(trees):
        return trees[0]
    parts = layout.own_shards
    return _stack(layout, [jax.tree.map(lambda a, i=i: np.split(np.asarray(a), layout.shards)[i], tree) for tree in trees for i in parts])


def gather(layout: Layout, tree: PyTree) -> list[Any]:
    """Return the trees that `scatter` split, as host arrays. Every process gets all rows."""
    if layout.processes == 1 or not jax.tree.leaves(tree):
        return _unstack(layout, tree, np.concatenate)
    return [jax.tree.map(lambda a: np.concatenate(a[0]), jax.device_get(_all_shards(layout)(tree)))]


def fetch(layout: Layout, tree: PyTree) -> list[Any]:
    """Return one tree of host arrays for each model, the inverse of `place`. Wait until the arrays are computed."""
    return _unstack(layout, tree, lambda shards: np.asarray(shards[0]))


def _stack(layout: Layout, trees: Sequence[Any]) -> PyTree:
    """Stack one tree for each model or shard, and copy them to the devices, with a leading axis of devices.

    Arrays are stacked on the host. Stacking on a device would compile two small programs for each shape, which takes a second in all.
    """
    return _identity(layout)(jax.tree.map(lambda *leaves: _by_device(layout, _stacked(leaves)), *trees))


def _stacked(leaves: Sequence[Any]) -> PyTree:
    """Stack arrays on the host. PRNG keys have no form there and stay on their device."""
    if isinstance(leaves[0], jax.Array) and jnp.issubdtype(leaves[0].dtype, jax.dtypes.extended):
        return jnp.stack(leaves)
    return np.stack(jax.device_get(leaves))


def _unstack(layout: Layout, tree: PyTree, join: Callable[[Any], Any]) -> list[Any]:
    """Return one tree of host arrays for each model. `join` combines the arrays of its shards."""
    host, own = jax.device_get(tree), len(layout.own_shards)
    if layout.stacked > 1:
        host = jax.tree.map(lambda a: a.reshape((-1, *a.shape[2:])), host)
    return [jax.tree.map(lambda a, i=i: join(a[i * own : (i + 1) * own]), host) for i in range(layout.models)]


def _by_device(layout: Layout, rows: Any) -> PyTree:
    """Reshape (models or shards, ...) to (devices, ...), or to (devices, stacked, ...) if models are stacked."""
    return rows if layout.stacked == 1 else rows.reshape((-1, layout.stacked, *rows.shape[1:]))


@cache
def _identity(layout: Layout) -> Callable[[Any], Any]:
    return compile_for(layout, lambda tree: tree)


@cache
def _all_shards(layout: Layout) -> Callable[[Any], Any]:
    return compile_for(layout, lambda tree: jax.lax.all_gather(tree, AXIS))


def shard_batch(layout: Layout, rows: Sequence[np.ndarray]) -> np.ndarray:
    """Split indices (k, b) of each model into an array (devices of this process, k, b / shards)."""
    own = slice(layout.own_shards.start, layout.own_shards.stop)
    return _by_device(layout, np.concatenate([np.stack(np.split(r, layout.shards, axis=1)[own]) for r in rows]))
