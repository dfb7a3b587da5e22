"""What the table of `score` has beside the metrics in one stream."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lrpt.cli.finished import scoring
from lrpt.runs.console import Console


@pytest.mark.parametrize(("state", "recorded"), [("best", [["3 streams, as recorded", "1.25"]]), ("last", [])])
def test_recorded_metrics_are_shown_beside_those_of_the_state_that_they_are_of(state, recorded, monkeypatch):
    """Of the best one. Those of the last state are not recorded."""
    trained: Any = SimpleNamespace(
        config=SimpleNamespace(train=SimpleNamespace(evaluation_rows=4)),
        task=SimpleNamespace(splits={"test": SimpleNamespace(size=3)}),
        label="GRU 4",
        update=7,
    )
    result, rows = {"metrics": {"test": {"loss": 1.25}}}, []
    monkeypatch.setattr(scoring, "score", lambda *_: {"loss": 1.5})
    monkeypatch.setattr(scoring, "RunDirectory", lambda _: SimpleNamespace(result=lambda: result))
    monkeypatch.setattr(Console, "table", lambda _, columns, found, title: rows.extend(found))
    scoring.show_score(scoring.Options(Path("run"), state=state), trained, Console(quiet=True))
    assert rows == [["one stream", "1.5"], *recorded]
