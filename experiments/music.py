"""Units that decide how much to compute, on melodies: Jernite et al. 2017, section 5.1.

    python -m experiments.music                                       a VCRNN and an RNN on melodies that are drawn, no download
    python -m experiments.music --preset paper --data.dir DIR         a VCRNN of 500 units on O'Neill's "Music of Ireland"
    python -m experiments.music --preset paper --data.file FOLDER     your tunes in ABC notation
    python -m experiments.music schedule RUN_DIRECTORY                m_t by symbol; also: hard, timing

Published, single runs on 19,511 tunes of thesession.org in 730 symbols, test perplexity with the size of the Elman network of as many
operations: RNN-200 9.13, RNN-250 8.70, VCRNN-500 8.51 (233). O'Neill's 2,006 tunes are others: a tenth as many, in some 400 symbols.

Settings that the paper does not print are those of `experiments.variable_computation`, with a target of 0.4. Epochs are short here. From
the tenth on the mask is as sharp as it will be.
"""

from dataclasses import replace

from experiments.scheduling import train_or_inspect
from experiments.variable_computation import network
from lrpt.data import NextNote
from lrpt.optim import OptimConfig
from lrpt.training.config import RunConfig, TrainConfig
from lrpt.training.experiment import Experiment, Preset

EPOCH = 132
"""updates in which 32 streams of O'Neill's tunes for training are read once, 50 symbols at a time"""

PAPER = RunConfig(
    network("vcrnn", 500, target=0.4),
    OptimConfig("char_lm"),
    TrainConfig(updates=30 * EPOCH, batch_size=32, order="stream", evaluate_every=EPOCH, evaluation_batch=16),
    NextNote("irish", steps=50),
)

QUICK = RunConfig(
    network("vcrnn", 64, target=0.3, sharpness=0.2, sharpness_growth=0.05),
    OptimConfig("char_lm", 3e-3),
    TrainConfig(updates=400, batch_size=32, order="stream", evaluate_every=50, evaluation_batch=16),
    NextNote("drawn", steps=50),
)


def _rnn(size: int) -> Preset:
    model = network("elman", size)
    return Preset(replace(PAPER, model=model), f"{model.label} on O'Neill's tunes", "minutes on two cores")


EXPERIMENT = Experiment(
    name="music",
    about="Predict each note, rest and bar of a melody with units that decide in each step how much of their state to update.",
    reproduces="Jernite et al. 2017, Table 1 (subcommand schedule: m by symbol)",
    presets={
        "quick": Preset(QUICK, "VCRNN and RNN on melodies that are drawn", "a minute on two cores, no download", compare=True),
        "paper": Preset(PAPER, "VCRNN 500, target 0.4, on O'Neill's tunes", "an hour on two cores"),
        **{f"rnn-{size}": _rnn(size) for size in (200, 250)},
    },
    variants={"vcrnn": {}, "rnn": {"cell": "elman", "size": 32, "embedding": 32}},
    score="perplexity",
    closing="""
What you saw: perplexity of symbols of melodies, by a unit of 64 dimensions that updates some of them in each step, and by a usual one that
does about as many multiplications.

Next:
  python -m experiments.music schedule runs/music/quick-vcrnn-seed0     how much it computes at notes, rests and bars
  python -m experiments.music --preset paper --data.dir DIR             the tunes of a book (DIR: where its files are, or are to go)""",
)

if __name__ == "__main__":
    train_or_inspect(EXPERIMENT)
