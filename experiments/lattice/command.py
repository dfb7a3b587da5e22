"""Lattice recurrent units against other cells at equal numbers of parameters: Ahuja and Morency 2018.

    python -m experiments.lattice                                             LRU and GRU on text that every Python carries, no download
    python -m experiments.lattice --preset paper --data.dir DIR               an LRU of 10 M parameters on the Penn Treebank
    python -m experiments.lattice --preset paper --data.dir DIR --data.source ptb_joined     the parts joined, as in the paper
    python -m experiments.lattice --preset paper --data.file BOOK.txt         War and Peace, or another text of yours
    python -m experiments.lattice --preset enwik8 --data.dir DIR              the bytes of enwik8; text8 is a preset too
    python -m experiments.lattice --preset gru-300k --data.dir DIR            at a budget for two cores, on a tenth of the treebank
    python -m experiments.lattice --preset grid-lstm-24m --model.cell grid_lstm_depth_first  the grid LSTM of the original code
    python -m experiments.lattice convergence|efficiency|gradients --help     the studies of Figures 5 to 7 (`experiments.lattice.studies`)
    python -m experiments.lattice sample RUN_DIRECTORY --prompt "The "        text from a checkpoint

Published, single runs, test loss in nats per character on the joined Penn Treebank (`ptb_joined`), with 10 M and 24 M parameters: LSTM
0.972, 0.968; GRU 0.972, 0.980; grid LSTM 0.970, 0.971; RHN 0.986, 0.979; PS-LRU 0.971, 0.969; RG-LRU 0.971, 0.969; LRU 0.965, 0.967.

Losses are not comparable with the published ones even then: this project strips blanks at line ends and folds line ends, and the original
reads both.

The large presets read the standard parts of the treebank. Their losses are not comparable with the published ones either. An epoch has 401
updates, or 421 on the joined treebank (`--train.evaluate-every 421`); evaluations follow each epoch. As in the paper: 250 streams, 50
steps, Adam at 0.001, times 0.9 after each epoch, Glorot's initialization, no dropout and no clipping, the checkpoint of the best validation
loss. Initial states are zero. The code uses another initialization than the paper: `--model.initialization lru`.

Neither the paper nor the original code (chahuja/lru) gives the widths of networks, or says which have two and which four layers. Here all
have two layers, and the width whose number of parameters in the original code is closest to the budget, for the 51 symbols of the treebank.
In that code GRUs, LSTMs and grid LSTMs have two biases in each place, as in cuDNN, which represent the same functions; here they have one.
`--model.size` sets another width. The code trains for up to 100 epochs and stops after three epochs that improve validation by less than
0.0001; here training stops after three epochs without improvement.

The RHN has depth 5 in each layer, and its transform gates start half open. The grid LSTM follows the paper's equations. Layers are not
tied, as in the code (`--model.shared-layers` ties them, as a footnote of the paper says). The GRU is the variant of cuDNN.

The presets of 0.3 M and 1 M parameters are for two cores: 50 streams, and the first tenth of the joined treebank, cut 90/5/5.
"""

from dataclasses import replace

from experiments.lattice.models import MODELS, PAPER, PTB_SYMBOLS, fields, sized
from experiments.lattice.studies import STUDIES
from lrpt.cli.experiment import Experiment, Preset
from lrpt.cli.sampling import OF_TEXT, SAMPLE
from lrpt.optim import OptimConfig
from lrpt.tasks import NextByte
from lrpt.training.config import RunConfig, TrainConfig

BUDGETS = {"10m": 10_000_000, "24m": 24_000_000}
SMALL_BUDGETS = {"300k": 300_000, "1m": 1_000_000}
PYTHON_SYMBOLS = 100
"""Approximate number of symbols in Python's documentation. Each symbol adds parameters of twice the width."""
QUICK_BUDGET = 100_000

BYTES = {"enwik8": 205, "text8": 27}
"""number of different bytes in each text"""
BYTES_EPOCH = 7_200
"""updates that read 90,000,000 bytes once, in 250 streams with windows of 50"""

SMALL_EPOCH = 210
"""updates that read the training part of a tenth of the joined treebank once, in 50 streams"""
SMALL = replace(
    PAPER,
    train=replace(PAPER.train, updates=20 * SMALL_EPOCH, batch_size=50, evaluate_every=SMALL_EPOCH, evaluation_batch=50, patience=3),
    data=replace(PAPER.data, source="ptb_joined", text_share=10.0),
)

VARIANTS = {name: fields(MODELS[name], QUICK_BUDGET, PYTHON_SYMBOLS) for name in ("lru", "gru")}

QUICK = RunConfig(
    sized("lru", QUICK_BUDGET, PYTHON_SYMBOLS),
    OptimConfig("adam", 5e-3, decay=0.9),
    TrainConfig(updates=600, batch_size=32, order="stream", evaluate_every=100, evaluation_batch=16),
    replace(PAPER.data, source="python"),
)


def _row(name: str, budget: str) -> Preset:
    """Return the preset of a model of Table 1."""
    model = sized(name, BUDGETS[budget], PTB_SYMBOLS)
    about = f"{model.label}, {BUDGETS[budget]:,} parameters, on the Penn Treebank"
    return Preset(replace(PAPER, model=model), about, "days on two cores")


def _small(name: str, budget: str) -> Preset:
    """Return the preset of a model of Table 1 at a budget for two cores."""
    model = sized(name, SMALL_BUDGETS[budget], PTB_SYMBOLS)
    about = f"{model.label}, {SMALL_BUDGETS[budget]:,} parameters, on a tenth of the treebank"
    return Preset(replace(SMALL, model=model), about, {"300k": "10 minutes", "1m": "half an hour"}[budget] + " on a core")


def _bytes(source: str) -> Preset:
    """Return the preset of the LRU of 10 M parameters on a text of Wikipedia."""
    model = sized("lru", BUDGETS["10m"], BYTES[source])
    train = replace(PAPER.train, updates=100 * BYTES_EPOCH, evaluate_every=BYTES_EPOCH)
    return Preset(
        RunConfig(model, PAPER.optim, train, NextByte(source)), f"{model.label}, 10,000,000 parameters, on {source}", "days on a GPU"
    )


EXPERIMENT = Experiment(
    name="lattice",
    subcommands={**SAMPLE, **STUDIES},
    **OF_TEXT,
    about="Predict each character of a text with lattices of two layers.",
    reproduces="Ahuja and Morency 2018, Table 1 and Figures 5 to 7",
    presets={
        "quick": Preset(QUICK, "LRU and GRU of 100,000 parameters on Python's documentation", "3 minutes on two cores, no download", True),
        "paper": _row("lru", "10m"),
        **{f"{name}-{budget}": _row(name, budget) for budget in BUDGETS for name in MODELS if (name, budget) != ("lru", "10m")},
        **{f"{name}-{budget}": _small(name, budget) for budget in SMALL_BUDGETS for name in MODELS},
        **{source: _bytes(source) for source in BYTES},
    },
    variants=VARIANTS,
    closing="""
What you saw: nats lost for each character on the last twentieth of the text, by two networks of two layers and about as many parameters.
`bits_per_character`, in the summary, is the same loss divided by ln 2.

Next:
  python -m experiments.lattice convergence                              all seven models: losses, and epochs until the best one
  python -m experiments.crossing                                         five cells with full and with low-rank matrices
  python -m experiments.lattice sample runs/lattice/quick-lru-seed0      text from a network that you have just trained
  python -m experiments.lattice --preset paper --data.dir DIR            Penn Treebank (DIR: where its files are, or are to go)""",
)
