"""A Ray cluster of two nodes on this machine, and how to kill one of them with everything that runs on it."""

import os
import signal
from contextlib import contextmanager, suppress
from pathlib import Path

from ray.cluster_utils import Cluster


@contextmanager
def cluster(cpus=1):
    """Yield the head's address and the second node. Nothing is reported to anybody, and no dashboard listens."""
    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0"}  # by default, workers yield to everything else here
    quiet = {"num_cpus": cpus, "include_dashboard": False}
    held = Cluster(initialize_head=True, head_node_args=quiet)
    try:
        yield held, held.add_node(**quiet)
    finally:
        held.shutdown()


def processes_of(node):
    """Return every process of a node, the raylet last."""
    raylet = node.all_processes["raylet"][0].process.pid
    return [*descendants(raylet), raylet]


def descendants(pid):
    try:
        children = [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []
    return [found for child in children for found in (child, *descendants(child))]


def trainers(node, name="ray::train"):
    """Return the processes of a node that train something."""
    found = []
    for pid in descendants(node.all_processes["raylet"][0].process.pid):
        with suppress(OSError):
            if Path(f"/proc/{pid}/cmdline").read_text().startswith(name):
                found.append(pid)
    return found


def kill(pids):
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
