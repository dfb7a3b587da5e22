"""One step of a cell as a linear map of cotangents, with what depends on the step told apart from what does not."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend import core
from jaxtyping import Array

from lrpt.matrices import WithGradient
from lrpt.recurrence.leaves import Leaves, inexact, is_inexact, places
from lrpt.recurrence.loops import Step
from lrpt.recurrence.products import Calls
from lrpt.recurrence.taps import Replay, replayed


class LinearStep:
    """The reverse-mode derivative of a step, taken apart so that many steps can be linearized in one batch.

    The closure that `jax.vjp` returns is a pytree of residuals. Those that depend on the state or the input of the step (activations) are
    told from those that do not (matrices) by following the step's jaxpr, so that batching over steps does not copy matrices.

    Args:
      calls: those of the step.
      arrays: those of the cell's parameters, each once.
      build: the parameters of such arrays.
      carry: state before the step, values or shapes.
      x: input of the step, values or shapes.
      wants_x: whether the cotangent of the input is asked for.
    """

    def __init__(
        self, step: Step, calls: Calls, arrays: list[Array], build: Callable[[Sequence[Array]], Any], carry: Any, x: Any, wants_x: bool
    ) -> None:
        self.step, self.calls, self.arrays, self.build, self.wants_x = step, calls, arrays, build, wants_x
        self._constants = calls.operators(arrays), arrays
        self._residuals = jax.make_jaxpr(self._trace)(*self._constants, carry, x, calls.kept_outputs())
        self._varying = _depends(self._residuals.jaxpr, len(jax.tree.leaves(self._constants)))[: self._vjp_tree.num_leaves]

    def _trace(self, operators: list[Any], arrays: list[Array], carry: Any, x: Any, kept: list[Any]) -> list[Any]:
        """Residuals, then the inputs of the products; notes their structures on the way."""
        params = Leaves.of(self.build(arrays))
        (c, with_c), (raw, with_raw), (dx, with_x) = inexact(carry), inexact(params.raw()), inexact(x)

        def tapped(c: Any, perturbations: Any, raw: Any, dx: Any) -> tuple[Any, Any]:
            replay = Replay(self.calls, operators, arrays, perturbations, dict(zip(self.calls.kept, kept, strict=True)))
            outputs = self.step(replay.tapped(params, with_raw(raw)), with_c(c), with_x(dx))
            return [inexact(output)[0] for output in outputs], replay.inputs

        zeros = [jnp.zeros(p.shape, p.dtype) for p in self.calls.outputs]
        if self.wants_x:
            _, pull, inputs = jax.vjp(tapped, c, zeros, raw, dx, has_aux=True)
        else:
            _, pull, inputs = jax.vjp(lambda c, zeros, raw: tapped(c, zeros, raw, dx), c, zeros, raw, has_aux=True)
        residuals, self._vjp_tree = jax.tree.flatten(pull)
        flat, self._input_tree = jax.tree.flatten(inputs)
        return residuals + flat

    def advance(self, carry: Any, x: Any) -> tuple[Any, list[Any]]:
        """As `taps.replayed`."""
        return replayed(self.step, self.calls, *self._constants, self.build(self.arrays))(carry, x)

    def recompute(self, carry: Any, x: Any, kept: list[Any]) -> tuple[list[Any], list[Any]]:
        """The residuals of a step that depend on it, and the inputs of its products."""
        values = self._evaluate(carry, x, kept)
        count = len(self._varying)
        residuals = [value for value, varies in zip(values[:count], self._varying, strict=True) if varies]
        return residuals, jax.tree.unflatten(self._input_tree, values[count:])

    def fixed(self, carry: Any, x: Any, kept: list[Any]) -> list[Any]:
        """The residuals that are the same at every step."""
        values = self._evaluate(carry, x, kept)
        return [value for value, varies in zip(values, self._varying, strict=False) if not varies]

    def _evaluate(self, *step: Any) -> list[Any]:
        return core.jaxpr_as_fun(self._residuals)(*jax.tree.leaves((self._constants, step)))

    def pull(self, varying: Sequence[Any], fixed: Sequence[Any], cotangents: Any) -> tuple[Any, Any, Any, Any]:
        """Cotangents of a step's (carry, y) -> of its state, its products' outputs, its raw parameters and its input."""
        changing, constant = iter(varying), iter(fixed)
        vjp = jax.tree.unflatten(self._vjp_tree, [next(changing) if varies else next(constant) for varies in self._varying])
        out = vjp(list(cotangents))
        return out if self.wants_x else (*out, [])

    def zeros(self) -> tuple[dict[int, Array], list[Array]]:
        """Gradients of nothing yet: of the arrays of parts, by their places, and of the raw parameters."""
        used = {i for product in self.calls.products for part in product.parts for i in part.places}
        matrices = {i: self.arrays[i] for i in sorted(used) if is_inexact(self.arrays[i])}
        return jax.tree.map(jnp.zeros_like, (matrices, inexact(self._raw())[0]))

    def _raw(self) -> list[Array]:
        return Leaves.of(self.build(self.arrays)).raw()

    def add_matrix_gradients(self, matrices: dict[int, Array], inputs: Sequence[Any], cotangents: Sequence[Any]) -> dict[int, Array]:
        """Adds each call's share: the inputs and output cotangents of many steps meet in one product."""
        sums = dict(matrices)
        for product, ready, v, d_y in zip(self.calls.products, self._constants[0], inputs, cotangents, strict=True):
            for i, gradient in product.by_place(_gradient(ready.operator, v, d_y), self.arrays):
                if i in sums:
                    sums[i] = sums[i] + gradient
        return sums

    def by_array(self, gradients: tuple[dict[int, Array], list[Array]]) -> list[Any]:
        """Gradients as a list with an entry for each array of the parameters, None for what has no derivative."""
        matrices, raw = gradients
        place = places(self.arrays)
        sums = dict(matrices)
        for array, gradient in zip(inexact(self._raw())[0], raw, strict=True):
            i = place[id(array)]
            sums[i] = sums[i] + gradient if i in sums else gradient
        return [sums.get(i, jnp.zeros_like(a)) if is_inexact(a) else None for i, a in enumerate(self.arrays)]


def _gradient(operator: Any, v: Any, cotangent: Any) -> Any:
    """An operator's own gradient from all rows at once, or reverse mode's."""
    if isinstance(operator, WithGradient):
        return jax.tree.map(_as_is, operator.gradient(v, cotangent), operator)
    own, with_own = inexact(operator)
    return jax.vjp(lambda own: with_own(own).apply(v), own)[1](cotangent)[0]


def _as_is(gradient: Array, own: Array) -> Array:
    """A gradient in the type of the array: a real matrix may have been applied to complex or more precise vectors."""
    return (gradient if jnp.iscomplexobj(own) else jnp.real(gradient)).astype(own.dtype)


def _depends(jaxpr: Any, first: int) -> list[bool]:
    """For each result, whether it depends on an argument from number `first` on."""
    reached = set(jaxpr.invars[first:])
    for equation in jaxpr.eqns:
        if any(not isinstance(v, core.Literal) and v in reached for v in equation.invars):
            reached.update(equation.outvars)
    return [not isinstance(v, core.Literal) and v in reached for v in jaxpr.outvars]
