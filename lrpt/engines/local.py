"""Local engine: trains each unit of runs in a new process on this machine, whose end frees all its memory."""

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any

from lrpt.devices import hardware
from lrpt.engines.jobs import Unit
from lrpt.engines.worker import Outcome, train
from lrpt.errors import UsageError

PATIENCE = 30.0
"""seconds that a process has to write a checkpoint when the pool closes"""

METHOD = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
"""A server that has imported JAX, but not started it, forks processes in a tenth of the time that a new Python takes."""


class Died(Exception):
    """The end of a process before its function returned."""


class _Child:
    """One process, and the pipe that its result comes through.

    Attributes:
      place: number of its slot in the pool.
      runs: how many runs it trains.
    """

    def __init__(
        self, function: Callable[..., Any], arguments: Sequence[Any], environment: dict[str, str], place: int = 0, runs: int = 1
    ) -> None:
        self.place, self.runs = place, runs
        context: Any = multiprocessing.get_context(METHOD)
        context.set_forkserver_preload([__name__])
        self.receiver, sender = context.Pipe(duplex=False)
        self.process = context.Process(target=_run, args=(sender, function, arguments, environment))
        self.process.start()
        sender.close()

    def result(self) -> Any:
        """Wait for the end, and return what the function returned. Ctrl-C ends the process.

        Raises:
          Died: the process died before.
        """
        try:
            return self.receiver.recv()
        except (EOFError, OSError) as error:  # an OSError if it died while it sent the result
            self.process.join()
            raise Died(f"its process ended with status {self.process.exitcode}") from error
        except BaseException:  # Ctrl-C, which does not come to the session of the process
            self.process.terminate()
            raise
        finally:
            self.receiver.close()
            self.process.join()


def _run(sender: Connection, function: Callable[..., Any], arguments: Sequence[Any], environment: dict[str, str]) -> None:
    """Call the function in the new process, in a session of its own: Ctrl-C comes to the pool, which asks for checkpoints."""
    if hasattr(os, "setsid"):
        os.setsid()
    os.environ.update(environment)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    sender.send(function(*arguments))
    sender.close()


def _end_with_parent() -> None:
    """Ask this process to write a checkpoint and end when the pool has died, by whatever signal."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)


class LocalEngine:
    """Processes on this machine, one for each accelerator or core.

    Args:
      processes: number of processes at a time (None: one for each accelerator, or for each core).
    """

    queues = False

    def __init__(self, processes: int | None = None) -> None:
        self._accelerators = hardware.visible_accelerators()
        self.accelerators = len(self._accelerators)
        self.slots = processes or self.accelerators or hardware.cores()
        self._children: dict[Any, _Child] = {}

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Return what the function returns in a process that ends then.

        Raises:
          UsageError: the process died.
        """
        try:
            return _Child(function, arguments, self._environment(0)).result()
        except Died as error:
            what = f"{function.__name__} was not completed, because {error}"
            raise UsageError(f"{what}: it may have lacked memory; free some, or choose smaller runs, and repeat the command", 1) from None

    def submit(self, unit: Unit) -> Any:
        """Start a process."""
        place = min(set(range(self.slots)) - {child.place for child in self._children.values()}, default=0)
        child = _Child(train, (unit,), self._environment(place), place, len(unit.jobs))
        self._children[child.receiver] = child
        return child.receiver

    def _environment(self, place: int) -> dict[str, str]:
        """Return what makes a process see one accelerator alone."""
        if not self._accelerators:
            return {}
        sharing = -(-self.slots // self.accelerators)
        shared = {"XLA_PYTHON_CLIENT_MEM_FRACTION": f"{0.9 / sharing:.3f}"} if sharing > 1 else {}
        return {"CUDA_VISIBLE_DEVICES": self._accelerators[place % self.accelerators], **shared}

    def wait(self, handles: Sequence[Any], seconds: float) -> list[tuple[Any, list[Outcome]]]:
        """Return the processes that have ended, with an outcome for each run of the unit."""
        if not handles:
            time.sleep(seconds)
        return [(handle, self._end(handle)) for handle in wait(handles, seconds) if handle in self._children]

    def _end(self, handle: Any) -> list[Outcome]:
        child = self._children.pop(handle)
        try:
            return child.result()
        except Died as error:
            return [Outcome("lost", str(error))] * child.runs

    def stop(self) -> None:
        """Send SIGTERM to every process."""
        for child in self._children.values():
            child.process.terminate()

    def close(self) -> None:
        """Ask every process to end, and kill those that have not ended after `PATIENCE` seconds in all."""
        self.stop()
        until = time.monotonic() + PATIENCE
        for child in self._children.values():
            child.process.join(max(until - time.monotonic(), 0))
            child.process.kill()
        self._children.clear()
