"""The Conditional RNN of Bojanowski et al. 2015: two levels, the slow one with given ends of words or characters.

    python -m experiments.conditional                                      characters with words, of text that every Python carries
    python -m experiments.conditional --data.file BOOK.txt                 a text of yours
    python -m experiments.conditional --preset paper --data.dir DIR        500-500 on characters of the Penn Treebank
    python -m experiments.conditional --preset bits --data.dir DIR         100-100 on its bits, with characters

Published, as baselines in Table 3 of Jernite et al. 2017: CRNN-500 on characters, 1.46 bits per character, with the operations of an Elman
network of 700 units; CRNN-100 on bits, 0.222 bits per bit, with those of 140 units. One size is printed; that both levels have it fits
these operations. No settings are printed. The optimizer is the one of the other models of this project on these texts, but its learning
rate is constant: this network still improves when theirs falls. Windows and the initialization are this project's choice, too. A word has
its own vector if it occurs at least twice in the training split, which is the default in the authors' code.
"""

from dataclasses import replace
from typing import Any

from experiments.variable_computation import EPOCH
from lrpt.cli.command import main
from lrpt.cli.experiment import Experiment, Preset
from lrpt.networks.conditional import ConditionalConfig
from lrpt.networks.configuration import StorageConfig
from lrpt.optim import OptimConfig
from lrpt.tasks import NextBit, NextSymbol
from lrpt.training.config import RunConfig, TrainConfig

QUICK = RunConfig(
    ConditionalConfig(100, 200, matrices=StorageConfig(rank=24)),
    OptimConfig("char_lm", 5e-3),
    TrainConfig(updates=1_000, batch_size=32, order="stream", evaluate_every=200, evaluation_batch=16),
    NextSymbol("python", reading="stream", steps=50, words=2),
)

CHARACTERS_MODEL, BITS_MODEL = ConditionalConfig(500), ConditionalConfig(100)
"""Networks of Table 3."""

PAPER = RunConfig(
    CHARACTERS_MODEL,
    OptimConfig("char_lm"),
    TrainConfig(updates=20 * EPOCH, batch_size=32, order="stream", evaluate_every=EPOCH, evaluation_batch=32),
    NextSymbol("ptb", reading="stream", steps=50, words=2),
)

BITS = RunConfig(
    BITS_MODEL,
    OptimConfig("char_lm"),
    TrainConfig(updates=20 * 2 * EPOCH, batch_size=32, order="stream", evaluate_every=2 * EPOCH, evaluation_batch=32),
    NextBit("ptb", steps=200, characters=True),
)
QUICK_BITS = replace(
    QUICK, model=replace(QUICK.model, slow_size=None), data=NextBit(steps=200, characters=True), train=replace(QUICK.train, updates=600)
)

EXPERIMENT: Experiment[Any] = Experiment(
    name="conditional",
    about="Predict each character, or bit, of a text with a second level that steps once for each word, or character.",
    reproduces="Jernite et al. 2017, Table 3 (the CRNN)",
    presets={
        "quick": Preset(QUICK, "CRNN and LRD-CRNN on characters of Python's documentation, no download", compare=True),
        "quick-bits": Preset(QUICK_BITS, "CRNN 100-100 on bits of Python's documentation, no download"),
        "paper": Preset(PAPER, "CRNN 500-500 on characters of the Penn Treebank"),
        "bits": Preset(BITS, "CRNN 100-100 on bits of the Penn Treebank"),
    },
    variants={"crnn": {}, "lrd": {"parametrization": "low_rank_plus_diagonal"}},
    score="bits_per_character",
    closing="""
What you saw: bits per character on the last twentieth of the text, for two networks with a level for characters and one for words, which
differ in how their recurrent matrices are stored.

Next:
  python -m experiments.conditional --preset quick-bits               levels for bits and for characters
  python -m experiments.conditional --preset paper --data.dir DIR     Penn Treebank (DIR: where its files are, or are to go)""",
)

if __name__ == "__main__":
    main(EXPERIMENT)
