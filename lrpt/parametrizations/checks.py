"""Checks of parametrizations that users write. All read types and shapes only, when Flax creates or binds parameters."""

from collections.abc import Callable, Mapping
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from lrpt.errors import UsageError
from lrpt.matrices import is_operator
from lrpt.specs import MatrixSpec


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


def check_matrices(kind: str, specs: Mapping[str, MatrixSpec], found: Any) -> None:
    """Check what a parametrization returns.

    Args:
      kind: its name in `PARAMETRIZATIONS`.
      specs: the matrices that it was asked for, by name.
      found: what it returned.

    Raises:
      UsageError: it is no dict with these names, or a value is no matrix of the shape of its spec whose leaves are arrays.
    """
    expected = f"return a dict with a matrix for each name in self.specs: {', '.join(specs) or 'none here'}"
    if not isinstance(found, Mapping):
        raise UsageError(f"the parametrization '{kind}' returned {_named(found)}: {expected}")
    if found.keys() != set(specs):
        raise UsageError(f"the parametrization '{kind}' returned matrices named {', '.join(map(str, found)) or 'nothing'}: {expected}")
    for name, matrix in found.items():
        returned = f"the parametrization '{kind}' returned {_named(matrix)} for '{name}'"
        _check_matrix(returned, matrix)
        _check_shape(returned, matrix, specs[name])


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


def _check_shape(returned: str, matrix: Any, spec: MatrixSpec) -> None:
    """Raise a UsageError unless a matrix maps vectors as wide as its spec says, and its dense form is as large."""
    types = (leaf.dtype for leaf in jax.tree.leaves(matrix) if hasattr(leaf, "dtype") and jnp.issubdtype(leaf.dtype, jnp.floating))
    row, wanted = jax.ShapeDtypeStruct((1, spec.n_in), next(types, jnp.float32)), {"apply(v) of one row": (1, spec.n_out)}
    shapes = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype) if hasattr(a, "dtype") else a, matrix)  # without shardings
    calls: dict[str, Callable[[], Any]] = {"apply(v) of one row": lambda: jax.eval_shape(lambda own, v: own.apply(v), shapes, row)}
    if callable(getattr(matrix, "to_dense", None)):
        calls["to_dense()"] = lambda: jax.eval_shape(lambda own: own.to_dense(), shapes)
        wanted["to_dense()"] = (spec.n_in, spec.n_out)
    for what, call in calls.items():
        try:
            found = call().shape
        except (TypeError, ValueError) as error:
            found = f"an error ({str(error).splitlines()[0]})"
        if found != wanted[what]:
            raise UsageError(
                f"{returned}, whose {what} gives {found}: expected {wanted[what]} for a matrix of {spec.n_in} x {spec.n_out} "
                f"(spec.n_in x spec.n_out); raise lrpt.UsageError if the parametrization cannot have this shape"
            )


def _named(value: object) -> str:
    """Return what a value is: 'an array', 'None', 'a list'."""
    if value is None or isinstance(value, jax.Array):
        return "None" if value is None else "an array"
    return f"a {type(value).__name__}"
