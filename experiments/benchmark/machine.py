"""Description of the machine on which times are measured."""

import platform
from pathlib import Path

from lrpt.devices.parallel import cores
from lrpt.runs.environment import version

PACKAGES = ("jax", "jaxlib", "flax", "optax", "torch")


def describe() -> dict[str, object]:
    """Return the processor, the number of cores available to this process, and versions of packages."""
    versions = {name: found for name in PACKAGES if (found := version(name))}
    return {"processor": _processor(), "cores": cores(), "versions": {"python": platform.python_version(), **versions}}


def _processor() -> str:
    """Return the processor's name from Linux, or from Python on other systems."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
