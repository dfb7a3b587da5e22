"""What the pages and scripts of docs/ name is there."""

import importlib.util
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
SCRIPTS = sorted((DOCS / "launch").glob("*.sh"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_launch_scripts_are_bash_and_ask_for_what_is_missing(script):
    assert subprocess.run(["bash", "-n", script], capture_output=True).returncode == 0
    done = subprocess.run(["bash", script], capture_output=True, text=True, env={"PATH": "/usr/bin:/bin"})
    assert done.returncode != 0
    assert "the name of" in done.stderr


def executable(path, text):
    path.write_text(f"#!/bin/bash\n{text}\n")
    path.chmod(0o755)


@pytest.mark.parametrize(("number", "requeued"), [(signal.SIGUSR1, True), (signal.SIGTERM, False)])
def test_a_seed_asks_for_another_turn_when_its_time_is_over(number, requeued, tmp_path):
    """With a program in the place of Python that leaves with 143 when it is told to."""
    executable(tmp_path / "python", f"trap 'exit 143' TERM; touch {tmp_path / 'ready'}; while :; do sleep 0.05; done")
    executable(tmp_path / "scontrol", f'echo "$@" > {tmp_path / "asked"}')
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "SLURM_ARRAY_TASK_ID": "3", "SLURM_ARRAY_JOB_ID": "17"}
    with subprocess.Popen(["bash", DOCS / "launch" / "slurm_seeds.sh", "adding"], env=environment) as script:
        while not (tmp_path / "ready").exists():
            time.sleep(0.02)
        script.send_signal(number)
        assert script.wait(60) == 143
    assert (tmp_path / "asked").exists() == requeued
    assert not requeued or (tmp_path / "asked").read_text() == "requeue 17_3\n"


def test_modules_and_files_that_are_named_exist():
    for path in [*DOCS.glob("*.md"), *SCRIPTS]:
        text = path.read_text()
        for name in re.findall(r"-m (experiments(?:\.\w+)?)\b", text):
            assert importlib.util.find_spec(name), f"{path.name} names {name}"
        for name in re.findall(r"\]\(([\w./]+)\)", text):
            assert (path.parent / name).exists(), f"{path.name} names {name}"
