"""Tasks: which examples there are, and how predictions are judged."""

from lrpt.data.bits import NextBit
from lrpt.data.bytes import NextByte
from lrpt.data.chorales import Chorales
from lrpt.data.images import ImageVectors, PermutedImages
from lrpt.data.music import NextNote
from lrpt.data.order import ORDERS, batch_indices, evaluation_batches, evaluation_streams
from lrpt.data.synthetic import Adding, CopyMemory
from lrpt.data.task import Example, Split, Task
from lrpt.data.text import NextSymbol
from lrpt.data.vocabulary import ByteVocabulary, Vocabulary, WordVocabulary
from lrpt.data.words import NextWord

__all__ = [
    "ORDERS",
    "Adding",
    "ByteVocabulary",
    "Chorales",
    "CopyMemory",
    "Example",
    "ImageVectors",
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
