"""Configurations as JSON, and as flat names such as 'model.matrices.rank'."""

import types
from collections.abc import Mapping
from dataclasses import MISSING, asdict, fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

from lrpt.errors import UsageError
from lrpt.settings import SHORT_NAMES, default_of, names_of_model, unused_settings

_NAMES = names_of_model(SHORT_NAMES)


def to_json(config: Any) -> dict[str, Any]:
    """Return a configuration as JSON values. Paths become strings, tuples lists, and numbers of NumPy those of Python."""
    return _as_json(asdict(config))


def _as_json(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _as_json(inner) for name, inner in value.items()}
    if isinstance(value, tuple | list):
        return [_as_json(inner) for inner in value]
    if isinstance(value, np.generic):
        return value.item()
    return str(value) if isinstance(value, Path) else value


def flatten(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Flatten nested settings: {'model': {'matrices': {'rank': 24}}} -> {'model.matrices.rank': 24}. Names begin with the prefix."""
    found: dict[str, Any] = {}
    for name, value in tree.items():
        found |= flatten(value, f"{prefix}{name}.") if isinstance(value, Mapping) else {prefix + name: value}
    return found


def effective(config: Any) -> dict[str, Any]:
    """Return the settings of a configuration by flat name, without those that have no effect (`lrpt.settings.unused_settings`).

    Configurations with the same effective settings describe the same run.
    """
    unused = unused_settings(config)
    return {name: value for name, value in flatten(to_json(config)).items() if name not in unused}


def full_name(name: str) -> str:
    """Return the full name of a setting: 'model.matrices.rank' for 'model.rank'."""
    return _NAMES.get(name, name)


def defaults(config: Any) -> dict[str, Any]:
    """Return the defaults of a configuration by flat name, for the settings that have one."""
    found: dict[str, Any] = {}
    for group in fields(config):
        for field in fields(getattr(config, group.name)):
            if (value := default_of(field)) is not MISSING:
                found |= flatten({group.name: {field.name: to_json(value) if is_dataclass(value) else _as_json(value)}})
    return found


def from_json(kind: Any, content: Any, name: str = "") -> Any:
    """Return a configuration from its JSON, the inverse of `to_json`: `from_json(type(config), to_json(config)) == config`.

    Missing fields get their defaults, because files lack settings that were added later.

    Args:
      kind: a dataclass. Its fields may be dataclasses, tuples, paths, optional, or of JSON types.
      content: result of `json.loads`.
      name: name of the configuration in errors, such as 'model'.

    Raises:
      UsageError: a field is unknown, is missing and has no default, or holds a value that does not fit.
    """
    return _read(kind, content, name, MISSING)


def _read(kind: Any, value: Any, name: str, default: Any) -> Any:
    if is_dataclass(kind):
        return _read_dataclass(kind, value, name, default)
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return _read_union(arguments, value, name)
    if origin is tuple:
        return _read_tuple(arguments, value, name)
    if origin is Literal:
        fits = value in arguments
    elif kind is float:
        fits, value = isinstance(value, int | float) and not isinstance(value, bool), value
        value = float(value) if fits else value
    elif kind is Path:
        fits = isinstance(value, str)
        value = Path(value) if fits else value
    elif kind is int:
        fits = isinstance(value, int) and not isinstance(value, bool)
    else:
        fits = kind is Any or isinstance(value, origin or kind)  # of list[int], the list
    if not fits:
        raise UsageError(f"{name} is {value!r}: expected {_called(kind)}")
    return value


def _read_dataclass(kind: Any, content: Any, name: str, default: Any) -> Any:
    if not isinstance(content, Mapping):
        raise UsageError(f"{name or 'the configuration'} is {content!r}: expected an object with the settings of {kind.__name__}")
    hints, known = get_type_hints(kind), {field.name: field for field in fields(kind)}
    dot = f"{name}." if name else ""
    if unknown := content.keys() - known.keys():
        raise UsageError(f"{dot}{min(unknown)} is no setting of {kind.__name__}: choose from {', '.join(known)}")
    settings = {}
    for own, field in known.items():
        usual = default_of(field) if default is MISSING else getattr(default, own)
        if own in content:
            settings[own] = _read(hints[own], content[own], dot + own, usual)
        elif usual is MISSING:
            raise UsageError(f"{dot}{own} is missing: {kind.__name__} needs it")
        else:
            settings[own] = usual
    return kind(**settings)


def _read_union(kinds: tuple[Any, ...], value: Any, name: str) -> Any:
    if value is None and type(None) in kinds:
        return None
    for kind in kinds:
        try:
            return _read(kind, value, name, MISSING)
        except UsageError:
            continue
    raise UsageError(f"{name} is {value!r}: expected {' or '.join(map(_called, kinds))}")


def _read_tuple(kinds: tuple[Any, ...], value: Any, name: str) -> tuple[Any, ...]:
    if not isinstance(value, list | tuple):
        raise UsageError(f"{name} is {value!r}: expected a list")
    if len(kinds) == 2 and kinds[1] is Ellipsis:
        kinds = (kinds[0],) * len(value)
    if len(kinds) != len(value):
        raise UsageError(f"{name} is {value!r}: expected {len(kinds)} values")
    return tuple(_read(kind, one, name, MISSING) for kind, one in zip(kinds, value, strict=True))


def _called(kind: Any) -> str:
    """Return the name of a type for an error message."""
    if get_origin(kind) is Literal:
        return " or ".join(map(repr, get_args(kind)))
    return {type(None): "null", int: "a whole number", float: "a number", str: "a string", bool: "true or false", Path: "a path"}.get(
        kind, str(kind)
    )
