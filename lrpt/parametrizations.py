"""Parametrizations: Flax modules that own the parameters of a cell's matrices.

A parametrization is built from the specifications of the matrices (`specs`). Calling it returns one structured matrix for each name.
Weights are tied here (Sak et al. 2014): the low-rank matrices of one group share one projection R. `WeightNorm` wraps any parametrization.

To add one, write a class with `apply` and `to_dense` as in `lrpt.matrices` and a module like `DenseMatrices`, and add an entry to
`PARAMETRIZATIONS`. The class needs to know about vectors only: `Parameters` sees to it that it never gets symbols.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from lrpt import matrices
from lrpt.errors import UsageError, check_choice
from lrpt.initialization import INITIALIZATIONS
from lrpt.matrices import ROW_AXIS, Matrix, Operator, SymbolInputs, field_of
from lrpt.specs import BiasSpec, MatrixSpec, OperatorSpec, SettingSpec, Spec, name_of, role_of, shared_name


@dataclass(frozen=True)
class MatrixConfig:
    """Storage of the matrices of one role."""

    kind: str = "dense"
    """dense, low_rank or low_rank_plus_diagonal, or a name added to `PARAMETRIZATIONS`"""
    rank: int = 24
    """d: rows of R and columns of L"""
    tied: bool = False
    """one projection R for all gates"""
    weight_norm: bool = False
    """rows as scale * direction / |direction|"""
    initialization: str = "glorot"
    """a name in `INITIALIZATIONS`"""
    initial_scale: float = 0.04
    """range or standard deviation, for initializations that have one"""

    @property
    def prefix(self) -> str:
        """Beginning of the name of a network with such matrices: 'LRD-' of 'LRD-GRU'."""
        return {"dense": "", "low_rank": "LR-", "low_rank_plus_diagonal": "LRD-"}.get(self.kind, f"{self.kind}-")

    @property
    def suffix(self) -> str:
        """Suffix of the width in the name of a network: '/24' for a rank."""
        return f"/{self.rank}" if self.kind.startswith("low_rank") else ""


class Parametrization(nn.Module):
    """Base class of the parametrizations. Calling one returns its matrices by name.

    Attributes:
      specs: the matrices to be stored, by name.
      config: how they are stored.
    """

    specs: Mapping[str, MatrixSpec]
    config: MatrixConfig

    def factor(self, name: str, **shapes: tuple[int, ...]) -> dict[str, Array]:
        """Create the parameter `name` with the factors of one matrix, each initialized as the configuration says."""
        start = INITIALIZATIONS[self.config.initialization]

        def draw(key: Array) -> dict[str, Array]:
            keys = dict(zip(shapes, jax.random.split(key, len(shapes)), strict=True))
            rule = {f: start.diagonal if f == "diagonal" else start.matrix for f in shapes}
            return {f: rule[f](keys[f], shape, self.config.initial_scale) for f, shape in shapes.items()}

        return self.param(name, draw)


class DenseMatrices(Parametrization):
    """Full matrices: n_in n_out parameters each."""

    @nn.compact
    def __call__(self) -> dict[str, Matrix]:
        return {name: matrices.Dense(**self.factor(name, kernel=(s.n_in, s.n_out))) for name, s in self.specs.items()}


class LowRankMatrices(Parametrization):
    """Products L R of d (n_in + n_out) parameters each. If they are tied, each group has one R of d n_in parameters."""

    def check(self, name: str, spec: MatrixSpec) -> None:
        rank = self.config.rank
        if not 1 <= rank <= min(spec.n_in, spec.n_out):
            raise UsageError(
                f"rank {rank} does not fit the {spec.role} matrix '{name}' of {spec.n_in} x {spec.n_out}: "
                f"choose one from 1 to {min(spec.n_in, spec.n_out)}, or a dense matrix"
            )

    @nn.compact
    def __call__(self) -> dict[str, Matrix]:
        return {name: self.matrix(name, spec) for name, spec in self.specs.items()}

    def matrix(self, name: str, spec: MatrixSpec) -> Matrix:
        return matrices.LowRank(**self.factors(name, spec))

    def factors(self, name: str, spec: MatrixSpec, **more: tuple[int, ...]) -> dict[str, Array]:
        self.check(name, spec)
        shapes = {"left": (self.config.rank, spec.n_out), **more}
        if not self.config.tied:
            return self.factor(name, right=(self.config.rank, spec.n_in), **shapes)
        return self.factor(name, **shapes) | self.shared(spec)

    def shared(self, spec: MatrixSpec) -> dict[str, Array]:
        name = shared_name(spec)
        if self.has_variable("params", name):
            return self.get_variable("params", name)
        return self.factor(name, right=(self.config.rank, spec.n_in))


class LowRankPlusDiagonalMatrices(LowRankMatrices):
    """Sums L R + D of d (n_in + n_out) + n parameters each; square matrices only."""

    def check(self, name: str, spec: MatrixSpec) -> None:
        super().check(name, spec)
        if spec.n_in != spec.n_out:
            raise UsageError(
                f"low_rank_plus_diagonal needs a square matrix, and the {spec.role} matrix '{name}' is {spec.n_in} x {spec.n_out}: "
                f"choose low_rank or dense for it"
            )

    def matrix(self, name: str, spec: MatrixSpec) -> Matrix:
        return matrices.LowRankPlusDiagonal(**self.factors(name, spec, diagonal=(spec.n_out,)))


class WeightNorm(nn.Module):
    r"""Weight normalization: rows of the papers' matrices as :math:`w = g\, v / \|v\|` (Salimans and Kingma 2016, eq. 2).

    The wrapped parametrization owns the directions v. Rows of projections R have the fixed norm `projection_scale`, all other rows a
    trainable scale g. Diagonals are not normalized. The scales g are initialized to the norms of the rows as drawn, so that the network
    starts where the plain one does, except for R. Miceli Barone 2018, section 3.5.1, does not say how g is initialized and what the norm
    of R is, and that code was not published.
    """

    inner: Parametrization
    projection_scale: float = 1.0

    @nn.compact
    def __call__(self) -> dict[str, Matrix]:
        return {name: self.normalize(name, matrix) for name, matrix in self.inner().items()}

    def normalize(self, name: str, matrix: Matrix) -> Matrix:
        leaves, treedef = jax.tree_util.tree_flatten_with_path(matrix)
        norms = {path: row_norms(array, ROW_AXIS[field_of(path)]) for path, array in leaves if field_of(path) in ROW_AXIS}
        start = {_key(path): jnp.squeeze(norm, ROW_AXIS[field_of(path)]) for path, norm in norms.items() if field_of(path) != "right"}
        scales = self.param(name, lambda _: start)

        def normalized(path: tuple[Any, ...], array: Array) -> Array:
            if path not in norms:
                return array
            trainable = _key(path) in scales
            scale = jnp.expand_dims(scales[_key(path)], ROW_AXIS[field_of(path)]) if trainable else self.projection_scale
            return array * scale / norms[path]

        return treedef.unflatten(normalized(path, array) for path, array in leaves)


def _key(path: tuple[Any, ...]) -> str:
    """Return the name of a stored array: its field, or the fields that lead to it in a matrix that is made of others."""
    return "_".join(str(getattr(key, "name", getattr(key, "idx", key))) for key in path)


def row_norms(factor: Float[Array, "a b"], axis: int) -> Float[Array, "..."]:
    """Return Euclidean norms along `axis`, which is kept. A small constant keeps the gradient of an all-zero row finite."""
    return jnp.sqrt(jnp.sum(jnp.square(factor), axis, keepdims=True) + 1e-30)


PARAMETRIZATIONS: dict[str, type[Parametrization]] = {
    "dense": DenseMatrices,
    "low_rank": LowRankMatrices,
    "low_rank_plus_diagonal": LowRankPlusDiagonalMatrices,
}


class Parameters(nn.Module):
    """The parameters of a cell. Calling it returns the cell's template, filled in.

    Parameters are named by role, then by gate: `recurrent/update/left`, `input/update/kernel`, `bias/update`. With weight normalization
    these are the directions v, and `recurrent_scale/update/left` holds the scales g. Operators that no configuration changes are arrays
    under the name of their field: `operator/rotations_0`. Settings are variables of the collection 'settings' under the same names. They
    have their initial values if that collection is missing.

    Attributes:
      template: what the cell asks for (see `lrpt.specs`).
      recurrent: how matrices of the role 'recurrent' are stored.
      input: how matrices of the role 'input' are stored.
    """

    template: Any
    recurrent: MatrixConfig
    input: MatrixConfig

    @nn.compact
    def __call__(self) -> Any:
        leaves, treedef = jax.tree_util.tree_flatten_with_path(self.template)
        named = [(name_of(path, leaf), leaf) for path, leaf in leaves]
        owned = {
            "recurrent": self.own("recurrent", self.recurrent, named),
            "input": self.own("input", self.input, named),
            "bias": self.biases(_of(BiasSpec, named)),
            "operator": self.operators(_of(OperatorSpec, named)),
            "setting": {name: self.setting(name, spec) for name, spec in _of(SettingSpec, named).items()},
        }
        return treedef.unflatten(owned[role_of(leaf)][name] for name, leaf in named)

    def own(self, role: str, config: MatrixConfig, named: list[tuple[str, Any]]) -> dict[str, Operator]:
        """Create the matrices of a role. Input matrices take symbols, whatever their parametrization knows about them."""
        specs = {name: leaf for name, leaf in named if role_of(leaf) == role}
        check_choice(f"the {role} parametrization", config.kind, PARAMETRIZATIONS)
        owner = PARAMETRIZATIONS[config.kind](specs, config, name=role)
        found = WeightNorm(owner, name=f"{role}_scale")() if config.weight_norm else owner()
        return {name: _taking_symbols(matrix, specs[name].n_in) if role == "input" else matrix for name, matrix in found.items()}

    def biases(self, specs: dict[str, Any]) -> dict[str, Operator]:
        """Create the biases. The initialization draws those that start at 0."""
        offset, scale = INITIALIZATIONS[self.recurrent.initialization].offset, self.recurrent.initial_scale

        def draw(key: Array) -> dict[str, Array]:
            keys = dict(zip(specs, jax.random.split(key, len(specs)), strict=True))
            return {
                name: jnp.full((spec.size,), spec.initial, float) if spec.initial else offset(keys[name], (spec.size,), scale)
                for name, spec in specs.items()
            }

        stored = self.param("bias", draw) if specs else {}
        return {name: matrices.Bias(value) for name, value in stored.items()}

    def operators(self, specs: dict[str, Any]) -> dict[str, Operator]:
        """Create the operators that no configuration changes."""

        def draw(key: Array) -> dict[str, Array]:
            keys = jax.random.split(key, len(specs))
            return {
                name: jax.random.uniform(k, spec.shape, minval=spec.initial - spec.spread, maxval=spec.initial + spec.spread)
                for k, (name, spec) in zip(keys, specs.items(), strict=True)
            }

        stored = self.param("operator", draw) if specs else {}
        return {name: specs[name].kind(value) for name, value in stored.items()}

    def setting(self, name: str, spec: SettingSpec) -> Float[Array, ""]:
        """Return the value of a setting, and create its variable if the collection may change."""
        start = jnp.asarray(spec.initial, float)
        if not self.has_variable("settings", name) and not self.is_mutable_collection("settings"):
            return start
        return self.variable("settings", name, lambda: start).value


def _taking_symbols(matrix: Operator, n_in: int) -> Operator:
    return matrix if getattr(matrix, "selects_rows", False) else SymbolInputs(matrix, n_in)


def _of(kind: type[Spec], named: list[tuple[str, Any]]) -> dict[str, Any]:
    return {name: leaf for name, leaf in named if isinstance(leaf, kind)}
