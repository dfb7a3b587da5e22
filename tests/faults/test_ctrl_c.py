"""Ctrl-C at any moment of a command ends it with one line and without a traceback."""

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tiny import EVEN, changed, flags

SEED, STOPS = 0, 12
SECONDS = 120


@pytest.fixture
def listening():
    """What a shell starts in the background ignores SIGINT, and hands that on to whatever it starts: not here."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.slow
@pytest.mark.usefixtures("listening")
def test_ctrl_c_at_random_moments_of_the_start(tmp_path):
    """From the moment when Python has found the package, through all imports, until training has begun."""
    rng = random.Random(SEED)
    long = changed(EVEN, train={"updates": 100_000})
    statuses = []
    for stop in range(STOPS):
        command = [sys.executable, "-m", "experiments.copy_memory", "--workdir", str(tmp_path / str(stop)), *flags(long)]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
            until_listening(process.pid)
            time.sleep(rng.uniform(0, 6))
            process.send_signal(signal.SIGINT)
            try:
                said = process.communicate(timeout=SECONDS)[1].splitlines()
            finally:
                process.kill()  # if it has not ended; leaving the context waits for it
        statuses.append(process.returncode)
        print(f"seed {SEED}, stop {stop}: {said}", flush=True)
        assert process.returncode == 130, said
        assert len(said) == 1, said
        assert said[0].startswith("lrpt: error: stopped by "), said
    print(f"seed {SEED}: {len(statuses)} interruptions, one line each")


def until_listening(pid):
    """Waits until SIGINT has a handler other than none and the package has put its own in place."""
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        maps = Path(f"/proc/{pid}/maps").read_text()
        if "_opcode" in maps or "numpy" in maps or "jaxlib" in maps:
            return
        time.sleep(0.005)
    raise AssertionError("the command did not start")
