"""Hyperparameters to search over: ranges and choices, and the trials drawn from them."""

import itertools
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lrpt.errors import UsageError

Trial = dict[str, str]
"""The value of each flag, as the command line has it: {'optim.learning-rate': '0.0031'}."""

FORM = "expected a flag of model, optim, train or data with a range or values, as in optim.learning-rate=1e-4..1e-2 or model.rank=8,24"
ATTEMPTS = 1_000
"""draws that may repeat an earlier trial"""


@dataclass(frozen=True)
class Range:
    """Numbers between two ends, uniform on a logarithmic scale if both are above 0; whole numbers if both ends are."""

    flag: str
    low: float
    high: float
    whole: bool

    @property
    def size(self) -> float:
        """Return the number of values; infinity unless they are whole numbers."""
        return self.high - self.low + 1 if self.whole else math.inf

    def all(self) -> Sequence[str]:
        """Return all values of a range of whole numbers."""
        return [str(value) for value in range(int(self.low), int(self.high) + 1)]

    def draw(self, rng: np.random.Generator) -> str:
        """Draw a whole number, or a number of three significant digits. An end is returned if rounding would leave the range.

        A whole number stands for all numbers that round to it. This includes numbers beyond an end, which would else be drawn too rarely.
        """
        beyond = 0.5 if self.whole else 0.0
        low, high = self.low - beyond, self.high + beyond
        value = math.exp(rng.uniform(math.log(low), math.log(high))) if self.low > 0 else rng.uniform(low, high)
        if self.whole:
            return str(round(min(max(value, self.low), self.high)))
        text = f"{value:.3g}"
        inside = min(max(float(text), self.low), self.high)
        return text if inside == float(text) else str(inside)


@dataclass(frozen=True)
class Choice:
    """Values as they were listed."""

    flag: str
    values: tuple[str, ...]

    @property
    def size(self) -> float:
        """Return the number of values."""
        return len(self.values)

    def all(self) -> Sequence[str]:
        """Return all values."""
        return self.values

    def draw(self, rng: np.random.Generator) -> str:
        """Draw one of the values."""
        return self.values[rng.integers(len(self.values))]


def read(word: str) -> Range | Choice:
    """Return what 'optim.learning-rate=1e-4..1e-2' or 'model.rank=8,24' stands for.

    Raises:
      UsageError: it is neither.
    """
    flag, _, text = word.partition("=")
    flag = flag.replace("_", "-")
    if not re.fullmatch(r"(model|optim|train|data)\.[\w.-]+", flag) or flag in ("train.updates", "train.evaluate-every") or not text:
        raise UsageError(f"over is '{word}': {FORM}; train.updates and train.evaluate-every are those of the halving")
    if "," in text or ".." not in text:
        values = tuple(text.split(","))
        if not all(values) or len(set(values)) < len(values):
            raise UsageError(f"over is '{word}': give each value once")
        return Choice(flag, values)
    try:
        low, high = map(float, text.split(".."))
    except ValueError:
        raise UsageError(f"over is '{word}': {FORM}") from None
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise UsageError(f"over is '{word}': expected two finite numbers, of which the first is the smaller one")
    return Range(flag, low, high, all(re.fullmatch(r"-?\d+", end) for end in text.split("..")))


def draw(space: Sequence[Range | Choice], count: int, seed: int) -> list[Trial]:
    """Return different trials: all of a grid of choices and whole numbers with at most `count` of them, otherwise a random sample.

    The sample has `count` trials, or fewer if `ATTEMPTS` draws in excess of `count` gave too many repetitions. The result depends on the
    arguments alone.
    """
    if math.prod(one.size for one in space) <= count:
        return [dict(zip((one.flag for one in space), values, strict=True)) for values in itertools.product(*(one.all() for one in space))]
    rng = np.random.default_rng(seed)
    trials: list[Trial] = []
    for _ in range(ATTEMPTS + count):
        trial = {one.flag: one.draw(rng) for one in space}
        if trial not in trials:
            trials.append(trial)
        if len(trials) == count:
            break
    return trials
