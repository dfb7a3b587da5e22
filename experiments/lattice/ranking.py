"""Rankings of the LRU by paired seeds: only significant differences are called better or worse."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from experiments.lattice.models import NAMES
from lrpt.analysis.significance import holm, paired
from lrpt.runs.console import in_series


class Gap(NamedTuple):
    """The difference of a model from the LRU on their common seeds.

    Attributes:
      model: its name.
      mean: mean score less that of the LRU; positive if it is worse.
      p: of Student's test on pairs; None with one seed.
      significant: whether p is below 0.05 after the correction of Holm for all models.
    """

    model: str
    mean: float
    p: float | None
    significant: bool


def ranked(scores: Mapping[str, Mapping[int, float]]) -> str:
    """Return a sentence that ranks the LRU among the other models; '' if none of them has a seed in common with it.

    Args:
      scores: model -> seed -> score, lower is better.
    """
    return in_words(gaps(scores)) if "lru" in scores else ""


def gaps(scores: Mapping[str, Mapping[int, float]]) -> list[Gap]:
    """Compare every model with the LRU on their common seeds; `scores` is model -> seed -> score, lower is better."""
    found = []
    for name, own in scores.items():
        seeds = sorted(own.keys() & scores["lru"].keys())
        if name == "lru" or not seeds:
            continue
        one, other = ([of[seed] for seed in seeds] for of in (own, scores["lru"]))
        found.append(Gap(name, float(np.mean(np.subtract(one, other))), paired(one, other), False))
    return [gap._replace(significant=is_so) for gap, is_so in zip(found, holm([gap.p for gap in found]), strict=True)]


def in_words(found: Sequence[Gap]) -> str:
    """Return a sentence that ranks the LRU among the other models, as far as differences are significant."""
    outcomes = {
        "better than": [gap.model for gap in found if gap.significant and gap.mean > 0],
        "worse than": [gap.model for gap in found if gap.significant and gap.mean < 0],
        "not significantly different from": [gap.model for gap in found if gap.p is not None and not gap.significant],
        "not tested with one seed against": [gap.model for gap in found if gap.p is None],
    }
    parts = [f"{outcome} {in_series([NAMES[model] for model in models])}" for outcome, models in outcomes.items() if models]
    tested = " (paired seeds, p < 0.05 after Holm's correction)" if any(gap.p is not None for gap in found) else ""
    return f"the LRU is {'; '.join(parts)}{tested}." if parts else ""
