"""Dependence of the results of a jaxpr on its arguments, and whether a batch of steps computes the same as each step."""

from collections.abc import Iterator, Sequence
from typing import Any

from jax.extend import core

CALLS = frozenset(
    {"jit", "pjit", "closed_call", "core_call", "remat", "remat2", "checkpoint", "custom_jvp_call", "custom_vjp_call", "custom_lin"}
)
"""Primitives that call one inner function with their own arguments and results."""

OTHERWISE_IN_BATCHES = frozenset({"rng_bit_generator", "rng_uniform", "pure_callback", "io_callback"})
"""Primitives that `jax.vmap` refuses, or that compute something else in a batch."""

THREEFRY = "key<fry>"
"""Type of the keys whose random numbers are the same in a batch."""


def depends(jaxpr: Any, first: int) -> list[bool]:
    """Return for each result of a jaxpr whether it depends on an argument from number `first` on."""
    return _reached(jaxpr, [i >= first for i in range(len(jaxpr.invars))])


def _reached(jaxpr: Any, begins: Sequence[bool]) -> list[bool]:
    """Return for each result whether it depends on one of the arguments that are marked. It looks into inner functions."""
    reached = {v for v, marked in zip(jaxpr.invars, begins, strict=True) if marked}
    for equation in jaxpr.eqns:
        given = [_is_in(v, reached) for v in equation.invars]
        if any(given):
            inner = _called(equation)
            found = [True] * len(equation.outvars) if inner is None else _reached(inner, given)
            reached.update(v for v, is_reached in zip(equation.outvars, found, strict=True) if is_reached)
    return [_is_in(v, reached) for v in jaxpr.outvars]


def _is_in(variable: Any, reached: set[Any]) -> bool:
    return not isinstance(variable, core.Literal) and variable in reached


def _called(equation: Any) -> Any:
    """Return the jaxpr of a function that an equation calls with its own arguments; None if it does something else."""
    inner = [*_inner(equation)]
    if equation.primitive.name not in CALLS or len(inner) != 1:
        return None
    fits = (len(inner[0].invars), len(inner[0].outvars)) == (len(equation.invars), len(equation.outvars))
    return inner[0] if fits else None


def _inner(equation: Any) -> Iterator[Any]:
    """Yield the jaxprs among the parameters of an equation."""
    for value in equation.params.values():
        for each in value if isinstance(value, tuple | list) else (value,):
            found = getattr(each, "jaxpr", each)  # of a closed one
            if hasattr(found, "eqns"):
                yield found


def is_alike_in_batches(jaxpr: Any) -> bool:
    """Return whether `jax.vmap` of a function computes the same numbers as the function.

    It does not with random numbers from keys other than threefry's, such as those of `jax_default_prng_impl="rbg"`.
    """
    for equation in jaxpr.eqns:
        types = [str(v.aval.dtype) for v in (*equation.invars, *equation.outvars) if hasattr(v.aval, "dtype")]
        if equation.primitive.name in OTHERWISE_IN_BATCHES or any(kind.startswith("key<") and kind != THREEFRY for kind in types):
            return False
        if not all(is_alike_in_batches(inner) for inner in _inner(equation)):
            return False
    return True
