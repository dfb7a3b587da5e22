"""Published numbers of Jernite et al. (ICLR 2017), and the networks that are trained for them."""

from experiments import bit_lm, conditional, europarl, music
from experiments import variable_computation as characters
from experiments.report.claims.rows import Network

CHARS, BITS, MUSIC, CRNN, LANGUAGES = (module.EXPERIMENT for module in (characters, bit_lm, music, conditional, europarl))

TABLE_1, TABLE_2 = "Table 1, melodies", "Table 2 and section 5.1, melodies"
TABLE_3_BITS, TABLE_3_CHARS, TABLE_3_TEXT8 = "Table 3, bits", "Table 3, characters", "Table 3, text8"
FIGURE_2, FIGURE_4, SECTION_42 = "Figure 2, schedules of bits", "Figure 4, Czech and German", "Section 4.2, learning the schedule"
FIGURE_3, FIGURE_5 = "Figure 3, schedules of characters", "Figure 5, schedules of characters"
OTHER_TUNES = "tunes of O'Neill's collection, a tenth as many as the paper's"


def _chars(name: str, preset: str) -> Network:
    return Network(name, CHARS, f"--preset {preset}")


def _bits(name: str, preset: str) -> Network:
    return Network(name, BITS, f"--preset {preset}")


# Tables 1 and 2: melodies

TUNES = {
    "RNN-200": Network("RNN-200", MUSIC, "--preset rnn-200"),
    "RNN-250": Network("RNN-250", MUSIC, "--preset rnn-250"),
    "VCRNN-500": Network("VCRNN-500", MUSIC, "--preset paper"),
}
PUBLISHED_TUNES = {"RNN-200": (9.13, None), "RNN-250": (8.70, None), "VCRNN-500": (8.51, 233)}
"""Test perplexity, and RNN-d, for which the table has a dash where it is the size."""

# Table 3

CHAR_TABLE = {
    "GRU-1024": ("gru-1024", 1450, 1.42),
    "LSTM-1024": ("lstm-1024", 2048, 1.42),
    "RNN-1024": ("rnn-1024", 1024, 1.47),
    "VCRNN-1024": ("paper", 760, 1.46),
    "RNN-760": ("rnn-760", 760, 1.47),
    "LSTM-380": ("lstm-380", 760, 1.44),
    "GRU-538": ("gru-538", 760, 1.43),
    "VCGRU-1024": ("vcgru-1024", 648, 1.42),
    "LSTM-324": ("lstm-324", 648, 1.46),
    "GRU-458": ("gru-458", 648, 1.47),
}
TEXT8_TABLE = {
    "RNN-512": ("text8-rnn-512", 512, 1.80),
    "GRU-512": ("text8-gru-512", 725, 1.69),
    "GRU-1024": ("text8-gru-1024", 1450, 1.58),
    "VCGRU-1024, target 0.3": ("text8-vcgru-0.3", 464, 1.69),
    "VCGRU-1024, target 0.4": ("text8-vcgru-0.4", 648, 1.64),
    "VCGRU-1024, target 0.5": ("text8-vcgru-0.5", 820, 1.63),
}
VCRNN_340, VCRNN_460 = "VCRNN-1000 (RNN-340)", "VCRNN-1000 (RNN-460)"
"""The two rows of one unit. The paper tells them apart by their operations, and prints no targets; ours are guesses."""
BIT_TABLE = {
    "RNN-100": ("rnn-100", 100, 0.287),
    "RNN-500": ("rnn-500", 500, 0.227),
    "RNN-1000": ("rnn-1000", 1000, 0.223),
    VCRNN_340: ("vcrnn-1000-0.3", 340, 0.231),
    VCRNN_460: ("paper", 460, 0.215),
}
ZHANG = {"RNN-512 (Zhang et al.)": 1.80, "RNN-1024 (Zhang et al.)": 1.69, "LSTM-512 (Zhang et al.)": 1.65, "LSTM-1024 (Zhang et al.)": 1.52}

CHAR_NETWORKS = {name: _chars(name, preset) for name, (preset, _, _) in CHAR_TABLE.items()}
TEXT8_NETWORKS = {name: _chars(name, preset) for name, (preset, _, _) in TEXT8_TABLE.items()}
RNN_512 = _chars("RNN-512", "rnn-760 --model.size 512 --model.embedding 512")
"""A usual network with fewer operations than VCRNN-1024 has here, where the paper has none."""
LARGE_RNNS = RNN_512, CHAR_NETWORKS["RNN-760"], CHAR_NETWORKS["RNN-1024"]
BIT_NETWORKS = {name: _bits(name, preset) for name, (preset, _, _) in BIT_TABLE.items()}
SMALL_VC, SMALL_RNN = _chars("VCRNN-256", "small"), _chars("RNN-128", "small-rnn")
SMALL_GUIDE = _chars("VCRNN-256, guide", "small-guide")
SMALL_VCGRU, SMALL_GRU = _chars("VCGRU-256", "small-vcgru"), _chars("GRU-104", "small-gru")
SMALL_BITS, SMALL_RNN_BITS = _bits("VCRNN-128", "small"), _bits("RNN-77", "small-rnn")
OTHER_RNN_BITS = {size: _bits(f"RNN-{size}", f"small-rnn --model.size {size} --model.embedding {size}") for size in (64, 96)}
CURVE_TARGETS, CURVE_SIZES = (0.2, 0.4, 0.5), (80, 96, 112, 160, 192)
OTHER_VC = {target: _chars(f"VCRNN-256, target {target}", f"small --model.schedule.target {target}") for target in CURVE_TARGETS}
OTHER_RNN = {size: _chars(f"RNN-{size}", f"small-rnn --model.size {size} --model.embedding {size}") for size in CURVE_SIZES}
OTHER_GRU = _chars("GRU-112", "small-gru --model.size 112 --model.embedding 112")


def _annealed(network: Network) -> Network:
    """Return a small network with the learning rate that falls in the last epochs."""
    return Network(f"{network.name}, annealed", network.experiment, network.flags.replace("--preset small", "--preset annealed", 1))


def _constant(network: Network) -> Network:
    """Return a network with as many epochs as one whose learning rate falls, but at a constant rate."""
    flags = f"{network.flags} --optim.decay 1 --optim.decay-after 0"
    return Network(network.name.replace("annealed", "20 epochs at a constant rate"), network.experiment, flags)


SMALL_CHARS_SCALE = "256 units instead of 1,024; 12 epochs"
ANNEALED_SCALE = "256 units instead of 1,024; 20 epochs, the learning rate is halved in each of the last eight"
SMALL_BITS_SCALE = "128 units instead of 1,000; 4 epochs"
ANNEALED_BITS_SCALE = "128 units instead of 1,000; 8 epochs, the learning rate is halved in each of the last four"
CONSTANT_SCALE = "256 units instead of 1,024; 20 epochs at a constant learning rate"
ANNEALED_VC, ANNEALED_GUIDE, ANNEALED_VCGRU = _annealed(SMALL_VC), _annealed(SMALL_GUIDE), _annealed(SMALL_VCGRU)
ANNEALED_TARGETS = {target: _annealed(network) for target, network in OTHER_VC.items()}
SMALL_UNITS = "128 units instead of 1,000"
BUFFERED = {8: _bits("VCRNN-128, 8 buffer bits", "small-buffer-8"), 24: _bits("VCRNN-128, 24 buffer bits", "small-buffer-24")}
CRNN_500, CRNN_100 = Network("CRNN-500", CRNN, "--preset paper"), Network("CRNN-100", CRNN, "--preset bits")
OTHER_RATE = {
    "RNN-100": ("at a constant learning rate", _bits("RNN-100, constant rate", "rnn-100 --optim.decay 1 --optim.decay-after 0")),
    "CRNN-100": (
        "with a falling learning rate",
        Network("CRNN-100, falling rate", CRNN, "--preset bits --optim.decay 0.5 --optim.decay-after 11"),
    ),
}
"""The learning rates that were tried for two rows and were worse."""
RNN_CURVE = (SMALL_RNN, *OTHER_RNN.values())
RNN_BITS_CURVE = (SMALL_RNN_BITS, *OTHER_RNN_BITS.values())
GRU_CURVE = (SMALL_GRU, OTHER_GRU)
ANNEALED_RNNS, ANNEALED_GRUS = tuple(map(_annealed, RNN_CURVE)), tuple(map(_annealed, GRU_CURVE))
ANNEALED_BITS, ANNEALED_RNNS_BITS = _annealed(SMALL_BITS), tuple(map(_annealed, RNN_BITS_CURVE))
CONSTANT_VC = _constant(ANNEALED_VC)
CONSTANT_RNNS = tuple(_constant(network) for network in ANNEALED_RNNS if network.name.startswith(("RNN-96", "RNN-112", "RNN-128")))
"""Controls: is it the falling learning rate that makes a difference, or the number of epochs? A VCRNN is between these sizes."""
UNPRINTED = "our own recipe, because the paper prints only parts of its recipe"
"""What separates a network of the published size from that of the paper."""
RECIPES_OF_BITS = {"RNN-100": f"{UNPRINTED}: a falling learning rate", "CRNN-100": f"{UNPRINTED}: a constant learning rate"}
"""The recipes of two rows of one table, which differ: each has the better of the two rates."""

OF_BUFFERS = {
    bits: ((_bits(f"VCRNN-1000, {bits} buffer bits", f"buffer-{bits}"), UNPRINTED), (BUFFERED[bits], SMALL_UNITS)) for bits in BUFFERED
}
"""Buffer bits -> networks at the published and at a smaller size, and what is smaller."""

# Figure 4

OF_LANGUAGE = {
    (language, setting): Network(f"{name}, {setting}", LANGUAGES, f"--preset {preset}")
    for language, name, setting, preset in (
        ("cs", "Czech", "learn", "paper"),
        ("cs", "Czech", "guide", "cs-guide"),
        ("de", "German", "learn", "de-learn"),
        ("de", "German", "guide", "de-guide"),
    )
}
RNNS_OF_LANGUAGE = {
    language: tuple(Network(f"RNN-{size}", LANGUAGES, f"--preset {language}-rnn-{size}") for size in europarl.SIZES)
    for language in europarl.LANGUAGES
}
LEARNT_GERMAN = (
    OF_LANGUAGE["de", "learn"],
    *(Network(f"German, learn, target {target}", LANGUAGES, f"--preset de-learn-{target}") for target in europarl.TARGETS),
)

# Section 4.2

NAIVE = "neither a penalty nor a growing sharpness"
"""Section 4.2 says that this training ends where everything is updated. It does not mention training without one of the two only."""
NO_PENALTY, FIXED_SHARPNESS = "no penalty, growing sharpness", "a penalty, fixed sharpness"
"""Training without one of the two only."""


def _naive(sharpness: float) -> Network:
    """Return what the section says, with the full gradient of the paper; others have the cut one of this project."""
    mask = "" if sharpness == characters.SHARP else f" --model.mask.sharpness {sharpness:g} --model.mask.end {sharpness:g}"
    name = f"VCRNN-256, neither, full gradient, sharpness {sharpness:g}"
    return _chars(name, f"small-neither --model.schedule.gradient full{mask}")


NAIVE_FULL = {sharpness: _naive(sharpness) for sharpness in (0.1, 1.0, characters.SHARP)}
"""Networks by sharpness; the paper does not print which it means. The mask falls from 0.99 to 0.01 over about 92, 9 and 2 units."""
BOTH = "both a penalty and a growing sharpness"
"""With these two, the section says, a partial update is learnt."""
BOTH_FULL = {
    "characters": (_chars("VCRNN-256, both, full gradient", "small --model.schedule.gradient full"), "256 units on characters"),
    "bits": (_bits("VCRNN-128, both, full gradient", "small --model.schedule.gradient full"), "128 units on bits"),
}
"""Data -> the network with the full gradient, and what is smaller about it."""
ABLATION = {
    **{f"{NAIVE}, full gradient, sharpness {sharpness:g}": (network, sharpness) for sharpness, network in NAIVE_FULL.items()},
    NAIVE: (_chars("VCRNN-256, neither", "small-neither"), characters.SHARP),
    FIXED_SHARPNESS: (_chars("VCRNN-256, fixed sharpness", "small-fixed-sharpness"), characters.SHARP),
    NO_PENALTY: (_chars("VCRNN-256, no penalty", "small-no-penalty"), characters.SHARP),
}
"""What is left out -> the network, and its sharpness at the end."""


def ablation_scale(sharpness: float) -> str:
    """Return what is smaller about the networks of section 4.2."""
    return f"256 units on characters, a sharpness of {sharpness:g}; the paper prints no such setting"
