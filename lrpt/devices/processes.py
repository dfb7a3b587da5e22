"""The one file that knows of processes: the same command on every host, joined by `jax.distributed`.

All processes make the same calls in the same order and hold the same numbers. What only one of them can see, a file or a signal, becomes
known to all by `on_primary` and `highest`, so that all decide alike. The primary process alone touches the run directory.
"""

import os
import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn, TypeVar, cast

import jax
import numpy as np
from jax.experimental import multihost_utils

from lrpt.devices.messages import decode, encode
from lrpt.errors import RemoteFailure, UsageError, check_at_least

T = TypeVar("T")

_ON_PRIMARY = ContextVar("on_primary", default=False)

BLOCK = 2**20
"""bytes that are sent at once; one program serves messages of any length"""


@dataclass(frozen=True)
class Distributed:
    """How the processes of one run find each other, and when one counts as lost."""

    coordinator_address: str | None = None
    """HOST:PORT where process 0 listens; the same for all processes"""
    num_processes: int | None = None
    """how many there are"""
    process_id: int | None = None
    """which one this is, from 0 on"""
    auto: bool = False
    """let JAX find these three out, as it can under Slurm, Open MPI and Kubernetes and on Cloud TPU"""
    heartbeat: int = 10
    """seconds of silence after which a process counts as lost, and all others end"""
    wait: int = 300
    """seconds to wait for the others at the start"""

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
        """Whether there is anybody to be joined."""
        return self.auto or self.coordinator_address is not None


SLACK = 30
"""seconds that JAX is given beyond the time that we wait"""

NOT_FOUND = "the other processes were not found ({}): check the --distributed flags of each"


def join(distributed: Distributed) -> None:
    """Joins the other processes. JAX must not have started.

    Raises:
      UsageError: they are not found, or JAX cannot tell where they are.
    """
    if not distributed.wanted or jax.distributed.is_initialized():
        return
    jax.config.update("jax_enable_preemption_service", False)  # it would take SIGTERM from us and tell only those who ask it
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
    """Ends this process with a line where the others are not there in time: JAX would end it with a stack of C++."""

    def give_up() -> None:
        print("lrpt: error: " + NOT_FOUND.format(f"waited {seconds} s"), file=sys.stderr)
        abandon(1)

    timer = threading.Timer(seconds, give_up)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def leave() -> None:
    """Wait for the others and part from them; JAX does so at the end of a program, which an engine may cut short."""
    if jax.distributed.is_initialized():
        jax.distributed.shutdown()


def count() -> int:
    """How many processes train together; 1 without `join`, and then JAX need not have started."""
    return jax.process_count() if jax.distributed.is_initialized() else 1


def index() -> int:
    """Which of them this is, from 0 on."""
    return jax.process_index() if jax.distributed.is_initialized() else 0


def is_primary() -> bool:
    """Return whether this process writes the run directory and the console."""
    return index() == 0


def on_primary(function: Callable[[], T]) -> T:
    """Call a function on the primary process and return its result on all. Inside the function, `on_primary` is a plain call.

    Raises:
      RemoteFailure: on the others, if the function raises anything on the primary process.
    """
    if count() == 1 or _ON_PRIMARY.get():
        return function()
    if not is_primary():
        return _received(_broadcast(None))
    inside = _ON_PRIMARY.set(True)
    try:
        found = function()
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


def primary_only(target: T) -> T:
    """Return a stand-in for an object or module whose functions run on the primary process; the others get copies of what they return."""
    return cast(T, _PrimaryOnly(target))


class _PrimaryOnly:
    def __init__(self, target: object) -> None:
        self._target = target

    def __getattr__(self, name: str) -> Any:
        function = getattr(self._target, name)
        return lambda *args, **options: on_primary(partial(function, *args, **options))


def fail_together(error: Exception) -> NoReturn:
    """Raise an error on the primary process, and a RemoteFailure on the others."""

    def fail() -> NoReturn:
        raise error

    raise on_primary(fail)  # which never returns


def primary_first(function: Callable[[], T]) -> T:
    """Return what `function` returns on this process. The primary process calls it before the others do.

    Raises:
      RemoteFailure: on the others, if it raises anything on the primary process.
    """
    found: list[T] = []
    on_primary(lambda: found.append(function()))
    return found[0] if found else function()


def check_alike(job: Any) -> None:
    """Ends all with a UsageError where one was asked for another job than the first: their calls would not meet."""
    other = highest(0 if on_primary(lambda: job) == job else index())
    if other:
        on_primary(partial(_refuse, other))


def _refuse(other: int) -> None:
    raise UsageError(f"process {other} was started with other flags than process 0: give the same command to all")


def highest(number: int) -> int:
    """The largest of the numbers that the processes give."""
    return number if count() == 1 else int(np.max(multihost_utils.process_allgather(np.int32(number))))


def has_lost_another(error: Exception) -> bool:
    """Whether an exchange with the other processes failed. Not all ways to lose one raise anything: JAX may end this one for it."""
    return count() > 1 and any(word in str(error) for word in ("Gloo", "NCCL", "peer", "heartbeat"))


def abandon(code: int) -> NoReturn:
    """Ends this process at once. The usual end waits for the others, which is in vain where one is lost."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _broadcast(message: Any) -> Any:
    """What the first process gives, on all of them."""
    sent = np.frombuffer(encode(message), np.uint8)
    blocks = -(-len(sent) // BLOCK)
    blocks, length = map(int, multihost_utils.broadcast_one_to_all(np.asarray([blocks, len(sent) - (blocks - 1) * BLOCK], np.int32)))
    padded = np.zeros((blocks, BLOCK), np.uint8)
    if is_primary():
        padded.reshape(-1)[: len(sent)] = sent
    got = np.concatenate([multihost_utils.broadcast_one_to_all(block) for block in padded])
    return message if is_primary() else decode(got[: (blocks - 1) * BLOCK + length].tobytes())
