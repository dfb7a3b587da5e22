"""Operations of the published units: constant ones to the digits that are printed, and what is counted by hand."""

import json

import pytest

from experiments.operation_table import PRINTED, main, row

ROWS = [row(printed) for printed in PRINTED]


@pytest.mark.parametrize("one", ROWS, ids=lambda one: f"{one.where} {one.model} {one.printed}")
def test_the_convention_gives_what_is_printed(one):
    assert one.convention == pytest.approx(one.printed, rel=0.0015)
    assert (one.m is None) != one.model.startswith("VC")
    matrices = {"E": 2, "G": 6, "L": 8}.get(one.model[0], 6 if "GRU" in one.model else 2)
    n, m = int(one.model.split()[1]), one.m or 1
    assert one.multiplications == pytest.approx(matrices * (m * n) ** 2 + (0 if one.m is None else 2 * n))
    assert one.counted == pytest.approx((one.multiplications / 2) ** 0.5)


def test_parameters_are_those_of_the_paper_and_biases():
    """S n + 2 n^2 + n S + S, with biases of the unit, and 2 n + 1 for a scheduler."""
    found = {(one.model, one.where): one.parameters for one in ROWS}
    assert found["VCRNN 500", "Table 1, music"] == 730 * 500 + 2 * 500**2 + 500 + 2 * 500 + 1 + 500 * 730 + 730
    assert found["GRU 1024", "Table 3, text8"] == 27 * 1024 + 6 * 1024**2 + 3 * 1024 + 1024 * 27 + 27


def test_prints(capsys):
    main(["--json"])
    assert len(json.loads(capsys.readouterr().out)) == len(PRINTED)
    main([])
    assert "VCGRU 1024" in capsys.readouterr().out
