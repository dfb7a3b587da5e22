"""Imports run one way: which package may import which, no circles between files, and which file alone knows of which package."""

import ast
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LIBRARY = sorted((ROOT / "lrpt").rglob("*.py"))
EXPERIMENTS = sorted((ROOT / "experiments").rglob("*.py"))
COMMANDS = {path.stem for path in (ROOT / "experiments").iterdir() if not path.name.startswith(("_", "."))}

# package -> packages that it may import; `errors`, `precision` and `pytrees` are open to all. A new package gets its row here.
LOWER = {"symbols", "matrices", "specs", "cells", "recurrence"}
MAY_IMPORT = {
    "errors": set(),
    "precision": set(),
    "pytrees": set(),
    "files": set(),
    "tables": set(),
    "settings": set(),
    "symbols": set(),
    "scaling": set(),
    "matrices": {"symbols"},
    "specs": {"matrices"},
    "cells": {"symbols", "matrices", "specs", "tables"},
    "recurrence": {"symbols", "matrices", "cells", "tables"},
    "parametrizations": {"matrices", "specs", "tables"},
    "networks": {*LOWER, "settings", "parametrizations"},
    "losses": set(),
    "metrics": {"losses"},
    "datasets": {"files"},
    "tasks": {"symbols", "scaling", "datasets", "losses", "metrics"},
    "optim": {"matrices", "settings", "tables"},
    "analysis": {*LOWER, "parametrizations", "networks"},
    "compression": {*LOWER - {"symbols"}, "parametrizations", "networks", "analysis"},
    "interop": {*LOWER, "scaling", "parametrizations", "networks", "compression", "runs", "optim"},
    "devices": {"files"},
    "runs": {"devices", "files", "settings", "tables"},
    "training": {
        "files",
        "scaling",
        "settings",
        "devices",
        "runs",
        "networks",
        "parametrizations",
        "metrics",
        "tasks",
        "optim",
    },
    "trained": {"datasets", "compression", "symbols", "scaling", "runs", "networks", "losses", "tasks", "optim", "training"},
    "engines": {"devices", "runs", "training"},
    "cli": {"cells", "settings", "metrics", "devices", "runs", "training", "trained", "networks", "datasets", "tasks", "optim", "analysis"},
}
ONLY_IN = {
    "orbax": "lrpt/runs/checkpoint.py",
    "rich": "lrpt/runs/console.py",
    "ray": "lrpt/engines/cluster.py",
}
DEVICES = {"lrpt/devices/hardware.py", "lrpt/devices/parallel.py"}
PROCESSES = "lrpt/devices/processes.py"
EXPLICIT = "lrpt/recurrence/explicit.py"  # shardings that are part of the types of a caller's arrays
# What of `jax` knows that there are devices, and that there are processes.
OF_DEVICES = {
    *("devices", "local_devices", "device_count", "local_device_count", "device_put", "default_device"),
    *("pmap", "shard_map", "make_mesh", "set_mesh", "sharding", "NamedSharding", "Mesh", "PartitionSpec"),
}
OF_PROCESSES = {"distributed", "multihost_utils", "process_index", "process_count"}


def name_of(path):
    return path.relative_to(ROOT).as_posix()


def package_of(path):
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


def own_packages(path):
    """The packages of the library that a file imports."""
    return {name.split(".")[1] for name in imported(path) if name.startswith("lrpt.")} - {package_of(path)}


every_library_file = pytest.mark.parametrize("path", LIBRARY, ids=name_of)
every_file = pytest.mark.parametrize("path", LIBRARY + EXPERIMENTS, ids=name_of)


@every_library_file
def test_arrows(path):
    package = package_of(path)
    if not package:
        return  # lrpt/__init__.py names the public things of every package
    assert package in MAY_IMPORT, f"{package} is a new package: say in tests/test_imports.py what it may import"
    wrong = own_packages(path) - MAY_IMPORT[package] - {"errors", "precision", "pytrees"}
    assert not wrong, f"{name_of(path)} imports {sorted(wrong)}, which {package} may not"


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_every_arrow_is_used(package):
    used = set().union(*(own_packages(path) for path in LIBRARY if package_of(path) == package))
    assert not MAY_IMPORT[package] - used, f"{package} may import {sorted(MAY_IMPORT[package] - used)}, and does not"


def test_arrows_make_no_circle():
    remaining = dict(MAY_IMPORT)
    while remaining:
        ends = [package for package, targets in remaining.items() if not targets & remaining.keys()]
        assert ends, f"a circle among {sorted(remaining)}"
        remaining = {package: targets for package, targets in remaining.items() if package not in ends}


def module_of(path):
    return name_of(path).removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def test_no_circle_between_files():
    files = {module_of(path): path for path in LIBRARY + EXPERIMENTS}
    sorter = TopologicalSorter()
    for module, path in files.items():
        # `from a import b` imports the file a.b where there is one, and the file a otherwise
        found = {name if name in files else name.rpartition(".")[0] for name in imported(path)}
        sorter.add(module, *(found & files.keys()) - {module})
    try:
        sorter.prepare()
    except CycleError as error:
        pytest.fail(f"files import each other: {' -> '.join(reversed(error.args[1]))}")


# the packages of the report, each of which imports only those before it, and the command last
OF_REPORT = ["kept", "claims", "wording", "papers", "figures", "pages", "command"]


@pytest.mark.parametrize("path", sorted((ROOT / "experiments/report").rglob("*/*.py")), ids=name_of)
def test_the_report_is_read_judged_worded_drawn_and_printed_in_this_order(path):
    package = module_of(path).split(".")[2]
    assert package in OF_REPORT, f"{package} is a new package of the report: give it its place in OF_REPORT"
    used = {name.split(".")[2] for name in imported(path) if name.startswith("experiments.report.")}
    assert used <= set(OF_REPORT[: OF_REPORT.index(package) + 1])


# command -> other commands whose code it imports, so that a change of these may change it. The report reads the runs of every experiment.
BORROWS = {
    "bit_lm": {"variable_computation"},
    "conditional": {"variable_computation"},
    "europarl": {"variable_computation"},
    "music": {"variable_computation"},
    "variable_computation": {"wiki"},
    "operation_table": {"conditional", "variable_computation"},
    "parameter_table": {"highway_mnist", "lattice", "operation_table", "word_lm"},
    "search": {"sweep"},
    "scaling": {"adding", "benchmark", "parameter_table", "wiki"},
    "reproduce": {"report", "sweep"},
    "costs": {"benchmark", "reproduce"},
}
ABOVE_THE_REPORT = {"reproduce", "costs", "search", "scaling", "benchmark"}


@pytest.mark.parametrize("path", EXPERIMENTS, ids=name_of)
def test_commands_borrow_only_from_those_that_are_listed(path):
    own, *_ = path.relative_to(ROOT / "experiments").with_suffix("").parts
    others = {name.split(".")[1] for name in imported(path) if name.startswith("experiments.")} & COMMANDS - {own}
    assert not others & ABOVE_THE_REPORT if own == "report" else others <= BORROWS.get(own, set())


def test_no_two_commands_borrow_from_each_other():
    TopologicalSorter(BORROWS).prepare()  # raises a CycleError


def test_at_most_eleven_modules_at_the_root():
    assert len([path for path in (ROOT / "lrpt").glob("*.py") if path.name != "__init__.py"]) <= 11


@every_library_file
def test_library_does_not_know_the_experiments(path):
    assert not packages(path) & {"experiments", "tests"}


@every_library_file
def test_one_file_looks_experiments_up_by_their_names(path):
    looked_up = {ast.unparse(node) for node in nodes(path) if isinstance(node, ast.Call) and "import_module" in ast.unparse(node.func)}
    assert not any("'experiments'" in call for call in looked_up) or name_of(path) == "lrpt/cli/experiment.py"


@pytest.mark.parametrize("path", [p for p in LIBRARY if package_of(p) in LOWER], ids=name_of)
def test_lower_packages_know_neither_flax_nor_optax(path):
    assert not packages(path) & {"flax", "optax"}


@every_file
def test_one_file_knows_each_of_these_packages(path):
    wrong = {package for package in packages(path) & ONLY_IN.keys() if ONLY_IN[package] != name_of(path)}
    assert not wrong, f"only {[ONLY_IN[p] for p in wrong]} may import {wrong}"


@every_file
@pytest.mark.parametrize(("what", "where"), [(OF_DEVICES, {*DEVICES, EXPLICIT}), (OF_PROCESSES, {PROCESSES})], ids=["devices", "processes"])
def test_one_file_knows_of_devices_and_one_of_processes(path, what, where):
    named = [node for node in nodes(path) if isinstance(node, ast.Attribute) and node.attr in what]
    read = {node.attr for node in named if ast.unparse(node.value).split(".")[0] == "jax"}
    taken = {part for name in imported(path) if name.startswith("jax.") for part in name.split(".")[1:]}
    used = (read | taken) & what
    assert not used or name_of(path) in where, f"{name_of(path)} uses {sorted(used)}: that belongs into {sorted(where)}"


def test_the_files_that_know_are_there():
    for name in {*ONLY_IN.values(), *DEVICES, PROCESSES, EXPLICIT}:
        assert (ROOT / name).is_file()


@every_library_file
def test_no_module_that_windows_lacks_is_imported(path):
    """Files are locked by the library filelock, and the size of memory is asked of `os` where it knows."""
    roots = {name.partition(".")[0] for name in imported(path)}
    assert not roots & {"fcntl", "grp", "posix", "pty", "pwd", "readline", "resource", "syslog", "termios", "tty"}
