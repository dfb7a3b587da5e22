"""A Ray cluster of two nodes on this machine, and how to kill one of them with everything that runs on it."""

import os
import signal
from contextlib import contextmanager, suppress
from pathlib import Path

from lrpt.engines.cluster import NODE, nodes_here


@contextmanager
def cluster():
    """Yield the cluster and its second node."""
    with nodes_here() as held:
        yield held, held.add_node(**NODE)


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


def trainers(node):
    """Return the processes of a node that train something."""
    found = []
    for pid in descendants(node.all_processes["raylet"][0].process.pid):
        with suppress(OSError):
            if Path(f"/proc/{pid}/cmdline").read_text().startswith("ray::train"):
                found.append(pid)
    return found


def kill(pids):
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
