"""Configurations as JSON, and as flat names such as 'model.rank'."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any


def to_json(config: Any) -> dict[str, Any]:
    """A configuration as JSON can hold it; paths become strings, tuples lists."""
    plain = asdict(config)
    return {group: {k: _as_json(v) for k, v in fields.items()} for group, fields in plain.items()}


def _as_json(value: Any) -> Any:
    if isinstance(value, tuple):
        return list(value)
    return str(value) if isinstance(value, Path) else value


def flatten(tree: Mapping[str, Any]) -> dict[str, Any]:
    """{'model': {'rank': 24}} -> {'model.rank': 24}."""
    return {f"{group}.{name}": value for group, fields in tree.items() for name, value in fields.items()}
