"""Registers parameters, states and matrices of this library for programs of `jax.export`, and matrices for `flax.serialization`.

    import lrpt.interop.serialization

    exported = jax.export.export(jax.jit(step))(params, carry, x)
    content = exported.serialize()

    content = flax.serialization.to_bytes(params)
    params = flax.serialization.from_bytes(params, content)

Without it, `serialize` raises a ValueError if the program takes or returns a matrix, the parameters of a cell, or a state such as
`LSTMCarry`. A program that reads the content imports it, too. Programs of `lrpt.interop.export` take and return arrays, and do not need it.

Flax knows tuples and named tuples already. Without this module, `to_bytes` raises a TypeError for a tree with a matrix in it, such as the
parameters of a cell's step. The variables of a network contain arrays only, and do not need it.
"""

import json
from collections.abc import Iterable
from dataclasses import is_dataclass, replace
from types import ModuleType
from typing import Any

from flax import serialization
from jax import export
from jaxtyping import PyTree

from lrpt import cells, matrices
from lrpt.errors import UsageError
from lrpt.networks.protocol import Start
from lrpt.optim import ShrinkState
from lrpt.pytrees import stored_fields


def _classes_of(module: ModuleType) -> Iterable[type]:
    """Return the public classes of a package."""
    return (kind for name in module.__all__ if isinstance(kind := getattr(module, name), type))


def _to_bytes(static: tuple[Any, ...]) -> bytes:
    """Write the static fields of a matrix, which are integers."""
    return json.dumps(static).encode()


def _from_bytes(content: Any) -> tuple[Any, ...]:
    return tuple(json.loads(bytes(content)))


def _to_state_dict(matrix: Any) -> dict[str, Any]:
    """Return the arrays of a matrix by field. The static fields are not written: those of the target are kept."""
    return {name: serialization.to_state_dict(getattr(matrix, name)) for name in stored_fields(matrix)}


def _from_state_dict(matrix: Any, state: PyTree) -> Any:
    """Return a matrix like the target, with the arrays of a state dict.

    Raises:
      UsageError: the state dict is of another kind of matrix.
    """
    names = stored_fields(matrix)
    if not isinstance(state, dict) or state.keys() != set(names):
        found = ", ".join(map(str, state)) if isinstance(state, dict) else f"a {type(state).__name__}"
        kind = type(matrix).__name__
        raise UsageError(
            f"the content has {found or 'nothing'} for a {kind}: expected {', '.join(names)}; give the target it was written of"
        )
    return replace(matrix, **{name: serialization.from_state_dict(getattr(matrix, name), state[name], name) for name in names})


def register_matrix(kind: type, name: str) -> None:
    """Register a class of matrices of your own, which `lrpt.pytrees.register_fields` made a pytree.

    Args:
      kind: the class, whose static fields are JSON values.
      name: its name in files, such as 'mine.Butterfly'.
    """
    export.register_pytree_node_serialization(kind, serialized_name=name, serialize_auxdata=_to_bytes, deserialize_auxdata=_from_bytes)
    serialization.register_serialization_state(kind, _to_state_dict, _from_state_dict)


def _register() -> None:
    """Register all classes under their names, which files contain."""
    for kind in (*_classes_of(cells), Start, ShrinkState):
        if issubclass(kind, tuple):
            export.register_namedtuple_serialization(kind, serialized_name=f"lrpt.{kind.__name__}")
    for kind in _classes_of(matrices):
        if is_dataclass(kind):
            register_matrix(kind, f"lrpt.{kind.__name__}")


_register()
