"""What a cell is: a pure step, the matrices it asks for, and the state it carries.

A step is exactly a `lax.scan` body once its parameters are bound: `step(params, carry, x) -> (carry, (y, info))`. It must be pure, call
matrices only through `apply`, and unroll any inner depth in Python; masks and random keys reach it through its inputs. `info` holds the
gates; under `jit` what nobody reads costs nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
from jaxtyping import Array, Float

from lrpt.errors import UsageError
from lrpt.matrices import Operator
from lrpt.specs import BiasSpec, MatrixSpec
from lrpt.symbols import type_of_input


class Gate(NamedTuple):
    """The parameters of one affine function of input and state."""

    input: Operator
    recurrent: Operator
    bias: Operator

    def __call__(self, x: type_of_input, h: Float[Array, "*b n"]) -> Float[Array, "*b o"]:
        """x W + h U + b."""
        return self.input.apply(x) + self.recurrent.apply(h) + self.bias.apply(h)


class StateGate(NamedTuple):
    """The parameters of one affine function of the state alone; it is called as a `Gate` is."""

    recurrent: Operator
    bias: Operator

    def __call__(self, x: type_of_input, h: Float[Array, "*b n"]) -> Float[Array, "*b o"]:
        """h U + b."""
        return self.recurrent.apply(h) + self.bias.apply(h)


@dataclass(frozen=True)
class CellSpec:
    """What a cell's parameters and state are made for.

    Attributes:
      input_size: width m of the inputs, or the number of symbols.
      size: n, width of the state.
      carry_bias: where the bias of the gate that passes the state on starts, as the papers give it.
      depth: transitions inside one step, in cells that have several.
    """

    input_size: int
    size: int
    carry_bias: float = 0.0
    depth: int = 1


def gate_spec(spec: CellSpec, bias: float = 0.0, group: str = "") -> Any:
    """A `Gate` to be filled in: which matrices it asks for, where its bias starts, and with whom it shares R where that is tied."""
    return Gate(MatrixSpec(spec.input_size, spec.size, "input"), *state_gate_spec(spec, bias, group))  # type: ignore[arg-type]


def state_gate_spec(spec: CellSpec, bias: float = 0.0, group: str = "") -> Any:
    """As `gate_spec`, for a `StateGate`."""
    return StateGate(MatrixSpec(spec.size, spec.size, "recurrent", group), BiasSpec(spec.size, bias))  # type: ignore[arg-type]


def in_group(template: Any, group: str) -> Any:
    """A template whose matrices share R, where that is tied, with none outside it: `group` goes before the groups that it has."""

    def inside(spec: Any) -> Any:
        return replace(spec, group="_".join(filter(None, (group, spec.group)))) if isinstance(spec, MatrixSpec) else spec

    return jax.tree.map(inside, template)


def as_wide_as_the_state(spec: CellSpec) -> int:
    """n, for `Cell.input_size`."""
    return spec.size


def check_width(cell: str, spec: CellSpec) -> None:
    """For the templates of cells whose inputs are as wide as the state.

    Raises:
      UsageError: they are not.
    """
    if spec.input_size != spec.size:
        raise UsageError(
            f"{cell} has inputs of width {spec.input_size} and a state of width {spec.size}: embed the inputs in as many dimensions"
        )


@dataclass(frozen=True)
class Stream:
    """What passes from layer to layer of a stack, in cells where that is more than an output.

    Attributes:
      step: `(params, carry, stream) -> (carry, (stream, info))`.
      enter: `x -> stream`, below the first layer.
      leave: `stream -> y`, above the last one.
    """

    step: Callable[..., tuple[Any, tuple[Any, Any]]]
    enter: Callable[[Any], Any]
    leave: Callable[[Any], Array]


class Schedule(NamedTuple):
    """How much of the state a step updates, in cells that decide that; k is the number of layers that do.

    Attributes:
      proportion: m, the share that the scheduler asks for.
      active: the share of components that the step changes, if only by a little.
    """

    proportion: Float[Array, "*b k"]
    active: Float[Array, "*b k"]


@dataclass(frozen=True)
class Cell:
    """One row of the table of cells.

    Attributes:
      step: the pure function `(params, carry, x) -> (carry, (y, info))`.
      template: `spec -> params` with a `MatrixSpec`, `BiasSpec`, `OperatorSpec` or `SettingSpec` where something will stand.
      carry: `spec -> carry` with the width of each state vector where that vector will stand.
      output_size: `spec -> width of y`.
      deep: whether a step has `spec.depth` transitions; in other cells that is 1.
      input_size: `spec -> m`: the width that inputs must have, in cells that act on their components and take no symbols. None: any width.
      stream: what the layers of a stack pass on, where that is not y.
      initial_spread: `spec -> r`: a trainable initial state starts uniformly within +-r.
      penalty: `params -> scalar` that training adds to the loss, where the cell's source has one.
      schedule: `info -> Schedule`, in cells with a scheduler.
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

    @property
    def has_recurrent_matrices(self) -> bool:
        """Whether it asks for matrices that the configuration of the recurrent ones changes."""
        template = self.template(CellSpec(1, 1))
        return any(isinstance(leaf, MatrixSpec) and leaf.role == "recurrent" for leaf in jax.tree.leaves(template))
