"""Whatever is wrong with a command is said in one line that names the value and what to do, and nothing that was computed is lost."""

import json
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import tiny

from experiments import adding, copy_memory, permuted_mnist
from lrpt.cli.command import main

COMMANDS = {module.EXPERIMENT.name: partial(main, module.EXPERIMENT) for module in (adding, copy_memory, permuted_mnist)}

train = COMMANDS["copy_memory"]

# A command line -> what its one line must hold. Flags are of the quick presets.
FLAGS = {
    "copy_memory --modle.size 4": ["--modle.size", "perhaps you meant --model.size"],
    "copy_memory --model.sise 4": ["--model.sise", "--help"],
    "copy_memory --model.size": ["--model.size", "value"],
    "copy_memory --model.size many": ["--model.size", "many"],
    "copy_memory --model.size 4.5": ["--model.size", "4.5"],
    "copy_memory --preset nope": ["nope", "paper-variable-lag"],
    "copy_memory --preset=nope": ["nope", "quick"],
    "copy_memory --preset": ["--preset", "value"],
    "copy_memory extra": ["extra"],
    "copy_memory --model.cell lstmm": ["lstmm", "choose from lstm, ", "(the closest of "],
    "copy_memory --model.cell lstmm --model.tie-embedding": ["lstmm", "choose from lstm, ", "(the closest of "],
    "copy_memory --model.parametrization dens": ["'dens'", "choose from dense, "],
    "copy_memory --model.input-parametrization low_rank_plus_diagonal": ["low_rank_plus_diagonal", "square", "choose"],
    "copy_memory --model.recurrence quick": ["quick", "checkpoint"],
    "copy_memory --model.tied maybe": ["maybe"],
    "copy_memory --model.carry-bias nan": ["carry_bias", "nan", "finite"],
    "copy_memory --optim.recipe adamm": ["adamm", "choose from adam, "],
    "copy_memory --train.order sorted": ["sorted", "reshuffle"],
    "copy_memory --data.variant long": ["long", "variable_length"],
    "copy_memory --data.lag 0": ["data.lag is 0", "1 or more"],
    "permuted_mnist --data.source cifar": ["cifar", "digits"],
    "copy_memory --model.rank 0": ["rank 0", "1 to 64"],
    "copy_memory --model.rank -1": ["rank -1", "1 to 64"],
    "copy_memory --model.rank 65": ["rank 65", "1 to 64"],
    "copy_memory --model.input-parametrization low_rank --model.input-rank 11": ["rank 11", "1 to 10"],
    "adding --model.size 0": ["model.size is 0", "1 or more"],
    "adding --model.size -3": ["model.size is -3"],
    "adding --model.depth 2": ["model.depth is 2", "expected 1 for gru"],
    "adding --model.chunk 0": ["model.loop.chunk is 0", "1 or more"],
    "adding --model.store some": ["model.loop.store is 'some'", "boundaries"],
    "adding --model.pack some": ["model.loop.pack is 'some'", "never"],
    "adding --model.materialize maybe": ["model.loop.materialize is 'maybe'", "never"],
    "adding --model.recurrence kernel": ["model.loop.kind is kernel", "NVIDIA GPU", "choose fast"],
    "adding --vary": ["vary is ''", "model.rank=8,24"],
    "adding --vary --seed 1": ["vary is ''", "model.rank=8,24"],
    "adding --vary model.rank": ["vary is 'model.rank'", "model.rank=8,24"],
    "adding --vary model.rank=8,,9": ["vary is 'model.rank=8,,9'"],
    "adding --vary model.rank=8 model.rank=9": ["vary is 'model.rank=8 model.rank=9'", "once"],
    "adding --vary data.length=30,30": ["vary is 'data.length=30,30'", "once"],
    "adding --vary model.tied=maybe,True": ["maybe"],
    "adding --vary seeds=1,2": ["vary is 'seeds=1,2'", "model, optim, train or data"],
    "adding --vary model.rank=8,many": ["many"],
    "adding --train.updates 0": ["train.updates is 0", "1 or more"],
    "adding --train.evaluate-every 0": ["train.evaluate_every is 0"],
    "adding --train.updates-per-call -5": ["train.updates_per_call is -5"],
    "adding --train.evaluation-batch 0": ["train.evaluation_batch is 0"],
    "adding --train.batch-size 0": ["train.batch_size is 0"],
    "adding --train.batch-size 100 --data.train-size 50": ["train.batch_size is 100", "1 to 50"],
    "adding --train.checkpoint-minutes 0": ["train.checkpoint_minutes is 0", "above 0"],
    "adding --train.stop-below 0": ["train.stop_below is 0", "above 0"],
    "adding --train.stop-below nan": ["train.stop_below is nan"],
    "adding --seed -1": ["seed is -1", "0"],
    "adding --seed 4294967296": ["seed is 4294967296"],
    "adding --seeds 0": ["seeds is 0", "1 or more"],
    "adding --devices 0": ["devices is 0", "1 or more"],
    "adding --devices 3": ["devices is 3", "train.batch_size, 20"],
    "adding --optim.learning-rate 0": ["learning_rate is 0", "above 0"],
    "adding --optim.learning-rate -1": ["learning_rate is -1"],
    "adding --optim.learning-rate nan": ["learning_rate is nan", "finite"],
    "adding --optim.learning-rate inf": ["learning_rate is inf"],
    "adding --data.length 1": ["data.length is 1", "2 or more"],
    "adding --data.train-size 0": ["data.train_size is 0"],
    "adding --data.test-size -1": ["data.test_size is -1"],
    "adding --data.test-markers everywhere": ["everywhere", "halves"],
}


@pytest.mark.parametrize("command", FLAGS)
def test_a_wrong_flag(command, assert_refused, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("lrpt.devices.hardware.on_hopper", lambda: False)
    experiment, *arguments = command.split()
    assert_refused(COMMANDS[experiment], arguments, *FLAGS[command])
    assert not list(tmp_path.iterdir())


def test_a_wrong_flag_from_a_shell(tmp_path):
    command = [sys.executable, "-m", "experiments.adding", "--model.rank", "65", "--workdir", str(tmp_path / "run")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[2])
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines() == [done.stderr.strip()]
    assert "rank 65" in done.stderr
    assert not (tmp_path / "run").exists()


def words(path, config=tiny.CONFIG):
    return [*tiny.flags(config), "--workdir", str(path)]


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A finished run."""
    path = tmp_path_factory.mktemp("finished") / "run"
    train(words(path))
    return path


@pytest.fixture
def run(finished, tmp_path):
    return Path(shutil.copytree(finished, tmp_path / "run"))


OTHER_RUNS = {
    "another rank": (["--model.matrices.rank", "1"], ["model.matrices.rank = 2, not 1", "--workdir"]),
    "another seed": (["--seed", "5"], ["seed = 0, not 5", "--workdir"]),
    "another learning rate": (["--optim.learning-rate", "0.5"], ["optim.learning_rate = 0.01, not 0.5"]),
    "another task": (["--data.lag", "4"], ["data.lag = 3, not 4"]),
    "a rank that no matrix has": (["--model.matrices.rank", "0"], ["rank 0", "1 to 4"]),
    "blocks that do not divide": (["--model.matrices.kind", "monarch", "--model.matrices.blocks", "3"], ["blocks 3 do not divide"]),
    "a batch that is too large": (["--train.batch-size", "51"], ["train.batch_size is 51", "1 to 50"]),
    "no start file": (["--train.start", "nothere.npz"], ["parameter file nothere.npz cannot be read"]),
}


@pytest.mark.slow
@pytest.mark.parametrize("other", OTHER_RUNS)
def test_a_directory_that_holds_another_run(other, run, assert_refused):
    more, says = OTHER_RUNS[other]
    before = tiny.tree(run)
    assert_refused(train, [*words(run), *more], *says, warned="monarch" in more)  # of --model.rank
    assert tiny.tree(run) == before


@pytest.mark.slow
def test_a_directory_that_holds_another_experiment(run, assert_refused):
    assert_refused(COMMANDS["adding"], ["--workdir", run], "experiment = copy_memory, not adding")


@pytest.mark.parametrize("name", ["config.json", "result.json"])
@pytest.mark.parametrize("content", ["{", "[1, 2]"])
def test_damaged_json(name, content, run, assert_refused):
    (run / name).write_text(content)
    assert_refused(train, words(run), name, "remove it" if name == "result.json" else "restore it", code=1)


def test_every_checkpoint_damaged(run, assert_refused):
    (run / "result.json").unlink()
    for file in (run / "checkpoints").rglob("*"):
        if file.is_file():
            file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    before = tiny.tree(run)
    assert_refused(train, words(run), "every checkpoint", "--workdir", code=1, warned=True)
    assert tiny.tree(run) == before


@pytest.mark.parametrize("path", ["file", "file/below", "/proc/lrpt"])
def test_a_work_directory_that_cannot_be_written(path, tmp_path, assert_refused):
    (tmp_path / "file").write_text("kept")
    assert_refused(train, words(tmp_path / path), "--workdir", code=1)
    assert (tmp_path / "file").read_text() == "kept"


@pytest.mark.slow
def test_a_full_disk(tmp_path):
    """From the first evaluation on no file may grow beyond a few hundred bytes: the checkpoint after it cannot be written."""
    program = (
        "import resource, sys; from experiments.copy_memory import EXPERIMENT; from lrpt.cli.command import main; "
        "from lrpt.runs.run_directory import RunDirectory as D; append = D.append_metrics; limit = resource.RLIMIT_FSIZE; "
        "D.append_metrics = lambda *arguments: (resource.setrlimit(limit, (2000, 2000)), append(*arguments)); "
        "main(EXPERIMENT, sys.argv[1:])"
    )
    command = [sys.executable, "-c", program, *tiny.command(tmp_path / "run", tiny.EVEN)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[2])
    assert done.returncode == 1, done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    assert "checkpoint of update 4 could not be written" in done.stderr
    assert len(tiny.lines(tmp_path / "run")) == 2


@pytest.mark.slow
@pytest.mark.parametrize(("rate", "loss"), [(1e38, "nan"), (1e12, "e+")])
def test_a_loss_that_is_not_finite_or_as_good_as_that(tmp_path, assert_refused, rate, loss):
    config = tiny.changed(optim={"recipe": "adam", "learning_rate": rate})
    assert_refused(train, words(tmp_path / "run", config), "loss is ", loss, "at update", "--optim.learning-rate", code=1)


def of_images(flags):
    COMMANDS["permuted_mnist"](["--preset", "paper", *flags])


def test_missing_images(tmp_path, assert_refused, monkeypatch):
    def no_network(*arguments, **keywords):
        raise OSError("no network in tests")

    monkeypatch.setattr("urllib.request.urlopen", no_network)
    says = (
        "4 of 4 files",
        str(tmp_path),
        "--data.dir",
        "train-images-idx3-ubyte.gz and 3 others",
        "`python -m lrpt.datasets mnist` prints",
    )
    assert_refused(of_images, ["--data.dir", tmp_path, "--workdir", tmp_path / "run"], *says, code=1)
    assert not (tmp_path / "run").exists()


def test_images_of_a_wrong_checksum(tmp_path, assert_refused):
    for name in ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1"):
        (tmp_path / f"{name}-ubyte.gz").write_bytes(b"not an image")
    assert_refused(of_images, ["--data.dir", tmp_path], "-ubyte.gz is damaged, incomplete or another file", code=1)


STARTS = {
    "missing": (None, "cannot be read"),
    "no archive": (b"PK\x03\x04 and no more", "is damaged or no .npz"),
    "an array missing": ({}, "is missing"),
    "a wrong shape": ({"readout/bias": np.zeros(3, np.float32)}, "shape (3,)"),
    "nan": ({"readout/bias": np.full(10, np.nan, np.float32)}, "not finite"),
    "an array too many": ({"readout/scale": np.zeros(3, np.float32)}, "readout/scale"),
}


@pytest.mark.slow
@pytest.mark.parametrize("start", STARTS)
def test_start_parameters_that_do_not_fit(start, tmp_path, assert_refused):
    content, says = STARTS[start]
    path = tmp_path / "start.npz"
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif content is not None:
        good = tiny.named_start() if content else {}
        np.savez(path, **(good | content))
    assert_refused(train, [*words(tmp_path / "run"), "--train.start", path], says, code=2)
    assert not (tmp_path / "run" / "result.json").exists()


def test_a_half_written_line_of_metrics_costs_nothing(finished, run):
    """As a crash leaves it: no result yet, and the last line cut short."""
    (run / "result.json").unlink()
    metrics = run / "metrics.jsonl"
    metrics.write_text(metrics.read_text() + '{"update": 11, "spl')
    train(words(run))
    assert tiny.numbers(run) == tiny.numbers(finished)


def test_a_damaged_newest_checkpoint_costs_one_warning(finished, run, capfd):
    (run / "result.json").unlink()
    newest = max((run / "checkpoints").iterdir(), key=lambda path: int(path.name) if path.name.isdigit() else -1)
    victim = max((file for file in newest.rglob("*") if file.is_file()), key=lambda file: file.stat().st_size)
    content = bytearray(victim.read_bytes())
    content[len(content) // 2] ^= 1
    victim.write_bytes(bytes(content))
    train(words(run))
    assert capfd.readouterr().err.count("lrpt: warning: ") == 1
    assert tiny.numbers(run) == tiny.numbers(finished)


def test_a_finished_run_says_so_and_stays_as_it_is(run, capfd):
    before = tiny.tree(run)
    train(words(run))
    assert "finished already" in capfd.readouterr().out
    assert tiny.tree(run) == before
    assert json.loads(before["result.json"])["updates"] == 11
