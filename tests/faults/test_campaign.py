"""A campaign of faults drawn at random: bad values for every flag, and flipped bits in every file of a run.

Kills in the middle of each kind of write are in tests/training/test_kill.py. The seed and the counts are printed: `pytest -m slow -s`.
"""

import os
import random
import shutil
import signal
import sys
import time
from collections import Counter
from contextlib import contextmanager

import pytest
from tiny import EVEN, EXPERIMENT, changed, flags, numbers

from lrpt.cli.command import main
from lrpt.runs.configuration import flatten, to_json

pytestmark = pytest.mark.slow

SEED, INPUTS, FLIPS = 0, 300, 40
BUDGET = float(os.environ.get("LRPT_FAULT_SECONDS", "25"))
"""seconds for each half; what was not drawn by then is left out"""

PATIENCE = 120
"""seconds in which a single command answers, even where other programs take nearly all of the time"""

SHORT = changed(EVEN, train={"updates": 2, "evaluate_every": 2})
BAD = [
    "-1",
    "0",
    "-0.5",
    "nan",
    "inf",
    "1e30",
    "1e-30",
    str(10**30),
    "1.5",
    "None",
    "True",
    "maybe",
    "[]",
    "\u00fc",
    "/dev/zero",
    "a b",
    "--",
]
LONG = {"train.updates", "train.evaluate-every"}


class Slow(BaseException):
    """A command has not answered in time."""


@contextmanager
def at_most(seconds):
    def stop(number, frame):
        raise Slow

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def answer(words, capfd):
    """How a command ends: its exit status; a refusal is one line, and nothing else may be raised."""
    capfd.readouterr()
    try:
        with at_most(PATIENCE):
            main(EXPERIMENT, [str(word) for word in words])
        code = 0
    except SystemExit as leaving:
        code = leaving.code
    except Slow:
        return "slow"
    errors = [line for line in capfd.readouterr().err.splitlines() if line.startswith("lrpt: error: ")]
    assert len(errors) == (code != 0), (words, code, errors)
    return code


def told(capfd, counts):
    with capfd.disabled():
        print(f"\nseed {SEED}: {dict(counts)}", file=sys.stderr)


def test_bad_values_of_every_flag_are_refused_in_one_line_or_harmless(tmp_path, capfd):
    rng, counts, end = random.Random(SEED), Counter(), time.monotonic() + BUDGET
    names = [name.replace("_", "-") for name in flatten(to_json(SHORT))]
    for number in range(INPUTS):
        if time.monotonic() > end:
            break
        name, value = rng.choice([name for name in names if name not in LONG]), rng.choice(BAD)
        counts[answer([*flags(SHORT), f"--{name}={value}", "--devices", "1", "--workdir", tmp_path / str(number)], capfd)] += 1
    told(capfd, counts)
    assert counts.keys() <= {0, 1, 2}
    assert counts[2] > counts[0]


def test_a_flipped_bit_in_any_file_is_told_or_changes_nothing(tmp_path, capfd):
    """The run then goes on to more updates, with the numbers of an undisturbed one, or is refused in one line."""
    rng, counts, end = random.Random(SEED), Counter(), time.monotonic() + BUDGET
    longer = changed(EVEN, train={"updates": 16})
    command = ["--devices", "1", "--workdir"]
    for config, name in ((EVEN, "run"), (longer, "whole")):
        assert answer([*flags(config), *command, tmp_path / name], capfd) == 0
    whole = numbers(tmp_path / "whole", longer)
    files = sorted(path.relative_to(tmp_path / "run") for path in (tmp_path / "run").rglob("*") if path.is_file() and path.stat().st_size)
    for number in range(FLIPS):
        if time.monotonic() > end:
            break
        damaged, part = tmp_path / str(number), rng.choice(sorted({file.parts[0] for file in files}))
        name = rng.choice([file for file in files if file.parts[0] == part])
        shutil.copytree(tmp_path / "run", damaged)
        content = bytearray((damaged / name).read_bytes())
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
        (damaged / name).write_bytes(content)
        status = answer([*flags(longer), *command, damaged], capfd)
        counts[name.parts[0], status] += 1
        assert status in (0, 1, 2), name
        if status == 0:
            assert numbers(damaged, longer)[0] == whole[0], name
            assert numbers(damaged, longer)[2] == whole[2], name
        shutil.rmtree(damaged)
    told(capfd, counts)
