"""Structured matrices against NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lrpt.errors import UsageError
from lrpt.matrices import (
    ROW_AXIS,
    Bias,
    BlockDiagonal,
    Dense,
    Diagonal,
    Householder,
    Kronecker,
    LowRank,
    Projection,
    Rotation,
    Sparse,
    SymbolInputs,
    ToeplitzLike,
    field_of,
    leading_block,
    low_rank_plus_diagonal,
    num_params,
)
from lrpt.symbols import Weighted

KINDS = ["dense", "diagonal", "low_rank", "low_rank_plus_diagonal"]
SQUARE = {"diagonal", "low_rank_plus_diagonal"}
every_kind = pytest.mark.parametrize("kind", KINDS)
few_examples = settings(max_examples=25)


def make(kind, n_in, n_out, rank, seed):
    """(matrix, the same as a full float64 array of the paper's W^T)."""
    rng = np.random.default_rng(seed)

    def draw(*shape):
        return rng.standard_normal(shape).astype(np.float32)

    if kind == "dense":
        kernel = draw(n_in, n_out)
        return Dense(jnp.asarray(kernel)), kernel.astype(np.float64)
    diagonal = draw(n_in)
    if kind == "diagonal":
        return Diagonal(jnp.asarray(diagonal)), np.diag(diagonal.astype(np.float64))
    left, right = draw(n_out, rank), draw(rank, n_in)  # the paper's L and R: W = L R
    full = (left.astype(np.float64) @ right).T
    if kind == "low_rank":
        return LowRank(jnp.asarray(left.T), jnp.asarray(right)), full
    return low_rank_plus_diagonal(jnp.asarray(left.T), jnp.asarray(right), jnp.asarray(diagonal)), full + np.diag(
        diagonal.astype(np.float64)
    )


@jax.jit
def apply(matrix, v):
    return matrix.apply(v)


shapes = st.sampled_from([(1, 1, 1), (2, 2, 1), (3, 3, 2), (5, 5, 5), (1, 4, 1), (2, 5, 2), (6, 3, 2)])
seeds = st.integers(0, 2**31)


@every_kind
@given(shape=shapes, batch=st.sampled_from([(), (4,), (2, 3)]), seed=seeds)
@few_examples
def test_apply_is_the_product_with_the_full_matrix(kind, shape, batch, seed):
    n_in, n_out, rank = shape
    matrix, full = make(kind, n_in, n_in if kind in SQUARE else n_out, rank, seed)
    v = np.random.default_rng(seed + 1).standard_normal((*batch, n_in)).astype(np.float32)
    np.testing.assert_allclose(matrix.to_dense(), full, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(apply(matrix, jnp.asarray(v)), v.astype(np.float64) @ full, rtol=1e-5, atol=2e-5)
    assert matrix.shape == full.shape


@pytest.mark.parametrize("kind", ["dense", "low_rank"])
@given(n_in=st.sampled_from([1, 2, 3, 10]), batch=st.sampled_from([(), (4,), (2, 3)]), seed=seeds)
@few_examples
def test_integers_select_rows(kind, n_in, batch, seed):
    matrix, full = make(kind, n_in, 4, 1, seed)
    symbols = np.random.default_rng(seed).integers(0, n_in, batch)
    actual = apply(matrix, jnp.asarray(symbols))
    assert actual.shape == (*batch, 4)
    np.testing.assert_allclose(actual, full[symbols], rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(actual, apply(matrix, jax.nn.one_hot(symbols, n_in)))


@pytest.mark.parametrize("batch", [(), (4,), (2, 3)])
def test_bias_takes_only_the_batch_from_its_input(batch):
    bias = Bias(jnp.arange(3.0))
    np.testing.assert_array_equal(bias.apply(jnp.full((*batch, 7), jnp.nan)), np.broadcast_to(np.arange(3.0), (*batch, 3)))


@pytest.mark.parametrize("n_in", [1, 2, 3])
def test_gradient_of_apply_is_the_outer_product(n_in):
    """Also where the product is written as a sum, for one input or two."""
    matrix, _ = make("dense", n_in, 4, 1, 0)
    rng = np.random.default_rng(1)
    v, g = rng.standard_normal((5, n_in)).astype(np.float32), rng.standard_normal((5, 4)).astype(np.float32)
    _, pull = jax.vjp(apply, matrix, jnp.asarray(v))
    to_matrix, to_v = pull(jnp.asarray(g))
    np.testing.assert_allclose(to_matrix.kernel, v.T @ g, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(to_v, g @ np.asarray(matrix.kernel).T, rtol=1e-5, atol=1e-6)


def takes(operator, batch, rng):
    """What an operator may be applied to."""
    width = operator.transpose.shape[1] if isinstance(operator, Projection) else 5
    yield jnp.asarray(rng.standard_normal((*batch, width)), jnp.float32)
    if isinstance(operator, Dense | Projection):
        symbols = jnp.asarray(rng.integers(0, width, batch))
        yield symbols
        yield Weighted(symbols, jnp.asarray(rng.standard_normal(batch), jnp.float32))


@pytest.mark.parametrize("batch", [(), (4,), (2, 3)])
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
@pytest.mark.parametrize(
    ("kind", "shape"), [(Dense, (5, 2)), (Dense, (5, 8)), (Projection, (2, 5)), (Projection, (8, 5)), (Diagonal, (5,)), (Bias, (3,))]
)
def test_own_gradients_are_those_of_reverse_mode(kind, shape, dtype, batch):
    rng = np.random.default_rng(0)
    operator = kind(jnp.asarray(rng.standard_normal(shape), dtype))
    for v in takes(operator, batch, rng):
        v = v.astype(dtype) if isinstance(v, jax.Array) and v.dtype == jnp.float32 else v
        y, pull = jax.vjp(lambda operator, v=v: operator.apply(v), operator)
        cotangent = jnp.asarray(rng.standard_normal(y.shape), y.dtype)
        actual, expected = jax.tree.leaves((operator.gradient(v, cotangent), pull(cotangent)))
        tolerance = 1e-5 if dtype == jnp.float32 else 5e-2
        np.testing.assert_allclose(actual.astype(jnp.float32), expected.astype(jnp.float32), rtol=tolerance, atol=tolerance)


def test_gradients_of_symbols_are_summed_in_float32():
    """In bfloat16 a sum of ones ends at 256."""
    kernel, rows = Dense(jnp.zeros((3, 2), jnp.bfloat16)), jnp.ones((1000, 2), jnp.bfloat16)
    np.testing.assert_array_equal(kernel.gradient(jnp.full(1000, 1), rows).kernel, np.array([[0, 0], [1000, 1000], [0, 0]]))


def expected_count(kind, n_in, n_out, rank):
    return {
        "dense": n_in * n_out,
        "diagonal": n_in,
        "low_rank": rank * (n_in + n_out),
        "low_rank_plus_diagonal": 2 * n_in * rank + n_in,
    }[kind]


@every_kind
@pytest.mark.parametrize(("n", "rank"), [(1, 1), (4, 2), (7, 3)])
def test_num_params(kind, n, rank):
    matrix, _ = make(kind, n, n, rank, 0)
    assert num_params(matrix) == expected_count(kind, n, n, rank)
    assert num_params({"a": matrix, "b": [Bias(jnp.zeros(3))]}) == expected_count(kind, n, n, rank) + 3


@every_kind
@pytest.mark.parametrize(("n", "rank"), [(1, 1), (2, 1), (3, 1), (3, 2), (5, 2), (5, 3), (5, 5)])
def test_degrees_of_freedom_are_the_rank_of_the_map_from_parameters_to_matrices(kind, n, rank):
    """Of its Jacobian at a random point: what is left once L and R may be changed by any invertible d x d matrix.

    The map is quadratic and the point integer, so that central differences are exact.
    """
    matrix, _ = make(kind, n, n, rank, 11)
    rng = np.random.default_rng(1)
    leaves, treedef = jax.tree.flatten(jax.tree.map(lambda a: rng.integers(-9, 10, a.shape).astype(np.float32), matrix))
    sizes = np.cumsum([a.size for a in leaves])

    def at(flat):
        parts = np.split(flat, sizes[:-1], axis=1)
        return treedef.unflatten(jnp.asarray(p.reshape(-1, *a.shape)) for p, a in zip(parts, leaves, strict=True))

    point, basis = np.concatenate([a.ravel() for a in leaves]), np.eye(sizes[-1], dtype=np.float32)
    ahead, behind = jax.vmap(lambda m: m.to_dense())(at(np.concatenate([point + basis, point - basis]))).reshape(2, -1, n * n)
    assert matrix.degrees_of_freedom == np.linalg.matrix_rank(np.asarray(ahead - behind, np.float64))


def test_degrees_of_freedom_of_matrices_that_are_not_square():
    matrix, _ = make("low_rank", 6, 3, 2, 0)
    assert matrix.degrees_of_freedom == 2 * (6 + 3) - 4
    assert make("dense", 6, 3, 2, 0)[0].degrees_of_freedom == 18


@pytest.mark.parametrize(
    ("matrix", "expected"),
    [
        (LowRank(jnp.ones((6, 4)), jnp.ones((6, 3))), 12),
        (Kronecker(jnp.ones((5, 2, 2)), jnp.ones((5, 2, 2))), 16),
        (Kronecker(jnp.ones((5, 3, 3)), jnp.ones((5, 2, 2))), 36),
        (ToeplitzLike(jnp.ones((5, 4)), jnp.ones((5, 4))), 16),
        (Householder(jnp.ones((6, 4))), 6),
    ],
)
def test_a_rank_above_that_of_a_full_matrix_adds_no_degrees_of_freedom(matrix, expected):
    """Of all matrices, and of all orthogonal ones."""
    assert matrix.degrees_of_freedom == expected


def test_degrees_of_freedom_of_the_paper():
    """2nd - d^2, section 2.2, at n = 128 and d = 24."""
    shapes = {"left": (24, 128), "right": (24, 128)}
    matrix = jax.eval_shape(lambda: LowRank(**{name: jnp.zeros(shape) for name, shape in shapes.items()}))
    assert matrix.degrees_of_freedom == 2 * 128 * 24 - 24**2 == 5568


@every_kind
def test_is_a_pytree(kind):
    matrix, _ = make(kind, 4, 4, 2, 0)
    leaves, treedef = jax.tree.flatten(matrix)
    again = treedef.unflatten(leaves)
    assert type(again) is type(matrix)
    assert all(a is b for a, b in zip(jax.tree.leaves(again), leaves, strict=True))
    stacked = jax.tree.map(lambda a: jnp.stack([a, 2 * a]), matrix)
    each = jax.vmap(lambda m: m.to_dense())(stacked)
    np.testing.assert_allclose(each[0], matrix.to_dense(), rtol=1e-6)


@every_kind
def test_rows_of_the_paper_lie_along_the_row_axis(kind):
    """Scaling the rows of L, or of a full W, scales the outputs; scaling those of R scales the projection."""
    matrix, full = make(kind, 4, 4, 2, 0)
    scale = np.array([1.0, 2.0, 3.0, 4.0], np.float32)
    name = {"dense": "kernel", "low_rank": "left", "low_rank_plus_diagonal": "left"}.get(kind)
    if name is not None:
        diagonal = np.diag(matrix.terms[1].diagonal) if kind in SQUARE else np.zeros((4, 4))
        np.testing.assert_allclose(scaled(matrix, name, scale).to_dense(), (full - diagonal) * scale + diagonal, rtol=1e-5, atol=1e-5)


def scaled(matrix, name, scale):
    """The matrix with the paper's rows of one of its arrays scaled."""

    def of(path, array):
        return array * np.expand_dims(scale, ROW_AXIS[name]) if field_of(path) == name else array

    return jax.tree_util.tree_map_with_path(of, matrix)


def test_rows_of_blocks_and_of_sparse_matrices_are_outputs():
    rng = np.random.default_rng(3)
    blocks, entries = (jnp.asarray(rng.standard_normal(shape), jnp.float32) for shape in ((2, 2, 3), (6, 2)))
    scale = np.arange(1, 7, dtype=np.float32)
    for matrix, name, by in ((BlockDiagonal(blocks), "blocks", scale.reshape(2, 3)), (Sparse(entries, 4), "entries", scale)):
        np.testing.assert_allclose(scaled(matrix, name, by).to_dense(), np.asarray(matrix.to_dense()) * scale, rtol=1e-6)


@every_kind
def test_gradient_to_inputs_is_the_transpose(kind):
    matrix, full = make(kind, 4, 4, 2, 3)
    to_inputs = jax.grad(lambda v: apply(matrix, v).sum())(jnp.ones((2, 4)))
    np.testing.assert_allclose(to_inputs, np.tile(full.sum(1), (2, 1)), rtol=1e-5, atol=1e-5)


def test_the_leading_block_of_a_matrix_is_stored_as_the_matrix_is():
    rng = np.random.default_rng(4)
    n, d, k = 5, 4, 3  # a rank above the width of the block, of which nothing may be cut
    kernel, left, right, diagonal = (jnp.asarray(rng.standard_normal(s), jnp.float32) for s in ((n, n), (d, n), (d, n), (n,)))
    for whole in (Dense(kernel), LowRank(left, right), low_rank_plus_diagonal(left, right, diagonal), Diagonal(diagonal)):
        block = leading_block(whole, k)
        assert type(block) is type(whole)
        np.testing.assert_allclose(block.to_dense(), whole.to_dense()[:k, :k], rtol=1e-6)
    np.testing.assert_array_equal(leading_block(Bias(diagonal), k).bias, diagonal[:k])
    with pytest.raises(UsageError, match="a Rotation matrix has no leading block"):
        leading_block(Rotation(diagonal), k)


def test_what_one_factor_passes_to_the_next_may_be_changed_in_sums_too():
    """As by dropout; a diagonal has no factors."""
    matrix, _ = make("low_rank_plus_diagonal", 4, 4, 2, 0)
    v, (low_rank, diagonal) = jnp.arange(8.0).reshape(2, 4), matrix.terms
    doubled = np.asarray(2 * v @ low_rank.to_dense())
    np.testing.assert_allclose(low_rank.apply_between(lambda u: 2 * u, v), doubled, rtol=1e-5)
    np.testing.assert_allclose(SymbolInputs(low_rank, v.shape[-1]).apply_between(lambda u: 2 * u, v), doubled, rtol=1e-5)
    expected = doubled + np.asarray(v * diagonal.diagonal[None])
    np.testing.assert_allclose(matrix.apply_between(lambda u: 2 * u, v), expected, rtol=1e-5)


@pytest.mark.parametrize("matrix", [Dense(jnp.ones((0, 3))), LowRank(jnp.ones((0, 3)), jnp.ones((0, 0)))], ids=["dense", "low_rank"])
def test_inputs_without_components_give_zeros(matrix):
    """As a cell has them that runs on without inputs."""
    v = jnp.ones((2, 0))
    np.testing.assert_array_equal(matrix.apply(v), jnp.zeros((2, 3)))
    gradient = jax.grad(lambda matrix: jnp.sum(matrix.apply(v)))(matrix)
    assert [leaf.shape for leaf in jax.tree.leaves(gradient)] == [leaf.shape for leaf in jax.tree.leaves(matrix)]


@pytest.mark.parametrize("shape", [(), (2,), (2, 5)])
def test_a_bias_has_a_row_for_each_symbol(shape):
    bias, symbols = Bias(jnp.arange(3.0)), jnp.ones(shape, int)
    expected = jnp.broadcast_to(jnp.arange(3.0), (*shape, 3))
    for v in (symbols, Weighted(symbols, jnp.full(shape, 0.5)), jnp.ones((*shape, 4))):
        np.testing.assert_array_equal(bias.apply(v), expected)
