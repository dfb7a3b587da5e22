"""Checks of parametrizations that users write. All read types and shapes only, when Flax creates or binds parameters."""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from lrpt.errors import UsageError, in_words
from lrpt.matrices import is_operator
from lrpt.parametrizations.configuration import MatrixConfig
from lrpt.specs import MatrixSpec


def check_storage(**given: Any) -> None:
    """Raise a UsageError unless the storage of matrices is a `MatrixConfig`."""
    for name, value in given.items():
        if not isinstance(value, MatrixConfig):
            raise UsageError(f"{name} is {value!r}: give a MatrixConfig, such as MatrixConfig('low_rank', 24)")


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
        raise UsageError(f"the parametrization '{kind}' returned {in_words(found)}: {expected}")
    if found.keys() != set(specs):
        raise UsageError(f"the parametrization '{kind}' returned matrices named {', '.join(map(str, found)) or 'nothing'}: {expected}")
    for name, matrix in found.items():
        returned = f"the parametrization '{kind}' returned {in_words(matrix)} for '{name}'"
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
                f"{returned}, whose leaves must be arrays, and one is {in_words(leaf)}: {register if is_operator(leaf) else static}"
            )


def _check_shape(returned: str, matrix: Any, spec: MatrixSpec) -> None:
    """Raise a UsageError unless a matrix maps vectors as wide as its spec says, and its dense form is as large."""
    leaves, structure = jax.tree.flatten(matrix)
    shapes = tuple(_shape_of(leaf) if hasattr(leaf, "dtype") else leaf for leaf in leaves)
    wanted = {APPLY: (1, spec.n_out), TO_DENSE: (spec.n_in, spec.n_out)}
    for what, found in _shapes_of(structure, shapes, spec.n_in).items():
        if found != wanted[what]:
            raise UsageError(
                f"{returned}, whose {what} gives {found}: expected {wanted[what]} for a matrix of {spec.n_in} x {spec.n_out} "
                f"(spec.n_in x spec.n_out); raise lrpt.UsageError if the parametrization cannot have this shape"
            )


def _shape_of(leaf: Any) -> jax.ShapeDtypeStruct:
    """Return the shape of an array in the type that JAX computes with: NumPy may have 64 bits. There are no shardings in it."""
    return jax.ShapeDtypeStruct(leaf.shape, jax.dtypes.canonicalize_dtype(leaf.dtype, allow_extended_dtype=True))


APPLY, TO_DENSE = "apply(v) of one row", "to_dense()"


@cache  # parameters are bound at every call of a module outside of jit
def _shapes_of(structure: Any, leaves: tuple[Any, ...], n_in: int) -> dict[str, Any]:
    """Return the shape that each method of a matrix gives, or its error in words. `to_dense` is left out if the matrix has none."""
    matrix = structure.unflatten(leaves)
    types = (leaf.dtype for leaf in leaves if hasattr(leaf, "dtype") and jnp.issubdtype(leaf.dtype, jnp.floating))
    row = jax.ShapeDtypeStruct((1, n_in), next(types, jnp.float32))
    calls: dict[str, Callable[[], Any]] = {APPLY: lambda: jax.eval_shape(lambda own, v: own.apply(v), matrix, row)}
    if callable(getattr(matrix, "to_dense", None)):
        calls[TO_DENSE] = lambda: jax.eval_shape(lambda own: own.to_dense(), matrix)
    return {what: _shape_or_error(call) for what, call in calls.items()}


def _shape_or_error(call: Callable[[], Any]) -> Any:
    try:
        return call().shape
    except (TypeError, ValueError) as error:
        return f"an error ({str(error).splitlines()[0]})"
