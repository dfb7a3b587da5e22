"""`python -m experiments`: everything there is, found by looking, without starting JAX."""

import os
import re
import subprocess
import sys
from functools import partial
from pathlib import Path
from types import ModuleType

import pytest

import experiments
from experiments import char_lm, sweep
from experiments.__main__ import WIDTH, listing, main, modules
from experiments.scaling import command as scaling
from experiments.search import command as search
from lrpt.cli import command
from lrpt.cli.command import BROKEN_PIPE_STATUS
from lrpt.cli.experiment import Experiment, Preset

FOLDER = Path(experiments.__file__).parent


def printed(found):
    return "\n".join(listing(found))


def words(text):
    return " ".join(text.split())


def modules_with(pattern):
    files = {path.stem: path for path in FOLDER.glob("[!_]*.py")} | {path.parent.name: path for path in FOLDER.glob("*/command.py")}
    return {name for name, path in files.items() if re.search(pattern, path.read_text(), re.MULTILINE)}


def test_every_experiment_and_preset_and_tool_is_listed():
    text = words(printed(modules()))
    held = {module.EXPERIMENT.name: module.EXPERIMENT for module in modules() if hasattr(module, "EXPERIMENT")}
    assert held.keys() == modules_with(r"^EXPERIMENT(: .*)? = ")
    for experiment in held.values():
        assert f"{experiment.name} {experiment.about} Reproduces: {experiment.reproduces}." in text
        for name, preset in experiment.presets.items():
            assert f"{name} {preset.about} [{experiment.costs[name]}]" in text
    tools = text.partition("Tools:")[2]
    assert all(f" {name} " in tools for name in modules_with("^def main"))
    assert {"parameter_table", "report"} <= modules_with("^def main")


def test_an_experiment_carries_the_name_of_its_module():
    for module in modules():
        if hasattr(module, "EXPERIMENT"):
            assert module.__name__.removesuffix(".command") == f"experiments.{module.EXPERIMENT.name}"


def test_lines_fit_and_columns_are_aligned():
    module = ModuleType("experiments.example")
    long = Preset(None, "a " * 80)
    module.EXPERIMENT = Experiment("example", "about", "a table", {"quick": long, "paper-of-somebody": long}, {})
    lines = printed([module]).splitlines()
    assert max(map(len, lines)) <= WIDTH
    presets = [line for line in lines if re.search(r"\ba a a\b", line)]
    assert len(presets) == 4
    assert len({re.search(r"\ba a", line).start() for line in presets}) == 1


def test_starts_no_backend_and_works_on_a_pipe():
    environment = os.environ | {"JAX_PLATFORMS": "no_such_platform"}  # starting a backend would fail
    command = [sys.executable, "-W", "error", "-m", "experiments"]
    run = subprocess.run(command, cwd=FOLDER.parent, env=environment, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout == printed(modules()) + "\n"


@pytest.mark.parametrize(
    "words",
    [
        ["experiments"],
        ["experiments.operation_table", "--json"],
        pytest.param(["experiments.parameter_table", "--json"], marks=pytest.mark.slow),
    ],
    ids=lambda words: words[0],
)
def test_a_reader_that_stops_reading_is_no_error(words):
    """As in `python -m experiments | head -1`."""
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", *words]
    run = subprocess.run(command, cwd=FOLDER.parent, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert (run.returncode, run.stderr) == (BROKEN_PIPE_STATUS, "")


def test_a_wrong_argument_is_one_line(assert_refused):
    assert_refused(main, ["copy_memory"], "takes no 'copy_memory': run it as python -m experiments.copy_memory")
    says = "'nope' is no experiment: `python -m experiments` lists them; run one as python -m experiments.NAME"
    assert_refused(main, ["nope"], says)
    assert_refused(main, ["--nope"], "Unrecognized options: --nope")


def test_help_names_the_subcommands_that_there_are(capsys):
    scheduling = ("sample", "schedule", "hard", "timing")
    known = {
        **dict.fromkeys(("char_lm", "word_lm", "wiki"), ("sample", "score")),
        "bit_lm": scheduling,
        "variable_computation": (*scheduling, "words"),
        "music": (*scheduling, "notes"),
        "europarl": (*scheduling, "words"),
        "lattice": ("sample", "score", "convergence", "efficiency", "gradients"),
        "jsb": ("swarm",),
    }
    held = [module.EXPERIMENT for module in modules() if hasattr(module, "EXPERIMENT")]
    assert {experiment.name: tuple(experiment.subcommands) for experiment in held if experiment.subcommands} == known
    for experiment in held:
        with pytest.raises(SystemExit) as leaving:
            command.main(experiment, ["--help"])
        assert leaving.value.code in (0, None)
        help_text = words(capsys.readouterr().out)
        assert all(f" {name}: " in help_text for name in experiment.subcommands)
        assert "--import MODULE" in help_text


@pytest.mark.parametrize(
    ("tool", "first"), [(search, "EXPERIMENT --over"), (sweep, "EXPERIMENT [EXPERIMENT ...]"), (scaling, "{traffic,hosts,memory,")]
)
def test_help_of_a_tool_shows_the_words_before_its_flags_and_how_to_import(tool, first, capsys):
    with pytest.raises(SystemExit):
        tool.main(["--help"])
    help_text = words(capsys.readouterr().out)
    assert f"{tool.PROGRAM} {first}" in help_text
    assert "--import MODULE" in help_text


@pytest.mark.parametrize("given", [["smple", "run"], ["gates"]])
def test_a_wrong_subcommand_is_one_line(given, assert_refused):
    program = partial(command.main, char_lm.EXPERIMENT)
    assert_refused(program, given, f"'{given[0]}' is no subcommand of python -m experiments.char_lm: choose from sample, score; see")
