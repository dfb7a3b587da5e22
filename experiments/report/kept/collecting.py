"""Collection of run directories into the small files that are kept with the code."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from experiments.report.kept.analyses import keep_analysis
from experiments.report.kept.records import Record, anonymous, read
from experiments.report.kept.summaries import STUDIES, keep, plan_of
from experiments.report.kept.weights import keep_weights
from lrpt.errors import UsageError
from lrpt.runs.classes import CLASSES
from lrpt.runs.configuration import flatten
from lrpt.runs.console import Console
from lrpt.runs.files import is_intact, json_line, sealed, write_json, write_text
from lrpt.runs.layout import CONFIG, ENVIRONMENT, FAILURE, METRICS, RESULT, RUN, folders
from lrpt.runs.same_run import MAY_CHANGE
from lrpt.runs.user_code import IMPORTS

LARGEST = 1_000_000
"""bytes of a `metrics.jsonl` that is kept"""


def collect(runs: Path, results: Path, console: Console, data_dir: Path | None = None, weights: bool = True) -> None:
    """Copy every run below `runs` that was evaluated or has diverged to `results`/<experiment>/<run directory>, with its best weights.

    The copy replaces an earlier one unless that has more updates. Paths of this machine become PATH. All runs are read before the first
    file is written. Weights are left out without `weights`, if they are too large, or if their data are neither in `data_dir` nor at their
    old place. Of a study, the summary is copied to `results`, and not the runs below it.

    Raises:
      UsageError: there is no run and no study, one is damaged or too large, or two different runs have one name.
    """
    plan: dict[Path, tuple[Path, Record]] = {}
    directories, studies = _found(runs)
    if not directories and not studies:
        raise UsageError(f"no run was found below {runs}: name a directory that holds run directories, or that of a study")
    for directory in directories:
        record = read(directory, growing=True)
        if record is None:
            console.warn(f"{directory} was not evaluated yet: left out")
        else:
            if record.result is not None and not is_intact(record.result):
                raise UsageError(f"{directory / RESULT} was changed after the run had written it: restore it", code=1)
            _add(plan, _target(results, record), _clean(record), directory, console)
    for source, target, content in plan_of(studies, results):
        keep(source, target, content, console)
    for target, (source, record) in plan.items():
        _write(target, record)
        console.say(f"{target}: {record.state}")
        if weights:
            keep_weights(source, target, record, results, console, data_dir)
        keep_analysis(source, target, console, data_dir)


def _found(runs: Path) -> tuple[list[Path], list[Path]]:
    """Return the run directories below a directory, and the summaries of studies, whose runs are left out."""
    directories, studies = [], []
    for folder, inner, files in folders(runs):
        if own := STUDIES.keys() & set(files):
            studies += [folder / name for name in sorted(own)]
            inner.clear()
        elif CONFIG in files:
            directories.append(folder)
    return directories, studies


def _target(results: Path, record: Record) -> Path:
    return results / record.experiment / record.name


def _clean(record: Record) -> Record:
    config, environment, result = (anonymous(content) for content in (record.config, record.environment, record.result))
    if result is not None:
        result = sealed(result)  # without paths it is another text, with a digest of its own
    return Record(record.name, config, environment, record.metrics, result, record.failure)


def _add(plan: dict[Path, tuple[Path, Record]], target: Path, record: Record, source: Path, console: Console) -> None:
    size = sum(len(json_line(line)) for line in record.metrics)
    if size > LARGEST:
        raise UsageError(f"{source / METRICS} has {size:,} bytes: only up to {LARGEST:,} are kept, so leave that run out", code=1)
    before = plan[target][1] if target in plan else read(target) if target.exists() else None
    if before is not None and (difference := _difference(before, record)):
        raise UsageError(f"{source} and the run in {target} differ in {difference}: rename the directory of one of them", code=1)
    if before is not None and (before.updates, before.result is not None) > (record.updates, record.result is not None):
        console.warn(f"{target} went further ({before.updates:,} updates) than {source} ({record.updates:,}): kept")
        return
    plan[target] = source, record


def _difference(one: Record, other: Record) -> str:
    """Return the name of the first numerically relevant setting in which two runs differ; empty if there is none."""
    a, b = (_flat(record.config) for record in (one, other))
    return next((name for name in sorted(a.keys() | b.keys()) if a.get(name) != b.get(name) and name not in MAY_CHANGE), "")


def _flat(config: Mapping[str, Any]) -> dict[str, Any]:
    groups = {name: fields for name, fields in config.items() if isinstance(fields, dict) and name != CLASSES}
    return flatten(groups) | {name: value for name, value in config.items() if name not in (*groups, "preset", CLASSES, IMPORTS, RUN)}


def _write(target: Path, record: Record) -> None:
    write_json(target / CONFIG, record.config)
    write_json(target / ENVIRONMENT, record.environment)
    write_text(target / METRICS, "".join(map(json_line, record.metrics)))
    for name, content in ((RESULT, record.result), (FAILURE, record.failure)):
        if content is None:
            (target / name).unlink(missing_ok=True)
        else:
            write_json(target / name, content)
