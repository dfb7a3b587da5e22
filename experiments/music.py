"""Variable computation on melodies: Jernite et al. 2017, section 5.1.

    python -m experiments.music                                        a VCRNN and an RNN on melodies that are drawn, no download
    python -m experiments.music --data.file FOLDER                     tunes of yours in ABC notation
    python -m experiments.music --preset paper --data.dir DIR          a VCRNN of 500 units on O'Neill's tunes
    python -m experiments.music sample RUN_DIRECTORY --output tunes.mid   tunes to play: ABC notation (.abc), or MIDI
    python -m experiments.music notes RUN_DIRECTORY                    mean m_t by length and kind of note (Table 2)
    python -m experiments.music schedule RUN_DIRECTORY                 m_t over the notes; also: hard, timing

Published, test perplexity, and in parentheses the size of the Elman network with the same number of operations: RNN-200 9.13,
RNN-250 8.70, VCRNN-500 8.51 (233). Mean m_t: 0.14 on bars, 0.46 on others, 0.34 on rests, 0.51 and 0.45 on the first and the second of
repeated notes; by length 1/4: 0.61, 1/3: 0.77, 1/2: 0.39, 3/4: 0.59, 1: 0.44, 3/2: 0.46, 2: 0.57.

The published numbers are for 19,511 tunes of thesession.org, whose terms do not say who may use them in this way. Here O'Neill's 2,006
tunes are used instead. So perplexities can be compared with each other, but not with the published ones. Settings that the paper does not
print are those of `experiments.variable_computation`, at a constant learning rate. Training ends after four epochs without a lower
validation loss.
"""

from dataclasses import replace

from experiments.variable_computation import network
from lrpt.cli.command import main
from lrpt.cli.experiment import Experiment, Preset
from lrpt.cli.finished.schedule_tables import MELODY_COMMANDS
from lrpt.cli.finished.schedules import COMMANDS
from lrpt.cli.finished.tunes import SAMPLE_TUNES, TUNE_HOOKS
from lrpt.networks.variable_computation import VariableConfig
from lrpt.optim import OptimConfig
from lrpt.tasks import NextNote
from lrpt.training.config import RunConfig, TrainConfig

EPOCH = 132
"""updates that read O'Neill's training part once, in 32 streams with windows of 50 symbols"""

MODEL = network("vcrnn", 500, target=0.33)
"""The target that gives about the published RNN-d of 233: the root mean square of m is to be 0.466."""

PAPER = RunConfig(
    MODEL,
    OptimConfig("char_lm"),
    TrainConfig(updates=60 * EPOCH, batch_size=32, order="stream", evaluate_every=EPOCH, evaluation_batch=32, patience=4),
    NextNote("irish"),
)

QUICK = RunConfig(
    network("vcrnn", 128, target=0.4, sharpness=0.2, sharpness_growth=0.1),
    OptimConfig("char_lm", 5e-3),
    TrainConfig(updates=600, batch_size=16, order="stream", evaluate_every=100, evaluation_batch=8),
    NextNote(),
)


def _preset(model: VariableConfig) -> Preset:
    target = f", target {model.schedule.target}" if model.has_scheduler else ""
    return Preset(replace(PAPER, model=model), f"{model.label}{target}, on O'Neill's tunes")


EXPERIMENT = Experiment(
    name="music",
    subcommands={**COMMANDS, **SAMPLE_TUNES, **MELODY_COMMANDS},
    **TUNE_HOOKS,
    about="Predict each note of a melody; the network may decide at each step how much of its state to update.",
    reproduces="Jernite et al. 2017, Tables 1 and 2 (subcommand notes)",
    presets={
        "quick": Preset(QUICK, "VCRNN and RNN on melodies drawn at random, no download", compare=True),
        "paper": _preset(MODEL),
        **{f"rnn-{size}": _preset(network("elman", size)) for size in (200, 250)},
    },
    variants={"vcrnn": {}, "rnn": {"cell": "elman", "size": 64, "embedding": 64}},
    score="perplexity",
    closing="""
What you saw: perplexity of notes, rests and bars, for a unit of 128 dimensions that updates some of them in each step, and a usual one.

Next:
  python -m experiments.music sample runs/music/quick-vcrnn-seed0 --output tunes.mid     melodies to listen to (pip install -e '.[midi]')
  python -m experiments.music notes runs/music/quick-vcrnn-seed0     does it compute less on bars?
  python -m experiments.music --preset paper --data.dir DIR          O'Neill's tunes (DIR: where their files are, or are to go)""",
)

if __name__ == "__main__":
    main(EXPERIMENT)
