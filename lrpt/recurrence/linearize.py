"""Linearization of one step of a cell: a linear map of cotangents whose residuals are split by whether they depend on the step."""

from collections.abc import Sequence, Set
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.extend import core
from jaxtyping import Array, PyTree

from lrpt.matrices import WithGradient
from lrpt.recurrence.dependence import depends, is_alike_in_batches
from lrpt.recurrence.interception import Replay, is_of_its_apply, replayed
from lrpt.recurrence.leaves import Distinct, Leaves, accumulators, added, index_by_identity, inexact, is_inexact
from lrpt.recurrence.loops import Step
from lrpt.recurrence.products import Calls
from lrpt.recurrence.residuals import Residuals


class Wanted(NamedTuple):
    """Cotangents that a backward pass has to compute.

    Attributes:
      inputs: whether to compute those of the inputs.
      frozen: places of the arrays of the parameters whose gradients nobody asks for.
    """

    inputs: bool
    frozen: Set[int] = frozenset()


class LinearStep:
    """The reverse-mode derivative of a step, in a form that linearizes many steps in one batch.

    The closure that `jax.vjp` returns is a pytree of residuals. Some depend on the state or the input of the step (activations), the others
    do not (matrices). The jaxpr of the step says which. So a batch of steps has one copy of the matrices.

    Args:
      step: the body of the loop.
      calls: its operator calls.
      params: the cell's parameters.
      carry: state before a step, values or shapes.
      x: input of a step, values or shapes.
      wanted: the cotangents to compute.
    """

    def __init__(self, step: Step, calls: Calls, params: Distinct, carry: PyTree, x: PyTree, wanted: Wanted) -> None:
        self.step, self.calls, self.wanted = step, calls, wanted
        self.arrays, self.build = params
        self._constants = calls.operators(self.arrays), self.arrays
        trace = jax.make_jaxpr(self._linearize, return_shape=True)
        self._jaxpr, (pull, inputs) = trace(*self._constants, carry, x, calls.kept_outputs())
        self._pull_tree, self._input_tree = jax.tree.structure(pull), jax.tree.structure(inputs)
        self._varying = depends(self._jaxpr.jaxpr, len(jax.tree.leaves(self._constants)))[: self._pull_tree.num_leaves]
        residuals = zip(self._jaxpr.jaxpr.outvars, self._varying, strict=False)
        self.is_alike_in_batches = is_alike_in_batches(self._jaxpr.jaxpr)
        self._residuals = Residuals.of(self._jaxpr.jaxpr, [residual for residual, varies in residuals if varies])

    def _linearize(self, operators: list[Any], arrays: list[Array], carry: PyTree, x: PyTree, kept: list[Any]) -> tuple[Any, list[Any]]:
        """Return the closure of `jax.vjp`, and the inputs of the products."""
        params = Leaves.of(self.build(arrays))
        (c, with_c), (raw, with_raw), (dx, with_x) = inexact(carry), inexact(params.raw()), inexact(x)

        def intercepted(c: PyTree, perturbations: Any, raw: Any, dx: PyTree) -> tuple[PyTree, PyTree]:
            replay = Replay(self.calls, operators, arrays, perturbations, dict(zip(self.calls.kept, kept, strict=True)))
            outputs = replay.finish(self.step(replay.intercepted(params, with_raw(raw)), with_c(c), with_x(dx)))
            return [inexact(output)[0] for output in outputs], replay.inputs

        zeros = jax.tree.map(jnp.zeros_like, self.calls.outputs)
        if self.wanted.inputs:
            _, pull, inputs = jax.vjp(intercepted, c, zeros, raw, dx, has_aux=True)
        else:
            _, pull, inputs = jax.vjp(lambda c, zeros, raw: intercepted(c, zeros, raw, dx), c, zeros, raw, has_aux=True)
        return pull, inputs

    def advance(self, carry: PyTree, x: PyTree) -> tuple[Any, list[Any]]:
        """Run a step, as `replayed` does."""
        return replayed(self.step, self.calls, *self._constants, self.build(self.arrays))(carry, x)

    def recompute(self, carry: PyTree, x: PyTree, kept: list[Any]) -> tuple[list[Any], list[Any]]:
        """Compute the residuals to store for a step, and the inputs of its products."""
        values = self._evaluate(carry, x, kept)
        count = len(self._varying)
        residuals = [value for value, varies in zip(values[:count], self._varying, strict=True) if varies]
        return self._residuals.to_store(residuals), jax.tree.unflatten(self._input_tree, values[count:])

    def fixed_residuals(self, carry: PyTree, x: PyTree, kept: list[Any]) -> list[Any]:
        """Compute the residuals that are the same at every step."""
        values = self._evaluate(carry, x, kept)
        return [value for value, varies in zip(values, self._varying, strict=False) if not varies]

    def _evaluate(self, *step: Any) -> list[Any]:
        return core.jaxpr_as_fun(self._jaxpr)(*jax.tree.leaves((self._constants, step)))

    def pull(self, varying: Sequence[Any], fixed: Sequence[Any], cotangents: PyTree) -> tuple[PyTree, PyTree, PyTree, PyTree]:
        """Return the cotangents of a step's carry, its products' outputs, its raw parameters and its input.

        Args:
          varying: stored residuals of this step.
          fixed: residuals that are the same at every step.
          cotangents: cotangents of the carry after the step, and of y.
        """
        changing, constant = iter(self._residuals.all(varying)), iter(fixed)
        vjp = jax.tree.unflatten(self._pull_tree, [next(changing) if varies else next(constant) for varies in self._varying])
        out = vjp(list(cotangents))
        return out if self.wanted.inputs else (*out, [])

    def equal_cotangents(self, varying: Sequence[Any], fixed: Sequence[Any], cotangents: PyTree) -> list[int]:
        """Return for each product the first product with the same output cotangent: the terms of a sum have one cotangent in common.

        The arguments are those of `pull`, as values or shapes. Nothing is computed: two cotangents are the same if they are the same
        variable of the jaxpr.
        """
        variables = jax.make_jaxpr(lambda *args: self.pull(*args)[1])(varying, fixed, cotangents).jaxpr.outvars
        return [next(j for j, other in enumerate(variables) if other is variable) for variable in variables]

    def zeros(self) -> tuple[dict[int, Array], list[Array]]:
        """Return gradient accumulators: of the arrays of operators, by their places, and of the raw parameters."""
        used = {i for product in self.calls.products for part in product.parts for i in part.places} - self.wanted.frozen
        matrices = {i: self.arrays[i] for i in sorted(used) if is_inexact(self.arrays[i])}
        return accumulators((matrices, inexact(self._raw())[0]))

    def _raw(self) -> list[Array]:
        return Leaves.of(self.build(self.arrays)).raw()

    def add_matrix_gradients(
        self, matrices: dict[int, Array], inputs: Sequence[Any], cotangents: Sequence[Any], *, chunk: bool
    ) -> dict[int, Array]:
        """Add the gradients of one step, or of a chunk of steps: a product of inputs and output cotangents for each product of the step.

        Args:
          matrices: sums so far, by place of the array.
          inputs: the input of each product.
          cotangents: the output cotangent of each product.
          chunk: whether inputs and cotangents have a leading axis of steps.
        """
        sums = dict(matrices)
        for product, prepared, v, d_y in zip(self.calls.products, self._constants[0], inputs, cotangents, strict=True):
            if not sums.keys() & {i for part in product.parts for i in part.places}:
                continue
            for i, gradient in product.by_place(_gradient(prepared.operator, v, d_y, chunk), self.arrays):
                if i in sums:
                    sums[i] = added(sums[i], gradient)
        return sums

    def by_array(self, gradients: tuple[dict[int, Array], list[Array]]) -> list[Any]:
        """Return the gradient of each array of the parameters, None if it is not differentiable."""
        matrices, raw = gradients
        place = index_by_identity(self.arrays)
        sums = dict(matrices)
        for array, gradient in zip(inexact(self._raw())[0], raw, strict=True):
            i = place[id(array)]
            sums[i] = sums[i] + gradient if i in sums else gradient
        return [sums[i].astype(a.dtype) if i in sums else zeros_if_inexact(a) for i, a in enumerate(self.arrays)]


def zeros_if_inexact(array: Any) -> Any:
    """Return the gradient of an array that is not used, None if it is not differentiable."""
    return jnp.zeros_like(array) if is_inexact(array) else None


def _gradient(operator: Any, v: Any, cotangent: Any, chunk: bool) -> Any:
    """Compute the gradient of an operator from the rows of one step or of a chunk of steps: its own, or reverse mode's.

    Reverse mode sees the rows of one step at a time, as the step does: `apply` of a user's matrix may know no further axis.
    """
    if isinstance(operator, WithGradient) and is_of_its_apply(type(operator), "gradient"):
        return jax.tree.map(_as_stored, operator.gradient(v, cotangent), operator)
    own, with_own = inexact(operator)

    def applied(own: Any) -> Any:
        apply = with_own(own).apply
        return (jax.vmap(apply) if chunk else apply)(v)

    return with_own(jax.vjp(applied, own)[1](cotangent)[0])


def _as_stored(gradient: Array, own: Array) -> Array:
    """Cast a gradient to the type of its array: a real matrix may have been applied to complex or more precise vectors."""
    return (gradient if jnp.iscomplexobj(own) else jnp.real(gradient)).astype(own.dtype)
