"""Hyperparameters, by value, of presets that claim published rows on low-rank and highway networks.

Values of `PINNED` are from the texts and from the authors' code, and not from the presets. `CHOICES` has what no source prints, and in
what this project departs from a source.
"""

LRD, LR, DENSE = "low_rank_plus_diagonal", "low_rank", "dense"
NO_DROPOUT = {f"model.{name}": 0.0 for name in ("word_dropout", "input_dropout", "state_dropout", "output_dropout")}

# Miceli Barone 2018, section 3.1: n = 128, d = 50, learning rate 1e-3, batches of 20, carry bias 4, 100,000 and 10,000 sequences, and the
# updates within which the loss falls below 1e-3. Section 3.5.1: norm clipping at 1 with recovery, epsilon 1e-8. lowrank-gru, models.py and
# RNN_memory.py: a trainable initial state, Glorot's start, evaluation every 500. Its log of variable length: every batch is drawn anew.
COPY = {
    "model.cell": "gru",
    "model.size": 128,
    "model.rank": 50,
    "model.parametrization": LRD,
    "model.tied": False,
    "model.carry_bias": 4.0,
    "model.trainable_initial_state": True,
    "model.initialization": "glorot",
    "model.weight_norm": False,
    **NO_DROPOUT,
    "optim.recipe": "copy_memory",
    "rate": 1e-3,
    "train.batch_size": 20,
    "train.order": "reshuffle",
    "train.evaluate_every": 500,
    "data.train_size": 100_000,
    "data.test_size": 10_000,
}
TASKS = {
    "": ("paper", {"data.variant": "fixed", "data.lag": 500, "train.updates": 35_000}),
    "-variable-length": ("paper-variable-length", {"data.variant": "variable_length", "data.lag": 100, "train.updates": 30_000}),
    "-variable-lag": ("paper-variable-lag", {"data.variant": "variable_lag", "data.lag": 100, "train.updates": 38_000}),
}
# Section 3.5.1. The text does not say that norm clipping stays, and prints no number of updates: those of the other networks are taken.
NORMALIZED = {"model.weight_norm": True, "optim.recipe": "weight_norm"}
# Section 3.1: 721 units, and perfect accuracy in training within 2,000 updates at the fixed lag. It prints no other number of updates.
# lowrank-gru, models.py and RNN_memory.py: no Fourier transforms, no clipping, Glorot's start of the input matrices and of the readout.
UNITARY = {
    "model.cell": "unitary_without_fourier",
    "model.size": 721,
    "model.initialization": "glorot",
    "model.trainable_initial_state": True,
    "optim.recipe": "copy_memory_unitary",
}
OF_GRU = {name: value for name, value in COPY.items() if name.startswith("model.")}
OF_TASK = {name: value for name, value in COPY.items() if name not in OF_GRU}
UNTIL_PERFECT = {"train.updates": 2_000}

PINNED = {("copy_memory", preset): COPY | task for preset, task in TASKS.values()}
PINNED |= {("copy_memory", f"weight-norm{ending}"): COPY | task | NORMALIZED for ending, (_, task) in TASKS.items()}
PINNED |= {
    ("copy_memory", f"unitary{ending}"): OF_TASK | task | UNITARY | ({} if ending else UNTIL_PERFECT) for ending, (_, task) in TASKS.items()
}

# Section 3.2: T = 750, n = 128, d = 24, carry bias 4, component clipping at 1, 14,500 updates, one mark "in each half of the sequence"
# (RNN_adding.py marks any two steps of test sequences). RNN_adding.py: no epsilon, evaluation every 500.
PINNED["adding", "paper"] = {
    **OF_GRU,
    "model.rank": 24,
    "optim.recipe": "adding",
    "rate": 1e-3,
    "train.batch_size": 20,
    "train.updates": 14_500,
    "train.evaluate_every": 500,
    "data.length": 750,
    "data.test_markers": "halves",
    "data.train_size": 100_000,
    "data.test_size": 10_000,
}

# Not the paper's: the same network with recovery from NaN (lrpt/optim/recipes.py), for the row that compares the two.
PINNED["adding", "paper-recovery"] = PINNED["adding", "paper"] | {"optim.recipe": "adding_recovery"}

# Section 3.3: carry bias 5, learning rate 5e-4, batches of 20. Section 3.5.1: component clipping at 1 of all gradients, while RNN_mnist.py
# leaves out the first seven tensors. RNN_mnist.py: one order, evaluation every 300. The log of the LR-GRU 128/24 has 325,801 updates.
PINNED["permuted_mnist", "paper"] = {
    **OF_GRU,
    "model.rank": 24,
    "model.carry_bias": 5.0,
    "optim.recipe": "permuted_mnist",
    "rate": 5e-4,
    "train.batch_size": 20,
    "train.order": "cyclic",
    "train.updates": 325_000,
    "train.evaluate_every": 300,
    "data.source": "mnist",
    "data.permuted": True,
    "data.order": "drawn",
}

# The published log, whose first losses are repeated (`experiments.replay`): seven tensors are not clipped, and images and pixels have one
# order for all runs.
PINNED["permuted_mnist", "original"] = PINNED["permuted_mnist", "paper"] | {
    "model.parametrization": LR,
    "optim.recipe": "permuted_mnist_original",
    "train.order": "file",
    "data.order": "original",
}

# Table 2 and section 3.5.1: sizes, Adam 1e-3, no embeddings. Defaults of dl4mt-lm: norm clipping at 1, batches of 32, validation every
# 5,000 updates, an end at the eleventh validation in a row without improvement, at most 500 characters, states fixed at zero, no carry
# bias; dropout of symbols 0.1 (with biases), states 0.5, outputs 0.5, and its masks of states (one for both gates of a dense GRU).
GRU_LM = {
    "model.cell": "gru_reset_after",
    "model.carry_bias": 0.0,
    "model.trainable_initial_state": False,
    "model.initialization": "dl4mt",
    "model.embedding": None,
    "optim.recipe": "char_lm",
    "rate": 1e-3,
    "optim.summed_steps": 1,
    "train.batch_size": 32,
    "train.evaluate_every": 5_000,
    "train.evaluation_batch": 128,
    "train.patience": 11,
    "data.source": "ptb",
    "data.tokens": "gru",
    "data.reading": "sentences",
    "data.max_length": 500,
}
REGULARIZED = {
    "model.word_dropout": 0.1,
    "model.drop_biases": True,
    "model.word_masks": "positions",
    "model.input_dropout": 0.0,
    "model.state_dropout": 0.5,
    "model.output_dropout": 0.5,
}
TABLE_2 = {
    "gru-1000": (1000, None, False, False),
    "gru-1000-dropout": (1000, None, False, True),
    "gru-3298-dropout": (3298, None, False, True),
    "paper": (1000, 64, False, False),
    "lrd-3298-128": (3298, 128, False, False),
    "lrd-3298-128-dropout": (3298, 128, False, True),
    "lrd-5459-64-dropout": (5459, 64, False, True),
    "lrd-5459-64-tied-dropout": (5459, 64, True, True),
    "lrd-1000-64-tied": (1000, 64, True, False),
    "lrd-4480-128-tied-dropout": (4480, 128, True, True),
    "lrd-6985-64-tied-dropout": (6985, 64, True, True),
    "lr-6985-64-tied-dropout": (6985, 64, True, True),
}


def _gru_lm(preset, size, rank, tied, dropout):
    kind = DENSE if rank is None else LR if preset.startswith("lr-") else LRD
    masks = "candidate_apart" if rank is None else "shared" if tied else "each"
    structure = {"model.size": size, "model.parametrization": kind, "model.tied": tied} | ({} if rank is None else {"model.rank": rank})
    return GRU_LM | structure | (REGULARIZED | {"model.gate_masks": masks} if dropout else NO_DROPOUT)


PINNED |= {("char_lm", preset): _gru_lm(preset, *row) for preset, row in TABLE_2.items()}

# Section 3.5.2: Adam 2e-4, no embeddings. lowrank-lstm (the scripts `noclip`): 20 streams of 35 steps, a summed loss, weight decay of 1e-7,
# uniform within 0.04, dropout 0.3, 0.3, 0.5.
LSTM_LM = {
    "model.cell": "lstm",
    "model.carry_bias": 0.0,
    "model.trainable_initial_state": False,
    "model.initialization": "uniform",
    "model.initial_scale": 0.04,
    "model.word_dropout": 0.3,
    "model.state_dropout": 0.3,
    "model.output_dropout": 0.5,
    "model.input_dropout": 0.0,
    "model.gate_masks": "each",
    "optim.recipe": "char_lstm",
    "rate": 2e-4,
    "optim.summed_steps": 35,
    "train.batch_size": 20,
    "train.order": "stream",
    "train.patience": None,
    "data.source": "ptb",
    "data.tokens": "lstm",
    "data.reading": "stream",
    "data.steps": 35,
    "train.evaluation_batch": 20,
}
PINNED["char_lm", "lstm-1000-dropout"] = LSTM_LM | {"model.size": 1000, "model.parametrization": DENSE}
PINNED["char_lm", "lrd-lstm-1740-300-dropout"] = LSTM_LM | {"model.size": 1740, "model.rank": 300, "model.parametrization": LRD}

# arXiv 1603.03116, appendix A.1: five layers, n = 1024, d = 256, Adam 3e-3, batches of 100, halving after three epochs, transform bias -1,
# L2 of 1e-3 on the readout, a sum over classes. lowrank-highwaynetwork: epochs of 500 updates, at most 14 halvings, dropout 0.2, 0.3 and
# 0.5.
HIGHWAY = {
    "model.size": 1024,
    "model.depth": 5,
    "model.rank": 256,
    "model.activation": "relu",
    "model.transform_bias": -1.0,
    "model.batch_norm": True,
    "model.input_dropout": 0.2,
    "model.state_dropout": 0.3,
    "model.projection_dropout": 0.3,
    "model.output_dropout": 0.5,
    "model.readout_penalty": 1e-3,
    "optim.recipe": "adam",
    "rate": 3e-3,
    "optim.halve_after": 3,
    "optim.halvings": 14,
    "train.batch_size": 100,
    "train.evaluate_every": 500,
    "data.source": "mnist",
    "data.over": "sum",
    "model.penalty_form": "squared",
    "model.inputs.rank": None,
}
PINNED["highway_mnist", "paper"] = HIGHWAY | {"model.parametrization": LR}
PINNED["highway_mnist", "lrd"] = HIGHWAY | {"model.parametrization": LRD}

# rhn_train.py, ptb_sota: SGD at 0.2, divided by 1.02 in each epoch from the 21st on; norm clipping at 10; weight decay of 1e-7 in a loss
# summed over 35 steps; batches of 20; 500 epochs; dropout of words 0.25, inputs 0.75, states 0.25, outputs 0.75; transform bias -2;
# parameters uniform within 0.04.
WORDS = {
    "model.cell": "rhn",
    "model.parametrization": DENSE,
    "model.carry_bias": 2.0,
    "model.trainable_initial_state": False,
    "model.initialization": "uniform",
    "model.initial_scale": 0.04,
    "model.word_dropout": 0.25,
    "model.word_masks": "types",
    "model.input_dropout": 0.75,
    "model.state_dropout": 0.25,
    "model.output_dropout": 0.75,
    "model.gate_masks": "shared",
    "optim.recipe": "rhn",
    "rate": 0.2,
    "optim.summed_steps": 35,
    "optim.weight_decay": 1e-7,
    "optim.weight_decay_form": "in_loss",
    "optim.decay": 1 / 1.02,
    "optim.decay_after": 19,
    "train.batch_size": 20,
    "train.order": "stream",
    "train.updates": 500 * (929_589 // (20 * 35)),
    "train.evaluate_every": 929_589 // (20 * 35),
    "train.evaluation_batch": 20,
    "data.source": "ptb",
    "data.steps": 35,
}
# The authors' README. The text has the first and the last width.
WIDTHS = {1: 1275, 2: 1180, 3: 1110, 4: 1050, 5: 1000, 6: 960, 7: 920, 8: 890, 9: 860, 10: 830}


def _words(depth, tied):
    return WORDS | {"model.depth": depth, "model.size": WIDTHS[depth], "model.embedding": WIDTHS[depth], "model.tie_embedding": tied}


PINNED |= {("word_lm", f"untied-{depth}"): _words(depth, False) for depth in WIDTHS}
PINNED |= {("word_lm", "paper" if depth == 10 else f"tied-{depth}"): _words(depth, True) for depth in WIDTHS}
# torch_rhn_ptb.lua, first release: a mask for each gate, words by position, a decoupled decay, no bias, the first lower rate after epoch 21
# (`if epoch > max_epoch` with 20, at the end of an epoch), 1,000 epochs.
PINNED["word_lm", "torch-8"] = _words(8, False) | {
    "model.gate_masks": "each",
    "model.word_masks": "positions",
    "model.carry_bias": 0.0,
    "optim.weight_decay_form": "decoupled",
    "optim.decay_after": 20,
    "train.updates": 1_000 * (929_589 // (20 * 35)),
}

# Gal and Ghahramani 2016, large model (BayesianRNN, main_new_dropout_SOTA_v3.lua): two layers of 1500; SGD at 1, divided by 1.15 in each
# epoch from the twelfth on; norm clipping at 10 on a loss summed over 35 steps; decay of 1e-7 of the parameters themselves; 55 epochs;
# dropout of words 0.3, inputs 0.5, states 0.3, outputs 0.5; all parameters uniform within 0.04. All gates share a mask: the 77.3 and 75.0
# of Table 1 are those of the network with "tied weights". The script main_new_dropout_SOTA.lua has this as comments.
VARIATIONAL_LSTM = WORDS | {
    "model.cell": "lstm",
    "model.layers": 2,
    "model.size": 1500,
    "model.embedding": 1500,
    "model.carry_bias": 0.0,
    "model.word_dropout": 0.3,
    "model.input_dropout": 0.5,
    "model.state_dropout": 0.3,
    "model.output_dropout": 0.5,
    "model.gate_masks": "shared",
    "rate": 1.0,
    "optim.weight_decay_form": "decoupled",
    "optim.decay": 1 / 1.15,
    "optim.decay_after": 10,
    "train.updates": 55 * (929_589 // (20 * 35)),
}
PINNED["word_lm", "variational-lstm"] = VARIATIONAL_LSTM | {"model.tie_embedding": False}
PINNED["word_lm", "variational-lstm-tied"] = VARIATIONAL_LSTM | {"model.tie_embedding": True}

# rhn_train.py, enwik8_sota and text8_sota: 128 streams of 50; SGD at 0.2, divided by 1.03 in each epoch from the sixth on; dropout of words
# 0.10, inputs 0.40, states 0.10, outputs 0.40; transform bias -4; embeddings as wide as there are symbols. These are settings of depth 10
# and 1500 units, which smaller networks keep here. Earlier versions of the code have other ones: windows of 100 for text8-10x1000 (commit
# 4a78c20); for enwik8-5x1500, batches of 100, a divisor of 1.04, dropout 0.10, 0.30, 0.05, 0.30 and embeddings as wide as the state (commit
# 2d6e545).
WIKI = WORDS | {
    "model.carry_bias": 4.0,
    "model.word_dropout": 0.10,
    "model.input_dropout": 0.40,
    "model.state_dropout": 0.10,
    "model.output_dropout": 0.40,
    "model.tie_embedding": False,
    "optim.summed_steps": 50,
    "optim.decay": 1 / 1.03,
    "optim.decay_after": 4,
    "train.batch_size": 128,
    "train.updates": 500 * (90_000_000 // (128 * 50)),
    "train.evaluate_every": 90_000_000 // (128 * 50),
    "train.evaluation_batch": 128,
    "data.steps": 50,
}
SYMBOLS = {"enwik8": 205, "text8": 27}
WIKI_ROWS = {
    "paper": ("enwik8", 10, 1500),
    "enwik8-5x1500": ("enwik8", 5, 1500),
    "enwik8-10x1000": ("enwik8", 10, 1000),
    "text8-10x1000": ("text8", 10, 1000),
    "text8-10x1500": ("text8", 10, 1500),
}
PINNED |= {
    ("wiki", preset): WIKI | {"data.source": text, "model.embedding": SYMBOLS[text], "model.depth": depth, "model.size": size}
    for preset, (text, depth, size) in WIKI_ROWS.items()
}
# rhn_train.py, commit 4a78c20: text8_sota has 1000 units, and differs from the last version in num_steps only.
PINNED["wiki", "text8-10x1000-original"] = PINNED["wiki", "text8-10x1000"] | {
    "optim.summed_steps": 100,
    "train.updates": 500 * (90_000_000 // (128 * 100)),
    "train.evaluate_every": 90_000_000 // (128 * 100),
    "data.steps": 100,
}
# torch_rhn_enwik8.lua, first release: batches of 100; dropout of words 0.10 by position, inputs 0.30, states 0.05, outputs 0.30; a learning
# rate divided by 1.04 in each epoch from the seventh on; a decoupled decay; embeddings of 1500; 1,000 epochs. It biases the first layer
# only, and the preset all.
PINNED["wiki", "torch-5x1500"] = WIKI | {
    "data.source": "enwik8",
    "model.depth": 5,
    "model.size": 1500,
    "model.embedding": 1500,
    "model.gate_masks": "each",
    "model.input_dropout": 0.30,
    "model.state_dropout": 0.05,
    "model.output_dropout": 0.30,
    "model.word_masks": "positions",
    "optim.decay": 1 / 1.04,
    "optim.decay_after": 5,
    "optim.weight_decay_form": "decoupled",
    "train.batch_size": 100,
    "train.updates": 1_000 * (90_000_000 // (100 * 50)),
    "train.evaluate_every": 90_000_000 // (100 * 50),
    "train.evaluation_batch": 100,
}

# Zilly et al., section 5.1, name depths 1, 2, 4 and 6, and equal sizes of all architectures, which grow with depth. The rest is below,
# among the choices of this project.
JSB_WIDTHS = {"rhn": (215, 242, 257, 263), "dt-rnn": (309, 345, 365, 372), "dts-rnn": (309, 288, 280, 278)}
JSB_CELLS = {
    "paper" if (cell, depth) == ("rhn", 6) else f"{cell}-{depth}": (cell.replace("-", "_"), depth, width)
    for cell, widths in JSB_WIDTHS.items()
    for depth, width in zip((1, 2, 4, 6), widths, strict=True)
}
PINNED |= {
    ("jsb", preset): {"model.cell": cell, "model.depth": depth, "model.parametrization": DENSE, "data.source": "jsb"}
    for preset, (cell, depth, _) in JSB_CELLS.items()
}

# Choices of this project, which decide results as much as published values do. A comment says where a source has another value.

CHOICES = {}

# Copying ends once the loss is below the 1e-3 of the text. The published log of variable length goes on.
COPYING = [preset for experiment, preset in PINNED if experiment == "copy_memory"]
CHOICES |= {("copy_memory", preset): {"train.stop_below": None if preset == "unitary" else 1e-3} for preset in COPYING}

# Batches of adding are drawn anew in each update, as in copying. No source says which order the published runs had.
CHOICES |= {("adding", preset): {"train.order": "reshuffle"} for preset in ("paper", "paper-recovery")}

# Sentences of Table 2 are drawn in another order in each epoch; dl4mt-lm reads them in that of the file, for at most 5,000 epochs.
CHOICES |= {("char_lm", preset): {"train.order": "epochs", "train.updates": 200_000} for preset in TABLE_2}

# lowrank-lstm trains for 55 epochs of 6,910 updates, and validates after each.
OF_LSTMS = {"train.updates": 385_000, "train.evaluate_every": 7_000}
CHOICES |= {("char_lm", preset): OF_LSTMS for preset in ("lstm-1000-dropout", "lrd-lstm-1740-300-dropout")}

# Appendix A.1 prints no number of updates: the published logs end after 68 and 55 epochs of 500 updates. lowrank-highwaynetwork seems to
# read images in the order of the file. It also returns to the best parameters when it halves the learning rate, and drops the same units
# for both gates. The text says neither.
OF_HIGHWAYS = {
    "train.updates": 70 * 500,
    "train.order": "epochs",
    "optim.return_to_best": False,
    "model.dropout.shared_masks": False,
}
CHOICES |= {("highway_mnist", preset): OF_HIGHWAYS for preset in ("paper", "lrd")}

# Chorales. The paper's supplement was not read: budgets of 0.15, 0.3, 0.6 and 0.9 million parameters, at most 1,000 epochs (of 7 updates),
# an end after 100 without improvement.
CHORALES = {
    "model.initialization": "normal",
    "model.initial_scale": 0.01,
    "model.carry_bias": 2.0,
    "model.trainable_initial_state": False,
    "optim.recipe": "momentum",
    "rate": 0.1,
    "train.batch_size": 32,
    "train.order": "epochs",
    "train.updates": 1_000 * 7,
    "train.evaluate_every": 10 * 7,
    "train.patience": 10,
}
CHOICES |= {("jsb", preset): CHORALES | {"model.size": width} for preset, (_, _, width) in JSB_CELLS.items()}
