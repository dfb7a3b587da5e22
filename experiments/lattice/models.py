"""The models of Ahuja and Morency 2018, their sizes, and how they train: what `experiments.lattice` and its studies share."""

from collections.abc import Mapping
from dataclasses import replace

from lrpt.analysis.budgets import LanguageModelSize, closest_width, quadratic
from lrpt.networks.configuration import InitialConfig, TiedStorageConfig
from lrpt.networks.sequence_model import ModelConfig
from lrpt.optim import OptimConfig
from lrpt.tasks import NextSymbol
from lrpt.training.config import RunConfig, TrainConfig

MODELS = {
    "lru": "lru",
    "rg-lru": "lru_rg",
    "ps-lru": "lru_ps",
    "gru": "gru_cudnn",
    "lstm": "lstm",
    "grid-lstm": "grid_lstm",
    "rhn": "rhn",
}
"""What the paper calls a model -> its cell."""

NAMES = {"lru": "LRU", "rg-lru": "RG-LRU", "ps-lru": "PS-LRU", "gru": "GRU", "lstm": "LSTM", "grid-lstm": "Grid-LSTM", "rhn": "RHN"}
"""The same as tables print it."""

RHN_DEPTH = 5

_COUNTED_AS = {"gru_cudnn": "gru", "lstm": "lstm", "grid_lstm": "grid_lstm"}
"""Cells that have two biases beside each other in the original code, as cuDNN's and PyTorch's have -> a cell with one, that is counted."""


def fields(cell: str, budget: int, symbols: int, layers: int = 2) -> dict[str, str | int]:
    """What of a model's configuration follows from its cell, a budget of parameters and its layers.

    The width is the one whose number of parameters is closest to the budget in the original code, which has a second bias beside each one
    of GRUs, LSTMs and grid LSTMs. It changes no function, so that ours have one.
    """
    depth = RHN_DEPTH if cell == "rhn" else 1
    counted = LanguageModelSize(symbols, _COUNTED_AS.get(cell, cell), layers, depth, second_biases=cell in _COUNTED_AS)
    size = closest_width(quadratic(counted.parameters), budget).width
    return {"cell": cell, "depth": depth, "layers": layers, "size": size, "embedding": size}


LATTICE = ModelConfig(matrices=TiedStorageConfig("dense"), initial=InitialConfig(carry_bias=0.0, trainable_state=False))
"""What all models have in common."""


def sized(name: str, budget: int, symbols: int, layers: int = 2) -> ModelConfig:
    """The network of a name in `MODELS` whose number of parameters is closest to the budget."""
    changes: Mapping[str, object] = fields(MODELS[name], budget, symbols, layers)
    return replace(LATTICE, **changes)  # type: ignore[arg-type]


PTB_SYMBOLS = 51
EPOCH = 401
"""updates in which 250 streams of the treebank's training part are read once, 50 symbols at a time"""

PAPER = RunConfig(
    sized("lru", 10_000_000, PTB_SYMBOLS),
    OptimConfig("adam", decay=0.9),
    TrainConfig(updates=100 * EPOCH, batch_size=250, order="stream", evaluate_every=EPOCH, evaluation_batch=250, patience=3),
    NextSymbol("ptb", reading="stream", steps=50),
)
