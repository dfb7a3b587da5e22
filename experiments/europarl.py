"""Units that decide how much to compute, on Czech and German: Jernite et al. 2017, section 5.2.2.

    python -m experiments.europarl                                              told where words end, on Python's documentation, no download
    python -m experiments.europarl --preset paper --data.dir DIR                Czech, not told
    python -m experiments.europarl --preset de-guide --data.dir DIR             German, told
    python -m experiments.europarl --preset paper --data.dir DIR --vary model.target=0.2,0.3,0.4,0.5     Figure 4
    python -m experiments.europarl schedule RUN_DIRECTORY                       m_t over the text (Figures 3 and 5); also: hard, timing

Published: Figure 4, bits per character against the size of the Elman network of as many operations, without numbers in the text. "Learn"
and "guide" "perform similarly on the Czech dataset, achieving better performance more efficiently than the standard RNN. On German, the
guided settings remains slightly more efficient than the fully learned one, but both are more efficient than the RNN".

The paper prints neither sizes nor targets. Here: 1024 units, a target of 0.3; guided, 0.8 at line ends and blanks and 0.2 elsewhere. Other
settings are those of `experiments.variable_computation`. Figure 4 is 'bits_per_character' of results against 'paper_equivalent_size'.
"""

from dataclasses import replace
from typing import Any

from experiments import variable_computation
from experiments.scheduling import train_or_inspect
from experiments.variable_computation import network
from lrpt.training.config import RunConfig
from lrpt.training.experiment import Experiment, Preset
from lrpt.variable_models import VariableConfig

EPOCH = 11_250
"""updates in which 32 streams of the training part of 20,000,000 characters are read once, 50 symbols at a time"""

WHITE_SPACES = (0, 2)
"""The line's end and the blank, which is the first of all other characters unless a text has tabs (`data.white_spaces` of a result)."""

GUIDE: dict[str, Any] = {"target": 0.2, "guided_symbols": WHITE_SPACES, "guided_target": 0.8}

LEARN, GUIDED = network("vcrnn", 1024, target=0.3), network("vcrnn", 1024, **GUIDE)

PAPER = replace(
    variable_computation.PAPER,
    model=LEARN,
    train=replace(variable_computation.PAPER.train, updates=20 * EPOCH, evaluate_every=EPOCH),
    data=replace(variable_computation.PAPER.data, source="europarl_cs"),
)

QUICK = replace(variable_computation.QUICK, model=replace(variable_computation.QUICK.model, **GUIDE))


def _preset(language: str, model: VariableConfig, setting: str = "") -> Preset:
    config: RunConfig[Any] = replace(PAPER, model=model, data=replace(PAPER.data, source=f"europarl_{language}"))
    name = {"cs": "Czech", "de": "German"}[language]
    return Preset(config, f"{model.label}{setting}, on the {name} Europarl", "days on two cores")


EXPERIMENT = Experiment(
    name="europarl",
    about="Predict each character of Czech and German with units that decide how much to update, and may be told where words end.",
    reproduces="Jernite et al. 2017, section 5.2.2, Figures 3 to 5",
    presets={
        "quick": Preset(QUICK, "VCRNN, guided and not, on Python's documentation", "5 minutes on two cores, no download", compare=True),
        "paper": _preset("cs", LEARN, ", learn"),
        "cs-guide": _preset("cs", GUIDED, ", guide"),
        "de-learn": _preset("de", LEARN, ", learn"),
        "de-guide": _preset("de", GUIDED, ", guide"),
        **{f"{language}-rnn-{size}": _preset(language, network("elman", size)) for language in ("cs", "de") for size in (512, 1024)},
    },
    variants={"guide": {}, "learn": {"target": 0.3, "guided_symbols": ()}},
    score="bits_per_character",
    closing="""
What you saw: bits per character of a unit that is to compute more at line ends and blanks, and of one that is to find out where.

Next:
  python -m experiments.europarl schedule runs/europarl/quick-guide-seed0     how much it computes at each symbol
  python -m experiments.europarl --preset paper --data.dir DIR                Czech (DIR: where the files are)""",
)

if __name__ == "__main__":
    train_or_inspect(EXPERIMENT)
