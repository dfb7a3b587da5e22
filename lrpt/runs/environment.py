"""Environment of a run: versions, hardware, commit, to explain its numbers later."""

import os
import platform
import subprocess
import sys
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import jax

from lrpt.devices.hardware import describe_devices

_command = " ".join(["python", *sys.orig_argv[1:]])

PACKAGES = ("jax", "jaxlib", "flax", "optax", "orbax-checkpoint", "numpy", "tensorflow-datasets", "lrpt")


USER_CODE = "user_code"
"""The field of `environment.json` with the SHA-256 of each file with which a module of the user's took part in the run, in order."""


def environment(user_code: Mapping[str, list[str]] | None = None) -> dict[str, Any]:
    """Return the content of `environment.json`."""
    return {
        "python": platform.python_version(),
        "versions": {name: version(name) for name in PACKAGES},
        "platform": platform.platform(),
        "processor": processor(),
        "cpus": os.cpu_count(),
        **describe_devices(),
        "matmul_precision": jax.default_matmul_precision.value,  # None: what the device does by default
        "command": command(),
        **_commit(),
        **({USER_CODE: user_code} if user_code else {}),
    }


def command() -> str:
    """Return the command line of this program, or of the one that `record_command` names."""
    return _command


def record_command(program: str) -> None:
    """Record in this process the command line of another program, which has started this process for its runs."""
    global _command
    _command = program


def version(package: str) -> str | None:
    """Return the version of an installed package, or None if it is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def processor() -> str:
    """Return the processor's name from Linux, or from Python on other systems."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _commit() -> dict[str, Any]:
    """Return the commit of the running code and whether its tree has changes; None for both outside a checkout.

    An installation in a virtual environment may lie inside a repository of the user, whose commit says nothing about this code.
    """
    own = Path(__file__)

    def git(*arguments: str) -> str | None:
        try:
            run = subprocess.run(["git", *arguments], cwd=own.parent, capture_output=True, text=True, timeout=10)
        except (OSError, subprocess.SubprocessError):
            return None
        return run.stdout.strip() if run.returncode == 0 else None

    if git("ls-files", "--error-unmatch", own.name) is None:
        return {"commit": None, "dirty": None}
    commit, changes = git("rev-parse", "HEAD"), git("status", "--porcelain", "--untracked-files=no")
    return {"commit": commit, "dirty": None if changes is None else bool(changes)}
