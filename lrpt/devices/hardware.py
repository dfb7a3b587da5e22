"""Cores and accelerators of this machine, their speed and their memory."""

import importlib.util
import os
from itertools import takewhile
from pathlib import Path
from typing import Any

import jax

from lrpt.devices import processes
from lrpt.errors import UsageError


def platform() -> str:
    """Return 'cpu', 'gpu' or 'tpu'."""
    return jax.default_backend()


def on_cpu() -> bool:
    """Return whether there is no accelerator."""
    return platform() == "cpu"


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def bind_to_one_core() -> None:
    """Bind this process and the processes that it starts to one core, on systems that can."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def visible_accelerators() -> list[str]:
    """Return the names of NVIDIA GPUs as in CUDA_VISIBLE_DEVICES, of which CUDA reads the names before the first invalid one, such as -1.

    JAX is not started, because it would allocate their memory.
    """
    platforms = os.environ.get("JAX_PLATFORMS", "")
    if (platforms and not {"cuda", "gpu"} & set(platforms.split(","))) or not _has_cuda():
        return []
    asked = os.environ.get("CUDA_VISIBLE_DEVICES")
    if asked is not None:
        names = (name.strip() for name in asked.split(","))
        return list(takewhile(lambda name: name.isdigit() or name.startswith(("GPU-", "MIG-")), names))
    numbers = (path.name.removeprefix("nvidia") for path in Path("/dev").glob("nvidia*"))
    return sorted(filter(str.isdigit, numbers), key=int)


def _has_cuda() -> bool:
    return any(importlib.util.find_spec(name) for name in ("jax_cuda12_plugin", "jax_cuda13_plugin"))


def on_hopper() -> bool:
    """Return whether the devices are NVIDIA GPUs of compute capability 9.0, for which the kernel is written."""
    return str(getattr(jax.local_devices()[0], "compute_capability", "")) == "9.0"


def check_gpu() -> None:
    """Raise a UsageError unless the devices can run the kernel for loops (`model.loop.kind`)."""
    if not on_hopper():
        found = jax.local_devices()[0].device_kind
        raise UsageError(
            f"model.loop.kind is kernel, which needs an NVIDIA GPU of compute capability 9.0, and this is {found}: choose fast"
        )


def operations_per_second(cpu: bool | None = None) -> float:
    """Return the operations per second of small matrix products, as an order of magnitude, on a CPU or not (None: what JAX uses)."""
    return 1e11 if (on_cpu() if cpu is None else cpu) else 5e12


def is_out_of_memory(error: Exception) -> bool:
    """Return whether an error says that the memory of the host or of a device was too small."""
    return isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in str(error)


def describe_devices() -> dict[str, Any]:
    """Return the kind and number of devices of all processes, and the number of processes if there are several."""
    device = jax.local_devices()[0]
    several = {"processes": processes.count()} if processes.count() > 1 else {}
    return {"device": f"{device.platform} {device.device_kind}", "devices": jax.device_count(), **several}
