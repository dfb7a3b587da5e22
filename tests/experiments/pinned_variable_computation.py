"""Hyperparameters, by value, of presets that claim published rows on variable computation (Jernite et al. 2017).

Values of `PINNED` are from the text, and not from the presets. `CHOICES` has what it does not print, and this project chose.
"""

from pinned_papers import DENSE

PINNED = {}

# Jernite et al.: embeddings as wide as the state, an initial state of zero (section 3), a symmetric l1 penalty, sharpness 0.1 and 0.1 more
# an epoch up to 1; on text8 the targets of Table 3. Targets elsewhere, optimizer, batches and windows are not printed.
SCHEDULED = {
    "model.penalty": "l1",
    "model.one_sided": False,
    "model.sharpness": 0.1,
    "model.sharpness_growth": 0.1,
    "model.sharpness_end": 1.0,
}
FROM_ZERO = {"model.trainable_initial_state": False}
TEXT8_TARGETS = (0.3, 0.4, 0.5)
UNITS = {
    "variable_computation": {
        "paper": ("vcrnn", 1024),
        "vcgru-1024": ("vcgru", 1024),
        **{f"rnn-{size}": ("elman", size) for size in (1024, 760)},
        **{f"gru-{size}": ("gru", size) for size in (1024, 538, 458)},
        **{f"lstm-{size}": ("lstm", size) for size in (1024, 380, 324)},
        **{f"text8-vcgru-{target}": ("vcgru", 1024) for target in TEXT8_TARGETS},
        "text8-rnn-512": ("elman", 512),
        **{f"text8-gru-{size}": ("gru", size) for size in (512, 1024)},
    },
    "bit_lm": {
        "paper": ("vcrnn", 1000),
        "vcrnn-1000-0.3": ("vcrnn", 1000),
        **{f"rnn-{size}": ("elman", size) for size in (100, 500, 1000)},
        **{f"buffer-{bits}": ("vcrnn", 1000) for bits in (8, 24)},
    },
    "music": {"paper": ("vcrnn", 500), "rnn-200": ("elman", 200), "rnn-250": ("elman", 250)},
}
EUROPARL = {
    "paper": ("cs", []),
    "cs-guide": ("cs", [0, 2]),
    "de-learn": ("de", []),
    "de-guide": ("de", [0, 2]),
    **{f"{language}-learn-{target}": (language, []) for language in ("cs", "de") for target in (0.2, 0.4, 0.5)},
    **{f"{language}-guide-{target}": (language, [0, 2]) for language in ("cs", "de") for target in (0.2, 0.4, 0.5)},
}
EUROPARL_RNNS = {f"{language}-rnn-{size}": (language, size) for language in ("cs", "de") for size in (128, 192, 256, 384, 512)}


def _unit(cell, size):
    plain = FROM_ZERO | {"model.cell": cell, "model.size": size, "model.embedding": size, "model.parametrization": DENSE}
    return plain | (SCHEDULED if cell.startswith("vc") else {})


PINNED |= {(experiment, preset): _unit(*unit) for experiment, units in UNITS.items() for preset, unit in units.items()}
for _target in TEXT8_TARGETS:
    PINNED["variable_computation", f"text8-vcgru-{_target}"] |= {"model.target": _target}
for _bits in (8, 24):
    PINNED["bit_lm", f"buffer-{_bits}"] |= {"data.buffer": _bits}
PINNED |= {
    ("europarl", preset): FROM_ZERO | SCHEDULED | {"data.source": f"europarl_{language}", "model.guided_symbols": guided}
    for preset, (language, guided) in EUROPARL.items()
}
PINNED |= {
    ("europarl", preset): _unit("elman", size) | {"data.source": f"europarl_{language}"}
    for preset, (language, size) in EUROPARL_RNNS.items()
}
PINNED["conditional", "paper"] = {"model.size": 500, "model.parametrization": DENSE, "data.words": 2}
PINNED["conditional", "bits"] = {"model.size": 100, "model.parametrization": DENSE, "data.characters": True}

# Choices of this project (docs/variable_computation.md): Adam at 1e-3, norm clipping at 1, 32 streams with windows of 50, 20 epochs, of
# which the last eight each have half the rate of the one before.

CHOICES = {}

LANGUAGE = {
    "optim.recipe": "char_lm",
    "rate": 1e-3,
    "train.batch_size": 32,
    "train.evaluation_batch": 32,
    "train.order": "stream",
    "data.steps": 50,
}
FALLING = {"optim.decay": 0.5, "optim.decay_after": 11}
CELL = LANGUAGE | {"model.initialization": "glorot", "model.carry_bias": 0.0}
SCHEDULER = {
    "model.penalty_weight": 0.3,
    "model.guided_target": 0.8,
    "model.scheduler_gradient": "cut",
    "model.smooth_growth": True,
    "model.epsilon": 1e-5,
    "model.mask.evaluation": "soft",
    "model.mask.rounding": "ceil",
    "model.mask.agreement": True,
    "model.lag": 0,
}


def _epochs(count, updates):
    return {"train.updates": count * updates, "train.evaluate_every": updates}


def _chosen(cell, whole, scheduled):
    """Return the choices of a preset: of all networks of its experiment, and of those with a scheduler."""
    return CELL | whole | (SCHEDULER | scheduled if cell.startswith("vc") else {})


OF_PTB = _epochs(20, 3_135) | FALLING | {"data.source": "ptb", "data.reading": "stream"}
OF_TEXT8 = _epochs(20, 14_062) | FALLING | {"data.source": "text8", "train.batch_size": 128, "train.evaluation_batch": 128}
TARGETS = {"paper": 0.5, "vcgru-1024": 0.4}
for _preset, (_cell, _) in UNITS["variable_computation"].items():
    _whole, _fresh = (OF_TEXT8, 781) if _preset.startswith("text8") else (OF_PTB, 250)
    _own = {"train.fresh_every": _fresh} | ({"model.target": TARGETS[_preset]} if _preset in TARGETS else {})
    CHOICES["variable_computation", _preset] = _chosen(_cell, _whole, _own)

# Bits: windows of six characters with their buffer.
PERIODS = {"buffer-8": 16, "buffer-24": 32}
for _preset, (_cell, _) in UNITS["bit_lm"].items():
    _period = PERIODS.get(_preset, 8)
    _whole = _epochs(20, 26_132) | FALLING | {"data.source": "ptb", "data.steps": 6 * _period}
    _target = 0.3 if _preset == "vcrnn-1000-0.3" else 0.4
    _own = {"model.target": _target, "model.penalty_weight": 0.1, "model.lag": _period, "train.fresh_every": 2_000}
    CHOICES["bit_lm", _preset] = _chosen(_cell, _whole, _own)

# Melodies: other tunes than the paper's, and an end after four epochs without improvement.
OF_TUNES = _epochs(60, 132) | {"data.source": "irish", "train.patience": 4}
CHOICES |= {("music", preset): _chosen(cell, OF_TUNES, {"model.target": 0.33}) for preset, (cell, _) in UNITS["music"].items()}

# Figure 4 prints neither sizes nor targets. A preset has its target in its name, and 0.3 otherwise.
OF_LANGUAGE = _epochs(12, 11_250) | {"data.reading": "stream"}
WIDE = {"model.cell": "vcrnn", "model.size": 512, "model.embedding": 512, "model.parametrization": DENSE}
for _preset in EUROPARL:
    _target = float(_preset.rpartition("-")[2]) if _preset[-1].isdigit() else 0.3
    CHOICES["europarl", _preset] = _chosen("vcrnn", OF_LANGUAGE | WIDE, {"model.target": _target, "train.fresh_every": 250})
CHOICES |= {("europarl", preset): _chosen("elman", OF_LANGUAGE, {}) for preset in EUROPARL_RNNS}

CONDITIONAL = LANGUAGE | {"model.initialization": "glorot", "data.source": "ptb", "model.slow_size": None}
CHOICES["conditional", "paper"] = CONDITIONAL | _epochs(20, 3_135) | {"data.reading": "stream"}
CHOICES["conditional", "bits"] = CONDITIONAL | _epochs(20, 6_270) | {"data.steps": 200}
