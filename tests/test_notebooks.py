"""Every notebook runs from its first cell to its last, and is kept without outputs."""

import json
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest

pytestmark = pytest.mark.slow

NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))


def code_cells(path):
    return [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]


@pytest.mark.usefixtures("tables")
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_runs(path, monkeypatch, tmp_path):
    """Fails with whatever a cell raises (warnings are errors, and cells assert what they claim), and where nothing was drawn."""
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": "__main__"}
    with mpl.rc_context({"backend": "agg"}):
        for cell in code_cells(path):
            exec(compile("".join(cell["source"]), path.name, "exec"), namespace)
        assert plt.get_fignums()
        plt.close("all")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_is_kept_without_outputs(path):
    assert all(not cell["outputs"] and cell["execution_count"] is None for cell in code_cells(path))
