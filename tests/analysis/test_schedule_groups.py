"""Tests of groups of steps of a melody and of a text, and of plots of prediction against computation."""

from fractions import Fraction

import numpy as np
import pytest

from experiments.efficiency.points import equivalent_size_figure, lines, point_of
from lrpt.analysis.schedule_groups import (
    OTHER,
    around,
    around_figure,
    bars_and_others,
    kinds,
    length_figure,
    lengths,
    repetitions,
)
from lrpt.analysis.schedules import means_by_symbol
from lrpt.datasets.abc import BAR, Symbol
from lrpt.errors import UsageError

C, D, LONG = Symbol(60, Fraction(1, 2)), Symbol(62, Fraction(1, 2)), Symbol(60, Fraction(3))
REST = Symbol(None, Fraction(1))


def test_groups_of_a_melody():
    sounds = [None, C, D, BAR, REST, LONG]
    assert lengths(sounds) == [OTHER, "1/2", "1/2", OTHER, OTHER, "3"]
    assert kinds(sounds) == [OTHER, "note", "note", "bar", "rest", "note"]
    assert bars_and_others(sounds) == [OTHER, "no bar", "no bar", "bar", "no bar", "no bar"]


@pytest.mark.parametrize(
    ("sounds", "expected"),
    [
        ([C, C, D], "12-"),
        ([C, LONG, C, C, D, D], "12--12"),
        ([C, BAR, C, REST, REST, None, None], "-" * 7),
        ([D, C, C, BAR, C, C], "-12-12"),
        ([C], "-"),
        ([], ""),
    ],
)
def test_repetitions_are_notes_of_one_pitch_side_by_side(sounds, expected):
    signs = {"first": "1", "second": "2", OTHER: "-"}
    assert "".join(signs[group] for group in repetitions(sounds)) == expected


def test_means_by_length():
    means = means_by_symbol(np.array([0.5, 0.1, 0.3, 0.9]), lengths([C, C, LONG, BAR]))
    assert means == {OTHER: (0.9, 1), "1/2": (pytest.approx(0.3), 2), "3": (0.3, 1)}


def test_means_around_boundaries():
    text = np.array([*"ab c def gh i "])
    m = np.where(text == " ", 0.9, 0.1)
    m[np.flatnonzero(text == " ")[:-1] + 1] = 0.5
    np.testing.assert_allclose(around(m, text == " ", 1), [0.1 + 0.4 / 4 * 1, 0.9, 0.5])
    assert around(np.arange(9.0), np.arange(9) == 4, 3).tolist() == [1, 2, 3, 4, 5, 6, 7]
    assert around(np.arange(9.0), np.arange(9) == 4, 4).tolist() == [*range(9)]
    with pytest.raises(UsageError, match="none of 1 boundaries has 5 steps on both sides"):
        around(np.arange(9.0), np.arange(9) == 4, 5)


def result(label, score, **figures):
    return {"model": label, "metrics": {"test": {"bits_per_character": score, **figures}}}


def test_points_of_runs():
    config = {"model": {"cell": "vcrnn", "schedule": {"guided_symbols": [0, 2]}}}
    point = point_of(result("VCRNN 8", 1.5, paper_equivalent_size=6.0, equivalent_size=7.0), config, "bits_per_character")
    assert point == ("VCRNN guided", "VCRNN 8", 6.0, 1.5, "")
    counted = point_of(result("RNN", 1.6, equivalent_size=7.0), {"model": {"cell": "elman"}}, "bits_per_character", "counted")
    assert (counted.family, counted.size) == ("RNN", 7.0)
    crnn = point_of(result("CRNN 5-5", 1.6, paper_equivalent_size=7.1), {"model": {"size": 5}}, "bits_per_character")
    assert crnn.family == "CRNN"
    buffered = {"model": {"cell": "vcrnn"}, "data": {"buffer": 8}}
    assert point_of(result("VCRNN", 1.6, paper_equivalent_size=6.0), buffered, "bits_per_character").family == "VCRNN, 8 buffer bits"
    with pytest.raises(UsageError, match=r"the run of RNN has no 'paper_equivalent_size', only bits_per_character, equivalent_size"):
        point_of(result("RNN", 1.6, equivalent_size=7.0), config, "bits_per_character")
    with pytest.raises(UsageError, match="the run of RNN has no metrics on the test split"):
        point_of({"model": "RNN", "metrics": {"valid": {"loss": 1.0}}}, config, "bits_per_character")
    with pytest.raises(UsageError, match="has no 'bits_per_character', only paper_equivalent_size"):
        point_of(result("RNN", None, paper_equivalent_size=6.0), config, "bits_per_character")


def test_each_source_of_data_has_its_own_line():
    def point(size, **data):
        config = {"model": {"cell": "elman"}, "data": data}
        return point_of(result(f"RNN {size}", 2.0, paper_equivalent_size=size), config, "bits_per_character")

    czech = [point(size, source="europarl_cs", file=None) for size in (4, 2)]
    assert lines(czech) == {"RNN": czech}
    german, book = point(4, source="europarl_de", file=None), point(4, source="python", file="texts/book.txt")
    assert lines([*czech, german, book]) == {"RNN on europarl_cs": czech, "RNN on europarl_de": [german], "RNN on book.txt": [book]}


def test_figures_are_written(tmp_path):
    points = [
        point_of(result(f"RNN {n}", 2 - n / 9, equivalent_size=n), {"model": {"cell": "elman"}}, "bits_per_character", "counted")
        for n in (4, 2)
    ]
    paths = [
        equivalent_size_figure(points, "bits_per_character", tmp_path / "efficiency.png", convention="counted"),
        around_figure(np.array([0.1, 0.9, 0.3]), tmp_path / "words.png"),
        length_figure([("1/2", 0.3), ("1/3", 0.7)], tmp_path / "notes.png"),
    ]
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in paths)
