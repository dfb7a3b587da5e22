"""The commit that a run records."""

import subprocess

import pytest

from lrpt.runs import environment


@pytest.mark.parametrize("tracked", [True, False])
def test_the_commit_of_a_repository_that_does_not_hold_this_code_is_not_recorded(tracked, tmp_path, monkeypatch):
    """As in a virtual environment inside the repository of a user."""
    module = tmp_path / "venv" / "environment.py"
    module.parent.mkdir()
    module.touch()
    author = ("-c", "user.name=A", "-c", "user.email=a@b.c")
    for arguments in (("init",), ("add", module) if tracked else ("status",), (*author, "commit", "--allow-empty", "-m", "First")):
        subprocess.run(["git", *arguments], cwd=tmp_path, check=True, capture_output=True)
    monkeypatch.setattr(environment, "__file__", str(module))
    found = environment.environment()
    assert (found["commit"] is not None, found["dirty"]) == ((True, False) if tracked else (False, None))
