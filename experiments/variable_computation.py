"""Variable computation on characters: Jernite et al. 2017, section 5.2.

    python -m experiments.variable_computation                                      a VCRNN and an RNN on text that every Python carries
    python -m experiments.variable_computation --preset paper --data.dir DIR        a VCRNN of 1024 units on the Penn Treebank
    python -m experiments.variable_computation --preset text8-vcgru-0.4 --data.dir DIR      text8
    python -m experiments.variable_computation --data.file BOOK.txt --model.guided-symbols 0 2     more computation on blanks and line ends
    python -m experiments.variable_computation sample RUN_DIRECTORY --prompt "The " text from a checkpoint
    python -m experiments.variable_computation schedule RUN_DIRECTORY               m_t over the text (Figures 3 and 5)
    python -m experiments.variable_computation words RUN_DIRECTORY                  m_t around ends of words, beside a control
    python -m experiments.variable_computation hard RUN_DIRECTORY                   soft and hard masks in evaluation
    python -m experiments.variable_computation timing RUN_DIRECTORY                 time of a step against m, beside counted operations

Published, bits per character, and in parentheses the size of the Elman network with the same number of operations ("RNN-d").
Penn Treebank: GRU-1024 1.42 (1450), LSTM-1024 1.42 (2048), RNN-1024 1.47 (1024), VCRNN-1024 1.46 (760), RNN-760 1.47, LSTM-380 1.44 and
GRU-538 1.43 (760), VCGRU-1024 1.42 (648), LSTM-324 1.46 and GRU-458 1.47 (648). text8: RNN-512 1.80, GRU-512 1.69 (725), GRU-1024 1.58
(1450), VCGRU-1024 1.69 (464), 1.64 (648) and 1.63 (820) with targets of 0.3, 0.4 and 0.5. The paper's "RNN-d" understates GRUs: see
`lrpt.networks.operations`.

The paper does not give optimizer, learning rate, batches, windows, clipping, dropout, the weight of the penalty or epsilon. Here: Adam at
0.001, norm clipping at 1, 32 streams (text8: 128), windows of 50, no dropout, weight 0.3, epsilon 1e-5, zero initial states, 20 epochs, of
which the last eight each have half the learning rate of the one before. The scheduler takes the state as a constant in the backward pass
(`--model.schedule.gradient cut`), because its gradient explodes otherwise. A stream restarts every 250 updates, because dimensions that it
no longer updates keep values that do not occur in evaluation. The paper does not print its targets on the Penn Treebank either:
`--model.target`. docs/variable_computation.md has the whole recipe.

The mask reaches its final sharpness after nine epochs. The best state is selected among evaluations at that sharpness.

The presets small and small-* stand in for Table 3 and Figure 4 on two cores: 256 units, other targets by `--model.target`, RNNs of other
sizes by `--model.size N --model.embedding N`. Their masks end at a sharpness of 4, which is as sharp for 256 units as 1 is for 1,000. They
end after twelve epochs at one learning rate; the presets annealed and annealed-* have all 20. Section 4.2: `small-no-penalty`,
`small-fixed-sharpness` and `small-neither`.
"""

from dataclasses import replace
from typing import Any

from experiments.wiki import EPOCH as TEXT8_EPOCH
from lrpt.cli.command import main
from lrpt.cli.experiment import Experiment, Preset
from lrpt.cli.finished.schedule_tables import WORD_COMMANDS
from lrpt.cli.finished.schedules import COMMANDS
from lrpt.networks.variable_computation import VariableConfig
from lrpt.optim import OptimConfig
from lrpt.tasks import NextByte, NextSymbol
from lrpt.training.config import RunConfig, TrainConfig

SCHEDULING: dict[str, Any] = {"scheduler_gradient": "cut", "smooth_growth": True}
"""The part of the recipe that the paper leaves open; docs/variable_computation.md says why."""


def network(cell: str, size: int, **changes: Any) -> VariableConfig:
    """Return a network of the paper's comparison: dense matrices, and embeddings as wide as the state."""
    plain: dict[str, Any] = {"parametrization": "dense", "carry_bias": 0.0, "trainable_initial_state": False, "embedding": size}
    config = VariableConfig(cell=cell, size=size, **plain | changes)
    return replace(config, **SCHEDULING) if config.has_scheduler else config


EPOCH = 3_135
"""updates that read the treebank's training part once, in 32 streams with windows of 50 symbols"""

FULL = network("vcrnn", 1024, target=0.5)

FALLING = OptimConfig("char_lm", decay=0.5, decay_after=11)
"""Adam at one learning rate for twelve epochs, and then in each epoch at half the rate of the one before."""

PAPER = RunConfig(
    FULL,
    FALLING,
    TrainConfig(updates=20 * EPOCH, batch_size=32, order="stream", evaluate_every=EPOCH, evaluation_batch=32),
    NextSymbol("ptb", reading="stream", steps=50),
)

QUICK = RunConfig(
    network("vcrnn", 128, target=0.3, sharpness=0.2, sharpness_growth=0.2),
    OptimConfig("char_lm", 3e-3),
    TrainConfig(updates=1_200, batch_size=32, order="stream", evaluate_every=200, evaluation_batch=16),
    NextSymbol("python", reading="stream", steps=50),
)

TEXT8 = replace(
    PAPER,
    train=replace(PAPER.train, updates=20 * TEXT8_EPOCH, batch_size=128, evaluate_every=TEXT8_EPOCH, evaluation_batch=128),
    data=NextByte("text8", steps=50),
)

SHORT = replace(PAPER, optim=OptimConfig("char_lm"), train=replace(PAPER.train, updates=12 * EPOCH))
"""The epochs before the learning rate falls."""

RESET_EVERY, TEXT8_RESET_EVERY = 250, 781
"""updates between two restarts of a stream of a unit with a scheduler: about the windows of a stream in evaluation"""


def with_resets(config: RunConfig[Any], every: int = RESET_EVERY) -> RunConfig[Any]:
    """Return the configuration, with restarts of streams if the network has a scheduler."""
    scheduled = isinstance(config.model, VariableConfig) and config.model.has_scheduler
    return replace(config, train=replace(config.train, fresh_every=every)) if scheduled else config


def _preset(start: RunConfig[Any], model: VariableConfig, more: str = "") -> Preset:
    target = f", target {model.schedule.target}" if model.has_scheduler and model.schedule.penalty_weight > 0 else ""
    target += (", no penalty" if model.schedule.penalty_weight == 0 else "") + (", fixed sharpness" if model.mask.growth == 0 else "")
    target += ", guided to white spaces" if model.schedule.guided_symbols else ""
    text = "text8" if start is TEXT8 else "characters of the Penn Treebank"
    every = TEXT8_RESET_EVERY if start is TEXT8 else RESET_EVERY
    return Preset(with_resets(replace(start, model=model), every), f"{model.label}{target}{more}, on {text}")


TABLE = {
    "vcgru-1024": network("vcgru", 1024, target=0.4),
    **{f"rnn-{size}": network("elman", size) for size in (1024, 760)},
    **{f"gru-{size}": network("gru", size) for size in (1024, 538, 458)},
    **{f"lstm-{size}": network("lstm", size) for size in (1024, 380, 324)},
}
"""Rows of Table 3 on the Penn Treebank, except VCRNN-1024 and the conditional network."""

TEXT8_TABLE = {
    **{f"vcgru-{target}": network("vcgru", 1024, target=target) for target in (0.3, 0.4, 0.5)},
    "rnn-512": network("elman", 512),
    **{f"gru-{size}": network("gru", size) for size in (512, 1024)},
}
"""Rows of Table 3 on text8."""

SHARP = 4.0
"""Sharpness at which the band of a mask is as narrow for 256 units as at 1 for 1,000."""


def _small(cell: str = "vcrnn", **changes: Any) -> VariableConfig:
    """Return a network of 256 units whose mask is sharp from the fifth of twelve epochs on."""
    growing = {"sharpness_end": SHARP, "sharpness_growth": (SHARP - 0.1) / 4}
    return network(cell, 256, **{"target": 0.3, "penalty_weight": 0.5, **growing, **changes})


FIXED: dict[str, Any] = {"sharpness": SHARP, "sharpness_growth": 0.0}

SMALL_TABLE = {
    "small": _small(),
    "small-guide": _small(guided_symbols=(0, 2)),
    "small-vcgru": _small("vcgru"),
    "small-rnn": network("elman", 128),
    "small-gru": network("gru", 104),
    "small-no-penalty": _small(penalty_weight=0.0),
    "small-fixed-sharpness": _small(**FIXED),
    "small-neither": _small(penalty_weight=0.0, **FIXED),
}
"""Networks that two cores can train. The RNN has about as many operations as `small`; the last three are the ablation of section 4.2."""


EXPERIMENT = Experiment(
    name="variable_computation",
    subcommands={**COMMANDS, **WORD_COMMANDS},
    about="Predict each character of a text; the network may decide at each step how much of its state to update.",
    reproduces="Jernite et al. 2017, Table 3 (characters), Figures 3 and 5 (subcommand schedule)",
    presets={
        "quick": Preset(QUICK, "VCRNN and RNN on Python's documentation, no download", compare=True),
        "paper": _preset(PAPER, FULL),
        **{name: _preset(PAPER, model) for name, model in TABLE.items()},
        **{name: _preset(SHORT, model) for name, model in SMALL_TABLE.items()},
        **{
            f"annealed{kind}": _preset(PAPER, SMALL_TABLE[f"small{kind}"], ", 8 more epochs with a falling learning rate")
            for kind in ("", "-guide", "-vcgru", "-rnn", "-gru")
        },
        **{f"text8-{name}": _preset(TEXT8, model) for name, model in TEXT8_TABLE.items()},
    },
    variants={"vcrnn": {}, "rnn": {"cell": "elman", "size": 72, "embedding": 72}},
    score="bits_per_character",
    closing="""
What you saw: bits per character of a unit of 128 dimensions that updates some of them in each step, and of a usual one that does about as
many multiplications. 'active' is the share that was updated, 'equivalent_size' the usual unit with as many multiplications.

Next:
  python -m experiments.variable_computation schedule runs/variable_computation/quick-vcrnn-seed0     when it computes
  python -m experiments.variable_computation timing runs/variable_computation/quick-vcrnn-seed0       what that saves by the clock
  python -m experiments.bit_lm                                                                        bits, where it can find characters""",
)

if __name__ == "__main__":
    main(EXPERIMENT)
