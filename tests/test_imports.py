"""The arrows between the rooms of the library: who may import whom, and which file alone knows of which package."""

import ast
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LIBRARY = sorted((ROOT / "lrpt").rglob("*.py"))
EXPERIMENTS = sorted((ROOT / "experiments").rglob("*.py"))

# room -> rooms of the library that it may import; `errors` is open to all. A new room gets its row here.
LOWER = {"matrices", "cells", "kernels", "recurrence"}
MAY_IMPORT = {
    "errors": set(),
    "matrices": set(),
    "cells": {"matrices"},
    "kernels": {"matrices", "cells"},
    "recurrence": {"matrices", "cells", "kernels"},
    "initialization": set(),
    "parametrizations": {"matrices", "initialization"},
    "materialize": {"matrices"},
    "dropout": {"matrices", "cells"},
    "operations": {"matrices", "cells"},
    "networks": set(),
    "models": {*LOWER, "materialize", "parametrizations", "dropout", "initialization", "networks"},
    "highway_classifier": {"matrices", "cells", "parametrizations", "initialization", "networks"},
    "conditional_network": {"operations", "cells", "recurrence", "parametrizations", "initialization", "networks"},
    "variable_models": {"operations", "cells", "models", "networks"},
    "counting": {"matrices", "models", "networks"},
    "sampling": {"networks"},
    "named_arrays": set(),
    "losses": set(),
    "metrics": set(),
    "data": {"losses", "metrics"},
    "optim": {"matrices"},
    "analysis": {*LOWER, "parametrizations", "operations", "models"},
    "training": {*LOWER, "networks", "counting", "named_arrays", "losses", "metrics", "data", "optim", "analysis"},
}
ONLY_IN = {
    "orbax": "lrpt/training/checkpoint.py",
    "rich": "lrpt/training/console.py",
}
DEVICES, PROCESSES = "lrpt/training/parallel.py", "lrpt/training/processes.py"
# What of `jax` knows that there are devices, and that there are processes.
OF_DEVICES = {
    *("devices", "local_devices", "device_count", "local_device_count", "device_put", "default_device"),
    *("pmap", "shard_map", "make_mesh", "set_mesh", "sharding", "NamedSharding", "Mesh", "PartitionSpec"),
}
OF_PROCESSES = {"distributed", "multihost_utils", "process_index", "process_count"}


def name_of(path):
    return path.relative_to(ROOT).as_posix()


def room_of(path):
    parts = path.relative_to(ROOT / "lrpt").with_suffix("").parts
    return parts[0] if parts != ("__init__",) else ""


@cache
def nodes(path):
    return list(ast.walk(ast.parse(path.read_text())))


@cache
def imported(path):
    """Dotted names of everything a file imports, wherever in it: `from a import b` is a.b."""
    names = set()
    for node in nodes(path):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name_of(path)}: imports are absolute here"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def packages(path):
    return {name.split(".")[0] for name in imported(path)}


def rooms(path):
    """The rooms of the library that a file imports."""
    return {name.split(".")[1] for name in imported(path) if name.startswith("lrpt.")} - {room_of(path)}


every_library_file = pytest.mark.parametrize("path", LIBRARY, ids=name_of)
every_file = pytest.mark.parametrize("path", LIBRARY + EXPERIMENTS, ids=name_of)


@every_library_file
def test_arrows(path):
    room = room_of(path)
    if not room:
        return  # lrpt/__init__.py names the public things of every room
    assert room in MAY_IMPORT, f"{room} is a new room: say in tests/test_imports.py what it may import"
    wrong = rooms(path) - MAY_IMPORT[room] - {"errors"}
    assert not wrong, f"{name_of(path)} imports {sorted(wrong)}, which {room} may not"


def test_arrows_make_no_circle():
    remaining = dict(MAY_IMPORT)
    while remaining:
        ends = [room for room, targets in remaining.items() if not targets & remaining.keys()]
        assert ends, f"a circle among {sorted(remaining)}"
        remaining = {room: targets for room, targets in remaining.items() if room not in ends}


@every_library_file
def test_library_does_not_know_the_experiments(path):
    assert not packages(path) & {"experiments", "tests"}


@pytest.mark.parametrize("path", [p for p in LIBRARY if room_of(p) in LOWER], ids=name_of)
def test_lower_rooms_know_neither_flax_nor_optax(path):
    assert not packages(path) & {"flax", "optax"}


@every_file
def test_one_file_knows_each_of_these_packages(path):
    wrong = {package for package in packages(path) & ONLY_IN.keys() if ONLY_IN[package] != name_of(path)}
    assert not wrong, f"only {[ONLY_IN[p] for p in wrong]} may import {wrong}"


@every_file
@pytest.mark.parametrize(("what", "where"), [(OF_DEVICES, DEVICES), (OF_PROCESSES, PROCESSES)], ids=["devices", "processes"])
def test_one_file_knows_of_devices_and_one_of_processes(path, what, where):
    named = [node for node in nodes(path) if isinstance(node, ast.Attribute) and node.attr in what]
    read = {node.attr for node in named if ast.unparse(node.value).split(".")[0] == "jax"}
    taken = {part for name in imported(path) if name.startswith("jax.") for part in name.split(".")[1:]}
    used = (read | taken) & what
    assert not used or name_of(path) == where, f"{name_of(path)} uses {sorted(used)}: that belongs into {where}"


def test_the_files_that_know_are_there():
    for name in {*ONLY_IN.values(), DEVICES, PROCESSES}:
        assert (ROOT / name).is_file()
