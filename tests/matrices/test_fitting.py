"""Parts of an operator that do not fit each other, or not its input, are one line; what JAX puts into a pytree passes."""

import re
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lrpt.errors import UsageError
from lrpt.matrices import (
    BlockDiagonal,
    Circulant,
    Dense,
    Diagonal,
    Householder,
    Kronecker,
    LowRank,
    Monarch,
    Projection,
    Reflection,
    Rotation,
    Sparse,
    Sum,
    SymbolInputs,
    ToeplitzLike,
    low_rank_plus_diagonal,
)

ones = partial(np.ones, dtype=np.float32)
NARROW = LowRank(ones((1, 8)), ones((2, 8)))
MISFITS = {
    "low rank": (NARROW, r"LowRank has left \(1, 8\) and right \(2, 8\): give left \(d, o\) and right \(d, i\), where equal letters"),
    "sum": (low_rank_plus_diagonal(ones((2, 8)), ones((2, 8)), ones(1)), r"Sum has LowRank \(8, 8\) and Diagonal \(1, 1\): give"),
    "term": (low_rank_plus_diagonal(ones((3, 8)), ones((2, 8)), ones(8)), r"LowRank has left \(3, 8\) and right \(2, 8\)"),
    "in symbols": (SymbolInputs(NARROW, 8), r"LowRank has left \(1, 8\)"),
    "axes": (Dense(ones(8)), r"Dense has kernel \(8,\): give kernel \(i, o\)"),
    "monarch": (Monarch(ones((2, 4, 4)), ones((4, 3, 3))), r"Monarch has first \(2, 4, 4\) and second \(4, 3, 3\)"),
    "kronecker": (Kronecker(ones((1, 2, 2)), ones((2, 4, 4))), r"Kronecker has outer \(1, 2, 2\) and inner \(2, 4, 4\)"),
    "toeplitz": (ToeplitzLike(ones((1, 8)), ones((2, 8))), r"ToeplitzLike has circulant \(1, 8\) and skew \(2, 8\)"),
}
OF_WIDTH_8 = [
    Dense(ones((8, 4))),
    Projection(ones((4, 8))),
    Diagonal(ones(8)),
    Rotation(ones(8)),
    Reflection(ones(16)),
    LowRank(ones((2, 4)), ones((2, 8))),
    BlockDiagonal(ones((2, 4, 4))),
    Monarch(ones((2, 4, 4)), ones((4, 2, 2))),
    Kronecker(ones((1, 2, 2)), ones((1, 4, 4))),
    Circulant(ones(8)),
    ToeplitzLike(ones((2, 8)), ones((2, 8))),
    Householder(ones((2, 8))),
    Sparse(ones((4, 2)), 8),
    Sum((Diagonal(ones(8)), Circulant(ones(8)))),
]


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


def test_symbols_have_no_width():
    assert LowRank(ones((2, 4)), ones((2, 8))).apply(jnp.array([7, 0, 3])).shape == (3, 4)


def test_batches_placeholders_and_shapes_pass():
    v, batch, axes = jnp.ones((3, 8)), LowRank(jnp.ones((5, 2, 4)), jnp.ones((2, 8))), LowRank(0, None)  # type: ignore[arg-type]
    assert jax.vmap(lambda matrix: matrix.apply(v), in_axes=(axes,))(batch).shape == (5, 3, 4)
    shapes = jax.eval_shape(lambda: LowRank(jnp.ones((2, 4)), jnp.ones((2, 8))))
    assert jax.eval_shape(lambda matrix: matrix.apply(v), shapes).shape == (3, 4)
    assert jax.tree.map(lambda _: None, batch) == LowRank(None, None)  # type: ignore[arg-type]
