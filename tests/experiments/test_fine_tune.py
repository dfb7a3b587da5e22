"""The command that fine-tunes a network with adapters: what it trains, writes and refuses."""

import json
from pathlib import Path

import jax
import numpy as np
import pytest
from tiny import tree

import experiments
from experiments import fine_tune as command
from experiments.fine_tune import Options, main, prepare, show, write_start
from lrpt.networks.sequence_model import ModelConfig
from lrpt.networks.variable_computation import MaskConfig, VariableConfig
from lrpt.optim import OptimConfig
from lrpt.runs.console import Console
from lrpt.runs.named_arrays import load_arrays
from lrpt.tasks import NextSymbol
from lrpt.trained.loading import load
from lrpt.training.config import RunConfig, TrainConfig
from lrpt.training.loop import Job, fit

pytestmark = pytest.mark.slow

OLD, NEW = "the cat sat on a mat\n", "a bat sat on the hat!\n"
SMALL = ["--data.steps", "4", "--updates", "4", "--evaluate-every", "2", "--batch-size", "4", "--rank", "2", "--json"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A finished run on one text."""
    folder = tmp_path_factory.mktemp("trained")
    (folder / "text").write_text(OLD * 40)
    data = NextSymbol(file=folder / "text", reading="stream", steps=4)
    train = TrainConfig(3, 4, "stream", evaluate_every=3, evaluation_batch=4)
    fit(RunConfig(ModelConfig(size=6, rank=2), OptimConfig("adam", 1e-2), train, data), {0: folder / "run"})
    return folder / "run"


def test_trains_adapters_on_a_new_text_and_writes_the_merged_network(run, tmp_path, capsys):
    (tmp_path / "text").write_text(NEW * 40)
    words = [str(run), "--data.file", str(tmp_path / "text"), *SMALL, "--workdir", str(tmp_path / "tuned"), "--learning-rate", "0.01"]
    main(words)
    found = json.loads(capsys.readouterr().out)
    assert found["parameters"]["frozen"] == 3 * 6 * 6
    for figures in found["metrics"].values():
        assert figures["adapted"]["loss"] < figures["start"]["loss"]
        assert figures["merged"]["loss"] == pytest.approx(figures["adapted"]["loss"], rel=1e-5)
    tuned, before = load(tmp_path / "tuned"), load(run)
    frozen = tuned.variables["frozen"]["recurrent"]["cell"]["recurrent"]["update"]["kernel"]
    matrix = before.variables["params"]["recurrent"]["cell"]["recurrent"]["update"]
    np.testing.assert_allclose(frozen, matrix["right"].T @ matrix["left"] + np.diag(matrix["diagonal"]), rtol=1e-5, atol=1e-6)
    merged = load_arrays(tmp_path / "tuned" / "merged.npz")
    assert merged["recurrent/cell/recurrent/update/kernel"].shape == (6, 6)
    assert not any("frozen" in name or "left" in name for name in merged)

    main(words)  # finished: the same figures again
    assert json.loads(capsys.readouterr().out) == found


def test_a_directory_with_adapters_of_another_network_is_refused_and_stays(run, tmp_path, assert_refused):
    (tmp_path / "text").write_text(NEW * 40)
    where = ["--data.file", str(tmp_path / "text"), *SMALL, "--workdir", str(tmp_path / "tuned")]
    main([str(run), *where])
    before = tree(tmp_path / "tuned")
    trained = load(run)
    fit(trained.config, {1: tmp_path / "other"})
    for more in ([], ["--updates", "6"], ["--rank", "1"]):
        assert_refused(main, [str(tmp_path / "other"), *where, *more], "holds a run ", "or name another --workdir")
    assert tree(tmp_path / "tuned") == before


def test_start_arrays_that_another_machine_rounded_otherwise_are_kept(run, tmp_path, capsys):
    (tmp_path / "text").write_text(NEW * 40)
    words = [str(run), "--data.file", str(tmp_path / "text"), *SMALL, "--workdir", str(tmp_path / "tuned")]
    job = Job(RunConfig(ModelConfig(), OptimConfig("adam"), TrainConfig(), NextSymbol()), 0, tmp_path / "tuned")
    main(words)
    before = (tmp_path / "tuned" / "start.npz").read_bytes()
    write_start(job, {name: array * np.float32(1 + 1e-6) for name, array in load_arrays(tmp_path / "tuned" / "start.npz").items()})
    assert (tmp_path / "tuned" / "start.npz").read_bytes() == before
    main([*words, "--updates", "6"])


def test_the_optimizer_holds_nothing_of_what_is_frozen(run, tmp_path):
    (tmp_path / "text").write_text(NEW * 40)
    main([str(run), "--data.file", str(tmp_path / "text"), *SMALL, "--workdir", str(tmp_path / "tuned")])
    tuned = load(tmp_path / "tuned")
    state = jax.eval_shape(tuned.config.optim.build().init, tuned.variables["params"])
    assert (6, 6) not in {leaf.shape for leaf in jax.tree.leaves(state)}


def test_a_cell_of_pytorch_gets_an_embedding_and_a_readout(tmp_path, capsys):
    (tmp_path / "text").write_text(NEW * 40)
    rng = np.random.default_rng(0)
    shapes = {"weight_ih_l0": (18, 5), "weight_hh_l0": (18, 6), "bias_ih_l0": (18,), "bias_hh_l0": (18,)}
    np.savez(tmp_path / "gru.npz", **{name: rng.standard_normal(shape) for name, shape in shapes.items()})
    main(["--from", str(tmp_path / "gru.npz"), "--data.file", str(tmp_path / "text"), *SMALL, "--workdir", str(tmp_path / "tuned")])
    found = json.loads(capsys.readouterr().out)
    assert found["parameters"]["frozen"] == 3 * 6 * 6
    assert found["settings"]["cell"] == "gru_cudnn"
    assert found["settings"]["embedding"] == 5


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        ("", "no network is named: give one run directory, or --from and a file"),
        ("RUN --rank 7", "rank 7 does not fit the recurrent matrix 'update' of 6 x 6"),
        ("RUN --rank 0", "rank is 0: expected 1 or more"),
        ("RUN --seed -1", "seed is -1: expected 0 to "),
        ("nowhere", "nowhere/config.json cannot be read"),
    ],
)
def test_what_does_not_fit_is_one_line(flags, says, run, tmp_path, assert_refused):
    (tmp_path / "text").write_text(NEW * 40)
    where = ["--data.file", tmp_path / "text", "--data.steps", "4", "--workdir", tmp_path / "tuned"]
    assert_refused(main, [*flags.replace("RUN", str(run)).split(), *where], says)


def of_variable_computation(folder):
    """Return a short run on one text whose mask has sharpened."""
    data = NextSymbol(file=folder / "text", reading="stream", steps=4)
    train = TrainConfig(12, 4, "stream", evaluate_every=6, evaluation_batch=4)
    model = VariableConfig("vcrnn", size=6, parametrization="dense", mask=MaskConfig(growth=9.0, smooth=True, end=3.0))
    fit(RunConfig(model, OptimConfig("adam", 1e-2), train, data), {0: folder / "run"})
    return folder / "run"


def test_a_network_with_variable_computation_starts_and_stays_at_its_trained_sharpness(tmp_path):
    (tmp_path / "text").write_text(OLD * 40)
    trained = load(of_variable_computation(tmp_path))
    data = NextSymbol(file=tmp_path / "text", reading="stream", steps=4)
    config, start = prepare(Options(run=tmp_path / "run", data=data, rank=2), data.build(0), Console(quiet=True))
    symbols = np.array([[2, 3, 4, 5]])
    expected = trained.model.apply(trained.variables, symbols)
    model = config.build(trained.task.input_size, trained.task.output_size, "all")
    np.testing.assert_allclose(model.apply(start, symbols), expected, atol=1e-5)
    (sharpness,) = jax.tree.leaves(trained.variables["settings"])
    assert sharpness > config_of(trained).sharpness
    assert [config.mask.sharpness_at(np.int32(update), 5) for update in (0, 99)] == [sharpness, sharpness]


def config_of(trained):
    return trained.config.model.mask


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("music/music-rnn-250-seed0", "reads words, and the text is read by characters: name a run of a language model of characters"),
        ("bit_lm/bits-gru-66-seed0", "reads bits, and the text is read by characters: name a run of"),
    ],
)
def test_networks_of_other_symbols_are_refused(source, says, tmp_path, assert_refused):
    (tmp_path / "text").write_text(NEW * 40)
    results = Path(experiments.__file__).parent / "results"
    where = ["--data.file", tmp_path / "text", "--data.steps", "4", "--workdir", tmp_path / "tuned"]
    assert_refused(main, [results / source, *where], says)


def test_bytes_and_characters_are_told_apart(run, tmp_path, assert_refused):
    (tmp_path / "text").write_text(NEW * 40)
    where = ["--data.file", tmp_path / "text", "--data.steps", "4", "--workdir", tmp_path / "tuned", "--data.encoding", "bytes"]
    assert_refused(main, [run, *where], "reads characters, and the text is read by bytes: give --data.encoding utf-8")


def test_training_has_the_settings_and_the_seed_of_the_flags(tmp_path, monkeypatch):
    (tmp_path / "text").write_text(NEW * 40)
    data, trained, started = NextSymbol(file=tmp_path / "text", reading="stream", steps=4), [], []
    monkeypatch.setattr(command, "prepare", lambda *_: (ModelConfig(size=6), {"params": {}, "frozen": {}}))
    monkeypatch.setattr(command, "write_start", lambda job, _: started.append(job))
    monkeypatch.setattr(command, "fit", lambda config, paths, **_: trained.append((config, paths)))
    monkeypatch.setattr(command, "report", lambda *_: {})
    settings = {"updates": 7, "evaluate_every": 3, "batch_size": 2, "learning_rate": 0.02, "seed": 5}
    command.fine_tune(Options(data=data, **settings, workdir=tmp_path / "tuned"), Console(quiet=True))
    ((config, paths),) = trained
    assert paths == {5: tmp_path / "tuned"}
    assert started == [Job(config, 5, tmp_path / "tuned")]
    assert config.optim == OptimConfig("adam", 0.02)
    train = config.train
    assert (train.updates, train.evaluate_every, train.batch_size, train.evaluation_batch, train.order) == (7, 3, 2, 2, "stream")
    assert train.start == tmp_path / "tuned" / "start.npz"


def test_columns_of_the_table_are_in_the_order_of_their_heads(capsys):
    metrics = {"test": {when: {"loss": loss} for when, loss in (("merged", 1.0), ("start", 3.0), ("adapted", 2.0))}}
    show({"metrics": metrics, "model": "GRU 6", "parameters": {"trained": 5, "frozen": 9}, "written": "a", "settings": {}}, Console())
    said = capsys.readouterr().out
    assert said.splitlines()[1].split() == ["test", "loss", "3", "2", "1"]
    assert "5 parameters trained, 9 frozen" in said
