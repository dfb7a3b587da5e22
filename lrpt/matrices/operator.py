"""Interfaces of operators and matrices: what a cell, a loop and a count may ask of them."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import jax
from jaxtyping import Array, Float

from lrpt.symbols import input_for


class Operator(Protocol):
    """A map from a batch of row vectors to a batch of row vectors: all that a cell may use."""

    def apply(self, v: Any) -> Float[Array, "*b o"]:
        """Return v W for every row v. Integers stand for one-hot rows, `lrpt.symbols.Weighted` symbols for multiples of them."""
        ...


def is_operator(node: Any) -> bool:
    """Return whether a node of a parameter tree is an operator; everything else is a raw array."""
    return callable(getattr(node, "apply", None))


class Call(Protocol):
    """A way to apply an operator: its own `apply`, or an interception of it."""

    def __call__(self, operator: Operator, v: Any) -> Any: ...


@runtime_checkable
class WithGradient(Operator, Protocol):
    """An operator with its own batched weight gradient. The fast loop uses reverse mode for all others."""

    def gradient(self, v: Any, cotangent: Float[Array, "*b o"]) -> Any:
        """Return the operator whose arrays are the derivatives of sum(cotangent * apply(v)), for any v that `apply` takes."""
        ...


class Work(NamedTuple):
    """Multiplications that `apply` takes for one row: inside matrix products, and elementwise."""

    products: Any
    elementwise: Any = 0


def _apply(operator: Operator, v: Any) -> Any:
    return operator.apply(input_for(operator, v))


class Composite(ABC):
    """An operator made of others. The fast loop intercepts the parts, and computes products once that several operators have in common.

    Every part that is called must hold arrays of this operator as they are stored. Arrays have a gradient through parts only: the fast loop
    refuses an operator that uses one otherwise, unless its gradient is stopped (`lax.stop_gradient`).
    """

    selects_rows: ClassVar[bool] = False
    """Whether `apply_by` takes symbols. `call` turns them into vectors for parts that need vectors."""

    @abstractmethod
    def apply_by(self, call: Call, v: Any) -> Any:
        """Return `apply(v)`, with every part P applied to its input u by `call(P, u)`."""

    def apply(self, v: Any) -> Float[Array, "*b o"]:
        return self.apply_by(_apply, v)

    def apply_between(self, between: Callable[[Array], Array], v: Any) -> Float[Array, "*b o"]:
        """Return `apply(v)`, with `between` applied to what one factor of a product passes to the next (dropout, normalization).

        Operators that are no product of factors have nothing to apply it to. Override this for a product.
        """
        return self.apply(v)


class Matrix(Operator, Protocol):
    """An operator that is a matrix."""

    @property
    def shape(self) -> tuple[int, int]:
        """(n_in, n_out)."""
        ...

    @property
    def degrees_of_freedom(self) -> int:
        """Return the dimension of the set of matrices that can be stored in this form."""
        ...

    def to_dense(self) -> Float[Array, "i o"]:
        """Return W."""
        ...


def num_params(matrix: object) -> int:
    """Return the number of scalars stored in a matrix, an operator, or any pytree of them."""
    return sum(leaf.size for leaf in jax.tree.leaves(matrix))
