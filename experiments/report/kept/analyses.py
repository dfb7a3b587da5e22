"""Metrics of trained networks that `result.json` lacks: what schedules follow, soft beside hard masks, layers of highway networks.

They need the weights and the data. So they are computed when a run is collected, kept as `analysis.json`, and computed again by `--verify`.
"""

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from experiments.inspect_rhn.numbers import EXAMPLES, LONGEST, bounds_of, discs_of, flow_of, gates_of, lesions_of, longest_example
from experiments.inspect_rhn.numbers import STEPS as STEPS_OF_DISCS
from experiments.inspect_rhn.reading import HIGHWAY
from experiments.report.kept.records import ANALYSIS, Record, read
from experiments.report.kept.weights import best_evaluation
from lrpt.cli.finished.schedule_numbers import around_words, both_masks, by_note, read_schedule, reads_characters, reads_melodies, summarize
from lrpt.errors import UsageError
from lrpt.networks.sequence_model import ModelConfig
from lrpt.networks.variable_computation import VariableConfig
from lrpt.runs.console import Console
from lrpt.runs.files import sealed, write_json
from lrpt.runs.layout import CHECKPOINTS
from lrpt.tasks import Chorales
from lrpt.trained.loading import Loaded, load

SHOWN = 4
"""examples whose gates are kept at each step, as many as in Figure 5b of Zilly et al. 2017"""
STEPS, PART = 50_000, "valid"
"""number of steps, and split, that a schedule is read from"""
ANALYSES = ("schedule", "masks", "notes", "words", "highway")
"""groups of metrics; the other fields say what they were computed from"""
TOLERANCE = 1e-3
"""Difference of means of m, of shares and of scores that another machine may make, relative for values above 1."""


def keep_analysis(source: Path, target: Path, console: Console, data_dir: Path | None = None) -> None:
    """Write `analysis.json` of the run at `source`, if there is something to analyse, into the kept result at `target`.

    An analysis of another state is removed. The console says why one is left out.
    """
    record = read(target)
    best = best_evaluation(record) if record is not None else None
    if record is None or best is None or not _is_analysed(record):
        return
    if record.analysis is not None and _is_current(record.analysis, best):
        return
    (target / ANALYSIS).unlink(missing_ok=True)
    if not (source / CHECKPOINTS).is_dir():
        return
    try:
        trained = load(source, data_dir=data_dir, warn=console.warn)
        found = analyse(trained)
    except (UsageError, OSError) as error:
        console.warn(f"{target}: no {ANALYSIS}, as {source} cannot be read: {error}")
        return
    if trained.update == best["update"]:
        of = {"part": PART, "steps": STEPS} if "schedule" in found else {}
        write_json(target / ANALYSIS, sealed({"update": trained.update, "valid_loss": best["loss"], **of, **found}))
        console.say(f"{target}: {ANALYSIS} of update {trained.update:,}")


def _is_current(analysis: Mapping[str, Any], best: Mapping[str, Any]) -> bool:
    """Return whether an analysis is that of the best evaluation."""
    return (analysis["update"], analysis["valid_loss"]) == (best["update"], best["loss"])


def _is_analysed(record: Record) -> bool:
    """Return whether a run has a scheduler, or is a recurrent highway network on chorales."""
    is_highway = record.experiment == "jsb" and record.config["model"]["cell"] in HIGHWAY
    return is_highway or any("proportion" in line for line in record.training())


def has_scheduler(trained: Loaded) -> bool:
    """Return whether a network chooses by itself how much of its state each step updates."""
    return isinstance(trained.config.model, VariableConfig) and trained.config.model.has_scheduler


def analyse(trained: Loaded) -> dict[str, Any]:
    """Return metrics by name of a network with a scheduler, or of a recurrent highway network on chorales; empty for other networks.

    'schedule' is a `ScheduleSummary`, 'masks' what `both_masks` returns. Networks on melodies have 'notes', those on characters 'words'.
    'highway' has 'lesions' of the whole training part, 'gates', 'discs', 'flow' and 'bounds' of `experiments.inspect_rhn.numbers`, and
    'activity', the mean transform gate after training by example, layer and step. Keys are strings, as in the file.
    """
    found: dict[str, Any] = {}
    if has_scheduler(trained):
        schedule = read_schedule(trained, PART, STEPS)
        found |= {"schedule": summarize(trained, schedule)._asdict(), "masks": both_masks(trained)}
        if reads_melodies(trained):
            found["notes"] = by_note(trained, schedule)
        elif reads_characters(trained):
            found["words"] = around_words(trained, schedule)._asdict()
    model = trained.config.model
    if isinstance(trained.config.data, Chorales) and isinstance(model, ModelConfig) and model.cell in HIGHWAY:
        found["highway"] = _of_highway(trained)
    return json.loads(json.dumps(found))


def _of_highway(trained: Loaded) -> dict[str, Any]:
    longest = longest_example(trained)
    steps = [step for step in STEPS_OF_DISCS if step <= longest]
    gates, activity = gates_of(trained, EXAMPLES)
    return {
        "lesions": lesions_of(trained)._asdict(),
        "gates": [one._asdict() for one in gates],
        "activity": by_step(activity[:SHOWN]),
        "discs": [one._asdict() for one in discs_of(trained, steps=steps)[0]],
        "flow": [one._asdict() for one in flow_of(trained, longest=min(LONGEST, longest))[0]],
        "bounds": {name: [one._asdict() for one in norms] for name, norms in bounds_of(trained).items()},
    }


def by_step(activity: Float[np.ndarray, "b l t"]) -> list[list[list[float]]]:
    """Return gates of each example and layer at each step, without steps that do not count, which are NaN, to four decimals."""
    return [np.round(of_example[:, np.isfinite(of_example[0])], 4).tolist() for of_example in activity]


def largest_difference(kept: Mapping[str, Any], computed: Mapping[str, Any]) -> float:
    """Return the largest difference of two analyses, relative above 1.

    Infinity if one has a number that the other lacks, or if one of two numbers is not finite.
    """
    old, new = (dict(_numbers(content)) for content in (kept, computed))
    if old.keys() != new.keys():
        return float("inf")
    return max((_difference(old[name], new[name]) for name in old), default=0.0)


def _difference(old: float, new: float) -> float:
    return abs(old - new) / max(1.0, abs(old)) if math.isfinite(old) and math.isfinite(new) else without_a_number(old, new)


def without_a_number(old: float, new: float) -> float:
    """Return the difference of two values of which one is not finite: 0 if neither is, because files have null for all such values."""
    return math.inf if math.isfinite(old) or math.isfinite(new) else 0.0


def _numbers(content: Any, name: str = "") -> Iterator[tuple[str, float]]:
    if isinstance(content, Mapping):
        for key, value in content.items():
            yield from _numbers(value, f"{name}.{key}")
    elif isinstance(content, list | tuple):
        for place, value in enumerate(content):
            yield from _numbers(value, f"{name}.{place}")
    elif not isinstance(content, str):
        yield name, float("nan") if content is None else float(content)
