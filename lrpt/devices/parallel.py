"""The one file that knows of devices.

Two ways to use several, by `pmap` in both: the batch of one model is split over all devices and gradients are averaged, or every device
trains models of its own, and nothing is exchanged: one on a host device of a CPU, on an accelerator as many as are needed, by `vmap`.
One device is the same code, and so are the devices of several processes, over which only the batch of one model is split: each process
hands its own rows to its own devices.
"""

import contextlib
import gc
import importlib.util
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lrpt.devices import processes
from lrpt.errors import UsageError
from lrpt.recurrence import KERNEL

AXIS = "devices"


@dataclass(frozen=True)
class Layout:
    """`models` trained side by side, `stacked` of them on each device, or one model whose batches are split into `shards`.

    The shards of several `processes` stand in the order of these, equally many of each.
    """

    models: int
    shards: int
    stacked: int = 1
    processes: int = 1

    @property
    def devices(self) -> list[Any]:
        if self.processes == 1:
            return jax.local_devices()[: self.models * self.shards // self.stacked]
        return [device for i in range(self.processes) for device in jax.local_devices(i)[: self.shards // self.processes]]

    @property
    def own_shards(self) -> range:
        """Those that lie on devices of this process."""
        each = self.shards // self.processes
        first = processes.index() * each if self.processes > 1 else 0
        return range(first, first + each)


ROWS_PER_SHARD = 8
"""A batch is not split into shards of fewer rows by rule: each step would cost as much as that of a larger one."""

SHARDS = 4
"""The most host devices that share a batch by rule."""


def request_devices(wanted: int | None, models: int, batch_size: int) -> None:
    """Asks for as many devices as are useful, before JAX starts, and for the widest vectors that the CPU has.

    Accelerators are there or not; a CPU is divided into host devices: `wanted`, or by rule one for each model as far as there are cores,
    and for a single model one for each core that gets at least 8 rows of every batch, up to 4. Each of several processes has devices of
    its own.
    """
    _prefer_wide_vectors()
    count = wanted or (min(models, cores()) if models > 1 else _useful_shards(batch_size))
    with contextlib.suppress(RuntimeError):  # JAX runs already, in a notebook or a test: take what is there
        jax.config.update("jax_num_cpu_devices", count)


def _platform() -> str:
    """'cpu', 'gpu' or 'tpu'."""
    return jax.default_backend()


def on_cpu() -> bool:
    """Whether there is no accelerator."""
    return _platform() == "cpu"


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def visible_accelerators() -> list[str]:
    """Return the names of NVIDIA GPUs as CUDA_VISIBLE_DEVICES has them, without starting JAX, which would take their memory."""
    platforms = os.environ.get("JAX_PLATFORMS", "")
    if (platforms and not {"cuda", "gpu"} & set(platforms.split(","))) or not _has_cuda():
        return []
    asked = os.environ.get("CUDA_VISIBLE_DEVICES")
    if asked is not None:
        return [name for name in asked.split(",") if name]
    numbers = (path.name.removeprefix("nvidia") for path in Path("/dev").glob("nvidia*"))
    return sorted(filter(str.isdigit, numbers), key=int)


def _has_cuda() -> bool:
    return any(importlib.util.find_spec(name) for name in ("jax_cuda12_plugin", "jax_cuda13_plugin"))


def _useful_shards(batch_size: int) -> int:
    return max(n for n in range(1, min(cores(), SHARDS) + 1) if n == 1 or (batch_size % n == 0 and batch_size // n >= ROWS_PER_SHARD))


def _prefer_wide_vectors() -> None:
    """XLA uses half the width of AVX-512 unless told otherwise, which costs small networks a tenth. What the user has set stays."""
    flag = "--xla_cpu_prefer_vector_width"
    if flag not in os.environ.get("XLA_FLAGS", ""):
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {flag}=512".strip()


def layout(models: int, batch_size: int, wanted: int | None = None) -> Layout:
    """How to train that many models: side by side where there are several, else one with its batch split over all devices.

    Raises:
      UsageError: more devices wanted than there are, or a batch that they do not divide.
    """
    found = jax.local_device_count()
    if wanted is not None and not 1 <= wanted <= found:
        raise UsageError(f"devices is {wanted}, and {found} {_platform()} device(s) were found: choose 1 to {found}")
    count = wanted or found
    if processes.count() > 1:
        return _layout_of_processes(models, batch_size, count, wanted is not None)
    if models > 1 and on_cpu():
        return Layout(min(models, count), 1)
    if models > 1:
        used = min(models, count)
        stacked = -(-models // used)
        return Layout(used * stacked, 1, stacked)
    if batch_size % count and wanted is None:
        return Layout(1, 1)
    check_devices(count, batch_size)
    return Layout(1, count)


def _layout_of_processes(models: int, batch_size: int, count: int, exactly: bool) -> Layout:
    """As many devices of each process as divide a batch, at most `count`; or `exactly` so many."""
    several = processes.count()
    if models > 1:
        raise UsageError(f"{models} models train side by side, and {several} processes share one: train one seed at a time")
    fitting = [n for n in range(count, 0, -1) if batch_size % (n * several) == 0]
    if not fitting or (exactly and fitting[0] != count):
        raise UsageError(
            f"train.batch_size is {batch_size}, which {several} processes with {count if exactly else 1} device(s) each do not divide: "
            f"choose another --train.batch-size or --devices"
        )
    return Layout(1, fitting[0] * several, 1, several)


def check_devices(count: int, batch_size: int) -> None:
    """Raises a UsageError unless so many devices can share a batch."""
    if batch_size % count:
        raise UsageError(
            f"devices is {count}, which does not divide train.batch_size, {batch_size}: choose another --devices or --train.batch-size"
        )


def check_gpu() -> None:
    """Raises a UsageError unless the devices can run the kernel."""
    if _platform() != "gpu":
        raise UsageError(f"model.loop.kind is {KERNEL}, which needs an NVIDIA GPU, and JAX runs on {_platform()}: choose fast")


def average(layout: Layout) -> Callable[[Any], Any]:
    """The mean over the devices that share a batch."""
    if layout.shards == 1:
        return lambda tree: tree
    return lambda tree: jax.lax.pmean(tree, AXIS)


def axis_of_batch(layout: Layout) -> str | None:
    """The mapped axis over which a batch is spread, if it is."""
    return AXIS if layout.shards > 1 else None


def sharers(layout: Layout) -> int:
    """Return how many devices run at the same time and share the cache of a CPU: all devices of a process. Accelerators share none."""
    return len(layout.devices) // layout.processes if on_cpu() else 1


def own_key(layout: Layout) -> Callable[[jax.Array], jax.Array]:
    """Makes of one key another for each device that shares a batch. So what is dropped depends on the number of devices."""
    if layout.shards == 1:
        return lambda key: key
    return lambda key: jax.random.fold_in(key, jax.lax.axis_index(AXIS))


def total(layout: Layout) -> Callable[[Any], Any]:
    """The sum over the devices that share a split under evaluation."""
    if layout.shards == 1:
        return lambda tree: tree
    return lambda tree: jax.lax.psum(tree, AXIS)


def compile_for(layout: Layout, function: Callable[..., Any], donate: tuple[int, ...] = ()) -> Callable[..., Any]:
    """`function` on every device at once; arguments and results have an axis of devices, and one of models where those are stacked."""
    if layout.stacked > 1:
        function = jax.vmap(function)
    return jax.pmap(function, axis_name=AXIS, devices=layout.devices, donate_argnums=donate)


def place(layout: Layout, trees: Sequence[Any]) -> Any:
    """One tree for each model, on the devices that train it, with a leading axis of devices."""
    return _stack(layout, [tree for tree in trees for _ in layout.own_shards])


def scatter(layout: Layout, trees: Sequence[Any]) -> Any:
    """As `place`, for one tree for each model whose leaves have the rows of a batch, of which each shard gets its own."""
    if not jax.tree.leaves(trees):
        return trees[0]
    parts = layout.own_shards
    return _stack(layout, [jax.tree.map(lambda a, i=i: np.split(np.asarray(a), layout.shards)[i], tree) for tree in trees for i in parts])


def gather(layout: Layout, tree: Any) -> list[Any]:
    """The inverse of `scatter`; every process gets all rows."""
    if layout.processes == 1 or not jax.tree.leaves(tree):
        return _unstack(layout, tree, np.concatenate)
    return [jax.tree.map(lambda a: np.concatenate(a[0]), jax.device_get(_all_shards(layout)(tree)))]


def fetch(layout: Layout, tree: Any) -> list[Any]:
    """The inverse of `place`: one tree of host arrays for each model. Waits until they are computed."""
    return _unstack(layout, tree, lambda shards: np.asarray(shards[0]))


def _stack(layout: Layout, trees: Sequence[Any]) -> Any:
    """One tree for each model, or for each shard of the one, on the devices, with a leading axis of them."""
    return _identity(layout)(jax.tree.map(lambda *leaves: _by_device(layout, jnp.stack(leaves)), *trees))


def _unstack(layout: Layout, tree: Any, join: Callable[[Any], Any]) -> list[Any]:
    """One tree of host arrays for each model, each array `join`ed from those of its shards."""
    host, own = jax.device_get(tree), len(layout.own_shards)
    if layout.stacked > 1:
        host = jax.tree.map(lambda a: a.reshape((-1, *a.shape[2:])), host)
    return [jax.tree.map(lambda a, i=i: join(a[i * own : (i + 1) * own]), host) for i in range(layout.models)]


def _by_device(layout: Layout, rows: Any) -> Any:
    """(models or shards, ...) -> (devices, ...), with an axis of stacked models between where there are several."""
    return rows if layout.stacked == 1 else rows.reshape((-1, layout.stacked, *rows.shape[1:]))


@cache
def _identity(layout: Layout) -> Callable[[Any], Any]:
    return compile_for(layout, lambda tree: tree)


@cache
def _all_shards(layout: Layout) -> Callable[[Any], Any]:
    return compile_for(layout, lambda tree: jax.lax.all_gather(tree, AXIS))


def shard_batch(layout: Layout, rows: Sequence[np.ndarray]) -> np.ndarray:
    """Indices (k, b) for each model -> (devices of this process, k, b / shards)."""
    own = slice(layout.own_shards.start, layout.own_shards.stop)
    return _by_device(layout, np.concatenate([np.stack(np.split(r, layout.shards, axis=1)[own]) for r in rows]))


def operations_per_second(cpu: bool | None = None) -> float:
    """Return what small matrix products reach, as an order of magnitude, on a CPU or an accelerator (None: what JAX uses)."""
    return 1e11 if (on_cpu() if cpu is None else cpu) else 5e12


def is_out_of_memory(error: Exception) -> bool:
    """Whether host or devices had not enough memory for something."""
    return isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in str(error)


def free_programs() -> None:
    """Drop all compiled programs: a process that trains one model after another would keep those of all."""
    jax.clear_caches()
    gc.collect()


def describe_devices() -> dict[str, Any]:
    """Kind and number of the devices of all processes, and how many processes there are, where there are several."""
    device = jax.local_devices()[0]
    several = {"processes": processes.count()} if processes.count() > 1 else {}
    return {"device": f"{device.platform} {device.device_kind}", "devices": jax.device_count(), **several}
