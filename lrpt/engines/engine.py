"""What an engine does, and how a command line chooses one."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from lrpt.engines.jobs import Unit
from lrpt.engines.worker import Outcome
from lrpt.errors import UsageError, check_at_least

Handle = Any
"""Names what was submitted; hashable."""


class Engine(Protocol):
    """Processes on one machine or on many. It knows nothing of what they compute."""

    slots: int
    """units that may be submitted at once"""

    accelerators: int
    """how many there are for all units together; 0 on CPUs"""

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Return what a function returns in a process of its own, which ends then."""
        ...

    def submit(self, unit: Unit) -> Handle:
        """Train a unit in a process of its own as soon as there is room."""
        ...

    def wait(self, handles: Sequence[Handle], seconds: float) -> list[tuple[Handle, list[Outcome]]]:
        """Return those that have ended, at the latest after so many seconds."""
        ...

    def stop(self) -> None:
        """Ask everything that was submitted to write a checkpoint and end."""
        ...

    def close(self) -> None:
        """End what is still there, and let go of it."""
        ...


@dataclass(frozen=True)
class EngineOptions:
    """Which engine trains the runs, and what each of them gets."""

    engine: Literal["local", "ray"] = "local"
    """local (processes on this machine) or ray (a Ray cluster: needs the extra 'cluster')"""
    address: str | None = None
    """ray: HOST:PORT of the cluster (None: that of RAY_ADDRESS, or a cluster on this machine alone)"""
    processes: int | None = None
    """local: runs trained at a time (None: one for each accelerator, or for each core)"""
    cpus: float = 1.0
    """ray: cores that each run reserves"""
    gpus: float = 0.0
    """ray: accelerators that each run reserves; a fraction shares one"""
    hosts: int = 1
    """ray: processes that share each run, as with --distributed; where one is lost all start again from the last checkpoint"""
    stack: int | None = None
    """runs of one program that one process trains side by side (None: 1 on CPUs, an equal share of the runs on each accelerator)"""
    tries: int = 3
    """how often in a row a run's process may die without a new checkpoint before the run counts as failed; lost nodes do not count"""

    def __post_init__(self) -> None:
        check_at_least(1, self, "processes", "hosts", "stack", "tries")
        check_at_least(0, self, "cpus", "gpus")
        if self.engine == "local" and (self.address is not None or self.hosts > 1):
            flag = "address" if self.address is not None else "hosts"
            raise UsageError(f"{flag} is {getattr(self, flag)}, and the engine is local: add --engine ray, or leave --{flag} out")
        if self.hosts > 1 and (self.stack or 1) > 1:
            raise UsageError(f"stack is {self.stack}, and {self.hosts} hosts share each run: choose one of the two")
