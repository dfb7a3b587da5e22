"""Pytrees: dataclasses registered so that their structure tells classes apart."""

from collections.abc import Hashable, Iterable
from dataclasses import fields
from typing import Any, TypeVar

import jax

Kind = TypeVar("Kind", bound=type)


def stored_fields(kind: Any) -> tuple[str, ...]:
    """Return the names of the fields of a dataclass, or of an object of one, that are no static ones: the children of the pytree."""
    return tuple(field.name for field in fields(kind) if not field.metadata.get("static"))


def register_fields(kind: Kind) -> Kind:
    """Register a dataclass as a pytree of its fields. Those with the metadata {"static": True} belong to its structure.

    It does what `jax.tree_util.register_dataclass` does, and keeps classes apart. With JAX's function (0.10.2), the structures of two
    dataclasses with the same number of fields compare equal, whatever their classes: `PyTreeDef::operator==` in jaxlib/pytree.cc compares
    the classes of other nodes only. `jit` finds its programs by a few bits of a hash, and by equality. So it sometimes runs the program of
    one class with the arrays of another: of 200 classes whose method returns a number of their own, 32 returned that of an earlier class.

    Args:
      kind: a frozen dataclass. Its constructor must take any objects, as JAX builds pytrees of shapes and placeholders, too.

    Returns:
      The class.
    """
    stored = stored_fields(kind)
    static = tuple(field.name for field in fields(kind) if field.name not in stored)
    keys = tuple(jax.tree_util.GetAttrKey(name) for name in stored)

    def flatten(node: Any) -> tuple[tuple[Any, ...], tuple[Hashable, ...]]:
        return tuple(getattr(node, name) for name in stored), tuple(getattr(node, name) for name in static)

    def flatten_with_keys(node: Any) -> tuple[tuple[tuple[Any, Any], ...], tuple[Hashable, ...]]:
        children, structure = flatten(node)
        return tuple(zip(keys, children, strict=True)), structure

    def unflatten(structure: tuple[Hashable, ...], children: Iterable[Any]) -> Any:
        return kind(**dict(zip(stored, children, strict=True)), **dict(zip(static, structure, strict=True)))

    jax.tree_util.register_pytree_with_keys(kind, flatten_with_keys, unflatten, flatten)
    return kind
