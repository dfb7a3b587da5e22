"""Sizes of the published recurrent highway networks, to the unit."""

import pytest

from experiments import wiki, word_lm
from experiments.parameter_table.command import rounds_to
from experiments.parameter_table.rows import ROWS
from lrpt.networks.counting import count

# Depth: untied, tied, on the Penn Treebank.
PTB = {
    1: (32_015_050, 19_265_050),
    2: (31_969_120, 20_169_120),
    3: (32_073_460, 20_973_460),
    4: (32_043_400, 21_543_400),
    5: (32_020_000, 22_020_000),
    6: (32_123_920, 22_523_920),
    7: (31_965_280, 22_765_280),
    8: (32_082_040, 23_182_040),
    9: (32_017_480, 23_417_480),
    10: (31_782_400, 23_482_400),
}
WIKIPEDIA = {
    (205, 5, 1500): 23_479_730,
    (205, 10, 1000): 20_677_230,
    (205, 10, 1500): 45_994_730,
    (27, 10, 1000): 20_101_756,
    (27, 10, 1500): 45_152_256,
}


def by_the_formula(row):
    """Counted by hand from the equations."""
    V, e, n, L = row.symbols, row.embedding, row.size, row.depth
    return V * e + 2 * e * n + 2 * L * n**2 + 2 * L * n + V + (0 if row.tied else n * V)


@pytest.mark.slow
@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.where} {row.depth}x{row.size}")
def test_counts_are_those_of_the_formula_and_round_to_what_is_printed(row):
    known = PTB[row.depth][row.tied] if row.symbols == 10_000 else WIKIPEDIA[row.symbols, row.depth, row.size]
    counted = count(row.config, row.symbols, row.symbols).true
    assert counted == by_the_formula(row) == known
    assert not row.printed or rounds_to(counted, row.printed)


def test_every_depth_is_there_tied_and_untied():
    assert [(row.depth, row.tied) for row in ROWS if row.symbols == 10_000] == [(d, t) for t in (False, True) for d in PTB]
    assert {(row.symbols, row.depth, row.size) for row in ROWS if row.symbols < 10_000} == set(WIKIPEDIA)


def test_presets_are_the_networks_of_these_rows():
    rows = {(row.depth, row.size, row.embedding, row.tied) for row in ROWS}
    for experiment in (word_lm.EXPERIMENT, wiki.EXPERIMENT):
        others = ("quick", "torch", "original")  # the network of a preset named original is that of another one
        models = [preset.config.model for name, preset in experiment.presets.items() if not any(other in name for other in others)]
        shapes = {(model.depth, model.size, model.embeddings.width, model.embeddings.tied) for model in models}
        assert len(shapes) == len(models)
        rows -= shapes
    assert not rows


@pytest.mark.parametrize("depth", word_lm.EQUAL_DEPTHS)
def test_no_width_comes_closer_to_the_equal_budget(depth):
    """All widths are tried, with the parameters counted by hand: V n + 2 n^2 + 2 L n^2 + 2 L n + V."""
    parameters = lambda n: 10_000 * n + 2 * n**2 + 2 * depth * n**2 + 2 * depth * n + 10_000  # noqa: E731
    closest = min(range(1, 300), key=lambda n: abs(parameters(n) - 1_500_000))
    model = word_lm.EXPERIMENT.presets[f"equal-{depth}"].config.model
    assert (model.size, model.embeddings.width, model.embeddings.tied) == (closest, closest, True)
    assert count(model, 10_000, 10_000).true == parameters(closest)


@pytest.mark.parametrize(("preset", "printed"), [("variational-lstm", "66 M"), ("variational-lstm-tied", "51 M")])
def test_variational_lstms_have_the_printed_sizes(preset, printed):
    counted = count(word_lm.EXPERIMENT.presets[preset].config.model, 10_000, 10_000).true
    assert counted == 10_000 * 1500 * (1 if "tied" in preset else 2) + 10_000 + 2 * 4 * (2 * 1500**2 + 1500)
    assert rounds_to(counted, printed)
