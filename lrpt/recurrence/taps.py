"""Seeing what a cell does with its matrices: every call of an operator, its input, and a place to hang the cotangent of its output."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax

from lrpt.matrices import Composite, Projection
from lrpt.recurrence.leaves import Leaves, distinct, places
from lrpt.recurrence.loops import Step
from lrpt.recurrence.products import Calls, Part, Product, Ready, is_costly


class Watch(ABC):
    """Sees every call of an operator in a step.

    A part that is applied to the same vector again, as the projection R that several matrices share, counts as one call.
    """

    def __init__(self, arrays: Sequence[Any]) -> None:
        self._places = places(arrays)
        self._known: dict[tuple[Part, int], Any] = {}

    @abstractmethod
    def answer(self, operator: Any, part: Part, v: Any) -> Any:
        """operator.apply(v), which was not asked for before."""

    def tapped(self, params: Leaves, raw: Sequence[Any]) -> Any:
        """The tree with operators whose calls are seen, and other raw arrays."""
        return params.tapped(lambda _, operator, v: self.call(operator, v), raw)

    def call(self, operator: Any, v: Any) -> Any:
        """operator.apply(v), seen."""
        if isinstance(operator, Composite):
            return operator.apply_by(self.call, v)
        part = self._part(operator)
        if (part, id(v)) not in self._known:
            self._known[part, id(v)] = self.answer(operator, part, v)
        return self._known[part, id(v)]

    def _part(self, operator: Any) -> Part:
        arrays, treedef = jax.tree.flatten(operator)
        if not all(id(array) in self._places for array in arrays):
            raise TypeError(
                f"a matrix is made of a {type(operator).__name__} whose arrays are none of its own, and whose gradient the fast loop would "
                f"lose: give the parts in `apply_by` arrays as they are stored, or run it with recurrence 'plain'"
            )
        return Part(treedef, tuple(self._places[id(array)] for array in arrays))


class Survey(Watch):
    """Finds out which calls there are, and which of them one product can answer."""

    def __init__(self, arrays: Sequence[Any]) -> None:
        super().__init__(arrays)
        self._inputs: list[Any] = []  # kept alive: they are told apart by their identity
        self._numbers: dict[Any, int] = {}
        self._members: list[list[tuple[Part, Any]]] = []
        self._pieces: list[tuple[int, slice]] = []
        self._kept: list[int] = []

    def answer(self, operator: Any, part: Part, v: Any) -> Any:
        y = operator.apply(v)
        self._inputs.append(v)
        projects = isinstance(operator, Projection) and isinstance(v, jax.Array)
        number = self._numbers.setdefault(id(v) if projects else (len(self._pieces),), len(self._members))
        if number == len(self._members):
            self._members.append([])
            self._kept += [number] if is_costly(operator, v, y) else []
        start = sum(other.shape[-1] for _, other in self._members[number])
        self._members[number].append((part, y))
        self._pieces.append((number, slice(start, start + y.shape[-1])))
        return y

    def calls(self) -> Calls:
        """What was seen."""
        products = [Product(tuple(part for part, _ in members)) for members in self._members]
        return Calls(products, [_side_by_side([y for _, y in members]) for members in self._members], self._pieces, self._kept)


def _side_by_side(outputs: Sequence[Any]) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct((*outputs[0].shape[:-1], sum(y.shape[-1] for y in outputs)), outputs[0].dtype)


class Replay(Watch):
    """Answers the calls of a step as planned, and keeps the input of each product.

    Args:
      calls: those of the step.
      operators: those of its products.
      arrays: those of the parameters.
      perturbations: one for each product, added to its output, for a step that is to be linearized.
      kept: outputs that are known already, by the numbers of their products.
    """

    def __init__(
        self,
        calls: Calls,
        operators: Sequence[Ready],
        arrays: Sequence[Any],
        perturbations: Sequence[Any] | None = None,
        kept: Mapping[int, Any] | None = None,
    ) -> None:
        super().__init__(arrays)
        self._pieces, self._operators, self._kept, self._perturbations = iter(calls.pieces), operators, kept or {}, perturbations
        self.outputs: list[Any] = []
        self.inputs: list[Any] = []

    def answer(self, operator: Any, part: Part, v: Any) -> Any:
        number, piece = next(self._pieces)
        if number == len(self.inputs):
            self.inputs.append(v)
            self.outputs.append(self._first_answer(number, v))
        y = self.outputs[number]
        return y if piece == slice(0, y.shape[-1]) else y[..., piece]

    def _first_answer(self, number: int, v: Any) -> Any:
        if self._perturbations is None:
            return self._operators[number].apply(v)
        return self._operators[number].linearized(v, self._kept.get(number)) + self._perturbations[number]


def trace_calls(step: Step, params: Any, carry: Any, x: Any) -> Calls:
    """The calls of a step, by tracing it alone.

    Raises:
      AttributeError: the step reads something of an operator other than `apply`.
      TypeError: an operator is made of parts that are not stored in it.
    """
    survey = Survey(distinct(params)[0])
    leaves = Leaves.of(params)
    jax.eval_shape(lambda carry, x: step(survey.tapped(leaves, leaves.raw()), carry, x), carry, x)
    return survey.calls()


def replayed(step: Step, calls: Calls, operators: Sequence[Ready], arrays: Sequence[Any], params: Any) -> Callable[[Any, Any], Any]:
    """A step with these parameters, whose matrices are applied as planned: (carry, x) -> (carry, y), and the outputs that are kept."""
    leaves = Leaves.of(params)

    def body(carry: Any, x: Any) -> tuple[Any, list[Any]]:
        replay = Replay(calls, operators, arrays)
        return step(replay.tapped(leaves, leaves.raw()), carry, x), [replay.outputs[number] for number in calls.kept]

    return body
