"""Tasks: which examples there are, and how predictions are judged."""

from lrpt.data.images import PermutedImages
from lrpt.data.order import ORDERS, batch_indices, evaluation_batches
from lrpt.data.synthetic import Adding, CopyMemory
from lrpt.data.task import Example, Split, Task

__all__ = ["ORDERS", "Adding", "CopyMemory", "Example", "PermutedImages", "Split", "Task", "batch_indices", "evaluation_batches"]
