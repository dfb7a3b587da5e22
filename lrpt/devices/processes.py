"""Several processes: the same command on every host, joined by `jax.distributed`. Only this file calls `jax.distributed`.

All processes make the same calls in the same order and hold the same numbers. A file or a signal is seen by one process only;
`on_primary` and `highest` share it, so that all processes take the same decisions. Only the primary process touches the run directory.
"""

import os
import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, NoReturn, ParamSpec, TypeVar

import jax
import numpy as np
from jax.experimental import multihost_utils

from lrpt.devices.messages import decode, encode
from lrpt.errors import RemoteFailure, UsageError, check_at_least

P = ParamSpec("P")
T = TypeVar("T")

_ON_PRIMARY = ContextVar("on_primary", default=False)

BLOCK = 2**20
"""bytes in one transfer; one compiled program serves messages of any length"""


@dataclass(frozen=True)
class Distributed:
    """Addresses of the processes of one run, and the time after which a process counts as lost."""

    coordinator_address: str | None = None
    """HOST:PORT where process 0 listens; the same for all processes"""
    num_processes: int | None = None
    """number of processes"""
    process_id: int | None = None
    """number of this process, from 0 on"""
    auto: bool = False
    """let JAX detect these three values, as it can under Slurm, Open MPI and Kubernetes and on Cloud TPU"""
    heartbeat: int = 10
    """seconds without a heartbeat after which a process counts as lost and all others end"""
    wait: int = 300
    """seconds to wait for the other processes at the start"""

    def __post_init__(self) -> None:
        given = {name: getattr(self, name) for name in ("coordinator_address", "num_processes", "process_id")}
        missing = [name for name, value in given.items() if value is None]
        if not self.auto and 0 < len(missing) < 3:
            raise UsageError(f"distributed.{missing[0]} is missing: give all of {', '.join(given)}, or --distributed.auto")
        if self.coordinator_address is not None and not re.fullmatch(r"\S+:\d+", self.coordinator_address):
            raise UsageError(f"distributed.coordinator_address is {self.coordinator_address}: expected HOST:PORT, as in 10.0.0.1:1234")
        check_at_least(1, self, "distributed.num_processes", "distributed.heartbeat", "distributed.wait")
        if self.process_id is not None and not 0 <= self.process_id < (self.num_processes or 2**31):
            raise UsageError(f"distributed.process_id is {self.process_id}: expected 0 to distributed.num_processes - 1")

    @property
    def wanted(self) -> bool:
        """Return whether there are other processes to join."""
        return self.auto or self.coordinator_address is not None


SLACK = 30
"""seconds that JAX waits longer than this program"""

NOT_FOUND = "the other processes were not found ({}): check the --distributed flags of each"


def join(distributed: Distributed) -> None:
    """Join the other processes. JAX must not have started.

    Raises:
      UsageError: the processes are not found, or JAX cannot detect their addresses.
    """
    if not distributed.wanted or jax.distributed.is_initialized():
        return
    jax.config.update("jax_enable_preemption_service", False)  # it would catch SIGTERM instead of this program
    try:
        with _given_up_after(distributed.wait):
            jax.distributed.initialize(
                distributed.coordinator_address,
                distributed.num_processes,
                distributed.process_id,
                initialization_timeout=distributed.wait + SLACK,
                heartbeat_timeout_seconds=distributed.heartbeat,
                shutdown_timeout_seconds=distributed.heartbeat,
            )
    except (RuntimeError, ValueError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise UsageError(NOT_FOUND.format(reason), code=1) from error


@contextmanager
def _given_up_after(seconds: float) -> Iterator[None]:
    """End this process with one line if the others do not join in time. JAX would end it with a C++ stack trace."""

    def give_up() -> None:
        print("lrpt: error: " + NOT_FOUND.format(f"waited {seconds} s"), file=sys.stderr)
        abandon()

    timer = threading.Timer(seconds, give_up)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def leave() -> None:
    """Wait for the other processes and disconnect. JAX does this at the end of a program, but an engine may end the program earlier."""
    if jax.distributed.is_initialized():
        jax.distributed.shutdown()


def count() -> int:
    """Return the number of processes that train together: 1 without `join`, and then JAX need not have started."""
    return jax.process_count() if jax.distributed.is_initialized() else 1


def index() -> int:
    """Return the number of this process, from 0 on."""
    return jax.process_index() if jax.distributed.is_initialized() else 0


def is_primary() -> bool:
    """Return whether this process writes the run directory and the console."""
    return index() == 0


def on_primary(function: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
    """Call a function on the primary process and return its result on all. Inside the function, `on_primary` is a plain call.

        metrics = on_primary(directory.metrics)

    Raises:
      RemoteFailure: on the others, if the function raises anything on the primary process.
    """
    if count() == 1 or _ON_PRIMARY.get():
        return function(*args, **options)
    if not is_primary():
        return _received(_broadcast(None))
    inside = _ON_PRIMARY.set(True)
    try:
        found = function(*args, **options)
    except Exception as error:
        _broadcast((None, (str(error), getattr(error, "code", 1))))
        raise
    finally:
        _ON_PRIMARY.reset(inside)
    _broadcast((found, None))
    return found


def _received(message: tuple[Any, tuple[str, int] | None]) -> Any:
    found, failure = message
    if failure is not None:
        raise RemoteFailure(*failure)
    return found


def fail_together(error: Exception) -> NoReturn:
    """Raise an error on the primary process, and a RemoteFailure on the others."""

    def fail() -> NoReturn:
        raise error

    raise on_primary(fail)  # `fail` never returns


def primary_first(function: Callable[[], T]) -> T:
    """Call a function on every process, first on the primary one, and return its result on this process.

    Raises:
      RemoteFailure: on the others, if it raises anything on the primary process.
    """
    found: list[T] = []
    on_primary(lambda: found.append(function()))
    return found[0] if found else function()


def check_alike(job: Any) -> None:
    """Raise a UsageError on all processes if one has another job than the primary process: their collective calls would not match."""
    other = highest(0 if on_primary(lambda: job) == job else index())
    if other:
        on_primary(_refuse, other)


def _refuse(other: int) -> None:
    raise UsageError(f"process {other} was started with other flags than process 0: give the same command to all")


def highest(number: int) -> int:
    """Return the largest of the numbers that the processes pass."""
    return number if count() == 1 else int(np.max(multihost_utils.process_allgather(np.int32(number))))


def has_lost_another(error: Exception) -> bool:
    """Return whether an exchange with the other processes failed.

    The loss of another process does not always raise an error: JAX may end this process instead.
    """
    return count() > 1 and any(word in str(error) for word in ("Gloo", "NCCL", "peer", "heartbeat"))


def abandon() -> NoReturn:
    """End this process at once, with status 1. A regular exit would wait for the other processes, one of which may be lost."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(1)


def _broadcast(message: Any) -> Any:
    """Return the message of the primary process on all processes."""
    sent = np.frombuffer(encode(message), np.uint8)
    blocks = -(-len(sent) // BLOCK)
    blocks, length = map(int, multihost_utils.broadcast_one_to_all(np.asarray([blocks, len(sent) - (blocks - 1) * BLOCK], np.int32)))
    padded = np.zeros((blocks, BLOCK), np.uint8)
    if is_primary():
        padded.reshape(-1)[: len(sent)] = sent
    got = np.concatenate([multihost_utils.broadcast_one_to_all(block) for block in padded])
    return message if is_primary() else decode(got[: (blocks - 1) * BLOCK + length].tobytes())
