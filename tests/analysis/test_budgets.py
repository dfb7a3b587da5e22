"""Tests of equal numbers of parameters: the search is exact, and widths agree with the lattice paper's budgets."""

from dataclasses import replace
from functools import partial
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lrpt.analysis.budgets import LanguageModelSize, Width, closest_storage, closest_width, quadratic
from lrpt.cells import CELLS
from lrpt.errors import UsageError
from lrpt.parametrizations import FORMS, PARAMETRIZATIONS, MatrixConfig, Parametrization, Structured
from lrpt.specs import MatrixSpec

MODELS = ["lru", "lru_rg", "lru_ps", "gru", "lstm", "grid_lstm"]
TWO_BIASES = {"gru", "lstm", "grid_lstm"}
# Closest widths: for each model with 2 and 4 layers, then RHN of depth 5 with 1 and 2 layers.
SIZES = {
    (51, 10): (643, 455, 704, 498, 787, 557, 908, 643, 787, 557, 557, 394, 908, 643),
    (51, 24): (998, 706, 1093, 773, 1221, 864, 1409, 997, 1221, 864, 864, 611, 1410, 997),
    (88, 10): (642, 454, 702, 498, 785, 556, 905, 641, 785, 556, 556, 393, 905, 641),
    (88, 24): (996, 705, 1091, 772, 1219, 863, 1406, 996, 1219, 863, 863, 610, 1406, 996),
    (28, 10): (644, 456, 705, 499, 789, 558, 910, 644, 788, 558, 558, 394, 910, 644),
    (28, 24): (999, 706, 1094, 774, 1223, 865, 1411, 998, 1222, 865, 865, 611, 1411, 998),
    (206, 10): (637, 452, 697, 495, 778, 552, 895, 636, 777, 552, 552, 392, 895, 637),
    (206, 24): (991, 703, 1085, 769, 1212, 859, 1397, 991, 1211, 859, 859, 609, 1397, 991),
}


def columns(symbols):
    """Return the models of the table. The baselines of the original code have two biases, except its RHN."""
    stacks = [LanguageModelSize(symbols, cell, layers, second_biases=cell in TWO_BIASES) for cell, layers in product(MODELS, (2, 4))]
    return [*stacks, *(LanguageModelSize(symbols, "rhn", layers, depth=5) for layers in (1, 2))]


def test_counts_are_interpolated_by_a_polynomial_of_degree_two():
    count = quadratic(lambda width: 7 + 3 * width + 5 * width**2)
    assert [count(width) for width in (1, 4, 1_000)] == [15, 99, 5_003_007]


@pytest.mark.slow
@pytest.mark.parametrize("symbols", [51, 88, 28, 206])
def test_the_sizes_of_the_lattice_papers_budgets(symbols):
    models = columns(symbols)
    counts = [quadratic(model.parameters) for model in models]
    for model, count in zip(models, counts, strict=True):
        assert model.parameters(137) == count(137)
    for budget in (10, 24):
        found = tuple(closest_width(count, budget * 1_000_000).width for count in counts)
        assert found == SIZES[symbols, budget]


@pytest.mark.parametrize(
    ("cell", "depth", "second", "expected"),
    [
        ("lru", 1, False, lambda n: 12 * n**2 + 6 * n),
        ("lru_rg", 1, False, lambda n: 10 * n**2 + 5 * n),
        ("lru_ps", 1, False, lambda n: 8 * n**2 + 4 * n),
        ("gru", 1, True, lambda n: 6 * n**2 + 6 * n),
        ("lstm", 1, True, lambda n: 8 * n**2 + 8 * n),
        ("grid_lstm", 1, True, lambda n: 16 * n**2 + 16 * n),
        ("rhn", 5, False, lambda n: 12 * n**2 + 10 * n),
    ],
)
def test_the_parameters_of_a_layer(cell, depth, second, expected):
    one, two = (LanguageModelSize(7, cell, layers, depth, second_biases=second) for layers in (1, 2))
    assert (one.cell_parameters(13), two.cell_parameters(13)) == (expected(13), 2 * expected(13))
    assert LanguageModelSize(7, cell, 3, depth, shared=True, second_biases=second).cell_parameters(13) == expected(13)
    assert one.parameters(13) == expected(13) + 2 * 7 * 13 + 7
    assert replace(one, tied=True).parameters(13) == expected(13) + 7 * 13 + 7


@pytest.mark.parametrize("cell", CELLS)
def test_counts_from_templates_are_those_of_the_parameters(cell):
    stored = LanguageModelSize(7, cell, input=MatrixConfig(rank=23))  # dense, but not equal to DENSE
    assert LanguageModelSize(7, cell).cell_parameters(6) == stored.cell_parameters(6)


def test_structured_matrices_are_counted():
    model = LanguageModelSize(7, "lru", 2, recurrent=MatrixConfig("low_rank_plus_diagonal", 3), input=MatrixConfig("low_rank", 3))
    assert model.cell_parameters(13) == 2 * 6 * (2 * 3 * 13 + 13 + 2 * 3 * 13 + 13)


@pytest.mark.parametrize("role", ["recurrent", "input"])
def test_norms_of_rows_are_counted(role):
    """Each of three matrices has as many as the layer is wide."""
    model = LanguageModelSize(7, "gru", layers=1, **{role: MatrixConfig(weight_norm=True)})
    assert model.cell_parameters(13) == 6 * 13**2 + 3 * 13 + 3 * 13


@given(st.integers(0, 5), st.integers(1, 30), st.integers(0, 40), st.integers(40, 3000))
def test_no_other_width_is_closer(square, linear, constant, budget):
    def count(n):
        return square * n * n + linear * n + constant

    found = closest_width(count, budget)
    best = min(range(1, 3100), key=lambda n: abs(count(n) - budget))
    assert found == Width(best, count(best))


def test_bad_budgets_are_refused():
    with pytest.raises(UsageError, match="a budget of 10 parameters is too small: a width of 1 has 27"):
        closest_width(LanguageModelSize(7, "elman").parameters, 10)
    with pytest.raises(UsageError, match="the cell of a budget is 'gruu'"):
        LanguageModelSize(7, "gruu")


def test_sizes_of_a_form_of_the_user_are_searched_and_those_of_a_module_without_one_are_not(tables):
    PARAMETRIZATIONS.update(formed=partial(Structured, form=FORMS["low_rank"]), silent=Parametrization)
    assert closest_storage("formed", MatrixSpec(8, 8, "recurrent"), 64).rank == 3
    with pytest.raises(UsageError, match="parametrization is 'silent', whose sizes cannot be searched: write it as a form"):
        closest_storage("silent", MatrixSpec(8, 8, "recurrent"), 64)


def test_storage_has_fewer_numbers_than_the_full_matrix_where_any_has():
    assert closest_storage("low_rank", MatrixSpec(8, 8, "recurrent"), 64).rank == 3
