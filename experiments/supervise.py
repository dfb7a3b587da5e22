"""Runs a command and starts it again from its last checkpoint when it dies or hangs.

    python -m experiments.supervise -- python -m experiments.copy_memory --preset paper
    python -m experiments.supervise --hang 120 --restarts 5 -- python -m experiments.wiki --distributed.auto

On several hosts each has a supervisor of its own. When a process is lost, the others end within the heartbeat of --distributed.heartbeat,
all are started again, and meet at the coordinator. At most what was trained since the last checkpoint is lost.

A command is not started again when it is done, when its command line is wrong (exit status 2), when it was told to stop (by SIGINT or
SIGTERM, which it answers with a checkpoint), or when it has died too often in a row without a new checkpoint. SIGINT, SIGTERM, SIGHUP and
SIGUSR1 are passed on, the last two as SIGTERM; then the supervisor leaves with the command. Exit status: the command's, or 128 + n where
signal n ended it.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from lrpt.cli.flags import parse_dataclass
from lrpt.errors import UsageError, check_at_least
from lrpt.runs.console import Console, Explained
from lrpt.runs.pulse import SAVED, VARIABLE

PROGRAM = "python -m experiments.supervise"
WRONG_COMMAND_LINE = 2
TOLD_TO_STOP = {128 + signal.SIGINT, 128 + signal.SIGTERM}
PASSED_ON = {
    signal.SIGINT: signal.SIGINT,
    signal.SIGTERM: signal.SIGTERM,
    signal.SIGHUP: signal.SIGTERM,
    signal.SIGUSR1: signal.SIGTERM,
}


@dataclass(frozen=True)
class Options:
    """What a command line says before '--'."""

    restarts: int = 10
    """how often in a row the command may die without a new checkpoint"""
    backoff: float = 1.0
    """seconds to wait before it is started again; doubled, up to a minute, for each time in a row without a new checkpoint"""
    hang: float = 600.0
    """seconds without a finished call after which it counts as hung, and is killed; 0: never. Compilation must take less"""

    def __post_init__(self) -> None:
        check_at_least(0, self, "restarts", "backoff", "hang")


class Supervisor:
    """One command, from its first start to its end.

    Args:
      options: how patient to be.
      command: the words of the command line.
      console: is told of every restart.
    """

    def __init__(self, options: Options, command: Sequence[str], console: Console) -> None:
        self.options, self.command, self.console = options, list(command), console
        self.child: subprocess.Popen[bytes] | None = None
        self.asked: int | None = None

    def run(self) -> int:
        """Runs the command until there is a reason to leave. Returns the exit status."""
        before = {number: signal.signal(number, self._pass_on) for number in PASSED_ON}
        try:
            return self._run()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _run(self) -> int:
        fruitless = 0
        while True:
            code, progress = self._attempt()
            fruitless = 0 if progress else fruitless + 1
            if self.asked is not None or code in {0, WRONG_COMMAND_LINE, *TOLD_TO_STOP}:
                return code
            if fruitless > self.options.restarts:
                self.console.error(f"the command ended with status {code} {fruitless} times without a new checkpoint: it is given up")
                return code
            delay = min(self.options.backoff * 2 ** max(fruitless - 1, 0), 60)
            self.console.warn(f"the command ended with status {code}; it is started again in {delay:g} s, from its last checkpoint")
            self._wait(delay)
            if self.asked is not None:
                return 128 + self.asked

    def _attempt(self) -> tuple[int, bool]:
        """Exit status, and whether a checkpoint was written."""
        with tempfile.TemporaryDirectory() as folder:
            pulse = Path(folder) / "pulse"
            pulse.touch()
            # In a session of its own, so that Ctrl-C comes to it once, and from here.
            self.child = subprocess.Popen(self.command, env={**os.environ, VARIABLE: str(pulse)}, start_new_session=True)
            if self.asked is not None:
                self._pass_on(self.asked, None)
            code = self._watch(self.child, pulse)
            self.child = None
            return code, SAVED in pulse.read_bytes()

    def _watch(self, child: subprocess.Popen[bytes], pulse: Path) -> int:
        heard, since = 0, time.monotonic()
        while (code := child.poll()) is None:
            if (size := pulse.stat().st_size) != heard:
                heard, since = size, time.monotonic()
            if self.options.hang and time.monotonic() - since > self.options.hang:
                self.console.warn(f"the command has given no sign of life for {self.options.hang:g} s: it is killed")
                child.kill()
                child.wait()
            time.sleep(0.1)
        return code if code >= 0 else 128 - code

    def _wait(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while self.asked is None and time.monotonic() < end:
            time.sleep(0.1)

    def _pass_on(self, number: int, frame: FrameType | None) -> None:
        self.asked = PASSED_ON.get(signal.Signals(number), signal.SIGTERM)
        if self.child is not None and self.child.poll() is None:
            self.child.send_signal(self.asked)


def split(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """What stands before and after '--'.

    Raises:
      UsageError: nothing stands after it.
    """
    words = list(arguments)
    at = words.index("--") if "--" in words else len(words)
    if not words[at + 1 :] and not {"-h", "--help"} & set(words):
        raise UsageError(f"no command is given: write it after --, as in {PROGRAM} -- python -m experiments.copy_memory")
    return words[:at], words[at + 1 :]


def supervise(options: Any, command: Sequence[str], console: Console) -> int:
    """Runs a command as `Supervisor`; one that cannot be started is a UsageError."""
    try:
        return Supervisor(options, command, console).run()
    except OSError as error:
        raise UsageError(f"'{command[0]}' cannot be started ({error.strerror}): name a program after --") from error


def main(arguments: Sequence[str] | None = None) -> None:
    """Leaves with the exit status of the command, or 2 where the own command line is wrong."""
    console = Console()
    with Explained(console):
        own, command = split(sys.argv[1:] if arguments is None else arguments)
        options = parse_dataclass(Options, own, PROGRAM, "Starts a command again when it dies: ... -- COMMAND", Options())
        code = supervise(options, command, console)
    sys.exit(code)


if __name__ == "__main__":
    main()
