"""One step of a cell as a linear map of cotangents, with what depends on the step told apart from what does not."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend import core

from lrpt.recurrence.loops import Step
from lrpt.recurrence.taps import Leaves, Record, inexact, is_operator, trace_calls


class LinearStep:
    """The reverse-mode derivative of a step, taken apart so that many steps can be linearized in one batch.

    The closure that `jax.vjp` returns is a pytree of residuals. Those that depend on the state or the input of the step (activations) are
    told from those that do not (matrices) by following the step's jaxpr, so that batching over steps does not copy matrices.

    Args:
      params: the cell's parameters.
      carry: state before the step, values or shapes.
      x: input of the step, values or shapes.
      wants_x: whether the cotangent of the input is asked for.
    """

    def __init__(self, step: Step, params: Leaves, carry: Any, x: Any, wants_x: bool) -> None:
        self.step, self.params, self.wants_x = step, params, wants_x
        record = trace_calls(step, params, carry, x)
        self._operators, self._perturbations = record.operators, record.outputs
        self._residuals = jax.make_jaxpr(self._trace)(params.leaves, carry, x)
        self._varying = _depends(self._residuals.jaxpr, len(jax.tree.leaves(params.leaves)))[: self._vjp_tree.num_leaves]

    def _trace(self, leaves: list[Any], carry: Any, x: Any) -> list[Any]:
        """Residuals, then the inputs of the operators; notes their structures on the way."""
        params = Leaves(leaves, self.params.treedef)
        (c, with_c), (raw, with_raw), (dx, with_x) = inexact(carry), inexact(params.raw()), inexact(x)

        def tapped(c: Any, perturbations: Any, raw: Any, dx: Any) -> tuple[Any, Any]:
            record = Record(perturbations)
            outputs = self.step(params.tapped(record, with_raw(raw)), with_c(c), with_x(dx))
            return [inexact(output)[0] for output in outputs], record.inputs

        zeros = [jnp.zeros(p.shape, p.dtype) for p in self._perturbations]
        if self.wants_x:
            _, pull, inputs = jax.vjp(tapped, c, zeros, raw, dx, has_aux=True)
        else:
            _, pull, inputs = jax.vjp(lambda c, zeros, raw: tapped(c, zeros, raw, dx), c, zeros, raw, has_aux=True)
        residuals, self._vjp_tree = jax.tree.flatten(pull)
        flat, self._input_tree = jax.tree.flatten(inputs)
        return residuals + flat

    def advance(self, carry: Any, x: Any) -> tuple[Any, None]:
        """The state after a step, as the body of a scan without outputs."""
        return self.step(self.params.treedef.unflatten(self.params.leaves), carry, x)[0], None

    def recompute(self, carry: Any, x: Any) -> tuple[list[Any], list[Any]]:
        """The residuals of a step that depend on it, and the inputs of its operators."""
        values = self._evaluate(carry, x)
        count = len(self._varying)
        residuals = [value for value, varies in zip(values[:count], self._varying, strict=True) if varies]
        return residuals, jax.tree.unflatten(self._input_tree, values[count:])

    def fixed(self, carry: Any, x: Any) -> list[Any]:
        """The residuals that are the same at every step."""
        values = self._evaluate(carry, x)
        return [value for value, varies in zip(values, self._varying, strict=False) if not varies]

    def _evaluate(self, carry: Any, x: Any) -> list[Any]:
        return core.jaxpr_as_fun(self._residuals)(*jax.tree.leaves((self.params.leaves, carry, x)))

    def pull(self, varying: Sequence[Any], fixed: Sequence[Any], cotangents: Any) -> tuple[Any, Any, Any, Any]:
        """Cotangents of a step's (carry, y) -> of its state, its operators' outputs, its raw parameters and its input."""
        changing, constant = iter(varying), iter(fixed)
        vjp = jax.tree.unflatten(self._vjp_tree, [next(changing) if varies else next(constant) for varies in self._varying])
        out = vjp(list(cotangents))
        return out if self.wants_x else (*out, [])

    def zeros(self) -> tuple[list[list[Any]], list[Any]]:
        """Gradients of nothing yet: of each operator's arrays, and of the raw parameters."""
        matrices = [inexact(leaf)[0] for leaf in self.params.leaves if is_operator(leaf)]
        return jax.tree.map(jnp.zeros_like, (matrices, inexact(self.params.raw())[0]))

    def add_matrix_gradients(self, matrices: list[list[Any]], inputs: Sequence[Any], cotangents: Sequence[Any]) -> list[list[Any]]:
        """Adds each call's share: the inputs and output cotangents of many steps meet in one product."""
        position = {leaf: i for i, leaf in enumerate(i for i, leaf in enumerate(self.params.leaves) if is_operator(leaf))}
        matrices = list(matrices)
        for leaf, v, d_y in zip(self._operators, inputs, cotangents, strict=True):
            arrays, with_arrays = inexact(self.params.leaves[leaf])
            _, pull = jax.vjp(lambda arrays, v=v, whole=with_arrays: whole(arrays).apply(v), arrays)
            at = position[leaf]
            matrices[at] = jax.tree.map(jnp.add, matrices[at], pull(d_y)[0])
        return matrices

    def by_array(self, gradients: tuple[list[list[Any]], list[Any]]) -> list[Any]:
        """Gradients as a flat list with an entry for each array of the parameters, None for what has no derivative."""
        matrices, raw = iter(gradients[0]), iter(gradients[1])
        arrays: list[Any] = []
        for leaf in self.params.leaves:
            own = iter(next(matrices)) if is_operator(leaf) else raw
            arrays += [next(own) if jnp.issubdtype(a.dtype, jnp.inexact) else None for a in jax.tree.leaves(leaf)]
        return arrays


def _depends(jaxpr: Any, first: int) -> list[bool]:
    """For each result, whether it depends on an argument from number `first` on."""
    reached = set(jaxpr.invars[first:])
    for equation in jaxpr.eqns:
        if any(not isinstance(v, core.Literal) and v in reached for v in equation.invars):
            reached.update(equation.outvars)
    return [not isinstance(v, core.Literal) and v in reached for v in jaxpr.outvars]
