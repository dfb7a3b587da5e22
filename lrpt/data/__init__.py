"""Tasks: which examples there are, and how predictions are judged."""

from lrpt.data.images import ImageVectors, PermutedImages
from lrpt.data.order import ORDERS, batch_indices, evaluation_batches, evaluation_streams
from lrpt.data.synthetic import Adding, CopyMemory
from lrpt.data.task import Example, Split, Task
from lrpt.data.text import NextSymbol
from lrpt.data.vocabulary import Vocabulary

__all__ = [
    "ORDERS",
    "Adding",
    "CopyMemory",
    "Example",
    "ImageVectors",
    "NextSymbol",
    "PermutedImages",
    "Split",
    "Task",
    "Vocabulary",
    "batch_indices",
    "evaluation_batches",
    "evaluation_streams",
]
