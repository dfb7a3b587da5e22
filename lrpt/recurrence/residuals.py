"""Residuals of a step: which of them a chunk stores, and which the walk back computes from those."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from jax.extend import core
from jaxtyping import Array

CHEAP = frozenset({"add", "sub", "mul", "neg", "square", "integer_pow", "one_minus_square"})
"""Elementwise primitives that take less time than storing their result and reading it again. The last one is in the derivative of tanh
since jax 0.12."""

LONGEST = 4
"""Largest number of cheap equations by which one residual is computed again. More take longer than storing it."""


class Residuals(NamedTuple):
    """The residuals of a step that vary from step to step.

    Reverse mode of a sigmoid u reads u and u (1 - u), that of a tanh m reads m and 1 - m. Only u and m are stored: the other two are sums
    and products of stored residuals, which cost less to compute again than to write and to read.

    Attributes:
      variables: the variable of the jaxpr for each residual.
      stored: those variables that are stored, each once.
      equations: what computes the others from the stored ones, in order.
    """

    variables: list[Any]
    stored: list[Any]
    equations: list[Any]

    @staticmethod
    def of(jaxpr: Any, variables: Sequence[Any]) -> "Residuals":
        """Choose which residuals to store: those that cheap equations cannot compute from earlier residuals.

        Args:
          jaxpr: the step, whose results include the residuals.
          variables: the variables of the residuals in it.
        """
        wanted = set(variables)
        stored = [v for v in jaxpr.invars if v in wanted]
        steps: dict[Any, dict[int, Any]] = {v: {} for v in stored}  # the cheap equations that compute a variable from stored ones
        for equation in jaxpr.eqns:
            arguments = [v for v in equation.invars if not isinstance(v, core.Literal)]
            is_cheap = equation.primitive.name in CHEAP and all(v in steps for v in arguments)
            needed = {i: step for v in arguments for i, step in steps[v].items()} if is_cheap else {}
            if is_cheap and len(needed) < LONGEST:
                steps[equation.outvars[0]] = needed | {id(equation): equation}
                continue
            computed = [v for v in equation.outvars if v in wanted]
            stored += computed
            steps |= {v: {} for v in computed}
        equations = {i: step for v in variables for i, step in steps[v].items()}
        return Residuals(list(variables), stored, list(equations.values()))

    def to_store(self, values: Sequence[Array]) -> list[Array]:
        """Return the values to store, given the values of all residuals."""
        by_variable = dict(zip(self.variables, values, strict=True))
        return [by_variable[v] for v in self.stored]

    def all(self, stored: Sequence[Array]) -> list[Array]:
        """Return the values of all residuals."""
        values = dict(zip(self.stored, stored, strict=True))
        for equation in self.equations:
            arguments = [v.val if isinstance(v, core.Literal) else values[v] for v in equation.invars]
            values[equation.outvars[0]] = equation.primitive.bind(*arguments, **equation.params)
        return [values[v] for v in self.variables]
