"""`python -m experiments.structure_table`: what it refuses."""

import pytest

from experiments import structure_table
from experiments.structure_table import Options, main, rows


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--size", "30", "--rank", "100"], "rank is 100, above size, 30: choose one from 1 to 30"),
        (["--size", "0"], "size is 0"),
        (["--kinds", "nothing"], "kinds is 'nothing': choose from "),
        (["--kinds", "dense", "dense"], "kinds is dense dense"),
        (["--size", "1000000000"], "size is 1000000000: the matrices of a GRU would need about"),
        (["--size", "64", "--steps", "1000000000"], "steps is 1000000000: a sequence would need about"),
    ],
)
def test_wrong_flags(words, says, assert_refused):
    assert_refused(main, words, says)


@pytest.mark.slow
def test_the_table_has_a_row_for_each_structure(capsys):
    main(["--size", "8", "--rank", "2", "--batch", "2", "--steps", "3", "--rounds", "1", "--kinds", "dense", "monarch"])
    said = capsys.readouterr().out
    assert [line.split()[0] for line in said.splitlines() if line.startswith(("dense", "monarch"))] == ["dense", "monarch"]


def test_counts_of_the_table_are_those_of_the_matrix():
    """Rank 2 of 8 x 8 has 2 (8 + 8) numbers, of which 2 x 2 are redundant, and the diagonal has 8."""
    (row,) = rows(Options(("low_rank_plus_diagonal",), size=8, rank=2, batch=2, steps=3, rounds=1))
    assert row[:5] == ["low_rank_plus_diagonal", "rank 2", "40", "36", "40"]


def test_times_are_those_of_a_step_in_the_shortest_round(monkeypatch):
    """Three steps in 9 microseconds as networks make them, and in 30 by structured products."""
    seconds = {"auto": [9e-6, 12e-6], "never": [60e-6, 30e-6]}
    monkeypatch.setattr(structure_table, "in_turns", lambda calls, rounds: {(kind, how): seconds[how] for kind, how in calls})
    (row,) = rows(Options(("dense",), size=8, rank=2, batch=2, steps=3, rounds=2))
    assert row[5:] == ["3", "10"]
