"""Settings in groups: short names in constructors, and choices that come from tables."""

import ast
import copy
import inspect
import pickle
import re
import shutil
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path
from typing import get_type_hints

import pytest

from lrpt.cells import CELLS
from lrpt.errors import UnknownName, UsageError, check_choice
from lrpt.networks.conditional import ConditionalConfig
from lrpt.networks.configuration import EmbeddingConfig, ShortNames, TiedStorageConfig
from lrpt.networks.highway_classifier import HighwayConfig
from lrpt.networks.sequence_model import ModelConfig
from lrpt.networks.variable_computation import VariableConfig
from lrpt.parametrizations import MatrixConfig
from lrpt.settings import SHORT_NAMES, OneOf, changed_settings
from lrpt.tasks import NextSymbol
from lrpt.training.config import TrainConfig


def test_a_short_name_sets_one_setting_of_its_group():
    assert ModelConfig(rank=8).matrices == TiedStorageConfig("low_rank_plus_diagonal", 8)
    assert HighwayConfig(tied=True).matrices == TiedStorageConfig("low_rank", 256, tied=True)
    assert VariableConfig(recurrence="plain", chunk=3).loop.chunk == 3


def test_settings_in_groups_are_read_by_their_short_names():
    config = ModelConfig(rank=3, embedding=5, carry_bias=0.5)
    assert (config.rank, config.embedding, config.carry_bias, config.pack) == (3, 5, 0.5, "auto")
    assert pickle.loads(pickle.dumps(config)) == copy.deepcopy(config) == config
    for name in ("target", "nothing", "__fields__"):
        with pytest.raises(AttributeError, match=f"'ModelConfig' object has no attribute '{name}'"):
            getattr(config, name)


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


@pytest.mark.parametrize("kind", [ModelConfig, HighwayConfig, VariableConfig, ConditionalConfig])
def test_the_docstring_of_a_class_names_its_short_names(kind):
    assert "\n  parametrization: short name of matrices.kind\n  rank: short name of matrices.rank\n" in inspect.getdoc(kind)
    assert re.findall(r"^  (\w+): short name of ", inspect.getdoc(kind), re.MULTILINE) == list(kind.short_names)
    assert inspect.getdoc(kind).startswith("Configuration of a ")


def test_type_checkers_see_the_constructor_as_it_is():
    """Compare the declaration under TYPE_CHECKING with the fields, and the types of short names with those of their settings."""
    hints = get_type_hints(ModelConfig)
    types = {short: get_type_hints(hints[path.split(".")[0]])[path.split(".")[1]] for short, path in ModelConfig.short_names.items()}
    assert get_type_hints(ShortNames) == types
    nodes = ast.walk(ast.parse(inspect.getsource(ModelConfig)))
    (declared,) = (node.args for node in nodes if isinstance(node, ast.FunctionDef) and node.name == "__init__")
    written = {argument.arg: ast.unparse(argument.annotation) for argument in declared.args[1:]}
    assert list(written) == [field.name for field in fields(ModelConfig)]
    assert len(declared.defaults) == len(written)
    assert written == {name: hints[name].__name__ for name in written}


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("basedpyright") is None, reason="basedpyright is not installed")
def test_a_type_checker_accepts_the_code_of_the_readme_and_a_schedule(tmp_path):
    root = Path(__file__).parents[1]
    code = re.findall(r"```python\n(.*?)```", (root / "README.md").read_text(), re.DOTALL)[0]
    schedule = "import optax\nfrom lrpt.optim import RECIPES\n\nRECIPES['adding'].build(optax.cosine_decay_schedule(0.1, 9))\n"
    (tmp_path / "right.py").write_text(code + schedule)
    (tmp_path / "wrong.py").write_text("import lrpt\n\nlrpt.ModelConfig(rank='8')\nlrpt.ModelConfig(ranks=8)\n")
    settings = f'{{"extraPaths": ["{root}"], "typeCheckingMode": "standard"}}'
    (tmp_path / "pyrightconfig.json").write_text(settings)
    command = ["basedpyright", "--pythonpath", sys.executable, "--project", str(tmp_path)]
    found = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False).stdout
    assert "right.py" not in found.replace("wrong.py", ""), found
    assert len(re.findall(r"wrong\.py:[34]:\d+ - error", found)) == 2, found


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
    with pytest.raises(UsageError, match=r"model\.cell is 'mine': choose from "):
        ModelConfig("mine")
    monkeypatch.setitem(CELLS, "mine", CELLS["gru"])
    assert ModelConfig("mine").label == "LRD-MINE 128/24"


@pytest.mark.parametrize(
    ("name", "close"), [("lowrank", "low_rank"), ("dens", "dense"), ("nope", ""), ("LRD", "low_rank_plus_diagonal"), ("lr", "low_rank, ")]
)
def test_of_many_choices_the_closest_are_named(name, close):
    with pytest.raises(UnknownName, match=rf"model\.matrices\.kind is '{name}': choose from {close}.* \(the closest of \d+\)") as raised:
        ModelConfig(parametrization=name)
    assert len(str(raised.value)) < 200


def test_of_few_choices_all_are_named():
    table = {"a": 1, "b": 2}
    with pytest.raises(UnknownName, match=r"letter is 'c': choose from a, b$"):
        check_choice("letter", "c", table)
    with pytest.raises(UsageError, match=r"letter is '3': choose from .*, .* \(the closest of 100\)") as raised:
        check_choice("letter", 3, [f"name{n}" for n in range(100)])
    assert not isinstance(raised.value, UnknownName)


@pytest.mark.parametrize("value", [1e39, -1e39, 10**400, float("inf"), float("nan")])
def test_a_carry_bias_is_finite_as_a_parameter(value):
    with pytest.raises(UsageError, match=r"model\.initial\.carry_bias is .*: expected a finite number of float32, at most 3\.4e\+38"):
        ModelConfig(carry_bias=value)
    assert ModelConfig(carry_bias=-3e38).carry_bias == -3e38


def test_an_entry_of_the_table_that_is_no_cell(monkeypatch):
    monkeypatch.setitem(CELLS, "mine", CELLS["gru"].step)
    with pytest.raises(UsageError, match=r"CELLS\['mine'\] is a function: wrap it in lrpt\.Cell\(step, template\)"):
        ModelConfig("mine")


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


SETTINGS_OF_OTHER_TYPES = [
    (lambda: ModelConfig(["gru"]), r"model\.cell is '\['gru'\]': choose from"),
    (lambda: ModelConfig(word_dropout="a"), r"model\.dropout\.words is 'a': expected a number"),
    (lambda: ModelConfig(initial_scale="a"), r"model\.initial\.scale is 'a': expected a number"),
    (lambda: ModelConfig(carry_bias=None), r"model\.initial\.carry_bias is None: expected a number"),
    (lambda: VariableConfig("vcrnn", target="a"), r"model\.schedule\.target is 'a': expected a number"),
    (lambda: VariableConfig("vcrnn", sharpness="a"), r"model\.mask\.sharpness is 'a': expected a number"),
    (lambda: TrainConfig(stop_below="a"), r"train\.stop_below is 'a': expected a number"),
    (lambda: TrainConfig(checkpoint_minutes="a"), r"train\.checkpoint_minutes is 'a': expected a number"),
    (lambda: NextSymbol(text_share="a"), r"data\.text_share is 'a': expected a number"),
]


@pytest.mark.parametrize(("build", "says"), SETTINGS_OF_OTHER_TYPES, ids=[says[:30] for _, says in SETTINGS_OF_OTHER_TYPES])
def test_settings_of_other_types_are_one_line(build, says):
    with pytest.raises(UsageError, match=says):
        build()
