"""Figures of trained networks that `result.json` lacks: what their schedules follow, and soft beside hard masks.

They need the weights and the data. So they are computed when a run is collected, kept as `analysis.json`, and computed again by `--verify`.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from experiments.report.records import ANALYSIS, read
from experiments.report.weights import best_evaluation
from lrpt.cli.schedule_numbers import around_words, both_masks, by_note, read_schedule, reads_characters, reads_melodies, summarize
from lrpt.errors import UsageError
from lrpt.networks.variable_computation import VariableConfig
from lrpt.runs.console import Console
from lrpt.runs.files import sealed, write_json
from lrpt.training.loading import Loaded, load

STEPS, PART = 50_000, "valid"
"""how many steps of which part a schedule is read from"""
FIGURES = ("schedule", "masks", "notes", "words")
"""groups of figures; the other fields say what they were computed from"""
TOLERANCE = 1e-3
"""Difference of means of m, of shares and of scores that another machine may make, relative for figures above 1."""


def keep_analysis(source: Path, target: Path, console: Console, data_dir: Path | None = None) -> None:
    """Write `analysis.json` of the run at `source`, if its network has a scheduler, into the kept result at `target`.

    An analysis of another state is removed. The console says why one is left out.
    """
    record = read(target)
    best = best_evaluation(record) if record is not None else None
    if record is None or best is None or not any("proportion" in line for line in record.training()):
        return
    if record.analysis is not None and record.analysis["update"] == best["update"]:
        return
    (target / ANALYSIS).unlink(missing_ok=True)
    if not (source / "checkpoints").is_dir():
        return
    try:
        trained = load(source, data_dir=data_dir, warn=console.warn)
        found = analyse(trained)
    except (UsageError, OSError) as error:
        console.warn(f"{target}: no {ANALYSIS}, as {source} cannot be read: {error}")
        return
    if trained.update == best["update"]:
        write_json(target / ANALYSIS, sealed({"update": trained.update, "part": PART, "steps": STEPS, **found}))
        console.say(f"{target}: {ANALYSIS} of update {trained.update:,}")


def has_scheduler(trained: Loaded) -> bool:
    """Return whether a network chooses by itself how much of its state each step updates."""
    return isinstance(trained.config.model, VariableConfig) and trained.config.model.has_scheduler


def analyse(trained: Loaded) -> dict[str, Any]:
    """Return figures of a network with a scheduler by name; empty for other networks.

    'schedule' is a `ScheduleSummary`, 'masks' what `both_masks` returns. Networks on melodies have 'notes', those on characters 'words'.
    Keys are strings, as in the file.
    """
    if not has_scheduler(trained):
        return {}
    schedule = read_schedule(trained, PART, STEPS)
    found: dict[str, Any] = {"schedule": summarize(trained, schedule)._asdict(), "masks": both_masks(trained)}
    if reads_melodies(trained):
        found["notes"] = by_note(trained, schedule)
    elif reads_characters(trained):
        found["words"] = around_words(trained, schedule)._asdict()
    return json.loads(json.dumps(found))


def largest_difference(kept: Mapping[str, Any], computed: Mapping[str, Any]) -> float:
    """Return the largest difference of two analyses, relative above 1; infinity if one has a figure that the other lacks."""
    old, new = (dict(_figures(content)) for content in (kept, computed))
    if old.keys() != new.keys():
        return float("inf")
    return max((abs(old[name] - new[name]) / max(1.0, abs(old[name])) for name in old), default=0.0)


def _figures(content: Any, name: str = "") -> Iterator[tuple[str, float]]:
    if isinstance(content, Mapping):
        for key, value in content.items():
            yield from _figures(value, f"{name}.{key}")
    elif isinstance(content, list | tuple):
        for place, value in enumerate(content):
            yield from _figures(value, f"{name}.{place}")
    elif content is not None:
        yield name, float(content)
