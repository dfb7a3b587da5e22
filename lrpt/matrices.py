"""Structured matrices as pytrees: how a linear map is stored, and nothing about who uses it.

Every map acts on row vectors, `apply(v) = v @ W` with `W = to_dense()` of shape (n_in, n_out); the papers write the transpose, `W v`.
Both factors of a low-rank matrix are stored as (rank, n), so that reverse mode yields their gradients as (small)^T (wide) products.

A cell may call `apply` and nothing else. A loop that defers weight gradients sees only those calls: a factor that is read directly would
lose its gradient there.

Axis letters: b batch (any number of leading axes), i inputs, o outputs, n square size, d rank.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Complex, Float, Inexact, Int

from lrpt.errors import UsageError

# Along which axis of a stored factor the entries of one row of the paper's matrix lie (its W v orientation). Weight normalization and the
# max-norm constraint act on such rows; factors that are not listed (diagonals, biases) are left alone.
ROW_AXIS = {"kernel": 0, "left": 0, "right": 1}


class Weighted(NamedTuple):
    """Symbols, and what the one-hot vectors that they stand for are multiplied by."""

    symbols: Int[Array, "*b"]
    weight: Float[Array, "*b"]


type_of_input = Float[Array, "*b i"] | Int[Array, "*b"] | Weighted


class Operator(Protocol):
    """What a cell may use: a map from a batch of row vectors to a batch of row vectors."""

    def apply(self, v: Any) -> Float[Array, "*b o"]:
        """v W for every row v; integers stand for one-hot rows, `Weighted` ones for multiples of them."""
        ...


def is_operator(node: Any) -> bool:
    """Whether a node of a parameter tree is used by `apply`; everything else is a raw array."""
    return callable(getattr(node, "apply", None))


class Call(Protocol):
    """How an operator is applied to a vector: by its own `apply`, or in a way that watches it."""

    def __call__(self, operator: Operator, v: Any) -> Any: ...


@runtime_checkable
class WithGradient(Operator, Protocol):
    """An operator that says how its gradient is had from many rows at once. Otherwise a loop that defers it asks reverse mode."""

    def gradient(self, v: Any, cotangent: Float[Array, "*b o"]) -> Any:
        """The operator whose arrays are the derivatives of sum(cotangent * apply(v)), v being anything that `apply` takes."""
        ...


def _by_itself(operator: Operator, v: Any) -> Any:
    return operator.apply(v)


class Composite(ABC):
    """An operator made of others. A loop that defers weight gradients watches the parts, and computes once what several operators share.

    Every part that is called must hold arrays of this operator as they are stored.
    """

    @abstractmethod
    def apply_by(self, call: Call, v: Any) -> Any:
        """`apply(v)`, each part P applied to its input u by `call(P, u)`."""

    def apply(self, v: Any) -> Float[Array, "*b o"]:
        return self.apply_by(_by_itself, v)


class Matrix(Operator, Protocol):
    """An operator that is a matrix, and can say which one."""

    @property
    def shape(self) -> tuple[int, int]:
        """(n_in, n_out)."""
        ...

    @property
    def degrees_of_freedom(self) -> int:
        """Dimension of the set of matrices that can be stored so."""
        ...

    def to_dense(self) -> Float[Array, "i o"]:
        """W itself."""
        ...


@dataclass(frozen=True)
class MatrixSpec:
    """A matrix that a cell asks for: its size, and which configuration decides how it is stored (`role`: 'recurrent' or 'input').

    Matrices of one role and `group` share their projection R when the parametrization is tied.
    """

    n_in: int
    n_out: int
    role: str
    group: str = ""


@dataclass(frozen=True)
class BiasSpec:
    """A bias that a cell asks for: its size and the constant it starts from."""

    size: int
    initial: float = 0.0


@dataclass(frozen=True)
class OperatorSpec:
    """Any other operator that a cell asks for, `kind(array)`, which no configuration changes.

    The entries of its array start uniformly within `spread` of `initial`.
    """

    kind: Callable[[Array], Operator]
    shape: tuple[int, ...]
    initial: float = 0.0
    spread: float = 0.0


@dataclass(frozen=True)
class SettingSpec:
    """A scalar that a cell asks for and that no gradient moves: a schedule may. The cell gets a raw array."""

    initial: float

    @property
    def shape(self) -> tuple[int, ...]:
        """()."""
        return ()


def num_params(matrix: object) -> int:
    """The number of scalars stored in a matrix, an operator, or any pytree of them."""
    return sum(leaf.size for leaf in jax.tree.leaves(matrix))


@jax.custom_jvp
def _rows(kernel: Float[Array, "i o"], v: Int[Array, "*b"]) -> Float[Array, "*b o"]:
    """The rows of `kernel` at v: its product with one-hot vectors. So is the derivative, whose transpose is a product and no scatter."""
    return kernel[v]


@_rows.defjvp
def _rows_jvp(primals: tuple[Array, Array], tangents: tuple[Array, Any]) -> tuple[Array, Array]:
    (kernel, v), (d_kernel, _) = primals, tangents
    return _rows(kernel, v), _vectors(v, kernel) @ d_kernel


def _vectors(v: type_of_input, kernel: Float[Array, "i o"]) -> Float[Array, "*b i"]:
    """The row vectors that integers and `Weighted` stand for."""
    if isinstance(v, Weighted):
        return v.weight[..., None] * jax.nn.one_hot(v.symbols, kernel.shape[0], dtype=kernel.dtype)
    return jax.nn.one_hot(v, kernel.shape[0], dtype=kernel.dtype) if jnp.issubdtype(v.dtype, jnp.integer) else v


def _project(v: type_of_input, kernel: Float[Array, "i o"]) -> Float[Array, "*b o"]:
    """v @ kernel. Integer inputs select rows; one or two inputs need no matrix product."""
    if isinstance(v, Weighted):
        return v.weight[..., None] * _rows(kernel, v.symbols)
    if jnp.issubdtype(v.dtype, jnp.integer):
        return _rows(kernel, v)
    if kernel.shape[0] > 2:
        return v @ kernel
    rows = kernel.reshape((kernel.shape[0],) + (1,) * (v.ndim - 1) + (kernel.shape[1],))
    product = v[..., :1] * rows[0]
    return product if kernel.shape[0] == 1 else product + v[..., 1:] * rows[1]


def _over_rows(u: Inexact[Array, "*b i"], v: Inexact[Array, "*b o"]) -> Inexact[Array, "i o"]:
    """u^T v, all rows of a batch at once. Reverse mode forms v^T u and turns that around, which takes CPUs up to four times as long."""
    if u.shape[-1] > v.shape[-1]:
        return _over_rows(v, u).T
    batch = tuple(range(u.ndim - 1))
    return jax.lax.dot_general(u, v, ((batch, batch), ((), ())))


def _sum_of_rows(v: Inexact[Array, "*b n"]) -> Inexact[Array, " n"]:
    """As a product with ones, which CPUs do several times faster than a sum down the columns."""
    batch = tuple(range(v.ndim - 1))
    ones = jnp.ones((*v.shape[:-1], 1), v.dtype)
    return jax.lax.dot_general(ones, v, ((batch, batch), ((), ())), precision=jax.lax.Precision.HIGHEST)[0]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Dense:
    """A full matrix W = kernel."""

    kernel: Float[Array, "i o"]

    @property
    def shape(self) -> tuple[int, int]:
        return self.kernel.shape[0], self.kernel.shape[1]

    @property
    def degrees_of_freedom(self) -> int:
        """n_in n_out."""
        return self.kernel.size

    def apply(self, v: type_of_input) -> Float[Array, "*b o"]:
        return _project(v, self.kernel)

    def gradient(self, v: type_of_input, cotangent: Float[Array, "*b o"]) -> "Dense":
        return Dense(_over_rows(_vectors(v, self.kernel), cotangent))

    def to_dense(self) -> Float[Array, "i o"]:
        return self.kernel


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Projection:
    """A full matrix that is stored as its transpose, W = transpose^T."""

    transpose: Float[Array, "o i"]

    def apply(self, v: type_of_input) -> Float[Array, "*b o"]:
        return _project(v, self.transpose.T)

    def gradient(self, v: type_of_input, cotangent: Float[Array, "*b o"]) -> "Projection":
        return Projection(_over_rows(cotangent, _vectors(v, self.transpose.T)))


def stored_both_ways(operator: Operator) -> tuple[Float[Array, "i o"], Float[Array, "o i"]] | tuple[None, None]:
    """(W, W^T) of a full matrix, unless it is so thin that no matrix product is needed; (None, None) of any other operator."""
    match operator:
        case Dense(kernel) if kernel.shape[0] > 2:
            return kernel, kernel.T
        case Projection(transpose) if transpose.shape[1] > 2:
            return transpose.T, transpose
    return None, None


def beside(projections: Sequence[Projection]) -> Projection:
    """One projection whose outputs are those of several, side by side."""
    return Projection(jnp.concatenate([projection.transpose for projection in projections]))


def apart(whole: Projection, widths: Sequence[int]) -> list[Projection]:
    """The inverse of `beside`, of projections with so many outputs."""
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

    def apply_by(self, call: Call, v: type_of_input) -> Float[Array, "*b o"]:
        return call(Dense(self.left), call(Projection(self.right), v))

    def to_dense(self) -> Float[Array, "i o"]:
        return self.right.T @ self.left


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class LowRankPlusDiagonal(Composite):
    r"""\theta^U = \theta^L \theta^R + \theta^D (Miceli Barone 2018, eq. 4): square, of full rank, and still of O(nd) parameters."""

    left: Float[Array, "d n"]
    right: Float[Array, "d n"]
    diagonal: Float[Array, " n"]

    @property
    def shape(self) -> tuple[int, int]:
        return self.right.shape[1], self.left.shape[1]

    @property
    def degrees_of_freedom(self) -> int:
        """2nd - d^2 + n, and never more than the n^2 of a full matrix."""
        return min(LowRank(self.left, self.right).degrees_of_freedom + self.diagonal.size, self.diagonal.size**2)

    def apply_by(self, call: Call, v: Float[Array, "*b n"]) -> Float[Array, "*b n"]:
        return call(LowRank(self.left, self.right), v) + call(Diagonal(self.diagonal), v)

    def to_dense(self) -> Float[Array, "n n"]:
        return self.right.T @ self.left + jnp.diag(self.diagonal)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Bias:
    """The constant map v -> bias. Of its input only the batch shape is used."""

    bias: Float[Array, " o"]

    def apply(self, v: Float[Array, "*b i"]) -> Float[Array, "*b o"]:
        return jnp.broadcast_to(self.bias, v.shape[:-1] + self.bias.shape)

    def gradient(self, v: Float[Array, "*b i"], cotangent: Float[Array, "*b o"]) -> "Bias":
        return Bias(_sum_of_rows(cotangent))


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Rotation:
    r"""The diagonal unitary matrix W = diag(e^{i \theta}), for complex vectors."""

    angles: Float[Array, " n"]

    def apply(self, v: Complex[Array, "*b n"]) -> Complex[Array, "*b n"]:
        return v * _row(jax.lax.complex(jnp.cos(self.angles), jnp.sin(self.angles)), v)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Reflection:
    r"""The unitary matrix :math:`W = I - 2 u u^* / \|u\|^2` for complex row vectors, u a column (Householder): v u becomes -v u.

    Acting on columns as the papers write it, it reflects in the conjugate of u. Stored as the real parts of u, then the imaginary ones.
    """

    vector: Float[Array, " n2"]

    def apply(self, v: Complex[Array, "*b n"]) -> Complex[Array, "*b n"]:
        n = self.vector.size // 2
        u = jax.lax.complex(self.vector[:n], self.vector[n:])
        along = (v @ u) * (2 / jnp.sum(jnp.square(self.vector)))
        return v - along[..., None] * _row(jnp.conj(u), v)


def _row(u: Array, v: Array) -> Array:
    """u with as many leading axes of length one as it takes to act on v."""
    return u.reshape((1,) * (v.ndim - 1) + u.shape)


WIDE_AXES = {"kernel": (0, 1), "left": (1,), "right": (1,), "diagonal": (0,), "bias": (0,)}
"""The axes of each stored array that are as long as the matrix is wide."""


def leading_block(operator: Operator, size: int) -> Operator:
    """The upper left block of a square matrix, stored as the matrix is, or the first components of a bias.

    Args:
      operator: a `Dense`, `Diagonal`, `LowRank`, `LowRankPlusDiagonal` or `Bias`, or another operator whose arrays stand in `WIDE_AXES`.
      size: its rows and columns.

    Raises:
      UsageError: an operator of another kind.
    """
    stored = {f.name: getattr(operator, f.name) for f in fields(operator)}  # pyright: ignore[reportArgumentType]
    if not stored.keys() <= WIDE_AXES.keys():
        raise UsageError(f"a {type(operator).__name__} matrix has no leading block: its arrays {sorted(stored)} are not all in WIDE_AXES")
    cut = {name: tuple(slice(size) if a in WIDE_AXES[name] else slice(None) for a in range(x.ndim)) for name, x in stored.items()}
    return type(operator)(**{name: x[cut[name]] for name, x in stored.items()})
