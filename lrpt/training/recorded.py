"""Configurations read again from `config.json`.

The file names the classes of its parts. Files of older versions name none. Then the preset of the experiment gives the classes, and the
settings that did not exist when the file was written.
"""

import importlib
import json
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple

from lrpt.errors import UnknownName, UsageError
from lrpt.optim import OptimConfig
from lrpt.runs.classes import CLASSES, class_of
from lrpt.runs.configuration import flatten, from_json, to_json, upgraded
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
      UsageError: its classes cannot be found, or do not have its settings.
    """
    named = {"optim": OptimConfig, "train": TrainConfig} | {name: class_of(kind) for name, kind in _named(identity, given).items()}
    kinds = named | {name: kind for name, kind in given._asdict().items() if kind is not None}
    preset = None if {"model", "data"} <= kinds.keys() else _preset(path, identity)
    parts = {group.name: _part(path, group.name, kinds.get(group.name), preset, identity) for group in fields(RunConfig)}
    return RunConfig(**parts)


def _named(identity: Mapping[str, Any], given: Parts) -> dict[str, str]:
    """Return the classes that the file names and that the caller does not give."""
    return {name: str(kind) for name, kind in identity.get(CLASSES, {}).items() if getattr(given, name, None) is None}


def _part(path: Path, group: str, kind: type | None, preset: RunConfig[Any] | None, identity: Mapping[str, Any]) -> Any:
    """Return a part of a configuration; settings that the file does not have are those of the preset, or defaults of the class."""
    usual = None if preset is None else getattr(preset, group)
    content = identity.get(group, {})
    if usual is not None and kind in (None, type(usual)):
        kind = type(usual)
        given = {name: value for name, value in to_json(usual).items() if name not in getattr(kind, "later", ())}
        content = upgraded(flatten({group: given}) | flatten({group: content}))[group]
    try:
        return from_json(kind, content, group)
    except UsageError as error:
        hint = "; or import the module that adds it, with --import or imports= of lrpt.load" * isinstance(error, UnknownName)
        raise UsageError(f"{path / 'config.json'}: {error}{hint}", error.code) from None


def _preset(path: Path, identity: Mapping[str, Any]) -> RunConfig[Any]:
    """Return the configuration of the preset that a file names."""
    name = identity["experiment"]
    experiment = experiment_of(name)
    if experiment is None and _command_names() is None:
        raise UsageError(
            f"{path} holds a run of '{name}', its config.json names no classes, and the package experiments cannot be imported here: "
            f"run with the top of the clone on PYTHONPATH, or give lrpt.load model= and data="
        )
    if experiment is None:
        raise UsageError(
            f"{path} holds a run of '{name}', which is no module of experiments, and its config.json names no classes: "
            f"give them to lrpt.load as model= and data="
        )
    if identity["preset"] not in experiment.presets:
        raise UsageError(f"unknown preset '{identity['preset']}' of {name}: choose from {', '.join(experiment.presets)}")
    return experiment.presets[identity["preset"]].config


def experiment_of(name: str) -> Any:
    """Return the experiment of that name, if experiments can be imported here and have one. The library does not need them.

    Errors of the experiment's own module come through, such as the ImportError of a package that it needs.
    """
    return getattr(importlib.import_module("experiments").module(name), "EXPERIMENT", None) if is_experiment(name) else None


def is_experiment(name: str) -> bool:
    """Return whether `experiments` can be imported here and has a command of that name. The command itself is not imported."""
    return name in (_command_names() or ())


def _command_names() -> list[str] | None:
    """Return the names of all commands of `experiments`, or None if that package cannot be imported here."""
    try:
        return importlib.import_module("experiments").names()
    except (ImportError, AttributeError):
        return None
