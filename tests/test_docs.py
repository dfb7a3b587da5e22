"""What the pages and scripts of docs/ name is there."""

import importlib.util
import re
import subprocess
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


def test_modules_and_files_that_are_named_exist():
    for path in [*DOCS.glob("*.md"), *SCRIPTS]:
        text = path.read_text()
        for name in re.findall(r"-m (experiments(?:\.\w+)?)\b", text):
            assert importlib.util.find_spec(name), f"{path.name} names {name}"
        for name in re.findall(r"\]\(([\w./]+)\)", text):
            assert (path.parent / name).exists(), f"{path.name} names {name}"
