"""Operations of the published units: constant ones to the digits that are printed, and what is counted by hand."""

import json
from dataclasses import replace
from functools import cache

import pytest

from experiments import COSTS, conditional, operation_table
from experiments.operation_table import BITS, BYTES, CHARACTERS, MUSIC, PRINTED, WORDS, main, note_on_tunes, row


@cache  # not at import, which every worker of the tests does
def rows():
    return [row(printed) for printed in PRINTED]


@pytest.mark.parametrize("index", range(len(PRINTED)))
def test_the_convention_gives_what_is_printed(index):
    one = rows()[index]
    if one.model.startswith("CRNN"):  # 707 is printed as 700, 141 as 140
        assert one.convention == pytest.approx(one.printed, rel=0.0105)
        assert (one.counted, one.multiplications) == (None, None)
        return
    assert one.convention == pytest.approx(one.printed, rel=0.0015)
    assert (one.m is None) != one.model.startswith("VC")
    matrices = {"E": 2, "G": 6, "L": 8}.get(one.model[0], 6 if "GRU" in one.model else 2)
    n, m = int(one.model.strip("*").split()[1]), one.m or 1
    assert one.multiplications == pytest.approx(matrices * (m * n) ** 2 + (0 if one.m is None else 2 * n))
    assert one.counted == pytest.approx((one.multiplications / 2) ** 0.5)


def test_parameters_are_those_of_the_paper_and_biases():
    """S n + 2 n^2 + n S + S, with biases of the unit, and 2 n + 1 for a scheduler."""
    found = {(one.model, one.where): one.parameters for one in rows()}
    assert found["VCRNN 500", "Table 1, music"] == 730 * 500 + 2 * 500**2 + 500 + 2 * 500 + 1 + 500 * 730 + 730
    assert found["GRU 1024", "Table 3, text8"] == 27 * 1024 + 6 * 1024**2 + 3 * 1024 + 1024 * 27 + 27


def test_parameters_of_conditional_networks():
    """S n and U n for symbols and units, 3 n^2 for both levels and the matrix between them, 2 n for biases, n S + S for the softmax."""
    found = {one.model: one.parameters for one in rows()}
    for model, n, S, U in (("CRNN 500-500", 500, 51, 9_970), ("CRNN 100-100", 100, 2, 256)):
        assert found[model] == S * n + U * n + 3 * n**2 + 2 * n + n * S + S


def test_words_and_bytes_are_those_of_the_presets(data_dir):
    for preset, symbols, units in (("paper", CHARACTERS, WORDS), ("bits", BITS, BYTES)):
        config = conditional.EXPERIMENT.presets[preset].config
        task = replace(config.data, dir=data_dir).build(0)
        assert (task.output_size, task.input_size) == (symbols, symbols * (1 + units))


def test_every_row_of_the_tables_is_there():
    """Three of Table 1; 6 of bits, 11 of characters and 10 of text8 in Table 3, of which four are quoted."""
    places = [one.where for one in rows()]
    assert [places.count(f"Table {where}") for where in ("1, music", "3, bits", "3, characters", "3, text8")] == [3, 6, 11, 10]
    quoted = [(one.model, one.printed) for one in rows() if one.model.endswith("*")]
    assert quoted == [("RNN 512*", 512), ("RNN 1024*", 1024), ("LSTM 512*", 1024), ("LSTM 1024*", 2048)]


def test_prints(capsys):
    main(["--json"])
    assert len(json.loads(capsys.readouterr().out)) == len(PRINTED)
    main([])
    out = capsys.readouterr().out
    assert "VCGRU 1024" in out
    assert out.endswith(f"\n\n{note_on_tunes()}\n")


def test_the_note_on_tunes_has_the_parameters_of_the_kept_networks(tmp_path):
    """Of the networks of the paper. Others that are kept, such as gated cells, have no row."""
    published = {one.config.label for one in PRINTED if one.symbols == MUSIC}
    every = [json.loads(path.read_text()) for path in COSTS.parent.glob("music/*/result.json")]
    kept = [one for one in every if one["model"].replace("ELMAN", "RNN") in published]
    assert {one["model"].replace("ELMAN", "RNN") for one in kept} == published
    for one in kept:
        assert f"{one['model'].replace('ELMAN', 'RNN')} has {one['parameters']['true']:,}" in note_on_tunes()
        assert f" {one['data']['types']} symbols" in note_on_tunes()
    assert not note_on_tunes(tmp_path)


def test_cells_are_in_the_order_of_the_heads():
    row = operation_table.Row("Table 1", "RNN 9", 1_000, 0.5, 10, 11.0, 12.0, 13_000.0)
    assert operation_table.cells(row) == ["Table 1", "RNN 9", "1,000", "0.500", "10", "11", "12", "13,000"]
