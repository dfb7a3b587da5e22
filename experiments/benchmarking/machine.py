"""What the times were taken on."""

import importlib.metadata
import os
import platform
from pathlib import Path

PACKAGES = ("jax", "jaxlib", "flax", "optax", "torch")


def describe() -> dict[str, object]:
    """Processor, cores that this process may use, and versions."""
    versions = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {"processor": _processor(), "cores": cores, "versions": versions}


def _processor() -> str:
    """The name that Linux gives it, or what Python knows."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
