"""Lattice recurrent units against other cells at equal numbers of parameters: Ahuja and Morency 2018, Table 1.

    python -m experiments.lattice                                             LRU and GRU on text that every Python carries, no download
    python -m experiments.lattice --preset paper --data.dir DIR               an LRU of 10 M parameters on the Penn Treebank
    python -m experiments.lattice --preset paper --data.dir DIR --data.source ptb_joined     the paper's own cut of it
    python -m experiments.lattice --preset paper --data.file BOOK.txt         War and Peace, or another text of yours
    python -m experiments.lattice --preset grid-lstm-24m --model.cell grid_lstm_depth_first  the grid LSTM of the original code
    python -m experiments.lattice sample RUN_DIRECTORY --prompt "The "        text from a checkpoint

Published, single runs, test loss in nats per character on the joined Penn Treebank (`ptb_joined`), with 10 M and 24 M parameters: LSTM
0.972, 0.968; GRU 0.972, 0.980; grid LSTM 0.970, 0.971; RHN 0.986, 0.979; PS-LRU 0.971, 0.969; RG-LRU 0.971, 0.969; LRU 0.965, 0.967.

Presets read the standard parts of the treebank, on which figures are not comparable with these. They have 401 updates in an epoch, after
each of which they are evaluated; the joined treebank has 421 (`--train.evaluate-every 421`). As in the paper: 250 streams, 50 steps,
Adam at 0.001, times 0.9 after each epoch, no dropout and no clipping, the checkpoint of the best validation loss. Initial states are zero.

Neither the paper nor the original code (chahuja/lru) says how wide networks are, or which have two and which four layers. Here all have two
and the width whose number of parameters is closest to the budget, counted for the 51 symbols of the treebank with one bias for each gate.
`--model.size` sets another, and `--model.initialization glorot` the start that the text of the paper names; presets start as the code does.
The code trains for up to 100 epochs and stops after three that improve validation by less than 0.0001; here three without improvement stop.

The RHN has depth 5 in each layer, and its transform gates start open by half. The grid LSTM is that of the paper's equations; layers are
not tied, as in the code (`--model.shared-layers` ties them, as a footnote of the paper says). The GRU is that of cuDNN.
"""

from dataclasses import replace

from experiments.writing import run_or_sample
from lrpt.analysis.budgets import LanguageModelSize, closest_width
from lrpt.data import NextSymbol
from lrpt.models import ModelConfig
from lrpt.optim import OptimConfig
from lrpt.training.config import RunConfig, TrainConfig
from lrpt.training.experiment import Experiment, Preset

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

BUDGETS = {"10m": 10_000_000, "24m": 24_000_000}
PTB_SYMBOLS = 51
PYTHON_SYMBOLS = 100
"""About as many has the documentation of a Python; each counts twice the width."""
QUICK_BUDGET = 100_000

EPOCH = 401
"""updates in which 250 streams of the treebank's training part are read once, 50 symbols at a time"""


def fields(cell: str, budget: int, symbols: int) -> dict[str, str | int]:
    """What of a model's configuration follows from its cell and a budget of parameters."""
    depth = 5 if cell == "rhn" else 1
    size = closest_width(LanguageModelSize(symbols, cell, depth=depth).parameters, budget).width
    return {"cell": cell, "depth": depth, "size": size, "embedding": size}


PAPER = RunConfig(
    ModelConfig(
        **fields("lru", BUDGETS["10m"], PTB_SYMBOLS),  # type: ignore[arg-type]
        layers=2,
        parametrization="dense",
        carry_bias=0.0,
        trainable_initial_state=False,
        initialization="lru",
    ),
    OptimConfig("adam", decay=0.9),
    TrainConfig(updates=100 * EPOCH, batch_size=250, order="stream", evaluate_every=EPOCH, evaluation_batch=250, patience=3),
    NextSymbol("ptb", reading="stream", steps=50),
)

VARIANTS = {name: fields(MODELS[name], QUICK_BUDGET, PYTHON_SYMBOLS) for name in ("lru", "gru")}

QUICK = RunConfig(
    replace(PAPER.model, **VARIANTS["lru"]),  # type: ignore[arg-type]
    OptimConfig("adam", 5e-3, decay=0.9),
    TrainConfig(updates=600, batch_size=32, order="stream", evaluate_every=100, evaluation_batch=16),
    replace(PAPER.data, source="python"),
)


def _row(name: str, budget: str) -> Preset:
    """A model of Table 1."""
    model = replace(PAPER.model, **fields(MODELS[name], BUDGETS[budget], PTB_SYMBOLS))  # type: ignore[arg-type]
    about = f"{model.label}, {BUDGETS[budget]:,} parameters, on the Penn Treebank"
    return Preset(replace(PAPER, model=model), about, "days on two cores")


EXPERIMENT = Experiment(
    name="lattice",
    about="Predict each character of a text with lattices of two layers.",
    reproduces="Ahuja and Morency 2018, Table 1",
    presets={
        "quick": Preset(QUICK, "LRU and GRU of 100,000 parameters on Python's documentation", "3 minutes on two cores, no download", True),
        "paper": _row("lru", "10m"),
        **{f"{name}-{budget}": _row(name, budget) for budget in BUDGETS for name in MODELS if (name, budget) != ("lru", "10m")},
    },
    variants=VARIANTS,
    closing="""
What you saw: nats lost for each character on the last twentieth of the text, by two networks of two layers and about as many parameters.
`bits_per_character`, in the summary, is the same loss divided by ln 2.

Next:
  python -m experiments.crossing                                         five cells with full and with low-rank matrices
  python -m experiments.lattice sample runs/lattice/quick-lru-seed0      text from a network that you have just trained
  python -m experiments.lattice --preset paper --data.dir DIR            Penn Treebank (DIR: where its files are, or are to go)""",
)

if __name__ == "__main__":
    run_or_sample(EXPERIMENT)
