"""Description of the machine on which times are measured."""

import platform
import subprocess

from lrpt.devices.hardware import cores, visible_accelerators
from lrpt.runs.environment import processor, version

PACKAGES = ("jax", "jaxlib", "flax", "optax", "torch")


def describe() -> dict[str, object]:
    """Return the processor, the GPU if there is one, the number of cores available to this process, and versions of packages."""
    versions = {name: known for name in PACKAGES if (known := version(name))}
    found: dict[str, object] = {"processor": processor(), "cores": cores(), "versions": {"python": platform.python_version(), **versions}}
    return found | ({"gpu": _gpu()} if visible_accelerators() else {})


def _gpu() -> str:
    """Return the name of the first GPU. JAX is not started, because it would allocate memory there."""
    command = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[0]
    except (OSError, subprocess.CalledProcessError, IndexError):
        return "unknown"
