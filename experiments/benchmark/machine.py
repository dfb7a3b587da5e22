"""What the times were taken on."""

import platform
from pathlib import Path

from lrpt.devices.parallel import cores
from lrpt.runs.environment import version

PACKAGES = ("jax", "jaxlib", "flax", "optax", "torch")


def describe() -> dict[str, object]:
    """Processor, cores that this process may use, and versions."""
    versions = {name: found for name in PACKAGES if (found := version(name))}
    return {"processor": _processor(), "cores": cores(), "versions": {"python": platform.python_version(), **versions}}


def _processor() -> str:
    """The name that Linux gives it, or what Python knows."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
