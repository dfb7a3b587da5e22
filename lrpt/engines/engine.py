"""Interface of engines, and the flags that choose one."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from lrpt.engines.jobs import Unit
from lrpt.engines.worker import Outcome
from lrpt.errors import UsageError, check_at_least, check_not_negative

Handle = Any
"""Identifier of a submitted unit; hashable."""


class Engine(Protocol):
    """Processes on one machine or on many, independent of what they compute."""

    slots: int
    """largest number of units submitted at once"""

    accelerators: int
    """number of accelerators for all units together; 0 on CPUs"""

    queues: bool
    """whether a submitted unit may wait for room"""

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function in its own process, which then ends, and return the result."""
        ...

    def submit(self, unit: Unit) -> Handle:
        """Train a unit in its own process as soon as there is room."""
        ...

    def wait(self, handles: Sequence[Handle], seconds: float) -> list[tuple[Handle, list[Outcome]]]:
        """Return the units that have ended, after at most `seconds`."""
        ...

    def stop(self) -> None:
        """Ask all submitted units to write a checkpoint and end."""
        ...

    def close(self) -> None:
        """End the remaining processes, and release all resources."""
        ...


@dataclass(frozen=True)
class EngineOptions:
    """Flags of the engine that trains the runs, and of the resources of each run."""

    engine: Literal["local", "ray"] = "local"
    """local (processes on this machine) or ray (a Ray cluster: needs the extra 'cluster')"""
    address: str | None = None
    """ray: HOST:PORT of the cluster (None: the one in RAY_ADDRESS, or a cluster on this machine only)"""
    processes: int | None = None
    """local: runs trained at a time (None: one for each accelerator, or for each core)"""
    cpus: float = 1.0
    """ray: cores that each run reserves"""
    gpus: float = 0.0
    """ray: accelerators that each run reserves; a fraction shares one"""
    hosts: int = 1
    """ray: processes that share each run, as with --distributed; if one is lost, all restart from the last checkpoint"""
    stack: int | None = None
    """runs of one program that one process trains side by side (None: 1 on CPUs, an equal share of the runs on each accelerator)"""
    tries: int = 3
    """how often in a row a run's process may die without a new checkpoint before the run counts as failed; lost nodes do not count"""

    def __post_init__(self) -> None:
        check_at_least(1, self, "processes", "hosts", "stack", "tries")
        check_not_negative(self, "cpus", "gpus")
        if self.engine == "local" and (self.address is not None or self.hosts > 1):
            flag = "address" if self.address is not None else "hosts"
            raise UsageError(f"{flag} is {getattr(self, flag)}, and the engine is local: add --engine ray, or leave --{flag} out")
        if self.hosts > 1 and (self.stack or 1) > 1:
            raise UsageError(f"stack is {self.stack}, and {self.hosts} hosts share each run: choose one of the two")
