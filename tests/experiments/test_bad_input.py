"""Wrong use, through the real entry point: one clear line on standard error, a status that is not zero, and earlier results as they were.

`{run}` is a finished run, `{part}` one that was stopped after the checkpoint of update 8, `{start}` its parameters as named arrays,
`{mnist}` an empty directory for data, and `{tmp}` a directory where nothing is.
"""

import errno
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.error import URLError

import jax
import numpy as np
import pytest
from tiny import CONFIG, changed, flags, numbers, tree

from experiments import adding, copy_memory, permuted_mnist
from lrpt.data import mnist
from lrpt.models import SequenceModel
from lrpt.named_arrays import to_named
from lrpt.training.command import main
from lrpt.training.step import init_state

EXPERIMENTS = {module.EXPERIMENT.name: module.EXPERIMENT for module in (adding, copy_memory, permuted_mnist)}
TINY = " ".join([*flags(), "--devices", "1"])
HERE = f"{TINY} --workdir {{tmp}}/new"
STEEP = f"{HERE} --optim.recipe adam --optim.learning-rate 1e30"
MNIST = "--preset paper --data.dir {mnist} --workdir {tmp}/new"
INTACT = "what was written before is intact, and the same command resumes from it"


class Case(NamedTuple):
    """A command line, what the line must contain, and what was done to the files before."""

    argv: str
    says: tuple[str, ...]
    status: int = 2
    experiment: str = "copy_memory"
    harm: Callable[[dict[str, Path]], None] | None = None
    limit: int | None = None
    """bytes that a file may have at most: the disk is full"""
    resumes: bool = False
    """without what was wrong, the run in {part} ends with the numbers of an uninterrupted one"""


def write(place: str, name: str, content: bytes) -> Any:
    """A harm: another content for a file."""
    return lambda places: (places[place] / name).write_bytes(content)


def edit(place: str, name: str, function: Callable[[bytes], bytes]) -> Any:
    """A harm: a content changed."""

    def act(places: dict[str, Path]) -> None:
        path = places[place] / name
        path.write_bytes(function(path.read_bytes()))

    return act


def start(change: Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]]) -> Any:
    """A harm: other arrays in the start file."""

    def act(places: dict[str, Path]) -> None:
        arrays = dict(np.load(places["start"]))
        np.savez(places["start"], **change(arrays))

    return act


def damage_all_checkpoints(places: dict[str, Path]) -> None:
    for file in (places["part"] / "checkpoints").glob("*/state/d/*"):
        file.write_bytes(file.read_bytes()[:-1])


def file_for_workdir(places: dict[str, Path]) -> None:
    (places["tmp"] / "file").write_text("mine")


def lengthen_metrics(places: dict[str, Path]) -> None:
    """So that no other file is as long; the lines are before the checkpoint, and stay."""
    path = places["part"] / "metrics.jsonl"
    path.write_text(path.read_text() * 20)


def wrong_file(name: str) -> Any:
    return write("mnist", name, b"<html>404 not found</html>")


TABLE = [
    # What is no flag, or no value.
    Case("--model.sise 4", ("--model.sise", "perhaps you meant --model.size", "--help")),
    Case("--modle.size=4", ("--modle.size", "--help")),
    Case("--verbose", ("--verbose", "--help")),
    Case("lrd", ("Unrecognized", "lrd")),
    Case("--model.size", ("--model.size", "Missing value")),
    Case("--preset", ("--preset", "Missing value")),
    Case("--workdir ''", ("''", "is empty", "leave the flag out")),
    Case("--workdir=", ("--workdir=", "is empty", "leave the flag out")),
    Case("--model.size many", ("--model.size", "'many'")),
    Case("--model.size 4.5", ("--model.size", "'4.5'")),
    Case("--optim.learning-rate fast", ("--optim.learning-rate", "'fast'")),
    Case("--model.tied maybe", ("maybe",)),
    # What is none of the names.
    Case("--preset huge", ("'huge'", "quick", "paper-variable-lag")),
    Case("--preset=", ("--preset=", "is empty")),
    Case("--model.cell lstmm", ("model.cell is 'lstmm'", "choose from gru, ")),
    Case("--model.parametrization dens", ("'dens'", "choose from dense, low_rank, ")),
    Case("--model.input-parametrization thin", ("'thin'", "choose from dense, low_rank, ")),
    Case("--model.recurrence quick", ("model.recurrence is 'quick'", "choose from", "plain")),
    Case("--optim.recipe adamm", ("optim.recipe is 'adamm'", "choose from", "adam")),
    Case("--train.order sorted", ("train.order is 'sorted'", "choose from epochs, ")),
    Case("--data.variant long", ("data.variant is 'long'", "choose from fixed, ")),
    Case("--data.test-markers all", ("data.test_markers is 'all'", "choose from halves, "), experiment="adding"),
    Case("--data.source cifar", ("data.source is 'cifar'", "choose from digits, mnist"), experiment="permuted_mnist"),
    # Numbers out of range.
    Case("--model.size 0", ("model.size is 0", "at least one")),
    Case("--model.size -3", ("model.size is -3", "at least one")),
    Case("--model.rank 0", ("rank 0", "64 x 64", "choose one from 1 to 64")),
    Case("--model.rank -2", ("rank -2", "choose one from 1 to 64")),
    Case("--model.rank 65", ("rank 65", "64 x 64", "choose one from 1 to 64")),
    Case("--model.rank 65", ("rank 65", "choose one from 1 to 64"), experiment="permuted_mnist"),
    Case("--model.input-parametrization low_rank --model.input-rank 11", ("rank 11", "10 x 64", "choose one from 1 to 10")),
    Case("--model.input-parametrization low_rank_plus_diagonal", ("square", "10 x 64", "choose low_rank or dense")),
    Case("--model.carry-bias nan", ("model.carry_bias is nan", "finite")),
    Case("--train.updates 0", ("train.updates is 0", "1 or more")),
    Case("--train.batch-size 0", ("train.batch_size is 0", "1 or more")),
    Case("--train.batch-size 51 --data.train-size 50", ("train.batch_size is 51", "50 training examples", "choose 1 to 50")),
    Case("--train.evaluate-every 0", ("train.evaluate_every is 0", "1 or more")),
    Case("--train.evaluation-batch -1", ("train.evaluation_batch is -1", "1 or more")),
    Case("--train.updates-per-call 0", ("train.updates_per_call is 0", "1 or more")),
    Case("--train.stop-below 0", ("train.stop_below is 0.0", "above 0")),
    Case("--train.stop-below nan", ("train.stop_below is nan", "above 0")),
    Case("--seed -1", ("seed is -1", "expected 0 to")),
    Case("--seed 4294967297", ("seed is 4294967297", "expected 0 to")),
    Case("--seeds 0", ("seeds is 0", "1 or more")),
    Case("--devices 0", ("devices is 0", "1 or more")),
    Case("--devices 3", ("devices is 3", "train.batch_size, 20", "choose another")),
    Case("--devices 5", ("devices is 5", "4 cpu device(s) were found", "choose 1 to 4")),
    Case("--devices 5 --seeds 2", ("devices is 5", "4 cpu device(s) were found", "choose 1 to 4")),
    *(
        Case(f"--optim.learning-rate {rate}", (f"optim.learning_rate is {value}", "finite number above 0"))
        for rate, value in {"0": "0.0", "-1": "-1.0", "nan": "nan", "inf": "inf"}.items()
    ),
    Case("--data.lag 0", ("data.lag is 0", "1 or more")),
    Case("--data.train-size 0", ("data.train_size is 0", "1 or more")),
    Case("--data.test-size -5", ("data.test_size is -5", "1 or more")),
    Case("--data.length 1", ("data.length is 1", "2 or more"), experiment="adding"),
    Case("--compare --train.start {start}", ("train.start is", "start.npz", "--no-compare")),
    Case(f"{HERE} --data.train-size 99999999999", ("out of memory", "Unable to allocate", "choose a smaller"), 1),
    # Data.
    Case(MNIST, ("missing data: 4 of 4 files", "train-images-idx3-ubyte.gz", "sha256", "--data.dir"), 1, "permuted_mnist"),
    Case(MNIST, ("train-images-idx3-ubyte.gz", "sha256", "expected 440fcabf"), 1, "permuted_mnist", wrong_file(mnist.FILES[0].name)),
    Case(MNIST, ("t10k-labels-idx1-ubyte.gz", "sha256", "expected f7ae60f9"), 1, "permuted_mnist", wrong_file(mnist.FILES[3].name)),
    Case("--preset paper --data.dir {start}", ("data.dir is", "is a file", "name the directory"), 2, "permuted_mnist"),
    # Where to write.
    Case(f"{TINY} --workdir {{tmp}}/file", ("/file cannot be written", "--workdir"), 1, harm=file_for_workdir),
    Case(f"{TINY} --workdir {{tmp}}/file/below", ("/file/below cannot be written", "--workdir"), 1, harm=file_for_workdir),
    Case(f"{TINY} --workdir /proc/lrpt", ("/proc/lrpt cannot be written", "--workdir"), 1),
    Case(HERE, ("/new cannot be written (File too large)", "--workdir"), 1, limit=300),
    Case(f"{TINY} --workdir {{part}}", ("/part cannot be written (File too large)", "--workdir"), 1, limit=300, resumes=True),
    Case(f"{TINY} --workdir {{part}}", ("File too large", INTACT), 1, harm=lengthen_metrics, limit=13_000),
    Case(
        f"{TINY} --workdir {{part}}",
        ("the checkpoint of update 11 could not be written to", "File too large", INTACT),
        1,
        limit=20_000,
        resumes=True,
    ),
    # What is there already.
    Case(f"{TINY} --workdir {{run}} --model.rank 1", ("{run} holds a run with model.rank = 2, not 1", "--workdir")),
    Case(f"{TINY} --workdir {{part}} --optim.learning-rate 0.1", ("{part} holds a run with optim.learning_rate = 0.01, not 0.1",)),
    Case(f"{TINY} --workdir {{run}} --seed 1", ("{run} holds a run with seed = 0, not 1", "--workdir")),
    Case("--workdir {run}", ("{run} holds a run with", "repeat its flags to resume it"), experiment="adding"),
    Case("--workdir {run} --no-compare", ("{run} holds a run with", "not permuted_mnist"), experiment="permuted_mnist"),
    Case(f"{TINY} --workdir {{run}}", ("{run}/config.json is damaged", "remove it"), 1, harm=write("run", "config.json", b'{"model":')),
    Case(f"{TINY} --workdir {{run}}", ("{run}/result.json is damaged", "remove it"), 1, harm=write("run", "result.json", b"\x00" * 99)),
    Case(f"{TINY} --workdir {{run}}", ("{run}/result.json is damaged", "remove it"), 1, harm=write("run", "result.json", b"{}")),
    Case(
        f"{TINY} --workdir {{part}}",
        ("every checkpoint in {part}/checkpoints is damaged", "remove that directory", "--workdir"),
        1,
        harm=damage_all_checkpoints,
    ),
    # Where to start.
    Case(f"{HERE} --train.start {{tmp}}/none.npz", ("/none.npz cannot be read", "numpy.savez"), 1),
    Case(f"{HERE} --train.start {{start}}", ("start.npz is damaged", "numpy.savez"), 1, harm=write("", "start", b"no archive")),
    Case(f"{HERE} --train.start {{start}}", ("start.npz is damaged",), 1, harm=edit("", "start", lambda whole: whole[: len(whole) // 2])),
    Case(
        f"{HERE} --train.start {{start}}",
        ("'readout/bias' has shape (3,)", "(10,)", "change the model"),
        harm=start(lambda arrays: arrays | {"readout/bias": np.zeros(3, np.float32)}),
    ),
    Case(
        f"{HERE} --train.start {{start}}",
        ("'readout/bias'", "not finite"),
        harm=start(lambda arrays: arrays | {"readout/bias": np.full(10, np.nan, np.float32)}),
    ),
    Case(
        f"{HERE} --train.start {{start}}",
        ("'readout/bias'", "is missing"),
        harm=start(lambda arrays: {name: array for name, array in arrays.items() if name != "readout/bias"}),
    ),
    # What goes wrong on the way.
    Case(STEEP, ("training loss is nan at update 2", "no checkpoint was due yet", "--optim.learning-rate"), 1),
]


def label(case: Case) -> str:
    shown = case.argv.replace(TINY, "TINY").replace("{", "").replace("}", "")
    return f"{case.experiment} {shown} {case.says[0]}"


@contextmanager
def full_disk(limit: int | None):
    """No file can grow beyond `limit` bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    if limit is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.fixture(scope="module")
def originals(tmp_path_factory):
    """A finished run, one that was stopped, and the parameters it started from."""
    root = tmp_path_factory.mktemp("originals")
    for name in ("run", "part"):
        main(EXPERIMENTS["copy_memory"], [*TINY.split(), "--workdir", str(root / name)])
    (root / "part" / "result.json").unlink()
    shutil.rmtree(root / "part" / "checkpoints" / "11")
    task = CONFIG.data.build(0)
    model = SequenceModel(CONFIG.model, task.input_size, task.output_size, task.reads)
    np.savez(root / "start.npz", **to_named(jax.device_get(init_state(model, task, CONFIG.optim.build(), 0).params)))
    return root


@pytest.fixture
def places(originals, tmp_path, monkeypatch):
    """Everything that a command may find; it runs in a directory of its own, without a network."""
    for name in ("tmp", "mnist", "here"):
        (tmp_path / name).mkdir()
    for name in ("run", "part"):
        shutil.copytree(originals / name, tmp_path / name)
    shutil.copy(originals / "start.npz", tmp_path / "start.npz")
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("lrpt.data.sources.urlopen", offline)
    names = {name: tmp_path / name for name in ("tmp", "mnist", "here", "run", "part")}
    return {**names, "start": tmp_path / "start.npz", "": Start(tmp_path / "start.npz")}


class Start(type(Path())):
    """Makes `places[""] / "start"` the start file."""

    def __truediv__(self, name):
        return Path(self)


def offline(*_: Any, **__: Any):
    raise URLError(OSError(errno.ENETUNREACH, "Network is unreachable"))


def the_line(stderr: str) -> str:
    (line,) = stderr.splitlines()
    assert line.startswith("lrpt: error: ")
    return line


@pytest.mark.parametrize("case", TABLE, ids=label)
def test_wrong_use(case, places, originals, capsys):
    if case.harm:
        case.harm(places)
    before = tree(places["tmp"].parent)
    argv = ["" if word == "''" else word.format_map(places) for word in case.argv.split()]
    with full_disk(case.limit), pytest.raises(SystemExit) as left:
        main(EXPERIMENTS[case.experiment], argv)
    captured = capsys.readouterr()
    line = the_line(captured.err)
    for fragment in case.says:
        assert fragment.format_map(places) in line if fragment.startswith("{") else fragment in line
    assert left.value.code == case.status
    assert "Traceback" not in captured.out
    assert list(places["here"].iterdir()) == []
    after = tree(places["tmp"].parent)
    if case.limit is None:
        assert {name: after.get(name) for name in before} == before
    if case.status == 2:
        assert after == before
    if case.resumes:
        main(EXPERIMENTS["copy_memory"], [*TINY.split(), "--workdir", str(places["part"])])
        assert numbers(places["part"]) == numbers(originals / "run")


def test_the_table_is_long_enough():
    assert len(TABLE) >= 35
    assert len({label(case) for case in TABLE}) == len(TABLE)


def test_a_damaged_newest_checkpoint_is_no_error(places, originals, capsys):
    shutil.rmtree(places["part"])
    shutil.copytree(originals / "run", places["part"])
    (places["part"] / "result.json").unlink()
    (file,) = (places["part"] / "checkpoints" / "11" / "state" / "d").iterdir()
    file.write_bytes(file.read_bytes()[:-1])
    main(EXPERIMENTS["copy_memory"], [*TINY.split(), "--workdir", str(places["part"])])
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"lrpt: warning: the checkpoint of update 11 in {places['part'] / 'checkpoints'} is damaged")
    assert numbers(places["part"]) == numbers(originals / "run")


def test_half_a_line_of_metrics_is_no_error(places, originals, capsys):
    path = places["part"] / "metrics.jsonl"
    path.write_bytes(path.read_bytes()[:-50])
    main(EXPERIMENTS["copy_memory"], [*TINY.split(), "--workdir", str(places["part"])])
    assert capsys.readouterr().err == ""
    assert numbers(places["part"]) == numbers(originals / "run")


def test_one_wrong_model_stops_a_comparison_before_anything_is_trained(tmp_path, capsys):
    """The full GRU of the comparison would take that rank: it has none."""
    with pytest.raises(SystemExit):
        main(EXPERIMENTS["copy_memory"], [*TINY.split(), "--compare", "--model.rank", "5", "--workdir", str(tmp_path / "new")])
    assert "rank 5" in the_line(capsys.readouterr().err)
    assert not (tmp_path / "new").exists()


def test_a_diverged_run_can_start_over_where_it_was(tmp_path, capsys):
    """Nothing was worth keeping before the first checkpoint."""
    where = ["--workdir", str(tmp_path / "new")]
    with pytest.raises(SystemExit):
        main(EXPERIMENTS["copy_memory"], [*TINY.split(), *where, "--optim.recipe", "adam", "--optim.learning-rate", "1e30"])
    capsys.readouterr()
    main(EXPERIMENTS["copy_memory"], [*TINY.split(), *where])
    assert capsys.readouterr().err == ""


def test_the_last_good_checkpoint_of_a_diverged_run_is_named_and_kept(tmp_path, capsys):
    config = changed(optim={"recipe": "adam", "learning_rate": 1e30}, train={"evaluate_every": 1, "updates_per_call": 1})
    with pytest.raises(SystemExit) as left:
        main(EXPERIMENTS["copy_memory"], [*flags(config), "--devices", "1", "--workdir", str(tmp_path / "new")])
    line = the_line(capsys.readouterr().err)
    assert left.value.code == 1
    update = int((tmp_path / "new" / "metrics.jsonl").read_text().count("valid"))
    assert "loss is nan at update" in line
    assert (f"of update {update}, is kept in {tmp_path / 'new' / 'checkpoints'}" in line) == bool(update)


def test_out_of_memory_on_a_device(monkeypatch, tmp_path, capsys):
    def fail(*_: Any, **__: Any):
        raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 99 bytes.\nmore")

    monkeypatch.setattr("lrpt.training.command.fit", fail)
    with pytest.raises(SystemExit) as left:
        main(EXPERIMENTS["copy_memory"], [*TINY.split(), "--workdir", str(tmp_path / "new")])
    assert left.value.code == 1
    assert "out of memory (RESOURCE_EXHAUSTED: Out of memory allocating 99 bytes.): choose a smaller" in the_line(capsys.readouterr().err)


def test_other_failures_of_the_runtime_are_not_hidden(monkeypatch, tmp_path):
    def fail(*_: Any, **__: Any):
        raise jax.errors.JaxRuntimeError("INTERNAL: a bug")

    monkeypatch.setattr("lrpt.training.command.fit", fail)
    with pytest.raises(jax.errors.JaxRuntimeError):
        main(EXPERIMENTS["copy_memory"], [*TINY.split(), "--workdir", str(tmp_path / "new")])


class Program(NamedTuple):
    """A command in a process of its own."""

    argv: str
    status: int
    says: str | None
    environment: dict[str, str] = {}


PROGRAMS = [
    Program("experiments.copy_memory --model.sise 4", 2, "perhaps you meant --model.size", {"PYTHONIOENCODING": "ascii"}),
    Program("experiments.adding --model.rank 65 --workdir {tmp}/new", 2, "rank 65"),
    Program(f"experiments.copy_memory {TINY} --workdir {{tmp}}/file/below", 1, "/file/below cannot be written"),
    Program("experiments.adding --help", 0, None),
]


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """All of them at once: starting is what takes time."""
    root = tmp_path_factory.mktemp("programs")
    (root / "file").write_text("")
    running = [
        subprocess.Popen(
            [sys.executable, "-m", *program.argv.replace("{tmp}", str(root)).split()],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=root,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), **program.environment},
        )
        for program in PROGRAMS
    ]
    return [(process.communicate(timeout=200), process.returncode) for process in running], root


@pytest.mark.parametrize("number", range(len(PROGRAMS)), ids=[program.argv[:60] for program in PROGRAMS])
def test_in_a_process_of_its_own(programs, number):
    (stdout, stderr), status = programs[0][number]
    assert status == PROGRAMS[number].status
    says = PROGRAMS[number].says
    if says is None:
        assert stderr == ""
        assert "usage: python -m experiments.adding" in stdout
    else:
        assert says in the_line(stderr)
    assert [path.name for path in programs[1].iterdir()] == ["file"]


def test_a_reader_that_goes_away_is_no_traceback(tmp_path):
    """As `python -m experiments.copy_memory | head -1`: a line, and then nobody listens."""
    argv = [*flags(changed(train={"updates": 300, "evaluate_every": 3})), "--workdir", str(tmp_path / "new")]
    with subprocess.Popen(
        [sys.executable, "-m", "experiments.copy_memory", *argv],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert "update 3/300" in process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait() == 1
    assert list((tmp_path / "new" / "checkpoints").iterdir())
