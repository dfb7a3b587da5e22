"""Matrices, losses and metrics under strict promotion of types: each mixes no types that it does not cast."""

import jax
import jax.numpy as jnp
import pytest
from matrix_kinds import OF_WIDTH_8, ones

from lrpt.losses import binary_cross_entropy, cross_entropy, squared_error, squared_hinge
from lrpt.matrices import (
    Bias,
    Dense,
    Diagonal,
    Projection,
    Reflection,
    Rotation,
    SymbolInputs,
    ToeplitzLike,
    WithGradient,
    low_rank_plus_diagonal,
)
from lrpt.metrics import accuracy, sums_over_steps
from lrpt.precision import at_least_single
from lrpt.symbols import Weighted

REAL = [
    Bias(ones(8)),
    Dense(ones((2, 4))),
    low_rank_plus_diagonal(ones((2, 8)), ones((2, 8)), ones(8)),
    SymbolInputs(ToeplitzLike(ones((2, 8)), ones((2, 8))), 8),
    *(matrix for matrix in OF_WIDTH_8 if not isinstance(matrix, Rotation | Reflection)),
]
COMPLEX = [matrix for matrix in OF_WIDTH_8 if isinstance(matrix, Rotation | Reflection | Diagonal)]
every_type = pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "float64"])


def types_of(dtype, function, *arguments):
    """Return the types of the results of a function of arrays of one type, traced under strict promotion."""
    with jax.enable_x64(dtype == "float64"), jax.numpy_dtype_promotion("strict"):
        return {str(leaf.dtype) for leaf in jax.tree.leaves(jax.eval_shape(function, *arguments))}


def of_type(tree, dtype):
    return jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, dtype), tree)


@every_type
@pytest.mark.parametrize("matrix", REAL, ids=lambda matrix: type(matrix).__name__)
def test_products_gradients_and_full_matrices_keep_the_type(matrix, dtype):
    width = getattr(matrix, "shape", (8,))[0]

    def everything(matrix, v):
        y, pull = jax.vjp(lambda matrix, v: matrix.apply(v), matrix, v)
        own = matrix.gradient(v, y) if isinstance(matrix, WithGradient) else ()
        return y, pull(y), own, matrix.to_dense() if hasattr(matrix, "to_dense") else ()

    assert types_of(dtype, everything, *of_type((matrix, ones((3, width))), dtype)) == {dtype}


@every_type
@pytest.mark.parametrize("matrix", [matrix for matrix in REAL if hasattr(matrix, "shape")], ids=lambda matrix: type(matrix).__name__)
def test_symbols_keep_the_type_of_the_matrix(matrix, dtype):
    """They are int32 as those of all tasks, and have weights of the matrix's type."""
    symbols = jax.ShapeDtypeStruct((3,), "int32")

    def everything(matrix, v):
        y, pull = jax.vjp(lambda matrix: matrix.apply(v), matrix)
        return y, pull(y), matrix.gradient(v, y) if isinstance(matrix, Dense | Projection) else ()

    for v in (symbols, Weighted(symbols, jax.ShapeDtypeStruct((3,), dtype))):
        assert types_of(dtype, everything, of_type(matrix, dtype), v) == {dtype}


@every_type
@pytest.mark.parametrize("matrix", COMPLEX, ids=lambda matrix: type(matrix).__name__)
def test_complex_vectors_are_as_precise_as_the_matrix_or_single(matrix, dtype):
    """JAX has no complex numbers of half precision."""
    of_vectors = "complex128" if dtype == "float64" else "complex64"

    def products(matrix, v):
        y, pull = jax.vjp(lambda matrix, v: matrix.apply(v), matrix, v)
        return y, pull(y)[1]

    def gradient(matrix, v):
        return jax.vjp(lambda matrix: matrix.apply(v), matrix)[1](v)

    arguments = of_type(matrix, dtype), jax.ShapeDtypeStruct((3, 8), of_vectors)
    assert types_of(dtype, products, *arguments) == {of_vectors}
    assert types_of(dtype, gradient, *arguments) == {dtype}


@every_type
def test_losses_and_metrics_mix_no_types(dtype):
    logits, classes = jax.ShapeDtypeStruct((2, 3, 4), dtype), jax.ShapeDtypeStruct((2, 3), "int32")
    for loss in (cross_entropy, squared_hinge):
        assert types_of(dtype, loss, logits, classes) == {dtype}
    for loss in (squared_error, binary_cross_entropy):
        assert types_of(dtype, loss, logits, logits) == {dtype}
    wide = "float64" if dtype == "float64" else "float32"
    assert types_of(dtype, at_least_single, logits) == {wide}
    assert types_of(dtype, accuracy, logits, classes) == {"float32"}
    mask = jax.ShapeDtypeStruct((2, 3), "bool")
    assert types_of(dtype, lambda losses, mask: sums_over_steps(losses, mask, "steps")["loss"], logits.update(shape=(2, 3)), mask) == {wide}


def test_mixtures_are_as_before_without_strict_promotion():
    """A matrix of one type and vectors of another have products of the type that JAX promotes both to."""
    for matrix in REAL:
        narrow, width = of_type(matrix, jnp.bfloat16), getattr(matrix, "shape", (8,))[0]
        y = jax.eval_shape(lambda matrix, v: matrix.apply(v), narrow, jax.ShapeDtypeStruct((3, width), "float32"))
        assert y.dtype == ("bfloat16" if isinstance(matrix, Bias) else "float32")
