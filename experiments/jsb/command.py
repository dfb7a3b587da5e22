"""Recurrence depth and optimization, on polyphonic music: Zilly et al. 2017, section 5.1 and Figure 4.

    python -m experiments.jsb                                        three architectures of depth 4 on random chords, no download
    python -m experiments.jsb --preset paper --data.dir DIR          a recurrent highway network of depth 6 on the JSB chorales
    python -m experiments.jsb swarm                                  small networks at random settings, on drawn chords
    python -m experiments.jsb swarm --preset paper --data.dir DIR    Figure 4: every architecture and depth, on the JSB chorales

Published: Figure 4, which has no numbers in the text. Deep transition networks, with shortcuts (DT(S)-RNN) and without, "become
considerably harder to optimize with increasing depth"; "increasing the recurrence depth does not adversely affect optimization of RHNs".

The paper says that networks grow with depth, and that all architectures have the same size. Its supplement, which has sizes and settings,
was not read. Those of this project are: 150,000, 300,000, 600,000 and 900,000 parameters for depths 1, 2, 4 and 6, momentum 0.9, batches of
32 pieces, and gradients whose norm is clipped at 10, which its main text does not mention.
"""

from dataclasses import replace

from experiments.jsb.swarm import BUDGETS, swarm
from lrpt.cli.experiment import Experiment, Preset
from lrpt.networks.configuration import InitialConfig, TiedStorageConfig
from lrpt.networks.sequence_model import ModelConfig
from lrpt.optim import OptimConfig
from lrpt.tasks import Chorales
from lrpt.training.config import RunConfig, TrainConfig

SIZES = {
    "rhn": {1: 215, 2: 242, 4: 257, 6: 263},
    "dt_rnn": {1: 309, 2: 345, 4: 365, 6: 372},
    "dts_rnn": {1: 309, 2: 288, 4: 280, 6: 278},
}
"""Cell and recurrence depth -> the width that comes closest to the budget."""

PAPER = RunConfig(
    ModelConfig(
        "rhn",
        263,
        depth=6,
        matrices=TiedStorageConfig("dense"),
        initial=InitialConfig("normal", scale=0.01, carry_bias=2.0, trainable_state=False),
    ),
    OptimConfig("momentum", 0.1),
    TrainConfig(updates=7_000, batch_size=32, evaluate_every=70, evaluation_batch=77, patience=10),
    Chorales("jsb"),
)

QUICK = RunConfig(
    replace(PAPER.model, size=71, depth=4, initialization="glorot"),
    OptimConfig("momentum", 0.03),
    TrainConfig(updates=400, batch_size=32, evaluate_every=40, evaluation_batch=77),
    Chorales(length=32),
)


def _preset(cell: str, depth: int) -> Preset:
    model = replace(PAPER.model, cell=cell, size=SIZES[cell][depth], depth=depth)
    return Preset(replace(PAPER, model=model), f"{model.label}, {BUDGETS[depth]:,} parameters, on the JSB chorales")


EXPERIMENT = Experiment(
    name="jsb",
    subcommands={"swarm": swarm("jsb", PAPER)},
    about="Predict which notes of a chorale sound next.",
    reproduces="Zilly et al. 2017, section 5.1 and Figure 4 (subcommand swarm)",
    presets={
        "quick": Preset(QUICK, "RHN, DT- and DT(S)-RNN of depth 4 on drawn chords, no download", compare=True),
        "paper": _preset("rhn", 6),
        **{f"{cell.replace('_', '-')}-{depth}": _preset(cell, depth) for cell in SIZES for depth in BUDGETS if (cell, depth) != ("rhn", 6)},
    },
    variants={"rhn": {"cell": "rhn"}, "dt-rnn": {"cell": "dt_rnn", "size": 102}, "dts-rnn": {"cell": "dts_rnn", "size": 81}},
    closing="""
What you saw: nats lost at each frame by three networks of four transitions within a step and of about one size. Two of them have no gates.

Next:
  python -m experiments.jsb swarm                                     every depth and architecture at random settings
  python -m experiments.jsb swarm --preset paper --data.dir DIR       the same, at the larger sizes of this project, on the JSB chorales
  python -m experiments.jsb --preset paper --data.dir DIR             the JSB chorales (DIR: where their file is, or is to go)
  python -m experiments.inspect_rhn gates runs/jsb/quick-rhn-seed0    how open its gates are, frame by frame""",
)
