"""Recurrent highway networks in the tables of Zilly et al. 2017, with their printed numbers of parameters.

Widths of Figure 5a are from the authors' README, the width of the embedding is from their TensorFlow code (`rhn.py`). Only printed numbers
are written in this file; `experiments.parameter_table` counts.
"""

from dataclasses import dataclass

from experiments.word_lm import PTB_WIDTHS
from lrpt.networks.configuration import EmbeddingConfig, InitialConfig, TiedStorageConfig
from lrpt.networks.sequence_model import ModelConfig


@dataclass(frozen=True)
class LanguageModelRow:
    """A recurrent highway network between an embedding and a softmax with a bias.

    Attributes:
      where: its place in the paper.
      symbols: V, number of different words or bytes.
      depth: L.
      size: n.
      tied: whether the softmax uses the transposed embedding matrix.
      printed: the number of parameters in the paper or its README; empty if none is printed.
    """

    where: str
    symbols: int
    depth: int
    size: int
    tied: bool = False
    printed: str = ""

    @property
    def embedding(self) -> int:
        """Return e, the width of the embedding.

        It is n, or V if V is below n and the matrices are not tied (`rhn.py`). The authors' Theano and Torch code always uses n.
        """
        return self.symbols if self.symbols < self.size and not self.tied else self.size

    @property
    def config(self) -> ModelConfig:
        """Return the configuration of the network."""
        return ModelConfig(
            "rhn",
            self.size,
            depth=self.depth,
            matrices=TiedStorageConfig("dense"),
            initial=InitialConfig(trainable_state=False),
            embeddings=EmbeddingConfig(self.embedding, tied=self.tied),
        )


def _ptb(tied: bool, printed: dict[int, str]) -> list[LanguageModelRow]:
    where = "Figure 5a" + (", tied" if tied else "")
    return [LanguageModelRow(where, 10_000, depth, size, tied, printed.get(depth, "")) for depth, size in PTB_WIDTHS.items()]


ROWS = [
    *_ptb(tied=False, printed={8: "32 M"}),
    *_ptb(tied=True, printed={5: "22 M", 10: "23 M"}),
    LanguageModelRow("Table 2, enwik8", 205, 5, 1500, printed="23 M"),
    LanguageModelRow("Table 2, enwik8", 205, 10, 1000, printed="21 M"),
    LanguageModelRow("Table 2, enwik8", 205, 10, 1500, printed="46 M"),
    LanguageModelRow("Table 3, text8", 27, 10, 1000, printed="20 M"),
    LanguageModelRow("Table 3, text8", 27, 10, 1500, printed="45 M"),
]
