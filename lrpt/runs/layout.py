"""Names of the files of a run, and how run directories are found."""

import os
from collections.abc import Iterator
from pathlib import Path

CONFIG, ENVIRONMENT, METRICS, RESULT, FAILURE = "config.json", "environment.json", "metrics.jsonl", "result.json", "failure.json"
CHECKPOINTS, FIGURES, TASK = "checkpoints", "figures", "task.json"
"""Names in a run directory."""

OLDER = ".older"
"""Ending of a run directory that was moved aside because an unpacked archive had more updates."""

RUN = "run"
"""The field of `config.json` and `result.json` that identifies the run."""


def folders(root: Path) -> Iterator[tuple[Path, list[str], list[str]]]:
    """Yield `root` and the folders below it that may hold a run, as `os.walk` does. Leave out those inside a run, and replaced runs.

    The caller may shorten the list of names of inner folders, and they are left out, too.
    """
    # Not rglob, which fails where a run in progress removes a checkpoint that it is about to enter.
    for folder, inner, files in os.walk(root):
        inner[:] = sorted(name for name in inner if name not in (CHECKPOINTS, FIGURES) and not name.endswith(OLDER))
        yield Path(folder), inner, files


def run_directories(root: Path, file: str = CONFIG) -> list[Path]:
    """Return the run directories below `root` that hold a file, `root` itself included, by name."""
    return sorted(folder for folder, _, files in folders(root) if file in files)
