"""The code of the README runs, in the order in which it stands there."""

import json
import re
from pathlib import Path

import pytest

README = Path(__file__).parent.parent / "README.md"


@pytest.mark.usefixtures("tables")
def test_python_blocks_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert len(blocks) == 6
    exec(compile("\n".join(blocks), str(README), "exec"), {"__name__": "readme"})
    result = json.loads((tmp_path / "runs/parity/result.json").read_text())
    assert result["updates"] == 40
    assert result["parameters"]["true"] == 2 * 16 + 2 * (2 * 16 + 16) + 16 + 16 * 2 + 2
    assert 0 < result["metrics"]["test"]["loss"] < 2


def test_files_it_names_exist():
    text = README.read_text()
    for name in re.findall(r"\]\(([\w./]+)\)", text) + re.findall(r"\| `(lrpt/[\w./]+|experiments/)` \|", text):
        assert (README.parent / name).exists(), name
