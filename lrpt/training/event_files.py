"""Event files of TensorBoard, written while a run trains (`--log tensorboard`)."""

import math
from pathlib import Path
from typing import Any

from lrpt.errors import UsageError
from lrpt.training.observers import Evaluation

FOLDER = "tensorboard"
"""Folder of a run directory with its event files."""


class EventFiles:
    """An observer that adds the metrics of each evaluation to the run's event files, under the tags 'train/loss', 'valid/loss' and so on.

    Raises:
      UsageError: TensorBoard is not installed.
    """

    def __init__(self) -> None:
        try:
            from tensorboard.summary import Writer  # an extra  # pyright: ignore[reportMissingImports]
        except ImportError:
            raise UsageError("log is tensorboard, which is not installed: pip install -e '.[tensorboard]'") from None
        self._open, self._writers = Writer, dict[Path, Any]()

    def evaluated(self, evaluation: Evaluation) -> None:
        """Add one point to each curve, and write it to disk."""
        if evaluation.path not in self._writers:
            self._writers[evaluation.path] = self._open(str(evaluation.path / FOLDER))
        writer = self._writers[evaluation.path]
        for split, metrics in evaluation.metrics.items():
            for name, value in metrics.items():
                if value is not None and math.isfinite(value):
                    writer.add_scalar(f"{split}/{name}", value, evaluation.update)
        writer.flush()

    def ended(self, path: Path) -> None:
        """Close the event files of a run: each open writer has a file and a thread."""
        if path in self._writers:
            self._writers.pop(path).close()
