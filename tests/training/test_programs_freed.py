"""Memory of a process that trains different models one after another: programs and data of those that do not train now are dropped."""

import gc
import weakref
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from tiny import EVEN, changed

from lrpt.devices import compilation
from lrpt.tasks import Adding
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


HELD = []
"""Weak references to the data of all tasks that were built."""


@dataclass(frozen=True)
class Large:
    """A small task with an array that the test can watch."""

    def build(self, seed):
        task, text = Adding(length=5, train_size=16, test_size=8).build(seed), np.zeros(1000, np.uint8)
        HELD.append(weakref.ref(text))
        train = task.splits["train"]
        return replace(task, splits={**task.splits, "train": replace(train, arrays={**train.arrays, "text": text})})


class Counter:
    """An observer that counts the arrays of data in memory."""

    def __init__(self):
        self.alive = []

    def evaluated(self, evaluation):
        gc.collect()
        self.alive.append(sum(array() is not None for array in HELD))


@pytest.mark.slow
def test_programs_that_wait_do_not_hold_their_data(tmp_path):
    """The checks before the first update read the data of all three programs."""
    HELD.clear()
    counter = Counter()
    jobs = [Job(replace(changed(EVEN, model={"size": 4 + k}), data=Large()), 0, tmp_path / str(k)) for k in range(3)]
    fit_all(jobs, observers=[counter])
    assert counter.alive[0] == 1
