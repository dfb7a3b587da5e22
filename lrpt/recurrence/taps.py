"""Seeing what a cell does with its matrices: every call of an operator, its input, and a place to hang the cotangent of its output."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array

from lrpt.matrices import Composite, Dense, Projection, apart, beside, stored_both_ways
from lrpt.recurrence.loops import Step

COSTLY = 256
"""A component of a product with vectors of so many components takes longer to compute than to store and to read again."""


def is_operator(leaf: Any) -> bool:
    """Whether a node of a parameter tree is used by `apply`; everything else is a raw array to the loop."""
    return callable(getattr(leaf, "apply", None))


class Part(NamedTuple):
    """An operator that is not made of others, by the places of its arrays among those of the parameters."""

    treedef: Any
    places: tuple[int, ...]

    def of(self, arrays: Sequence[Any]) -> Any:
        """The operator itself."""
        return self.treedef.unflatten([arrays[i] for i in self.places])


class Product(NamedTuple):
    """A part; or several projections of the same vector, as one whose outputs stand side by side: a wider product takes less time."""

    parts: tuple[Part, ...]

    def of(self, arrays: Sequence[Any]) -> Any:
        """The operator itself."""
        operators = [part.of(arrays) for part in self.parts]
        return operators[0] if len(operators) == 1 else beside(operators)

    def by_place(self, gradient: Any, arrays: Sequence[Any]) -> Iterator[tuple[int, Any]]:
        """The gradient of each array, with its place among those of the parameters."""
        if len(self.parts) > 1:
            gradient = apart(gradient, [arrays[part.places[0]].shape[0] for part in self.parts])
        places = [i for part in self.parts for i in part.places]
        yield from zip(places, jax.tree.leaves(gradient), strict=True)


class Ready(NamedTuple):
    """An operator ready for a loop, with copies that are made before it.

    A few rows times a matrix takes a CPU up to 1.8 times as long if the matrix is stored as its transpose. So it is stored both ways: one
    for the steps forward, the other for those of the backward pass, which multiply by the transpose.
    """

    operator: Any
    kernel: Array | None
    transpose: Array | None

    @staticmethod
    def of(operator: Any) -> "Ready":
        return Ready(operator, *stored_both_ways(operator))

    def apply(self, v: Any) -> Any:
        """operator.apply(v)."""
        return self.operator.apply(v) if self._looks_up(v) else v @ self.kernel

    def linearized(self, v: Any, y: Any = None) -> Any:
        """The same with a derivative that multiplies by `transpose`; y, if it is known, saves making it."""
        if self._looks_up(v):
            return self.operator.apply(v)
        return _product(v, self.transpose, self.apply(v) if y is None else y)

    def _looks_up(self, v: Any) -> bool:
        return self.kernel is None or not isinstance(v, jax.Array) or not is_inexact(v)


@jax.custom_jvp
def _product(v: Array, transpose: Array, y: Array) -> Array:
    """y, which is v @ transpose.T, with the derivative of that by v."""
    return y


@_product.defjvp
def _product_jvp(primals: tuple[Array, Array, Array], tangents: tuple[Array, Any, Any]) -> tuple[Array, Array]:
    _, transpose, y = primals
    return y, jnp.tensordot(tangents[0], transpose, ((-1,), (1,)))


class Calls(NamedTuple):
    """What a step does with its matrices, which is the same at every step.

    Attributes:
      products: in the order in which they are needed first.
      outputs: what each gives.
      pieces: of each call, in order: which product answers it, and with which of its outputs.
      kept: the products whose outputs the backward pass is given, as to have them again costs more than to store them.
    """

    products: list[Product]
    outputs: list[jax.ShapeDtypeStruct]
    pieces: list[tuple[int, slice]]
    kept: list[int]

    def kept_outputs(self) -> list[jax.ShapeDtypeStruct]:
        """What the products give whose outputs are kept."""
        return [self.outputs[number] for number in self.kept]

    def values(self) -> int:
        """Values of the largest output: batch size times width."""
        return max((math.prod(output.shape) for output in self.outputs), default=1)

    def operators(self, arrays: Sequence[Any]) -> list[Ready]:
        """Those of the products."""
        return [Ready.of(product.of(arrays)) for product in self.products]


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

    def tapped(self, params: "Leaves", raw: Sequence[Any]) -> Any:
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
            self._kept += [number] if _is_costly(operator, v, y) else []
        start = sum(other.shape[-1] for _, other in self._members[number])
        self._members[number].append((part, y))
        self._pieces.append((number, slice(start, start + y.shape[-1])))
        return y

    def calls(self) -> Calls:
        """What was seen."""
        products = [Product(tuple(part for part, _ in members)) for members in self._members]
        return Calls(products, [_side_by_side([y for _, y in members]) for members in self._members], self._pieces, self._kept)


def _is_costly(operator: Any, v: Any, y: Any) -> bool:
    """Whether the product of a vector and a full matrix is kept: it makes little of much, or much of very much."""
    if not isinstance(operator, Dense | Projection) or not isinstance(v, jax.Array) or not is_inexact(v):
        return False
    return v.shape[-1] >= min(2 * y.shape[-1], COSTLY)


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


class Tapped:
    """An operator whose calls go through a function, and which has nothing but `apply`."""

    __slots__ = ("_call", "_kind")

    def __init__(self, call: Callable[[Any], Any], kind: str) -> None:
        self._call, self._kind = call, kind

    def apply(self, v: Any) -> Any:
        return self._call(v)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"a cell read .{name} of a {self._kind} matrix, whose gradient the fast loop would lose: use only apply(v) in a step, "
            f"or run it with recurrence 'plain'"
        )


class Leaves(NamedTuple):
    """A parameter tree with its operators whole: `leaves` are operators and raw arrays."""

    leaves: list[Any]
    treedef: Any

    @staticmethod
    def of(params: Any) -> "Leaves":
        return Leaves(*jax.tree.flatten(params, is_leaf=is_operator))

    def raw(self) -> list[Any]:
        return [leaf for leaf in self.leaves if not is_operator(leaf)]

    def tapped(self, call: Callable[[int, Any, Any], Any], raw: Sequence[Any]) -> Any:
        """The tree with its operators applied by `call(which leaf, operator, v)` and its raw arrays replaced."""
        rest = iter(raw)
        taps = (
            Tapped(partial(call, i, leaf), type(leaf).__name__) if is_operator(leaf) else next(rest) for i, leaf in enumerate(self.leaves)
        )
        return self.treedef.unflatten(taps)


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


def distinct(params: Any) -> tuple[list[Any], Callable[[Sequence[Any]], Any]]:
    """The arrays of a tree, those that stand in it more than once only once, and a function that builds the tree from them."""
    leaves, treedef = jax.tree.flatten(params)
    arrays = list({id(leaf): leaf for leaf in leaves}.values())
    place = places(arrays)
    of_leaves = [place[id(leaf)] for leaf in leaves]
    return arrays, lambda new: treedef.unflatten([new[i] for i in of_leaves])


def places(arrays: Sequence[Any]) -> dict[int, int]:
    """Where each array stands, by its identity."""
    return {id(array): i for i, array in enumerate(arrays)}


def is_inexact(array: Any) -> bool:
    """Whether it can be differentiated."""
    return jnp.issubdtype(jnp.result_type(array), jnp.inexact)


def inexact(tree: Any) -> tuple[list[Any], Callable[[Sequence[Any]], Any]]:
    """The leaves of a tree that can be differentiated, and a function that puts others in their place."""
    leaves, treedef = jax.tree.flatten(tree)
    floating = [is_inexact(leaf) for leaf in leaves]

    def replace(new: Sequence[Any]) -> Any:
        rest = iter(new)
        return treedef.unflatten(next(rest) if f else leaf for leaf, f in zip(leaves, floating, strict=True))

    return [leaf for leaf, f in zip(leaves, floating, strict=True) if f], replace
