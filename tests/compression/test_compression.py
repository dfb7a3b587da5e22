"""Tests of nearest structured matrices against closed forms and another optimizer, and of compressed and converted networks."""

from dataclasses import replace
from functools import partial

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import ORACLES, sigmoid
from scipy.optimize import minimize
from table import (
    CELLS,
    INPUT_SIZE,
    PLAIN_ROWS,
    SIZE,
    SPEC,
    Row,
    assert_close,
    by_name,
    stored_parameters,
    width_of_input,
)
from threadpoolctl import threadpool_limits

from lrpt.compression.moments import second_moments
from lrpt.compression.nearest import _Problem, fit, rank_for, relative_error
from lrpt.compression.network import compress
from lrpt.compression.structures import PROJECTIONS
from lrpt.errors import UsageError
from lrpt.interop.linen import RNN, Cell
from lrpt.interop.pytorch import read
from lrpt.networks.recurrent import Recurrent, cell_params
from lrpt.networks.sequence_model import ModelConfig, SequenceModel
from lrpt.parametrizations import FORMS, PARAMETRIZATIONS, Structured
from lrpt.recurrence import recur
from lrpt.runs.named_arrays import from_named, to_named


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """Use one BLAS thread. For such small matrices, waiting threads cost more than the work."""
    with threadpool_limits(1):
        yield


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def moments_of(n, seed=0):
    """Return second moments of rows with a few strong directions."""
    rows = normal(50, n, seed=seed) * np.geomspace(3, 0.1, n)
    return rows.T @ rows / 50


def still(value):
    """Return second moments of a GRU whose state has this value at all times."""
    return {name: np.full((SIZE, SIZE), value) for name in ("update", "reset", "candidate")}


# The nearest matrix


@pytest.mark.parametrize("shape", [(6, 6), (3, 7), (7, 3)])
def test_without_a_diagonal_the_error_is_the_tail_of_the_singular_values(shape):
    W = normal(*shape)
    values = np.linalg.svd(W, compute_uv=False)
    found = fit(W, 2, diagonal=False)
    assert found.diagonal is None
    np.testing.assert_allclose(found.residual, np.sqrt(np.sum(values[2:] ** 2) / np.sum(values**2)), rtol=1e-12)
    np.testing.assert_allclose(found.residual, np.linalg.norm(W - found.right.T @ found.left) / np.linalg.norm(W), rtol=1e-12)


def test_weighted_without_a_diagonal_the_error_is_the_tail_of_the_weighted_matrix():
    W, C = normal(6, 9), moments_of(6)
    values = np.linalg.svd(np.linalg.cholesky(C).T @ W, compute_uv=False)
    found = fit(W, 2, diagonal=False, moments=C)
    np.testing.assert_allclose(found.residual, np.sqrt(np.sum(values[2:] ** 2) / np.sum(values**2)), rtol=1e-6)


def test_weighted_error_is_that_of_products_with_rows():
    rows, W, other = normal(40, 5), normal(5, 8, seed=1), normal(5, 8, seed=2)
    expected = np.linalg.norm(rows @ W - rows @ other) / np.linalg.norm(rows @ W)
    np.testing.assert_allclose(relative_error(W, other, rows.T @ rows / 40), expected, rtol=1e-12)


def test_moments_that_rounding_made_negative_weight_nothing():
    assert relative_error(np.eye(2), np.diag([1.0, 0.0]), np.diag([1.0, -1e-12])) == 0


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_the_scale_of_moments_has_no_effect(scale):
    """Neither on the fit, nor on how far they may be from symmetric ones: rounding is relative."""
    W, C, uneven = normal(5, 5), moments_of(5), np.triu(np.full((5, 5), 1e-5), 1)
    np.testing.assert_allclose(fit(W, 2, moments=scale * (C + uneven)).to_dense(), fit(W, 2, moments=C).to_dense(), atol=1e-3)
    with pytest.raises(UsageError, match="moments are not symmetric"):
        fit(W, 2, moments=scale * (C + 1e4 * uneven))


@pytest.mark.parametrize("dtype", [np.float16, np.int8])
def test_errors_of_any_type_of_numbers_are_in_float64(dtype):
    W = (40 * normal(6, 6)).astype(dtype)
    exact = W.astype(np.float64)
    np.testing.assert_allclose(relative_error(W, -W), 2, rtol=1e-12)
    assert fit(W, 2).residual == fit(exact, 2).residual > 0.1


@pytest.mark.parametrize("spread", [0.1, 1.0, 30.0])
@pytest.mark.parametrize("gates", [1, 3])
def test_recovers_what_is_low_rank_plus_diagonal(spread, gates):
    n, d = 14, 3
    diagonal = spread * normal(gates * n, seed=2)
    W = normal(n, d) @ normal(d, gates * n, seed=1) + np.concatenate([np.diag(part) for part in np.split(diagonal, gates)], axis=1)
    found = fit(W, d)
    assert found.residual < 1e-8
    np.testing.assert_allclose(found.to_dense(), W, atol=1e-6)
    np.testing.assert_allclose(found.diagonal, diagonal, atol=1e-6)


def test_recovers_it_weighted():
    W = normal(14, 3) @ normal(3, 14, seed=1) + np.diag(normal(14, seed=2))
    np.testing.assert_allclose(fit(W, 3, moments=moments_of(14)).to_dense(), W, atol=1e-4)


def alternated(W, rank):
    """Return the errors of alternation without extrapolation from zero and from the own diagonal."""
    errors = []
    for diagonal in (np.zeros(len(W)), np.diag(W)):
        for _ in range(3000):
            U, values, V = np.linalg.svd(W - np.diag(diagonal))
            low_rank = U[:, :rank] * values[:rank] @ V[:rank]
            diagonal = np.diag(W - low_rank)
        errors.append(np.linalg.norm(W - low_rank - np.diag(diagonal)) / np.linalg.norm(W))
    return errors


@pytest.mark.parametrize(("n", "rank", "seed"), [(6, 3, 29), (5, 2, 3)], ids=["from the own diagonal", "from zero"])
def test_no_worse_than_alternation_from_zero_and_from_the_own_diagonal(n, rank, seed):
    """The two starts end in different minima. One of them is the better one by a factor of 2 for each of these matrices."""
    W = normal(n, n, seed=seed)
    errors = alternated(W, rank)
    assert max(errors) > 1.5 * min(errors)
    assert fit(W, rank).residual <= min(errors) * (1 + 1e-3)


def test_a_diagonal_that_was_found_with_increasing_ranks_may_be_better_than_both():
    W = normal(6, 6, seed=54)
    assert fit(W, 3).residual < 0.3 * min(alternated(W, 3))


@pytest.mark.parametrize("seed", [5, 7, 8, 9])
def test_iterations_are_the_decompositions_from_the_best_start(seed, monkeypatch):
    """The search for starts and the other starts do not count."""
    calls, found = [], []
    low_rank, alternate = _Problem.low_rank, _Problem.alternate

    def counted(*args):
        before = len(calls)
        turns = alternate(*args)
        found.append((turns.error, len(calls) - before))
        return turns

    monkeypatch.setattr(_Problem, "low_rank", lambda *args: calls.append(args) or low_rank(*args))
    monkeypatch.setattr(_Problem, "alternate", counted)
    iterations = fit(normal(6, 6, seed=seed), 3).iterations
    *screened, (_, refined) = found
    assert iterations == min(screened)[1] + refined
    assert len({count for _, count in screened}) > 1
    assert fit(normal(6, 6), 3, diagonal=False).iterations == 1


def best_of_another_optimizer(W, rank, C):
    """Minimize |C^(1/2) (W - R^T L - D)| by L-BFGS over all entries of L, R and D, from many starts."""
    n, columns = W.shape
    row, column = np.arange(columns) % n, np.arange(columns)

    def loss(x):
        left, right, diagonal = np.split(x, [rank * columns, rank * (columns + n)])
        left, right = left.reshape(rank, columns), right.reshape(rank, n)
        rest = right.T @ left - W
        rest[row, column] += diagonal
        slope = 2 * C @ rest
        return np.sum(rest * (C @ rest)), np.concatenate([(right @ slope).ravel(), (left @ slope.T).ravel(), slope[row, column]])

    rng = np.random.default_rng(3)
    starts = rng.standard_normal((8, rank * (columns + n) + columns)) * rng.choice([0.3, 1, 3], (8, 1))
    options = {"maxiter": 200, "ftol": 1e-10}
    best = min(minimize(loss, start, jac=True, method="L-BFGS-B", options=options).fun for start in starts)
    return np.sqrt(best / np.sum(W * (C @ W)))


PROBLEMS = {
    "noise": normal(6, 6, seed=11),
    "a large diagonal": normal(6, 6, seed=12) + np.diag(10 * normal(6, seed=13)),
    "heavy tails": 0.1 * normal(6, 6, seed=14) + np.diag(np.random.default_rng(15).standard_cauchy(6)),
    "two side by side": np.concatenate([normal(4, 4, seed=16), normal(4, 4, seed=17) + np.diag(4 * normal(4, seed=18))], axis=1),
}


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("problem", PROBLEMS)
def test_no_worse_than_another_optimizer_from_many_starts(problem, weighted):
    W = PROBLEMS[problem]
    C = moments_of(len(W)) if weighted else np.eye(len(W))
    found = fit(W, 2, moments=C if weighted else None)
    assert found.residual <= best_of_another_optimizer(W, 2, C) + 1e-5
    np.testing.assert_allclose(found.residual, relative_error(W, found.to_dense(), C), rtol=1e-9)


@settings(max_examples=30)
@given(st.integers(0, 2**32 - 1), st.sampled_from([(5, 1), (5, 3), (8, 2)]), st.booleans())
def test_a_diagonal_never_harms(seed, sizes, weighted):
    n, d = sizes
    W = normal(n, n, seed=seed)
    C = moments_of(n, seed=seed) if weighted else None
    assert fit(W, d, moments=C).residual <= fit(W, d, diagonal=False, moments=C).residual + 1e-6


def test_factors_are_balanced():
    for found in (fit(normal(7, 7), 3), fit(normal(7, 14), 3, moments=moments_of(7)), fit(normal(4, 7), 3, diagonal=False)):
        products = found.left @ found.left.T, found.right @ found.right.T
        np.testing.assert_allclose(*products, atol=1e-10)
        np.testing.assert_allclose(products[0], np.diag(np.diag(products[0])), atol=1e-10)


def test_split():
    joined = fit(normal(5, 15), 2)
    parts = joined.split([5, 5, 5])
    np.testing.assert_array_equal(np.concatenate([part.to_dense() for part in parts], axis=1), joined.to_dense())
    assert all(part.right is joined.right for part in parts)


@pytest.mark.parametrize("diagonal", [False, True])
@pytest.mark.parametrize("moments", [None, moments_of(7)])
def test_rank_for_is_the_smallest(diagonal, moments):
    W = normal(7, 7) * np.geomspace(1, 0.01, 7)
    how = {"diagonal": diagonal, "moments": moments}
    residuals = [fit(W, rank, **how).residual for rank in range(1, 8)]
    for error in (0.9, 0.3, 0.05, 1e-9):
        assert rank_for(W, error, **how) == 1 + next(i for i, residual in enumerate(residuals) if residual <= error)
    assert rank_for(W, 0.9, least=4, **how) == 4


def test_matrices_without_anything_to_find():
    for W in (np.zeros((4, 4)), np.eye(4)):
        for moments in (None, np.zeros((4, 4)), np.diag([1.0, 0, 0, 0])):
            found = fit(W, 1, moments=moments)
            np.testing.assert_allclose(found.to_dense(), W, atol=1e-9)
            assert found.residual < 1e-9
    W = normal(4, 4)
    np.testing.assert_allclose(fit(W, 4).to_dense(), W, atol=1e-12)


@pytest.mark.parametrize(
    ("W", "rank", "word"),
    [
        (normal(4, 4), 0, "rank 0"),
        (normal(4, 4), 2.5, "rank is 2.5: expected an integer from 1 to 4"),
        (normal(4, 4), True, "rank is True: expected an integer from 1 to 4"),
        (normal(4, 4), 5, "1 to 4"),
        (normal(4, 6), 2, "low_rank"),
        (np.full((4, 4), np.nan), 2, "finite"),
        (np.full((4, 4), -np.inf), 2, "finite"),
        (np.zeros((0, 4)), 1, r"\(0, 4\)"),
        (np.zeros(4), 1, r"\(4,\)"),
    ],
)
def test_matrices_and_ranks_that_do_not_fit(W, rank, word):
    with pytest.raises(UsageError, match=word):
        fit(W, rank)


@pytest.mark.parametrize("error", [0, 1, -0.1, float("nan")])
def test_errors_that_do_not_fit(error):
    with pytest.raises(UsageError, match="error is"):
        rank_for(normal(4, 4), error)


# Networks


def trained(row):
    """Return a network and its parameters, as `Recurrent` stores them, with a nonzero initial state."""
    recurrent = Recurrent(row.config(), width_of_input(row.cell))
    carry = jax.tree.map(lambda n: normal(n).astype(np.float32), CELLS[row.cell].carry(SPEC))
    return {"cell": stored_parameters(row)["params"], "initial_state": carry}, recurrent


def dense(params, recurrent):
    """Return every operator of a cell as dense arrays, by name."""
    template = recurrent.cell.template(recurrent.spec)
    operators = jax.tree.structure(template).flatten_up_to(cell_params(params, recurrent))
    return {name: op.to_dense() if hasattr(op, "to_dense") else op for name, op in zip(by_name(template), operators, strict=True)}


def assert_fits(found, recurrent):
    """Check that the parameters have the names and shapes of the network with the new configuration."""
    smaller = Recurrent(found.config, recurrent.input_size)
    template = jax.eval_shape(smaller.init, jax.random.key(0), jnp.zeros((1, 1, recurrent.input_size)))["params"]
    from_named(template, to_named(found.params))
    return smaller


COMPRESSIBLE = [row for row in PLAIN_ROWS if row.parametrization == "dense" and CELLS[row.cell].has_recurrent_matrices]
KINDS = [("low_rank", False), ("low_rank", True), ("low_rank_plus_diagonal", False), ("low_rank_plus_diagonal", True)]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "tied"), KINDS)
@pytest.mark.parametrize("row", COMPRESSIBLE, ids=str)
def test_of_full_rank_every_cell_is_the_same(row, kind, tied):
    params, recurrent = trained(row)
    found = compress(params, recurrent, rank=SIZE, parametrization=kind, tied=tied, input_rank=recurrent.input_size)
    smaller = assert_fits(found, recurrent)
    assert_close(dense(found.params, smaller), dense(params, recurrent), atol=1e-5)
    assert max(report.residual for report in found.matrices) < 1e-6
    assert_close(found.params["initial_state"], params["initial_state"], 0, 0)


OTHER_SOURCES = [
    Row("gru", "dense", weight_norm=True),
    Row("gru", "low_rank", tied=True),
    Row("gru", "low_rank_plus_diagonal", tied=True, weight_norm=True),
]


@pytest.mark.parametrize("row", OTHER_SOURCES, ids=str)
def test_networks_that_are_not_dense_are_the_same_too(row):
    params, recurrent = trained(row)
    found = compress(params, recurrent, rank=SIZE)
    assert not found.config.matrices.weight_norm
    assert_close(dense(found.params, assert_fits(found, recurrent)), dense(params, recurrent), atol=1e-5)


def test_a_form_of_the_user_is_a_target_if_it_has_a_rule(tables, monkeypatch):
    class Halved(type(FORMS["block_diagonal"])):
        short = "HALF"

    PARAMETRIZATIONS["halved"] = partial(Structured, form=Halved())
    params, recurrent = trained(Row("gru", "dense"))
    with pytest.raises(
        UsageError, match=r"'halved', which has no rule for the nearest matrix: give it a form, and add a rule to .*PROJECTIONS"
    ):
        compress(params, recurrent, parametrization="halved", blocks=2)
    monkeypatch.setitem(PROJECTIONS, "halved", PROJECTIONS["block_diagonal"])
    found = compress(params, recurrent, parametrization="halved", blocks=2)
    known = compress(params, recurrent, parametrization="block_diagonal", blocks=2)
    assert_close(found.params, known.params, 0, 0)
    assert (found.config.parametrization, found.config.label) == ("halved", f"HALF-GRU {SIZE}/2")


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_tied_inputs_without_a_factor_to_share_are_those_of_training(kind):
    config = replace(Row("gru", "dense", weight_norm=True).config(), input_parametrization=kind, input_tied=True)
    network = Recurrent(config, width_of_input("gru"))
    params = network.init(jax.random.key(0), jnp.zeros((3, 2, network.input_size)))["params"]
    found = compress(params, network, rank=SIZE)
    assert found.params["cell"]["input"].keys() == params["cell"]["input"].keys()


def test_tied_input_matrices_with_weight_norm_stay_tied_unless_they_are_compressed():
    config = replace(Row("gru", "dense", weight_norm=True).config(), input_parametrization="low_rank", input_rank=2, input_tied=True)
    recurrent = Recurrent(config, INPUT_SIZE)
    params = recurrent.init(jax.random.key(0), jnp.zeros((1, 1, INPUT_SIZE)))["params"]
    found = compress(params, recurrent, rank=SIZE)
    assert_close(dense(found.params, assert_fits(found, recurrent)), dense(params, recurrent), atol=1e-5)
    apart = compress(params, recurrent, rank=SIZE, input_rank=2)
    assert (found.config.inputs.tied, apart.config.inputs.tied) == (True, False)
    assert_close(dense(apart.params, assert_fits(apart, recurrent)), dense(params, recurrent), atol=1e-5)


@pytest.mark.parametrize(
    ("kind", "tied", "sizes"),
    [
        ("low_rank_plus_diagonal", False, {"rank": 2}),
        ("low_rank_plus_diagonal", True, {"rank": 2}),
        ("toeplitz_like", False, {"rank": 2}),
        ("circulant_plus_diagonal", False, {}),
    ],
)
def test_report_says_how_near_the_stored_matrices_are(kind, tied, sizes):
    params, recurrent = trained(Row("gru", "dense"))
    C = {name: moments_of(SIZE, seed) for seed, name in enumerate(("update", "reset", "candidate"))}
    found = compress(params, recurrent, parametrization=kind, tied=tied, input_rank=1, moments=C, **sizes)
    before, after = dense(params, recurrent), dense(found.params, assert_fits(found, recurrent))
    assert {array.dtype for array in jax.tree.leaves(found.params)} == {np.dtype(np.float32)}
    assert [report.matrix for report in found.matrices] == [f"{role}/{gate}" for role in ("recurrent", "input") for gate in C]
    for report in found.matrices:
        role, gate = report.matrix.split("/")
        W, near = (np.asarray(arrays[f"{gate}.{role}"], np.float64) for arrays in (before, after))
        np.testing.assert_allclose(report.residual, np.linalg.norm(W - near) / np.linalg.norm(W), rtol=1e-5)
        assert (report.rank, report.shape) == ((sizes.get("rank"), (SIZE, SIZE)) if role == "recurrent" else (1, (INPUT_SIZE, SIZE)))
        expected = None if role == "input" else pytest.approx(relative_error(W, near, C[gate]), rel=1e-5)
        assert report.output_error == expected
    assert found.config == replace(
        recurrent.config, parametrization=kind, tied=tied, input_parametrization="low_rank", input_rank=1, **sizes
    )


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_rank_for_an_error_is_the_smallest(weighted, tied):
    """This holds for every matrix, including matrices that share R."""
    params, recurrent = trained(Row("lstm", "dense"))
    C = {name: moments_of(SIZE, seed) for seed, name in enumerate(("input", "forget", "candidate", "output"))} if weighted else None

    def worst(found):
        return max(report.output_error if weighted else report.residual for report in found.matrices)

    found = compress(params, recurrent, error=0.4, moments=C, tied=tied)
    assert 1 < found.config.matrices.rank <= SIZE
    assert worst(found) <= 0.4 < worst(compress(params, recurrent, rank=found.config.matrices.rank - 1, moments=C, tied=tied))


def test_the_rank_for_an_error_is_the_smallest_if_rows_of_matrices_that_share_a_factor_differ_much():
    """The mean error of the matrices exceeds the error of each, as it also weights rows of W that hardly any v of the matrix meets."""
    params, recurrent = trained(Row("gru", "dense"))
    strong, kernels, C = np.arange(SIZE) < SIZE // 2, {}, {}
    for seed, (name, rows) in enumerate((("update", strong), ("reset", ~strong), ("candidate", ~strong))):
        kernel = 0.9 * np.linalg.qr(normal(SIZE, SIZE, seed=seed))[0]
        outer = normal(SIZE, 1, seed=seed + 3) @ normal(1, SIZE, seed=seed + 6)
        kernel[rows] = 2 * outer[rows] / np.linalg.norm(outer[rows])
        kernels[name], C[name] = {"kernel": kernel.astype(np.float32)}, np.diag(np.where(rows, 1.0, 1e-3))
    changed = {**params, "cell": {**params["cell"], "recurrent": kernels}}
    found = partial(compress, changed, recurrent, parametrization="low_rank", tied=True, moments=C)
    worst = [max(report.error for report in found(rank=rank).matrices) for rank in range(1, SIZE + 1)]
    assert found(error=0.25).config.matrices.rank == 1 + next(i for i, error in enumerate(worst) if error <= 0.25) < SIZE


@pytest.mark.parametrize("layers", ["01", "10"])
def test_a_rank_that_another_group_needs_is_enough_for_every_group(layers):
    """One layer needs rank 3. The other is within the error at 2 and not at 3: its matrices have moments of other sizes."""
    rng = np.random.default_rng(34)
    second, weights = ([draw() for _ in range(2)] for draw in (lambda: rng.standard_normal((4, 4)), lambda: 10.0 ** rng.uniform(-3, 1, 4)))
    first = [np.linalg.qr(normal(4, 4))[0] * [1, 1, 1, 0]] * 2
    network = Recurrent(ModelConfig("rhn", 4, depth=2, parametrization="dense"), 3)
    params = network.init(jax.random.key(0), jnp.zeros((1, 1, 3)))["params"]
    names = [f"{layer}_{gate}" for layer in layers for gate in ("candidate", "transform")]
    kernels = {name: {"kernel": kernel.astype(np.float32)} for name, kernel in zip(names, (*first, *second), strict=True)}
    C = dict(zip(names, (np.eye(4), np.eye(4), *map(np.diag, weights)), strict=True))
    changed = {**params, "cell": {**params["cell"], "recurrent": kernels}}
    found = partial(compress, changed, network, parametrization="low_rank", tied=True, moments=C)
    errors = [
        {report.matrix[10]: report.error for report in sorted(found(rank=rank).matrices, key=lambda one: one.error)} for rank in (2, 3)
    ]
    assert errors[0][layers[1]] < 0.38 < errors[0][layers[0]]
    assert errors[1][layers[0]] < 0.38 < errors[1][layers[1]]
    assert found(error=0.38).config.matrices.rank == 4


@pytest.mark.parametrize(
    ("row", "how", "word"),
    [
        (Row("gru", "dense"), {"rank": 2, "parametrization": "dense"}, "parametrization is 'dense': choose from "),
        (Row("gru", "dense"), {}, "give one of them, as in"),
        (Row("gru", "dense"), {"rank": 2, "error": 0.5}, "give one of them, as in"),
        (Row("gru", "dense"), {"rank": SIZE + 1}, f"1 to {SIZE}"),
        (Row("gru", "dense"), {"rank": 1, "input_rank": INPUT_SIZE + 1}, f"1 to {INPUT_SIZE}"),
        (Row("gru", "dense"), {"error": 0.0}, "error is 0.0"),
        (Row("gru", "dense"), {"parametrization": "circulant", "tied": True}, "tied is True, and circulant takes neither"),
        (Row("gru", "dense"), {"parametrization": "monarch", "error": 0.1}, "error is 0.1 and tied is False, and monarch takes neither"),
        (
            Row("gru", "dense"),
            {"parametrization": "circulant", "rank": 2},
            "rank is 2, and circulant has no size: give these, and no other",
        ),
        (Row("gru", "dense"), {"parametrization": "householder"}, "rank is None, and householder has rank: give these, and no other"),
        (Row("gru", "dense"), {"rank": 2.5}, "rank is 2.5: expected an integer"),
        (Row("gru", "dense"), {"rank": 2, "input_rank": 1.5}, "rank is 1.5: expected an integer"),
        (Row("gru", "dense"), {"error": 0.1, "moments": still(0.0)}, "moments of 'update' are all zero.*--examples 0"),
        (Row("gru", "dense"), {"rank": 1, "moments": still(float("nan"))}, "moments of 'update' are not finite"),
        (Row("gru", "dense"), {"rank": 1, "moments": np.eye(SIZE)}, "moments are a ndarray: give a mapping of update, reset, candidate"),
        (
            Row("gru", "dense"),
            {"rank": 1, "moments": {"recurrent/update": np.eye(SIZE)}},
            "moments have the names recurrent/update: expected update, reset, candidate",
        ),
        (
            Row("gru", "dense"),
            {"rank": 1, "moments": still(1.0) | {"reset": np.eye(SIZE + 1)}},
            rf"the moments of 'reset' have shape \({SIZE + 1}, {SIZE + 1}\): expected \({SIZE}, {SIZE}\)",
        ),
        (
            Row("gru", "dense"),
            {"parametrization": "circulant", "moments": still(1.0) | {"reset": np.triu(np.ones((SIZE, SIZE)))}},
            "the moments of 'reset' are not symmetric",
        ),
        (Row("unitary", "dense"), {"rank": 1}, "no recurrent matrices to compress"),
    ],
)
def test_options_that_do_not_fit(row, how, word):
    params, recurrent = trained(row)
    with pytest.raises(UsageError, match=word):
        compress(params, recurrent, **how)


def test_no_moments_are_equal_weights():
    params, recurrent = trained(Row("gru", "dense"))
    for kind, rank in (("low_rank", 2), ("circulant", None)):
        found, expected = (compress(params, recurrent, rank=rank, parametrization=kind, moments=given) for given in ({}, None))
        assert found.matrices == expected.matrices
        assert {report.output_error for report in found.matrices} == {None}


@pytest.mark.parametrize(
    ("moments", "says"),
    [
        (np.eye(4), r"moments have shape \(4, 4\): expected \(5, 5\)"),
        (np.ones(5), r"moments have shape \(5,\)"),
        (np.full((5, 5), np.inf), "moments are not finite"),
        (np.triu(np.ones((5, 5))), "moments are not symmetric"),
        (np.fliplr(np.eye(5)), "moments have the eigenvalue -1: expected none below 0"),
    ],
)
def test_moments_that_do_not_fit_a_matrix(moments, says):
    for find in (partial(fit, rank=2), partial(rank_for, error=0.5)):
        with pytest.raises(UsageError, match=says):
            find(normal(5, 5), moments=moments)


def test_a_matrix_may_be_a_list():
    W = normal(5, 5)
    assert fit(W.tolist(), 2).residual == fit(W, 2).residual
    assert rank_for(W.tolist(), 0.5) == rank_for(W, 0.5)
    with pytest.raises(UsageError, match=r"an array of shape \(2,\) is not a matrix"):
        fit([1.0, 2.0], 1)


def test_the_network_of_a_compression_has_its_parameters():
    params, recurrent = trained(Row("gru", "dense"))
    found = compress(params, recurrent, rank=2)
    xs = jnp.asarray(normal(3, 2, INPUT_SIZE), jnp.float32)
    assert_close(found.network.apply({"params": found.params}, xs), Recurrent(found.config, INPUT_SIZE).apply({"params": found.params}, xs))


def states_seen(cell, params, recurrent, inputs, mask):
    """Compute the rows that each recurrent matrix of a GRU multiplies, at steps that count, in a float64 loop."""
    w = {name: np.asarray(*jax.tree.leaves(array), np.float64) for name, array in dense(params, recurrent).items()}
    rows = {"update": [], "reset": [], "candidate": []}
    for x, valid in zip(inputs, mask, strict=True):
        h = np.asarray(params["initial_state"], np.float64)
        for step in x[valid]:
            reset = sigmoid(step @ w["reset.input"] + h @ w["reset.recurrent"] + w["reset.bias"])
            rows["update"].append(h)
            rows["reset"].append(h)
            rows["candidate"].append(reset * h if cell == "gru" else h)
            h, _ = ORACLES[cell].step(w, h, step)
    return {name: np.stack(found) for name, found in rows.items()}


@pytest.mark.parametrize("cell", ["gru", "gru_reset_after", "gru_cudnn"])
def test_second_moments_are_those_of_what_matrices_are_applied_to(cell):
    params, recurrent = trained(Row(cell, "dense"))
    inputs, mask = normal(4, 6, INPUT_SIZE).astype(np.float32), np.arange(6) < np.array([[6], [3], [1], [6]])
    found = second_moments(params, recurrent, [(inputs[:2], mask[:2]), (inputs[2:], mask[2:])], noise=0.0)
    for name, rows in states_seen(cell, params, recurrent, inputs, mask).items():
        np.testing.assert_allclose(found[name], rows.T @ rows / len(rows), atol=1e-5)


def test_second_moments_of_a_shared_matrix_are_means_over_its_layers():
    """The same layers, once as shared ones and once as copies of their parameters."""
    xs = normal(2, 6, SIZE).astype(np.float32)
    shared, apart = (
        Recurrent(ModelConfig("gru", SIZE, parametrization="dense", layers=2, shared_layers=of_all), SIZE) for of_all in (True, False)
    )
    params = shared.init(jax.random.key(0), xs)["params"]
    copies = {role: {n.replace("_0_", f"_{k}_"): v for n, v in of.items() for k in (0, 1)} for role, of in params["cell"].items()}
    found = second_moments(params, shared, [(xs, None)], noise=0.0)
    layers = second_moments({**params, "cell": copies}, apart, [(xs, None)], noise=0.0)
    assert len(layers) == 2 * len(found)
    for name, moments in found.items():
        np.testing.assert_allclose(moments, (layers[name] + layers[name.replace("_0_", "_1_")]) / 2, atol=1e-5)


@pytest.mark.parametrize("batches", [[], [(np.ones((2, 3, INPUT_SIZE), np.float32), np.zeros((2, 3), bool))]], ids=["none", "masked"])
def test_second_moments_of_no_steps_are_refused(batches):
    params, recurrent = trained(Row("gru", "dense"))
    with pytest.raises(UsageError, match="no step that counts"):
        second_moments(params, recurrent, batches)


def test_second_moments_depend_on_the_settings_of_the_cell():
    params, recurrent = trained(Row("vcgru", "dense"))
    inputs = normal(2, 4, recurrent.input_size).astype(np.float32)
    by_default, same, other = (
        second_moments(params, recurrent, [(inputs, None)], settings=settings)
        for settings in (None, *({"cell": {"sharpness": jnp.asarray(sharpness)}} for sharpness in (1.0, 0.1)))
    )
    assert_close(same, by_default)
    assert all(np.linalg.norm(other[name] - C) > 1e-2 for name, C in by_default.items())


def test_second_moments_of_streams_are_those_of_one_long_sequence():
    params, recurrent = trained(Row("lstm", "low_rank"))
    inputs = normal(2, 9, INPUT_SIZE).astype(np.float32)
    windows = [(part, None) for part in np.split(inputs, 3, axis=1)]
    streamed, whole, restarted = (
        second_moments(params, recurrent, batches, streams=streams)
        for batches, streams in ((windows, True), ([(inputs, None)], False), (windows, False))
    )
    assert_close(streamed, whole)
    assert np.linalg.norm(restarted["input"] - whole["input"]) > 1e-2


def test_noise_is_white_and_masks_may_be_absent():
    params, recurrent = trained(Row("rhn", "low_rank_plus_diagonal"))
    inputs = normal(2, 3, INPUT_SIZE).astype(np.float32)
    clean, noisy = (second_moments(params, recurrent, [(inputs, None)], noise=noise) for noise in (0.0, 0.5))
    assert clean.keys() == {f"{layer}_{gate}" for layer in range(SPEC.depth) for gate in ("candidate", "transform")}
    for name, C in clean.items():
        np.testing.assert_allclose(noisy[name], C + 0.5 * np.mean(np.diag(C)) * np.eye(SIZE), rtol=1e-5, atol=1e-7)


def test_rank_is_not_spent_where_the_state_never_moves():
    """Half of the units have no input and stay at zero. The others use a matrix of rank 3."""
    model = SequenceModel(ModelConfig("elman", 16, parametrization="dense", trainable_initial_state=False), 2, 3, "all")
    inputs = normal(4, 6, 2).astype(np.float32)
    params = filled(jax.eval_shape(model.init, jax.random.key(0), inputs)["params"])
    U = np.concatenate([0.3 * normal(8, 3) @ normal(3, 8, seed=1), 3 * normal(8, 8, seed=2)])
    params["recurrent"]["cell"]["recurrent"]["candidate"]["kernel"] = np.float32(np.pad(U, ((0, 0), (0, 8))))
    params["recurrent"]["cell"]["input"]["candidate"]["kernel"][:, 8:] = 0
    params["recurrent"]["cell"]["bias"]["candidate"][8:] = 0
    recurrent = Recurrent(model.config, 2)
    expected = model.apply({"params": params}, inputs)

    def distance(moments):
        found = compress(params["recurrent"], recurrent, rank=3, parametrization="low_rank", moments=moments)
        outputs = model.clone(config=found.config).apply({"params": params | {"recurrent": found.params}}, inputs)
        return float(jnp.linalg.norm(outputs - expected) / jnp.linalg.norm(expected))

    assert distance(None) > 0.1
    assert distance(second_moments(params["recurrent"], recurrent, [(inputs, None)], noise=0.0)) < 1e-4


# Cells of other libraries

FLAX = {"GRUCell": nn.GRUCell, "LSTMCell": nn.LSTMCell, "OptimizedLSTMCell": nn.OptimizedLSTMCell}


def run(params, recurrent, xs):
    carry = recurrent.cell.zero_carry(recurrent.spec, xs.shape[1:2])
    return recur(recurrent.cell.step, cell_params(params, recurrent), carry, xs)[1]


def filled(tree, seed=0):
    """Fill all arrays with nonzero numbers; biases are zero at initialization."""
    rng = np.random.default_rng(seed)
    return jax.tree.map(lambda a: (0.5 * rng.standard_normal(a.shape)).astype(np.float32), tree)


@pytest.mark.slow
@pytest.mark.parametrize("name", FLAX)
def test_reads_flax(name):
    cell, xs = FLAX[name](SIZE), normal(6, 2, INPUT_SIZE).astype(np.float32)
    carry = cell.initialize_carry(jax.random.key(0), xs[0].shape)
    arrays = filled(jax.eval_shape(cell.init, jax.random.key(0), carry, xs[0])["params"])
    expected = jax.lax.scan(lambda h, x: cell.apply({"params": arrays}, h, x), carry, xs)[1]
    for form in (arrays, {"encoder": {"cell": arrays}, "other": np.zeros(3)}, to_named(arrays)):
        params, recurrent = read(form)
        assert recurrent.config.cell == ("gru_cudnn" if name == "GRUCell" else "lstm")
        assert_close(run(params, recurrent, xs), expected, rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("kind", ["GRU", "LSTM"])
def test_reads_pytorch(kind, bias):
    torch = pytest.importorskip("torch")
    net = getattr(torch.nn, kind)(INPUT_SIZE, SIZE, num_layers=2, bias=bias, bidirectional=True)
    xs = normal(6, 2, INPUT_SIZE).astype(np.float32)
    state = {f"encoder.{name}": array for name, array in net.state_dict().items()}

    def layer(name, xs):
        params, recurrent = read(state, name)
        return run(params, recurrent, xs)

    def both(number, xs):
        return jnp.concatenate([layer(f"l{number}", xs), layer(f"l{number}_reverse", xs[::-1])[::-1]], axis=-1)

    with torch.no_grad():
        expected = net(torch.tensor(xs))[0].numpy()
    assert_close(both(1, both(0, xs)), expected, rtol=1e-6)


def test_a_single_cell_of_pytorch_is_named_without_a_layer():
    arrays = {"weight_ih_l0": normal(12, 3), "weight_hh_l0": normal(12, 3, seed=1), "bias_ih_l0": normal(12), "bias_hh_l0": normal(12)}
    single = {name.removesuffix("_l0"): array for name, array in arrays.items()}
    jax.tree.map(np.testing.assert_array_equal, read(arrays)[0], read(single)[0])


def test_foreign_cells_can_be_compressed():
    arrays = {"weight_ih_l0": normal(12, 3), "weight_hh_l0": normal(12, 3), "bias_ih_l0": normal(12), "bias_hh_l0": normal(12)}
    params, recurrent = read(arrays)
    found = compress(params, recurrent, rank=3)
    assert_close(dense(found.params, assert_fits(found, recurrent)), dense(params, recurrent), atol=1e-5)


PYTORCH = {"weight_ih_l0": np.zeros((9, 2)), "weight_hh_l0": np.zeros((9, 3))}
FOREIGN = {
    "nothing": ({"kernel": np.zeros(3)}, "found none"),
    "two cells": ({"a": {"hn": {"kernel": np.zeros((2, 2))}}, "b": {"hn": {"kernel": np.zeros((2, 2))}}}, "a.hn.kernel, b.hn.kernel"),
    "a plain recurrent network": (PYTORCH | {"weight_hh_l0": np.zeros((3, 3))}, "no GRU or LSTM"),
    "rows that no number of gates divides": (PYTORCH | {"weight_hh_l0": np.zeros((10, 3))}, r"shape \(10, 3\) fits no GRU or LSTM"),
    "a name that only ends like one of Flax": ({"own_hn": {"kernel": np.zeros((2, 2))}}, "found none"),
    "an empty matrix": (PYTORCH | {"weight_hh_l0": np.zeros((9, 0))}, r"weight_hh_l0' has shape \(9, 0\): expected a matrix"),
    "projections": (PYTORCH | {"weight_hr_l0": np.zeros((2, 3))}, "projections"),
    "no input matrix": ({"weight_hh_l0": np.zeros((9, 3))}, "weight_ih_l0.* is missing"),
    "a wrong input matrix": (PYTORCH | {"weight_ih_l0": np.zeros((8, 2))}, r"\(8, 2\).*\(9, 2\)"),
    "a wrong bias": (PYTORCH | {"bias_ih_l0": np.zeros(9), "bias_hh_l0": np.zeros(3)}, r"bias_hh_l0.*\(3,\).*\(9,\)"),
    "text": (PYTORCH | {"weight_hh_l0": np.full((9, 3), "0.5")}, "weight_hh_l0' is of type <U3: give real numbers"),
    "complex numbers": (PYTORCH | {"weight_ih_l0": np.zeros((9, 2), complex)}, "weight_ih_l0' is of type complex128: give real"),
    "a network that diverged": (
        PYTORCH | {"bias_ih_l0": np.full(9, np.nan), "bias_hh_l0": np.zeros(9)},
        "bias_ih_l0' holds numbers that are not finite in float32",
    ),
    "numbers beyond float32": (PYTORCH | {"weight_hh_l0": np.full((9, 3), 1e39)}, "weight_hh_l0' holds numbers that are not finite"),
    "no matrix": ({"hn": {"kernel": np.zeros(3)}, "hr": {"kernel": np.zeros(3)}}, "hr.kernel.*expected a matrix"),
    "a gate missing": (
        {"hn": {"kernel": np.zeros((2, 2))}, "hr": {"kernel": np.zeros((2, 2))}, "ir": {"kernel": np.zeros((4, 2))}},
        "missing",
    ),
}


@pytest.mark.parametrize("case", FOREIGN)
def test_arrays_that_are_no_cell(case):
    arrays, word = FOREIGN[case]
    with pytest.raises(UsageError, match=word):
        read(arrays)


def test_parameters_of_a_whole_network_are_one_line():
    network = Recurrent(ModelConfig(size=4, rank=2), 3)
    with pytest.raises(UsageError, match=r"params have the parts readout, recurrent, and none is 'cell': give params\['recurrent'\]"):
        compress({"readout": {}, "recurrent": {}}, network, rank=1)


def test_a_layer_of_flax_is_no_network_to_compress():
    rnn = RNN(Cell("gru", 4))
    params = rnn.init(jax.random.key(0), jnp.zeros((1, 1, 3)))["params"]
    with pytest.raises(UsageError, match=r"the network is a RNN: give a Recurrent, .* for a layer of Flax Recurrent\(ModelConfig\("):
        compress(params, rnn, rank=1)


def test_a_smaller_network_has_one_type():
    config = ModelConfig("gru", SIZE, parametrization="dense")
    params = config.build(7, 7, "all").init(jax.random.key(0), jnp.zeros((1, 2), int))["params"]["recurrent"]
    found = compress(jax.tree.map(lambda a: a.astype(jnp.bfloat16), params), Recurrent(config, 7), rank=1)
    assert {leaf.dtype for leaf in jax.tree.leaves(found.params)} == {np.dtype("float32")}
