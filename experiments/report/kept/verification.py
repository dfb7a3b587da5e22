"""Kept weights, evaluated again and compared with the metrics that the result prints."""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, NamedTuple

from experiments.report.kept.analyses import ANALYSES, analyse, has_scheduler, largest_difference, without_a_number
from experiments.report.kept.analyses import TOLERANCE as OF_ANALYSES
from experiments.report.kept.records import ANALYSIS, Record, load, read
from experiments.report.kept.weights import best_evaluation
from lrpt.datasets.sources import without_downloads
from lrpt.errors import UsageError
from lrpt.runs import weights
from lrpt.runs.console import Console
from lrpt.runs.layout import CHECKPOINTS, run_directories
from lrpt.trained.loading import Loaded
from lrpt.trained.loading import load as load_network

TOLERANCE = 1e-5
"""Relative difference that another machine may make: sums of float32 are taken in another order there."""
SMALLEST = 1e-3
"""Value to which the difference of smaller ones is relative: a cross-entropy near 0 is the rounded logarithm of a number near 1."""
OF_SCHEDULES = 1e-3
"""The same for networks with a scheduler: a sharp mask turns rounding into another number of updated dimensions, which later steps keep."""

CLOSE = 0.7
"""similarity from which on a known name is offered for a wrong one"""

OF_A_LINE = {"update", "seconds", "split"}
"""Fields of a line of `metrics.jsonl` that are no metrics."""

Outcome = Literal["equal", "close", "differs", "changed", "skipped", "no weights"]


class Verified(NamedTuple):
    """Verification of one kept result.

    Attributes:
      name: 'experiment/run'.
      verdict: 'differs' and 'changed' are failures.
      detail: for the reader, in a line.
    """

    name: str
    verdict: Outcome
    detail: str


class Change(NamedTuple):
    """The relative difference of one metric, and both values in words."""

    relative: float
    where: str


def verify(results: Path, names: Sequence[str], data_dir: Path | None, console: Console) -> None:
    """Evaluate weights again. Print a line before each evaluation, before each analysis, and for each result.

    Args:
      results: where results are kept.
      names: experiments, 'experiment/run', or directories of runs, which need not be kept; all kept results if empty.
      data_dir: where the data sets are; nothing is downloaded.
      console: where the lines are printed.

    Raises:
      UsageError: no result or directory has such a name; a run that is named has no weights; a weight file was changed; metrics disagree.
    """
    found, chosen = [], _chosen(results, names)
    for name, (path, record) in chosen.items():
        one = verify_one(name, path, record, data_dir, console)
        said_before = one.verdict == "skipped" and one.detail in {other.detail for other in found}
        console.say(f"{one.name}: {one.verdict}; {'as above' if said_before else one.detail}")
        found.append(one)
    counts = {verdict: sum(one.verdict == verdict for one in found) for verdict in dict.fromkeys(one.verdict for one in found)}
    console.say(f"{len(found)} results: {', '.join(f'{count} {verdict}' for verdict, count in counts.items())}")
    alone = {*names, *(name for name, (path, _) in chosen.items() if path.resolve() in {Path(one).resolve() for one in names})}
    if without := [one.name for one in found if one.verdict == "no weights" and one.name in alone]:
        raise UsageError(f"no weights are kept of {', '.join(without)}: docs/reproduction/models.md lists the runs that have some", code=1)
    failed = [one.name for one in found if one.verdict in ("differs", "changed")]
    if failed:
        raise UsageError(
            f"{len(failed)} of {len(found)} results do not verify: {', '.join(failed)}; collect them again, or restore them", code=1
        )


def _chosen(results: Path, names: Sequence[str]) -> dict[str, tuple[Path, Record]]:
    """Return the directories and records of the results that are named, by name: 'experiment/run' if kept, and otherwise the path."""
    kept = {f"{record.experiment}/{record.name}": (results / record.experiment / record.name, record) for record in load(results)}
    found = {} if names else kept
    for name in names:
        own = {known: one for known, one in kept.items() if name in (known, one[1].experiment)} or _in_directory(Path(name), results)
        if not own:
            raise UsageError(f"no result is called '{name}', and no run is in a directory of that name: {_advice(name, kept)}")
        found |= own
    return found


def _in_directory(path: Path, results: Path) -> dict[str, tuple[Path, Record]]:
    """Return the runs in and below a directory that have an evaluation."""
    found = {}
    for folder in run_directories(path):
        record, at = read(folder, growing=True), folder.resolve()
        if record is not None:
            name = "/".join(at.parts[-2:]) if at.parent.parent == results.resolve() else str(folder)
            found[name] = (folder, record)
    return found


def _advice(name: str, kept: Collection[str]) -> str:
    """Return the names that are closest to a wrong one, or those of all experiments."""
    experiments = sorted({known.partition("/")[0] for known in kept})
    if close := get_close_matches(name, [*experiments, *kept], cutoff=CLOSE):
        return f"did you mean {' or '.join(close)}?"
    return f"choose from {', '.join(experiments)}, or name one run as in experiment/run, or its directory"


def verify_one(name: str, path: Path, record: Record, data_dir: Path | None, console: Console) -> Verified:
    """Evaluate the weights of one result, kept or in a run directory. Print a line before each part that takes long."""
    if not weights.are_kept(path) and not (path / CHECKPOINTS).is_dir():
        return Verified(name, "no weights", "nothing to evaluate")
    try:
        if weights.are_kept(path):
            weights.check_digest(path)
        trained = load_network(path, data_dir=data_dir)
        update, best = trained.update, best_evaluation(record)
        if best is None or update != best["update"]:
            return Verified(
                name,
                "changed",
                f"weights are of update {update}, and the best evaluation is not: collect the run again, or wait for its end",
            )
        _ = trained.variables
    except UsageError as error:
        return Verified(name, "changed", str(error))
    try:
        with without_downloads():
            trained.task  # noqa: B018  reads the data
    except UsageError as error:
        return Verified(name, "skipped", f"its data cannot be read: {error}")
    console.say(f"{name}: evaluating its weights ...")
    verdict, detail = compared(trained, record, best)
    if record.analysis is None or verdict == "differs":
        return Verified(name, verdict, detail)
    console.say(f"{name}: computing {ANALYSIS} again, which may take minutes ...")
    return Verified(name, *_with_analysis(trained, record.analysis, verdict, detail))


def compared(trained: Loaded, record: Record, best: Mapping[str, Any]) -> tuple[Outcome, str]:
    """Compare the recorded metrics with those of the weights. Return the outcome, and the largest difference in words."""
    printed = {"valid": best} if record.result is None else {"valid": best, "test": record.result["metrics"]["test"]}
    computed = trained.evaluate()
    computed = {"valid": computed["test"], **computed}  # where both splits are the same
    worst = max(differences(printed, computed), key=lambda one: one.relative, default=None)
    if worst is None:
        return "differs", "the result prints no metrics"
    splits = " and ".join(printed)
    if worst.relative == 0:
        return "equal", f"all metrics of {splits}, to the last digit"
    how = f"the largest relative difference is {worst.relative:.1e} ({worst.where})"
    tolerance = OF_SCHEDULES if has_scheduler(trained) else TOLERANCE
    return ("close", f"{splits} within {tolerance:g}, {how}") if worst.relative <= tolerance else ("differs", how)


def _with_analysis(trained: Loaded, analysis: Mapping[str, Any], verdict: Outcome, detail: str) -> tuple[Outcome, str]:
    """Add whether the kept analysis is that of the weights."""
    kept = {name: value for name, value in analysis.items() if name in ANALYSES}
    largest = largest_difference(kept, analyse(trained))
    verdict = verdict if largest <= OF_ANALYSES else "differs"
    return verdict, f"{detail}; {ANALYSIS}: the largest difference is {largest:.1e}"


def differences(printed: Mapping[str, Mapping[str, Any]], computed: Mapping[str, Mapping[str, float]]) -> Iterator[Change]:
    """Yield the relative difference of every printed metric: infinity if it was not computed, or if one of both values is not finite."""
    for split, metrics in printed.items():
        for name in sorted(metrics.keys() - OF_A_LINE):
            old, new = metrics[name], computed.get(split, {}).get(name)
            said = "not computed" if new is None else f"{new!r} computed"
            yield Change(_relative(old, new), f"{split} {name}: {'not finite' if old is None else repr(old)} printed, {said}")


def _relative(old: float | None, new: float | None) -> float:
    """Compare two values. None is a printed value that is not finite, or a metric that was not computed.

    The difference is relative to the larger value, or to `SMALLEST` if both are below it.
    """
    if new is None:
        return math.inf
    old = math.nan if old is None else old
    if not (math.isfinite(old) and math.isfinite(new)):
        return without_a_number(old, new)
    return 0.0 if old == new else abs(new - old) / max(abs(old), abs(new), SMALLEST)
