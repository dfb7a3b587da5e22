"""Kept runs, read with strict checks."""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from lrpt.errors import UsageError
from lrpt.files import parsed_json, read_text
from lrpt.runs.files import DIGEST, is_intact
from lrpt.runs.layout import CONFIG, ENVIRONMENT, FAILURE, FIGURES, METRICS, RESULT
from lrpt.runs.run_directory import matches_record, with_nan
from lrpt.runs.same_run import check_result
from lrpt.training.selection import ENDED

ANALYSIS = "analysis.json"

# What a reader of these files relies on; anything else in them is carried along.
_FIELDS: dict[str, dict[str, Any]] = {
    CONFIG: {"experiment": str, "preset": str, "seed": int},
    ENVIRONMENT: {"python": str, "versions": dict, "cpus": int, "device": str, "devices": int, "command": str},
    METRICS: {"update": int, "seconds": (int, float), "split": str},
    FAILURE: {"update": int, "what": str},
    ANALYSIS: {"update": int, "valid_loss": (int, float)},
    RESULT: {
        **dict.fromkeys(("experiment", "model", "stopped"), str),
        **dict.fromkeys(("seed", "updates", "best_update"), int),
        "seconds": (int, float),
        "metrics": dict,
    },
}

# A path that is absolute, starts at a home directory or leads upwards, or is a URL: up to the next flag, as paths may hold spaces.
_PATH = re.compile(r"(?<![\w./\\])(?:~\w*/|/[^\s/]|\.\.[/\\]|[A-Za-z]:[/\\]|\w+://).*?(?= -|$)")


@dataclass(frozen=True)
class Record:
    """The content of a run's files.

    Attributes:
      name: of the run directory.
      config: `config.json`.
      environment: `environment.json`.
      metrics: the lines of `metrics.jsonl`, with NaN for null; at least one evaluation, unless the run diverged before the first one.
      result: `result.json`, or None for a run that was stopped before its end.
      failure: `failure.json`, the update at which the loss was no longer finite, or None; a run that went past that update, or has a
        result of it, did not fail.
      analysis: `analysis.json`, metrics of the best state that need its weights, or None.
    """

    name: str
    config: Mapping[str, Any]
    environment: Mapping[str, Any]
    metrics: tuple[Mapping[str, Any], ...]
    result: Mapping[str, Any] | None
    failure: Mapping[str, Any] | None = None
    analysis: Mapping[str, Any] | None = None

    @property
    def best_update(self) -> int:
        """Return the update of the lowest validation loss."""
        if self.result is not None:
            return self.result["best_update"]
        losses = self.selectable("loss")
        return min(losses, key=lambda update: losses[update], default=0)

    @property
    def experiment(self) -> str:
        """Return the name of the experiment."""
        return self.config["experiment"]

    @property
    def seed(self) -> int:
        """Return the seed of parameters, data and the order of batches."""
        return self.config["seed"]

    @property
    def updates(self) -> int:
        """Return the number of updates up to the last evaluation; 0 for a run that diverged before the first one."""
        return self.metrics[-1]["update"] if self.metrics else 0

    @property
    def seconds(self) -> float:
        """Return the seconds of training and evaluation, resumed parts included; 0 for a run that diverged before the first evaluation."""
        last = self.result or (self.metrics[-1] if self.metrics else {"seconds": 0})
        return last["seconds"]

    @property
    def state(self) -> str:
        """Return how training ended, in words."""
        if self.failure is not None:
            return f"diverged at update {self.failure['update']:,}"
        if self.result is None:
            return f"stopped at update {self.updates:,}"
        return ENDED[self.result["stopped"]]

    @property
    def ended_by_rule(self) -> bool:
        """Return whether a stopping rule ended training before the configured number of updates."""
        return self.result is not None and self.result["stopped"] != "updates"

    @property
    def hardware(self) -> str:
        """Return the hardware, such as 'AMD EPYC 9R14, 2 cores' or '2 x NVIDIA H200'. Older runs name no processor."""
        kind, _, name = self.environment["device"].partition(" ")
        if kind == "cpu":
            return f"{self.environment.get('processor', 'CPU')}, {self.environment['cpus']} cores"
        count = self.environment["devices"]
        return name if count == 1 else f"{count} x {name}"

    def training(self) -> list[Mapping[str, Any]]:
        """Return the lines of training metrics; each has the means since the line before."""
        return [line for line in self.metrics if line["split"] == "train"]

    def curve(self, score: str) -> dict[int, float]:
        """Return a metric of the validation split by update, without evaluations at which it was not finite."""
        lines = [line for line in self.metrics if line["split"] == "valid" and math.isfinite(line.get(score, math.nan))]
        return {line["update"]: line[score] for line in lines}

    def selectable(self, score: str) -> dict[int, float]:
        """Return the curve without evaluations at masks that were not as sharp as the last ones, if the run logs the sharpness."""
        sharpness = {line["update"]: line["sharpness"] for line in self.training() if "sharpness" in line}
        final = max(sharpness.values(), default=0.0)
        return {update: value for update, value in self.curve(score).items() if sharpness.get(update, final) == final}

    def first(self, score: str, holds: Callable[[float], bool]) -> int | None:
        """Return the update of the first evaluation whose metric meets a condition; None if there is none."""
        return next((update for update, value in self.curve(score).items() if holds(value)), None)

    def up_to(self, score: str, update: int) -> float | None:
        """Return a metric at the last evaluation up to `update`; None if there is none."""
        values = [value for when, value in self.curve(score).items() if when <= update]
        return values[-1] if values else None

    def last(self, score: str) -> float | None:
        """Return a metric at the last evaluation; None if there is none."""
        return self.up_to(score, self.updates)

    def analysed(self, *names: str) -> float | None:
        """Return a value of `analysis.json` by its keys, such as 'schedule', 'autocorrelation', '8'; None if it has none."""
        found: Any = self.analysis
        for name in names:
            found = found[int(name)] if isinstance(found, list) else found.get(name) if found is not None else None
        return found

    def tested(self, score: str) -> float | None:
        """Return a metric of the test split; None for an unfinished run, or if the metric was not finite."""
        return None if self.result is None else self.result["metrics"]["test"].get(score)


def read(directory: Path, growing: bool = False) -> Record | None:
    """Read the run in a directory. Return None if it has no evaluation yet and did not diverge.

    Args:
      directory: a run directory or a kept result.
      growing: whether the run may be in progress, so that an incomplete last line is no damage.

    Raises:
      UsageError: a file is missing or damaged.
    """
    if growing and not (directory / ENVIRONMENT).exists() and not (directory / METRICS).exists():
        return None  # a process is creating the directory
    config, environment = _object(directory / CONFIG), _object(directory / ENVIRONMENT)
    text = _text(directory / METRICS) if (directory / METRICS).exists() else ""
    metrics = _metrics(directory / METRICS, text, growing)
    result = _object(directory / RESULT) if (directory / RESULT).exists() else None
    if not metrics and result is None and not (directory / FAILURE).exists():
        return None
    if result is not None:
        _check_result(directory / RESULT, result, config, metrics[-1]["update"] if metrics else 0)
        _check_seals(directory, result, text)
        check_result(directory, config, result)
        if metrics[-1]["update"] > result["updates"]:
            result = None  # the run was given more updates, and is not at their end
    failure = _failure(directory / FAILURE, metrics[-1]["update"] if metrics else 0, result)
    return Record(directory.resolve().name, config, environment, metrics, result, failure, _analysis(directory / ANALYSIS))


def _analysis(path: Path) -> dict[str, Any] | None:
    if not path.exists():
        return None
    analysis = _object(path)
    if not is_intact(analysis):
        raise _changed(path)
    return analysis


def _check_seals(directory: Path, result: Mapping[str, Any], metrics: str) -> None:
    """Raise a UsageError if a sealed result, or the text of the metrics whose digest it holds, was changed."""
    if DIGEST in result and not is_intact(result):
        raise _changed(directory / RESULT)
    record = result.get("metrics_record")
    if record is not None and not matches_record(metrics.splitlines(keepends=True), record):
        raise _changed(directory / METRICS)


def _changed(path: Path) -> UsageError:
    return UsageError(f"{path} was changed after it had been written: restore it, or remove it and collect the run again", code=1)


def _failure(path: Path, last_update: int, result: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return the failure that ended a run. The metrics of the update at which the test loss diverged are recorded before it does."""
    failure = _object(path) if path.exists() else None
    if failure is None or last_update > failure["update"]:
        return None
    return None if result is not None and result["updates"] >= failure["update"] else failure


def load(results: Path) -> list[Record]:
    """Read all kept runs below `results`, ordered by name.

    Raises:
      UsageError: a file is missing or damaged, or contains a path of a machine.
    """
    records = []
    for directory in sorted(path for path in results.glob("*/*") if path.is_dir() and path.parent.name != FIGURES):
        record = read(directory)
        if record is None:
            raise damaged(directory / METRICS, "it holds no evaluation")
        if record.experiment != directory.parent.name:
            raise damaged(directory / CONFIG, f"it is a run of {record.experiment}")
        for name, content in ((CONFIG, record.config), (ENVIRONMENT, record.environment), (RESULT, record.result)):
            if anonymous(content) != content:
                raise UsageError(f"{directory / name} names a path of some machine: collect the run with --collect", code=1)
        records.append(record)
    return records


def anonymous(content: Any) -> Any:
    """Return JSON content in which PATH replaces every path of this machine."""
    if isinstance(content, str):
        return _PATH.sub("PATH", content)
    if isinstance(content, Mapping):
        return {name: anonymous(value) for name, value in content.items()}
    if isinstance(content, list | tuple):
        return [anonymous(value) for value in content]
    return content


def damaged(path: Path, what: str) -> UsageError:
    """Return the error for a damaged file. The files of a run are removed together; the summary of a study is one file."""
    return UsageError(f"{path} is damaged ({what}): restore it, or remove {'its directory' if path.name in _FIELDS else 'it'}", code=1)


def _object(path: Path) -> dict[str, Any]:
    if not path.exists():
        raise damaged(path, "it is missing")
    return _parse(path, _text(path))


def _text(path: Path) -> str:
    try:
        return read_text(path)
    except UnicodeDecodeError:
        raise damaged(path, "it is not text") from None


def _parse(path: Path, text: str) -> dict[str, Any]:
    try:
        content = parsed_json(text)
    except ValueError:
        raise damaged(path, "it is not JSON") from None
    for name, kind in _FIELDS[path.name].items():
        if not isinstance(content, dict) or not isinstance(content.get(name), kind):
            raise damaged(path, f"it has no usable '{name}'")
    if path.name == RESULT and content["stopped"] not in ENDED:
        raise damaged(path, f"it 'stopped' by {content['stopped']}")
    return content


def _metrics(path: Path, text: str, growing: bool) -> tuple[dict[str, Any], ...]:
    whole = text[: text.rfind("\n") + 1]
    if whole != text and not growing:
        raise damaged(path, "its last line has no end")
    lines = tuple(with_nan(_parse(path, line)) for line in whole.splitlines())
    for line in lines:
        if not (isinstance(line.get("loss"), float | int) and (math.isfinite(line["loss"]) or line["split"] != "valid")):
            raise damaged(path, "it has no usable 'loss'")
    if any(after["update"] < before["update"] for before, after in pairwise(lines)):
        raise damaged(path, "its updates are out of order")
    return lines if any(line["split"] == "valid" for line in lines) else ()


def _check_result(path: Path, result: Mapping[str, Any], config: Mapping[str, Any], last_update: int) -> None:
    for name in ("experiment", "seed"):
        if result[name] != config[name]:
            raise damaged(path, f"its {name} is {result[name]}, that of {CONFIG} is {config[name]}")
    if last_update < max(1, result["updates"]):
        raise damaged(path, f"it is of update {result['updates']}, and {METRICS} ends at {last_update}")
    if not all(isinstance(result["metrics"].get(split), dict) for split in ("valid", "test")):
        raise damaged(path, "it has no metrics of both splits")
