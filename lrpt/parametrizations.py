"""Flax modules that own the parameters of a cell's matrices and hand the matrices out.

A parametrization module is built from the matrices a cell asks for (`specs`), and when called returns one structured matrix for each name.
Tying (Sak et al. 2014) lives here: the low-rank matrices of one group share a single projection R. `WeightNorm` wraps any of them.

To add one: a class with `apply` and `to_dense` as in `lrpt.matrices`, a module like `DenseMatrices`, and an entry in `PARAMETRIZATIONS`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from lrpt import matrices
from lrpt.errors import UsageError, check_choice
from lrpt.initialization import INITIALIZATIONS
from lrpt.matrices import ROW_AXIS, BiasSpec, Matrix, MatrixSpec, Operator, OperatorSpec, SettingSpec


@dataclass(frozen=True)
class MatrixConfig:
    """How the matrices of one role are stored."""

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
        """How the name of a network with such matrices begins: 'LRD-' of 'LRD-GRU'."""
        return {"dense": "", "low_rank": "LR-", "low_rank_plus_diagonal": "LRD-"}.get(self.kind, f"{self.kind}-")

    @property
    def suffix(self) -> str:
        """What follows the width of the network: '/24' for a rank."""
        return f"/{self.rank}" if self.kind.startswith("low_rank") else ""


class Parametrization(nn.Module):
    """Base of the parametrizations: the matrices to be stored, by name, and the configuration. Calling it hands them out."""

    specs: Mapping[str, MatrixSpec]
    config: MatrixConfig

    def factor(self, name: str, **shapes: tuple[int, ...]) -> dict[str, Array]:
        """Draws the factors of one matrix as the parameter `name`."""
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
    """L R, of d (n_in + n_out) parameters each; tied, the d n_in of R are paid once for each group."""

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
        name = "_".join(filter(None, ("shared", spec.group)))
        if self.has_variable("params", name):
            return self.get_variable("params", name)
        return self.factor(name, right=(self.config.rank, spec.n_in))


class LowRankPlusDiagonalMatrices(LowRankMatrices):
    """L R + D, of d (n_in + n_out) + n parameters each; square matrices only."""

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
    r"""Each row of the paper's matrices as :math:`w = g\, v / \|v\|` (Salimans and Kingma 2016, eq. 2), whatever parametrization owns v.

    Rows of projections R have no trainable scale: theirs is `projection_scale`. Diagonals are not normalized. The scales g start at the
    norms of the rows as drawn, so that the network starts where the plain one does, but for R. Miceli Barone 2018, section 3.5.1, leaves
    the start of g and the norm of R open, and that code was not published.
    """

    inner: Parametrization
    projection_scale: float = 1.0

    @nn.compact
    def __call__(self) -> dict[str, Matrix]:
        return {name: self.normalize(name, matrix) for name, matrix in self.inner().items()}

    def normalize(self, name: str, matrix: Any) -> Matrix:
        stored = {f.name: getattr(matrix, f.name) for f in fields(matrix)}
        norms = {f: row_norms(value, ROW_AXIS[f]) for f, value in stored.items() if f in ROW_AXIS}
        start = {f: jnp.squeeze(norm, ROW_AXIS[f]) for f, norm in norms.items() if f != "right"}
        scales = self.param(name, lambda _: start)
        scale = {f: jnp.expand_dims(scales[f], ROW_AXIS[f]) if f in scales else self.projection_scale for f in norms}
        return type(matrix)(**{f: value * scale[f] / norms[f] if f in norms else value for f, value in stored.items()})


def row_norms(factor: Float[Array, "a b"], axis: int) -> Float[Array, "..."]:
    """Euclidean norms along `axis`, which is kept. The small constant keeps the gradient of an all-zero row finite."""
    return jnp.sqrt(jnp.sum(jnp.square(factor), axis, keepdims=True) + 1e-30)


PARAMETRIZATIONS: dict[str, type[Parametrization]] = {
    "dense": DenseMatrices,
    "low_rank": LowRankMatrices,
    "low_rank_plus_diagonal": LowRankPlusDiagonalMatrices,
}


class Parameters(nn.Module):
    """Owns everything a cell asks for, and hands it out in the shape of the cell's template.

    Parameters are named by role, then by gate: `recurrent/update/left`, `input/update/kernel`, `bias/update`; with weight normalization
    these are the directions v, and `recurrent_scale/update/left` holds the scales g. Operators that no configuration changes are arrays
    under the name of their field: `operator/rotations_0`. Settings are variables of the collection 'settings', by the same names; where
    that is not handed in, they are what they are at the start.
    """

    template: Any
    recurrent: MatrixConfig
    input: MatrixConfig

    @nn.compact
    def __call__(self) -> Any:
        leaves, treedef = jax.tree_util.tree_flatten_with_path(self.template)
        named = [(_name(path, leaf), leaf) for path, leaf in leaves]
        owned = {
            "recurrent": self.own("recurrent", self.recurrent, named),
            "input": self.own("input", self.input, named),
            "bias": self.biases(_of(BiasSpec, named)),
            "operator": self.operators(_of(OperatorSpec, named)),
            "setting": {name: self.setting(name, spec) for name, spec in _of(SettingSpec, named).items()},
        }
        return treedef.unflatten(owned[_role(leaf)][name] for name, leaf in named)

    def own(self, role: str, config: MatrixConfig, named: list[tuple[str, Any]]) -> dict[str, Matrix]:
        specs = {name: leaf for name, leaf in named if _role(leaf) == role}
        check_choice(f"the {role} parametrization", config.kind, PARAMETRIZATIONS)
        owner = PARAMETRIZATIONS[config.kind](specs, config, name=role)
        return WeightNorm(owner, name=f"{role}_scale")() if config.weight_norm else owner()

    def biases(self, specs: dict[str, Any]) -> dict[str, Operator]:
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
        def draw(key: Array) -> dict[str, Array]:
            keys = jax.random.split(key, len(specs))
            return {
                name: jax.random.uniform(k, spec.shape, minval=spec.initial - spec.spread, maxval=spec.initial + spec.spread)
                for k, (name, spec) in zip(keys, specs.items(), strict=True)
            }

        stored = self.param("operator", draw) if specs else {}
        return {name: specs[name].kind(value) for name, value in stored.items()}

    def setting(self, name: str, spec: SettingSpec) -> Float[Array, ""]:
        start = jnp.asarray(spec.initial, float)
        if not self.has_variable("settings", name) and not self.is_mutable_collection("settings"):
            return start
        return self.variable("settings", name, lambda: start).value


Spec = MatrixSpec | BiasSpec | OperatorSpec | SettingSpec


def _of(kind: type, named: list[tuple[str, Any]]) -> dict[str, Any]:
    return {name: leaf for name, leaf in named if isinstance(leaf, kind)}


def _role(leaf: Spec) -> str:
    if isinstance(leaf, MatrixSpec):
        return leaf.role
    return {BiasSpec: "bias", OperatorSpec: "operator", SettingSpec: "setting"}[type(leaf)]


def _name(path: tuple[Any, ...], leaf: Spec) -> str:
    """The path of a template's leaf, without a last step that only repeats its role: 'update' for update.recurrent."""
    parts = [str(getattr(key, "name", getattr(key, "idx", key))) for key in path]
    if len(parts) > 1 and parts[-1] == _role(leaf):
        parts.pop()
    return "_".join(parts)
