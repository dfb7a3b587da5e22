"""Hyperparameters, by value, of networks and studies that are smaller than published, and that verdicts rest on.

A network is an earlier preset but for some settings, whose values are here. So all of its settings are pinned. No source prints these
values: all are choices of this project.
"""

STAND_INS = {}
"""Experiment and preset -> the preset it starts from, and the values in which it differs."""

# Variable computation on characters: 256 units, twelve epochs of 3,135 updates at one learning rate. The sharpness ends at 4, in the fifth
# epoch. RNNs and GRUs have about as many operations.
SMALL = {"optim.decay": 1.0, "optim.decay_after": 0, "train.updates": 37_620}
SHARP = {"model.sharpness": 0.1, "model.sharpness_growth": 0.975, "model.sharpness_end": 4.0}
SCHEDULED = SMALL | SHARP | {"model.size": 256, "model.embedding": 256, "model.target": 0.3, "model.penalty_weight": 0.5}
FIXED = {"model.sharpness": 4.0, "model.sharpness_growth": 0.0}
OF_CHARACTERS = {
    "small": ("paper", SCHEDULED),
    "small-guide": ("small", {"model.guided_symbols": [0, 2]}),
    "small-vcgru": ("vcgru-1024", SCHEDULED),
    "small-rnn": ("rnn-760", SMALL | {"model.size": 128, "model.embedding": 128}),
    "small-gru": ("gru-458", SMALL | {"model.size": 104, "model.embedding": 104}),
    "small-no-penalty": ("small", {"model.penalty_weight": 0.0}),
    "small-fixed-sharpness": ("small", FIXED),
    "small-neither": ("small", FIXED | {"model.penalty_weight": 0.0}),
}
STAND_INS |= {("variable_computation", preset): start for preset, start in OF_CHARACTERS.items()}

# The same networks, and eight more epochs, each at half the learning rate of the one before.
ANNEALED = {"optim.decay": 0.5, "optim.decay_after": 11, "train.updates": 62_700}
STAND_INS |= {("variable_computation", f"annealed{kind}"): (f"small{kind}", ANNEALED) for kind in ("", "-guide", "-vcgru", "-rnn", "-gru")}

# Variable computation on bits: 128 units, four epochs of 26,132 updates. The sharpness ends at 4, in the second epoch. Windows have six
# characters with their buffer. The annealed networks have four more epochs, each at half the learning rate of the one before.
SMALL_BITS = {"optim.decay": 1.0, "optim.decay_after": 0, "train.updates": 104_528}
SHARP_BITS = {"model.sharpness": 0.1, "model.sharpness_growth": 3.9, "model.sharpness_end": 4.0}
UNITS_OF_BITS = {"model.size": 128, "model.embedding": 128, "model.target": 0.3, "model.penalty_weight": 0.1}
ANNEALED_BITS = {"optim.decay": 0.5, "optim.decay_after": 3, "train.updates": 209_056}
OF_BITS = {
    "small": ("paper", SMALL_BITS | SHARP_BITS | UNITS_OF_BITS),
    "small-rnn": ("rnn-100", SMALL_BITS | {"model.size": 77, "model.embedding": 77}),
    "annealed": ("small", ANNEALED_BITS),
    "annealed-rnn": ("small-rnn", ANNEALED_BITS),
    "small-buffer-8": ("small", {"data.buffer": 8, "data.steps": 96, "model.lag": 16}),
    "small-buffer-24": ("small", {"data.buffer": 24, "data.steps": 192, "model.lag": 32}),
}
STAND_INS |= {("bit_lm", preset): start for preset, start in OF_BITS.items()}

# Words: less dropout, and a learning rate that falls by a third in each epoch. Networks of 200 units have ten epochs of 1,327 updates, and
# those of 1.5 million parameters six.
LESS_DROPOUT = {"model.word_dropout": 0.1, "model.input_dropout": 0.2, "model.state_dropout": 0.1, "model.output_dropout": 0.3}
NARROW = LESS_DROPOUT | {"optim.decay": 1 / 1.5, "optim.decay_after": 5, "train.updates": 13_270}
EQUAL = LESS_DROPOUT | {"optim.decay": 1 / 1.5, "optim.decay_after": 2, "train.updates": 7_962}
EQUAL_WIDTHS = {1: 141, 2: 138, 3: 134, 4: 132, 5: 129, 6: 126}
STAND_INS |= {("word_lm", f"small-{depth}"): (f"tied-{depth}", NARROW | {"model.size": 200, "model.embedding": 200}) for depth in (1, 3)}
STAND_INS |= {
    ("word_lm", f"equal-{depth}"): (f"tied-{depth}", EQUAL | {"model.size": width, "model.embedding": width})
    for depth, width in EQUAL_WIDTHS.items()
}

# Studies of lattices: the options from which the commands of the report start.
CONVERGENCE = {
    "models": ["lru", "rg-lru", "ps-lru", "gru", "lstm", "grid-lstm", "rhn"],
    "parameters": 300_000,
    "layers": 2,
    "epochs": 20,
    "patience": 3,
    "batch_size": 50,
    "learning_rate": 1e-3,
    "initialization": ["lru"],
    "seeds": 3,
    "seed": 0,
    "data.source": "python",
    "data.reading": "stream",
    "data.steps": 50,
    "data.blanks": "kept",
    "data.line_ends": "kept",
    "data.cuts": "exact",
    "data.encoding": "utf-8",
    "data.tokens": "gru",
    "data.max_length": 500,
    "data.text_share": None,
    "data.train_share": None,
    "data.words": None,
}
# The swarm of Figure 4: small networks at random settings. Its data are the chorales, whole.
SWARM = {
    "preset": "paper",
    "cells": ["rhn", "dt_rnn", "dts_rnn"],
    "depths": [1, 2, 4, 6],
    "parameters": [150_000, 300_000, 600_000, 900_000],
    "settings": 10,
    "learning_rate": [1e-4, 1.0],
    "spread": [1e-8, 1e-2],
    "carry_bias": [0.0, 1.0, 2.0, 3.0],
    "updates": 700,
    "evaluate_every": 70,
    "seed": 0,
    "data.source": "jsb",
    "data.first_frame": False,
    "data.format": "json",
    "data.length": 64,
    "data.longest": None,
}
STUDIES = {
    ("lattice", "convergence", ""): CONVERGENCE,
    ("lattice", "efficiency", ""): CONVERGENCE | {"shares": [20, 40, 60, 80, 100], "test": "fixed"},
    ("lattice", "gradients", ""): CONVERGENCE
    | {"models": ["gru", "lru"], "initialization": ["lru", "glorot"], "layers": 10, "patience": None, "seeds": 1},
    ("jsb", "swarm", "paper"): SWARM,
}
"""Experiment, subcommand and preset -> all options that decide a result."""
UNDECIDING = {"devices", "workdir", "huge", "data.dir", "data.file"}
"""Options of a study that decide where it runs, and not what it finds. Every command of the report names its text."""

# What a run of such a study has otherwise than the preset 'paper' of its experiment. The width follows from 300,000 parameters and 50
# symbols, and the updates from epochs of 200.
OF_LATTICE = {
    "model.size": 109,
    "model.embedding": 109,
    "train.updates": 20 * 200,
    "train.evaluate_every": 200,
    "train.batch_size": 50,
    "train.evaluation_batch": 50,
    "data.source": "python",
}
OF_SWARM = {"train.updates": 700, "train.patience": None}
DRAWN = ("rate", "model.initial_scale", "model.carry_bias")
"""settings that the swarm draws"""
