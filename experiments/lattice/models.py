"""Models of Ahuja and Morency 2018, their sizes and their training, for `experiments.lattice` and its studies."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from lrpt.analysis.budgets import LanguageModelSize, closest_width, quadratic
from lrpt.datasets.documents import AS_WRITTEN
from lrpt.networks.configuration import InitialConfig, TiedStorageConfig
from lrpt.networks.sequence_model import ModelConfig
from lrpt.optim import OptimConfig
from lrpt.tasks import NextSymbol
from lrpt.training.config import RunConfig, TrainConfig


class Model(NamedTuple):
    """A model of the paper.

    Attributes:
      cell: a name in `lrpt.cells.CELLS`.
      title: its name in tables.
      layers: its number of layers, whatever is asked for (None: as asked for).
      depth: transitions in a step of each layer.
      tied: whether all layers have the same parameters.
    """

    cell: str
    title: str
    layers: int | None = None
    depth: int = 1
    tied: bool = False


RHN_DEPTH = 5

PUBLISHED = {
    "lru": Model("lru", "LRU"),
    "rg-lru": Model("lru_rg", "RG-LRU"),
    "ps-lru": Model("lru_ps", "PS-LRU"),
    "gru": Model("gru_cudnn", "GRU"),
    "lstm": Model("lstm", "LSTM"),
    "grid-lstm": Model("grid_lstm", "Grid-LSTM"),
    "rhn": Model("rhn", "RHN", layers=1, depth=RHN_DEPTH),
}
"""Models of Table 1 by name. The RHN has one layer, as section 4 exempts RHNs from '2 or 4 layers'."""

MODELS = {
    **PUBLISHED,
    "rhn-2-layers": Model("rhn", "RHN, 2 layers", layers=2, depth=RHN_DEPTH),
    "grid-lstm-tied": Model("grid_lstm", "Grid-LSTM, tied", tied=True),
}
"""The models of Table 1 and two others: an RHN with two layers, and a grid LSTM with one set of parameters, as footnote 3 says of it."""

NAMES = {name: model.title for name, model in MODELS.items()}
"""Name of a model -> its name in tables."""

_COUNTED_AS = {"gru_cudnn": "gru", "lstm": "lstm", "grid_lstm": "grid_lstm"}
"""Cells with two biases in each place in the original code, as in cuDNN and PyTorch -> the cell with one bias that is counted."""


def fields(name: str, budget: int, symbols: int, layers: int = 2) -> dict[str, str | int | bool]:
    """Return the settings of a model that follow from its name, a budget of parameters and a number of layers.

    The width is the one whose number of parameters in the original code is closest to the budget. That code has a second bias beside each
    bias of GRUs, LSTMs and grid LSTMs. Two biases represent the same functions, so models here have one.
    """
    cell, _, own, depth, tied = MODELS[name]
    layers = own or layers
    of_layers, of_symbols = _layer_parameters(name, layers), LanguageModelSize(symbols).symbol_parameters
    size = closest_width(lambda width: of_layers(width) + of_symbols(width), budget).width
    shared: dict[str, str | int | bool] = {"shared_layers": True} if tied else {}
    return {"cell": cell, "depth": depth, "layers": layers, "size": size, "embedding": size, **shared}


@cache
def _layer_parameters(name: str, layers: int) -> Callable[[int], int]:
    """Return the function from the width of a model to the number of parameters of its layers. All texts and budgets share it."""
    cell, _, _, depth, tied = MODELS[name]
    counted = LanguageModelSize(0, _COUNTED_AS.get(cell, cell), layers, depth, shared=tied, second_biases=cell in _COUNTED_AS)
    return quadratic(counted.cell_parameters)


START = "lru"
"""Start of the parameters in the original code. The paper says Glorot, which holds for one of its matrices.

See `lrpt.parametrizations.initialization`.
"""

LATTICE = ModelConfig(matrices=TiedStorageConfig("dense"), initial=InitialConfig(START, carry_bias=0.0, trainable_state=False))
"""Settings that all models share."""


def sized(name: str, budget: int, symbols: int, layers: int = 2) -> ModelConfig:
    """Return the network with a name in `MODELS` whose number of parameters is closest to the budget."""
    changes: Mapping[str, object] = fields(name, budget, symbols, layers)
    return replace(LATTICE, **changes)


def name_of(model: Any) -> str:
    """Return the name in `MODELS` of a network that `sized` returned."""
    found = (name for name, own in MODELS.items() if (own.cell, own.tied) == (model.cell, model.shared_layers))
    return next(name for name in found if MODELS[name].layers in (None, model.layers))


class Text(NamedTuple):
    """A text of Table 1.

    Attributes:
      title: its name in sentences.
      symbols: different symbols of its training part, and one for unknown symbols.
      epoch: updates that read its training part once, in 250 streams with windows of 50 symbols.
      source: `--data.source`.
      file: name of its file, unless it is a source; `--data.file` names another one.
    """

    title: str
    symbols: int
    epoch: int
    source: str
    file: Path | None = None

    @property
    def data(self) -> NextSymbol:
        """Return the task that reads it as the original code does."""
        return NextSymbol(self.source, self.file, reading="stream", steps=50, **AS_WRITTEN._asdict())

    @property
    def train(self) -> TrainConfig:
        """Return the training of the paper: evaluations after each epoch. It names no limit; 100 epochs are read off Figure 6."""
        return TrainConfig(
            updates=100 * self.epoch,
            batch_size=250,
            order="stream",
            evaluate_every=self.epoch,
            evaluation_batch=250,
            patience=3,
            test_each=True,
        )


TEXTS = {
    "ptb": Text("the joined Penn Treebank", 51, 428, "ptb_joined"),
    "warpeace": Text("War and Peace", 85, 234, "python", Path("warpeace_input.txt")),
    "enwik8": Text("enwik8", 206, 7_200, "enwik8"),
    "text8": Text("text8", 28, 7_200, "text8"),
}
"""Texts by name, as the original code reads them."""

PTB = TEXTS["ptb"]
PAPER = RunConfig(sized("lru", 10_000_000, PTB.symbols), OptimConfig("adam", decay=0.9), PTB.train, PTB.data)
