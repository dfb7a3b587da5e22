"""Specifications of a cell's parameters, independent of their storage.

A cell's template is a pytree in the shape of its parameters, with a specification for each leaf. `lrpt.parametrizations.Parameters` creates
the parameters and fills the template in. A cell with a matrix of its own shape, a bias, an operator that no configuration changes, and a
scalar that a schedule may set:

    class Params(NamedTuple):
        input: Operator
        recurrent: Operator
        bias: Operator
        decay: Operator
        temperature: Array

    def template(spec: CellSpec) -> Params:
        return Params(
            input=MatrixSpec(spec.input_size, spec.size, "input"),
            recurrent=MatrixSpec(spec.size, spec.size, "recurrent"),
            bias=BiasSpec(spec.size),
            decay=OperatorSpec(Diagonal, (spec.size,), initial=0.9, spread=0.05),
            temperature=SettingSpec(1.0),
        )

The cell calls `apply` of everything but the setting, which is an array, and adds the results up: `apply` of a bias returns the bias itself,
whatever its input. A `Gate` has an input matrix, a recurrent matrix and a bias:
`lrpt.cells.gate_spec` returns its specification.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
from jaxtyping import Array, PyTree

from lrpt.errors import UsageError, check_choice
from lrpt.matrices import Operator


@dataclass(frozen=True)
class MatrixSpec:
    """A matrix: its size, and which configuration decides how it is stored.

    Attributes:
      n_in: width of its inputs, or the number of symbols.
      n_out: width of its outputs.
      role: 'recurrent' or 'input', the configuration that it follows.
      group: matrices of one role and group share their projection R if the parametrization is tied.
      fan_in: number of inputs of the linear map that the matrix is a block of, for initializations that depend on it; None if the cell does
        not say.

    Raises:
      UsageError: there is no such role.
    """

    n_in: int
    n_out: int
    role: str
    group: str = ""
    fan_in: int | None = None

    def __post_init__(self) -> None:
        check_choice("the role of a matrix", self.role, ("recurrent", "input"))


@dataclass(frozen=True)
class BiasSpec:
    """A bias: its size, and the constant that it is initialized to. A bias of 0 follows the initialization instead.

    Attributes:
      size: number of its entries.
      initial: the constant.
      fan_in: as in `MatrixSpec`.
    """

    size: int
    initial: float = 0.0
    fan_in: int | None = None


@dataclass(frozen=True)
class OperatorSpec:
    """An operator `kind(array)` that no configuration changes.

    Attributes:
      kind: the operator's class, or another function of its array.
      shape: shape of the array.
      initial: center of the uniform distribution that initializes the array.
      spread: half of the width of that distribution.
    """

    kind: Callable[[Array], Operator]
    shape: tuple[int, ...]
    initial: float = 0.0
    spread: float = 0.0


@dataclass(frozen=True)
class SettingSpec:
    """A non-trainable scalar that a schedule may set. The cell gets a raw array.

    Attributes:
      initial: its value if no schedule sets it.
    """

    initial: float


Spec = MatrixSpec | BiasSpec | OperatorSpec | SettingSpec
Path = tuple[Any, ...]


def role_of(spec: Spec) -> str:
    """Return the collection of parameters that a specification belongs to: 'recurrent', 'input', 'bias', 'operator' or 'setting'.

    Raises:
      UsageError: it is no specification.
    """
    if isinstance(spec, MatrixSpec):
        return spec.role
    roles = {BiasSpec: "bias", OperatorSpec: "operator", SettingSpec: "setting"}
    if type(spec) not in roles:
        raise UsageError(
            f"a template of a cell has the leaf {spec!r}: give a MatrixSpec, BiasSpec, OperatorSpec or SettingSpec for each parameter"
        )
    return roles[type(spec)]


def steps_of(path: Path) -> list[str]:
    """Return the names of the steps of a path in a pytree: field names, indices as digits, and keys of dictionaries."""
    return [str(getattr(key, "name", getattr(key, "idx", getattr(key, "key", key)))) for key in path]


def name_of(path: Path, spec: Spec) -> str:
    """Return the name of a leaf of a template: its path, without a last step that repeats its role ('update' for update.recurrent)."""
    parts = steps_of(path)
    if len(parts) > 1 and parts[-1] == role_of(spec):
        parts.pop()
    return "_".join(parts)


def shared_name(spec: MatrixSpec) -> str:
    """Return the name of the projection R that the matrices of a group share if they are tied."""
    return "_".join(filter(None, ("shared", spec.group)))


def paths_by_name(template: PyTree) -> dict[str, Path]:
    """Return the path in a template for every name under which `Parameters` stores something, shared projections included."""
    found: dict[str, Path] = {}
    for path, spec in jax.tree_util.tree_flatten_with_path(template)[0]:
        found[name_of(path, spec)] = path
        if isinstance(spec, MatrixSpec):
            found.setdefault(shared_name(spec), path)
    return found
