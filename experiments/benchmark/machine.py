"""Description of the machine on which times are measured."""

import platform

from lrpt.devices.parallel import cores
from lrpt.runs.environment import processor, version

PACKAGES = ("jax", "jaxlib", "flax", "optax", "torch")


def describe() -> dict[str, object]:
    """Return the processor, the number of cores available to this process, and versions of packages."""
    versions = {name: found for name in PACKAGES if (found := version(name))}
    return {"processor": processor(), "cores": cores(), "versions": {"python": platform.python_version(), **versions}}
