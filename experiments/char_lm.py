"""Character language models: Miceli Barone 2018, section 3.4 and Table 2.

    python -m experiments.char_lm                                       three models on text that every Python carries, nothing to download
    python -m experiments.char_lm --data.file BOOK.txt                  your own text
    python -m experiments.char_lm sample runs/char_lm/quick-lrd-seed0   text from a network that you have just trained
    python -m experiments.char_lm --preset paper --data.dir DIR         Penn Treebank
    python -m experiments.char_lm sample RUN_DIRECTORY --prompt "The "  text from a checkpoint
    python -m experiments.char_lm score RUN_DIRECTORY --split test      loss of an LSTM in one uninterrupted stream

Published, test perplexity per character. For GRUs the code takes the mean over sentences (`sentence_perplexity` here;
`perplexity` is the definition of the text): GRU 1000: 2.96, with dropout 2.92; GRU 3298 with dropout: 2.77; LRD-GRU without dropout 1000/64
untied: 2.92, tied: 2.90, 3298/128: 2.95; with dropout 3298/128: 2.86, 5459/64 untied: 2.82, tied: 2.81, tied 4480/128: 2.86, tied 6985/64:
2.76; LR-GRU with dropout, tied 6985/64: 9.88. LSTMs read other symbols in one stream, so their `perplexity` cannot be compared with the
values of GRUs: LSTM 1000: 2.92, LRD-LSTM 1740/300: 2.86, both with dropout.

Settings that the paper leaves open follow the original code:

- dl4mt-lm: its initialization; dropout of symbols (0.1, by position, together with the biases of the gates), of states (0.5) and of outputs
  (0.5); its patience of ten evaluations. Each gate has its own mask of states. Tied gates share one mask, and so do both gates of a dense
  GRU, but not its candidate.
- lowrank-lstm: its streams, initialization and dropout (0.3, 0.3, 0.5). It trains for 55 epochs of 6,910 updates; the 385,000 updates here
  are 55.7 epochs.

The paper says of the dropout of GRUs "as in Sennrich et al. (2016)". Their code, Nematus, has one mask for both gates and one for the
candidate (`--model.gate-masks candidate_apart`), and masks of embeddings that are shared over time. dl4mt-lm has the former for dense GRUs
only, and the latter not at all.

Differences: lowrank-lstm reads the test split in one stream, as the subcommand `score`, here in 20, which takes a twentieth of the time.
It tests the network of the last epoch, also with Monte Carlo dropout, here the network of the lowest validation loss is tested. dl4mt-lm
reads sentences in the order of the file in every epoch, here each epoch has its own order. It may train for 5,000 epochs, here for 200,000
updates. Its Adam has the constant in another place (`--optim.recipe char_lm_original`).
"""

from dataclasses import replace
from typing import Any

from lrpt.cli.command import main
from lrpt.cli.experiment import GRU_VARIANTS, Experiment, Preset
from lrpt.cli.finished.sampling import SAMPLE, TEXT_HOOKS
from lrpt.cli.finished.scoring import SCORE
from lrpt.networks.configuration import InitialConfig, TiedStorageConfig
from lrpt.networks.dropout import DropoutConfig
from lrpt.networks.sequence_model import ModelConfig
from lrpt.optim import OptimConfig
from lrpt.tasks import NextSymbol
from lrpt.training.config import RunConfig, TrainConfig

QUICK = RunConfig(
    ModelConfig(
        cell="gru_reset_after", size=256, matrices=TiedStorageConfig("low_rank_plus_diagonal", 16), initial=InitialConfig(carry_bias=0.0)
    ),
    OptimConfig("char_lm", 5e-3),
    TrainConfig(updates=1_500, batch_size=32, order="stream", evaluate_every=250, evaluation_batch=16),
    NextSymbol("python", reading="stream", steps=50),
)

PAPER = RunConfig(
    ModelConfig(
        "gru_reset_after",
        1000,
        matrices=TiedStorageConfig("low_rank_plus_diagonal", 64),
        initial=InitialConfig("dl4mt", carry_bias=0.0, trainable_state=False),
    ),
    OptimConfig("char_lm"),
    TrainConfig(updates=200_000, batch_size=32, evaluate_every=5_000, evaluation_batch=128, patience=11),
    NextSymbol("ptb"),
)

LSTM = RunConfig(
    ModelConfig(
        "lstm",
        1000,
        matrices=TiedStorageConfig("dense"),
        initial=InitialConfig("uniform", carry_bias=0.0, trainable_state=False),
        dropout=DropoutConfig(words=0.3, states=0.3, outputs=0.5),
    ),
    OptimConfig("char_lstm", summed_steps=35),
    # An epoch has 6,910 updates: 4,837,402 symbols in 20 streams with windows of 35. So these are 55.7 epochs, evaluated every 1.01.
    TrainConfig(updates=385_000, batch_size=20, order="stream", evaluate_every=7_000, evaluation_batch=20),
    NextSymbol("ptb", tokens="lstm", reading="stream", steps=35),
)

DROPOUT = {"word_dropout": 0.1, "drop_biases": True, "state_dropout": 0.5, "output_dropout": 0.5}


def _row(size: int, rank: int | None = None, kind: str = "low_rank_plus_diagonal", *, tied: bool = False, dropout: bool = False) -> Preset:
    """Return the preset of a GRU of Table 2."""
    structure = {"parametrization": "dense"} if rank is None else {"parametrization": kind, "rank": rank, "tied": tied}
    masks = "shared" if tied else "candidate_apart" if rank is None else "each"
    regularization = {**DROPOUT, "gate_masks": masks} if dropout else {}
    model = replace(PAPER.model, size=size, **structure, **regularization)
    return Preset(replace(PAPER, model=model), f"{model.label.replace(' (reset after)', '')} on the Penn Treebank")


def _lstm_row(**model: Any) -> Preset:
    config = replace(LSTM, model=replace(LSTM.model, **model))
    return Preset(config, f"{config.model.label} on the Penn Treebank, in 20 streams")


EXPERIMENT = Experiment(
    name="char_lm",
    subcommands={**SAMPLE, **SCORE},
    **TEXT_HOOKS,
    about="Predict each character of a text from the characters before it.",
    reproduces="Miceli Barone 2018, Table 2",
    presets={
        "quick": Preset(QUICK, "GRU, LR-GRU and LRD-GRU on Python's documentation, no download", compare=True),
        "paper": _row(1000, 64),
        "lrd-1000-64-tied": _row(1000, 64, tied=True),
        "gru-1000": _row(1000),
        "gru-1000-dropout": _row(1000, dropout=True),
        "gru-3298-dropout": _row(3298, dropout=True),
        "lrd-3298-128": _row(3298, 128),
        "lrd-3298-128-dropout": _row(3298, 128, dropout=True),
        "lrd-5459-64-dropout": _row(5459, 64, dropout=True),
        "lrd-5459-64-tied-dropout": _row(5459, 64, tied=True, dropout=True),
        "lrd-4480-128-tied-dropout": _row(4480, 128, tied=True, dropout=True),
        "lrd-6985-64-tied-dropout": _row(6985, 64, tied=True, dropout=True),
        "lr-6985-64-tied-dropout": _row(6985, 64, "low_rank", tied=True, dropout=True),
        "lstm-1000-dropout": _lstm_row(),
        "lrd-lstm-1740-300-dropout": _lstm_row(size=1740, rank=300, parametrization="low_rank_plus_diagonal"),
    },
    variants=GRU_VARIANTS,
    score="bits_per_character",
    closing="""
What you saw: bits per character on the last twentieth of the text, for three GRUs with a state of 256 that differ only in how their
recurrent matrices are stored. The state is carried from window to window.

Next:
  python -m experiments.char_lm --data.file BOOK.txt                  a text of yours
  python -m experiments.char_lm sample runs/char_lm/quick-lrd-seed0   text from a network that you have just trained
  python -m experiments.char_lm --preset paper --data.dir DIR         Penn Treebank, as in Table 2; DIR is the directory of its files""",
)

if __name__ == "__main__":
    main(EXPERIMENT)
