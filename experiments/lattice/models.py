"""Models of Ahuja and Morency 2018, their sizes and their training, for `experiments.lattice` and its studies."""

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
"""Name of a model in the paper -> its cell."""

NAMES = {"lru": "LRU", "rg-lru": "RG-LRU", "ps-lru": "PS-LRU", "gru": "GRU", "lstm": "LSTM", "grid-lstm": "Grid-LSTM", "rhn": "RHN"}
"""Name of a model in the paper -> its name in tables."""

RHN_DEPTH = 5

_COUNTED_AS = {"gru_cudnn": "gru", "lstm": "lstm", "grid_lstm": "grid_lstm"}
"""Cells with two biases in each place in the original code, as in cuDNN and PyTorch -> the cell with one bias that is counted."""


def fields(cell: str, budget: int, symbols: int, layers: int = 2) -> dict[str, str | int]:
    """Return the settings of a model that follow from its cell, a budget of parameters and its number of layers.

    The width is the one whose number of parameters in the original code is closest to the budget. That code has a second bias beside each
    bias of GRUs, LSTMs and grid LSTMs. Two biases represent the same functions, so models here have one.
    """
    depth = RHN_DEPTH if cell == "rhn" else 1
    counted = LanguageModelSize(symbols, _COUNTED_AS.get(cell, cell), layers, depth, second_biases=cell in _COUNTED_AS)
    size = closest_width(quadratic(counted.parameters), budget).width
    return {"cell": cell, "depth": depth, "layers": layers, "size": size, "embedding": size}


LATTICE = ModelConfig(matrices=TiedStorageConfig("dense"), initial=InitialConfig(carry_bias=0.0, trainable_state=False))
"""Settings that all models share."""


def sized(name: str, budget: int, symbols: int, layers: int = 2) -> ModelConfig:
    """Return the network with a name in `MODELS` whose number of parameters is closest to the budget."""
    changes: Mapping[str, object] = fields(MODELS[name], budget, symbols, layers)
    return replace(LATTICE, **changes)  # type: ignore[arg-type]


PTB_SYMBOLS = 51
EPOCH = 401
"""updates that read the treebank's training part once, in 250 streams with windows of 50 symbols"""

PAPER = RunConfig(
    sized("lru", 10_000_000, PTB_SYMBOLS),
    OptimConfig("adam", decay=0.9),
    TrainConfig(updates=100 * EPOCH, batch_size=250, order="stream", evaluate_every=EPOCH, evaluation_batch=250, patience=3),
    NextSymbol("ptb", reading="stream", steps=50),
)
