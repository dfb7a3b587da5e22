"""Structured matrices against SciPy and NumPy in float64, their own gradients, and their degrees of freedom."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg

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
    Reflection,
    Sparse,
    Sum,
    ToeplitzLike,
    num_params,
)


def make(kind, seed=0, n_in=6, n_out=6, rank=2, k=2):
    """A matrix of float64 arrays."""
    rng = np.random.default_rng(seed)
    draw = rng.standard_normal
    return {
        "dense": lambda: Dense(draw((n_in, n_out))),
        "low_rank": lambda: LowRank(draw((rank, n_out)), draw((rank, n_in))),
        "block_diagonal": lambda: BlockDiagonal(draw((k, n_in // k, n_out // k))),
        "monarch": lambda: Monarch(draw((k, n_in // k, n_out // k)), draw((n_out // k, k, k))),
        "kronecker": lambda: Kronecker(draw((1, k, k)), draw((1, n_in // k, n_out // k))),
        "tensor_train": lambda: Kronecker(draw((rank, k, k)), draw((rank, n_in // k, n_out // k))),
        "circulant": lambda: Circulant(draw(n_out)),
        "toeplitz_like": lambda: ToeplitzLike(draw((rank, n_out)), draw((rank, n_out))),
        "householder": lambda: Householder(draw((rank, n_out))),
        "sparse": lambda: Sparse(draw((n_out, rank)), n_in, 5),
    }[kind]()


SQUARE = {"circulant", "toeplitz_like", "householder"}
KINDS = ["block_diagonal", "monarch", "kronecker", "tensor_train", "circulant", "toeplitz_like", "householder", "sparse"]
every_kind = pytest.mark.parametrize("kind", KINDS)


def monarch(matrix):
    """Row vectors by R, then P^T, then L, then P, as full matrices (Dao et al. 2022, section 3.1, transposed)."""
    k, _, o = matrix.first.shape
    permutation = np.eye(k * o)[np.arange(k * o).reshape(k, o).T.ravel()]  # takes component (a, j) to (j, a)
    first, second = (scipy.linalg.block_diag(*blocks) for blocks in (matrix.first, matrix.second))
    return first @ permutation.T @ second @ permutation


def toeplitz_like(matrix):
    terms = zip(matrix.circulant, matrix.skew, strict=True)
    return 0.5 * sum(scipy.linalg.circulant(g).T @ scipy.linalg.toeplitz(np.append(h[0], -h[:0:-1]), h) for g, h in terms)


def householder(matrix):
    full = np.eye(matrix.shape[0])
    for u in matrix.vectors:
        full = full @ (np.eye(u.size) - 2 * np.outer(u, u) / (u @ u))
    return full


def sparse(matrix):
    full = np.zeros(matrix.shape)
    for output, (inputs, entries) in enumerate(zip(matrix.places, matrix.entries, strict=True)):
        assert len(set(inputs)) == len(inputs)
        full[inputs, output] = entries
    return full


ORACLES = {
    "block_diagonal": lambda matrix: scipy.linalg.block_diag(*matrix.blocks),
    "monarch": monarch,
    "kronecker": lambda matrix: np.kron(matrix.outer[0], matrix.inner[0]),
    "tensor_train": lambda matrix: sum(np.kron(a, b) for a, b in zip(matrix.outer, matrix.inner, strict=True)),
    "circulant": lambda matrix: scipy.linalg.circulant(matrix.first_row).T,
    "toeplitz_like": toeplitz_like,
    "householder": householder,
    "sparse": sparse,
}


@every_kind
@pytest.mark.parametrize(("n_in", "n_out"), [(6, 6), (5, 5), (4, 6)])
def test_apply_and_to_dense_are_those_of_scipy(kind, n_in, n_out):
    if kind in SQUARE and n_in != n_out:
        pytest.skip("square matrices only")
    matrix = make(kind, n_in=n_in, n_out=n_out, k=5 if n_in == 5 else 2)
    expected = ORACLES[kind](matrix)
    v = np.random.default_rng(1).standard_normal((2, 3, n_in))
    assert matrix.shape == expected.shape == (n_in, n_out)
    with jax.enable_x64(True):
        found = jax.jit(lambda matrix, v: (matrix.to_dense(), matrix.apply(v), matrix.apply(v[0, 0])))(matrix, v)
    for actual, wanted in zip(found, (expected, v @ expected, v[0, 0] @ expected), strict=True):
        np.testing.assert_allclose(actual, wanted, atol=1e-13)


@every_kind
def test_single_precision_stays_single(kind):
    matrix = jax.tree.map(lambda a: jnp.asarray(a, jnp.float32), make(kind))
    y = matrix.apply(jnp.ones((3, 6), jnp.float32))
    assert y.dtype == matrix.to_dense().dtype == jnp.float32
    np.testing.assert_allclose(y, np.ones((3, 6)) @ ORACLES[kind](make(kind)), atol=1e-5)


@pytest.mark.parametrize("batch", [(), (4,), (2, 3)])
@pytest.mark.parametrize("kind", ["block_diagonal", "sparse"])
def test_own_gradients_are_those_of_reverse_mode(kind, batch):
    matrix, rng = make(kind, n_in=4), np.random.default_rng(2)
    with jax.enable_x64(True):
        v, cotangent = jnp.asarray(rng.standard_normal((*batch, 4))), jnp.asarray(rng.standard_normal((*batch, 6)))
        (expected,) = jax.vjp(lambda matrix: matrix.apply(v), matrix)[1](cotangent)
        actual = matrix.gradient(v, cotangent)
        assert jax.tree.structure(actual) == jax.tree.structure(expected)
        np.testing.assert_allclose(jax.tree.leaves(actual)[0], jax.tree.leaves(expected)[0], atol=1e-13)


WORKS = {
    "dense": (36, 9, 0),
    "low_rank": (24, 12, 72),
    "block_diagonal": (18, 9, 0),
    "monarch": (18 + 12, 30, 36),
    "kronecker": (18 + 12, 30, 36),
    "tensor_train": (60, 60, 72),
    "circulant": (2 * 18 + 12, 48, 0),
    "toeplitz_like": (9 * 18 + 72 + 12, 246, 6 * 246),
    "householder": (24 + 4, 12 + 4, 72 + 24),
    "sparse": (12, 3, 0),
}
"""Multiplications for a row, for half of the state, and to multiply out; a transform of 6 takes 18."""


@pytest.mark.parametrize("kind", WORKS)
def test_works_are_those_counted_by_hand(kind):
    matrix = make(kind)
    assert (matrix.work().products, matrix.work(0.5).products, matrix.dense_products) == WORKS[kind]
    assert matrix.work().elementwise == 0


@pytest.mark.parametrize(("n", "halvings"), [(1, 1), (2, 1), (7, 3), (8, 3), (9, 4)])
def test_the_work_of_a_transform_is_that_of_the_next_power_of_two(n, halvings):
    assert Circulant(np.ones(n)).work().products == 2 * n * halvings + 2 * n


def test_the_work_of_a_product_of_factors_that_are_not_square():
    """Pieces of 3 by 3 x 7 for each of 2, then of 2 by 2 x 5 for each of 7."""
    assert Kronecker(np.ones((1, 2, 5)), np.ones((1, 3, 7))).work().products == 2 * 3 * 7 + 7 * 2 * 5


def test_the_slowness_of_a_sum_is_the_mean_by_work():
    """A block-diagonal matrix is four times, a low-rank one once as slow as its multiplications; a diagonal has none."""
    diagonal = Diagonal(np.ones(6))
    assert Sum((make("block_diagonal"), make("low_rank"), diagonal)).slowness == (18 * 4 + 24) / 42
    assert Sum((diagonal, diagonal)).slowness == 0


def jacobian_rank(matrix):
    """The rank of the Jacobian of to_dense at the matrix."""
    leaves, treedef = jax.tree.flatten(matrix)
    with jax.enable_x64(True):
        jacobian = jax.jit(jax.jacfwd(lambda leaves: treedef.unflatten(leaves).to_dense().ravel()))
        parts = jacobian([jnp.asarray(leaf) for leaf in leaves])
    return np.linalg.matrix_rank(np.concatenate([np.asarray(part).reshape(part.shape[0], -1) for part in parts], axis=1))


@pytest.mark.slow
@every_kind
@pytest.mark.parametrize("diagonal", [False, True])
@pytest.mark.parametrize(("n", "rank", "k"), [(4, 1, 2), (6, 2, 3), (3, 3, 1), (4, 2, 4)])
def test_degrees_of_freedom_are_the_rank_of_the_jacobian(kind, diagonal, n, rank, k):
    if kind == "tensor_train" and rank > min(k**2, (n // k) ** 2):
        pytest.skip("the rank does not fit")
    matrix = make(kind, 3, n, n, rank, k)
    if diagonal:
        matrix = Sum((matrix, Diagonal(np.random.default_rng(4).standard_normal(n))))
    assert matrix.degrees_of_freedom == jacobian_rank(matrix)


@pytest.mark.parametrize("kind", ["block_diagonal", "monarch", "kronecker", "tensor_train", "sparse"])
def test_degrees_of_freedom_of_matrices_that_are_not_square(kind):
    matrix = make(kind, n_in=4, n_out=6)
    assert matrix.degrees_of_freedom == jacobian_rank(matrix)


def test_a_diagonal_adds_nothing_to_what_a_tensor_train_of_high_rank_has_of_it():
    """3 of its 6 dimensions: the entries of the factors of a diagonal matrix are more than the rank leaves out."""
    matrix = Sum((make("tensor_train", 3, rank=3), Diagonal(np.random.default_rng(4).standard_normal(6))))
    assert matrix.degrees_of_freedom == 3 * (4 + 9 - 3) + 6 - 3 == jacobian_rank(matrix)


def test_toeplitz_like_matrices_have_their_displacement_rank():
    """Z_1 W - W Z_{-1}, with shifts that wrap around with the sign 1 or -1."""
    n, shift = 7, np.roll(np.eye(7), 1, axis=1)
    skew = shift.copy()
    skew[-1, 0] = -1
    for rank in (1, 3):
        full = toeplitz_like(make("toeplitz_like", n_out=n, rank=rank))
        assert np.linalg.matrix_rank(shift @ full - full @ skew) == rank


def test_reflections_are_orthogonal_and_as_many_as_their_determinant_says():
    for rank in (1, 2, 5):
        matrix = make("householder", rank=rank)
        with jax.enable_x64(True):
            full = np.asarray(matrix.to_dense())
        np.testing.assert_allclose(full @ full.T, np.eye(6), atol=1e-13)
        np.testing.assert_allclose(np.linalg.det(full), (-1) ** rank)


@pytest.mark.parametrize("length", [1e-6, 1e-3, 1.0, 100.0])
@pytest.mark.parametrize(("dtype", "tolerance"), [(jnp.float32, 2e-6), (jnp.bfloat16, 0.02), (jnp.float16, 3e-3)])
def test_reflections_are_orthogonal_in_every_precision_and_for_vectors_of_any_length(dtype, tolerance, length):
    vectors = jnp.asarray(np.random.default_rng(0).standard_normal((5, 64)) * length, dtype)
    full = np.asarray(Householder(vectors).to_dense(), np.float64)
    np.testing.assert_allclose(full @ full.T, np.eye(64), atol=tolerance)
    np.testing.assert_allclose(full, householder(Householder(np.asarray(vectors, np.float64))), atol=tolerance)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16, jnp.float16])
def test_a_reflection_in_a_vector_of_zeros_changes_nothing(dtype):
    matrix, v = Householder(jnp.zeros((2, 4), dtype)), jnp.arange(4, dtype=dtype)
    np.testing.assert_array_equal(matrix.apply(v), v)


@pytest.mark.parametrize("vector", [jnp.zeros(8), jnp.full(8, 1e-20), jnp.full(8, 1e-12)])
def test_a_complex_reflection_in_a_vector_of_zeros_changes_nothing_and_has_finite_gradients(vector):
    v = jnp.arange(4) + 1j
    np.testing.assert_array_equal(Reflection(vector).apply(v), v)
    assert np.isfinite(jax.grad(lambda u: jnp.abs(Reflection(u).apply(v)).sum())(vector)).all()


def test_several_diagonals_count_as_one():
    diagonals = [Diagonal(np.random.default_rng(seed).standard_normal(6)) for seed in range(2)]
    for others in ([], [make("block_diagonal")], [make("dense")]):
        matrix = Sum((*diagonals, *others))
        assert matrix.degrees_of_freedom == jacobian_rank(matrix)


def test_more_entries_than_inputs_are_refused():
    matrix = Sparse(np.ones((4, 7), np.float32), 6, 5)
    for use in (lambda: matrix.apply(jnp.ones(6)), matrix.to_dense):
        with pytest.raises(UsageError, match="7 entries for each output and n_in is 6: give at most one entry for each input"):
            use()


def test_as_many_entries_as_inputs_are_a_full_matrix():
    entries = np.arange(8, dtype=np.float32).reshape(4, 2)
    np.testing.assert_array_equal(Sparse(entries, 2).to_dense(), entries.T)


def test_places_of_sparse_matrices_follow_from_seed_and_sizes():
    same, other = make("sparse", 1), Sparse(np.ones((6, 2)), 6, 6)
    np.testing.assert_array_equal(same.places, make("sparse", 2).places)
    assert not np.array_equal(same.places, other.places)


def test_places_of_sparse_matrices_are_those_of_every_version():
    """Stored entries belong to them."""
    np.testing.assert_array_equal(Sparse(np.ones((4, 2)), 6, 5).places, [[1, 5], [3, 5], [1, 2], [2, 5]])


@pytest.mark.slow
def test_a_sum_is_the_sum_of_its_terms():
    terms = make("monarch"), make("low_rank", 1), make("circulant", 2)
    v = np.random.default_rng(3).standard_normal((4, 6))
    with jax.enable_x64(True):
        total = Sum(terms)
        full = sum(np.asarray(term.to_dense()) for term in terms)
        np.testing.assert_allclose(total.to_dense(), full, atol=1e-13)
        np.testing.assert_allclose(total.apply(jnp.asarray(v)), v @ full, atol=1e-13)
        works = [term.work() for term in terms]
    assert (total.shape, num_params(total)) == ((6, 6), 6 * 3 + 3 * 4 + 24 + 6)
    assert total.work().products == sum(work.products for work in works)
    assert total.dense_products == sum(term.dense_products for term in terms)


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16])
@pytest.mark.parametrize("kind", KINDS)
def test_half_precision_stays_half(kind, dtype):
    matrix = jax.tree.map(lambda a: jnp.asarray(a, dtype), make(kind))
    v = jnp.asarray(np.random.default_rng(1).standard_normal((50, matrix.shape[0])), dtype)
    y, full = matrix.apply(v), matrix.to_dense()
    assert y.dtype == full.dtype == dtype
    expected = np.asarray(v, np.float64) @ np.asarray(full, np.float64)
    error = np.asarray(y, np.float64) - expected
    assert np.linalg.norm(error) < float(jnp.finfo(dtype).eps) * np.linalg.norm(expected)


@every_kind
def test_integers_are_one_hot_vectors(kind):
    """Also if there are as many symbols as the matrix has rows, which could be read as one vector."""
    matrix = jax.tree.map(jnp.float32, make(kind))
    symbols = jnp.arange(matrix.shape[0])[::-1]
    np.testing.assert_allclose(matrix.apply(symbols), matrix.to_dense()[::-1], atol=1e-5)
    np.testing.assert_allclose(matrix.apply(v=symbols[:2]), matrix.to_dense()[::-1][:2], atol=1e-5)
