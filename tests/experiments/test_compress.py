"""The command that compresses a run: figures that can be checked, a file and a command that train further, and one line where it cannot."""

import json
import shlex
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import jax
import numpy as np
import pytest
import tiny

from experiments.compress import _further, main
from lrpt.cli.command import main as train
from lrpt.networks.sequence_model import ModelConfig, SequenceModel
from lrpt.optim import OptimConfig
from lrpt.runs.named_arrays import load
from lrpt.tasks import CopyMemory
from lrpt.training.config import RunConfig, TrainConfig
from lrpt.training.loop import fit

pytestmark = pytest.mark.slow

DENSE = tiny.changed(model={"parametrization": "dense"})
CELL = {"weight_ih_l0": (12, 3), "weight_hh_l0": (12, 4), "bias_ih_l0": (12,), "bias_hh_l0": (12,)}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A finished run with full matrices."""
    path = tmp_path_factory.mktemp("finished") / "run"
    train(tiny.EXPERIMENT, [*tiny.flags(DENSE), "--workdir", str(path)])
    return path


@pytest.fixture
def run(finished, tmp_path):
    return Path(shutil.copytree(finished, tmp_path / "run"))


def report(capsys, *arguments):
    """What the command says as JSON, and nothing else."""
    capsys.readouterr()
    main([*map(str, arguments), "--json"])
    return json.loads(capsys.readouterr().out)


def test_figures(run, capsys):
    before = tiny.tree(run)
    found = report(capsys, run, "--rank", 4)
    result = json.loads(before["result.json"])
    assert (found["update"], found["model"]) == (result["best_update"], {"before": "GRU 4", "after": "LRD-GRU 4/4"})
    assert found["parameters"] == {"before": result["parameters"]["true"], "after": result["parameters"]["true"] + 3 * (4 * 4 + 4)}
    assert found["metrics"].keys() == {"test"}
    assert found["metrics"]["test"]["before"] == pytest.approx(result["metrics"]["test"], rel=1e-5)
    assert found["metrics"]["test"]["after"] == pytest.approx(result["metrics"]["test"], rel=1e-4)
    assert [matrix["matrix"] for matrix in found["matrices"]] == ["recurrent/update", "recurrent/reset", "recurrent/candidate"]
    assert all(matrix["residual"] < 1e-5 and matrix["output_error"] < 1e-5 for matrix in found["matrices"])
    assert tiny.tree(run) == before


def test_a_run_with_an_embedding(tmp_path, capsys):
    """Errors are weighed by the states of the network that was trained, whose cell reads vectors of another width than the task's."""
    path = tmp_path / "run"
    train(tiny.EXPERIMENT, [*tiny.flags(tiny.changed(DENSE, model={"embedding": 7})), "--workdir", str(path)])
    found = report(capsys, path, "--rank", 4)
    assert all(matrix["output_error"] < 1e-5 for matrix in found["matrices"])
    assert found["metrics"]["test"]["after"] == pytest.approx(found["metrics"]["test"]["before"], rel=1e-4)


def test_the_command_imports_what_was_imported(run, tmp_path, monkeypatch, capsys):
    (tmp_path / "module_of_mine.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    found = report(capsys, run, "--rank", 2, "--examples", 0, "--import", "module_of_mine")
    assert shlex.split(found["command"])[3:5] == ["--import", "module_of_mine"]


def test_a_run_of_a_program_of_the_user(tmp_path, capsys):
    """It has no command of experiments: the configuration is printed instead."""
    config = RunConfig(
        ModelConfig("lstm", size=4, rank=3), OptimConfig("adam"), TrainConfig(updates=1, evaluate_every=1), CopyMemory(lag=2)
    )
    fit(config, {0: tmp_path / "run"})
    found = report(capsys, tmp_path / "run", "--rank", 2)
    assert "command" not in found
    train = eval(found["configuration"])[1]
    assert train.start == Path(found["written"])
    (again,) = fit(replace(config, model=eval(found["configuration"])[0], train=replace(train, updates=1)), {0: tmp_path / "further"})
    assert again["parameters"]["true"] == found["parameters"]["after"]


def test_the_command_trains_the_written_parameters_further(run, capsys):
    found = report(capsys, run, "--error", 0.5, "--tied", "--parametrization", "low_rank", "--examples", 0, "--input-rank", 2)
    program, *arguments = shlex.split(found["command"])[2:]
    assert program == "experiments.copy_memory"
    assert all(matrix["output_error"] is None for matrix in found["matrices"])
    train(tiny.EXPERIMENT, [*arguments, "--train.evaluate-every", "1", "--train.updates", "1", "--optim.learning-rate", "1e-9"])
    output = Path(found["written"]).parent
    assert output.parent == run.parent
    assert output.name == f"run-lr{found['matrices'][0]['rank']}-tied"
    config = json.loads((output / "config.json").read_text())
    before = json.loads((run / "config.json").read_text())
    changed = {"kind": "low_rank", "rank": found["matrices"][0]["rank"], "tied": True}
    inputs = {"kind": "low_rank", "rank": 2}
    stored = {"matrices": before["model"]["matrices"] | changed, "inputs": before["model"]["inputs"] | inputs}
    assert config["model"] == before["model"] | stored
    assert config["data"] == before["data"]
    result = json.loads((output / "result.json").read_text())
    assert result["metrics"]["test"] == pytest.approx(found["metrics"]["test"]["after"], rel=1e-3)
    assert result["parameters"]["true"] == found["parameters"]["after"]


def test_the_command_trains_further_with_the_seed_of_the_run(tmp_path):
    trained = SimpleNamespace(experiment="copy_memory", config=DENSE, preset="quick", seed=3)
    command = _further(trained, SimpleNamespace(config=tiny.CONFIG.model), tmp_path / "start.npz")["command"]
    words = shlex.split(command)
    assert [words[words.index(flag) + 1] for flag in ("--seed", "--workdir")] == ["3", str(tmp_path)]


def test_the_table(run, capsys, tmp_path):
    main([str(run), "--rank", "2", "--output", str(tmp_path / "new" / "start")])
    out = capsys.readouterr().out.splitlines()
    assert out[0].split() == ["matrix", "shape", "rank", "residual", "output", "error", "iterations"]
    assert [line.split()[:5] for line in out[1:4]] == [
        [f"recurrent/{gate}", "4", "x", "4", "2"] for gate in ("update", "reset", "candidate")
    ]
    assert out[4].startswith("GRU 4 -> LRD-GRU 4/2: ")
    assert out[5].startswith("test: loss ")
    assert out[-1].strip().endswith(f"--workdir {tmp_path / 'new' / 'start'}")
    task = DENSE.data.build(0)
    model = SequenceModel(tiny.changed(model={"rank": 2}).model, task.input_size, task.output_size, task.reads)
    batch = task.splits["test"].batch(task.splits["test"].arrays, np.arange(20))
    template = jax.eval_shape(model.init, jax.random.key(0), batch.inputs)["params"]
    params = load(tmp_path / "new" / "start" / "start.npz", template)
    loss = task.metrics(model.apply({"params": params}, batch.inputs), batch)["loss"].mean()
    assert f"-> {loss:.4f}" in out[5]


def test_an_unfinished_run_with_a_damaged_checkpoint(run, capsys):
    (run / "result.json").unlink()
    newest = max((run / "checkpoints").iterdir(), key=lambda path: int(path.name))
    (newest / "seal.json").write_text("{}")
    main([str(run), "--rank", "1", "--examples", "3"])
    captured = capsys.readouterr()
    assert "is damaged" in captured.err
    assert "train it further" in captured.out


def test_a_cell_of_another_library(tmp_path, capsys):
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "cell.npz", **{name: rng.standard_normal(shape) for name, shape in CELL.items()})
    found = report(capsys, "--from", tmp_path / "cell.npz", "--rank", 4)
    assert found["model"] == {"before": "GRU (cuDNN) 4", "after": "LRD-GRU (cuDNN) 4/4"}
    assert found["parameters"] == {"before": 3 * (12 + 16) + 16, "after": 3 * (12 + 32 + 4) + 16}
    assert not found.keys() & {"written", "metrics", "command"}
    found = report(capsys, "--from", tmp_path / "cell.npz", "--rank", 4, "--output", tmp_path / "out")
    with np.load(found["written"]) as stored:
        assert stored["layers_0/cell/recurrent/update/left"].shape == (4, 4)
        assert sum(array.size for array in stored.values()) == found["parameters"]["after"]
    names: dict = {}
    exec(found["python"], names)
    imports = [line for line in found["python"].splitlines() if line.startswith("from lrpt.runs")]
    assert imports == ["from lrpt.runs.named_arrays import load"]
    cell = "Cell('gru_cudnn', 4, MatrixConfig('low_rank_plus_diagonal', rank=4), MatrixConfig('dense'))"
    assert cell in found["python"], "without settings that have their defaults or are not read"
    assert names["ys"].shape == (1, 5, 4)
    with np.load(tmp_path / "out" / "state_dict.npz") as state_dict:
        assert {name: array.shape for name, array in state_dict.items()} == CELL
    assert [Path(path).name for path in found["files"]] == ["cell.npz", "network.py", "network.npz", "state_dict.npz"]


def test_the_state_dict_of_a_cell_of_pytorch_is_written_with_the_names_that_it_had(tmp_path):
    rng = np.random.default_rng(0)
    own = {f"cell.{name.removesuffix('_l0')}": rng.standard_normal(shape) for name, shape in CELL.items()}
    np.savez(tmp_path / "cell.npz", **own)
    main(["--from", str(tmp_path / "cell.npz"), "--rank", "1", "--output", str(tmp_path / "out")])
    with np.load(tmp_path / "out" / "state_dict.npz") as found:
        assert found.keys() == own.keys()
        assert not np.allclose(found["cell.weight_hh"], own["cell.weight_hh"])
        np.testing.assert_allclose(found["cell.weight_ih"], own["cell.weight_ih"], rtol=1e-6)


@pytest.mark.parametrize(("rank", "warned"), [(1, False), (4, True)])
def test_a_network_that_grows_is_said_to(rank, warned, tmp_path, capsys):
    np.savez(tmp_path / "cell.npz", **{name: np.random.default_rng(0).standard_normal(shape) for name, shape in CELL.items()})
    main(["--from", str(tmp_path / "cell.npz"), "--rank", str(rank)])
    assert ("has more parameters than before: choose a lower rank" in capsys.readouterr().err.replace("\n", " ")) is warned


def test_all_layers_and_directions_in_one_call(tmp_path, capsys):
    rng, prefix = np.random.default_rng(0), "encoder."
    shapes = {f"{prefix}{name.replace('l0', end)}": shape for end in ("l0", "l0_reverse") for name, shape in CELL.items()}
    deep = {"weight_ih_l0": (12, 8), **{name: shape for name, shape in CELL.items() if name != "weight_ih_l0"}}
    shapes |= {f"{prefix}{name.replace('l0', end)}": shape for end in ("l1", "l1_reverse") for name, shape in deep.items()}
    arrays = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()} | {"head.weight": np.ones((2, 8))}
    np.savez(tmp_path / "encoder.npz", **arrays)
    found = report(capsys, "--from", tmp_path / "encoder.npz", "--rank", 4, "--output", tmp_path / "out")
    assert {m["matrix"].partition("/")[0] for m in found["matrices"]} == {"l0", "l0_reverse", "l1", "l1_reverse"}
    names: dict = {}
    exec(found["python"], names)
    assert names["ys"].shape == (1, 5, 8)
    with np.load(tmp_path / "out" / "state_dict.npz") as state_dict:
        assert state_dict.keys() == arrays.keys()
        np.testing.assert_array_equal(state_dict["head.weight"], arrays["head.weight"])
        for name in ("encoder.weight_ih_l1", "encoder.weight_hh_l1_reverse"):  # rank 4 of 4 changes nothing
            np.testing.assert_allclose(state_dict[name], arrays[name], atol=1e-5)
    report(capsys, "--from", tmp_path / "encoder.npz", "--rank", 1, "--output", tmp_path / "one", "--layer", "l1_reverse")
    with np.load(tmp_path / "one" / "state_dict.npz") as state_dict:
        changed = {name for name, array in arrays.items() if name.startswith("encoder.weight") and np.any(state_dict[name] != array)}
    assert changed == {"encoder.weight_hh_l1_reverse"}


OF_A_RUN = {
    "--error nan": ["error is nan", "above 0"],
    "--rank 1 --parametrization nope": ["parametrization is 'nope'"],
    "--parametrization monarch --blocks 3": ["blocks 3 do not divide", "the nearest that do"],
    "--parametrization monarch --rank 1": ["rank is 1, and monarch has blocks"],
    "--parametrization monarch --error 0.1": ["monarch takes neither"],
    "--rank 0": ["rank 0", "1 to 4"],
    "--rank 5": ["rank 5", "1 to 4"],
    "--rank many": ["--rank", "many"],
    "--rank": ["--rank"],
    "": ["give one of them, as in"],
    "--rank 1 --error 0.5": ["give one of them, as in"],
    "--error 0": ["error is 0", "above 0"],
    "--error 1.5": ["error is 1.5", "below 1"],
    "--rank 1 --input-rank 11": ["rank 11", "1 to 4"],
    "--rank 1 --parametrization dense": ["dense", "choose from "],
    "--rank 1 --examples -1": ["examples is -1"],
    "--rank 1 --from cell.npz": ["run and --from cell.npz are both given", "choose one"],
    "--rnk 1": ["--rnk", "--rank"],
}


def too_late(*_):
    pytest.fail("the work began before the flags were checked")


@pytest.mark.parametrize("flags", OF_A_RUN)
def test_wrong_flags(flags, finished, assert_refused, monkeypatch):
    """They are refused before the states of training examples are computed, which takes half a minute."""
    monkeypatch.setattr("experiments.compress.moments_of", too_late)
    before = tiny.tree(finished.parent)
    assert_refused(main, [finished, *flags.split()], *OF_A_RUN[flags])
    assert tiny.tree(finished.parent) == before


def test_nothing_to_compress(assert_refused):
    assert_refused(main, ["--rank", "1"], "one run directory, or --from")


RUN = '{"experiment": "custom", "preset": "custom", "seed": 0}'
CLASSES = '"classes": {"model": "lrpt.networks.sequence_model:ModelConfig", "data": "lrpt.tasks.synthetic:CopyMemory"}'
CONFIGS = {
    None: (2, ["config.json cannot be read", "directory of a run"]),
    "{": (1, ["config.json is damaged"]),
    "[1]": (1, ["config.json is damaged"]),
    RUN: (2, ["names no classes", "give them to lrpt.load as model= and data="]),
    RUN.replace("}", f', "model": {{"sise": 4}}, {CLASSES}}}'): (2, ["model.sise is no setting of ModelConfig"]),
    RUN.replace("}", f", {CLASSES}}}"): (2, ["optim.recipe is missing: OptimConfig needs it"]),
}


@pytest.mark.parametrize("content", CONFIGS)
def test_directories_without_a_run(content, tmp_path, assert_refused):
    if content is not None:
        (tmp_path / "config.json").write_text(content)
    code, says = CONFIGS[content]
    assert_refused(main, [tmp_path, "--rank", "1"], *says, code=code)


def test_a_run_without_checkpoints(run, assert_refused):
    shutil.rmtree(run / "checkpoints")
    assert_refused(main, [run, "--rank", "1"], "holds neither a checkpoint nor kept weights")


def test_every_checkpoint_damaged(run, assert_refused):
    for seal in (run / "checkpoints").rglob("seal.json"):
        seal.write_text("{}")
    assert_refused(main, [run, "--rank", "1"], "every checkpoint", "damaged", code=1, warned=True)


def test_an_output_that_holds_a_run(run, assert_refused):
    assert_refused(main, [run, "--rank", "1", "--output", run], f"output is {run}, which holds a run: name a new or an empty directory")


@pytest.mark.parametrize("source", ["run", "file"])
def test_an_output_that_holds_files(source, finished, tmp_path, assert_refused):
    """A second command does not overwrite what the first one has written."""
    np.savez(tmp_path / "cell.npz", **{name: np.ones(shape) for name, shape in CELL.items()})
    words = [*([finished] if source == "run" else ["--from", tmp_path / "cell.npz"]), "--output", tmp_path / "out", "--rank"]
    main([str(word) for word in [*words, 1]])
    before = tiny.tree(tmp_path)
    assert_refused(main, [*words, 2], f"output is {tmp_path / 'out'}, which holds files: name a new or an empty directory")
    assert tiny.tree(tmp_path) == before


def test_an_output_that_cannot_be_written(run, assert_refused):
    (run.parent / "file").write_text("")
    output = run.parent / "file"
    words = [run, "--rank", "1", "--output"]
    assert_refused(main, [*words, output], f"output is {output}, a file: name a directory")
    assert_refused(main, [*words, output / "x"], f"output is {output / 'x'}, below the file {output}: name a directory")
    cell = ["--from", run.parent / "none.npz", *words[1:], output]
    assert_refused(main, cell, f"output is {output}, a file: name a directory")


def denied(*_, dir, **__):
    raise PermissionError(13, f"no file in {dir}")


def test_an_output_below_a_directory_that_may_not_be_written(finished, assert_refused, monkeypatch):
    """Also the default directory. (The administrator may write everywhere, so the answer is made up.)"""
    monkeypatch.setattr("experiments.compress.moments_of", too_late)
    monkeypatch.setattr("tempfile.TemporaryFile", denied)
    for more in ([], ["--output", finished.parent / "a" / "b"]):
        says = f", and {finished.parent} may not be written: make it writable, or name another directory"
        assert_refused(main, [finished, "--rank", "1", *more], says, code=1)


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="no /proc")
def test_an_output_where_not_even_root_can_write(assert_refused):
    assert_refused(main, ["gone", "--rank", "1", "--output", "/proc/x"], "output is /proc/x, and /proc may not be written", code=1)


def test_a_run_where_further_training_would_be(run, assert_refused, monkeypatch):
    monkeypatch.setattr("experiments.compress.moments_of", too_late)
    output = run.with_name(f"{run.name}-lrd1")
    output.mkdir()
    (output / "config.json").write_text("{}")
    assert_refused(main, [run, "--rank", "1"], f"output is {output}, which holds a run: name a new or an empty directory")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, ["cannot be read", "numpy.savez"]),
        (b"PK\x03\x04 and no more", ["damaged or no .npz"]),
        ({"kernel": np.zeros(3)}, ["found none", "weight_hh_l0"]),
    ],
)
def test_files_without_a_cell(content, says, tmp_path, assert_refused):
    path = tmp_path / "cell.npz"
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif content is not None:
        np.savez(path, **content)
    assert_refused(main, ["--from", path, "--rank", "1"], *says, code=2)
