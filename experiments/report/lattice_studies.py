"""Content of the JSON files of `experiments.lattice`, of every version: what a file lacks means what it meant when it was written."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from experiments.lattice.models import NAMES

Study = Mapping[str, Any]
Run = Mapping[str, Any]

STARTS = {"lru": "initialized as in the authors' code", "glorot": "Glorot's initialization"}
"""Starts of the parameters, the one of the published runs first, and what they are in words."""


def start_of(run: Run, study: Study) -> str:
    """Return the start of a run; older files have one for all runs, or Glorot's."""
    return run.get("initialization") or study["options"].get("initialization", "glorot")


def runs_from(study: Study, start: str) -> list[Run]:
    """Return the runs of a start."""
    return [run for run in study.get("runs", ()) if start_of(run, study) == start]


def starts_in(study: Study) -> list[str]:
    """Return the starts that a study has runs of."""
    return [start for start in STARTS if runs_from(study, start) or norms_of(study, start)]


def is_as_written(study: Study) -> bool:
    """Return whether texts were read with all blanks and line ends, so that losses are in the published units."""
    return study["options"]["data"].get("blanks") == "kept"


def scores(study: Study, start: str, share: float = 100) -> dict[str, dict[int, float]]:
    """Return model -> seed -> test loss of the runs on a share of the data, in percent."""
    found: dict[str, dict[int, float]] = {}
    for run in runs_from(study, start):
        if run["share"] == share:
            found.setdefault(run["model"], {})[run["seed"]] = run["loss"]
    return found


def norms_of(study: Study, start: str) -> dict[str, dict[int, np.ndarray]]:
    """Return title of a model -> seed -> norms of gradients, layers by epochs. Older files have one start, and means over their seeds."""
    if study.get("norms") and start_of({}, study) == start:
        return {title: {study["options"]["seed"]: np.asarray(norms)} for title, norms in study["norms"].items()}
    found: dict[str, dict[int, np.ndarray]] = {}
    for run in runs_from(study, start):
        if "gradient_norms" in run:
            found.setdefault(NAMES[run["model"]], {})[run["seed"]] = np.asarray(run["gradient_norms"])
    return found


def scale_of(study: Study, start: str = "", runs: Sequence[Run] = ()) -> str:
    """Return the scale of a study in words.

    Args:
      study: the content of its file.
      start: start of the runs in question, if they have one.
      runs: the runs in question, whose number of layers may be another one than the study asks for.
    """
    options = study["options"]
    share = options["data"]["text_share"]
    layers = next((run["layers"] for run in runs if "layers" in run), options["layers"])
    parts = [
        f"{options['parameters']:,} parameters",
        f"{layers} layer{'s' * (layers > 1)}",
        "all of the text" if share is None else f"{share:g} % of the text",
        f"{options['epochs']} epochs at most",
        *([STARTS[start]] if start else []),
        *([] if is_as_written(study) else ["losses per symbol of a shortened text"]),
    ]
    return ", ".join(parts)
