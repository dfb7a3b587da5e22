"""Published numbers of Ahuja and Morency (AAAI 2018), and the names of the studies that stand in for them."""

from collections.abc import Sequence
from itertools import combinations, pairwise
from typing import NamedTuple

TABLE_1 = {
    "10M": {
        "LSTM": (53, 0.972, 15, 1.158, 52, 1.075, 12, 1.013),
        "GRU": (9, 0.972, 11, 1.163, 37, 1.101, 17, 1.047),
        "Grid-LSTM": (10, 0.970, 43, 1.148, 59, 1.077, 15, 1.009),
        "RHN": (19, 0.986, 19, 1.225, 6, 1.206, 26, 1.121),
        "PS-LRU": (8, 0.971, 8, 1.148, 19, 1.090, 17, 1.019),
        "RG-LRU": (6, 0.971, 11, 1.143, 17, 1.074, 17, 1.014),
        "LRU": (8, 0.965, 8, 1.141, 14, 1.057, 17, 1.010),
    },
    "24M": {
        "LSTM": (8, 0.968, 7, 1.159, 11, 1.035, 12, 0.994),
        "GRU": (9, 0.980, 8, 1.164, 57, 1.121, 59, 1.089),
        "Grid-LSTM": (7, 0.971, 8, 1.171, 13, 1.034, 13, 0.986),
        "RHN": (18, 0.979, 21, 1.199, 34, 1.092, 18, 1.108),
        "PS-LRU": (5, 0.969, 5, 1.152, 25, 1.070, 32, 1.058),
        "RG-LRU": (4, 0.969, 5, 1.155, 23, 1.065, 19, 1.018),
        "LRU": (5, 0.967, 6, 1.150, 17, 1.041, 16, 1.010),
    },
}
"""Parameters -> model -> epochs and test loss (nats per character) on each text."""

TEXTS = ("PTB", "WP", "enwik8", "text8")
BUDGETS = {"10M": "10m", "24M": "24m"}
PRESET_TEXTS = {"PTB": "ptb", "WP": "warpeace", "enwik8": "enwik8", "text8": "text8"}
"""Text in tables -> text in names of presets."""
STUDIES = {"PTB": ("lattice_convergence_ptb_1m", "lattice_convergence_ptb"), "WP": ("lattice_convergence_warpeace",)}
"""Text -> studies that stand in for its column of Table 1, the one with the largest networks first."""
EFFICIENCY = {"PTB": "lattice_efficiency_ptb", "text8": "lattice_efficiency_text8", "enwik8": "lattice_efficiency_enwik8"}
"""Text -> study of shares of the data."""
GRADIENTS = "lattice_gradients_ptb"

READING = 0.003
"""uncertainty of a loss that is read off Figure 5"""

# Figure 5, 10 M parameters, percent of the data -> test loss.
SHARES = (20, 40, 60, 80, 100)
PARTS = SHARES[:-1]
"""Shares below the whole text, which Table 1 has."""
FIGURE_5: dict[str, dict[str, tuple[float, ...]]] = {
    "PTB": {
        "LSTM": (1.182, 1.035, 1.011, 0.995, 0.972),
        "GRU": (1.120, 1.003, 0.997, 0.981, 0.973),
        "Grid-LSTM": (1.162, 1.016, 1.002, 0.985, 0.970),
        "RHN": (1.154, 1.019, 1.013, 0.991, 0.986),
        "PS-LRU": (1.117, 1.005, 1.009, 0.984, 0.971),
        "RG-LRU": (1.119, 1.006, 1.002, 0.980, 0.972),
        "LRU": (1.111, 0.993, 0.991, 0.970, 0.965),
    },
    "text8": {
        "LSTM": (1.156, 1.096, 1.069, 0.996, 1.013),
        "GRU": (1.159, 1.095, 1.067, 1.003, 1.028),
        "Grid-LSTM": (1.159, 1.099, 1.066, 0.996, 1.009),
        "RHN": (1.182, 1.113, 1.094, 1.030, 1.098),
        "PS-LRU": (1.163, 1.099, 1.069, 1.001, 1.019),
        "RG-LRU": (1.163, 1.097, 1.062, 0.997, 1.015),
        "LRU": (1.157, 1.093, 1.062, 0.992, 1.010),
    },
    "enwik8": {
        "LSTM": (1.154, 1.138, 1.087, 1.091, 1.075),
        "GRU": (1.131, 1.114, 1.058, 1.062, 1.101),
        "Grid-LSTM": (1.134, 1.127, 1.065, 1.063, 1.077),
        "LRU": (1.157, 1.131, 1.068, 1.064, 1.057),
    },
}
"""Text -> model -> test loss at each share. The panel of enwik8 is in the authors' repository only, and has four models."""


# Figures 3 and 4 as the authors' repository has them (src/results), 10 M parameters.
RHN_CURVES = {
    "PTB": (1.37, 1.16, 1.10, 1.07, 1.05, 1.03),
    "WP": (1.94, 1.57, 1.44, 1.37, 1.33, 1.30),
    "enwik8": (1.282, 1.245, 1.229, 1.213, 1.277, 1.206),
    "text8": (1.21, 1.20, 1.22, 2.19, 2.12, 1.85),
}
"""Text -> test losses of the RHN in the first six epochs."""
FIRST_EPOCH = {
    "PTB": {"LRU": 1.121, "RG-LRU": 1.098, "PS-LRU": 1.122, "GRU": 1.156},
    "WP": {"LRU": 1.380, "RG-LRU": 1.390, "PS-LRU": 1.407, "GRU": 1.387},
    "enwik8": {"LRU": 1.198, "RG-LRU": 1.213, "PS-LRU": 1.243, "GRU": 1.261},
    "text8": {"LRU": 1.125, "RG-LRU": 1.129, "PS-LRU": 1.133, "GRU": 1.168},
}
"""Text -> model -> test loss after one epoch."""

# Figure 6: median epochs until the best validation loss, over all runs of the paper; read off the box plot.
FIGURE_6 = {"LSTM": 15, "GRU": 14, "Grid-LSTM": 13, "RHN": 21, "PS-LRU": 10, "RG-LRU": 10, "LRU": 8}

# Section 5, 'Computational Convergence Rate': means of epochs until the best validation loss over all runs, and two deviations.
MEAN_EPOCHS = {"LRU family": 12, "Grid-LSTM, RHN and GRU": 22, "LSTM": 30}
DEVIATIONS = {"LRU": 6, "LSTM": 28}

ORDERINGS = (
    ("LRU", "GRU"),
    ("LRU", "LSTM"),
    ("LRU", "Grid-LSTM"),
    ("LRU", "RHN"),
    ("LRU", "RG-LRU"),
    ("RG-LRU", "PS-LRU"),
    ("PS-LRU", "GRU"),
    ("RG-LRU", "GRU"),
    ("LRU", "PS-LRU"),
)
"""Pairs of which the text says that the first has the lower loss, on all texts and at both sizes."""
FASTER = (
    ("LRU", "LSTM"),
    ("LRU", "GRU"),
    ("LRU", "Grid-LSTM"),
    ("LRU", "RHN"),
    ("LRU", "RG-LRU"),
    ("LRU", "PS-LRU"),
    ("RG-LRU", "PS-LRU"),
    ("PS-LRU", "GRU"),
    ("RG-LRU", "GRU"),
)
"""Pairs of which the captions of Figures 3 and 4 (10M) and the conclusion (no size) say that the first needs fewer epochs.

That this holds on each text and with 24M parameters is our reading; section 5 prints averages over all runs only.
"""
EXCEPTED = ("WP", "RG-LRU", "PS-LRU")
"""Text and models whose losses have the opposite order by footnote 5: 'for WP [...] PS-LRU is slightly better than RG-LRU'."""


class Ordering(NamedTuple):
    """Two models on a text, at a size; the score is loss or epochs."""

    text: str
    budget: str
    better: str
    worse: str
    score: str


def claimed() -> list[Ordering]:
    """Return every ordering of Table 1 that the text claims: the captions name networks of 10M, the conclusion no size."""
    losses = [Ordering(text, budget, *pair, "loss") for budget in TABLE_1 for text in TEXTS for pair in ORDERINGS]
    epochs = [Ordering(text, budget, *pair, "epochs") for budget in TABLE_1 for text in TEXTS for pair in FASTER]
    return [*(_excepted(one) if (one.text, one.better, one.worse) == EXCEPTED else one for one in losses), *epochs]


def _excepted(one: Ordering) -> Ordering:
    """Return the opposite order."""
    return one._replace(better=one.worse, worse=one.better)


def holds(ordering: Ordering) -> bool:
    """Return whether the published table has an ordering that the text claims."""
    better, worse = _printed(ordering)
    return better < worse


def lacking() -> list[Ordering]:
    """Return the orderings that the text claims and the published table does not have."""
    return [claim for claim in claimed() if not holds(claim)]


def is_even(ordering: Ordering) -> bool:
    """Return whether the published table has equal numbers for both models."""
    better, worse = _printed(ordering)
    return better == worse


def _printed(ordering: Ordering) -> tuple[float, float]:
    """Return the numbers of both models in the published table."""
    column = 2 * TEXTS.index(ordering.text) + (ordering.score == "loss")
    of = TABLE_1[ordering.budget]
    return of[ordering.better][column], of[ordering.worse][column]


FAMILY = ("LRU", "RG-LRU", "PS-LRU", "GRU")
"""The best model first, by section 5."""
OF_FIGURE_3 = ("LRU", "GRU")
"""The pair of this family that is in Figure 3, too, and is judged there."""


def early() -> list[tuple[str, str, str]]:
    """Return text, better and worse model of every ordering after one epoch that the text claims of this family."""
    return [(text, *pair) for text in TEXTS for pair in combinations(FAMILY, 2) if pair != OF_FIGURE_3 and (text, *pair) != EXCEPTED]


def holds_early(text: str, better: str, worse: str) -> bool:
    """Return whether Figure 4 has an ordering of losses after one epoch."""
    return FIRST_EPOCH[text][better] < FIRST_EPOCH[text][worse]


BEST_OF_SHARES = {"PTB": ("GRU", "PS-LRU", "RG-LRU", "LSTM", "Grid-LSTM", "RHN"), "text8": ("GRU", "PS-LRU", "RG-LRU")}
"""Text -> models than which the LRU is said to be better on every share of the data.

On text8 the text calls all models equal, and the caption of Figure 5 calls the LRU better. Only its family is listed there.
"""


ALIKE = 0.04
"""nats per character up to which models count as equally good on text8; the paper names none, and its figure has differences up to 0.038"""
RISING = 5
"""epochs after the first one in which a test loss that rises at first has to be above that of the first; the paper names none"""


def decrease(losses: Sequence[float]) -> float:
    """Return the smallest decrease from one loss to the next."""
    return min(one - other for one, other in pairwise(losses))


def spread(losses: Sequence[float]) -> float:
    """Return the difference of the highest and the lowest loss."""
    return max(losses) - min(losses)


def above_others(losses: Sequence[float]) -> float:
    """Return by how much the first loss is above all others."""
    return losses[0] - max(losses[1:])


def rises(losses: Sequence[float]) -> float | None:
    """Return the highest loss of the first epochs after the first one."""
    return max(losses[1 : 1 + RISING], default=None)


def rises_in_figure(text: str) -> bool:
    """Return whether Figure 3 has an RHN whose test loss rises at first."""
    highest = rises(RHN_CURVES[text])
    return highest is not None and highest > RHN_CURVES[text][0]


def falls(text: str, model: str) -> bool:
    """Return whether Figure 5 has losses of a model that only fall with more data.

    The paper excepts the step from 80 to 100 % of text8.
    """
    losses = FIGURE_5[text][model]
    return decrease(losses[:-1] if text == "text8" else losses) > 0


def of_lstm(share: int) -> float:
    """Return by how much Figure 5 has the LSTM above all others on PTB at a share of the data; negative if it is not the worst."""
    k = SHARES.index(share)
    return above_others([FIGURE_5["PTB"]["LSTM"][k], *(of[k] for name, of in FIGURE_5["PTB"].items() if name != "LSTM")])


def of_spreads(less: int, more: int) -> float:
    """Return by how much the spread of all losses on PTB is larger in Figure 5 at a smaller share of the data than at a larger one."""
    few, many = (spread([losses[SHARES.index(share)] for losses in FIGURE_5["PTB"].values()]) for share in (less, more))
    return few - many


def distance(text: str, share: int, worse: str) -> float:
    """Return how far apart Figure 5 has the losses of the LRU and of another model."""
    k = SHARES.index(share)
    return abs(FIGURE_5[text]["LRU"][k] - FIGURE_5[text][worse][k])


def holds_on(text: str, share: int, worse: str) -> bool:
    """Return whether Figure 5 has the LRU below another model at a share of the data."""
    k = SHARES.index(share)
    return FIGURE_5[text]["LRU"][k] < FIGURE_5[text][worse][k]
