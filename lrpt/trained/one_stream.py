"""Loss of a language model on a whole split, read as one uninterrupted stream."""

from dataclasses import replace

import numpy as np

from lrpt.errors import UsageError, check_choice
from lrpt.tasks.task import Split, Task
from lrpt.tasks.text import as_split, windows
from lrpt.trained.loading import Loaded
from lrpt.training.program import evaluator_of_one

WINDOW = 200
"""symbols that a compiled step reads at once"""


def score(trained: Loaded, split: str = "test", window: int = WINDOW) -> dict[str, float]:
    """Compute the metrics of a network without dropout on a split, with one state that is carried from its first symbol to its last.

    Evaluation during training cuts a split into as many streams as `train.evaluation_batch` says, and each but the first begins in the
    initial state. The final numbers of Zilly et al. 2017 are those of one stream (`rhn_train.py`: batches of 1, one step at a time), as
    are those of Gal and Ghahramani 2016. Every symbol of the split counts; the input of its first prediction is symbol 0.

    Args:
      trained: a network that reads one stream.
      split: 'train', 'valid' or 'test'.
      window: number of symbols that are read at once. The metrics do not depend on it, but for rounding.

    Raises:
      UsageError: the network reads no stream of symbols, there is no such split, or the window is below 1.
    """
    task = trained.task
    if not (task.streams and isinstance(task.splits["train"].arrays, dict) and "text" in task.splits["train"].arrays):
        raise UsageError(f"{trained.path} holds a run that reads no stream of symbols: name a run of a language model with a stream")
    check_choice("split", split, tuple(task.splits))
    if window < 1:
        raise UsageError(f"window is {window}: expected 1 or more")
    whole = in_windows(task.splits[split], window)
    evaluated: Task = replace(task, splits={**task.splits, split: whole})
    return evaluator_of_one(trained.model, evaluated, split, batch=1)(trained.variables)


def in_windows(split: Split, window: int) -> Split:
    """Return the split of the same text in windows of another length, of which the last one may be shorter."""
    padding = int(np.max(split.arrays["lengths"]))  # `as_split` pads the longest excerpt behind the text, and one symbol in front
    text = np.asarray(split.arrays["text"])[1:-padding]
    read = np.asarray(split.arrays["read"])[1:-padding] if "read" in split.arrays else None
    return as_split(text, *windows("whole", text.size, window), read)
