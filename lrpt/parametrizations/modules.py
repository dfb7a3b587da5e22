"""Flax modules that own the arrays of matrices, and their table."""

from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array

from lrpt.errors import UsageError
from lrpt.matrices import Matrix
from lrpt.parametrizations.configuration import PARAMETRIZATIONS, MatrixConfig
from lrpt.parametrizations.forms import ALL_FORMS, Form, Stored
from lrpt.parametrizations.initialization import INITIALIZATIONS
from lrpt.specs import MatrixSpec, shared_name

FROZEN = "frozen"
"""Name of the Flax collection of arrays that training leaves alone."""


class Parametrization(nn.Module):
    """Base class of the parametrizations. Calling one returns its matrices by name.

    Attributes:
      specs: the matrices to be stored, by name.
      config: how they are stored.
      settings: names of the sizes of `config` that its matrices have, such as ('rank',); None if it does not say. Labels show these sizes,
        and commands warn of others.
    """

    settings: ClassVar[tuple[str, ...] | None] = None

    specs: Mapping[str, MatrixSpec]
    config: MatrixConfig

    def factor(self, name: str, **shapes: tuple[int, ...]) -> dict[str, Array]:
        """Create the parameter `name` with the factors of one matrix, each initialized as the configuration says.

        A factor of three axes holds a matrix for each entry of the first one. A factor of one axis is drawn as a matrix of one row, and one
        that is called `diagonal` as diagonals are.
        """
        return self.create(name, {field: Stored(shape, is_diagonal=field == "diagonal") for field, shape in shapes.items()})

    def create(self, name: str, arrays: Mapping[str, Stored]) -> dict[str, Array]:
        """Create the parameter `name` with these arrays of one matrix, each initialized as the configuration says.

        Raises:
          UsageError: an array would have an axis without entries.
        """
        for field, stored in arrays.items():
            if min(stored.shape, default=1) < 1:
                raise UsageError(f"{name} would have the array {field} of shape {stored.shape}: choose another rank or number of blocks")
        start = INITIALIZATIONS[self.config.initialization].of_block(self._fan_in(name))
        frozen = {field: stored for field, stored in arrays.items() if stored.is_frozen}
        trained = {field: stored for field, stored in arrays.items() if not stored.is_frozen}

        def draw(arrays: Mapping[str, Stored], key: Array) -> dict[str, Array]:
            keys = dict(zip(arrays, jax.random.split(key, len(arrays)), strict=True))
            return {field: stored.draw(keys[field], start, self.config.initial_scale) for field, stored in arrays.items()}

        found: dict[str, Array] = self.param(name, partial(draw, trained)) if trained else {}
        if frozen:
            found = {**found, **self.variable(FROZEN, name, lambda: draw(frozen, self.make_rng("params"))).value}
        return _of_jax(found)

    def _fan_in(self, name: str) -> int | None:
        """Return the fan-in of the matrices that have an array of the parameter `name`, which may be a shared projection."""
        return next((spec.fan_in for own, spec in self.specs.items() if name in (own, shared_name(spec))), None)


class Structured(Parametrization):
    """Matrices in one form. Tied matrices of a group share the arrays that the form names.

    Attributes:
      form: which arrays a matrix stores.
    """

    form: Form

    @nn.compact
    def __call__(self) -> dict[str, Matrix]:
        return {name: self.matrix(name, spec) for name, spec in self.specs.items()}

    def matrix(self, name: str, spec: MatrixSpec) -> Matrix:
        """Create one matrix, with the arrays that its group shares."""
        arrays = self.form.arrays(name, spec, self.config)
        shared = {field: stored for field, stored in arrays.items() if self.config.tied and field in self.form.shared}
        found = self.create(name, {field: stored for field, stored in arrays.items() if field not in shared})
        return self.form.matrix(name, spec, self.config, {**found, **self.of_group(spec, shared)} if shared else found)

    def of_group(self, spec: MatrixSpec, shared: Mapping[str, Stored]) -> dict[str, Array]:
        """Return the arrays that the matrices of a group share; the first matrix of the group creates them."""
        name = shared_name(spec)
        return _of_jax(self.get_variable("params", name)) if self.has_variable("params", name) else self.create(name, shared)


def _of_jax(arrays: Mapping[str, Any]) -> dict[str, Array]:
    """Return arrays of JAX, so that a matrix may index them by traced numbers. Those of a file are of NumPy."""
    return {name: jnp.asarray(array) for name, array in arrays.items()}


PARAMETRIZATIONS |= {name: partial(Structured, form=form) for name, form in ALL_FORMS.items()}


def form_of(kind: str) -> Form | None:
    """Return the form of a parametrization. Return None if it is a module without one, or unknown."""
    entry = PARAMETRIZATIONS.get(kind)
    return entry.keywords.get("form") if isinstance(entry, partial) else None


def settings_of(kind: str) -> tuple[str, ...] | None:
    """Return the names of the sizes that the matrices of a parametrization have, such as ('rank',). Return None if it does not say."""
    form = form_of(kind)
    return getattr(PARAMETRIZATIONS.get(kind), "settings", None) if form is None else form.settings


class Label(NamedTuple):
    """The part of a network's name that says how its matrices are stored: 'LRD-' before its cell, '/24' after its width."""

    prefix: str
    suffix: str


def label_of(config: MatrixConfig) -> Label:
    """Return the label of a configuration. A parametrization of the user has the abbreviation of its form, or its name for a prefix."""
    ours, form = ALL_FORMS.get(config.kind), form_of(config.kind)
    of_user = None if form is None or form in ALL_FORMS.values() else form.short
    short = of_user or config.kind if ours is None else ours.short
    return Label(f"{short}-" if short else "", "".join(f"/{getattr(config, setting)}" for setting in settings_of(config.kind) or ()))
