"""Successive halving: many trials for few updates, and the best of them for more and more."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeVar


class Rung(NamedTuple):
    """One round.

    Attributes:
      trials: how many are trained.
      updates: up to which update.
    """

    trials: int
    updates: int


def rungs(trials: int, updates: int, evaluate_every: int, keep: int) -> list[Rung]:
    """Return the rounds, of which each keeps one in `keep` trials and trains them `keep` times as long, up to `updates` in the last.

    Rounds end at evaluations, so that a trial which goes on computes the same numbers as one that was never halted. Several rounds that
    would end at one evaluation are one, and the round after it keeps as few trials as if there had been several.
    """
    count = int(math.log(trials, keep) + 1e-9) + 1
    found: list[Rung] = []
    for index in range(count):
        length = updates / keep ** (count - 1 - index)
        until = min(max(round(length / evaluate_every), 1) * evaluate_every, updates) if index < count - 1 else updates
        if found and found[-1].updates >= until:
            continue  # as long as the round before: training would add nothing
        found.append(Rung(math.ceil(trials / keep**index), until))
    return found


def ranked(losses: Mapping[int, float]) -> list[int]:
    """Return the numbers of the trials, the one of the lowest loss first; those without a finite loss come last."""
    return sorted(losses, key=lambda trial: (not math.isfinite(losses[trial]), losses[trial], trial))


Line = TypeVar("Line", bound=Mapping[str, float])


def best_line(lines: Sequence[Line], until: float, counts: Callable[[int], bool]) -> Line | None:
    """Return the evaluation of the lowest validation loss up to an update, whatever was trained after it; None if there is none.

    As long as no evaluation counts, it is the latest one, as for the best state of a run (`lrpt.training.selection`).
    """
    made = [line for line in lines if line["update"] <= until]
    return min((line for line in made if counts(int(line["update"]))), key=lambda line: line["loss"], default=made[-1] if made else None)
