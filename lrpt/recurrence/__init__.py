"""Recurrence: a cell over time, and the loops that can run it."""

from lrpt.recurrence.deferred import fast
from lrpt.recurrence.loops import BY_RULE, Loop, Pack, Step, Store, Tuning, checkpoint, plain
from lrpt.recurrence.over_time import KERNEL, LOOPS, Outputs, recur
from lrpt.recurrence.packing import RowWise

__all__ = [
    "BY_RULE",
    "KERNEL",
    "LOOPS",
    "Loop",
    "Outputs",
    "Pack",
    "RowWise",
    "Step",
    "Store",
    "Tuning",
    "checkpoint",
    "fast",
    "plain",
    "recur",
]
