"""A scan over segments of a sequence, each run by one of several branches: reverse mode as JAX has it, and with less to store.

Reverse mode of `lax.switch` stores the residuals of every branch, with zeros for those of the branches that were not taken.
`deferred_switch` stores the residuals of the branch that was taken, in one buffer for each type of number, and none of the parameters.
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend import core
from jaxtyping import Array, Int

from lrpt.recurrence.leaves import distinct, inexact, instantiated, or_none
from lrpt.recurrence.linearize import depends

Segment = Callable[[Any, Any, Any], tuple[Any, Any]]
"""A function (parameters, carry, xs) -> (carry, ys) that runs some steps."""


def plain_switch(branches: Sequence[Segment], parameters: Any, carry: Any, sequence: Any, numbers: Int[Array, " s"]) -> tuple[Any, Any]:
    """Run segment i of `sequence`, leaves (s, t, b, ...), by the branch with the number `numbers[i]`. Return the carry and all outputs."""

    def body(carry: Any, segment: tuple[Any, Array]) -> tuple[Any, Any]:
        xs, number = segment
        return lax.switch(number, [partial(branch, parameters) for branch in branches], carry, xs)

    return lax.scan(body, carry, (sequence, numbers))


def deferred_switch(branches: Sequence[Segment], parameters: Any, carry: Any, sequence: Any, numbers: Int[Array, " s"]) -> tuple[Any, Any]:
    """Return what `plain_switch` returns, with the same reverse-mode gradients and without a forward mode."""
    arrays, build = distinct(parameters)

    @jax.custom_vjp
    def run(arrays: Any, carry: Any, sequence: Any, numbers: Any) -> tuple[Any, Any]:
        return plain_switch(branches, build(arrays), carry, sequence, numbers)

    def linearizations(arrays: Any, carry: Any, sequence: Any, wants_x: bool) -> "list[LinearBranch]":
        first = jax.tree.map(lambda a: a[0], sequence)
        return [LinearBranch(branch, build, arrays, carry, first, wants_x) for branch in branches]

    def forward(*perturbed: Any) -> tuple[Any, Any]:
        arrays, carry, sequence, numbers = jax.tree.map(lambda p: p.value, perturbed)
        wants_x = any(p.perturbed for p in jax.tree.leaves(perturbed[2]))
        linear = linearizations(arrays, carry, sequence, wants_x)
        sizes = _largest(linear)

        def body(carry: Any, segment: tuple[Any, Array]) -> tuple[Any, Any]:
            xs, number = segment
            carry, ys, residuals = lax.switch(number, [partial(one.forward, sizes) for one in linear], carry, xs)
            return carry, (ys, residuals)

        last, (ys, residuals) = lax.scan(body, carry, (sequence, numbers))
        return (last, ys), (arrays, carry, sequence, numbers, residuals, () if wants_x else None)

    def backward(saved: Any, cotangents: Any) -> tuple[Any, Any, Any, None]:
        arrays, carry, sequence, numbers, residuals, wants_x = saved
        linear = linearizations(arrays, carry, sequence, wants_x is not None)
        d_last, d_ys = (instantiated(part) for part in cotangents)
        pulls = [partial(one.backward, one.fixed(carry, jax.tree.map(lambda a: a[0], sequence))) for one in linear]

        def body(state: Any, segment: tuple[Any, Any, Array]) -> tuple[Any, Any]:
            residuals, d_ys, number = segment
            return lax.switch(number, pulls, state, residuals, d_ys)

        zeros = [jnp.zeros_like(array) for array in inexact(arrays)[0]]
        (d_first, gradients), d_x = lax.scan(body, (d_last, zeros), (residuals, d_ys, numbers), reverse=True)
        return or_none(arrays, gradients), or_none(carry, d_first), or_none(sequence, d_x) if wants_x is not None else None, None

    run.defvjp(forward, backward, symbolic_zeros=True)
    return run(arrays, carry, sequence, numbers)


class LinearBranch:
    """A branch and its reverse-mode derivative, whose residuals are split by whether they depend on the segment.

    Args:
      branch: the function of (parameters, carry, xs).
      build: builds the parameters from their arrays.
      arrays: the arrays of the parameters, each once.
      carry: state before a segment, values or shapes.
      xs: inputs of a segment, values or shapes.
      wants_x: whether to compute the cotangent of the inputs.
    """

    def __init__(self, branch: Segment, build: Callable[..., Any], arrays: list[Array], carry: Any, xs: Any, wants_x: bool) -> None:
        self._branch, self._build, self._arrays, self._wants_x = branch, build, arrays, wants_x
        self._jaxpr, (self._outputs, pull) = jax.make_jaxpr(self._linearize, return_shape=True)(arrays, carry, xs)
        self._pull_tree = jax.tree.structure(pull)
        self._varying = depends(self._jaxpr.jaxpr, len(arrays))[len(jax.tree.leaves(self._outputs)) :]
        self.residuals = [leaf for leaf, varies in zip(jax.tree.leaves(pull), self._varying, strict=True) if varies]
        self._xs = xs

    def _linearize(self, arrays: list[Array], carry: Any, xs: Any) -> tuple[Any, Any]:
        """Return (carry, ys) and the closure of `jax.vjp`."""
        (own, with_own), (c, with_c), (dx, with_x) = inexact(arrays), inexact(carry), inexact(xs)

        def run(own: Any, c: Any, dx: Any = dx) -> tuple[Any, Any]:
            results = self._branch(self._build(with_own(own)), with_c(c), with_x(dx))
            return [inexact(result)[0] for result in results], results

        _, pull, results = jax.vjp(run, own, c, *[dx] * self._wants_x, has_aux=True)
        return results, pull

    def _evaluate(self, carry: Any, xs: Any) -> list[Any]:
        return core.jaxpr_as_fun(self._jaxpr)(*jax.tree.leaves((self._arrays, carry, xs)))

    def forward(self, sizes: dict[str, int], carry: Any, xs: Any) -> tuple[Any, Any, dict[str, Array]]:
        """Run the branch. Return (carry, ys, residuals in one buffer for each type)."""
        values, count = self._evaluate(carry, xs), len(jax.tree.leaves(self._outputs))
        carry, ys = jax.tree.unflatten(jax.tree.structure(self._outputs), values[:count])
        varying = [value for value, varies in zip(values[count:], self._varying, strict=True) if varies]
        return carry, ys, {name: _joined([v for v in varying if v.dtype.name == name], name, size) for name, size in sizes.items()}

    def fixed(self, carry: Any, xs: Any) -> list[Any]:
        """Compute the residuals that are the same for every segment."""
        values = self._evaluate(carry, xs)[len(jax.tree.leaves(self._outputs)) :]
        return [value for value, varies in zip(values, self._varying, strict=True) if not varies]

    def backward(self, fixed: list[Any], state: Any, residuals: dict[str, Array], d_ys: Any) -> tuple[Any, Any]:
        """Map (cotangent of the carry after the segment, gradients so far) to ((that before it, gradients), cotangent of the inputs)."""
        d_after, gradients = state
        varying, constant = self._split(residuals), iter(fixed)
        pull = jax.tree.unflatten(self._pull_tree, [next(varying) if varies else next(constant) for varies in self._varying])
        d_own, d_before, *d_x = pull([d_after, d_ys])
        return (d_before, jax.tree.map(jnp.add, gradients, d_own)), d_x[0] if d_x else []

    def _split(self, residuals: dict[str, Array]) -> Any:
        """Yield the residuals out of their buffers."""
        at = dict.fromkeys(residuals, 0)
        for leaf in self.residuals:
            name, size = leaf.dtype.name, math.prod(leaf.shape)
            yield residuals[name][at[name] : at[name] + size].reshape(leaf.shape)
            at[name] += size


def _largest(linear: Sequence[LinearBranch]) -> dict[str, int]:
    """Return for each type of number the size of the buffer that holds the residuals of any branch."""
    sizes: dict[str, int] = {}
    for one in linear:
        own = Counter[str]()
        for leaf in one.residuals:
            own[leaf.dtype.name] += math.prod(leaf.shape)
        sizes |= {name: max(size, sizes.get(name, 0)) for name, size in own.items()}
    return sizes


def _joined(arrays: Sequence[Array], dtype: str, size: int) -> Array:
    """Join arrays in a buffer of the given size, filled up with zeros."""
    used = sum(array.size for array in arrays)
    return jnp.concatenate([*(array.ravel() for array in arrays), jnp.zeros(size - used, dtype)])
