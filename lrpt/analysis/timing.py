"""Wall time of functions that are compared with each other on one machine."""

import time
from collections.abc import Callable, Hashable, Mapping
from typing import Any, TypeVar

import jax

Name = TypeVar("Name", bound=Hashable)


def in_turns(contenders: Mapping[Name, Callable[[], Any]], rounds: int, calls: int = 1, untimed: int = 0) -> dict[Name, list[float]]:
    """Return the seconds of a call of each function, one value for each round.

    A round runs all functions one after another, so that a disturbance of the machine falls on all of them.

    Args:
      contenders: functions without arguments, already compiled.
      rounds: number of rounds.
      calls: timed calls of a function in each round; the value is their mean.
      untimed: calls before those, so that no function pays for what the one before left in caches and threads.
    """
    seconds: dict[Name, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, run in contenders.items():
            _repeat(run, untimed)
            began = time.perf_counter()
            _repeat(run, calls)
            seconds[name].append((time.perf_counter() - began) / calls)
    return seconds


def _repeat(run: Callable[[], Any], times: int) -> None:
    for _ in range(times):
        jax.block_until_ready(run())
