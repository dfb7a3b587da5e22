"""Cells: a pure step, a template of the parameters that it asks for, and the state that it carries.

A step with bound parameters is a `lax.scan` body: `step(params, carry, x) -> (carry, (y, info))`. It must be pure, use matrices only
through `apply`, and unroll any inner depth in Python. Masks and random keys reach it through its inputs. `info` holds the gates. Under
`jit`, gates that nobody reads cost nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import Array, Float, PyTree

from lrpt.errors import UsageError
from lrpt.matrices import Operator
from lrpt.specs import BiasSpec, MatrixSpec
from lrpt.symbols import type_of_input


class Gate(NamedTuple):
    """Parameters of the affine map x W + h U + b.

    Call it as `gate(x, h)`: x is (batch, m) floats, or (batch,) integers that stand for one-hot vectors; h is (batch, n).
    """

    input: Operator
    recurrent: Operator
    bias: Operator

    def __call__(self, x: type_of_input, h: Float[Array, "*b n"]) -> Float[Array, "*b o"]:
        """Return x W + h U + b."""
        return self.input.apply(x) + self.recurrent.apply(h) + self.bias.apply(h)


class StateGate(NamedTuple):
    """Parameters of one affine function of the state alone. It is called in the same way as a `Gate`."""

    recurrent: Operator
    bias: Operator

    def __call__(self, x: type_of_input, h: Float[Array, "*b n"]) -> Float[Array, "*b o"]:
        """Return h U + b."""
        return self.recurrent.apply(h) + self.bias.apply(h)


@dataclass(frozen=True)
class CellSpec:
    """Sizes of a cell, and the initial value of its carry bias.

    Attributes:
      input_size: width m of the inputs, or the number of symbols.
      size: n, width of the state.
      carry_bias: initial value of the bias of the gate that passes the state on, in the sign of the papers.
      depth: transitions inside one step, for cells that can have several.
    """

    input_size: int
    size: int
    carry_bias: float = 0.0
    depth: int = 1


def gate_spec(spec: CellSpec, bias: float = 0.0, group: str = "", fan_in: int | None = None) -> PyTree:
    """Return the specification of a `Gate`.

    Args:
      spec: sizes.
      bias: initial value of its bias.
      group: if matrices are tied, the recurrent matrices of one group share R.
      fan_in: number of inputs of the whole linear map, as in `MatrixSpec`.
    """
    inputs = MatrixSpec(spec.input_size, spec.size, "input", fan_in=fan_in)
    return Gate(inputs, *state_gate_spec(spec, bias, group, fan_in))  # type: ignore[arg-type]


def state_gate_spec(spec: CellSpec, bias: float = 0.0, group: str = "", fan_in: int | None = None) -> PyTree:
    """Return the specification of a `StateGate`; arguments as for `gate_spec`."""
    matrix = MatrixSpec(spec.size, spec.size, "recurrent", group, fan_in)
    return StateGate(matrix, BiasSpec(spec.size, bias, fan_in))  # type: ignore[arg-type]


def in_group(template: PyTree, group: str) -> PyTree:
    """Prefix the groups of a template's matrices with `group`, so that tied matrices share R only with each other."""

    def inside(spec: Any) -> Any:
        return replace(spec, group="_".join(filter(None, (group, spec.group)))) if isinstance(spec, MatrixSpec) else spec

    return jax.tree.map(inside, template)


def as_wide_as_the_state(spec: CellSpec) -> int:
    """Return n. Use it as `Cell.input_size` for cells whose inputs must be as wide as the state."""
    return spec.size


def check_width(cell: str, spec: CellSpec) -> None:
    """Check that inputs are as wide as the state.

    Raises:
      UsageError: they are not.
    """
    if spec.input_size != spec.size:
        raise UsageError(
            f"{cell} has inputs of width {spec.input_size} and a state of width {spec.size}: embed the inputs in as many dimensions"
        )


ANY = 64 * 5040
"""The size with which a template is called to find what does not depend on sizes. All numbers to 10, and powers of two to 1,024, divide it,
because a template may divide the state into parts."""


@dataclass(frozen=True)
class Stream:
    """A stream between the layers of a stack, for cells that pass on more than an output.

    Attributes:
      step: `(params, carry, stream) -> (carry, (stream, info))`.
      enter: `x -> stream`, the stream into the first layer.
      leave: `stream -> y`, the output of the last layer.
    """

    step: Callable[..., tuple[Any, tuple[Any, Any]]]
    enter: Callable[[Any], Any]
    leave: Callable[[Any], Array]


class Schedule(NamedTuple):
    """Shares of the state that a step updates, for cells with a scheduler; k is the number of layers with one.

    Attributes:
      proportion: m, the share that the scheduler asks for.
      active: the share of components whose mask is above zero.
    """

    proportion: Float[Array, "*b k"]
    active: Float[Array, "*b k"]


@dataclass(frozen=True)
class Cell:
    """A cell, as an entry of the table of cells.

    Attributes:
      step: the pure function `(params, carry, x) -> (carry, (y, info))`.
      template: `spec -> params` with a specification (`lrpt.specs`) for each leaf.
      carry: `spec -> carry` with the width of each state vector as a leaf.
      output_size: `spec -> width of y`.
      deep: whether a step has `spec.depth` transitions; for other cells the depth is 1.
      input_size: `spec -> m`, the width that inputs must have if the cell acts on their components and takes no symbols. None: any width.
      stream: what the layers of a stack pass on, if that is not y.
      initial_spread: `spec -> r`, range +-r of the uniform distribution that initializes a trainable initial state.
      penalty: `params -> scalar` that training adds to the loss, if the source of the cell has one.
      schedule: `info -> Schedule`, for cells with a scheduler.
    """

    step: Callable[..., tuple[Any, tuple[Array, Any]]]
    template: Callable[[CellSpec], Any]
    carry: Callable[[CellSpec], Any] = lambda spec: spec.size
    output_size: Callable[[CellSpec], int] = lambda spec: spec.size
    deep: bool = False
    input_size: Callable[[CellSpec], int] | None = None
    stream: Stream | None = None
    initial_spread: Callable[[CellSpec], float] = lambda spec: 0.0
    penalty: Callable[[Any], Array] | None = None
    schedule: Callable[[Any], Schedule] | None = None

    def __post_init__(self) -> None:
        if not callable(self.step):
            raise UsageError(
                f"the step of a cell is {self.step!r}: give a function (params, carry, x) -> (carry, (y, info)); cells of this library are "
                f"in lrpt.CELLS, and layers for Flax in lrpt.interop"
            )

    def zero_carry(self, spec: CellSpec, batch: tuple[Any, ...] = (), dtype: DTypeLike = float) -> Any:
        """Return a state of zeros, each leaf (*batch, width), as `lrpt.recur` takes it before the first step. Sizes may be symbolic.

        By default zeros have the default precision of JAX, as drawn parameters do.
        """
        return jax.tree.map(lambda width: jnp.zeros((*batch, width), dtype), self.carry(spec))

    @property
    def roles(self) -> set[str]:
        """Return the roles of the matrices whose storage is configured: 'input', 'recurrent', both, or none."""
        return {leaf.role for leaf in jax.tree.leaves(self.template(CellSpec(ANY, ANY))) if isinstance(leaf, MatrixSpec)}

    @property
    def has_recurrent_matrices(self) -> bool:
        """Return whether the cell asks for matrices of the role 'recurrent'."""
        return "recurrent" in self.roles

    @property
    def has_carry_bias(self) -> bool:
        """Return whether a bias starts at `CellSpec.carry_bias`."""
        return self.template(CellSpec(ANY, ANY, carry_bias=0.0)) != self.template(CellSpec(ANY, ANY, carry_bias=1.0))
