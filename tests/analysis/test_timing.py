"""Timing of several functions: the order of the calls, and what is counted."""

import time

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
