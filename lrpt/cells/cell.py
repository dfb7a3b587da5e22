"""What a cell is: a pure step, the matrices it asks for, and the state it carries.

A step is exactly a `lax.scan` body once its parameters are bound: `step(params, carry, x) -> (carry, (y, info))`. It must be pure, call
matrices only through `apply`, and unroll any inner depth in Python; masks and random keys reach it through its inputs. `info` holds the
gates; under `jit` what nobody reads costs nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from jaxtyping import Array, Float

from lrpt.matrices import BiasSpec, MatrixSpec, Operator, type_of_input


class Gate(NamedTuple):
    """The parameters of one affine function of input and state."""

    input: Operator
    recurrent: Operator
    bias: Operator

    def __call__(self, x: type_of_input, h: Float[Array, "*b n"]) -> Float[Array, "*b o"]:
        """x W + h U + b."""
        return self.input.apply(x) + self.recurrent.apply(h) + self.bias.apply(h)


def gate_spec(input_size: int, size: int, bias: float = 0.0) -> Any:
    """A `Gate` to be filled in: which matrices it asks for, and where its bias starts."""
    return Gate(MatrixSpec(input_size, size, "input"), MatrixSpec(size, size, "recurrent"), BiasSpec(size, bias))  # type: ignore[arg-type]


@dataclass(frozen=True)
class Cell:
    """One row of the table of cells.

    Attributes:
      step: the pure function `(params, carry, x) -> (carry, (y, info))`.
      template: `(input_size, size, carry_bias) -> params` with a `MatrixSpec` or `BiasSpec` where the parameters will stand.
      carry: `size -> carry` with the width of each state vector where that vector will stand.
      output_size: `size -> width of y`.
    """

    step: Callable[..., tuple[Any, tuple[Array, Any]]]
    template: Callable[[int, int, float], Any]
    carry: Callable[[int], Any] = lambda size: size
    output_size: Callable[[int], int] = lambda size: size
