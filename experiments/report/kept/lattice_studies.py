"""Content of the JSON files of `experiments.lattice`."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from experiments.lattice.models import NAMES

Study = Mapping[str, Any]
Run = Mapping[str, Any]

STARTS = {"lru": "initialized as in the authors' code", "glorot": "Glorot's initialization"}
"""Starts of the parameters, the one of the published runs first, and what they are in words."""


def runs_from(study: Study, start: str) -> list[Run]:
    """Return the runs of a start."""
    return [run for run in study.get("runs", ()) if run["initialization"] == start]


def starts_in(study: Study) -> list[str]:
    """Return the starts that a study has runs of."""
    return [start for start in STARTS if runs_from(study, start)]


def is_as_written(study: Study) -> bool:
    """Return whether texts were read with all blanks and line ends, so that losses are in the published units."""
    return study["options"]["data"].get("blanks") == "kept"


def scores(study: Study, start: str) -> dict[str, dict[int, float]]:
    """Return model -> seed -> test loss of the runs on all data."""
    found: dict[str, dict[int, float]] = {}
    for run in runs_from(study, start):
        if run["share"] == 100:
            found.setdefault(run["model"], {})[run["seed"]] = run["loss"]
    return found


def norms_of(study: Study, start: str) -> dict[str, dict[int, np.ndarray]]:
    """Return title of a model -> seed -> norms of gradients, layers by epochs."""
    found: dict[str, dict[int, np.ndarray]] = {}
    for run in runs_from(study, start):
        if "gradient_norms" in run:
            found.setdefault(NAMES[run["model"]], {})[run["seed"]] = np.asarray(run["gradient_norms"])
    return found


PUBLISHED = {"parameters": (10_000_000, 24_000_000), "layers": (2, 4, 10), "epochs": (100,), "batch_size": (250,), "learning_rate": (1e-3,)}
"""Options of studies -> what the paper has."""
IN_WORDS = {
    "parameters": "{:,} parameters",
    "layers": "{} layers",
    "epochs": "{} epochs at most",
    "batch_size": "batches of {}",
    "learning_rate": "learning rate {:g}",
}


def scale_of(study: Study, start: str = "") -> str:
    """Return in words how a study differs from the published runs; nothing if it does not.

    Args:
      study: the content of its file.
      start: start of the runs in question, if they have one.
    """
    options = study["options"]
    share = options["data"]["text_share"]
    parts = [
        *([] if share is None else [f"{share:g} % of the text"]),
        *(IN_WORDS[name].format(options[name]) for name, published in PUBLISHED.items() if options[name] not in published),
        *(["one test split for all shares"] if "shares" in options and options["test"] == "fixed" else []),
        *([STARTS[start]] if start == "glorot" else []),
        *([] if is_as_written(study) else ["a text without some blanks and line ends, whose losses are about 2 % higher"]),
    ]
    return ", ".join(parts)
