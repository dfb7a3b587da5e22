"""Timing of several functions: the order of the calls, and what is counted."""

import time
from types import SimpleNamespace

from lrpt.analysis.timing import in_turns


def test_rounds_take_turns_and_only_timed_calls_count():
    order = []

    def slow():
        order.append("slow")
        time.sleep(0.01)

    found = in_turns({"slow": slow, "quick": lambda: order.append("quick")}, rounds=2, calls=2, untimed=1)
    assert order == 2 * (3 * ["slow"] + 3 * ["quick"])
    assert all(len(seconds) == 2 for seconds in found.values())
    assert min(found["slow"]) >= 0.01 > max(found["quick"])


def test_the_seconds_of_a_round_are_the_mean_of_its_calls(monkeypatch):
    clock = iter([1.0, 7.0, 10.0, 13.0])
    monkeypatch.setattr("lrpt.analysis.timing.time", SimpleNamespace(perf_counter=lambda: next(clock)))
    assert in_turns({"one": int}, rounds=2, calls=3) == {"one": [2.0, 1.0]}
