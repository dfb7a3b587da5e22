"""Compiled programs: kept on disk, so that a command that ran before on this machine starts without compiling, and dropped from memory."""

import contextlib
import gc
import hashlib
import os
import platform
from pathlib import Path
from typing import Any

import jax

from lrpt.files import cache_folder

JAX: Any = jax.config  # its attributes are made as options are defined

LARGEST = 2**31
"""Bytes of the programs that are kept; those that were not used for longest are dropped first."""

SECONDS = 0.1
"""Compilation time from which on a program is kept."""

QUIET = (0, 10, 2)
"""First version of JAX that loads kept programs for CPUs without printing errors about features of the processor."""


def keep_programs() -> Path | None:
    """Let JAX keep compiled programs in `folder()`, and return it. Call it before the first compilation.

    If JAX_COMPILATION_CACHE_DIR names another folder, that one is used as JAX uses it. Nothing is kept if the folder cannot be written, if
    JAX_ENABLE_COMPILATION_CACHE is false, or with a version of JAX before 0.10.2. Then None is returned.
    """
    if JAX.jax_compilation_cache_dir or not JAX.jax_enable_compilation_cache or jax.__version_info__ < QUIET:
        return None
    path = folder()
    with contextlib.suppress(OSError):
        path.mkdir(parents=True, exist_ok=True)
    if not os.access(path, os.W_OK):
        return None
    jax.config.update("jax_compilation_cache_dir", str(path))
    jax.config.update("jax_compilation_cache_max_size", LARGEST)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", SECONDS)
    return path


def folder() -> Path:
    """Return $XDG_CACHE_HOME/lrpt/programs or ~/.cache/lrpt/programs, and in it a folder for this kind of processor.

    Homes may be shared by machines, and a program for one processor may crash on another.
    """
    return cache_folder() / "programs" / hashlib.sha256(_processor().encode()).hexdigest()[:16]


def _processor() -> str:
    """Return the instruction sets of the processor from Linux, or Python's description of it on other systems."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.lower().startswith(("flags", "features")):
                return line
    return f"{platform.machine()} {platform.processor()} {platform.version()}"


def free_programs() -> None:
    """Drop all compiled programs, so that a process that trains many models does not keep the programs of all."""
    jax.clear_caches()
    gc.collect()
