"""Wall and processor time of commands, with all processes that they start. Linux only."""

import os
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import NamedTuple, TextIO

from lrpt.errors import UsageError

POLL = 0.1
"""seconds between two looks; what a process uses after the last look is missed"""

PARENT, STARTED = 1, 19
"""positions in /proc/PID/stat behind the name of the program; user and system time are at 11 and 12"""


class Spent(NamedTuple):
    """Seconds of a measurement: those that passed, and those of all cores together."""

    wall: float
    cpu: float


class Descendants:
    """Processor time of the processes that this one has started, directly or not, since it began to look."""

    def __init__(self) -> None:
        if not Path("/proc/self/stat").exists():
            raise UsageError("processor times come from /proc, which this system lacks: measure on Linux", code=1)
        self._seen: dict[tuple[int, str], float] = {}

    def look(self) -> float:
        """Return the seconds of all descendants, of those that have ended too."""
        stats = _stats()
        children: dict[int, list[int]] = {}
        for pid, stat in stats.items():
            children.setdefault(int(stat[PARENT]), []).append(pid)
        waiting = [*children.get(os.getpid(), [])]
        while waiting:
            pid = waiting.pop()
            waiting += children.get(pid, [])
            self._seen[pid, stats[pid][STARTED]] = (int(stats[pid][11]) + int(stats[pid][12])) / os.sysconf("SC_CLK_TCK")
        return sum(self._seen.values())


def _stats() -> dict[int, list[str]]:
    """Return the fields behind the program's name of /proc/PID/stat, by process."""
    found = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with suppress(OSError):
                found[int(entry.name)] = Path(entry.path, "stat").read_text().rpartition(") ")[2].split()
    return found


def spend(commands: Sequence[Sequence[str]], watch: Descendants, note: Callable[[Spent], None] = lambda spent: None) -> Spent:
    """Run commands side by side to their ends, and return what they and their descendants have spent.

    Args:
      commands: words of each.
      watch: counts processor time.
      note: called at every look with what was spent so far.

    Raises:
      UsageError: a command has failed; the message has its last line.
    """
    began, before = time.perf_counter(), watch.look()
    with ExitStack() as stack:
        errors = [stack.enter_context(TemporaryFile("w+", errors="replace")) for _ in commands]  # a pipe that nobody reads would fill up
        started = [subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=file) for words, file in zip(commands, errors, strict=True)]
        try:
            while any(process.poll() is None for process in started):
                note(Spent(time.perf_counter() - began, watch.look() - before))
                time.sleep(POLL)
            spent = Spent(time.perf_counter() - began, watch.look() - before)
            for process, file in zip(started, errors, strict=True):
                if process.returncode:
                    raise UsageError(f"a measured command has failed: {_last_line(file) or process.returncode}", code=1)
        finally:
            for process in started:
                process.kill()
    return spent


def _last_line(file: TextIO) -> str:
    """Return the last line of what was written to a file; an empty string if it is empty."""
    file.seek(0)
    return file.read().rstrip().rpartition("\n")[2]
