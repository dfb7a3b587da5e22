"""Word language models with recurrent highway networks: Zilly et al. 2017, section 5.2, Table 1 and Figure 5a.

    python -m experiments.word_lm                                       an RHN of depth 3 on text that every Python carries, no download
    python -m experiments.word_lm --preset paper --data.dir DIR         depth 10, 830 units, tied, on the Penn Treebank
    python -m experiments.word_lm --preset untied-8 --data.dir DIR      depth 8, 890 units
    python -m experiments.word_lm --preset equal-6 --data.dir DIR       depth 6 at 1.5 million parameters, as all of equal-1 to equal-6
    python -m experiments.word_lm --preset variational-lstm-tied --data.dir DIR    the rival in Table 1
    python -m experiments.word_lm score RUN_DIRECTORY --split test      loss in one uninterrupted stream, as the authors' last figures
    python -m experiments.word_lm sample RUN_DIRECTORY --prompt "the "  text from a checkpoint

Published, valid and test perplexity: depth 8, untied, 32 M parameters: 71.2, 68.5; depth 10, tied, 23 M: 67.9, 65.4. The
paper's abstract says that going from depth 1 to 10, "using the same number of parameters", improves 90.6 to 65.4. These are tied networks
of 19.3 and 23.5 million parameters, and the 65.4 has another weight decay.

Presets follow the authors' TensorFlow code (`rhn_train.py`, `ptb_sota`) at each depth, with the ten widths of their README: one mask for
both gates, at all layers and steps of a window, and words dropped by type; biases of the transform gates from -2, which the main text does
not give for this data; all other parameters uniform within 0.04; a loss summed over the 35 steps of a window, which includes a weight decay
of 1e-7. The 65.4 needs a smaller weight decay, which neither the paper's main text nor the code gives, and its supplement was not read
(`--optim.weight-decay 1e-9` is a guess). The preset torch-8 has the training settings of their Torch code, whose network has depth 10 and
1000 units: a mask for each gate, words dropped by position (it is meant to drop types, and compares whole rows by mistake), a decoupled
weight decay, a learning rate that falls from epoch 22 on (in the TensorFlow code from 21), 1,000 epochs, and no bias towards carrying. That
code has a second bias in the first layer, which is left out here.

The presets equal-1 to equal-6 ask the question of Figure 5a, whether depth helps at an equal number of parameters, at a size for which a
core needs less than an hour: tied networks of 1.5 million parameters, six epochs. An exact search finds the width of each depth. They read
words, and not characters, as in the paper's claim. This command trains all of them with three seeds:
`python -m experiments.reproduce --scale smaller --claims "depth helps" --data.dir DIR`. The presets small-1 and small-3 have the same
width, not the same number of parameters.

The presets variational-lstm and variational-lstm-tied are the large network of Gal and Ghahramani (2016) with the settings of their code
(yaringal/BayesianRNN, `main_new_dropout_SOTA_v3.lua`): two layers of 1500 units, a learning rate of 1 that is divided by 1.15 before the
twelfth and each later epoch, a decoupled weight decay of 1e-7, 55 epochs. All gates share a mask, because the 77.3 and 75.0 of Table 1 are
those of this network, which Gal and Ghahramani call "tied weights". Their script has a mask for each gate, with 77.9 and 75.2
(`--model.gate-masks each`). That code has two biases at each gate; here they have one. It has no network with tied embeddings; the tied
preset differs in the tying alone.

The state is carried through validation and test parts in 20 streams, as in the authors' training. Their final evaluation uses one stream,
as does `score`.
"""

from dataclasses import replace

from lrpt.analysis.budgets import LanguageModelSize, closest_width
from lrpt.cli.command import main
from lrpt.cli.experiment import Experiment, Preset, matrix_variants
from lrpt.cli.finished.sampling import SAMPLE, TEXT_HOOKS
from lrpt.cli.finished.scoring import SCORE
from lrpt.networks.configuration import EmbeddingConfig, InitialConfig, TiedStorageConfig
from lrpt.networks.dropout import DropoutConfig
from lrpt.networks.sequence_model import ModelConfig
from lrpt.optim import OptimConfig
from lrpt.tasks import NextWord
from lrpt.training.config import RunConfig, TrainConfig

PTB_WIDTHS = {1: 1275, 2: 1180, 3: 1110, 4: 1050, 5: 1000, 6: 960, 7: 920, 8: 890, 9: 860, 10: 830}
"""Figure 5a: width for each recurrence depth, so that untied networks have about 32 million parameters."""

EPOCH = 1_327
"""updates that read the Penn Treebank once, in 20 streams with windows of 35 words"""

PAPER = RunConfig(
    ModelConfig(
        "rhn",
        830,
        depth=10,
        matrices=TiedStorageConfig("dense"),
        initial=InitialConfig("uniform", carry_bias=2.0, trainable_state=False),
        embeddings=EmbeddingConfig(830, tied=True),
        dropout=DropoutConfig(words=0.25, word_masks="types", inputs=0.75, states=0.25, outputs=0.75, gate_masks="shared"),
    ),
    OptimConfig("rhn", summed_steps=35, weight_decay=1e-7, decay=1 / 1.02, decay_after=19),
    TrainConfig(updates=500 * EPOCH, batch_size=20, order="stream", evaluate_every=EPOCH, evaluation_batch=20),
    NextWord("ptb"),
)

QUICK = RunConfig(
    replace(PAPER.model, size=128, depth=3, embedding=128, word_dropout=0.1, input_dropout=0.2, state_dropout=0.1, output_dropout=0.2),
    OptimConfig("rhn", summed_steps=20),
    TrainConfig(updates=600, batch_size=20, order="stream", evaluate_every=100, evaluation_batch=20),
    NextWord(steps=20),
)


SMALL = 200
"""units of networks that two cores can train"""


def _small(depth: int) -> Preset:
    """Return the preset of a network of 200 units, with less dropout and a learning rate that decays within the 10 epochs."""
    dropout = {"word_dropout": 0.1, "input_dropout": 0.2, "state_dropout": 0.1, "output_dropout": 0.3}
    model = replace(PAPER.model, size=SMALL, depth=depth, embedding=SMALL, **dropout)
    optim, train = replace(PAPER.optim, decay=1 / 1.5, decay_after=5), replace(PAPER.train, updates=10 * EPOCH)
    about = f"RHN, depth {depth}, {SMALL} units, tied, Penn Treebank, 10 epochs"
    return Preset(replace(PAPER, model=model, optim=optim, train=train), about)


EQUAL_BUDGET = 1_500_000
"""parameters of each tied network of a comparison of depths that a core trains in less than an hour"""
EQUAL_DEPTHS = (1, 2, 3, 4, 5, 6)
PTB_WORDS = 10_000


def equal_width(depth: int) -> int:
    """Return the width at which a tied RHN of a depth has the number of parameters closest to the budget."""
    return closest_width(LanguageModelSize(PTB_WORDS, "rhn", layers=1, depth=depth, tied=True).parameters, EQUAL_BUDGET).width


def _equal(depth: int) -> Preset:
    """Return the preset of one depth at the budget, with the settings of the narrow networks and six epochs."""
    size, narrow = equal_width(depth), _small(depth).config
    model = replace(narrow.model, size=size, embedding=size)
    optim, train = replace(narrow.optim, decay_after=2), replace(narrow.train, updates=6 * EPOCH)
    about = f"RHN, depth {depth}, {size} units, tied, {EQUAL_BUDGET:,} parameters, Penn Treebank, 6 epochs"
    return Preset(replace(narrow, model=model, optim=optim, train=train), about)


def _variational_lstm(tied: bool) -> Preset:
    """Return the preset of a row of Table 1 from Gal and Ghahramani (2016), large model."""
    config = RunConfig(
        ModelConfig(
            "lstm",
            1500,
            layers=2,
            matrices=TiedStorageConfig("dense"),
            initial=InitialConfig("uniform", carry_bias=0.0, trainable_state=False),
            embeddings=EmbeddingConfig(1500, tied=tied),
            dropout=DropoutConfig(words=0.3, word_masks="types", inputs=0.5, states=0.3, outputs=0.5, gate_masks="shared"),
        ),
        OptimConfig("rhn", 1.0, summed_steps=35, weight_decay=1e-7, weight_decay_form="decoupled", decay=1 / 1.15, decay_after=10),
        replace(PAPER.train, updates=55 * EPOCH),
        PAPER.data,
    )
    return Preset(config, f"variational LSTM, 2 layers of 1500 units, {'tied' if tied else 'untied'}, Penn Treebank")


def _of_depth(depth: int, tied: bool) -> Preset:
    """Return the preset of a point of Figure 5a."""
    size = PTB_WIDTHS[depth]
    config = replace(PAPER, model=replace(PAPER.model, size=size, depth=depth, embedding=size, tie_embedding=tied))
    return Preset(config, f"RHN, depth {depth}, {size} units, {'tied' if tied else 'untied'}, Penn Treebank")


def _torch() -> Preset:
    model = replace(_of_depth(8, tied=False).config.model, gate_masks="each", word_masks="positions", carry_bias=0.0)
    optim = replace(PAPER.optim, weight_decay_form="decoupled", decay_after=20)
    train = replace(PAPER.train, updates=1_000 * EPOCH)
    return Preset(replace(PAPER, model=model, optim=optim, train=train), "untied-8 trained as in the authors' Torch code")


EXPERIMENT = Experiment(
    name="word_lm",
    subcommands={**SAMPLE, **SCORE},
    **TEXT_HOOKS,
    about="Predict each word of a text from the words before it.",
    reproduces="Zilly et al. 2017, Table 1 and Figure 5a",
    presets={
        "quick": Preset(QUICK, "RHN of depth 3, 128 units, tied, on Python's documentation, no download"),
        "paper": _of_depth(10, tied=True),
        **{f"tied-{depth}": _of_depth(depth, tied=True) for depth in PTB_WIDTHS if depth != 10},
        **{f"untied-{depth}": _of_depth(depth, tied=False) for depth in PTB_WIDTHS},
        "torch-8": _torch(),
        **{f"small-{depth}": _small(depth) for depth in (1, 3)},
        **{f"equal-{depth}": _equal(depth) for depth in EQUAL_DEPTHS},
        "variational-lstm": _variational_lstm(tied=False),
        "variational-lstm-tied": _variational_lstm(tied=True),
    },
    variants=matrix_variants("rhn"),
    score="perplexity",
    closing="""
What you saw: perplexity per word of three RHNs that differ only in how their recurrent matrices are stored. The state is carried from
window to window.

Next:
  python -m experiments.word_lm --data.file BOOK.txt              a text of yours
  python -m experiments.word_lm --preset paper --data.dir DIR     Penn Treebank, as in Table 1 (DIR: where its files are, or are to go)""",
)

if __name__ == "__main__":
    main(EXPERIMENT)
