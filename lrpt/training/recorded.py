"""Configurations read again from `config.json`, which names the classes of its parts."""

import importlib
import json
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple

from lrpt.errors import UnknownName, UsageError
from lrpt.optim import OptimConfig
from lrpt.runs.classes import CLASSES, class_of
from lrpt.runs.configuration import from_json
from lrpt.runs.run_directory import CONFIG
from lrpt.training.config import RunConfig, TrainConfig


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
        found = json.loads((path / CONFIG).read_text())
        return {**found, "experiment": str(found["experiment"]), "preset": str(found["preset"]), "seed": int(found["seed"])}
    except OSError as error:
        raise UsageError(f"{path / 'config.json'} cannot be read ({error.strerror}): name the directory of a run") from None
    except (ValueError, TypeError, KeyError):
        raise UsageError(f"{path / 'config.json'} is damaged, or not of a run: name the directory of a run", code=1) from None


def configuration(path: Path, identity: Mapping[str, Any], given: Parts) -> RunConfig[Any]:
    """Return the configuration that `config.json` stands for.

    Raises:
      UsageError: its classes are not named, cannot be found, or do not have its settings.
    """
    named = {"optim": OptimConfig, "train": TrainConfig} | {name: class_of(kind) for name, kind in _named(identity, given).items()}
    kinds = named | {name: kind for name, kind in given._asdict().items() if kind is not None}
    if not {"model", "data"} <= kinds.keys():
        raise UsageError(f"{path / CONFIG} names no classes: give them to lrpt.load as model= and data=")
    return RunConfig(**{group.name: _part(path, group.name, kinds[group.name], identity) for group in fields(RunConfig)})


def _named(identity: Mapping[str, Any], given: Parts) -> dict[str, str]:
    """Return the classes that the file names and that the caller does not give."""
    return {name: str(kind) for name, kind in identity.get(CLASSES, {}).items() if getattr(given, name, None) is None}


def _part(path: Path, group: str, kind: type, identity: Mapping[str, Any]) -> Any:
    """Return a part of a configuration; settings that the file does not have are defaults of the class."""
    try:
        return from_json(kind, identity.get(group, {}), group)
    except UsageError as error:
        hint = "; or import the module that adds it, with --import or imports= of lrpt.load" * isinstance(error, UnknownName)
        raise UsageError(f"{path / 'config.json'}: {error}{hint}", error.code) from None


def experiment_of(name: str) -> Any:
    """Return the experiment of that name, if experiments can be imported here and have one. The library does not need them.

    Errors of the experiment's own module come through, such as the ImportError of a package that it needs.
    """
    return getattr(importlib.import_module("experiments").module(name), "EXPERIMENT", None) if is_experiment(name) else None


def is_experiment(name: str) -> bool:
    """Return whether `experiments` can be imported here and has a command of that name. The command itself is not imported."""
    try:
        return name in importlib.import_module("experiments").names()
    except (ImportError, AttributeError):
        return False
