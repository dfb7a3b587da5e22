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
from lrpt.runs.run_directory import RunDirectory
from lrpt.runs.user_code import changed, digests_of, in_words, modules_to_import, with_digests
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


def digests(modules, *names):
    return {name: sha256(modules / f"{name}.py") for name in names}


def test_modules_that_register_what_a_configuration_names_are_recorded_and_what_they_import(modules):
    for name in NAMES:
        importlib.import_module(name)
    slow = tiny.changed(optim={"recipe": "slow"})
    assert digests_of(tiny.CONFIG) == {}
    assert digests_of(mine()) == digests(modules, "cell_of_mine", "cell_of_mine_step")
    assert digests_of(slow) == digests(modules, "recipe_of_mine")
    assert modules_to_import(tiny.CONFIG) == []
    assert modules_to_import(mine()) == ["cell_of_mine"]
    assert modules_to_import(slow) == ["recipe_of_mine"]


def test_functions_of_other_packages_belong_to_the_module_that_registers_them(modules):
    """Recipes are often functions of optax, as some of this library's are, or partials."""
    (modules / "recipe_of_mine.py").write_text(
        "import functools, optax\nfrom lrpt.optim import RECIPES, Recipe\n"
        'RECIPES["slow"] = Recipe("Lion", 1e-4, functools.partial(optax.lion, b1=0.8))\n'
    )
    importlib.import_module("recipe_of_mine")
    assert modules_to_import(tiny.changed(optim={"recipe": "slow"})) == ["recipe_of_mine"]
    for name in lrpt.optim.RECIPES:
        if name != "slow":
            assert digests_of(tiny.changed(optim={"recipe": name})) == {}, name


def test_modules_that_the_user_names_are_recorded_in_their_order(modules):
    for name in ("recipe_of_mine", "cell_of_mine"):
        lrpt.runs.imports.import_module(name)
    assert modules_to_import(mine()) == ["recipe_of_mine", "cell_of_mine"]
    assert modules_to_import(tiny.CONFIG) == []
    assert digests_of(tiny.CONFIG) == digests(modules, *NAMES)  # registered or not, they were named


def test_imports_are_found_in_the_source_and_modules_are_not_touched(modules):
    """Constants, namespace packages and imports inside functions; modules whose attributes must not be read."""
    (modules / "of_mine" / "inner").mkdir(parents=True)
    (modules / "of_mine" / "inner" / "helping.py").write_text("RATE = 1\n")
    (modules / "constants_of_mine.py").write_text("RATE = 1\n")
    (modules / "late_of_mine.py").write_text("")
    (modules / "cell_of_mine_step.py").write_text(
        "import sys, types\nimport of_mine.inner.helping\nfrom constants_of_mine import RATE\n"
        "class Lazy(types.ModuleType):\n    def __getattribute__(self, name):\n        raise RuntimeError(name)\n"
        "lazy = sys.modules['lazy_of_mine'] = Lazy('lazy')\nsys.modules['odd_of_mine'] = types.SimpleNamespace(__file__=3)\n"
        f"{STEP}    import late_of_mine, lazy_of_mine, odd_of_mine\n"
    )
    inner = {
        "constants_of_mine": "constants_of_mine.py",
        "late_of_mine": "late_of_mine.py",
        "of_mine.inner.helping": "of_mine/inner/helping.py",
    }
    try:
        for name in ("cell_of_mine", "late_of_mine"):
            importlib.import_module(name)
        found = digests_of(mine())
    finally:
        for name in [*inner, "lazy_of_mine", "odd_of_mine", "of_mine", "of_mine.inner"]:
            sys.modules.pop(name, None)
    own = digests(modules, "cell_of_mine", "cell_of_mine_step")
    assert found == own | {name: sha256(modules / file) for name, file in inner.items()}


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
    lrpt.runs.imports._imported.clear()
    assert load(path).config.model.cell == "mine"
    assert lrpt.runs.imports.imported() == ()  # a run that is trained next does not depend on it
    warned = []
    (modules / "cell_of_mine_step.py").write_text(STEP)
    load(path, warn=warned.append)
    assert warned == [f"module cell_of_mine_step has changed since {path} was trained"]
    (modules / "cell_of_mine.py").write_text("raise SystemExit(3)")
    with pytest.raises(lrpt.errors.UsageError, match=r"model\.cell is 'mine'"):
        forget(), load(path)
    lrpt.CELLS["mine"] = lrpt.Cell(importlib.import_module("cell_of_mine_step").step, lrpt.gate_spec)
    load(path, warn=warned.append)
    assert warned[1] == f"module 'cell_of_mine', with which {path} was trained, cannot be imported (SystemExit: 3)"
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


def test_a_start_without_a_checkpoint_leaves_the_code_of_the_updates_before(tmp_path):
    """A command that dies before its first checkpoint must not silence the warning."""
    directory = RunDirectory(tmp_path / "run")
    directory.open({"imports": ["a"]}, user_code={"a": "1"})
    assert directory.user_code() == {}  # no work yet
    (directory.checkpoints / "4").mkdir(parents=True)
    directory.open({}, user_code={"a": "2"})
    assert directory.user_code() == {"a": ["1"]}
    assert json.loads((directory.path / "config.json").read_text())["imports"] == ["a"]
    directory.record_user_code({"a": "2"})
    assert directory.user_code() == {"a": ["1", "2"]}
    for odd in ({"a": 5}, {"a": "12"}, {"a": [1]}, 7):
        (directory.path / "environment.json").write_text(json.dumps({"user_code": odd}))
        assert directory.user_code() == {}


def test_many_changed_modules_are_one_short_line():
    assert in_words(["a"]) == "module a has changed"
    assert in_words(list("abcde")) == "modules a, b, c and 2 more have changed"
