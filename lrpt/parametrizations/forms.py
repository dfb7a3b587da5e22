"""Forms of matrices: which arrays each needs for a specification, and the matrix that they make.

A form knows nothing of Flax. `lrpt.parametrizations.modules.Structured` creates the arrays and may tie or normalize them.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol
from zlib import crc32

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from lrpt import matrices
from lrpt.errors import UsageError
from lrpt.matrices import Matrix
from lrpt.parametrizations.configuration import MatrixConfig
from lrpt.parametrizations.initialization import Initialization
from lrpt.specs import MatrixSpec


class Stored(NamedTuple):
    """An array that a matrix stores.

    Attributes:
      shape: its shape. With three axes, it holds a matrix for each entry of the first one, and each is drawn as a matrix. With one axis, it
        is drawn as a matrix of one row.
      row_of: shape of a matrix, if the array holds rows whose entries are drawn as those of such a matrix.
      is_diagonal: whether it is drawn as diagonals are.
      is_zero: whether it starts at zero.
      is_frozen: whether training leaves it alone. It lies in the collection 'frozen', and has no gradient and no state of the optimizer.
    """

    shape: tuple[int, ...]
    row_of: tuple[int, int] | None = None
    is_diagonal: bool = False
    is_zero: bool = False
    is_frozen: bool = False

    def draw(self, key: Array, start: Initialization, scale: float) -> Array:
        """Draw the array as an initialization says."""
        if self.is_zero:
            return jnp.zeros(self.shape)
        if self.is_diagonal:
            return start.diagonal(key, self.shape, scale)
        *leading, last = self.shape
        if self.row_of is not None:
            shape = self.row_of
            return _each(lambda key: start.matrix(key, shape, scale)[0, :last], key, tuple(leading))
        if not leading:
            return start.matrix(key, (1, last), scale)[0]
        if len(self.shape) < 3:
            return start.matrix(key, self.shape, scale)
        return _each(lambda key: start.matrix(key, self.shape[1:], scale), key, self.shape[:1])


def _each(draw: Any, key: Array, leading: tuple[int, ...]) -> Array:
    """Draw with a key of its own for each entry of the leading axes."""
    for length in reversed(leading):
        draw = _stacked(draw, length)
    return draw(key)


def _stacked(draw: Any, length: int) -> PyTree:
    return lambda key: jax.vmap(draw)(jax.random.split(key, length))


class Form(Protocol):
    """A way to store matrices.

    Attributes:
      shared: fields that matrices of one group have in common if they are tied.
      short: abbreviation in the names of networks.
      settings: fields of `MatrixConfig` that decide its size.
    """

    @property
    def shared(self) -> frozenset[str]: ...

    @property
    def short(self) -> str: ...

    @property
    def settings(self) -> tuple[str, ...]: ...

    def arrays(self, name: str, spec: MatrixSpec, config: MatrixConfig) -> dict[str, Stored]:
        """Return the arrays of a matrix by field, in the order in which they are drawn.

        Raises:
          UsageError: the form does not fit the matrix.
        """
        ...

    def matrix(self, name: str, spec: MatrixSpec, config: MatrixConfig, arrays: Mapping[str, Array]) -> Matrix:
        """Return the matrix that holds these arrays."""
        ...


class Simple:
    """A form whose arrays are the fields of a class of matrices."""

    shared: frozenset[str] = frozenset()
    short: str = ""
    settings: tuple[str, ...] = ()
    kind: Any

    def matrix(self, name: str, spec: MatrixSpec, config: MatrixConfig, arrays: Mapping[str, Array]) -> Matrix:
        return self.kind(**arrays)


class DenseForm(Simple):
    """Dense matrices: n_in n_out parameters each."""

    kind = matrices.Dense

    def arrays(self, name: str, spec: MatrixSpec, config: MatrixConfig) -> dict[str, Stored]:
        return {"kernel": Stored((spec.n_in, spec.n_out))}


class DiagonalForm(Simple):
    """Diagonals: n parameters each; square matrices only. It is a term of sums."""

    short = "D"
    kind = matrices.Diagonal

    def arrays(self, name: str, spec: MatrixSpec, config: MatrixConfig) -> dict[str, Stored]:
        _check_square(name, spec, config)
        return {"diagonal": Stored((spec.n_out,), is_diagonal=True)}


class LowRankForm(Simple):
    """Products R L of d (n_in + n_out) parameters each. If they are tied, each group has one R of d n_in parameters."""

    shared = frozenset({"right"})
    short, settings = "LR", ("rank",)
    kind = matrices.LowRank

    def arrays(self, name: str, spec: MatrixSpec, config: MatrixConfig) -> dict[str, Stored]:
        _check_rank(name, spec, config, min(spec.n_in, spec.n_out))
        return {"right": Stored((config.rank, spec.n_in)), "left": Stored((config.rank, spec.n_out))}


class BlockDiagonalForm(Simple):
    """Block-diagonal matrices of k blocks: n_in n_out / k parameters each."""

    short, settings = "BD", ("blocks",)
    kind = matrices.BlockDiagonal

    def arrays(self, name: str, spec: MatrixSpec, config: MatrixConfig) -> dict[str, Stored]:
        k = _checked_blocks(name, spec, config)
        return {"blocks": Stored((k, spec.n_in // k, spec.n_out // k))}


class MonarchForm(Simple):
    """Monarch matrices of k blocks: n_in n_out / k + n_out k parameters each."""

    short, settings = "MO", ("blocks",)
    kind = matrices.Monarch

    def arrays(self, name: str, spec: MatrixSpec, config: MatrixConfig) -> dict[str, Stored]:
        k = _checked_blocks(name, spec, config)
        return {"first": Stored((k, spec.n_in // k, spec.n_out // k)), "second": Stored((spec.n_out // k, k, k))}


class KroneckerForm(Simple):
    """Kronecker products of a k x k and an n_in / k x n_out / k matrix: k^2 + n_in n_out / k^2 parameters each."""

    short, settings = "KR", ("blocks",)
    kind = matrices.Kronecker

    def arrays(self, name: str, spec: MatrixSpec, config: MatrixConfig) -> dict[str, Stored]:
        k, terms = _checked_blocks(name, spec, config), self.terms(name, spec, config)
        return {"outer": Stored((terms, k, k)), "inner": Stored((terms, spec.n_in // k, spec.n_out // k))}

    def terms(self, name: str, spec: MatrixSpec, config: MatrixConfig) -> int:
        """Return the number of Kronecker products in the sum."""
        return 1


class TensorTrainForm(KroneckerForm):
    """Tensor trains of two cores and rank d, which are sums of d Kronecker products: d times as many parameters as one."""

    short, settings = "TT", ("blocks", "rank")

    def terms(self, name: str, spec: MatrixSpec, config: MatrixConfig) -> int:
        outer = config.blocks**2
        _check_rank(name, spec, config, min(outer, spec.n_in * spec.n_out // outer))
        return config.rank


class CirculantForm(Simple):
    """Circulant matrices: n parameters each; square matrices only."""

    short = "CI"
    kind = matrices.Circulant

    def arrays(self, name: str, spec: MatrixSpec, config: MatrixConfig) -> dict[str, Stored]:
        _check_square(name, spec, config)
        return {"first_row": Stored((spec.n_out,), row_of=(spec.n_in, spec.n_out))}


class ToeplitzLikeForm(Simple):
    """Toeplitz-like matrices of displacement rank d: 2 n d parameters each; square matrices only."""

    short, settings = "TL", ("rank",)
    kind = matrices.ToeplitzLike

    def arrays(self, name: str, spec: MatrixSpec, config: MatrixConfig) -> dict[str, Stored]:
        _check_square(name, spec, config)
        _check_rank(name, spec, config, spec.n_out)
        rows = Stored((config.rank, spec.n_out), row_of=(spec.n_in, spec.n_out))
        return {"circulant": rows, "skew": rows}


class HouseholderForm(Simple):
    """Products of d reflections, which are orthogonal: n d parameters each; square matrices only."""

    short, settings = "HH", ("rank",)
    kind = matrices.Householder

    def arrays(self, name: str, spec: MatrixSpec, config: MatrixConfig) -> dict[str, Stored]:
        _check_square(name, spec, config)
        _check_rank(name, spec, config, spec.n_out)
        return {"vectors": Stored((config.rank, spec.n_out))}


class SparseForm(Simple):
    """Sparse matrices whose outputs each see a fixed random share of the inputs: a parameter for each entry.

    The matrix's role and name decide the places, so that runs with different seeds have the same places.
    """

    short, settings = "SP", ("density",)
    kind = matrices.Sparse

    def arrays(self, name: str, spec: MatrixSpec, config: MatrixConfig) -> dict[str, Stored]:
        """Return the array of entries. Raise a UsageError if the density is not above 0 and at most 1."""
        if not 0 < config.density <= 1:
            raise UsageError(f"density is {config.density} for the {spec.role} matrix '{name}': expected a share above 0, at most 1")
        count = max(1, round(config.density * spec.n_in))
        return {"entries": Stored((spec.n_out, count), row_of=(max(1, count * spec.n_out // spec.n_in), count))}

    def matrix(self, name: str, spec: MatrixSpec, config: MatrixConfig, arrays: Mapping[str, Array]) -> Matrix:
        return matrices.Sparse(arrays["entries"], spec.n_in, crc32(f"{spec.role}/{name}".encode()))


@dataclass(frozen=True)
class Changed:
    """A form with other arrays of the same shapes: frozen ones, or ones that start at zero. It may have another name in labels."""

    form: Form
    zero: tuple[str, ...] = ()
    frozen: tuple[str, ...] = ()
    named: str | None = None

    @property
    def shared(self) -> frozenset[str]:
        return frozenset()

    @property
    def short(self) -> str:
        return self.form.short if self.named is None else self.named

    @property
    def settings(self) -> tuple[str, ...]:
        return self.form.settings

    def arrays(self, name: str, spec: MatrixSpec, config: MatrixConfig) -> dict[str, Stored]:
        found = self.form.arrays(name, spec, config)
        return {field: stored._replace(is_zero=field in self.zero, is_frozen=field in self.frozen) for field, stored in found.items()}

    def matrix(self, name: str, spec: MatrixSpec, config: MatrixConfig, arrays: Mapping[str, Array]) -> Matrix:
        return self.form.matrix(name, spec, config, arrays)


@dataclass(frozen=True)
class SumForm:
    """Sums of matrices in several forms, whose arrays lie side by side under the name of the matrix."""

    terms: tuple[Form, ...]

    @property
    def shared(self) -> frozenset[str]:
        return frozenset().union(*(term.shared for term in self.terms))

    @property
    def short(self) -> str:
        return "".join(term.short for term in self.terms)

    @property
    def settings(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(setting for term in self.terms for setting in term.settings))

    def arrays(self, name: str, spec: MatrixSpec, config: MatrixConfig) -> dict[str, Stored]:
        """Return the arrays of all terms. Raise a UsageError if two terms store the same field."""
        found: dict[str, Stored] = {}
        for term in self.terms:
            own = term.arrays(name, spec, config)
            if common := found.keys() & own.keys():
                raise UsageError(f"two terms of {config.kind} store '{min(common)}': sum forms whose arrays have different names")
            found |= own
        return found

    def matrix(self, name: str, spec: MatrixSpec, config: MatrixConfig, arrays: Mapping[str, Array]) -> Matrix:
        def of(term: Form) -> Matrix:
            return term.matrix(name, spec, config, {field: arrays[field] for field in term.arrays(name, spec, config)})

        return matrices.Sum(tuple(of(term) for term in self.terms))


def plus_diagonal(form: Form) -> SumForm:
    """Return the form of sums of a matrix in the given form and a diagonal."""
    return SumForm((form, DiagonalForm()))


def has_projection(form: Form) -> bool:
    """Return whether matrices in this form are products R L, or sums with such a term."""
    if isinstance(form, SumForm):
        return any(map(has_projection, form.terms))
    return has_projection(form.form) if isinstance(form, Changed) else isinstance(form, LowRankForm)


def nearest_divisors(common: int, wanted: int) -> list[int]:
    """Return the divisors next to `wanted`, below and above, that divide `common`."""
    divisors = [k for k in range(1, common + 1) if common % k == 0]
    return sorted({max((k for k in divisors if k <= wanted), default=1), min((k for k in divisors if k >= wanted), default=common)})


def _checked_blocks(name: str, spec: MatrixSpec, config: MatrixConfig) -> int:
    if config.blocks < 1 or spec.n_in % config.blocks or spec.n_out % config.blocks:
        fit = nearest_divisors(math.gcd(spec.n_in, spec.n_out), config.blocks)
        raise UsageError(
            f"blocks {config.blocks} do not divide the {spec.role} matrix '{name}' of {spec.n_in} x {spec.n_out}: "
            f"the nearest that do are {' and '.join(map(str, fit))}"
        )
    return config.blocks


def _check_rank(name: str, spec: MatrixSpec, config: MatrixConfig, most: int) -> None:
    if not 1 <= config.rank <= most:
        default = f" ({config.rank} is the default rank)" if config.rank == MatrixConfig.rank else ""
        raise UsageError(
            f"rank {config.rank} does not fit the {spec.role} matrix '{name}' of {spec.n_in} x {spec.n_out}: "
            f"choose one from 1 to {most}, or a dense matrix{default}"
        )


def _check_square(name: str, spec: MatrixSpec, config: MatrixConfig) -> None:
    if spec.n_in != spec.n_out:
        raise UsageError(
            f"{config.kind} needs a square matrix, and the {spec.role} matrix '{name}' is {spec.n_in} x {spec.n_out}: "
            f"choose low_rank or dense for it"
        )


LOW_RANK = LowRankForm()

FORMS: dict[str, Form] = {
    "dense": DenseForm(),
    "low_rank": LOW_RANK,
    "low_rank_plus_diagonal": plus_diagonal(LOW_RANK),
    "block_diagonal": BlockDiagonalForm(),
    "monarch": MonarchForm(),
    "kronecker": KroneckerForm(),
    "tensor_train": TensorTrainForm(),
    "circulant": CirculantForm(),
    "toeplitz_like": ToeplitzLikeForm(),
    "householder": HouseholderForm(),
    "sparse": SparseForm(),
}
"""Forms by name. Each of the structured ones has a sum with a diagonal, which `_plus_diagonal` in its name says."""

FORMS |= {
    f"{name}_plus_diagonal": plus_diagonal(FORMS[name])
    for name in ("monarch", "kronecker", "tensor_train", "circulant", "toeplitz_like", "householder", "sparse")
}

ADAPTER = SumForm((Changed(FORMS["dense"], frozen=("kernel",)), Changed(LOW_RANK, zero=("left",), named="LoRA")))
"""Frozen dense matrices with a trainable low-rank term that starts at zero (Hu et al. 2022, section 4.1)."""

ADAPTERS: dict[str, Form] = {
    "adapter": ADAPTER,
    "adapter_plus_diagonal": SumForm((*ADAPTER.terms, Changed(DiagonalForm(), zero=("diagonal",)))),
}
"""Forms for networks that were trained before: see `lrpt.compression.adapters`."""

ALL_FORMS = {**FORMS, **ADAPTERS}
