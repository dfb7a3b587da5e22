"""Hyperparameters, by value, of presets that claim published rows on lattice networks (Ahuja and Morency 2018).

Values of `PINNED` are from the text and from the authors' code, and not from the presets. `CHOICES` has what no source prints, and in
what this project departs from a source.
"""

from pinned_papers import DENSE, NO_DROPOUT

# Ahuja and Morency, section 4: 250 streams of 50, Adam 1e-3 (its "beta1 = 0.1 and beta2 = 0.001" are 1 minus the usual 0.9 and 0.999),
# times 0.9 an epoch, no dropout, losses of both splits at every epoch; RHNs of depth 5. The start and the text are those of chahuja/lru:
# uniform in +-1/sqrt(n) with standard normal embeddings (the text says Glorot), no clipping, every character, exact split points.
LATTICE = {
    "model.parametrization": DENSE,
    "model.initialization": "lru",
    "model.shared_layers": False,
    "model.trainable_initial_state": False,
    "model.carry_bias": 0.0,
    **NO_DROPOUT,
    "optim.recipe": "adam",
    "rate": 1e-3,
    "optim.decay": 0.9,
    "optim.decay_after": 0,
    "optim.weight_decay": 0.0,
    "train.batch_size": 250,
    "train.evaluation_batch": 250,
    "train.order": "stream",
    "train.test_each": True,
    "data.steps": 50,
    "data.reading": "stream",
    "data.blanks": "kept",
    "data.line_ends": "kept",
    "data.cuts": "exact",
    "data.text_share": None,
}
# Cell, and widths at which two layers come closest to 10 M and 24 M parameters in chahuja/lru, and four layers; RHNs have one layer. No
# source gives widths.
LATTICE_WIDTHS = {
    "lru": ("lru", 643, 998, 455, 706),
    "rg-lru": ("lru_rg", 704, 1093, 498, 773),
    "ps-lru": ("lru_ps", 787, 1221, 557, 864),
    "gru": ("gru_cudnn", 908, 1409, 643, 997),
    "lstm": ("lstm", 787, 1221, 557, 864),
    "grid-lstm": ("grid_lstm", 557, 864, 394, 611),
    "rhn": ("rhn", 908, 1410),
}
# The same of two layers, for the 85, 206 and 28 symbols of other texts, of which one stands for unknown symbols. The treebank has 51.
OTHER_WIDTHS = {
    "warpeace": {"lru": (642, 996), "rg-lru": (703, 1091), "ps-lru": (785, 1219), "gru": (905, 1407), "lstm": (785, 1219)}
    | {"grid-lstm": (556, 863), "rhn": (905, 1407)},
    "enwik8": {"lru": (637, 991), "rg-lru": (697, 1085), "ps-lru": (778, 1212), "gru": (895, 1397), "lstm": (777, 1211)}
    | {"grid-lstm": (552, 859), "rhn": (895, 1397)},
    "text8": {"lru": (644, 999), "rg-lru": (705, 1094), "ps-lru": (789, 1223), "gru": (910, 1411), "lstm": (788, 1222)}
    | {"grid-lstm": (558, 865), "rhn": (910, 1411)},
}
# Updates of 250 streams of 50 that read 90 percent of a text once: of 5,951,345 characters, about 3.26 million, and twice 100 million.
EPOCHS = {"ptb": 428, "warpeace": 234, "enwik8": 7_200, "text8": 7_200}
SOURCES = {
    "ptb": {"data.source": "ptb_joined"},
    "warpeace": {"data.file": "warpeace_input.txt"},
    "enwik8": {"data.source": "enwik8"},
    "text8": {"data.source": "text8"},
}
SHORT_NAMES = {"lru-10m": "paper", "lru-10m-enwik8": "enwik8", "lru-10m-text8": "text8"}


def _lattice(name, text, width, layers=2):
    epoch = EPOCHS[text]
    return LATTICE | {
        "model.cell": LATTICE_WIDTHS[name][0],
        "model.size": width,
        "model.embedding": width,
        "model.depth": 5 if name == "rhn" else 1,
        "model.layers": 1 if name == "rhn" else layers,
        "train.evaluate_every": epoch,
        **SOURCES[text],
    }


LATTICE_PRESETS = {
    **{
        f"{name}-{budget}": _lattice(name, "ptb", width)
        for name, (_, *widths) in LATTICE_WIDTHS.items()
        for budget, width in zip(("10m", "24m"), widths[:2], strict=True)
    },
    **{
        f"{name}-{budget}-4-layers": _lattice(name, "ptb", width, 4)
        for name, (_, *widths) in LATTICE_WIDTHS.items()
        for budget, width in zip(("10m", "24m")[: len(widths) - 2], widths[2:], strict=True)
    },
    **{
        f"{name}-{budget}-{text}": _lattice(name, text, width)
        for text, of_text in OTHER_WIDTHS.items()
        for name, widths in of_text.items()
        for budget, width in zip(("10m", "24m"), widths, strict=True)
    },
}
PINNED = {("lattice", SHORT_NAMES.get(name, name)): pinned for name, pinned in LATTICE_PRESETS.items()}
PINNED |= {
    ("lattice", f"rhn-2-layers-{budget}"): _lattice("rhn", "ptb", width) | {"model.layers": 2}
    for budget, width in (("10m", 643), ("24m", 997))
}
PINNED |= {
    ("lattice", f"grid-lstm-tied-{budget}{end}"): _lattice("grid-lstm", "ptb", width, layers) | {"model.shared_layers": True}
    for budget, width in (("10m", 787), ("24m", 1221))
    for end, layers in (("", 2), ("-4-layers", 4))
}

# Lattices train for at most 100 epochs, where a whisker of Figure 6 ends, and end after three without improvement. chahuja/lru ends after
# three that improve by less than 0.0001.
CHOICES = {preset: {"train.updates": 100 * pinned["train.evaluate_every"], "train.patience": 3} for preset, pinned in PINNED.items()}
