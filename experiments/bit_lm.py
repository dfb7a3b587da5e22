"""Variable computation on bits, where every eighth bit begins a character: Jernite et al. 2017, section 5.2.1.

    python -m experiments.bit_lm                                           a VCRNN and an RNN on bits of text that every Python carries
    python -m experiments.bit_lm --preset paper --data.dir DIR             a VCRNN of 1000 units on bits of the Penn Treebank
    python -m experiments.bit_lm --preset small --data.dir DIR             a VCRNN of 128 units; small-rnn: an RNN of as many operations
    python -m experiments.bit_lm --preset small-rnn --model.size 96 --model.embedding 96 --data.dir DIR      one size up
    python -m experiments.bit_lm --preset small-buffer-8 --data.dir DIR    eight 0 bits after each character
    python -m experiments.bit_lm schedule RUN_DIRECTORY                    m_t over the bits (Figure 2); also: hard, timing

Published, bits per bit, and in parentheses the size of the Elman network with the same number of operations: RNN-100 0.287,
RNN-500 0.227, RNN-1000 0.223, VCRNN-1000 0.231 (340) and 0.215 (460). Figure 2, without numbers: "the higher dimensions are modified
roughly every 8 bits", and with 8 or 24 buffer bits after each character "the model learns to mostly ignore these". Here `schedule` gives
the autocorrelation of m_t.

Settings that the paper does not print are those of `experiments.variable_computation`, except windows of six characters, a weight of 0.1,
and targets of 0.3 and 0.4. The small networks are trained for four epochs at a constant learning rate; the presets `annealed` and
`annealed-rnn` have four more, each at half the rate of the one before. They end at a sharpness of 4, so that the band where a mask is
neither 0 nor 1 is 5 % of the state. In those of 1,000 units it is 2 %.
"""

from dataclasses import replace

from experiments.variable_computation import FALLING, network, with_resets
from lrpt.cli.command import main
from lrpt.cli.experiment import Experiment, Preset
from lrpt.cli.finished.schedules import COMMANDS
from lrpt.networks.variable_computation import VariableConfig
from lrpt.optim import OptimConfig
from lrpt.tasks import NextBit
from lrpt.training.config import RunConfig, TrainConfig

EPOCH = 26_132
"""updates that read the treebank's training part once, in 32 streams with windows of six characters"""
CHARACTERS = 6
"""characters in a window, with any buffer"""
RESET_EVERY = 2_000
"""updates between two restarts of a stream of a unit with a scheduler: about the windows of a stream in evaluation"""

FULL = network("vcrnn", 1000, target=0.4, penalty_weight=0.1)

PAPER = RunConfig(
    replace(FULL, lag=8),
    FALLING,
    TrainConfig(updates=20 * EPOCH, batch_size=32, order="stream", evaluate_every=EPOCH, evaluation_batch=32),
    NextBit("ptb", steps=8 * CHARACTERS),
)

QUICK = RunConfig(
    network("vcrnn", 128, target=0.25, penalty_weight=0.1, sharpness_growth=1.5, lag=8),
    OptimConfig("char_lm", 2e-3),
    TrainConfig(updates=2_400, batch_size=32, order="stream", evaluate_every=400, evaluation_batch=16),
    NextBit("python", steps=8 * CHARACTERS),
)


def _preset(model: VariableConfig, start: RunConfig[NextBit] = PAPER, buffer: int = 0, further: str = "") -> Preset:
    data = replace(PAPER.data, buffer=buffer, steps=CHARACTERS * (8 + buffer))
    model = replace(model, lag=data.period) if model.has_scheduler else model
    target = f", target {model.schedule.target}" if model.has_scheduler else ""
    padded = f", {buffer} bits of 0 after each character" if buffer else ""
    return Preset(
        with_resets(replace(start, model=model, data=data), RESET_EVERY),
        f"{model.label}{target}, on bits of the Penn Treebank{padded}{further}",
    )


SHORT = replace(PAPER, optim=OptimConfig("char_lm"), train=replace(PAPER.train, updates=4 * EPOCH))
ANNEALED = replace(SHORT, optim=OptimConfig("char_lm", decay=0.5, decay_after=3), train=replace(PAPER.train, updates=8 * EPOCH))
"""The same, and four more epochs, each at half the learning rate of the one before."""
SMALL = network("vcrnn", 128, target=0.3, penalty_weight=0.1, sharpness_growth=3.9, sharpness_end=4.0)
"""A small network, whose mask has its final sharpness from the second of four epochs on."""
SMALL_RNN = network("elman", 77)
"""A usual network with about as many operations."""
FURTHER = ", 4 more epochs with a falling learning rate"

EXPERIMENT = Experiment(
    name="bit_lm",
    subcommands=COMMANDS,
    about="Predict each bit of a text; the network may decide at each step how much of its state to update.",
    reproduces="Jernite et al. 2017, Table 3 (bits), Figure 2 (subcommand schedule)",
    presets={
        "quick": Preset(QUICK, "VCRNN and RNN on bits of Python's documentation, no download", compare=True),
        "paper": _preset(FULL),
        "vcrnn-1000-0.3": _preset(network("vcrnn", 1000, target=0.3, penalty_weight=0.1)),
        **{f"rnn-{size}": _preset(network("elman", size)) for size in (100, 500, 1000)},
        **{f"buffer-{bits}": _preset(FULL, buffer=bits) for bits in (8, 24)},
        "small": _preset(SMALL, SHORT),
        "small-rnn": _preset(SMALL_RNN, SHORT),
        "annealed": _preset(SMALL, ANNEALED, further=FURTHER),
        "annealed-rnn": _preset(SMALL_RNN, ANNEALED, further=FURTHER),
        "small-buffer-8": _preset(SMALL, SHORT, buffer=8),
        "small-buffer-24": _preset(SMALL, SHORT, buffer=24),
    },
    variants={"vcrnn": {}, "rnn": {"cell": "elman", "size": 56, "embedding": 56}},
    score="bits_per_character",
    closing="""
What you saw: bits per character of a text that is read bit by bit, by a unit of 128 dimensions that updates some of them in each step, and
by a usual one that does about as many multiplications.

Next:
  python -m experiments.bit_lm schedule runs/bit_lm/quick-vcrnn-seed0      does it compute at the same bit of every character?
  python -m experiments.bit_lm --preset small --data.dir DIR               bits of the Penn Treebank""",
)

if __name__ == "__main__":
    main(EXPERIMENT)
