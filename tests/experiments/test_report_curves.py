"""A network against the line through others at equal operations."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from kept_runs import characters, kept_run, relation, write

from experiments.report.claims.contests import Final
from experiments.report.claims.pairs import Pair
from experiments.report.claims.relations import OnCurve
from experiments.report.claims.rows import Evidence
from experiments.report.kept.records import load
from experiments.report.papers import variable_computation
from experiments.report.papers import variable_computation_networks as computing
from experiments.report.papers.variable_computation_operations import CHARACTERS


def test_a_network_is_compared_at_equal_operations_on_the_line_between_two_sizes(tmp_path):
    """Between 96 and 128 units, at the square root of the product of their operations, the line is at the mean of their bits."""
    for seed, own, operations in ((0, 1.93, 24_576.0), (1, 1.85, 24_576.0), (2, 1.0, 40_000.0), (3, 1.0, 10_000.0)):
        characters(tmp_path, "small-rnn --model.size 96 --model.embedding 96", seed, 18_432.0, 2.0)
        characters(tmp_path, "small-rnn", seed, 32_768.0, 1.8)
        characters(tmp_path, "small", seed, operations, own)
    found = relation(tmp_path, "VCRNN-256 > an RNN of as many", variable_computation.PAPER)
    assert [pair.seed for pair in found.pairs] == [0, 1]  # no line is drawn beyond the measured sizes
    np.testing.assert_allclose([pair.advantage for pair in found.pairs], [1.9 - 1.93, 1.9 - 1.85])
    assert [pair.agrees for pair in found.pairs] == [False, True]


@pytest.mark.parametrize(("updates", "diverged"), [(3_135, False), (3_135, True)])
def test_a_network_that_was_not_trained_to_the_end_is_not_put_on_the_line(updates, diverged, tmp_path):
    characters(tmp_path, "small-rnn --model.size 96 --model.embedding 96", 0, 18_432.0, 2.0)
    characters(tmp_path, "small-rnn", 0, 32_768.0, 1.8)
    test = None if diverged else {"bits_per_character": 1.0, "multiplications": 24_576.0}
    path = kept_run(tmp_path, computing.CHARS, "--preset small", 0, {updates: 1.0}, "bits_per_character", test, name="small-0")
    if diverged:
        write(path / "failure.json", {"update": updates + 1, "what": "the training loss is nan"})
    pairs = relation(tmp_path, "VCRNN-256 > an RNN of as many", variable_computation.PAPER).pairs
    assert pairs == ([Pair(0, None, False, failed=1)] if diverged else [])


@pytest.mark.parametrize(("operations", "line"), [(18_432.0, 2.0), (32_768.0, 1.8)], ids=["smallest", "largest"])
def test_a_network_with_as_many_operations_as_the_last_size_is_compared_with_it(operations, line, tmp_path):
    characters(tmp_path, "small-rnn --model.size 96 --model.embedding 96", 0, 18_432.0, 2.0)
    characters(tmp_path, "small-rnn", 0, 32_768.0, 1.8)
    characters(tmp_path, "small", 0, operations, 1.7)
    (pair,) = relation(tmp_path, "VCRNN-256 > an RNN of as many", variable_computation.PAPER).pairs
    assert pair.advantage == pytest.approx(line - 1.7)


def test_each_seed_has_a_line_of_its_own(tmp_path):
    for seed, more in enumerate((0.0, 0.5)):
        characters(tmp_path, "small-rnn --model.size 96 --model.embedding 96", seed, 18_432.0, 2.0 + more)
        characters(tmp_path, "small-rnn", seed, 32_768.0, 1.8 + more)
        characters(tmp_path, "small", seed, 24_576.0, 1.9)
    found = relation(tmp_path, "VCRNN-256 > an RNN of as many", variable_computation.PAPER)
    np.testing.assert_allclose([pair.advantage for pair in found.pairs], [0.0, 0.5], atol=1e-12)


def test_a_diverged_network_loses_against_no_line(tmp_path):
    path = kept_run(tmp_path, computing.CHARS, "--preset small", 0, {3_135: 1.0}, "bits_per_character")
    write(path / "failure.json", {"update": 3_136, "what": "the training loss is nan"})
    assert not relation(tmp_path, "VCRNN-256 > an RNN of as many", variable_computation.PAPER).pairs


@pytest.mark.parametrize(("updates", "pairs"), [(37_620, 1), (62_700, 0)])
def test_a_network_that_trained_for_longer_than_claimed_is_no_point_of_the_line(updates, pairs, tmp_path):
    characters(tmp_path, "small", 0, 24_576.0, 1.8)
    characters(tmp_path, "small-rnn --model.size 96 --model.embedding 96", 0, 18_432.0, 1.8)
    test = {"bits_per_character": 1.9, "multiplications": 32_768.0}
    kept_run(tmp_path, computing.CHARS, f"--preset small-rnn --train.updates {updates}", 0, {updates: 1.9}, "bits_per_character", test)
    curve = OnCurve(computing.SMALL_VC, computing.RNN_CURVE)
    assert len(curve.pairs(Final("bits", "bits_per_character", "{}"), Evidence(load(tmp_path)), True)) == pairs


def test_a_network_with_the_hard_mask_is_compared_with_usual_ones_which_have_none(tmp_path):
    """With the soft mask of training it has more operations, and fewer bits."""
    characters(tmp_path, "small-rnn --model.size 96 --model.embedding 96", 0, 18_432.0, 2.0)
    characters(tmp_path, "small-rnn", 0, 32_768.0, 1.8)
    test, name = {"bits_per_character": 1.0, "multiplications": 30_000.0}, "bits_per_character"
    hard = {"masks": {"hard": {"test": {"bits_per_character": 1.85, "multiplications": 24_576.0}}}}
    kept_run(tmp_path, computing.CHARS, "--preset small", 0, {37_620: 1.0}, name, test, analysis=hard)
    (pair,) = OnCurve(computing.SMALL_VC, computing.RNN_CURVE, hard=True).pairs(Final("bits", name, "{}"), Evidence(load(tmp_path)), True)
    assert pair.advantage == pytest.approx(1.9 - 1.85)


def test_the_operations_of_the_readout_move_a_wide_network_along_the_curve(tmp_path):
    """A unit of 256 has 256 * 51 further multiplications, those of 96 and 128 units 96 * 51 and 128 * 51."""
    characters(tmp_path, "small", 0, 20_000.0, 1.9)
    characters(tmp_path, "small-rnn --model.size 96 --model.embedding 96", 0, 18_432.0, 2.0)
    characters(tmp_path, "small-rnn", 0, 32_768.0, 1.8)
    evidence, contest = Evidence(load(tmp_path)), Final("bits", "bits_per_character", "{}")
    (plain,) = OnCurve(computing.SMALL_VC, computing.RNN_CURVE).pairs(contest, evidence, True)
    (read,) = OnCurve(computing.SMALL_VC, computing.RNN_CURVE, outputs=51).pairs(contest, evidence, True)
    assert plain.advantage == pytest.approx(2.0 - 0.2 * math.log(20_000 / 18_432) / math.log(32_768 / 18_432) - 1.9)
    few, many = (n**2 * 2 + n * 51 for n in (96, 128))
    assert read.advantage == pytest.approx(2.0 - 0.2 * math.log((20_000 + 256 * 51) / few) / math.log(many / few) - 1.9)


def test_characters_of_the_kept_runs_are_as_many_as_the_readouts_are_said_to_predict():
    """A usual network of n units with embeddings as wide has 2 n^2 + n + 2 n s + s parameters if it predicts s symbols."""
    results = Path(__file__).parents[2] / "experiments" / "results" / "variable_computation"
    paths = list(results.glob("*-annealed-rnn-*/result.json"))
    assert paths
    for path in paths:
        size = int(path.parent.name.split("-")[-2])
        parameters = json.loads(path.read_text())["parameters"]["true"]
        assert parameters == 2 * size**2 + size + (2 * size + 1) * CHARACTERS
