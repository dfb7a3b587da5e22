"""Runs on a real Ray cluster, of which nodes and processes are killed: the numbers are those of a run that nothing disturbed."""

import os
import random
import subprocess
import sys
import time

import pytest
from tiny import EVEN, changed, flags, numbers

pytest.importorskip("ray")
from cluster_of_two import cluster, kill, processes_of, trainers

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),  # what Ray's own code is warned of
]

LONG = changed(EVEN, train={"updates": 160, "evaluate_every": 4, "updates_per_call": 4})
SECONDS = 600
"""in which something has to happen"""


def start(words, log):
    """Starts a sweep of the configuration `LONG`."""
    command = [sys.executable, "-W", "ignore", "-m", "experiments.sweep", "copy_memory", *map(str, words), *flags(LONG)]
    return subprocess.Popen(command, stdout=log, stderr=log)


def finish(words, path):
    """Runs a sweep to its end. Returns its exit status and what it said."""
    with path.open("w") as log:
        status = start(words, log).wait(SECONDS)
    return status, path.read_text()


def until(condition, sweep):
    end = time.monotonic() + SECONDS
    while not condition():
        assert sweep.poll() is None, "it ended too early"
        assert time.monotonic() < end
        time.sleep(0.02)


def updates(path):
    """How far the metrics of a run go."""
    file = path / "metrics.jsonl"
    return file.read_text().count('"split": "valid"') * LONG.train.evaluate_every if file.exists() else 0


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Two runs that nothing disturbs, on this machine."""
    root = tmp_path_factory.mktemp("whole")
    status, said = finish(["--seeds", 2, "--workdir", root / "runs"], root / "log")
    assert status == 0, said
    return root / "runs"


@pytest.fixture(scope="module")
def nodes():
    """The cluster of all tests below, which starts once: its address, its head, and the node that the last test kills."""
    with cluster() as (held, node):
        yield held.address, held.head_node, node


KILLS, SEED = int(os.environ.get("LRPT_KILLS", "6")), 0
"""how many; LRPT_KILLS asks for more"""
EARLY = 1 + KILLS // 8
"""how many of them before a run has gone on"""


def test_one_model_over_two_processes_of_which_one_is_killed_again_and_again(tmp_path, nodes):
    """Each time all processes of the run end, start again, and go on from the last checkpoint.

    A process is killed whenever the run has gone on by an evaluation, and a random moment later; or, at some of the starts, before.
    """
    address, *held = nodes
    rng, path = random.Random(SEED), tmp_path / "runs" / "quick-seed0"
    shared = ["--hosts", 2, "--engine", "ray", "--devices", 1, "--address", address]
    undisturbed = finish([*shared, "--workdir", tmp_path / "shared"], tmp_path / "shared.log")
    assert undisturbed[0] == 0, undisturbed[1]
    early = set(rng.sample(range(1, KILLS), EARLY))
    with (tmp_path / "log").open("w") as log:
        sweep = start([*shared, "--tries", KILLS, "--workdir", tmp_path / "runs"], log)
        for number in range(KILLS):
            before = updates(path)
            until(lambda number=number, before=before: (number in early or updates(path) > before) and all(map(trainers, held)), sweep)
            time.sleep(rng.uniform(0, 0.3))
            victim = rng.choice([pid for node in held for pid in trainers(node)])
            kill([victim])
            until(lambda victim=victim: not any(victim in trainers(node) for node in held), sweep)
            print(f"seed {SEED}, kill {number + 1}: at update {updates(path)}{' (early)' * (number in early)}", flush=True)
        assert sweep.wait(SECONDS) == 0, (tmp_path / "log").read_text()
    assert numbers(path, LONG) == numbers(tmp_path / "shared" / "quick-seed0", LONG)


def test_a_node_that_is_killed_in_the_middle_of_training(tmp_path, nodes, whole):
    """Its run goes on at the other node, from its checkpoint."""
    address, _, node = nodes
    with (tmp_path / "log").open("w") as log:
        sweep = start(["--seeds", 2, "--workdir", tmp_path / "runs", "--engine", "ray", "--address", address], log)
        until(lambda: trainers(node) and all(updates(tmp_path / "runs" / f"quick-seed{seed}") >= 40 for seed in (0, 1)), sweep)
        kill(processes_of(node))
        assert sweep.wait(SECONDS) == 0, (tmp_path / "log").read_text()
    assert "its node is lost" in (tmp_path / "log").read_text()
    for seed in (0, 1):
        assert numbers(tmp_path / "runs" / f"quick-seed{seed}", LONG) == numbers(whole / f"quick-seed{seed}", LONG)


def test_nobody_answers_at_an_address(tmp_path):
    status, said = finish(["--engine", "ray", "--address", "127.0.0.1:1", "--workdir", tmp_path / "runs"], tmp_path / "log")
    assert status == 1
    assert "no Ray cluster answers there" in said
    assert "Traceback" not in said
