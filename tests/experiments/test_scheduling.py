"""The subcommands that look at a scheduler, and the presets of the experiments that have them."""

import json
from functools import partial

import numpy as np
import pytest

from experiments import bit_lm, variable_computation
from lrpt.cli.command import main
from lrpt.cli.finished.schedule_numbers import read_schedule
from lrpt.networks.recurrent import Recurrent, cell_params, initial_carry
from lrpt.recurrence import recur
from lrpt.trained.loading import load

pytestmark = pytest.mark.slow

FEW = (
    "--no-compare --model.sharpness 0.5 --model.sharpness-growth 0 --model.size 5 --model.embedding 5 --devices 1 "
    "--train.updates 2 --train.batch-size 2 --train.evaluation-batch 2"
)
TEXT = "the cat sat on a mat. " * 12


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bits")
    (folder / "text").write_text(TEXT)
    flags = ["--data.file", str(folder / "text"), "--data.steps", "6", "--workdir", str(folder / "run")]
    main(bit_lm.EXPERIMENT, [*FEW.split(), *flags])
    return folder / "run"


def test_the_result_says_how_much_was_computed(run):
    found = json.loads((run / "result.json").read_text())["metrics"]["test"]
    assert {"proportion", "active", "multiplications", "equivalent_size", "paper_equivalent_size", "agreement"} <= found.keys()
    assert found["equivalent_size"] == pytest.approx(np.sqrt(found["multiplications"] / 2))


def test_the_schedule_is_that_of_the_whole_text_in_one_go(run):
    """Windows carry the state: the same as one loop over everything."""
    trained = load(run)
    read = read_schedule(trained, "valid", 40)
    params = trained.variables["params"]
    network = Recurrent(trained.config.model, 5)
    cell = cell_params(params["recurrent"], network, trained.variables["settings"]["recurrent"])
    assert cell.sharpness == pytest.approx(0.5), "that of the flags, and not the default"
    xs = params["embedding"]["table"][read.symbols][:, None]
    _, (_, info) = recur(network.cell.step, cell, initial_carry(params["recurrent"], network, 1), xs, outputs="info")
    np.testing.assert_allclose(read.proportions, info.proportion, rtol=1e-5)
    byte = np.frombuffer(TEXT.encode(), np.uint8)
    assert read.symbols.shape == (40,)
    assert read.proportions.shape == (40, 1)
    assert "".join(map(str, read.symbols[1:])) in "".join(map(str, np.unpackbits(byte)))


def test_the_last_state_is_where_training_stopped(run, tmp_path):
    words = (
        f"--data.file {run.parent / 'text'} --data.steps 6 --train.evaluate-every 1 --optim.learning-rate 2 --workdir {tmp_path / 'run'}"
    )
    main(bit_lm.EXPERIMENT, [*FEW.split(), *words.split()])
    best, last = (load(tmp_path / "run", state=state) for state in ("best", "last"))
    assert (best.update, last.update) == (1, 2)
    assert not np.array_equal(best.variables["params"]["embedding"]["table"], last.variables["params"]["embedding"]["table"])


@pytest.mark.parametrize(
    ("command", "files", "says"),
    [
        (
            "schedule --length 60 --shown 20 --lags 1 8",
            ["schedule.npz", "figures/schedule.png"],
            ["autocorrelation of m", "of the bits read", "mean m", "its place among 8"],
        ),
        ("schedule --state last --length 60 --shown 20", ["schedule.npz"], ["mean m"]),
        ("hard", ["hard.json"], ["soft", "hard", "same symbol"]),
        ("timing --steps 6 --rounds 1 --proportions 0.5 1", ["timing.json", "figures/timing.png"], ["blocks, as trained", "hard"]),
    ],
)
def test_every_command_says_and_writes(command, files, says, run, capsys):
    name, *flags = command.split()
    main(bit_lm.EXPERIMENT, [name, str(run), *flags])
    said = " ".join(capsys.readouterr().out.split())
    assert all(words in said for words in says)
    assert all((run / file).exists() for file in files)


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("schedule --split dev", "split is 'dev': choose from train, valid, test"),
        ("schedule --length 20 --skip 20", "skip is 20, and 20 steps were read"),
        ("schedule --length 0", "length is 0: expected 1 or more"),
        ("schedule --components -1", "components is -1: expected 0 or more"),
        ("timing --proportions 0.0", "proportions is 0.0: expected shares above 0"),
    ],
)
def test_bad_flags(command, message, run, assert_refused):
    name, *flags = command.split()
    assert_refused(partial(main, bit_lm.EXPERIMENT), [name, run, *flags], message)


def test_runs_without_a_scheduler_are_refused(tmp_path, little_data, assert_refused):
    words = ["--preset", "small-rnn", *FEW.split(), "--data.steps", "4", "--workdir", str(tmp_path)]
    main(variable_computation.EXPERIMENT, words)
    command = partial(main, variable_computation.EXPERIMENT)
    assert_refused(command, ["schedule", tmp_path], "holds a run of RNN 5, which has no scheduler")


@pytest.mark.slow
def test_two_updates_of_gated_units(tmp_path, little_data):
    """Other presets differ from this one and those above in size and cell alone."""
    words = ["--preset", "text8-vcgru-0.4", *FEW.split(), "--data.steps", "4", "--workdir", str(tmp_path)]
    main(variable_computation.EXPERIMENT, words)
    assert json.loads((tmp_path / "result.json").read_text())["updates"] == 2
