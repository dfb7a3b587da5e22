"""Variable computation on Czech and German, with and without guidance: Jernite et al. 2017, section 5.2.2.

    python -m experiments.europarl                                         learn, guide and an RNN on text that every Python carries
    python -m experiments.europarl --preset paper --data.dir DIR           Czech, with a schedule that is learnt
    python -m experiments.europarl --preset cs-guide --data.dir DIR        the same with a higher target at white spaces
    python -m experiments.europarl --preset de-learn-0.2 --data.dir DIR    German with another target; a point of Figure 4
    python -m experiments.europarl words RUN_DIRECTORY                     mean m_t around the ends of words
    python -m experiments.europarl schedule RUN_DIRECTORY                  m_t over the text (Figures 3 and 5); also: hard, timing
    python -m experiments.efficiency runs/europarl                         bits per character over equivalent size (Figure 4)

Published: Figure 4, without numbers. On Czech, guided and learnt schedules are better than the RNN with fewer operations; on German they
are "more efficient than the RNN". The paper prints no sizes, and of targets only their range in all experiments, 0.2 to 0.5. Here: 512
units, targets of 0.2 to 0.5, and with guidance 0.8 at white spaces, which is outside that range; RNNs of 128 to 512 units. Other settings
that the paper does not print are those of `experiments.variable_computation`, at a constant learning rate.

Guidance names symbols by number. In these texts 0 is the line end and 2 the blank; `data.white_spaces` in result.json names them.
"""

from dataclasses import replace
from typing import Any

from experiments.variable_computation import network, with_resets
from lrpt.cli.command import main
from lrpt.cli.experiment import Experiment, Preset
from lrpt.cli.finished.schedule_tables import WORD_COMMANDS
from lrpt.cli.finished.schedules import COMMANDS
from lrpt.optim import OptimConfig
from lrpt.tasks import NextSymbol
from lrpt.training.config import RunConfig, TrainConfig

EPOCH = 11_250
"""updates that read 18,000,000 characters once, in 32 streams with windows of 50"""
GUIDE: dict[str, Any] = {"guided_symbols": (0, 2)}
SETTINGS: dict[str, dict[str, Any]] = {"learn": {}, "guide": GUIDE}
TARGETS, SIZES = (0.2, 0.4, 0.5), (128, 192, 256, 384, 512)
"""Points of Figure 4, beside the target 0.3 of the other presets."""
LANGUAGES = {"cs": "Czech", "de": "German"}

PAPER = RunConfig(
    network("vcrnn", 512),
    OptimConfig("char_lm"),
    TrainConfig(updates=12 * EPOCH, batch_size=32, order="stream", evaluate_every=EPOCH, evaluation_batch=32),
    NextSymbol("europarl_cs", reading="stream", steps=50),
)

QUICK = RunConfig(
    network("vcrnn", 128, sharpness=0.2, sharpness_growth=0.3),
    OptimConfig("char_lm", 5e-3),
    TrainConfig(updates=800, batch_size=32, order="stream", evaluate_every=200, evaluation_batch=16),
    NextSymbol("python", reading="stream", steps=50),
)


def _preset(language: str, cell: str = "vcrnn", size: int = 512, **changes: Any) -> Preset:
    model = network(cell, size, **changes)
    config = replace(PAPER, model=model, data=replace(PAPER.data, source=f"europarl_{language}"))
    own = (f", target {model.schedule.target}" if model.has_scheduler else "") + (" with guidance" if model.schedule.guided_symbols else "")
    return Preset(with_resets(config), f"{model.label}{own}, on {LANGUAGES[language]} of Europarl")


def _curve(language: str) -> dict[str, Preset]:
    """Return the presets of Figure 4 in one language."""
    points = {
        f"{language}-{name}-{target}": _preset(language, target=target, **own) for name, own in SETTINGS.items() for target in TARGETS
    }
    return points | {f"{language}-rnn-{size}": _preset(language, "elman", size) for size in SIZES}


EXPERIMENT = Experiment(
    name="europarl",
    subcommands={**COMMANDS, **WORD_COMMANDS},
    about="Predict each character of a text, with a schedule that is learnt, or guided to white spaces.",
    reproduces="Jernite et al. 2017, section 5.2.2 and Figure 4 (by experiments.efficiency)",
    presets={
        "quick": Preset(QUICK, "learnt and guided VCRNN, RNN, on Python's documentation, no download", compare=True),
        "paper": _preset("cs"),
        "de-learn": _preset("de"),
        **{f"{language}-guide": _preset(language, **GUIDE) for language in LANGUAGES},
        **_curve("cs"),
        **_curve("de"),
    },
    variants={"learn": {}, "guide": GUIDE, "rnn": {"cell": "elman", "size": 64, "embedding": 64}},
    score="bits_per_character",
    closing="""
What you saw: bits per character of two units of 128 dimensions that update some of them in each step, one of them with a target of 0.8 at
white spaces and line ends, and of a usual unit.

Next:
  python -m experiments.europarl words runs/europarl/quick-guide-seed0     where in a word does it compute?
  python -m experiments.efficiency runs/europarl                           bits per character over equivalent size
  python -m experiments.europarl --preset cs-guide --data.dir DIR          Czech (DIR: where europarl-v7.cs-en.cs is)""",
)

if __name__ == "__main__":
    main(EXPERIMENT)
