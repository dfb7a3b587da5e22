"""Configurations read again from `config.json`.

A file names the classes of its parts. One of an older version names none; then the experiment does, by its preset, which also gives
settings that did not exist when the file was written.
"""

import importlib
import json
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from types import UnionType
from typing import Any, NamedTuple, Union, get_args, get_origin, get_type_hints

from lrpt.errors import UsageError
from lrpt.optim import OptimConfig
from lrpt.runs.classes import CLASSES, class_of
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
        found = json.loads((path / "config.json").read_text())
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
    parts = {}
    for group in fields(RunConfig):
        kind = kinds.get(group.name)
        own = None if preset is None else getattr(preset, group.name)
        usual = own if kind is None or type(own) is kind else None
        parts[group.name] = rebuild(path, group.name, usual or kind, identity.get(group.name, {}))
    return RunConfig(**parts)


def _named(identity: Mapping[str, Any], given: Parts) -> dict[str, str]:
    """Return the classes that the file names and that the caller does not give."""
    return {name: str(kind) for name, kind in identity.get(CLASSES, {}).items() if getattr(given, name, None) is None}


def rebuild(path: Path, group: str, usual: Any, settings: Mapping[str, Any]) -> Any:
    """Return a part of a configuration with these settings.

    Args:
      group: its name, for messages.
      usual: a part whose other settings are taken over, or its class.
      settings: field -> value, as JSON holds it.

    Raises:
      UsageError: a setting is not known, or its value is not allowed.
    """
    kind = usual if isinstance(usual, type) else type(usual)
    hints = get_type_hints(kind)
    known = {field.name for field in fields(kind)}
    for name in settings:
        if name not in known:
            raise UsageError(
                f"{path / 'config.json'} has {group}.{name}, and {kind.__name__} has no such setting: another version wrote it"
            )
    values = {name: _typed(hints[name], value) for name, value in settings.items()}
    try:
        return usual(**values) if isinstance(usual, type) else replace(usual, **values)
    except UsageError:
        raise
    except (TypeError, ValueError) as error:
        raise UsageError(f"{path / 'config.json'} is damaged ({group}: {error}): restore it", code=1) from None


def _typed(hint: Any, value: Any) -> Any:
    """Return a value of JSON as the type of a field has it: paths and tuples are strings and lists in JSON."""
    kinds = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    if isinstance(value, str) and Path in kinds:
        return Path(value)
    return tuple(value) if isinstance(value, list) else value


def _preset(path: Path, identity: Mapping[str, Any]) -> RunConfig[Any]:
    """Return the configuration of the preset that a file names."""
    name = identity["experiment"]
    experiment = experiment_of(name)
    if experiment is None:
        raise UsageError(
            f"{path} holds a run of '{name}', which is no module of experiments, and its config.json names no classes: "
            f"give them to lrpt.load as model= and data="
        )
    if identity["preset"] not in experiment.presets:
        raise UsageError(f"unknown preset '{identity['preset']}' of {name}: choose from {', '.join(experiment.presets)}")
    return experiment.presets[identity["preset"]].config


def experiment_of(name: str) -> Any:
    """Return the experiment of that name, if experiments can be imported here and have one. The library does not need them."""
    try:
        commands = importlib.import_module("experiments")
        return getattr(commands.module(name), "EXPERIMENT", None) if name in commands.names() else None
    except (ImportError, AttributeError):
        return None
