"""Criteria: which values agree with a published one, and which contradict it."""

from collections.abc import Callable
from typing import NamedTuple


class Printed(NamedTuple):
    """A printed score, and which side of it is better.

    Attributes:
      value: as printed.
      decimals: how many are printed.
      lower: whether lower scores are better.
    """

    value: float
    decimals: int
    lower: bool

    def gain(self, value: float) -> float:
        """Return how much better a value is; negative if it is worse."""
        return self.value - value if self.lower else value - self.value

    def is_as_good(self, value: float) -> bool:
        """Return whether a value rounds to the printed score or a better one."""
        half = 0.5 * 10**-self.decimals
        return value < self.value + half if self.lower else value >= self.value - half

    def is_better(self, value: float) -> bool:
        """Return whether a value rounds to a better score than the printed one."""
        return self.gain(value) > 0.5 * 10**-self.decimals


class Criterion(NamedTuple):
    """Conditions under which a value agrees with the published one, or contradicts it.

    Attributes:
      agrees: whether a figure is as good as the published one; it may be None, "never in the updates made".
      contradicts: whether it shows the opposite of the claim.
      printed: the published score, if being at least as good is all that counts.
    """

    agrees: Callable[[float | None], bool]
    contradicts: Callable[[float | None], bool] = lambda value: False
    printed: Printed | None = None


def at_most(published: float, decimals: int) -> Criterion:
    """Agree with values that round to the published one or less at the printed decimals."""
    return _as_good_as(Printed(published, decimals, lower=True))


def at_least(published: float, decimals: int) -> Criterion:
    """Agree with values that round to the published one or more at the printed decimals."""
    return _as_good_as(Printed(published, decimals, lower=False))


def _as_good_as(printed: Printed) -> Criterion:
    return Criterion(lambda value: value is not None and printed.is_as_good(value), printed=printed)


def by(update: int) -> Criterion:
    """Agree with events up to the evaluation at the published number of updates, since they came before that evaluation."""
    return Criterion(lambda value: value is not None and value <= update)


def happens() -> Criterion:
    """Agree with events within the updates of the claim, if the paper prints no number."""
    return Criterion(lambda value: value is not None)


def never() -> Criterion:
    """Agree if the event never happens, as the paper says of a failure; an event contradicts it."""
    return Criterion(lambda value: value is None, lambda value: value is not None)


def fails(baseline: float, share: float) -> Criterion:
    """Agree with values above the worst baseline by more than a share of it; a value as low as the baseline contradicts the failure.

    A failure ends at a random value, so that the published one is no measure of it.
    """
    limit = baseline * (1 + share)
    return Criterion(lambda value: value is not None and value > limit, lambda value: value is not None and value <= baseline)


def below(published: float) -> Criterion:
    """Agree with values that are lower than one that the paper calls worse."""
    return Criterion(lambda value: value is not None and value < published)


def near(published: float, tolerance: float) -> Criterion:
    """Agree with values within an absolute tolerance of the published one."""
    return Criterion(lambda value: value is not None and abs(value - published) <= tolerance)
