"""A command that dies, hangs, is told to stop, or was wrong from the start: what its supervisor makes of that."""

import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from experiments.supervise import Options, Supervisor, main
from lrpt.runs import pulse
from lrpt.runs.console import Console

QUICK = Options(restarts=2, backoff=0.01, hang=0)

# Ends with the N-th of some statuses at its N-th start; S and . are signs of life.
CHILD = """
import os, sys, time
path, *ends = sys.argv[1:]
with open(path, "a") as file:
    file.write("x")
end = ends[min(os.path.getsize(path), len(ends)) - 1]
for sign in end.rstrip("-0123456789"):
    with open(os.environ["LRPT_PULSE"], "a") as file:
        file.write(sign.replace("z", ""))
    if sign == "z":
        time.sleep(60)
code = int(end.lstrip("S.z"))
if code < 0:
    os.kill(os.getpid(), -code)
sys.exit(code)
"""


@pytest.fixture
def supervised(tmp_path):
    """(exit status, number of starts) of a child that ends like this."""

    def run(*ends, options=QUICK):
        command = [sys.executable, "-S", "-c", CHILD, str(tmp_path / "starts"), *ends]
        return Supervisor(options, command, Console(quiet=True)).run(), (tmp_path / "starts").stat().st_size

    return run


@pytest.mark.parametrize("code", [0, 2, 130, 143])
def test_some_ends_are_final(supervised, code):
    assert supervised(str(code)) == (code, 1)


def test_a_command_that_dies_is_started_again(supervised, capfd):
    assert supervised("-9", "S-6", "-9", "1", "S0") == (0, 5)
    lines = capfd.readouterr().err.splitlines()
    assert [line.partition(" with ")[2].partition(";")[0] for line in lines] == ["status 137", "status 134", "status 137", "status 1"]


def test_without_a_new_checkpoint_it_is_given_up(supervised, capfd):
    assert supervised("S1", ".1") == (1, 4)
    assert "ended with status 1 3 times without a new checkpoint: it is given up" in capfd.readouterr().err


def test_a_hung_command_is_killed(supervised):
    assert supervised("S.z0", "0", options=Options(restarts=2, backoff=0.01, hang=1)) == (0, 2)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGUSR1, 143), (signal.SIGINT, 130)])
def test_signals_are_passed_on(number, code, tmp_path):
    script = f"trap 'exit 143' TERM; trap 'exit 130' INT; echo > {tmp_path / 'ready'}; while :; do sleep 0.05; done"
    supervisor = Supervisor(QUICK, ["sh", "-c", script], Console(quiet=True))

    def send():
        while not (tmp_path / "ready").exists():
            time.sleep(0.01)
        os.kill(os.getpid(), number)

    before = signal.getsignal(number)
    threading.Thread(target=send).start()
    assert supervisor.run() == code
    assert signal.getsignal(number) == before


def test_a_pulse_that_nobody_hears_or_that_cannot_be_written_is_no_matter(monkeypatch, tmp_path):
    pulse.beat()
    monkeypatch.setenv(pulse.VARIABLE, str(tmp_path / "missing" / "pulse"))
    pulse.saved()
    monkeypatch.setenv(pulse.VARIABLE, str(tmp_path / "pulse"))
    pulse.beat()
    pulse.saved()
    assert Path(tmp_path / "pulse").read_bytes() == b".S"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "no command is given"),
        (["--restarts", "3"], "no command is given"),
        (["--"], "no command is given"),
        (["--restarts", "-1", "--", "true"], "restarts is -1"),
        (["--backoff", "soon", "--", "true"], "soon"),
        (["--", "no-such-program"], "'no-such-program' cannot be started"),
    ],
)
def test_wrong_flags(words, says, assert_refused):
    assert_refused(main, words, says)
