"""Every notebook runs from its first cell to its last, and is kept with its outputs, so that a web view shows its plots."""

import ast
import json
import re
import sys
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest

LARGEST = 1_000_000
"""bytes of a notebook"""
NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))


def code_cells(path):
    return [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]


@pytest.mark.slow
@pytest.mark.usefixtures("tables")
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_runs(path, monkeypatch, tmp_path):
    """Fails with whatever a cell raises (warnings are errors, and cells assert what they claim), and where nothing was drawn."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])  # cells add to it
    namespace = {"__name__": "__main__"}
    with mpl.rc_context({"backend": "agg"}):
        for cell in code_cells(path):
            exec(compile("".join(cell["source"]), path.name, "exec"), namespace)
        assert plt.get_fignums()
        plt.close("all")


@pytest.mark.usefixtures("tables")
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_imports_what_exists(path):
    """A part of ``test_runs`` that is fast: it executes the imports alone."""
    source = "\n".join("".join(cell["source"]) for cell in code_cells(path))
    imports = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Import | ast.ImportFrom)]
    assert imports
    exec(compile(ast.Module(body=imports, type_ignores=[]), path.name, "exec"), {"__name__": "__main__"})


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_is_kept_with_the_outputs_of_one_run(path):
    assert path.stat().st_size < LARGEST
    cells = code_cells(path)
    assert [cell["execution_count"] for cell in cells] == [*range(1, len(cells) + 1)]
    outputs = [output for cell in cells for output in cell["outputs"]]
    assert not any(output["output_type"] == "error" or output.get("name") == "stderr" for output in outputs)
    assert any("image/png" in output.get("data", ()) for output in outputs)
    assert not re.search(r"/(work|root|home)/", json.dumps(outputs)), "an output names a directory of the machine"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_experiments_are_found_from_the_folder_of_the_notebooks(path):
    first = "".join(code_cells(path)[0]["source"])
    assert "experiments" not in first.partition('sys.path.insert(0, "..")')[0]
