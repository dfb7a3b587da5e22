"""Weights of kept results, copied from run directories within limits of size."""

from pathlib import Path
from typing import Any

from experiments.report.kept.records import Record
from lrpt.errors import UsageError
from lrpt.runs import weights
from lrpt.runs.console import Console
from lrpt.runs.layout import CHECKPOINTS
from lrpt.trained.loading import load, pack

LARGEST, LARGEST_TOGETHER = 5_000_000, 30_000_000
"""bytes of the weights of one run, and of all of them"""


def keep_weights(source: Path, target: Path, record: Record, results: Path, console: Console, data_dir: Path | None) -> None:
    """Store the weights of the best state of the run at `source` in the kept result at `target`.

    Weights that do not belong to `record` are removed. The console says why weights are not kept; the result is kept without them.
    """
    best = best_evaluation(record)
    if _is_current(target, best):
        return
    weights.remove(target)
    if best is None or not (source / CHECKPOINTS).is_dir():
        console.say(f"{target}: no weights, as {source} has no checkpoint of an evaluation")
        return
    try:
        loaded = load(source, data_dir=data_dir, warn=console.warn)
        content, metadata = pack(loaded)
    except (UsageError, OSError) as error:
        console.warn(f"{target}: no weights, as those of {source} cannot be read: {error}")
        return
    together = sum(path.stat().st_size for path in results.rglob(weights.MODEL)) + len(content)
    if loaded.update != best["update"]:
        reason = f"the best checkpoint is of update {loaded.update}, and the best evaluation of {best['update']}: collect again"
    elif len(content) > LARGEST:
        reason = f"they take {len(content):,} bytes, of at most {LARGEST:,}"
    elif together > LARGEST_TOGETHER:
        reason = f"all weights together would take {together:,} bytes, of at most {LARGEST_TOGETHER:,}"
    else:
        weights.keep(target, content, {**metadata, "valid_loss": best["loss"]})
        console.say(f"{target}: weights of update {loaded.update:,}, {len(content):,} bytes")
        return
    console.say(f"{target}: no weights, as {reason}")


def best_evaluation(record: Record) -> dict[str, Any] | None:
    """Return update and validation metrics of the best state of a run, or None where nothing was evaluated."""
    best = record.best_update
    return next((dict(line) for line in record.metrics if line["split"] == "valid" and line["update"] == best), None)


def _is_current(target: Path, best: dict[str, Any] | None) -> bool:
    """Return whether the weights that are kept already are those of the best evaluation."""
    if best is None or not weights.are_kept(target):
        return False
    try:
        weights.check_digest(target)
        metadata = weights.metadata_of(target)
    except UsageError:
        return False
    return (metadata["update"], metadata.get("valid_loss")) == (best["update"], best["loss"])
