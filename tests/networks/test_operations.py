"""Operation counts: the rows of Jernite et al. 2017 with constant computation, and counts of the matrices themselves."""

import jax
import numpy as np
import pytest

from lrpt.cells import CELLS, CellSpec, conditional_cell, stacked
from lrpt.errors import UsageError
from lrpt.networks.operations import equivalent_size, multiplications, paper_equivalent
from lrpt.parametrizations import MatrixConfig, Parameters

# cell, size, RNN-d as printed in Tables 1 and 3; print rounds, to tens in places.
ROWS = [
    *(("elman", n, n) for n in (100, 200, 250, 500, 512, 760, 1000, 1024)),
    *(("lstm", n, d) for n, d in ((1024, 2048), (380, 760), (324, 648), (512, 1024))),
    *(("gru", n, d) for n, d in ((1024, 1450), (538, 760), (458, 648), (512, 725))),
    *(("conditional", n, d) for n, d in ((100, 140), (500, 700))),
]


@pytest.mark.parametrize(("cell", "size", "printed"), ROWS)
def test_the_papers_rows_with_constant_computation(cell, size, printed):
    rounding = 0.011 if cell == "conditional" else 0.0015
    assert paper_equivalent(cell, size) == pytest.approx(printed, rel=rounding)


def test_variable_computation_counts_the_mean_square():
    m = np.array([0.0, 0.6, 0.8])
    assert paper_equivalent("vcrnn", 1000, m) == pytest.approx(1000 * np.sqrt(1 / 3))
    assert paper_equivalent("vcgru", 1000, m) == pytest.approx(1000 * np.sqrt(2 / 3))


@pytest.mark.parametrize(("cell", "unit"), [("vcrnn", "elman"), ("vcgru", "gru"), ("vclstm", "lstm")])
def test_variable_computation_at_full_size_is_its_unit(cell, unit):
    assert paper_equivalent(cell, 1000) == paper_equivalent(unit, 1000)


def parameters(cell, size, input_size=None, recurrent="dense", inputs="dense"):
    module = Parameters(cell.template(CellSpec(input_size or size, size)), MatrixConfig(recurrent, 3), MatrixConfig(inputs, 3))
    return jax.eval_shape(lambda: module.init_with_output(jax.random.key(0))[0])


@pytest.mark.parametrize(("name", "squares"), [("elman", 2), ("gru", 6), ("lstm", 8), ("lru", 12), ("grid_lstm", 16)])
def test_the_true_count(name, squares):
    counted = multiplications(parameters(CELLS[name], 20))
    assert counted == squares * 400
    assert equivalent_size(counted) == pytest.approx(20 * np.sqrt(squares / 2))
    assert multiplications(parameters(stacked(CELLS[name], 2), 20)) == 2 * counted


def test_the_true_count_of_variable_computation_has_the_scheduler():
    m = np.array([0.25, 0.5])
    np.testing.assert_allclose(multiplications(parameters(CELLS["vcgru"], 20), m), 6 * 400 * m**2 + 40)
    np.testing.assert_allclose(multiplications(parameters(stacked(CELLS["vcrnn"], 2), 20), m), 2 * (2 * 400 * m**2 + 40))


def test_structured_matrices_cost_less():
    params = parameters(CELLS["vcgru"], 20, recurrent="low_rank_plus_diagonal", inputs="low_rank")
    np.testing.assert_allclose(multiplications(params, 0.5), 3 * (2 * 3 * 20 + 20 + 2 * 3 * 20) * 0.5 + 40)


def test_both_levels_of_a_conditional_network_are_counted():
    assert multiplications(parameters(conditional_cell(units=7), 20, input_size=3)) == 7 * 20 + 3 * 20 + 3 * 400


def test_what_is_not_known_is_refused():
    with pytest.raises(UsageError, match="published equivalent size is 'lru'"):
        paper_equivalent("lru", 10)
    with pytest.raises(TypeError, match="multiplications of a"):
        multiplications(parameters(CELLS["unitary"], 4))
