"""Structured matrices as pytrees: how a linear map is stored, and nothing about who uses it.

Every map acts on row vectors, `apply(v) = v @ W` with `W = to_dense()` of shape (n_in, n_out); the papers write the transpose, `W v`.
Both low-rank factors are stored as (rank, n), so that reverse mode computes their gradients as small-by-wide products.

A cell may call `apply` and nothing else. The fast loop sees only those calls: if a cell read a factor, its gradient would be lost there.

A new kind of matrix needs `apply` and `to_dense`. These are optional:

- `shape` and `degrees_of_freedom`, as in `Matrix`;
- `gradient`, if the weight gradient of many rows has a faster form than reverse mode (`WithGradient`);
- `work` and `dense_products`, the costs by which `lrpt.recurrence.materialize` decides (`Costed`);
- `apply_by` instead of `apply`, if it is made of other operators (`Composite`), as a sum of two parametrizations is;
- `selects_rows`, if `apply` takes symbols. Otherwise `SymbolInputs` gives it one-hot vectors.

Axis letters: b batch (any number of leading axes), i inputs, o outputs, n square size, d rank.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Complex, Float, Inexact

from lrpt.errors import UsageError
from lrpt.symbols import as_vectors, input_for, is_symbols, select, type_of_input

# The axis of a stored factor along which the entries of one row of the paper's matrix lie (its W v orientation). Weight normalization and
# the max-norm constraint act on such rows. They leave factors alone that are not listed (diagonals, biases).
ROW_AXIS = {"kernel": 0, "left": 0, "right": 1}


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


@runtime_checkable
class Costed(Protocol):
    """A matrix that knows its costs, by which loops decide whether to multiply it out. Any matrix with these methods is one."""

    @property
    def shape(self) -> tuple[int, int]:
        """(n_in, n_out)."""
        ...

    @property
    def dense_products(self) -> int:
        """Multiplications inside the matrix products of `to_dense`."""
        ...

    def work(self, share: Any = 1) -> Work:
        """Return the work for one row if only the leading `share` of rows and columns is used."""
        ...

    def to_dense(self) -> Float[Array, "i o"]:
        """Return W."""
        ...


def _apply(operator: Operator, v: Any) -> Any:
    return operator.apply(input_for(operator, v))


class Composite(ABC):
    """An operator made of others. The fast loop intercepts the parts, and computes products once that several operators have in common.

    Every part that is called must hold arrays of this operator as they are stored.
    """

    selects_rows: ClassVar[bool] = False
    """Whether `apply_by` takes symbols. `call` turns them into vectors for parts that need vectors."""

    @abstractmethod
    def apply_by(self, call: Call, v: Any) -> Any:
        """Return `apply(v)`, with every part P applied to its input u by `call(P, u)`."""

    def apply(self, v: Any) -> Float[Array, "*b o"]:
        return self.apply_by(_apply, v)

    def apply_between(self, between: Callable[[Array], Array], v: Any) -> Float[Array, "*b o"]:
        """Return `apply(v)`, with `between` applied to what one factor of a product passes to the next (dropout, normalization)."""
        return self.apply(v)


class Matrix(Operator, Protocol):
    """An operator that is a matrix."""

    @property
    def shape(self) -> tuple[int, int]:
        """(n_in, n_out)."""
        ...

    @property
    def degrees_of_freedom(self) -> int:
        """Dimension of the set of matrices that can be stored so."""
        ...

    def to_dense(self) -> Float[Array, "i o"]:
        """Return W."""
        ...


def num_params(matrix: object) -> int:
    """Return the number of scalars stored in a matrix, an operator, or any pytree of them."""
    return sum(leaf.size for leaf in jax.tree.leaves(matrix))


def _product(v: type_of_input, kernel: Float[Array, "i o"]) -> Float[Array, "*b o"]:
    """Return v @ kernel. Symbols select rows; one or two inputs need no matrix product."""
    if is_symbols(v):
        return select(kernel, v)  # type: ignore[arg-type]
    if kernel.shape[0] > 2:
        return v @ kernel  # type: ignore[operator]
    rows = kernel.reshape((kernel.shape[0],) + (1,) * (v.ndim - 1) + (kernel.shape[1],))  # type: ignore[union-attr]
    product = v[..., :1] * rows[0]  # type: ignore[call-overload]
    return product if kernel.shape[0] == 1 else product + v[..., 1:] * rows[1]  # type: ignore[call-overload]


def _over_rows(u: Inexact[Array, "*b i"], v: Inexact[Array, "*b o"]) -> Inexact[Array, "i o"]:
    """Return u^T v over all rows of a batch.

    Reverse mode computes v^T u and transposes it, which takes CPUs up to four times as long.
    """
    if u.shape[-1] > v.shape[-1]:
        return _over_rows(v, u).T
    batch = tuple(range(u.ndim - 1))
    return jax.lax.dot_general(u, v, ((batch, batch), ((), ())))


def _sum_of_rows(v: Inexact[Array, "*b n"]) -> Inexact[Array, " n"]:
    """Sum rows by a product with ones, which CPUs do several times faster than a sum down the columns."""
    batch = tuple(range(v.ndim - 1))
    ones = jnp.ones((*v.shape[:-1], 1), v.dtype)
    return jax.lax.dot_general(ones, v, ((batch, batch), ((), ())), precision=jax.lax.Precision.HIGHEST)[0]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Dense:
    """A full matrix W = kernel."""

    selects_rows: ClassVar[bool] = True
    kernel: Float[Array, "i o"]

    @property
    def shape(self) -> tuple[int, int]:
        return self.kernel.shape[0], self.kernel.shape[1]

    @property
    def degrees_of_freedom(self) -> int:
        """n_in n_out."""
        return self.kernel.size

    @property
    def dense_products(self) -> int:
        return 0

    def work(self, share: Any = 1) -> Work:
        return Work(self.kernel.shape[0] * self.kernel.shape[1] * share**2)

    def apply(self, v: type_of_input) -> Float[Array, "*b o"]:
        return _product(v, self.kernel)

    def gradient(self, v: type_of_input, cotangent: Float[Array, "*b o"]) -> "Dense":
        return Dense(_over_rows(as_vectors(v, self.shape[0], self.kernel.dtype), cotangent))

    def to_dense(self) -> Float[Array, "i o"]:
        return self.kernel


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Projection:
    """A full matrix stored as its transpose, W = transpose^T: the factor R of a low-rank matrix."""

    selects_rows: ClassVar[bool] = True
    transpose: Float[Array, "o i"]

    def apply(self, v: type_of_input) -> Float[Array, "*b o"]:
        return _product(v, self.transpose.T)

    def gradient(self, v: type_of_input, cotangent: Float[Array, "*b o"]) -> "Projection":
        return Projection(_over_rows(cotangent, as_vectors(v, self.transpose.shape[1], self.transpose.dtype)))


def stored_both_ways(operator: Operator) -> tuple[Float[Array, "i o"], Float[Array, "o i"]] | tuple[None, None]:
    """Return (W, W^T) of a full matrix, and (None, None) of other operators and of matrices so thin that they need no matrix product."""
    match operator:
        case Dense(kernel) if kernel.shape[0] > 2:
            return kernel, kernel.T
        case Projection(transpose) if transpose.shape[1] > 2:
            return transpose.T, transpose
    return None, None


def beside(projections: Sequence[Projection]) -> Projection:
    """Return one projection whose outputs are those of several, side by side."""
    return Projection(jnp.concatenate([projection.transpose for projection in projections]))


def apart(whole: Projection, widths: Sequence[int]) -> list[Projection]:
    """Split a projection into several of the given widths of output: the inverse of `beside`."""
    return [Projection(rows) for rows in jnp.split(whole.transpose, np.cumsum(widths)[:-1])]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Diagonal:
    """A diagonal matrix W = diag(diagonal)."""

    diagonal: Float[Array, " n"]

    @property
    def shape(self) -> tuple[int, int]:
        return self.diagonal.size, self.diagonal.size

    @property
    def degrees_of_freedom(self) -> int:
        """n."""
        return self.diagonal.size

    @property
    def dense_products(self) -> int:
        return 0

    def work(self, share: Any = 1) -> Work:
        return Work(0, self.diagonal.size * share)

    def apply(self, v: Inexact[Array, "*b n"]) -> Inexact[Array, "*b n"]:
        return v * _row(self.diagonal, v)

    def gradient(self, v: Float[Array, "*b n"], cotangent: Float[Array, "*b n"]) -> "Diagonal":
        return Diagonal(_sum_of_rows(v * cotangent))

    def to_dense(self) -> Float[Array, "n n"]:
        return jnp.diag(self.diagonal)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class LowRank(Composite):
    r"""A matrix of rank at most d: \theta^U = \theta^L \theta^R (Miceli Barone 2018, eq. 3).

    Stored as left = L^T (d, n_out) and right = R (d, n_in).
    """

    selects_rows: ClassVar[bool] = True
    left: Float[Array, "d o"]
    right: Float[Array, "d i"]

    @property
    def shape(self) -> tuple[int, int]:
        return self.right.shape[1], self.left.shape[1]

    @property
    def degrees_of_freedom(self) -> int:
        """d (n_in + n_out) - d^2, for a square matrix 2nd - d^2: L and R are unique up to an invertible d x d matrix (section 2.2)."""
        rank = self.left.shape[0]
        return rank * (sum(self.shape) - rank)

    @property
    def dense_products(self) -> int:
        return self.shape[0] * self.shape[1] * self.left.shape[0]

    def work(self, share: Any = 1) -> Work:
        return Work(self.left.shape[0] * sum(self.shape) * share)

    def apply_by(self, call: Call, v: type_of_input) -> Float[Array, "*b o"]:
        return call(Dense(self.left), call(Projection(self.right), v))

    def apply_between(self, between: Callable[[Array], Array], v: type_of_input) -> Float[Array, "*b o"]:
        return Dense(self.left).apply(between(Projection(self.right).apply(v)))

    def to_dense(self) -> Float[Array, "i o"]:
        return self.right.T @ self.left


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class LowRankPlusDiagonal(Composite):
    r"""A sum \theta^U = \theta^L \theta^R + \theta^D (Miceli Barone 2018, eq. 4): square, of full rank, and still of O(nd) parameters."""

    selects_rows: ClassVar[bool] = True
    left: Float[Array, "d n"]
    right: Float[Array, "d n"]
    diagonal: Float[Array, " n"]

    @property
    def terms(self) -> tuple[LowRank, Diagonal]:
        """Return the two matrices whose sum this is."""
        return LowRank(self.left, self.right), Diagonal(self.diagonal)

    @property
    def shape(self) -> tuple[int, int]:
        return self.right.shape[1], self.left.shape[1]

    @property
    def degrees_of_freedom(self) -> int:
        """2nd - d^2 + n, and never more than the n^2 of a full matrix."""
        return min(sum(term.degrees_of_freedom for term in self.terms), self.diagonal.size**2)

    @property
    def dense_products(self) -> int:
        return sum(term.dense_products for term in self.terms)

    def work(self, share: Any = 1) -> Work:
        return Work(*(sum(costs) for costs in zip(*(term.work(share) for term in self.terms), strict=True)))

    def apply_by(self, call: Call, v: Any) -> Float[Array, "*b n"]:
        low_rank, diagonal = self.terms
        return call(low_rank, v) + call(diagonal, v)

    def apply_between(self, between: Callable[[Array], Array], v: Float[Array, "*b n"]) -> Float[Array, "*b n"]:
        low_rank, diagonal = self.terms
        return low_rank.apply_between(between, v) + diagonal.apply(v)

    def to_dense(self) -> Float[Array, "n n"]:
        return self.right.T @ self.left + jnp.diag(self.diagonal)


def plus_diagonal(operator: Operator) -> LowRankPlusDiagonal | None:
    """Return a low-rank matrix with its diagonal, or a diagonal of zeros; None for other operators."""
    match operator:
        case LowRank(left, right):
            return LowRankPlusDiagonal(left, right, jnp.zeros(operator.shape[0], left.dtype))
        case LowRankPlusDiagonal():
            return operator
    return None


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class SymbolInputs(Composite):
    """A matrix that knows vectors only, and gets symbols as one-hot vectors.

    `Parameters` wraps the input matrices of a cell in this unless they select rows.
    """

    selects_rows: ClassVar[bool] = True
    matrix: Any
    n_in: int = field(metadata={"static": True})

    def __getattr__(self, name: str) -> Any:
        """Return what the matrix knows about itself: `shape`, `work`, `dense_products`, `degrees_of_freedom`."""
        if name.startswith("__") or name == "matrix":
            raise AttributeError(name)
        return getattr(self.matrix, name)

    def apply_by(self, call: Call, v: type_of_input) -> Float[Array, "*b o"]:
        types = [leaf.dtype for leaf in jax.tree.leaves(self.matrix) if jnp.issubdtype(leaf.dtype, jnp.inexact)]
        return call(self.matrix, as_vectors(v, self.n_in, jnp.result_type(*types) if types else float))

    def to_dense(self) -> Float[Array, "i o"]:
        return self.matrix.to_dense()


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Bias:
    """The constant map v -> bias. Only the batch shape of its input is used."""

    bias: Float[Array, " o"]

    def work(self, share: Any = 1) -> Work:
        return Work(0)

    def apply(self, v: Float[Array, "*b i"]) -> Float[Array, "*b o"]:
        return jnp.broadcast_to(self.bias, v.shape[:-1] + self.bias.shape)

    def gradient(self, v: Float[Array, "*b i"], cotangent: Float[Array, "*b o"]) -> "Bias":
        return Bias(_sum_of_rows(cotangent))


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Rotation:
    r"""A diagonal unitary matrix W = diag(e^{i \theta}), for complex vectors."""

    angles: Float[Array, " n"]

    def apply(self, v: Complex[Array, "*b n"]) -> Complex[Array, "*b n"]:
        return v * _row(jax.lax.complex(jnp.cos(self.angles), jnp.sin(self.angles)), v)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Reflection:
    r"""A unitary matrix :math:`W = I - 2 u u^* / \|u\|^2` for complex row vectors, u a column (Householder): v u becomes -v u.

    Acting on columns as the papers write it, it reflects in the conjugate of u. Stored as the real parts of u, then the imaginary ones.
    """

    vector: Float[Array, " n2"]

    def apply(self, v: Complex[Array, "*b n"]) -> Complex[Array, "*b n"]:
        n = self.vector.size // 2
        u = jax.lax.complex(self.vector[:n], self.vector[n:])
        along = (v @ u) * (2 / jnp.sum(jnp.square(self.vector)))
        return v - along[..., None] * _row(jnp.conj(u), v)


def _row(u: Array, v: Array) -> Array:
    """Return u with leading axes of length one, as many as v has."""
    return u.reshape((1,) * (v.ndim - 1) + u.shape)


WIDE_AXES = {"kernel": (0, 1), "left": (1,), "right": (1,), "diagonal": (0,), "bias": (0,)}
"""The axes of each stored array that are as long as the matrix is wide."""


def field_of(path: tuple[Any, ...]) -> str:
    """Return the name of the field at the end of a path in an operator, '' if there is none."""
    return str(getattr(path[-1], "name", "")) if path else ""


def leading_block(operator: Operator, size: int) -> Operator:
    """Return the upper left block of a square matrix, stored as the matrix is, or the first components of a bias.

    Args:
      operator: an operator all of whose arrays stand in `WIDE_AXES`, such as `Dense`, `Diagonal`, `LowRank`, `LowRankPlusDiagonal` and
        `Bias`, or a sum of them.
      size: rows and columns of the block.

    Raises:
      UsageError: an operator of another kind.
    """
    stored = {field_of(path) for path, _ in jax.tree_util.tree_leaves_with_path(operator)}
    if not stored <= WIDE_AXES.keys():
        raise UsageError(f"a {type(operator).__name__} matrix has no leading block: its arrays {sorted(stored)} are not all in WIDE_AXES")

    def cut(path: tuple[Any, ...], array: Array) -> Array:
        wide = WIDE_AXES[field_of(path)]
        return array[tuple(slice(size) if axis in wide else slice(None) for axis in range(array.ndim))]

    return jax.tree_util.tree_map_with_path(cut, operator)
