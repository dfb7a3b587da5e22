"""Settings in groups: short names in constructors, and choices that come from tables."""

from dataclasses import replace

import pytest

from lrpt.cells import CELLS
from lrpt.errors import UsageError
from lrpt.networks.conditional import ConditionalConfig
from lrpt.networks.configuration import EmbeddingConfig, TiedStorageConfig
from lrpt.networks.highway_classifier import HighwayConfig
from lrpt.networks.sequence_model import ModelConfig
from lrpt.networks.variable_computation import VariableConfig
from lrpt.parametrizations import MatrixConfig
from lrpt.settings import SHORT_NAMES, OneOf, changed_settings


def test_a_short_name_sets_one_setting_of_its_group():
    assert ModelConfig(rank=8).matrices == TiedStorageConfig("low_rank_plus_diagonal", 8)
    assert HighwayConfig(tied=True).matrices == TiedStorageConfig("low_rank", 256, tied=True)
    assert VariableConfig(recurrence="plain", chunk=3).loop.chunk == 3


def test_replacing_keeps_the_rest_of_the_group():
    config = ModelConfig(embeddings=EmbeddingConfig(5, tied=True), tied=True)
    assert replace(config, embedding=6, rank=2).embeddings == EmbeddingConfig(6, tied=True)
    assert replace(config, embedding=6, rank=2).matrices == TiedStorageConfig("low_rank_plus_diagonal", 2, tied=True)


def test_a_class_knows_the_short_names_of_its_own_groups_alone():
    assert set(VariableConfig.short_names) == SHORT_NAMES.keys() - {"projection_dropout", "share_masks"}
    of_schedules = {name for name, path in SHORT_NAMES.items() if path.startswith(("schedule.", "mask."))}
    assert set(ModelConfig.short_names) == VariableConfig.short_names.keys() - of_schedules
    assert "tied" not in ConditionalConfig.short_names
    with pytest.raises(TypeError, match="carry_bias"):
        ConditionalConfig(carry_bias=1.0)


@pytest.mark.parametrize(
    "config",
    [
        ModelConfig("lstm", rank=8, word_dropout=0.5),
        HighwayConfig(depth=2, input_rank=3),
        VariableConfig("vcgru", target=0.4, epsilon=0.01),
    ],
)
def test_changed_settings_make_the_same_configuration(config):
    assert type(config)(**changed_settings(config)) == config


def test_choices_come_from_tables_when_they_are_asked_for(monkeypatch):
    with pytest.raises(UsageError, match=r"model\.cell is 'mine': choose from gru, "):
        ModelConfig("mine")
    monkeypatch.setitem(CELLS, "mine", CELLS["gru"])
    assert ModelConfig("mine").label == "LRD-MINE 128/24"


def test_the_help_of_a_choice_names_what_the_table_holds():
    table = {"a": 1, "b": 2}
    choice = OneOf("letter", table, ["z"], notes="a is first")
    assert choice.documentation == "letter: a, b or z; a is first"
    table["c"] = 3
    assert "a, b, c or z" in choice.documentation
    assert OneOf("letter", ["a"]).documentation == "letter: a"


def test_a_group_that_is_no_group_is_one_line():
    for value in ("low_rank", MatrixConfig("low_rank")):
        with pytest.raises(UsageError, match=r"model\.matrices is .*low_rank.*: give a TiedStorageConfig, .* such as parametrization"):
            ModelConfig(matrices=value)
