"""The one file that knows of devices.

Two ways to use several, by `pmap` in both: the batch of one model is split over all devices and gradients are averaged, or every device
trains a model of its own, and nothing is exchanged. One device is the same code.
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

from lrpt.errors import UsageError

AXIS = "devices"


@dataclass(frozen=True)
class Layout:
    """`models` trained side by side, or one model whose batches are split into `shards`; the other number is 1."""

    models: int
    shards: int

    @property
    def devices(self) -> list[Any]:
        return jax.local_devices()[: self.models * self.shards]


def request_devices(wanted: int | None, models: int) -> None:
    """Asks for as many devices as are useful, before JAX starts.

    Accelerators are there or not; a CPU is divided into host devices: `wanted`, or one for each model as far as there are cores.
    """
    count = wanted or min(models, os.cpu_count() or 1)
    with contextlib.suppress(RuntimeError):  # JAX runs already, in a notebook or a test: take what is there
        jax.config.update("jax_num_cpu_devices", count)


def layout(models: int, batch_size: int, wanted: int | None = None) -> Layout:
    """How to train that many models: side by side where there are several, else one with its batch split over all devices.

    Raises:
      UsageError: more devices wanted than there are, or a batch that they do not divide.
    """
    found = jax.local_device_count()
    if wanted is not None and not 1 <= wanted <= found:
        raise UsageError(f"devices is {wanted}, and {found} {jax.default_backend()} device(s) were found: choose 1 to {found}")
    count = wanted or found
    if models > 1:
        return Layout(min(models, count), 1)
    if batch_size % count and wanted is None:
        return Layout(1, 1)
    check_devices(count, batch_size)
    return Layout(1, count)


def check_devices(count: int, batch_size: int) -> None:
    """Raises a UsageError unless so many devices can share a batch."""
    if batch_size % count:
        raise UsageError(
            f"devices is {count}, which does not divide train.batch_size, {batch_size}: choose another --devices or --train.batch-size"
        )


def average(layout: Layout) -> Callable[[Any], Any]:
    """The mean over the devices that share a batch."""
    if layout.shards == 1:
        return lambda tree: tree
    return lambda tree: jax.lax.pmean(tree, AXIS)


def total(layout: Layout) -> Callable[[Any], Any]:
    """The sum over the devices that share a split under evaluation."""
    if layout.shards == 1:
        return lambda tree: tree
    return lambda tree: jax.lax.psum(tree, AXIS)


def compile_for(layout: Layout, function: Callable[..., Any], donate: tuple[int, ...] = ()) -> Callable[..., Any]:
    """`function` on every device at once; each argument and result has a leading axis of devices."""
    return jax.pmap(function, axis_name=AXIS, devices=layout.devices, donate_argnums=donate)


def place(layout: Layout, trees: Sequence[Any]) -> Any:
    """One tree for each model, on the devices that train it, with a leading axis of devices."""
    rows = [tree for tree in trees for _ in range(layout.shards)]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *rows)
    return _identity(layout)(stacked)


@cache
def _identity(layout: Layout) -> Callable[[Any], Any]:
    return compile_for(layout, lambda tree: tree)


def fetch(layout: Layout, tree: Any) -> list[Any]:
    """The inverse of `place`: one tree of host arrays for each model. Waits until they are computed."""
    host = jax.device_get(tree)
    return [jax.tree.map(lambda a, i=i: np.asarray(a[i * layout.shards]), host) for i in range(layout.models)]


def deal(layout: Layout, rows: Sequence[np.ndarray]) -> np.ndarray:
    """Indices (k, b) for each model -> (devices, k, b / shards)."""
    return np.concatenate([np.stack(np.split(r, layout.shards, axis=1)) for r in rows])


def is_out_of_memory(error: Exception) -> bool:
    """Whether host or devices had not enough memory for something."""
    return isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in str(error)


def describe_devices() -> dict[str, Any]:
    """Kind and number of the devices of this process."""
    device = jax.local_devices()[0]
    return {"device": f"{device.platform} {device.device_kind}", "devices": jax.local_device_count()}
