"""Runs as tasks of a Ray cluster: Ray finds a node with room for each, and tells when a node is lost."""

import logging
import math
import os
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import ray
from ray import exceptions
from ray.util.placement_group import placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from lrpt.engines.engine import EngineOptions
from lrpt.engines.jobs import Unit
from lrpt.engines.worker import Outcome, train
from lrpt.errors import UsageError

MANY = 100_000
"""units that are handed to Ray at once: it queues those without room, and an autoscaler sees them"""

GRACE = 5.0
"""seconds that the other processes of a run have to end after one of them was lost"""

NODE = {"num_cpus": 1, "include_dashboard": False}
"""arguments of each node of a test cluster: one core"""


class RayEngine:
    """A connection to a cluster, which queues the units without room.

    Args:
      options: where the cluster is, and what each run reserves.

    Raises:
      UsageError: no cluster answers.
    """

    queues = True

    def __init__(self, options: EngineOptions) -> None:
        self.options, self.slots = options, MANY
        _connect(options.address)
        self.accelerators = int(ray.cluster_resources().get("GPU", 0) / options.gpus) if options.gpus else 0
        self._tasks: set[_Task | _Group] = set()

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Return what the function returns in a task."""
        return ray.get(self._remote(function).remote(*arguments))

    def submit(self, unit: Unit) -> "_Task | _Group":
        """Queue the task of a unit, or the tasks of all processes that share its run."""
        task = _Task(self._remote(train), unit) if self.options.hosts == 1 else _Group(self._remote, unit, self.options)
        self._tasks.add(task)
        return task

    def _remote(self, function: Callable[..., Any], **more: Any) -> Any:
        """Return a function as a task with its resources, in a process that ends with it."""
        share = {"XLA_PYTHON_CLIENT_MEM_FRACTION": f"{0.9 * self.options.gpus:.3f}"} if 0 < self.options.gpus < 1 else {}
        once = ray.remote(max_calls=1, max_retries=0)(function)  # the schedule tells a lost node from a run that kills its process
        return once.options(
            num_cpus=self.options.cpus, num_gpus=self.options.gpus, runtime_env={"env_vars": share} if share else None, **more
        )

    def wait(self, handles: Sequence["_Task | _Group"], seconds: float) -> list[tuple["_Task | _Group", list[Outcome]]]:
        """Return the tasks that have ended."""
        pending = [part for task in handles for part in task.pending]
        if not pending:
            time.sleep(seconds)
        ready = set(ray.wait(pending, num_returns=len(pending), timeout=seconds)[0]) if pending else set()
        ended = [(task, outcomes) for task in handles if (outcomes := task.advance(ready)) is not None]
        self._tasks -= {task for task, _ in ended}
        return ended

    def stop(self) -> None:
        """Interrupt all tasks, as Ctrl-C does."""
        self._cancel(force=False)

    def close(self) -> None:
        """Kill what is left, and disconnect."""
        self._cancel(force=True)
        ray.shutdown()

    def _cancel(self, force: bool) -> None:
        for task in self._tasks:
            for part in task.pending:
                ray.cancel(part, force=force)


def _connect(address: str | None) -> None:
    """Connect to a cluster, or start one on this machine. Usage statistics stay off."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    if ray.is_initialized():
        return
    known = address or os.environ.get("RAY_ADDRESS")
    try:
        _knock(known)
        ray.init(known, include_dashboard=None if known else False, log_to_driver=False, logging_level=logging.ERROR)
    except (OSError, ValueError, RuntimeError) as error:
        reason = " ".join(str(error).split())[:200]
        advice = "start its head by `ray start --head`, and name HOST:PORT"
        raise UsageError(f"address is {known}, and no Ray cluster answers there ({reason}): {advice}", code=1) from None


@contextmanager
def nodes_here() -> Iterator[Any]:
    """Yield Ray's test cluster (`ray.cluster_utils.Cluster`) with one node; `add_node(**NODE)` adds others on this machine.

    Nothing is reported to anybody, and no dashboard listens. Workers have the priority of other processes; by default they yield.
    """
    from ray.cluster_utils import Cluster

    patient = {"RAY_agent_register_timeout_ms": "120000", "RAY_raylet_start_wait_time_s": "120"}  # on a machine with other work
    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0", **patient}
    held = Cluster(initialize_head=True, head_node_args=NODE)
    try:
        yield held
    finally:
        held.shutdown()


def _knock(address: str | None) -> None:
    """Raise an OSError at once if nobody listens at HOST:PORT, where Ray would try for minutes."""
    host, _, port = (address or "").removeprefix("ray://").rpartition(":")
    if host and port.isdigit():
        socket.create_connection((host, int(port)), timeout=10).close()


def _outcomes(part: Any, runs: int) -> list[Outcome]:
    """Return the outcomes of a task that has ended, in whatever way."""
    try:
        return ray.get(part)
    except exceptions.NodeDiedError:
        return [Outcome("lost", "its node is lost", node=True)] * runs
    except (exceptions.TaskCancelledError, KeyboardInterrupt):
        return [Outcome("stopped")] * runs
    except exceptions.RayTaskError as error:
        return [Outcome("failed", " ".join(str(error.cause).split()))] * runs
    except exceptions.RayError as error:
        return [Outcome("lost", f"its process ended ({type(error).__name__})")] * runs


class _Task:
    """The task of one unit."""

    def __init__(self, remote: Any, unit: Unit) -> None:
        self.runs = len(unit.jobs)
        self.pending = [remote.remote(unit)]

    def advance(self, ready: set[Any]) -> list[Outcome] | None:
        """Return the outcomes if the task is among those that have ended."""
        return _outcomes(self.pending[0], self.runs) if self.pending[0] in ready else None


class _Group:
    """Tasks of all processes that share one run, in places on the nodes that are reserved together.

    First a task in the first place finds an address; then all processes join there. If one process is lost, the others have `GRACE` seconds
    to notice it, and are killed. The schedule then submits the unit again.
    """

    def __init__(self, remote: Callable[..., Any], unit: Unit, options: EngineOptions) -> None:
        bundle = {"CPU": options.cpus} | ({"GPU": options.gpus} if options.gpus else {})
        self.places = placement_group([bundle] * options.hosts, strategy="SPREAD")
        self.remote, self.unit, self.hosts = remote, unit, options.hosts
        self.pending = [self._at(0, _find_address()).remote()]
        self.joined = False
        self.ended: list[Outcome] = []
        self.until = math.inf

    def _at(self, index: int, function: Callable[..., Any]) -> Any:
        return self.remote(function, scheduling_strategy=PlacementGroupSchedulingStrategy(self.places, index))

    def advance(self, ready: set[Any]) -> list[Outcome] | None:
        """Have the processes join, or collect those that have ended; return the outcome of the run once all have."""
        if not self.joined:
            return self._join() if self.pending[0] in ready else None
        for part in ready & set(self.pending):
            self.pending.remove(part)
            self.ended += _outcomes(part, 1)
        if self.ended and self.until == math.inf and any(outcome.how != "finished" for outcome in self.ended):
            self.until = time.monotonic() + GRACE
        if self.pending and time.monotonic() < self.until:
            return None
        return self._close()

    def _join(self) -> list[Outcome] | None:
        """Start all processes at the address that was found."""
        try:
            address: Any = ray.get(self.pending[0])
        except exceptions.RayError:
            self.ended = _outcomes(self.pending.pop(), 1)
            return self._close()
        self.joined = True
        self.pending = [self._at(index, train).remote(self.unit.rank(index, self.hosts, address)) for index in range(self.hosts)]
        return None

    def _close(self) -> list[Outcome]:
        """Kill what is left, give the places back, and return the outcome of the run."""
        for part in self.pending:
            ray.cancel(part, force=True)
        remove_placement_group(self.places)
        order = ("failed", "busy", "stopped", "lost", "finished")
        worst = min(self.ended, key=lambda outcome: (order.index(outcome.how), not outcome.node))
        return [worst]


def _find_address() -> Callable[[], str]:
    """Return a function that returns HOST:PORT of its node where nobody listens.

    Ray sends the code of a local function, so its process need not import this package, which takes seconds.
    """

    def free_address() -> str:
        with socket.socket() as listener:
            listener.bind(("", 0))
            return f"{ray.util.get_node_ip_address()}:{listener.getsockname()[1]}"

    return free_address
