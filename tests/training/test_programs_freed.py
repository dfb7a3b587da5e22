"""Memory of a process that trains different models one after another: the programs of those that are done are dropped."""

from pathlib import Path

import pytest
from tiny import EVEN, changed

from lrpt.devices import compilation
from lrpt.training.loop import Job, fit_all

MAPPED = Path("/proc/self/maps")


@pytest.mark.slow
@pytest.mark.skipif(not MAPPED.exists(), reason="counts pieces of memory as Linux lists them")
def test_programs_of_earlier_models_are_dropped(tmp_path, monkeypatch):
    """A program is at least one piece of memory, and every model has several programs."""
    pieces, free = [], compilation.free_programs

    def counted():
        before = len(MAPPED.read_bytes().splitlines())
        free()
        pieces.append((before, len(MAPPED.read_bytes().splitlines())))

    monkeypatch.setattr(compilation, "free_programs", counted)
    fit_all([Job(changed(EVEN, model={"size": 4 + k}), 0, tmp_path / str(k)) for k in range(9)])
    made = [before - after for before, after in pieces]
    assert len(pieces) == 8
    assert min(made) > 50
    assert pieces[-1][1] - pieces[2][1] < min(made) / 2
