"""Settings that tell one run from another: whether two configurations are those of one run, and whether a file was changed."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lrpt.errors import UsageError, is_integer
from lrpt.runs.classes import CLASSES, class_of
from lrpt.runs.configuration import flatten, from_json
from lrpt.runs.layout import CONFIG, RESULT, RUN
from lrpt.runs.user_code import IMPORTS

MAY_CHANGE = {
    *("train.updates", "train.stop_below", "train.patience", "train.updates_per_call", "train.evaluation_batch"),
    *("train.checkpoint_minutes", "train.test_each", "data.dir"),
}
"""Fields that a resumed run may change. They affect the numbers of an update by rounding only.

In order stream, `train.evaluation_batch` may not change: it is the number of streams of an evaluation, which changes its loss.
"""

PLACES = {"data.dir", "data.file"}
"""Fields that name places of one machine. Those of a kept result may be left out."""

START = "start_sha256"
"""The field of `config.json` with the SHA-256 of the arrays that the run started from, if it has a start file."""

UNCOMPARED = {"preset", RUN, CLASSES, IMPORTS, START}
"""Fields of `config.json` that do not affect the numbers of a run, or are compared apart from the settings."""


def differences(before: Mapping[str, Any], now: Mapping[str, Any], usual: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
    """Return the settings by which two runs differ, plainest first, and their values (None: it is missing); none for the same run.

    Args:
      before: the `config.json` of a run.
      now: the identity of another run.
      usual: defaults by flat name, for settings that did not exist when the first run was recorded.
    """
    groups = ({k: v if isinstance(v, dict) else {"": v} for k, v in c.items() if k not in UNCOMPARED} for c in (before, now))
    old, new = (_effective(flatten(found)) for found in groups)
    old = {name: usual[name] for name in new.keys() & usual.keys()} | old
    names = sorted((old.keys() | new.keys()) - _may_change(new), key=lambda name: (not name.endswith("."), name))
    return [(name.rstrip("."), old.get(name), new.get(name)) for name in names if old.get(name) != new.get(name)]


def _effective(found: dict[str, Any]) -> dict[str, Any]:
    """Replace a number of streams that stands for the batch size, see `lrpt.training.config.TrainConfig.evaluation_batch`."""
    is_default = found.get("train.order") == "stream" and found.get("train.evaluation_batch", 0) is None
    return {**found, "train.evaluation_batch": found.get("train.batch_size")} if is_default else found


def check_result(path: Path, config: Mapping[str, Any], result: Mapping[str, Any]) -> None:
    """Raise a UsageError if the `config.json` in the directory `path` is not what its `result.json` holds."""
    if found := _contradiction(config, result):
        raise UsageError(f"{path / CONFIG}: {found}: restore {CONFIG}", code=1)


def _contradiction(config: Mapping[str, Any], result: Mapping[str, Any]) -> str:
    """Return the first setting in which `config.json` is not what `result.json` holds, in words; '' if there is none.

    A setting that `config.json` has in addition was new when the run was resumed.
    """
    if not isinstance(result.get("config"), dict):
        return ""
    then, now = flatten(result["config"]), flatten({name: group for name, group in config.items() if name in result["config"]})
    may_differ = _may_change(then) | PLACES
    for name in then:
        if name not in may_differ and (name not in now or now[name] != then[name]):
            found = f"is {now[name]}" if name in now else "is missing"
            return f"{name} {found:.60}, and {RESULT} has {then[name]!s:.60}"
    return ""


def _may_change(settings: Mapping[str, Any]) -> set[str]:
    return MAY_CHANGE - ({"train.evaluation_batch"} if settings.get("train.order") == "stream" else set())


def flaw_of(config: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Return what shows that `config.json` is not what a run wrote, in words; '' if it may be another run.

    Settings of optimizer and training, and those of another class, are compared by name alone.

    Args:
      config: its content.
      now: the identity of the run of this command.
    """
    if missing := [name for name in ("experiment", "seed", "model", "optim", "train", "data") if name not in config]:
        return f"{missing[0]} is missing"
    if not is_integer(config["seed"]):
        return f"seed is {config['seed']!r:.60}, no integer"
    same = [name for name in ("optim", "train", "data") if name != "data" or config.get(CLASSES) == now.get(CLASSES)]
    for group in same:
        if unknown := flatten({group: config[group]}).keys() - flatten({group: now[group]}).keys():
            return f"{min(unknown)} is no setting"
    return _flaw_of_model(config)


def _flaw_of_model(config: Mapping[str, Any]) -> str:
    """Return which setting of the model its class refuses. A class that cannot be imported refuses none."""
    try:
        kind = class_of(config[CLASSES]["model"])
    except (UsageError, LookupError, TypeError, AttributeError):
        return ""
    try:
        from_json(kind, config["model"], "model")
    except UsageError as error:
        return str(error).partition(":")[0]
    return ""
