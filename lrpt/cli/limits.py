"""Estimates of what a command asks for, before anything of it is made."""

from lrpt.errors import UsageError

RUNS = 10_000
"""runs of one command"""


def check_runs(count: int, huge: bool) -> None:
    """Raise a UsageError if a command asks for too many runs."""
    if count > RUNS and not huge:
        raise UsageError(f"{count:,} runs are asked for, and the limit is {RUNS:,}: ask for fewer, or add --huge to go on")
