"""Checks of the arguments of `recur`, which name the argument at fault. All read shapes and types only."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from lrpt.errors import UsageError
from lrpt.recurrence.leaves import Intercepted
from lrpt.recurrence.loops import in_words


def check_arguments(step: Any, carry: PyTree, xs: PyTree, mask: Any, outputs: str) -> None:
    """Check the arguments of `recur`.

    Raises:
      UsageError: the step is no function; inputs, mask and carry do not have the same steps and rows, or not those that are needed; the
        mask is not boolean; there are no inputs.
    """
    if not callable(step):
        given = repr(step) if isinstance(step, str) else f"a {type(step).__name__}"
        raise UsageError(f"the step is {given}: give a function (params, carry, x) -> (carry, (y, info)), such as lrpt.CELLS['gru'].step")
    if mask is not None and jnp.result_type(mask) != jnp.bool_:
        raise UsageError(f"the mask is {jnp.result_type(mask)}: give booleans, true for steps that count, such as mask > 0")
    shapes = [jnp.shape(leaf) for leaf in jax.tree.leaves(xs)]
    if not shapes:
        raise UsageError("the inputs contain no arrays: give arrays of shape (t, b, ...), of width 0 if the cell has no inputs")
    for shape in shapes:
        _check_steps(shape, shapes[0], mask, outputs)
    _check_rows(carry, xs)
    if mask is not None and any(jnp.shape(leaf) == () for leaf in jax.tree.leaves(carry)):
        rows = jnp.shape(mask)[1]
        raise UsageError(f"the carry has an array of shape (), and there is a mask: give it a row for each of {rows} rows, ({rows}, ...)")


def _check_steps(shape: tuple[Any, ...], first: tuple[Any, ...], mask: Any, outputs: str) -> None:
    if mask is not None and jnp.shape(mask) != shape[:2]:
        single = "; a single sequence needs an axis of one row in inputs, mask and carry" if jnp.ndim(mask) == 1 else ""
        raise UsageError(f"the mask has shape {jnp.shape(mask)}, and inputs {shape}: give a mask of shape {shape[:2]}, time first{single}")
    if not shape or shape[0] != first[0]:
        raise UsageError(f"inputs have shapes {first} and {shape}: give arrays with the same number of steps, (t, b, ...), time first")
    if shape[0] == 0 and outputs == "last":
        raise UsageError(f"inputs have shape {shape}, so there is no last step: give one step or more")


def _check_rows(carry: PyTree, xs: PyTree) -> None:
    """Raise a UsageError if the carry has other rows than the inputs. A single sequence without an axis of rows passes."""
    for x in map(jnp.shape, jax.tree.leaves(xs)):
        for h in map(jnp.shape, jax.tree.leaves(carry)):
            is_single = len(h) == 1 and len(x) == 2
            if len(x) > 1 and h and h[0] != x[1] and not is_single:
                swapped = ", or swap the first two axes of the inputs" if h[0] == x[0] else ""
                raise UsageError(
                    f"the carry has shape {h}, and inputs have shape {x}, time first: for {x[0]} steps of {x[1]} rows, give a carry of "
                    f"shape ({x[1]}, ...){swapped}"
                )


def check_rows_of_outputs(outputs: Any, rows: Any) -> None:
    """Raise a UsageError if an output of a step has no axis of rows, along which a mask selects.

    An output without that axis cannot be told apart if its first axis happens to be as long as the batch; it passes.
    """
    for path, leaf in jax.tree_util.tree_leaves_with_path(outputs):
        if jnp.shape(leaf)[:1] != (rows,):
            raise UsageError(
                f"the step has an output of shape {jnp.shape(leaf)} at {jax.tree_util.keystr(path) or 'y'}, and there is a mask: give each "
                f"output a row for each of {rows} rows, ({rows}, ...)"
            )


def checked_step(step: Callable[..., Any]) -> Callable[..., Any]:
    """Return a step that checks its result when it is traced: (carry, (y, info)), with a carry of the given shapes and types.

    An array of two rows would otherwise be read as a pair. A UsageError of the step, and an error about shapes or about integers or complex
    numbers in place of floats, is raised as a UsageError that also names the carry and the input. JAX's errors about traced values explain
    themselves and pass unchanged. Other errors may be the cell's own: they get a note.
    """

    def checked(params: PyTree, carry: PyTree, x: PyTree) -> tuple[Any, tuple[Any, Any]]:
        try:
            result = step(params, carry, x)
        except UsageError as error:
            raise type(error)(f"{error} ({_where(carry, x)})", error.code) from error
        except jax.errors.JAXTypeError:
            raise
        except (AttributeError, TypeError, ValueError) as error:
            if Intercepted.__name__ in str(error) and hasattr(step, "__wrapped__"):
                raise UsageError(
                    f"the step is wrapped in a transformation of JAX, such as jax.jit or jax.checkpoint, which takes arrays only: give the "
                    f"function itself, or use {in_words('plain')}"
                ) from error
            is_of_shapes, line = "shape" in str(error), str(error).partition("\n")[0]
            advice = _integers(carry) or ("" if is_of_shapes else _complex(carry, x))
            if advice and not isinstance(error, AttributeError):
                raise UsageError(f"{advice} ({_where(carry, x)}: {line})") from error
            if isinstance(error, AttributeError) or not is_of_shapes:
                error.add_note(
                    f"with parameters of type {type(params).__name__}, {_where(carry, x)}: give parameters and a carry of the same cell; "
                    f"a matrix is used by .apply(h); a cell of your own names the arrays of its state, if that is not one vector, by "
                    f"Cell(step, template, carry=...)"
                )
                raise
            raise UsageError(f"shapes do not fit {_where(carry, x)}: {line}") from error
        _check_result(result)
        _check_carry(carry, result[0], x)
        return result

    return checked


def of_width(step: Callable[..., Any], width: int) -> Callable[..., Any]:
    """Return a step whose output is checked when it is traced: one row for each sequence, as wide as the cell says."""

    def checked(params: PyTree, carry: PyTree, x: PyTree) -> Any:
        result = step(params, carry, x)
        if _is_pair(result) and _is_pair(result[1]):  # else `checked_step` refuses it
            shape, expected = jnp.shape(result[1][0]), (jax.tree.leaves(x)[0].shape[0], width)
            if shape != expected:
                raise UsageError(
                    f"the step has an output of shape {shape}: expected {expected}, a row for each sequence; a cell of your own says how "
                    f"wide its outputs are by Cell(step, template, output_size=...)"
                )
        return result

    return wraps(step)(checked) if hasattr(step, "__wrapped__") else checked


def _complex(carry: PyTree, x: PyTree) -> str:
    """Return a hint if the carry or the input has complex numbers, which few cells take."""
    types = {name: map(jnp.result_type, jax.tree.leaves(tree)) for name, tree in {"carry": carry, "input": x}.items()}
    found = [f"the {name} is complex" for name, kinds in types.items() if any(jnp.issubdtype(kind, jnp.complexfloating) for kind in kinds)]
    return f"{' and '.join(found)}, which this step does not take: give floats, such as real and imaginary parts" if found else ""


def _where(carry: PyTree, x: PyTree) -> str:
    return f"in a step with the carry {_described(carry)} and the input {_described(x)}"


def _check_result(result: Any) -> None:
    if not (_is_pair(result) and _is_pair(result[1])):
        kinds = f"({', '.join(map(_kind, result))})" if isinstance(result, tuple) else _kind(result)
        raise UsageError(f"the step of a cell returned {kinds}: return (carry, (y, info)), where info may be None")


def _kind(value: Any) -> str:
    """Return type and shape of an array, which is a tracer here, and the type of anything else."""
    return _described(value) if isinstance(value, jax.Array | np.ndarray) else type(value).__name__


def _is_pair(value: Any) -> bool:
    return isinstance(value, tuple | list) and len(value) == 2


def _check_carry(before: PyTree, after: PyTree, x: PyTree) -> None:
    pairs = zip(jax.tree.leaves(before), jax.tree.leaves(after), strict=False)
    if jax.tree.structure(before) != jax.tree.structure(after) or not all(_same(old, new) for old, new in pairs):
        integers = _integers(before)
        is_other = jax.tree.structure(before) != jax.tree.structure(after)
        own = "; a cell of your own names the arrays of its state by Cell(step, template, carry=...)" if is_other else ""
        raise UsageError(
            f"the step changed the carry from {_described(before)} to {_described(after)}, with the input {_described(x)}: pass a carry "
            f"with the shape and dtype that the step returns, or inputs of the carry's dtype{own}{integers and f'; {integers}'}"
        )


def _integers(carry: PyTree) -> str:
    """Return a hint if all arrays of the carry hold integers or booleans, as zeros of a wrong type do. Scalars may be counters."""
    types = {jnp.result_type(leaf) for leaf in jax.tree.leaves(carry) if jnp.ndim(leaf)}
    if not types or not all(jnp.issubdtype(kind, jnp.integer) or kind == jnp.bool_ for kind in types):
        return ""
    return f"the carry is {', '.join(sorted(map(str, types)))}: give floats, as zero_carry of the cell returns them"


def _same(old: PyTree, new: PyTree) -> bool:
    """Return whether two leaves have one shape and type. `lax.scan` casts numbers whose type is not fixed."""
    weak = getattr(old, "weak_type", not hasattr(old, "dtype"))
    return jnp.shape(old) == jnp.shape(new) and (weak or jnp.result_type(old) == jnp.result_type(new))


def _described(tree: PyTree) -> str:
    """Return types and shapes of the leaves of a tree: 'float32 (4, 8)'."""
    return ", ".join(f"{jnp.result_type(leaf)} {jnp.shape(leaf)}" for leaf in jax.tree.leaves(tree)) or "None"
