"""Tasks: data splits, and the metrics computed on them."""

from lrpt.datasets.vocabulary import ByteVocabulary, Vocabulary, WordVocabulary
from lrpt.tasks.bits import NextBit
from lrpt.tasks.bytes import NextByte
from lrpt.tasks.chorales import Chorales
from lrpt.tasks.images import ImageVectors, PermutedImages
from lrpt.tasks.labelled import LabelledSequences
from lrpt.tasks.music import NextNote
from lrpt.tasks.order import ORDERS, batch_indices, evaluation_batches, evaluation_streams
from lrpt.tasks.synthetic import Adding, CopyMemory
from lrpt.tasks.task import Example, Split, Task
from lrpt.tasks.text import NextSymbol
from lrpt.tasks.words import NextWord

__all__ = [
    "ORDERS",
    "Adding",
    "ByteVocabulary",
    "Chorales",
    "CopyMemory",
    "Example",
    "ImageVectors",
    "LabelledSequences",
    "NextBit",
    "NextByte",
    "NextNote",
    "NextSymbol",
    "NextWord",
    "PermutedImages",
    "Split",
    "Task",
    "Vocabulary",
    "WordVocabulary",
    "batch_indices",
    "evaluation_batches",
    "evaluation_streams",
]
