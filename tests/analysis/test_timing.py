"""Timing of several functions: the order of the calls, and what is counted."""

from types import SimpleNamespace

from lrpt.analysis.timing import in_turns


def test_rounds_take_turns_and_only_timed_calls_count(monkeypatch):
    """Each call of a function takes the seconds that it is given here."""
    order, clock = [], [0.0]
    monkeypatch.setattr("lrpt.analysis.timing.time", SimpleNamespace(perf_counter=lambda: clock[0]))

    def lasting(name, *seconds):
        left = iter(seconds)

        def function():
            order.append(name)
            clock[0] += next(left)

        return function

    functions = {"slow": lasting("slow", 99, 2, 4, 99, 6, 8), "quick": lasting("quick", 99, 1, 1, 99, 2, 2)}
    found = in_turns(functions, rounds=2, calls=2, untimed=1)
    assert order == 2 * (3 * ["slow"] + 3 * ["quick"])
    assert found == {"slow": [3.0, 7.0], "quick": [1.0, 2.0]}


def test_the_seconds_of_a_round_are_the_mean_of_its_calls(monkeypatch):
    clock = iter([1.0, 7.0, 10.0, 13.0])
    monkeypatch.setattr("lrpt.analysis.timing.time", SimpleNamespace(perf_counter=lambda: next(clock)))
    assert in_turns({"one": int}, rounds=2, calls=3) == {"one": [2.0, 1.0]}
