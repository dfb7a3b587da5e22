"""Registers parameters, states and matrices of this library for programs of `jax.export` that are written to files.

    import lrpt.interop.serialization

    exported = jax.export.export(jax.jit(step))(params, carry, x)
    content = exported.serialize()

Without it, `serialize` raises a ValueError if the program takes or returns a matrix, the parameters of a cell, or a state such as
`LSTMCarry`. A program that reads the content imports it, too. Programs of `lrpt.interop.export` take and return arrays, and do not need it.
"""

import json
from collections.abc import Iterable
from dataclasses import is_dataclass
from types import ModuleType
from typing import Any

from jax import export

from lrpt import cells, matrices
from lrpt.networks.protocol import Start


def _classes_of(module: ModuleType) -> Iterable[type]:
    """Return the public classes of a package."""
    return (kind for name in module.__all__ if isinstance(kind := getattr(module, name), type))


def _to_bytes(static: tuple[Any, ...]) -> bytes:
    """Write the static fields of a matrix, which are integers."""
    return json.dumps(static).encode()


def _from_bytes(content: Any) -> tuple[Any, ...]:
    return tuple(json.loads(bytes(content)))


def _register() -> None:
    """Register all classes under their names, which files contain."""
    for kind in (*_classes_of(cells), Start):
        if issubclass(kind, tuple):
            export.register_namedtuple_serialization(kind, serialized_name=f"lrpt.{kind.__name__}")
    for kind in _classes_of(matrices):
        if is_dataclass(kind):
            name = f"lrpt.{kind.__name__}"
            export.register_pytree_node_serialization(
                kind, serialized_name=name, serialize_auxdata=_to_bytes, deserialize_auxdata=_from_bytes
            )


_register()
