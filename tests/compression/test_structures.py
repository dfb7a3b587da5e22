"""Nearest structured matrices: recovery, stationary points of the error, closed forms of the residual, and what a survey reports."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg

from lrpt.analysis.budgets import closest_storage, parameters_of, storages
from lrpt.compression.structures import PROJECTIONS, nearest, to_dense
from lrpt.compression.survey import distances
from lrpt.errors import UsageError
from lrpt.parametrizations import FORMS, PARAMETRIZATIONS, MatrixConfig
from lrpt.specs import MatrixSpec

N = 6
SPEC = MatrixSpec(N, N, "recurrent")
NEAR_ONLY = {"toeplitz_like", "householder"}


def config(kind, rank=2, blocks=2, density=0.5):
    return MatrixConfig(kind, rank, blocks=blocks, density=density)


def drawn(kind, seed=0, **sizes):
    rng = np.random.default_rng(seed)
    arrays = FORMS[kind].arrays("a", SPEC, config(kind, **sizes))
    return {field: rng.standard_normal(stored.shape) for field, stored in arrays.items()}


def found(kind, W, **sizes):
    return to_dense(nearest(W, "a", SPEC, config(kind, **sizes)), "a", SPEC, config(kind, **sizes))


def normal(n_in=N, n_out=N):
    return np.random.default_rng(7).standard_normal((n_in, n_out))


def test_every_form_has_a_nearest_matrix():
    assert {name.removesuffix("_plus_diagonal") for name in FORMS} == PROJECTIONS.keys()


@pytest.mark.parametrize("kind", PROJECTIONS)
def test_what_has_the_structure_is_found(kind):
    W = to_dense(drawn(kind), "a", SPEC, config(kind))
    np.testing.assert_allclose(found(kind, W), W, atol=1e-9)


@pytest.mark.parametrize("kind", [kind for kind in FORMS if kind.removesuffix("_plus_diagonal") not in NEAR_ONLY])
def test_the_error_does_not_change_to_first_order_where_it_is_least(kind):
    W, at = normal(), nearest(normal(), "a", SPEC, config(kind))
    with jax.enable_x64(True):

        def error(arrays):
            return jnp.sum(jnp.square(FORMS[kind].matrix("a", SPEC, config(kind), arrays).to_dense() - W))

        gradient = jax.grad(error)({field: jnp.asarray(array) for field, array in at.items()})
    assert max(np.abs(part).max() for part in gradient.values()) < (2e-2 if kind.endswith("_plus_diagonal") else 1e-9)


def tails(slices, kept):
    """The norm of what is left of matrices without their first singular values."""
    return np.sqrt(np.sum(np.square(np.linalg.svd(slices, compute_uv=False)[..., kept:])))


def test_residuals_are_those_of_the_closed_forms():
    W = normal()
    blocks = W.reshape(2, 3, 2, 3)
    expected = {
        "kronecker": tails(blocks.transpose(0, 2, 1, 3).reshape(4, 9), 1),
        "tensor_train": tails(blocks.transpose(0, 2, 1, 3).reshape(4, 9), 2),
        "monarch": tails(blocks.transpose(0, 3, 1, 2), 1),
        "block_diagonal": np.linalg.norm([blocks[0, :, 1], blocks[1, :, 0]]),
        "low_rank": tails(W, 2),
    }
    for kind, norm in expected.items():
        np.testing.assert_allclose(np.linalg.norm(W - found(kind, W)), norm, rtol=1e-9, err_msg=kind)


def test_the_nearest_circulant_matrix_solves_the_least_squares_problem():
    W, basis = normal(), np.stack([scipy.linalg.circulant(row).T.ravel() for row in np.eye(N)], 1)
    np.testing.assert_allclose(found("circulant", W).ravel(), basis @ np.linalg.lstsq(basis, W.ravel())[0], atol=1e-12)


def test_toeplitz_matrices_have_displacement_rank_two():
    W = scipy.linalg.toeplitz(normal()[0], normal()[1])
    np.testing.assert_allclose(found("toeplitz_like", W), W, atol=1e-9)
    assert np.linalg.norm(W - found("toeplitz_like", W, rank=1)) > 0.1


def test_reflections_come_near_what_is_nearly_orthogonal():
    """Of a product of four reflections, fewer reach less; the polar factor is found whatever the scale."""
    W = to_dense(drawn("householder", rank=4), "a", SPEC, config("householder", rank=4))
    distance = [np.linalg.norm(W - found("householder", 3 * W, rank=rank)) for rank in (2, 4, 6)]
    assert distance[0] > 0.1 > 1e-9 > max(distance[1:])


def test_reflections_go_where_each_of_them_gains_most():
    """An eigenvalue of -1 is 4 from that of the identity and takes one. A turn by 120 degrees is 6 from it and takes two."""
    turn = np.array([[-1, -np.sqrt(3)], [np.sqrt(3), -1]]) / 2
    basis = np.linalg.qr(normal())[0]
    W = basis @ scipy.linalg.block_diag(turn, -np.eye(2), np.eye(2)) @ basis.T
    np.testing.assert_allclose([np.sum((W - found("householder", W, rank=rank)) ** 2) for rank in (2, 4)], [6, 0], atol=1e-9)


def test_a_spare_reflection_goes_into_a_plane_that_was_left_out():
    """Wherever it lies in that plane, it is 4 from a turn. Within the plane that two others turn, it would add 4 to what is left out."""
    W = np.eye(N)
    for plane, angle in enumerate((2.5, 1.0)):
        at = slice(2 * plane, 2 * plane + 2)
        W[at, at] = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
    left_out = 4 * (1 - np.cos(1.0))
    np.testing.assert_allclose([np.sum((W - found("householder", W, rank=rank)) ** 2) for rank in (2, 3)], [left_out, 4], atol=1e-9)


def test_no_worse_than_alternation_from_the_own_diagonal():
    """From a diagonal of zero, alternation ends in a minimum that is almost three times as far away."""
    W, errors = np.random.default_rng(2).standard_normal((N, N)) + 5 * np.diag(np.random.default_rng(102).standard_normal(N)), []
    for diagonal in (np.zeros(N), np.diag(W)):
        for _ in range(500):
            rest = W - found("monarch", W - np.diag(diagonal))
            diagonal = np.diag(rest)
        errors.append(np.linalg.norm(rest - np.diag(diagonal)))
    assert errors[0] > 2 * errors[1]
    assert np.linalg.norm(W - found("monarch_plus_diagonal", W)) <= errors[1] * (1 + 1e-4)


@pytest.mark.parametrize("kind", sorted(NEAR_ONLY))
def test_a_turn_that_makes_it_worse_does_not_count(kind):
    """Projections on these structures are near, but not nearest, so alternation may lead away."""
    W, errors = np.random.default_rng(4).standard_normal((N, N)) + 3 * np.diag(np.random.default_rng(104).standard_normal(N)), []
    for diagonal in (np.zeros(N), np.diag(W)):
        turns = [np.inf]
        while len(turns) < 2 or turns[-1] < turns[-2]:
            rest = W - found(kind, W - np.diag(diagonal))
            diagonal = np.diag(rest)
            turns.append(np.linalg.norm(rest - np.diag(diagonal)))
        errors.append(turns)
    assert min(turns[-1] for turns in errors) > 1.005 * min(map(min, errors))
    np.testing.assert_allclose(np.linalg.norm(W - found(f"{kind}_plus_diagonal", W)), min(map(min, errors)), rtol=1e-6)


@pytest.mark.parametrize("kind", [kind for kind in FORMS if kind.endswith("_plus_diagonal")])
def test_a_diagonal_never_makes_it_worse(kind):
    W = normal() + 5 * np.diag(normal()[0])
    plain = kind.removesuffix("_plus_diagonal")
    assert np.linalg.norm(W - found(kind, W)) < np.linalg.norm(W - found(plain, W))


def test_matrices_that_are_not_square():
    W, spec = normal(4, 6), MatrixSpec(4, 6, "input")
    for kind in ("block_diagonal", "monarch", "kronecker", "tensor_train", "sparse"):
        arrays = nearest(W, "a", spec, config(kind))
        assert {field: array.shape for field, array in arrays.items()} == {
            field: stored.shape for field, stored in FORMS[kind].arrays("a", spec, config(kind)).items()
        }
        assert np.linalg.norm(W - to_dense(arrays, "a", spec, config(kind))) < np.linalg.norm(W)


@pytest.mark.parametrize("kind", FORMS)
def test_no_size_has_a_number_of_parameters_closer_to_the_budget(kind):
    counts = [parameters_of(SPEC, other) for other in storages(kind, SPEC)]
    for budget in (1, 17, 40):
        best = abs(parameters_of(SPEC, closest_storage(kind, SPEC, budget)) - budget)
        assert best == min(abs(count - budget) for count in [count for count in counts if count < N * N] or counts)


def test_a_survey_names_the_structure_that_a_matrix_has():
    W = to_dense(drawn("monarch"), "a", SPEC, config("monarch"))
    found = distances({"a": (SPEC, W)}, rank=2)
    best = min(found, key=lambda distance: distance.residual)
    assert (best.parametrization, best.sizes["blocks"]) in {("monarch", 2), ("monarch_plus_diagonal", 2)}
    assert {distance.parametrization for distance in found} == FORMS.keys() - {"dense"}


def test_a_survey_compares_structures_with_equal_numbers_of_parameters():
    matrices = {"a": normal(), "b": normal().T}
    found = distances({name: (SPEC, W) for name, W in matrices.items()}, rank=1)
    kinds = sorted(FORMS.keys() - {"dense"})
    assert sorted((distance.matrix, distance.parametrization) for distance in found) == [
        (name, kind) for name in matrices for kind in kinds
    ]
    budget = parameters_of(SPEC, config("low_rank_plus_diagonal", rank=1))
    for name, kind, sizes, parameters, residual in found:
        stored, W = MatrixConfig(kind, **sizes), matrices[name]
        assert parameters == parameters_of(SPEC, stored) == parameters_of(SPEC, closest_storage(kind, SPEC, budget))
        distance = np.linalg.norm(W - to_dense(nearest(W, name, SPEC, stored), name, SPEC, stored))
        np.testing.assert_allclose(residual, distance / np.linalg.norm(W), rtol=1e-9)
    with pytest.raises(UsageError, match="rank"):
        distances({"a": (SPEC, normal())}, rank=N + 1)


def test_what_does_not_fit_is_refused(tables):
    with pytest.raises(UsageError, match="blocks 4 do not divide"):
        nearest(normal(), "a", SPEC, config("monarch", blocks=4))
    PARAMETRIZATIONS["mine"] = PARAMETRIZATIONS["dense"]
    with pytest.raises(UsageError, match="nothing is known about the nearest matrix of kind 'mine'"):
        nearest(normal(), "a", SPEC, config("mine"))
    with pytest.raises(UsageError, match="no circulant matrix is 4 x 6: choose another parametrization"):
        closest_storage("circulant", MatrixSpec(4, 6, "input"), 10)


def test_a_budget_of_a_full_matrix_gives_one_with_fewer_parameters():
    """Rank 4 has as many as a full matrix, 64."""
    assert closest_storage("low_rank", MatrixSpec(8, 8, "recurrent"), 64).rank == 3
