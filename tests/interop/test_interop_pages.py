"""The code of the pages about other frameworks and about parametrizations runs."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.slow
@pytest.mark.parametrize("page", ["flax", "pytorch", "parametrizations"])
@pytest.mark.usefixtures("tables")
def test_python_blocks_run(page):
    path = DOCS / f"{page}.md"
    blocks = re.findall(r"```python\n(.*?)```", path.read_text(), re.DOTALL)
    assert blocks
    names: dict = {"__name__": page}
    exec(compile("\n".join(blocks), str(path), "exec"), names)
    if page == "flax":
        assert names["value"] < 0.4
        assert names["recoveries"](names["state"]) == 0
