"""Kills processes of a supervised run at random moments, until it ends all the same.

    python tests/training/killing.py --processes 2 --kills 20 --seed 0 DIRECTORY

Prints what was killed and when, and leaves with 0 if the run in DIRECTORY/killed ended with the numbers of the one in DIRECTORY/whole,
which nothing disturbed. The test suite does the same with one process and few kills.
"""

import argparse
import os
import random
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[2]), str(Path(__file__).parents[1])]

from tiny import EVEN, changed, flags, numbers  # noqa: E402

EVERY = 2
"""updates between checkpoints"""

SPAN = 12
"""updates between one kill and the next, at most"""

PATIENCE = 900
"""seconds without a new line of metrics after which the run counts as lost"""


def config(kills):
    """Long enough for so many kills: each is due within `SPAN` updates of the one before it, and may come that much late."""
    return changed(EVEN, train={"updates": 2 * SPAN * (kills + 1), "evaluate_every": EVERY})


def commands(config, path, processes):
    """The command line of each process."""
    words = [sys.executable, "-m", "experiments.copy_memory", *flags(config), "--devices", "1", "--workdir", str(path)]
    if processes == 1:
        return [words]
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{listener.getsockname()[1]}"
    joined = ["--distributed.coordinator-address", address, "--distributed.num-processes", str(processes), "--distributed.heartbeat", "5"]
    return [[*words, *joined, "--distributed.process-id", str(i)] for i in range(processes)]


def start(command, log, supervised):
    supervisor = [sys.executable, "-m", "experiments.supervise", "--backoff", "0.5", "--restarts", "30", "--"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen([*supervisor, *command] if supervised else command, stdout=log, stderr=log, env=environment)


def updates(path):
    """How far the metrics of a run go, and how many bytes they have."""
    file = path / "metrics.jsonl"
    text = file.read_text() if file.exists() else ""
    return text.count('"split": "valid"') * EVERY, len(text)


def kill_child(supervisor):
    """Kills what a supervisor watches; False where that is just being started."""
    if supervisor.poll() is not None:
        raise RuntimeError("the run ended before it could be killed")
    children = Path(f"/proc/{supervisor.pid}/task/{supervisor.pid}/children").read_text().split()
    for child in children:
        os.kill(int(child), signal.SIGKILL)
    return bool(children)


def disturb(path, supervisors, kills, rng):
    """Kills one process after the other, each some updates after the last one, or while the command starts again."""
    for number in range(1, kills + 1):
        begun = updates(path)[0]
        target = 0 if rng.random() < 0.25 else begun + rng.randint(1, 3) * EVERY
        wait_for(path, target, supervisors)
        linger(path, rng.uniform(0, 5 if target == 0 else 0.5), begun + SPAN)
        victim = rng.randrange(len(supervisors))
        while not kill_child(supervisors[victim]):
            time.sleep(0.1)
        print(f"kill {number}: process {victim} at update {updates(path)[0]}", flush=True)


def linger(path, seconds, limit):
    """Sleeps, but not past an update: a fast machine would have ended the run before it is killed."""
    until = time.monotonic() + seconds
    while time.monotonic() < until and updates(path)[0] < limit:
        time.sleep(0.01)


def wait_for(path, target, supervisors):
    since, seen = time.monotonic(), None
    while updates(path)[0] < target:
        if updates(path) != seen:
            since, seen = time.monotonic(), updates(path)
        if time.monotonic() - since > PATIENCE or any(supervisor.poll() is not None for supervisor in supervisors):
            raise RuntimeError(f"the run stands at update {updates(path)[0]}")
        time.sleep(0.05)


def train(root, name, settings, processes, kills=0, seed=0):
    """The exit statuses of a run below `root`; one that is killed has supervisors."""
    with (root / f"{name}.log").open("w") as log:
        running = [start(command, log, kills > 0) for command in commands(settings, root / name, processes)]
    try:
        disturb(root / name, running, kills, random.Random(seed))
        return [one.wait(PATIENCE) for one in running]
    finally:
        for one in running:
            one.terminate()


def compare(root, processes, kills, seed):
    """Runs both, and returns the numbers of the disturbed and of the undisturbed one."""
    settings = config(kills)
    assert train(root, "whole", settings, processes) == [0] * processes
    assert train(root, "killed", settings, processes, kills, seed) == [0] * processes
    return numbers(root / "killed", settings), numbers(root / "whole", settings)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("directory", type=Path)
    for flag, default in (("--processes", 2), ("--kills", 20), ("--seed", 0)):
        parser.add_argument(flag, type=int, default=default)
    asked = parser.parse_args()
    asked.directory.mkdir(parents=True, exist_ok=True)
    killed, whole = compare(asked.directory, asked.processes, asked.kills, asked.seed)
    print("the numbers of an undisturbed run" if killed == whole else "OTHER NUMBERS")
    sys.exit(killed != whole)
