"""The parameters of a cell: its template, filled in with what the parametrizations own."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from lrpt import matrices
from lrpt.errors import UsageError, check_choice
from lrpt.matrices import ROW_NORMS, Matrix, Operator, SymbolInputs
from lrpt.parametrizations.checks import check_entry, check_matrices, check_storage
from lrpt.parametrizations.configuration import MatrixConfig
from lrpt.parametrizations.initialization import INITIALIZATIONS
from lrpt.parametrizations.modules import FROZEN, PARAMETRIZATIONS
from lrpt.parametrizations.weight_norm import WeightNorm
from lrpt.specs import BiasSpec, MatrixSpec, OperatorSpec, SettingSpec, Spec, name_of, role_of


@dataclass(frozen=True)
class Flat:
    """A template that Flax leaves as it is. Flax turns dicts and lists among attributes into `FrozenDict` and tuples."""

    leaves: tuple[Any, ...]
    structure: Any

    @classmethod
    def of(cls, template: PyTree) -> "Flat":
        """Return a template without its containers, which may be so already."""
        if isinstance(template, Flat):
            return template
        leaves, structure = jax.tree.flatten(template)
        return cls(tuple(leaves), structure)


class Parameters(nn.Module):
    """The parameters of a cell. Calling it returns the cell's template, filled in.

    Parameters are named by role, then by gate: `recurrent/update/left`, `input/update/kernel`, `bias/update`. With weight normalization
    these are the directions v, and `recurrent_scale/update/left` holds the scales g. Operators that no configuration changes are arrays
    under the name of their field: `operator/rotations_0`. Settings are variables of the collection 'settings' under the same names. They
    have their initial values if that collection is missing.

    Attributes:
      template: what the cell asks for (see `lrpt.specs`), which the module stores as a `Flat`.
      recurrent: how matrices of the role 'recurrent' are stored.
      input: how matrices of the role 'input' are stored.
    """

    template: Any
    recurrent: MatrixConfig
    input: MatrixConfig

    def __post_init__(self) -> None:
        self.template = Flat.of(self.template)
        super().__post_init__()

    @nn.compact
    def __call__(self) -> Any:
        leaves, treedef = jax.tree_util.tree_flatten_with_path(self.template.structure.unflatten(self.template.leaves))
        named = [(name_of(path, leaf), leaf) for path, leaf in leaves]
        _check_names(named)
        owned = {
            "recurrent": self.own("recurrent", self.recurrent, named),
            "input": self.own("input", self.input, named),
            "bias": self.biases(_of(BiasSpec, named)),
            "operator": self.operators(_of(OperatorSpec, named)),
            "setting": {name: self.setting(name, spec) for name, spec in _of(SettingSpec, named).items()},
        }
        return treedef.unflatten(owned[role_of(leaf)][name] for name, leaf in named)

    def own(self, role: str, config: MatrixConfig, named: list[tuple[str, Any]]) -> dict[str, Operator]:
        """Create the matrices of a role. Input matrices take symbols, even if their parametrization takes vectors only.

        Raises:
          UsageError: there is no such parametrization or initialization, or the parametrization does not return these matrices.
        """
        specs = {name: leaf for name, leaf in named if role_of(leaf) == role}
        check_choice(f"the {role} parametrization", config.kind, PARAMETRIZATIONS)
        check_choice(f"the initialization of {role} matrices", config.initialization, INITIALIZATIONS)
        found = create_matrices(specs, config, role, ROW_NORMS[role])
        return {name: _taking_symbols(matrix, specs[name].n_in) if role == "input" else matrix for name, matrix in found.items()}

    def biases(self, specs: dict[str, Any]) -> dict[str, Operator]:
        """Create the biases. The initialization draws those that start at 0."""
        start, scale = INITIALIZATIONS[self.recurrent.initialization], self.recurrent.initial_scale

        def draw_one(key: Array, spec: BiasSpec) -> Array:
            return (
                jnp.full((spec.size,), spec.initial, float)
                if spec.initial
                else start.of_block(spec.fan_in).offset(key, (spec.size,), scale)
            )

        def draw(key: Array) -> dict[str, Array]:
            keys = dict(zip(specs, jax.random.split(key, len(specs)), strict=True))
            return {name: draw_one(keys[name], spec) for name, spec in specs.items()}

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


def create_matrices(
    specs: Mapping[str, MatrixSpec], config: MatrixConfig, name: str, norms: str, within: nn.Module | None = None
) -> dict[str, Matrix]:
    """Create matrices inside a compact method of a Flax module, or bind them to their parameters.

    Args:
      specs: the matrices, by name.
      config: how they are stored.
      name: name of their parameters in the module.
      norms: name of the norms of rows, if there is weight normalization.
      within: the module, if the parameters lie directly in it instead of under `name`.

    Raises:
      UsageError: the parametrization does not fit a matrix, or does not return these matrices.
    """
    check_entry(config.kind, PARAMETRIZATIONS[config.kind])
    owner = PARAMETRIZATIONS[config.kind](specs, config, name=name)
    if within is not None:
        nn.share_scope(within, owner)
    check = partial(check_matrices, config.kind, specs)
    if config.weight_norm:
        return WeightNorm(owner, check=check, name=norms)()
    check(found := owner())
    return found


def init_parameters(key: Array, template: PyTree, recurrent: MatrixConfig | None = None, inputs: MatrixConfig | None = None) -> Any:
    """Draw the parameters of a cell, as its step and `lrpt.recur` take them: the template with a matrix or bias for each leaf.

        cell, spec = lrpt.CELLS["gru"], lrpt.CellSpec(input_size=3, size=128)
        params = lrpt.init_parameters(jax.random.key(0), cell.template(spec), lrpt.MatrixConfig("low_rank", 8))
        carry, outputs = lrpt.recur(cell.step, params, cell.zero_carry(spec, (batch,)), xs)

    Args:
      key: PRNG key.
      template: what the cell asks for.
      recurrent, inputs: how matrices of these roles are stored; None for dense ones.

    Raises:
      UsageError: how matrices are stored is no `MatrixConfig`; the parametrization does not fit a matrix, or has frozen arrays, which
        would be trained here.
    """
    given = [config for config in (recurrent, inputs) if config is not None]
    recurrent, inputs = recurrent or MatrixConfig(), inputs or MatrixConfig()
    check_storage(recurrent=recurrent, inputs=inputs)
    module = Parameters(template, recurrent, inputs)
    params, variables = module.init_with_output(key)
    if FROZEN in variables:
        kinds = " and ".join(dict.fromkeys(config.kind for config in given))
        raise UsageError(f"matrices are stored as {kinds}, with a frozen part that is no parameter: use a ModelConfig, or a layer for Flax")
    return params


def _check_names(named: list[tuple[str, Any]]) -> None:
    """Raise a UsageError if two leaves of a template would have one parameter."""
    (role, name), count = Counter((role_of(leaf), name) for name, leaf in named).most_common(1)[0] if named else (("", ""), 0)
    if count > 1:
        raise UsageError(f"{count} leaves of a cell's template are stored as '{role}/{name}': rename all but one of them")


def _taking_symbols(matrix: Operator, n_in: int) -> Operator:
    return matrix if getattr(matrix, "selects_rows", False) else SymbolInputs(matrix, n_in)


def _of(kind: type[Spec], named: list[tuple[str, Any]]) -> dict[str, Any]:
    return {name: leaf for name, leaf in named if isinstance(leaf, kind)}
