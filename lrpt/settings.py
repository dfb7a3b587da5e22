"""Configurations: frozen dataclasses in groups, short names for settings in groups, and fields that choose from a table."""

import inspect
from collections.abc import Callable, Collection, Mapping
from dataclasses import MISSING, fields, is_dataclass, replace
from functools import cache, wraps
from typing import Any, TypeVar, get_type_hints

from typing_extensions import Doc

from lrpt.errors import UsageError, check_choice

C = TypeVar("C")

SHORT_NAMES: Mapping[str, str] = {
    "parametrization": "matrices.kind",
    "rank": "matrices.rank",
    "blocks": "matrices.blocks",
    "density": "matrices.density",
    "tied": "matrices.tied",
    "weight_norm": "matrices.weight_norm",
    "input_parametrization": "inputs.kind",
    "input_rank": "inputs.rank",
    "input_blocks": "inputs.blocks",
    "input_density": "inputs.density",
    "input_tied": "inputs.tied",
    "embedding": "embeddings.width",
    "embedding_rank": "embeddings.rank",
    "tie_embedding": "embeddings.tied",
    "initialization": "initial.kind",
    "initial_scale": "initial.scale",
    "carry_bias": "initial.carry_bias",
    "trainable_initial_state": "initial.trainable_state",
    "recurrence": "loop.kind",
    "chunk": "loop.chunk",
    "store": "loop.store",
    "pack": "loop.pack",
    "unroll": "loop.unroll",
    "materialize": "loop.materialize",
    "word_dropout": "dropout.words",
    "word_masks": "dropout.word_masks",
    "drop_biases": "dropout.biases",
    "input_dropout": "dropout.inputs",
    "state_dropout": "dropout.states",
    "projection_dropout": "dropout.projections",
    "output_dropout": "dropout.outputs",
    "gate_masks": "dropout.gate_masks",
    "share_masks": "dropout.shared_masks",
    "target": "schedule.target",
    "penalty_weight": "schedule.penalty_weight",
    "penalty": "schedule.penalty",
    "one_sided": "schedule.one_sided",
    "guided_symbols": "schedule.guided_symbols",
    "guided_target": "schedule.guided_target",
    "scheduler_gradient": "schedule.gradient",
    "lag": "schedule.lag",
    "sharpness": "mask.sharpness",
    "sharpness_growth": "mask.growth",
    "sharpness_end": "mask.end",
    "smooth_growth": "mask.smooth",
    "epsilon": "mask.epsilon",
    "evaluation": "mask.evaluation",
    "rounding": "mask.rounding",
    "agreement": "mask.agreement",
}
"""Settings of networks by short name -> group and field."""


class OneOf(Doc):
    """Annotation of a field whose value is a name in a table: `cell: Annotated[str, OneOf("the cell", CELLS)]`.

    The tables are read when help is printed and when a value is checked, so that entries that a user adds are there too.

    Attributes:
      about: what the field decides; in help the choices follow it.
      tables: collections of names, or mappings from them.
      notes: what else help has to say.
    """

    def __init__(self, about: str, *tables: Collection[str], notes: str = "") -> None:
        self.about, self.tables, self.notes = about, tables, notes

    @property
    def choices(self) -> list[str]:
        """Return the names of all tables."""
        return [name for table in self.tables for name in table]

    @property
    def documentation(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Return the help of the setting."""
        *others, last = self.choices
        choices = f"{', '.join(others)} or {last}" if others else last
        return f"{self.about}: {choices}" + (f"; {self.notes}" if self.notes else "")


def check_choices(config: object, prefix: str) -> None:
    """Raise a UsageError unless every field annotated by `OneOf` holds a name in its table.

    Args:
      config: a dataclass.
      prefix: the flag of the group, as 'model.loop'.
    """
    for name, one_of in _annotated(type(config)).items():
        choices = one_of.tables[0] if len(one_of.tables) == 1 else one_of.choices
        check_choice(f"{prefix}.{name}", getattr(config, name), choices)


def unused_settings(config: Any) -> dict[str, str]:
    """Return the settings of a configuration that other settings deprive of their effect, by flat name, and the reason for each.

    `{'matrices.rank': 'model.matrices.kind is dense'}`: the property `unused` of a configuration, and of its groups, says so. One without
    this property uses all settings.
    """
    found = dict(getattr(config, "unused", {}))
    for name in (field.name for field in fields(config)) if is_dataclass(config) else ():
        found |= {f"{name}.{inner}": reason for inner, reason in unused_settings(getattr(config, name)).items()}
    return found


def check_groups(config: Any) -> None:
    """Raise a UsageError unless every group of a network's settings is an object of the class of its default."""
    for field in fields(config):
        default, value = default_of(field), getattr(config, field.name)
        if is_dataclass(default) and not isinstance(value, type(default)):
            short = [name for name, path in SHORT_NAMES.items() if path.startswith(f"{field.name}.")]
            raise UsageError(
                f"model.{field.name} is {value!r}: give a {type(default).__name__}, or its settings by their names, "
                f"such as {', '.join(short[:2])}"
            )


@cache
def _annotated(kind: type) -> dict[str, OneOf]:
    hints = get_type_hints(kind, include_extras=True)
    named = {name: getattr(hint, "__metadata__", ()) for name, hint in hints.items()}
    return {name: found for name, metadata in named.items() for found in metadata if isinstance(found, OneOf)}


def accepts_short_names(kind: type[C]) -> type[C]:
    """Let the constructor of a dataclass, and so `dataclasses.replace`, take settings in groups by their short names, and read them so.

    `ModelConfig(rank=8)` is `ModelConfig(matrices=replace(<the default>, rank=8))`, and its `rank` is `matrices.rank`. The attribute
    `short_names` of the class holds the part of `SHORT_NAMES` that it has. The docstring of the class lists it. Decorate subclasses that
    are dataclasses again.
    """
    construct: Callable[..., None] = kind.__init__

    @wraps(construct)
    def init(self: Any, *positional: Any, **settings: Any) -> None:
        construct(self, *positional, **_with_groups(kind, settings))

    kind.__init__ = init
    kind.__getattr__ = _by_short_name  # type: ignore[attr-defined]
    kind.short_names = {name: path for name, path in SHORT_NAMES.items() if _has(kind, path)}  # type: ignore[attr-defined]
    kind.__doc__ = _with_short_names(kind)
    return kind


def _by_short_name(self: Any, name: str) -> Any:
    """Return a setting in a group. Python asks for attributes here that it has not found elsewhere."""
    path = type(self).short_names.get(name)
    if path is None:
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
    group, _, field = path.partition(".")
    return getattr(getattr(self, group), field)


def _with_short_names(kind: Any) -> str:
    """Return the docstring of a class, and its short names as a section of arguments, which the help of commands leaves out."""
    listed = (f"  {name}: short name of {path}" for name, path in kind.short_names.items())
    return "\n".join([inspect.cleandoc(kind.__doc__ or ""), "", "Args:", *listed])


def changed_settings(config: Any) -> dict[str, Any]:
    """Return the settings of a configuration that are not the defaults of its class, by short name, as its constructor takes them."""
    names = {path: short for short, path in config.short_names.items()}
    found: dict[str, Any] = {}
    for field in fields(config):
        value, default = getattr(config, field.name), default_of(field)
        if not is_dataclass(value):
            found |= {field.name: value} if value != default else {}
            continue
        pairs = {inner.name: getattr(value, inner.name) for inner in fields(value)}
        found |= {names[f"{field.name}.{name}"]: own for name, own in pairs.items() if own != getattr(default, name)}
    return found


def _has(kind: Any, path: str) -> bool:
    group, _, name = path.partition(".")
    default = default_of({field.name: field for field in fields(kind)}.get(group))
    return is_dataclass(default) and name in {field.name for field in fields(default)}


def default_of(field: Any) -> Any:
    """Return the default of a field of a dataclass, or MISSING."""
    if field is None or field.default_factory is MISSING:
        return getattr(field, "default", MISSING)
    return field.default_factory()


def _with_groups(kind: Any, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with those by short names in their groups, which are dataclasses."""
    found = {name: value for name, value in settings.items() if name not in kind.short_names}
    changes: dict[str, dict[str, Any]] = {}
    for name in settings.keys() & kind.short_names.keys():
        group, _, field = kind.short_names[name].partition(".")
        changes.setdefault(group, {})[field] = settings[name]
    known = {field.name: field for field in fields(kind)}
    return found | {group: replace(found.get(group, default_of(known[group])), **own) for group, own in changes.items()}


def names_of_model(short_names: Mapping[str, str]) -> dict[str, str]:
    """Return the same names as parts of 'model': {'rank': 'matrices.rank'} gives {'model.rank': 'model.matrices.rank'}."""
    return {f"model.{short}": f"model.{path}" for short, path in short_names.items()}
