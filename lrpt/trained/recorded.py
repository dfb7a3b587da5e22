"""Configurations read again from `config.json`, which names the classes of its parts."""

import sys
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, NamedTuple

from lrpt.errors import UnknownName, UsageError
from lrpt.optim import OptimConfig
from lrpt.runs.classes import CLASSES, class_of
from lrpt.runs.configuration import from_json
from lrpt.runs.files import DIGEST, is_intact, read_object
from lrpt.runs.imports import import_module
from lrpt.runs.layout import CONFIG, RESULT, RUN
from lrpt.runs.same_run import check_result
from lrpt.runs.user_code import IMPORTS
from lrpt.training.config import RunConfig, TrainConfig
from lrpt.training.origin import name_of_text

REMOVED_PATH = "PATH"
"""Placeholder in a kept `config.json` for a path on the machine that trained."""


class Parts(NamedTuple):
    """Classes that the caller gives."""

    model: type | None = None
    data: type | None = None


def identity_of(path: Path) -> dict[str, Any]:
    """Return the content of `config.json`.

    Raises:
      UsageError: there is none, or it is damaged.
    """
    try:
        found = read_object(path / CONFIG)
        return {**found, "experiment": str(found["experiment"]), "preset": str(found["preset"]), "seed": int(found["seed"])}
    except OSError as error:
        raise UsageError(f"{path / CONFIG} cannot be read ({error.strerror}): name the directory of a run{_runs_in(path)}") from None
    except (ValueError, TypeError, KeyError):
        raise UsageError(f"{path / CONFIG} is damaged, or not of a run: name the directory of a run", code=1) from None


def import_recorded(path: Path) -> dict[str, str]:
    """Import the modules that registered what the run uses. Return those that cannot be imported, and why.

    What they would have registered is missed later, by name.
    """
    failed: dict[str, str] = {}
    for name in _imports_of(identity_of(path)):
        try:
            import_module(name, remember=False)
        except (Exception, SystemExit) as error:  # a script may end the program
            failed[name] = f"{type(error).__name__}: {error}"
    return failed


def _imports_of(identity: Mapping[str, Any]) -> list[str]:
    recorded = identity.get(IMPORTS)
    return [str(name) for name in recorded] if isinstance(recorded, list) else []


def _runs_in(path: Path) -> str:
    """Return a run in a directory that holds several, for the end of an error; '' if it holds none."""
    found = next((folder for folder in sorted(path.iterdir()) if (folder / CONFIG).is_file()), None) if path.is_dir() else None
    return "" if found is None else f", such as {found}"


def configuration(path: Path, identity: Mapping[str, Any], given: Parts) -> RunConfig[Any]:
    """Return the configuration that `config.json` stands for.

    Raises:
      UsageError: its classes are not named, cannot be found, or do not have its settings; the result of the run has other settings.
    """
    _check_result(path, identity)
    named = {"optim": OptimConfig, "train": TrainConfig} | {name: class_of(kind) for name, kind in _named(identity, given).items()}
    kinds = named | {name: kind for name, kind in given._asdict().items() if kind is not None}
    if not {"model", "data"} <= kinds.keys():
        raise UsageError(f"{path / CONFIG} names no classes: give them to lrpt.load as model= and data=")
    return RunConfig(**{group.name: _part(path, group.name, kinds[group.name], identity) for group in fields(RunConfig)})


def recorded_text(path: Path, identity: Mapping[str, Any]) -> str:
    """Return the name of the text of a run from its result; '' if the result has none, or is damaged or of another run."""
    result = _result(path, identity) or {}
    return name_of_text(result.get("data", {})) or ""


def _check_result(path: Path, identity: Mapping[str, Any]) -> None:
    """Raise a UsageError if `config.json` is not what its result holds. A damaged result, or one of another run, decides nothing."""
    result = _result(path, identity)
    if result is not None:
        check_result(path, identity, result)


def _result(path: Path, identity: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the result of a run, or None if there is none, or one that is damaged or of another run."""
    try:
        result = read_object(path / RESULT)
    except (OSError, ValueError):
        return None
    is_own = (DIGEST not in result or is_intact(result)) and result.get(RUN) == identity.get(RUN)
    return result if is_own else None


def _named(identity: Mapping[str, Any], given: Parts) -> dict[str, str]:
    """Return the classes that the file names and that the caller does not give."""
    return {name: str(kind) for name, kind in identity.get(CLASSES, {}).items() if getattr(given, name, None) is None}


def _part(path: Path, group: str, kind: type, identity: Mapping[str, Any]) -> Any:
    """Return a part of a configuration; settings that the file does not have are defaults of the class."""
    try:
        return from_json(kind, identity.get(group, {}), group)
    except UsageError as error:
        hint = _hint(identity) if isinstance(error, UnknownName) else ""
        raise UsageError(f"{path / CONFIG}: {error}{hint}", error.code) from None


def _hint(identity: Mapping[str, Any]) -> str:
    """Return the advice for a name that is not registered. Modules that the run has recorded were not found, or do not register it."""
    names = [name for name in _imports_of(identity) if name not in sys.modules]
    recorded = f" ({', '.join(names)}, which cannot be imported here)" if names else ""
    return f"; or import the module that adds it{recorded}, with --import or imports= of lrpt.load"


def with_data_dir(config: RunConfig[Any], dir: Path | None) -> RunConfig[Any]:
    """Return the configuration with this directory of data, and without one that belongs to another machine."""
    recorded = getattr(config.data, "dir", None)
    if not hasattr(config.data, "dir") or (dir is None and str(recorded) != REMOVED_PATH):
        return config
    return replace(config, data=replace(config.data, dir=dir))
