"""Character language models: Miceli Barone 2018, section 3.4 and Table 2.

    python -m experiments.char_lm                                      three models on text that every Python carries, nothing to download
    python -m experiments.char_lm --data.file BOOK.txt                 a text of yours
    python -m experiments.char_lm --preset paper --data.dir DIR        Penn Treebank

Published, single runs, test perplexity per character as the mean over sentences (`sentence_perplexity` here; what others call perplexity is
`perplexity`): without dropout GRU 1000: 2.96; LRD-GRU 1000/64 untied: 2.92, tied: 2.90; LRD-GRU 3298/128 untied: 2.95. The rows with
dropout and those of LSTMs have no preset yet.
"""

from dataclasses import replace

from lrpt.data import NextSymbol
from lrpt.models import ModelConfig
from lrpt.optim import OptimConfig
from lrpt.training.command import main
from lrpt.training.config import RunConfig, TrainConfig
from lrpt.training.experiment import Experiment, Preset

QUICK = RunConfig(
    ModelConfig(cell="gru_reset_after", size=256, rank=16, carry_bias=0.0),
    OptimConfig("char_lm", 5e-3),
    TrainConfig(updates=1_500, batch_size=32, order="stream", evaluate_every=250, evaluation_batch=16),
    NextSymbol("python", reading="stream", steps=50),
)

PAPER = RunConfig(
    ModelConfig(cell="gru_reset_after", size=1000, rank=64, carry_bias=0.0, trainable_initial_state=False),
    OptimConfig("char_lm"),
    TrainConfig(updates=200_000, batch_size=32, evaluate_every=5_000, evaluation_batch=128),
    NextSymbol("ptb"),
)


def _row(about: str, **model: object) -> Preset[NextSymbol]:
    return Preset(replace(PAPER, model=replace(PAPER.model, **model)), f"{about} on the Penn Treebank", "days on two cores")


EXPERIMENT = Experiment(
    name="char_lm",
    about="Predict each character of a text from those before it.",
    reproduces="Miceli Barone 2018, Table 2, the GRUs without dropout",
    presets={
        "quick": Preset(QUICK, "GRU, LR-GRU and LRD-GRU on Python's documentation", "some minutes on two cores, no download", compare=True),
        "paper": _row("LRD-GRU 1000/64 untied"),
        "lrd-1000-64-tied": _row("LRD-GRU 1000/64 tied", tied=True),
        "gru-1000": _row("GRU 1000", parametrization="dense"),
        "lrd-3298-128": _row("LRD-GRU 3298/128 untied", size=3298, rank=128),
    },
    variants={
        "gru": {"parametrization": "dense"},
        "lr": {"parametrization": "low_rank"},
        "lrd": {"parametrization": "low_rank_plus_diagonal"},
    },
    score="bits_per_character",
    closing="""
What you saw: bits per character on the last twentieth of the text, for three GRUs with a state of 256 that differ only in how their
recurrent matrices are stored. The state is carried from window to window.

Next:
  python -m experiments.char_lm --data.file BOOK.txt              a text of yours
  python -m experiments.char_lm --preset paper --data.dir DIR     Penn Treebank, as in Table 2 (DIR: where its files are, or are to go)""",
)

if __name__ == "__main__":
    main(EXPERIMENT)
