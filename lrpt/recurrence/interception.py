"""Interception of operator calls: a step runs with operators whose `apply` records its input and may perturb its output.

`Survey` lists the calls of a step. `Replay` runs the step again and answers the same calls by planned products.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from lrpt.matrices import Composite, Projection, is_operator
from lrpt.matrices.fitting import as_input
from lrpt.recurrence.dependence import depends
from lrpt.recurrence.leaves import Leaves, distinct, index_by_identity, inexact
from lrpt.recurrence.loops import Step, in_words
from lrpt.recurrence.products import Calls, Part, PreparedOperator, Product, is_costly
from lrpt.symbols import input_for


class Interception(ABC):
    """An interception of every operator call of one trace of a step.

    A part that is applied to the same array again, as the projection R that several matrices share, counts as one call. Arrays are compared
    by identity, so all of them are kept here: an identity is unique only among arrays that are alive.

    Args:
      arrays: the arrays of the cell's parameters, each once.
    """

    def __init__(self, arrays: Sequence[Any]) -> None:
        self._arrays = arrays
        self._places = index_by_identity(arrays)
        self._known: dict[tuple[Part, int], tuple[Any, Any]] = {}  # (part, identity of an input) -> (the input, the output)

    @abstractmethod
    def answer(self, operator: Any, part: Part, v: Any) -> Any:
        """Return operator.apply(v); called once for every pair of operator and input."""

    def intercepted(self, params: Leaves, raw: Sequence[Any]) -> Any:
        """Return the parameter tree with intercepted operators and other raw arrays."""
        return params.intercepted(lambda _, operator, v: self.call(operator, v), raw)

    def call(self, operator: Any, v: Any) -> Any:
        """Apply an operator; the parts of a composite one are called one by one, unless a subclass applies it in another way."""
        v = as_input(operator, v) if isinstance(v, list | tuple) else v
        if isinstance(operator, Composite) and is_of_its_apply(type(operator), "apply_by"):
            return operator.apply_by(self.call, input_for(operator, v))
        part = self._part(operator)
        if (part, id(v)) not in self._known:
            self._known[part, id(v)] = v, self.answer(operator, part, input_for(operator, v))
        return self._known[part, id(v)][1]

    def _part(self, operator: Any) -> Part:
        arrays, treedef = jax.tree.flatten(operator)
        if not all(id(array) in self._places for array in arrays):
            raise TypeError(
                f"`apply_by` of a matrix calls a {type(operator).__name__} with arrays that the matrix does not store, so the fast loop "
                f"would lose their gradient: give its parts the stored arrays, or run it with {in_words('plain')}"
            )
        return Part(treedef, tuple(self._places[id(array)] for array in arrays))


def is_of_its_apply(kind: type, method: str) -> bool:
    """Return whether the class that defines the effective `apply` also defines the method, so that the two belong together."""
    names = {"apply", "apply_by", method}
    return next((method in vars(base) for base in kind.__mro__ if vars(base).keys() & names), False)


class Survey(Interception):
    """A list of the calls of a step, grouped into products: projections of the same array are one product.

    Args:
      arrays: the arrays of the cell's parameters, each once, as the step gets them.
      values: the same arrays, to which the calls are applied.
    """

    def __init__(self, arrays: Sequence[Any], values: Sequence[Any]) -> None:
        super().__init__(arrays)
        self._values = values
        self._numbers: dict[Any, int] = {}
        self._members: list[list[tuple[Part, Any]]] = []
        self._pieces: list[tuple[int, slice]] = []
        self._kept: list[int] = []

    def answer(self, operator: Any, part: Part, v: Any) -> Any:
        y = part.of(self._values).apply(v)
        projects = type(operator) is Projection and isinstance(v, jax.Array)  # a subclass may apply its matrix in another way
        key = (id(v), operator.transpose.dtype) if projects else (len(self._pieces),)
        number = self._numbers.setdefault(key, len(self._members))
        if number == len(self._members):
            self._members.append([])
            self._kept += [number] if is_costly(operator, v, y) else []
        start = sum(other.shape[-1] for _, other in self._members[number])
        self._members[number].append((part, jax.typeof(y)))
        self._pieces.append((number, slice(start, start + y.shape[-1])))
        return y

    def calls(self) -> Calls:
        """Return the calls that were recorded."""
        products = [Product(tuple(part for part, _ in members)) for members in self._members]
        return Calls(products, [_side_by_side([y for _, y in members]) for members in self._members], self._pieces, self._kept)


def _side_by_side(outputs: Sequence[Any]) -> jax.ShapeDtypeStruct:
    return jax.eval_shape(lambda outputs: jnp.concatenate(outputs, axis=-1), outputs)


class Replay(Interception):
    """Answers to the calls of one trace of a step by planned products, with a record of the products' inputs.

    Calls are answered in the order of the survey, so a replay serves one trace only, and `finish` must end it.

    Args:
      calls: the calls of the step.
      operators: the operators of its products.
      arrays: the arrays of the cell's parameters, each once.
      perturbations: one for each product, added to its output, for a step that is to be linearized.
      kept: outputs that are known already, by the numbers of their products.
    """

    def __init__(
        self,
        calls: Calls,
        operators: Sequence[PreparedOperator],
        arrays: Sequence[Any],
        perturbations: Sequence[Any] | None = None,
        kept: Mapping[int, Any] | None = None,
    ) -> None:
        super().__init__(arrays)
        self._calls, self._answered = calls, 0
        self._operators, self._kept, self._perturbations = operators, kept or {}, perturbations
        self.outputs: list[Any] = []
        self.inputs: list[Any] = []

    def answer(self, operator: Any, part: Part, v: Any) -> Any:
        number, piece = self._next(part)
        if number == len(self.inputs):
            self.inputs.append(v)
            self.outputs.append(self._first_answer(number, v))
        y = self.outputs[number]
        return y if piece == slice(0, y.shape[-1]) else y[..., piece]

    def _next(self, part: Part) -> tuple[int, slice]:
        """Return which product answers the next call, and with which of its outputs."""
        if self._answered == len(self._calls.pieces):
            raise _impure("more")
        number, piece = self._calls.pieces[self._answered]
        if part not in self._calls.products[number].parts:
            raise _impure("other")
        self._answered += 1
        return number, piece

    def _first_answer(self, number: int, v: Any) -> Any:
        if self._perturbations is None:
            return self._operators[number].apply(v)
        return self._operators[number].linearized(v, self._kept.get(number)) + self._perturbations[number]

    def finish(self, results: Any) -> Any:
        """Return the results of the step, once all calls of the survey were made.

        Raises:
          RuntimeError: the step made fewer calls than the survey.
        """
        if self._answered < len(self._calls.pieces):
            raise _impure("fewer")
        return results


def _impure(difference: str) -> RuntimeError:
    return RuntimeError(
        f"a cell made {difference} matrix calls than when it was traced before: a step must be a pure function of its parameters, state "
        f"and input, and make the same calls each time"
    )


def trace_calls(step: Step, params: PyTree, carry: PyTree, x: PyTree) -> Calls:
    """Return the calls of a step; it is traced, not run.

    The trace also tells which arrays of operators the step's results depend on other than through calls. The fast loop would lose that part
    of their gradients.

    Raises:
      AttributeError: the step reads something of an operator other than `apply`.
      TypeError: an operator is made of parts that are not stored in it, or uses an array outside of calls.
    """
    arrays, build = distinct(params)
    floats, with_floats = inexact(arrays)
    raw = Leaves.of(params).raw()
    found: list[Calls] = []  # not surveys, which hold tracers: `jax.checking_leaks` refuses those that outlive their trace

    def results(floats: Sequence[Any], carry: PyTree, x: PyTree) -> list[Any]:
        given = with_floats(floats)
        survey = Survey(given, arrays)
        values = inexact(step(survey.intercepted(Leaves.of(build(given)), raw), carry, x))[0]
        found.append(survey.calls())
        return values

    used = have_gradient(results, floats, carry, x) if uses_any(results, floats, carry, x) else []
    if any(used):
        _refuse_use(params, [array for array, is_used in zip(floats, used, strict=True) if is_used])
    return found[-1]


def uses_any(results: Callable[..., list[Any]], floats: Sequence[Any], carry: PyTree, x: PyTree) -> bool:
    """Return whether a result may depend on one of the arrays. This needs no reverse pass, so it is faster than `have_gradient`."""
    jaxpr = jax.make_jaxpr(lambda carry, x, floats: results(floats, carry, x))(carry, x, floats).jaxpr
    return any(depends(jaxpr, len(jax.tree.leaves((carry, x)))))


def have_gradient(results: Callable[..., list[Any]], floats: Sequence[Any], carry: PyTree, x: PyTree) -> list[bool]:
    """Return which of the arrays have a gradient, where `results` is a function of (arrays, carry, x). It is traced, not run."""

    def gradients(carry: PyTree, x: PyTree, factor: Any) -> Any:
        ys, pull = jax.vjp(lambda floats: results(floats, carry, x), floats)
        return pull([(factor * y).astype(y.dtype) for y in ys])[0]  # cotangents of the types of the results, and known by the factor

    return depends(jax.make_jaxpr(gradients)(carry, x, 1.0).jaxpr, len(jax.tree.leaves((carry, x))))


def _refuse_use(params: PyTree, used: Sequence[Any]) -> None:
    """Raise a TypeError that names the first operator with one of the arrays, and its field."""
    known = index_by_identity(used)
    for operator in filter(is_operator, Leaves.of(params).leaves):
        for path, array in jax.tree_util.tree_leaves_with_path(operator):
            if id(array) in known:
                raise TypeError(
                    f"{type(operator).__name__} uses its array {jax.tree_util.keystr(path)} outside of `call` in `apply_by`, and the fast "
                    f"loop would lose a part of the gradient: call a part that holds the array, such as call(Diagonal(array), v), stop the "
                    f"gradient by jax.lax.stop_gradient, or run it with {in_words('plain')}"
                )


def replayed(step: Step, calls: Calls, operators: Sequence[PreparedOperator], arrays: Sequence[Any], params: PyTree) -> Callable[..., Any]:
    """Return the step with these parameters and planned products: (carry, x) -> ((carry, y), outputs that the backward pass is given)."""
    leaves = Leaves.of(params)

    def body(carry: PyTree, x: PyTree) -> tuple[Any, list[Any]]:
        replay = Replay(calls, operators, arrays)
        results = replay.finish(step(replay.intercepted(leaves, leaves.raw()), carry, x))
        return results, [replay.outputs[number] for number in calls.kept]

    return body
