"""Orderings of values of one network: shares of computation, and gates of layers."""

import pytest
from kept_runs import kept_run, melodies, relation

from experiments import adding, bit_lm
from experiments.jsb import command as chorales
from experiments.report.claims.pairs import Pair
from experiments.report.claims.relations import Measure, Within
from experiments.report.claims.rows import Evidence, Network
from experiments.report.kept.records import load
from experiments.report.papers import highway, variable_computation
from experiments.report.papers import variable_computation_networks as computing
from experiments.report.papers.variable_computation_relations import AT_BOUNDARIES
from lrpt.cli.finished.schedule_numbers import REACH

ADD = adding.EXPERIMENT


@pytest.mark.parametrize(("last", "settled"), [(14_500, True), (9_000, False)])
def test_figures_of_one_network_may_change_until_it_is_trained(last, settled, tmp_path):
    kept_run(tmp_path, ADD, "--preset paper", 0, {last: 0.002}, "loss", {})
    within = Within(Network("LRD-GRU", ADD, "--preset paper"), lambda run: 2.0, lambda run: 0.5)
    assert within.pairs(Measure("figure", "{}"), Evidence(load(tmp_path)), strict=True) == [Pair(0, 1.5, True, settled=settled)]


def test_a_relation_within_a_network_is_judged_on_its_seeds(tmp_path):
    for seed, bars in enumerate((0.1, 0.2, 0.5)):
        melodies(tmp_path, seed, bars, 0.4)
    found = relation(tmp_path, "less computation on bars", variable_computation.PAPER)
    assert [pair.agrees for pair in found.pairs] == [True, True, False]
    assert found.difference.mean == pytest.approx(0.4 - 0.8 / 3)
    ignored = relation(tmp_path, "bars are mostly ignored", variable_computation.PAPER)
    assert [pair.agrees for pair in ignored.pairs] == [True, False, False]  # half of 0.4 is 0.2


@pytest.mark.parametrize(
    ("experiment", "flags", "name"),
    [
        (computing.CHARS, "--preset small", "(our reading; English)"),
        (computing.LANGUAGES, "--preset paper", "(our reading; Czech, learn)"),
        (computing.LANGUAGES, "--preset cs-guide", "(our reading; Czech, guide)"),
        (computing.LANGUAGES, "--preset de-learn", "(our reading; German, learn)"),
    ],
)
def test_computation_at_word_boundaries_is_that_of_the_symbol_with_most(experiment, flags, name, tmp_path):
    """The last letter has 0.6, white space 0.1 and the first letter 0.5. Of the others, one has 0.55, then 0.7, then 0.6."""
    for seed, other in enumerate((0.55, 0.7, 0.6)):
        means = [0.4] * (REACH - 1) + [0.6, 0.1, 0.5, other] + [0.4] * (REACH - 2)
        kept_run(tmp_path, experiment, flags, seed, {135_000: 1.5}, "loss", {}, analysis={"words": {"means": means}})
    found = relation(tmp_path, f"{AT_BOUNDARIES} {name}", variable_computation.PAPER)
    assert [pair.advantage for pair in found.pairs] == pytest.approx([0.05, -0.1, 0])
    assert [pair.agrees for pair in found.pairs] == [True, False, False]


@pytest.mark.parametrize(("bits", "behind"), [(8, 8), (24, 24)])
def test_buffer_bits_are_mostly_ignored_if_m_is_half_of_that_on_characters(bits, behind, tmp_path):
    """Characters have 0.2 and 0.6 in turns, in the mean 0.4; as many operations on both are no sign that buffer bits are ignored."""
    for seed, m in enumerate((0.1, 0.3, 0.4)):
        schedule = {"by_place": [0.2, 0.6] * 4 + [m] * behind, "on_characters": 0.51}
        curve, flags = {104_528: 2.6}, f"--preset small-buffer-{bits}"
        kept_run(tmp_path, bit_lm.EXPERIMENT, flags, seed, curve, "bits_per_character", {}, analysis={"schedule": schedule})
    found = relation(tmp_path, f"{bits} buffer bits are mostly ignored", variable_computation.PAPER)
    assert [pair.advantage for pair in found.pairs] == pytest.approx([0.1, -0.1, -0.2])
    assert [pair.agrees for pair in found.pairs] == [True, False, False]


@pytest.mark.parametrize("bits", [8, 24])
def test_most_of_the_computation_is_more_than_half_of_it(bits, tmp_path):
    """With 8 buffer bits, half of the operations fall on characters if m is constant, which is not most of them."""
    for seed, share in enumerate((0.7, 0.5, 0.4)):
        schedule = {"by_place": [0.4] * (8 + bits), "on_characters": share}
        curve, flags = {104_528: 2.6}, f"--preset small-buffer-{bits}"
        kept_run(tmp_path, bit_lm.EXPERIMENT, flags, seed, curve, "bits_per_character", {}, analysis={"schedule": schedule})
    found = relation(tmp_path, f"with {bits} buffer bits, most of the computation", variable_computation.PAPER)
    assert [pair.agrees for pair in found.pairs] == [True, False, False]


def test_layers_of_a_highway_network_are_judged(tmp_path):
    """Losses with layers closed are 9, 8.5 and 7.9 after 8, so that most contribute; the first gate is the most open one."""
    means = {"untrained": (0.12, 0.13, 0.11), "trained": (0.5, 0.2, 0.12)}
    gates = [
        {"network": name, "layer": i, "mean": mean, "deviation": 0.01 * i}
        for name, of in means.items()
        for i, mean in enumerate(of, start=1)
    ]
    layers = {"lesions": {"intact": 8.0, "shut": [9.0, 8.5, 7.9], "opened": [8.0, 8.0, 8.0]}, "gates": gates}
    kept_run(tmp_path, chorales.EXPERIMENT, "--preset paper", 0, {700: 8.6}, "loss", {}, stopped="patience", analysis={"highway": layers})
    expected = {
        "the first layer contributes more": (0.5, True),
        "closing a layer's gates in general": (8.5 - 1.05 * 8, True),
        "the first layer's gates are more open": (0.3, True),
        "the first layer's gates are open on average": (0.0, False),
        "the gates of each layer are more open": (0.12 - 0.13, False),
        "gates of the other layers switch": (0.025 - 0.05, False),
    }
    for sentence, (advantage, agrees) in expected.items():
        (pair,) = relation(tmp_path, sentence, highway.PAPER).pairs
        assert (pair.advantage, pair.agrees) == (pytest.approx(advantage), agrees), sentence
