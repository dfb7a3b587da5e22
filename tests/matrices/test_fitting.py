"""Parts of an operator that do not fit each other, or not its input, are one line; what JAX puts into a pytree passes."""

import re
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from matrix_kinds import OF_WIDTH_8, ones

from lrpt.errors import UsageError
from lrpt.matrices import (
    Circulant,
    Dense,
    Kronecker,
    LowRank,
    Monarch,
    Sum,
    SymbolInputs,
    ToeplitzLike,
    low_rank_plus_diagonal,
)
from lrpt.recurrence import LOOPS, recur

NARROW = LowRank(ones((1, 8)), ones((2, 8)))
MISFITS = {
    "low rank": (NARROW, r"LowRank has left \(1, 8\) and right \(2, 8\): give left \(d, o\) and right \(d, i\), where equal letters"),
    "sum": (low_rank_plus_diagonal(ones((2, 8)), ones((2, 8)), ones(1)), r"Sum has LowRank \(8, 8\) and Diagonal \(1, 1\): give"),
    "term": (low_rank_plus_diagonal(ones((3, 8)), ones((2, 8)), ones(8)), r"LowRank has left \(3, 8\) and right \(2, 8\)"),
    "in symbols": (SymbolInputs(NARROW, 8), r"LowRank has left \(1, 8\)"),
    "axes": (Dense(ones(8)), r"Dense has kernel \(8,\): give kernel \(i, o\)"),
    "more axes": (Dense(ones((8, 8, 2))), r"Dense has kernel \(8, 8, 2\): give kernel \(i, o\)"),
    "monarch": (Monarch(ones((2, 4, 4)), ones((4, 3, 3))), r"Monarch has first \(2, 4, 4\) and second \(4, 3, 3\)"),
    "kronecker": (Kronecker(ones((1, 2, 2)), ones((2, 4, 4))), r"Kronecker has outer \(1, 2, 2\) and inner \(2, 4, 4\)"),
    "toeplitz": (ToeplitzLike(ones((1, 8)), ones((2, 8))), r"ToeplitzLike has circulant \(1, 8\) and skew \(2, 8\)"),
}


@pytest.mark.parametrize("kind", MISFITS)
def test_parts_that_do_not_fit_are_one_line(kind):
    matrix, says = MISFITS[kind]
    for use in (lambda: matrix.apply(jnp.ones((1, 8))), lambda: jax.eval_shape(jax.jit(matrix.apply), jnp.ones((1, 8)))):
        with pytest.raises(UsageError, match=says) as error:
            use()
        assert "\n" not in str(error.value)


@pytest.mark.parametrize("kind", ["low rank", "sum", "kronecker"])
def test_parts_that_do_not_fit_are_not_multiplied_out(kind):
    matrix, says = MISFITS[kind]
    with pytest.raises(UsageError, match=says):
        matrix.to_dense()


@pytest.mark.parametrize("matrix", OF_WIDTH_8, ids=lambda matrix: type(matrix).__name__)
@pytest.mark.parametrize("shape", [(3, 1), (3, 16), ()])
def test_inputs_of_another_width_are_one_line(matrix, shape):
    says = f"takes vectors of width 8, and its input has shape {shape}: give an input of shape (..., 8)"
    with pytest.raises(UsageError, match=f"^{type(matrix).__name__} with .* {re.escape(says)}$") as error:
        matrix.apply(jnp.ones(shape))
    assert "\n" not in str(error.value)


LIST: Any = [[1.0, 2.0], [3.0, 4.0]]
NO_PARTS = {
    "no terms": (Sum(()), "Sum has no terms: give a tuple of one matrix or more, such as Sum"),
    "no tuple": (Sum(Dense(ones((2, 2)))), "Sum has a Dense as its terms: give a tuple of one matrix or more, such as Sum"),  # type: ignore[arg-type]
    "a list": (Dense(LIST), r"Dense has a list as its kernel: give an array of shape \(i, o\)"),
    "a list in a sum": (Sum((Dense(LIST),)), r"Dense has a list as its kernel: give an array of shape \(i, o\)"),
    "nothing": (Circulant(None), r"Circulant has None as its first_row: give an array of shape \(n\)"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("kind", NO_PARTS)
def test_parts_that_are_none_are_one_line(kind):
    matrix, says = NO_PARTS[kind]
    for use in (lambda: matrix.apply(jnp.ones(2)), matrix.to_dense):
        with pytest.raises(UsageError, match=f"^{says}") as error:
            use()
        assert "\n" not in str(error.value)


@pytest.mark.parametrize("use", [lambda: Sum(()).shape, lambda: Sum(()).work()], ids=["shape", "work"])
def test_a_sum_without_terms_has_no_size(use):
    with pytest.raises(UsageError, match="Sum has no terms"):
        use()


@pytest.mark.parametrize(
    "v", [None, "ab", {"a": 1.0}, [[1.0], [1.0, 2.0]], [None], object()], ids=["none", "str", "dict", "ragged", "of none", "object"]
)
@pytest.mark.parametrize("matrix", [Dense(ones((2, 3))), low_rank_plus_diagonal(ones((1, 2)), ones((1, 2)), ones(2))], ids=["dense", "sum"])
def test_inputs_that_are_no_arrays_are_one_line(matrix, v):
    says = f"the input of {type(matrix).__name__}.apply is .* that JAX cannot read as an array: give an array of vectors, .* or of integers"
    with pytest.raises(UsageError, match=says) as error:
        matrix.apply(v)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("v", [[1.0, 2.0], (1, 2.0), [[1.0, 2.0], [3.0, 4.0]], [1, 0], 1])
def test_lists_of_numbers_are_arrays(v):
    for matrix in (Dense(ones((2, 3))), Circulant(jnp.array([1.0, 2.0])), low_rank_plus_diagonal(ones((1, 2)), ones((1, 2)), ones(2))):
        np.testing.assert_array_equal(matrix.apply(v), matrix.apply(jnp.asarray(v)))


@pytest.mark.parametrize("loop", LOOPS)
def test_a_cell_may_give_a_list(loop):
    def step(matrix, h, x, read=lambda rows: rows):
        y = matrix.apply(read([h[0], x[0]])) + matrix.apply(read((x[0], h[0])))
        return y[:1], (y, None)

    def gradient(step):
        def loss(matrix):
            return jnp.sum(recur(step, matrix, jnp.ones((1, 2)), jnp.ones((3, 1, 2)), loop=loop)[1])

        return jax.value_and_grad(loss)(Dense(jnp.array([[0.5, 0.25], [0.125, 1.0]])))

    jax.tree.map(np.testing.assert_array_equal, gradient(step), gradient(partial(step, read=jnp.stack)))


def test_symbols_have_no_width():
    assert LowRank(ones((2, 4)), ones((2, 8))).apply(jnp.array([7, 0, 3])).shape == (3, 4)


def test_batches_placeholders_and_shapes_pass():
    v, batch, axes = jnp.ones((3, 8)), LowRank(jnp.ones((5, 2, 4)), jnp.ones((2, 8))), LowRank(0, None)  # type: ignore[arg-type]
    assert jax.vmap(lambda matrix: matrix.apply(v), in_axes=(axes,))(batch).shape == (5, 3, 4)
    shapes = jax.eval_shape(lambda: LowRank(jnp.ones((2, 4)), jnp.ones((2, 8))))
    assert jax.eval_shape(lambda matrix: matrix.apply(v), shapes).shape == (3, 4)
    nothing = jax.tree.map(lambda _: None, batch)
    assert (type(nothing), nothing.left, nothing.right) == (LowRank, None, None)
