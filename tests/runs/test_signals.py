"""Signals that ask a run to stop, and those that it ignores."""

import os
import pty
import signal
import subprocess
import sys

import pytest

from lrpt.runs.signals import Interrupted, StopRequests


@pytest.fixture
def hangup():
    """Set what SIGHUP does, and restore it."""
    before = signal.getsignal(signal.SIGHUP)
    yield lambda handler: signal.signal(signal.SIGHUP, handler)
    signal.signal(signal.SIGHUP, before)


def test_the_end_of_the_terminal_is_a_request(hangup):
    usual = []
    hangup(lambda number, frame: usual.append(number))
    with StopRequests() as stop:
        for _ in range(2):  # the kernel sends one, and the shell another
            os.kill(os.getpid(), signal.SIGHUP)
            assert stop.received == signal.SIGHUP
    assert not usual
    os.kill(os.getpid(), signal.SIGHUP)
    assert usual == [signal.SIGHUP]


def test_under_nohup_it_is_not(hangup):
    hangup(signal.SIG_IGN)
    with StopRequests() as stop:
        os.kill(os.getpid(), signal.SIGHUP)
        assert stop.received is None


PROGRAM = """
import fcntl, signal, sys, termios, time
from pathlib import Path
from lrpt.runs.signals import StopRequests

fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # the terminal of this session, whose end is a SIGHUP
signal.signal(signal.SIGHUP, signal.SIG_DFL)
with StopRequests() as stop:
    print("ready", flush=True)
    while not stop.received:
        time.sleep(0.01)
    print("an evaluation", flush=True)
    Path(sys.argv[1]).write_text("a checkpoint")
"""


def test_what_is_printed_after_the_end_of_the_terminal_is_no_error(tmp_path):
    """A program whose terminal has gone writes its checkpoint."""
    terminal, end = pty.openpty()
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "saved")]
    with subprocess.Popen(command, stdin=end, stdout=end, stderr=end, start_new_session=True) as process:
        os.close(end)
        assert b"ready" in os.read(terminal, 1000)
        os.close(terminal)
        assert process.wait(60) == 0
    assert (tmp_path / "saved").read_text() == "a checkpoint"


def test_a_stop_is_no_error_that_a_sweep_would_go_on_after():
    """A loop over runs with `except Exception` would train the next one."""
    assert not issubclass(Interrupted, Exception)
    assert str(Interrupted(signal.SIGTERM, 3)) == "stopped by SIGTERM at update 3; the same command resumes there"
