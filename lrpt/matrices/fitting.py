"""Checks that the parts of an operator fit each other and its input. They read shapes only, when the operator is applied.

An operator is a pytree, which JAX also builds around shapes, batches and placeholders. So its constructor cannot check anything.
"""

from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import wraps
from typing import Any, NamedTuple, TypeVar

import jax.numpy as jnp

from lrpt.errors import UsageError, in_words
from lrpt.symbols import Weighted, input_for, is_symbols

Kind = TypeVar("Kind", bound=type)

AXES: dict[type, dict[str, tuple[str, ...]]] = {}
"""Letters of the axes of stored arrays, by class and field: those of the annotation, ('d', 'o') for `Float[Array, "d o"]`."""


class Part(NamedTuple):
    """A stored array of an operator, or a term of a sum: its name, shape, and letters of its axes."""

    name: str
    shape: tuple[int, ...]
    axes: tuple[str, ...]


def checked(kind: Kind) -> Kind:
    """Let a class of operators check its parts and its input whenever it is applied or multiplied out. Decorate dataclasses with it.

    Equal letters in the annotations of the stored arrays stand for equal sizes. If the class has a `shape`, its first entry is the width of
    the input; the terms of a sum must have one shape.

    The decorated methods raise:
      UsageError: sizes that should be equal are not, a stored array is no array, a sum has no terms, or the input is no array or has
        another width.
    """
    AXES[kind] = {field.name: tuple(field.type.dim_str.split()) for field in fields(kind) if hasattr(field.type, "dim_str")}  # type: ignore[union-attr]
    for name in ("apply", "apply_by", "apply_between", "to_dense"):
        if name in vars(kind):
            setattr(kind, name, _with_checks(vars(kind)[name]))
    return kind


def _with_checks(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method with checks before it. Its last argument is the input, if it has any; symbols become vectors if it needs vectors."""

    @wraps(method)
    def with_checks(self: Any, *args: Any, **named: Any) -> Any:
        check_parts(self)
        if "v" in named:
            named["v"] = _checked_input(self, named["v"])
        elif args:
            args = *args[:-1], _checked_input(self, args[-1])
        return method(self, *args, **named)

    return with_checks


def _checked_input(operator: Any, v: Any) -> Any:
    """Return the input as the operator takes it."""
    v = as_input(operator, v)
    check_input(operator, v)
    return input_for(operator, v)


def as_input(operator: Any, v: Any) -> Any:
    """Return numbers, and lists or tuples of numbers, as arrays. Arrays and weighted symbols stay the same objects.

    Raises:
      UsageError: the input is something else, or its rows have different lengths.
    """
    if hasattr(v, "dtype") or isinstance(v, Weighted):
        return v
    try:
        return jnp.asarray(v)
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"the input of {type(operator).__name__}.apply is {in_words(v)} that JAX cannot read as an array: give an array of vectors, "
            f"(..., width), or of integers, which stand for one-hot vectors"
        ) from error


def check_parts(operator: Any) -> None:
    """Raise a UsageError unless the stored arrays of an operator, or the terms of a sum, fit each other. Others than `checked` pass."""
    for term in terms_of(operator):
        check_parts(term)
    for name, axes in AXES.get(type(operator), {}).items():
        if not hasattr(part := getattr(operator, name), "shape"):
            raise UsageError(f"{type(operator).__name__} has {in_words(part)} as its {name}: give an array of shape ({', '.join(axes)})")
    sizes: dict[str, int] = {}
    parts = _parts(operator)
    if all(len(part.shape) == len(part.axes) and _agree(sizes, part) for part in parts):
        return
    wanted = " and ".join(f"{part.name} ({', '.join(part.axes)})" for part in parts)
    raise UsageError(f"{type(operator).__name__} has {_listed(parts)}: give {wanted}, where equal letters stand for equal sizes")


def terms_of(operator: Any) -> Sequence[Any]:
    """Return the terms of a sum. Other operators have none.

    Raises:
      UsageError: a sum has no terms, or something else than a tuple of them.
    """
    if not hasattr(operator, "terms"):
        return ()
    terms, kind = operator.terms, type(operator).__name__
    if not isinstance(terms, tuple | list) or not terms:
        given = "no terms" if isinstance(terms, tuple | list) else f"{in_words(terms)} as its terms"
        raise UsageError(f"{kind} has {given}: give a tuple of one matrix or more, such as {kind}((Dense(kernel), Diagonal(diagonal)))")
    return terms


def check_input(operator: Any, v: Any) -> None:
    """Raise a UsageError if an input of vectors has another width than an operator with fitting parts. Symbols pass."""
    given, wanted = getattr(v, "shape", None), getattr(operator, "shape", None)
    if given is None or wanted is None or given[-1:] == wanted[:1] or is_symbols(v):
        return
    parts, width = _parts(operator), wanted[0]
    raise UsageError(
        f"{type(operator).__name__} with {_listed(parts)} takes vectors of width {width}, and its input has shape {tuple(given)}: "
        f"give an input of shape (..., {width})"
    )


def _parts(operator: Any) -> list[Part]:
    arrays = [(name, getattr(operator, name), axes) for name, axes in AXES.get(type(operator), {}).items()]
    terms = [(type(term).__name__, term, ("i", "o")) for term in terms_of(operator)]
    return [Part(name, tuple(part.shape), axes) for name, part, axes in arrays + terms if hasattr(part, "shape")]


def _agree(sizes: dict[str, int], part: Part) -> bool:
    """Return whether the axes of a part have the sizes known so far, and add theirs."""
    return all(sizes.setdefault(letter, size) == size for letter, size in zip(part.axes, part.shape, strict=True))


def _listed(parts: Sequence[Part]) -> str:
    return " and ".join(f"{part.name} {part.shape}" for part in parts)
