"""Flags of experiments: one parser of presets, short flags for settings in groups, and help that knows the tables."""

import importlib
import inspect
import pydoc
import re
import subprocess
import sys
from dataclasses import make_dataclass, replace
from pathlib import Path

import pytest

from experiments.copy_memory import EXPERIMENT
from experiments.highway_mnist import EXPERIMENT as HIGHWAY
from lrpt.cells import CELLS
from lrpt.cli.command import main
from lrpt.cli.flags import about_data, check_seeds, combinations, parse, words
from lrpt.cli.imports import without_imports
from lrpt.errors import UsageError
from lrpt.runs.configuration import flatten, to_json


@pytest.mark.parametrize(
    ("flags", "name"),
    [
        ("", "quick"),
        ("--preset paper", "paper"),
        ("--preset=paper", "paper"),
        ("--preset quick --preset=paper", "paper"),
        ("--preset=paper --seed 3 --preset quick", "quick"),
        ("--vary model.rank=2,3 --preset paper", "paper"),
    ],
)
def test_label_and_configuration_are_those_of_the_last_preset(flags, name):
    command = parse(EXPERIMENT, flags.split())
    assert command.preset == name
    assert command.config == EXPERIMENT.presets[name].config


@pytest.mark.parametrize("experiment", [EXPERIMENT, HIGHWAY], ids=lambda experiment: experiment.name)
def test_a_preset_alone_is_read_as_with_other_flags(experiment):
    for name in experiment.presets:
        assert parse(experiment, ["--preset", name]) == parse(experiment, ["--preset", name, "--seed", "0"])


@pytest.mark.parametrize("flags", ["--preset=nope", "--preset nope", "--preset nope --help"])
def test_an_unknown_preset_is_refused(flags):
    with pytest.raises(UsageError, match="unknown preset 'nope' of copy_memory: choose from quick, "):
        parse(EXPERIMENT, flags.split())


@pytest.mark.parametrize(
    ("short", "full"),
    [
        ("--model.rank 3", "--model.matrices.rank 3"),
        ("--model.input_rank=3", "--model.inputs.rank=3"),
        ("--model.parametrization dense", "--model.matrices.kind dense"),
        ("--model.weight-norm --model.tied", "--model.matrices.weight-norm --model.matrices.tied"),
        ("--model.no-trainable-initial-state", "--model.initial.no-trainable-state"),
        ("--model.embedding 4 --model.tie-embedding", "--model.embeddings.width 4 --model.embeddings.tied"),
        ("--model.recurrence plain", "--model.loop.kind plain"),
        ("--model.drop-biases --model.gate-masks shared", "--model.dropout.biases --model.dropout.gate-masks shared"),
    ],
)
def test_short_flags_are_those_of_settings_in_groups(short, full):
    found = parse(EXPERIMENT, short.split())
    assert found == parse(EXPERIMENT, full.split())
    assert found != parse(EXPERIMENT, [])


def test_short_flags_of_another_network():
    model = parse(HIGHWAY, ["--model.share-masks", "--model.projection-dropout", "0.1", "--model.input-rank", "5"]).model
    assert (model.dropout.shared_masks, model.dropout.projections, model.inputs.rank) == (True, 0.1, 5)
    with pytest.raises(UsageError, match=r"--model\.carry-bias"):
        parse(HIGHWAY, ["--model.carry-bias", "1"])


def test_vary_takes_both_names_and_names_directories_by_what_was_typed():
    found = combinations(EXPERIMENT, ["--vary", "model.rank=2,3", "model.matrices.tied=True,False"])
    assert list(found) == ["rank2-tiedTrue", "rank2-tiedFalse", "rank3-tiedTrue", "rank3-tiedFalse"]
    assert found["rank3-tiedTrue"].model == replace(EXPERIMENT.presets["quick"].config.model, rank=3, tied=True)
    with pytest.raises(UsageError, match="two of these runs would be one"):
        combinations(EXPERIMENT, ["--vary", "model.rank=2", "model.matrices.rank=3"])


@pytest.mark.parametrize("second", [["--vary", "optim.learning-rate=1e-3,1e-2"], ["--vary=optim.learning-rate=1e-3"]])
def test_variations_after_a_second_flag_do_not_replace_the_first_ones(second):
    with pytest.raises(UsageError, match="argument '--vary' is given 2 times: give it once, with all its values behind it"):
        combinations(EXPERIMENT, ["--vary", "model.rank=2,3", "--seed", "1", *second])


def test_all_seeds_of_a_command_are_distinguished_by_jax():
    last = 2**32 - 2**16
    check_seeds(last - 3, 3)
    for first, count in ((last - 2, 3), (-1, 1)):
        with pytest.raises(UsageError, match=f"seed is {first}: expected 0 to {last - count}"):
            check_seeds(first, count)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--train.batch-size 0", "train.batch_size is 0: expected 1 or more; see python -m experiments.copy_memory --help"),
        ("--model.sise 3", "Unrecognized options: --model.sise, 3; perhaps you meant --model.size; see "),
        ("--model.rnk 3", "Unrecognized options: --model.rnk, 3; perhaps you meant --model.rank; see "),
        ("--model.parametrisation=dense", "Unrecognized options: --model.parametrisation=dense; perhaps you meant --model.parametrization"),
        ("--rank 3", "Unrecognized options: --rank, 3; perhaps you meant --model.rank; see "),
        ("--model.foo 3", "Unrecognized options: --model.foo, 3; see "),
        ("--model.rank 2.5", "--model.matrices.rank is '2.5': expected an integer;"),
        ("--optim.decay much", "--optim.decay is 'much': expected a number;"),
        ("--model.chunk 2.5", "--model.loop.chunk is '2.5': expected an integer or None;"),
        ("--optim.learning-rate fast", "--optim.learning-rate is 'fast': expected a number or None;"),
    ],
)
def test_errors_of_the_parser_are_one_line(flags, message):
    with pytest.raises(UsageError) as error:
        parse(EXPERIMENT, flags.split())
    assert str(error.value).startswith(message)


def test_words_give_every_setting_its_value():
    config = parse(EXPERIMENT, ["--preset", "weight-norm", "--model.state-dropout", "0.25"]).config
    settings = {name: value for name, value in flatten(to_json(config)).items() if value is not None}
    assert parse(EXPERIMENT, [word for name, value in settings.items() for word in words(name, value)]).config == config


def test_help_names_a_cell_of_the_user(monkeypatch, capsys):
    monkeypatch.setitem(CELLS, "peephole", CELLS["lstm"])
    with pytest.raises(SystemExit):
        parse(EXPERIMENT, ["--help"])
    text = capsys.readouterr().out
    assert "peephole" in text
    assert "--model.rank for --model.matrices.rank" in text
    assert "short name of" not in text  # the docstring of the class lists the names for readers of Python


@pytest.mark.parametrize("name", ["adding", "bit_lm", "char_lm", "copy_memory", "music", "sequences", "word_lm"])
def test_help_has_80_columns_and_no_markdown(name, monkeypatch, capsys):
    """The docstrings of tasks have some, for the documentation pages."""
    monkeypatch.setenv("COLUMNS", "80")
    experiment = importlib.import_module(f"experiments.{name}").EXPERIMENT
    with pytest.raises(SystemExit):
        parse(experiment, ["--help"])
    text = capsys.readouterr().out
    assert "|---" not in text
    assert "**" not in text
    assert max(map(len, text.splitlines())) <= 80
    data = type(experiment.presets["quick"].config.data)
    assert pydoc.locate(f"{data.__module__}.{data.__qualname__}") is data
    has_more = "\n\n" in inspect.cleandoc(data.__doc__)
    assert (f"Details: python -m pydoc {data.__module__}.{data.__qualname__} " in text) == has_more


@pytest.mark.parametrize("name", ["lattice convergence", "jsb swarm", "fair_crossing", "fine_tune"])
def test_help_of_studies_has_no_markdown(name):
    module, *subcommand = name.split()
    words = [sys.executable, "-m", f"experiments.{module}", *subcommand, "--help"]
    assert "|---" not in subprocess.run(words, capture_output=True, check=True, text=True).stdout


def test_help_of_data_without_a_docstring_has_no_signature():
    assert about_data(make_dataclass("Parity", ["length"])) == ""


@pytest.mark.slow
def test_help_whose_reader_leaves_is_silent():
    command = f"{sys.executable} -m experiments.adding --help | head -c 1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, cwd=Path(__file__).parents[2])
    assert (done.stdout, done.stderr) == ("u", "")


HEAVY = ("matplotlib", "orbax", "tensorflow_datasets", "sklearn", "scipy.io", "scipy.stats", "jax.experimental.pallas", "torch")
"""They take as long to import as everything else together."""


@pytest.mark.parametrize("name", ["adding", "permuted_mnist", "word_lm", "report", "reproduce"])
def test_help_does_not_wait_for_what_only_some_commands_need(name):
    """The help of the report and of the reproduction does not wait for the claims of the papers, which import every experiment, either."""
    slow = (*HEAVY, *(["experiments.report.papers", "experiments.lattice"] if name in ("report", "reproduce") else []))
    show = f"""
import sys
from runpy import run_module
sys.argv = ["", "--help"]
try:
    run_module("experiments.{name}", run_name="__main__", alter_sys=True)
finally:
    print([name for name in {slow} if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", show], capture_output=True, text=True, cwd=Path(__file__).parents[2])
    assert done.stdout.startswith("usage: "), done.stderr
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("flags", ["--import", "--import=", "--import --seed 3", "--seed 3 --import -x"])
def test_an_import_names_a_module(flags):
    with pytest.raises(UsageError, match="--import names no module: give one, as in --import mine"):
        without_imports(flags.split())


def test_imports_are_taken_out():
    assert without_imports(["--seed", "3", "--import", "json", "--import=math", "--samples", "2"]) == ["--seed", "3", "--samples", "2"]


@pytest.mark.parametrize(
    ("flags", "mentions"), [("--model.cell mine", True), ("--optim.recipe mine", True), ("--model.loop.store mine", False)]
)
def test_a_name_that_a_module_may_add_says_how(flags, mentions, capsys):
    with pytest.raises(SystemExit):
        main(EXPERIMENT, flags.split())
    line = capsys.readouterr().err
    assert "is 'mine': choose from " in line
    assert ("; or import the module that adds it, with --import MODULE" in line) == mentions


def test_two_names_of_one_setting_are_refused():
    """One name may come twice: scripts append flags that override others."""
    says = "--model.matrices.rank and --model.rank are two names of one setting: give one of them"
    with pytest.raises(UsageError, match=re.escape(says)):
        combinations(EXPERIMENT, ["--model.rank=7", "--model.matrices.rank", "5"])
    (found,) = combinations(EXPERIMENT, ["--model.rank", "7", "--model.rank", "5"]).values()
    assert found.model.matrices.rank == 5
