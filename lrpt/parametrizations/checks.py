"""Checks of parametrizations that users write. All read types only, when Flax creates or binds parameters."""

from collections.abc import Callable, Collection, Mapping
from typing import Any

import flax.linen as nn
import jax

from lrpt.errors import UsageError
from lrpt.matrices import is_operator


def check_entry(kind: str, entry: Callable[..., Any]) -> None:
    """Raise a UsageError if an entry of `PARAMETRIZATIONS` is a class of matrices, and no module that owns them.

    Args:
      kind: its name in `PARAMETRIZATIONS`.
      entry: the entry.
    """
    if isinstance(entry, type) and is_operator(entry) and not issubclass(entry, nn.Module):
        raise UsageError(
            f"PARAMETRIZATIONS[{kind!r}] is {entry.__name__}, a class of matrices: give a subclass of lrpt.Parametrization whose __call__ "
            f"returns such a matrix for each name in self.specs"
        )


def check_matrices(kind: str, names: Collection[str], found: Any) -> None:
    """Check what a parametrization returns.

    Args:
      kind: its name in `PARAMETRIZATIONS`.
      names: the matrices that it was asked for.
      found: what it returned.

    Raises:
      UsageError: it is no dict with these names, or a value is no matrix whose leaves are arrays.
    """
    expected = f"return a dict with a matrix for each name in self.specs: {', '.join(names) or 'none here'}"
    if not isinstance(found, Mapping):
        raise UsageError(f"the parametrization '{kind}' returned {_named(found)}: {expected}")
    if found.keys() != set(names):
        raise UsageError(f"the parametrization '{kind}' returned matrices named {', '.join(map(str, found)) or 'nothing'}: {expected}")
    for name, matrix in found.items():
        _check_matrix(f"the parametrization '{kind}' returned {_named(matrix)} for '{name}'", matrix)


def _check_matrix(returned: str, matrix: Any) -> None:
    if not is_operator(matrix):
        raise UsageError(f"{returned}, which has no method apply: return an object with apply(v) and to_dense()")
    for leaf in jax.tree.leaves(matrix):
        if not (hasattr(leaf, "dtype") or isinstance(leaf, int | float | complex)):
            register = f"decorate the dataclass {type(leaf).__name__} with lrpt.pytrees.register_fields"
            static = 'keep it in a field with the metadata {"static": True}'
            raise UsageError(
                f"{returned}, whose leaves must be arrays, and one is {_named(leaf)}: {register if is_operator(leaf) else static}"
            )


def _named(value: object) -> str:
    """Return what a value is: 'an array', 'None', 'a list'."""
    if value is None or isinstance(value, jax.Array):
        return "None" if value is None else "an array"
    return f"a {type(value).__name__}"
