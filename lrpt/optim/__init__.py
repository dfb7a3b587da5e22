"""Optimizers: the papers' update rules as optax transformations, and one named recipe per task."""

from lrpt.optim.recipes import RECIPES, OptimConfig, Recipe, rmsprop_2016
from lrpt.optim.schedules import halve_when_stalled, never_stalled, stalled_for_good
from lrpt.optim.transforms import (
    ShrinkState,
    by_part,
    clip_all_but_first_seven,
    clip_by_norm_or_shrink,
    clip_or_shrink,
    clip_parts_or_shrink,
    project_rows,
    recoveries,
    shrink_after,
)

__all__ = [
    "RECIPES",
    "OptimConfig",
    "Recipe",
    "ShrinkState",
    "by_part",
    "clip_all_but_first_seven",
    "clip_by_norm_or_shrink",
    "clip_or_shrink",
    "clip_parts_or_shrink",
    "halve_when_stalled",
    "never_stalled",
    "project_rows",
    "recoveries",
    "rmsprop_2016",
    "shrink_after",
    "stalled_for_good",
]
