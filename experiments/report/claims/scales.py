"""Scales of the runs that claims are judged by, and the seeds of each model."""

from typing import Literal

Scale = Literal["published", "smaller", "all"]
"""Which runs of a claim are planned: those of published size, those that stand in for them, or both."""

SEEDS = (0, 1, 2)
"""of each model, unless a study has its own"""
