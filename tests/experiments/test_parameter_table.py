"""The counts of every row of the papers, against figures worked out by hand from the sizes of the original code's arrays."""

import json
from dataclasses import asdict
from functools import cache

import pytest

from experiments import operation_table as operations
from experiments.parameter_table import command as parameter_table
from experiments.parameter_table.command import AHUJA, JERNITE, MICELI_BARONE, PUBLISHED, ZILLY, cells, main, rounds_to, row
from lrpt.networks.counting import count, count_parts
from lrpt.networks.sequence_model import ModelConfig

# model, published figure: recurrent matrices + biases, by the convention, true
COUNTS = {
    ("copy, text", "GRU 128", "nearly 50,000"): (49_536, 52_106, 54_794),
    ("copy, text", "LRD-GRU 128/50", "39,168"): (39_168, 41_738, 44_426),
    ("copy, text", "LRD-GRU 128/50", "41,738"): (39_168, 41_738, 44_426),
    ("copy, text", "uRNN (without Fourier transform) 721", "as 41,738"): (0, 28_129, 36_781),
    ("adding, text", "LR-GRU 128/24", "approx. 6,140"): (18_816, 19_201, 19_841),
    ("adding, text", "LRD-GRU 128/24", "approx. 6,140"): (19_200, 19_585, 20_225),
    ("Table 1", "GRU 128", "51.0 k"): (49_536, 50_954, 51_338),
    ("Table 1", "LR-GRU 128/24", "20.2 k"): (18_816, 20_234, 20_618),
    ("Table 1", "LR-GRU 512/4", "19.5 k"): (13_824, 19_466, 21_002),
    ("Table 1", "LRD-GRU 64/24", "10.3 k"): (9_600, 10_314, 10_506),
    ("Table 1", "LRD-GRU 128/24", "20.6 k"): (19_200, 20_618, 21_002),
    ("Table 1", "LRD-GRU 256/24", "41.2 k"): (38_400, 41_226, 41_994),
    ("Table 2", "GRU (reset after) 1000", "3.11 M"): (3_003_000, 3_105_051, 3_207_051),
    ("Table 2", "GRU (reset after) 3298", "33.0 M"): (32_640_306, 32_976_753, 33_313_149),
    ("Table 2", "LRD-GRU (reset after) 1000/64", "0.49 M"): (390_000, 492_051, 594_051),
    ("Table 2", "LRD-GRU (reset after) 3298/128", "2.89 M"): (2_552_652, 2_889_099, 3_225_495),
    ("Table 2", "LRD-GRU (reset after) 5459/64", "2.69 M"): (2_129_010, 2_685_879, 3_242_697),
    ("Table 2", "LRD-GRU (reset after) 5459/64 tied", "1.99 M"): (1_430_258, 1_987_127, 2_543_945),
    ("Table 2", "LRD-GRU (reset after) 1000/64 tied", "0.46 M"): (262_000, 364_051, 466_051),
    ("Table 2", "LRD-GRU (reset after) 4480/128 tied", "2.78 M"): (2_320_640, 2_777_651, 3_234_611),
    ("Table 2", "LRD-GRU (reset after) 6985/64 tied", "2.54 M"): (1_830_070, 2_542_591, 3_255_061),
    ("Table 2", "LR-GRU (reset after) 6985/64 tied", "2.54 M"): (1_809_115, 2_521_636, 3_234_106),
    ("Table 2", "LSTM 1000", "4.25 M"): (4_004_000, 4_102_049, 4_249_049),
    ("Table 2", "LRD-LSTM 1740/300", "4.25 M"): (4_189_920, 4_360_489, 4_616_269),
    ("appendix A.1", "LR-Highway 5x1024/256", ""): (None, 6_078_474, 6_078_474),
    ("appendix A.1", "LRD-Highway 5x1024/256", ""): (None, 6_088_714, 6_088_714),
}
SHARED = {"2.54 M", "4.25 M"}  # each printed for two models, of which the second has not so many
DISAGREE = {("copy, text", "as 41,738"), ("adding, text", "approx. 6,140"), ("Table 2", "0.46 M")}


@cache  # not at import, which every worker of the tests does
def rows(*papers):
    return [row(published) for published in PUBLISHED if not papers or published.paper in papers]


def test_counts_to_the_unit():
    found = rows(MICELI_BARONE)  # others are below and in test_parameter_rows.py
    assert {(r.where, r.model, r.published): (r.recurrent_layer, r.convention, r.true) for r in found} == COUNTS


def test_which_rows_agree_and_why_others_do_not():
    assert {(r.where, r.published) for r in rows(MICELI_BARONE) if r.agrees is False and r.published not in SHARED} == DISAGREE
    assert [r.agrees for r in rows(MICELI_BARONE) if r.published in SHARED] == [True, False, True, False]
    assert all(r.agrees == (not r.remark) for r in rows(MICELI_BARONE) if r.published)
    assert all(r.agrees is None for r in rows(MICELI_BARONE) if not r.published)


def test_highway_networks_by_the_formula():
    """A layer has two matrices of 2 n d, or 2 n d + n with diagonals, and for each matrix a bias and scales of n."""
    n, d, layers = 1024, 256, 5
    found = {r.model: r.true for r in rows(MICELI_BARONE) if r.where == "appendix A.1"}
    assert list(found) == ["LR-Highway 5x1024/256", "LRD-Highway 5x1024/256"]
    for diagonals, true in enumerate(found.values()):
        matrix = 2 * n * d + diagonals * n
        assert true == (784 * n + 2 * n) + layers * 2 * (matrix + 2 * n) + (n * 10 + 10)


def test_conditional_networks_are_those_of_the_operation_table():
    found = {r.where: r for r in rows(JERNITE) if r.model.startswith("CRNN")}
    assert {where: r.model for where, r in found.items()} == {"Table 3, bits": "CRNN 100-100", "Table 3, characters": "CRNN 500-500"}
    assert {r.where: r.true for r in found.values()} == {
        one.where: operations.row(one).parameters for one in operations.PRINTED if operations.row(one).model.startswith("CRNN")
    }
    assert {r.recurrent_layer for r in found.values()} == {2 * n**2 + 2 * n for n in (100, 500)}


@pytest.mark.slow
def test_units_of_variable_computation_by_the_formula():
    """S D + 2 D^2 for a simple unit, 6 D^2 for a GRU, 8 D^2 for an LSTM, 2 D + 1 for the scheduler, S D + S for the softmax."""
    factors = {"RNN": 2, "GRU": 6, "LSTM": 8}
    found = [r for r in rows(JERNITE) if not r.model.startswith("CRNN")]
    symbols = {"Table 1, music": 730, "Table 3, bits": 2, "Table 3, characters": 51, "Table 3, text8": 27}
    assert {r.where for r in found} == symbols.keys()
    for r in found:
        kind, _, size = r.model.partition(" ")
        S, D = symbols[r.where], int(size.split()[0])
        scheduler = kind.startswith("VC") * (2 * D + 1)
        matrices = S * D + factors[kind.removeprefix("VC")] * D**2 + scheduler + S * D + S
        biases = r.true - matrices
        assert biases % D == 0
        assert 0 <= biases // D <= 4
        assert (r.published, r.agrees) == ("", None)


@pytest.mark.slow
def test_lattice_models_come_within_half_a_percent_of_the_budget():
    found = rows(AHUJA)
    assert len(found) == 2 * 4 * 7
    assert all(r.agrees for r in found)
    assert all(r.agrees is not False for r in rows(ZILLY))
    assert all(abs(r.true / (1e6 * int(r.published.split()[0])) - 1) < 0.005 for r in found)


@pytest.mark.parametrize(
    ("number", "printed", "agrees"),
    [
        (50_954, "51.0 k", True),
        (50_949, "51.0 k", False),
        (41_738, "41,738", True),
        (41_739, "41,738", False),
        (6_144, "approx. 6,140", True),
        (6_146, "approx. 6,140", False),
        (3_105_051, "3.11 M", True),
        (49_536, "nearly 50,000", True),
        (44_999, "nearly 50,000", False),
    ],
)
def test_rounds_to(number, printed, agrees):
    assert rounds_to(number, printed) == agrees


@pytest.mark.parametrize("weight_norm", [False, True])
@pytest.mark.parametrize("tied", [False, True])
def test_parts_add_up_and_count_low_rank_inputs_once(tied, weight_norm):
    n, m, o, d, e = 7, 5, 3, 2, 4
    inputs = {"input_parametrization": "low_rank", "input_rank": e, "input_tied": tied}
    config = ModelConfig(size=n, parametrization="low_rank_plus_diagonal", rank=d, tied=tied, weight_norm=weight_norm, **inputs)
    parts = count_parts(config, m, o)
    projections = 1 if tied else 3
    scales = n * weight_norm
    assert parts == {
        "recurrent": 3 * (d * n + n + scales) + projections * d * n,
        "bias": 3 * n,
        "input": e * m + e * n + scales,
        "operator": 0,
        "further_input": 2 * (e * n + scales) + (projections - 1) * e * m,
        "embedding": 0,
        "initial_state": n,
        "readout": n * o + o,
    }
    assert count(config, m, o).true == sum(parts.values())


@pytest.mark.slow
def test_prints_the_table_and_why_figures_differ(capsys):
    main([])
    table, _, remarks = capsys.readouterr().out.partition("\n\n")
    printed = table.splitlines()[1:]
    assert ["".join(line.split()) for line in printed] == ["".join("".join(cells(r)).split()) for r in rows()]
    assert len(remarks.splitlines()) == 2 + sum(r.agrees is False for r in rows())
    assert operations.note_on_tunes() in remarks


def test_json_is_a_list_of_objects_and_nothing_else(capsys, monkeypatch):
    monkeypatch.setattr(parameter_table, "PUBLISHED", PUBLISHED[3:5])
    main(["--json"])
    assert json.loads(capsys.readouterr().out) == [asdict(row(published)) for published in PUBLISHED[3:5]]


def test_unknown_flag_is_one_line(assert_refused):
    assert_refused(main, ["--jsn"], "--jsn")


def test_cells_are_in_the_order_of_the_heads():
    one = parameter_table.Row("A", "Table 1", "GRU 9", "3", "model", 1, 2, 3, agrees=False, remark="")
    assert cells(one) == ["A", "Table 1", "GRU 9", "3", "model", "1", "2", "3", "no"]
