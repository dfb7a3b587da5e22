"""The user's own modules of a run: which are recorded, and what a run that was trained with other code says."""

import hashlib
import importlib
import json
import sys
from functools import partial

import pytest
import tiny

import lrpt
from lrpt.cli.command import main
from lrpt.runs.user_code import changed, digests_of, modules_to_import, with_digests
from lrpt.trained.loading import load
from lrpt.training.loop import fit

pytestmark = pytest.mark.usefixtures("tables")

STEP = """
import numpy as np
from jax.nn import sigmoid

def step(params, h, x):
    z = sigmoid(params(x, h))
    h = (1 - z) * h + z
    return h, (h, {"update": z})
"""
CELL = """
from cell_of_mine_step import step

from lrpt import CELLS, Cell, gate_spec

CELLS["mine"] = Cell(step, gate_spec)
"""
RECIPE = """
import optax

from lrpt.optim import RECIPES, Recipe

RECIPES["slow"] = Recipe("plain descent", 1e-3, lambda learning_rate: optax.sgd(learning_rate))
"""
FILES = {"cell_of_mine_step.py": STEP, "cell_of_mine.py": CELL, "recipe_of_mine.py": RECIPE}
NAMES = [name.removesuffix(".py") for name in FILES]
TASK = """
from dataclasses import dataclass

from lrpt.tasks import CopyMemory

@dataclass(frozen=True)
class Own(CopyMemory):
    pass
"""


def mine(updates=4):
    return tiny.changed(model={"cell": "mine", "parametrization": "dense"}, train={"updates": updates})


@pytest.fixture
def modules(tmp_path, monkeypatch):
    """A folder with modules that register a cell, whose step is in a second module, and an optimizer."""
    for name, content in FILES.items():
        (tmp_path / name).write_text(content)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("lrpt.runs.imports._imported", {})
    yield tmp_path
    forget()


def forget():
    """As in a new process."""
    for name in NAMES:
        sys.modules.pop(name, None)
    for table, name in ((lrpt.CELLS, "mine"), (lrpt.optim.RECIPES, "slow")):
        if name in table:
            del table[name]


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_modules_of_what_a_configuration_names_are_recorded_and_what_they_import(modules):
    for name in NAMES:
        importlib.import_module(name)
    steps = sha256(modules / "cell_of_mine_step.py")
    assert digests_of(tiny.CONFIG) == {}
    assert digests_of(mine()) == {"cell_of_mine_step": steps}
    assert digests_of(tiny.changed(optim={"recipe": "slow"})) == {"recipe_of_mine": sha256(modules / "recipe_of_mine.py")}
    assert modules_to_import(tiny.CONFIG) == []
    assert modules_to_import(mine()) == ["cell_of_mine_step"]
    assert modules_to_import(tiny.changed(optim={"recipe": "slow"})) == ["recipe_of_mine"]


def test_a_module_that_the_user_names_is_recorded_with_what_it_imports(modules):
    lrpt.runs.imports.import_module("cell_of_mine")
    assert modules_to_import(mine()) == ["cell_of_mine", "cell_of_mine_step"]
    assert digests_of(mine()) == {name: sha256(modules / f"{name}.py") for name in NAMES[:2]}
    assert digests_of(tiny.CONFIG).keys() == {"cell_of_mine", "cell_of_mine_step"}  # registered or not, it was named


def test_classes_of_the_users_are_recorded(modules):
    (modules / "task_of_mine.py").write_text(TASK)
    own = importlib.import_module("task_of_mine").Own
    config = tiny.changed()
    config = type(config)(config.model, config.optim, config.train, own("fixed", 3, 8, 4))
    assert digests_of(config) == {"task_of_mine": sha256(modules / "task_of_mine.py")}
    assert modules_to_import(config) == []  # `config.json` names the class
    sys.modules.pop("task_of_mine")


def test_only_modules_that_both_have_are_compared():
    before = {"a": ["1", "2"], "b": ["3"], "c": []}
    assert changed(before, {"a": "2", "b": "3", "c": "4", "d": "5"}) == []
    assert changed(before, {"a": "1", "b": "4"}) == ["a", "b"]
    assert with_digests(before, {"a": "2", "b": "4", "d": "5"}) == {"a": ["1", "2"], "b": ["3", "4"], "c": [], "d": ["5"]}
    assert with_digests(before, {"a": "1"})["a"] == ["2", "1"]


@pytest.mark.slow
def test_a_run_with_changed_code_says_so_and_is_loaded_without_naming_its_modules(modules, capfd):
    path, run = modules / "run", partial(main, tiny.EXPERIMENT)
    importlib.import_module("cell_of_mine")
    words, longer = (["--import", "cell_of_mine", *tiny.command(path, mine(updates))] for updates in (4, 8))
    forget()
    run(words)
    run(words)
    assert "changed since" not in capfd.readouterr().err

    forget()
    (modules / "cell_of_mine_step.py").write_text(STEP.replace("+ z", "+ 0.5 * z"))
    importlib.invalidate_caches()
    run(words)
    warning = f"lrpt: warning: module cell_of_mine_step has changed since {path} was trained: its "
    assert warning + "result is of the old code; name another --workdir to train with the new code" in capfd.readouterr().err
    run(longer)
    assert warning + "first 4 updates are of the old code" in capfd.readouterr().err
    run(longer)
    assert "changed since" not in capfd.readouterr().err

    recorded = json.loads((path / "environment.json").read_text())["user_code"]
    olds = [hashlib.sha256(STEP.encode()).hexdigest(), sha256(modules / "cell_of_mine_step.py")]
    assert recorded == {"cell_of_mine": [sha256(modules / "cell_of_mine.py")], "cell_of_mine_step": olds}
    forget()
    assert load(path).config.model.cell == "mine"
    forget()
    (modules / "cell_of_mine.py").unlink()
    with pytest.raises(
        lrpt.errors.UsageError, match=r"model\.cell is 'mine'.*adds it \(cell_of_mine, which cannot be imported here\), with --import"
    ):
        load(path)


def test_runs_without_code_of_the_users_record_none(tmp_path):
    fit(tiny.changed(train={"updates": 1}), {0: tmp_path / "run"}, devices=1)
    assert "user_code" not in json.loads((tmp_path / "run" / "environment.json").read_text())
    assert "imports" not in json.loads((tmp_path / "run" / "config.json").read_text())
