"""The command that exports a run: files that work without this library, and figures that can be checked."""

import errno
import json
import os
import re
from pathlib import Path
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny

import lrpt
from experiments import export as command
from experiments.export import main
from lrpt.cli.command import main as train
from lrpt.compression.quantization import dequantize, quantize
from lrpt.errors import UsageError
from lrpt.interop import factorized
from lrpt.networks.sequence_model import ModelConfig
from lrpt.runs.console import Console

pytest.importorskip("flatbuffers")


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    path = tmp_path_factory.mktemp("finished") / "run"
    train(tiny.EXPERIMENT, [*tiny.flags(tiny.EVEN), "--workdir", str(path)])
    return path


@pytest.mark.slow
def test_files_and_figures(finished, tmp_path, capsys):
    before = tiny.tree(finished)
    main([str(finished), "--output", str(tmp_path), "--rounds", "1", "--beside", str(finished), "--json"])
    report = json.loads(capsys.readouterr().out)
    assert tiny.tree(finished) == before
    result = json.loads(before["result.json"])
    float32, int8, *_ = report["table"]
    assert (float32["network"], int8["network"]) == (f"LRD-GRU 4/2 ({finished}), float32", f"LRD-GRU 4/2 ({finished}), int8")
    assert float32["parameters"] == int8["parameters"] == result["parameters"]["true"]
    assert float32["kB"] == 4 * result["parameters"]["true"] / 1000 > int8["kB"]
    assert float32["test"] == pytest.approx(result["metrics"]["test"], rel=1e-5)
    assert int8["test"]["loss"] == pytest.approx(result["metrics"]["test"]["loss"], rel=0.1)
    assert int8["test"]["loss"] != float32["test"]["loss"]
    assert all(row["us"] > 0 for row in report["table"])
    trained = lrpt.load(finished)
    inputs = jnp.asarray(np.random.default_rng(0).integers(0, trained.interface.input_size, (3, 9)), trained.interface.dtype)
    expected = trained.model.apply(trained.variables, inputs)
    program = jax.export.deserialize((tmp_path / "sequence.jax").read_bytes())
    np.testing.assert_allclose(program.call(inputs), expected, rtol=1e-5, atol=1e-6)
    assert set(program.platforms) == {"cpu", "cuda", "tpu"}
    in_8_bits = jax.export.deserialize((tmp_path / "sequence-int8.jax").read_bytes())
    rounded = trained.model.apply(dequantize(quantize(trained.variables)), inputs)
    np.testing.assert_allclose(in_8_bits.call(inputs), rounded, rtol=1e-5, atol=1e-6)
    assert not np.allclose(rounded, expected, rtol=1e-5, atol=1e-6)
    assert (tmp_path / "network.py").read_text() == factorized.source()
    names = {Path(path).name for path in report["written"]}
    assert names == {"sequence.jax", "step.jax", "sequence-int8.jax", "step-int8.jax", "network.py", "network.npz"}
    assert report["not_written"].keys() == {"state_dict.npz"}
    assert report["not_written"]["state_dict.npz"].startswith("cell gru is none of PyTorch's layers, which are gru_cudnn")


@pytest.mark.slow
def test_the_table(finished, capsys):
    main([str(finished), "--rounds", "1"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:3] == ["network", "parameters", "kB"]
    assert lines[1].startswith("LRD-GRU 4/2, float32")
    assert not any(line.startswith("written") for line in lines)


@pytest.mark.slow
def test_networks_of_the_same_label_have_times_of_their_own(finished, monkeypatch, capsys, tmp_path):
    """The second run has another seed. Contender k takes k microseconds."""
    other = tmp_path / "other"
    train(tiny.EXPERIMENT, [*tiny.flags(tiny.EVEN), "--seed", "1", "--workdir", str(other)])
    capsys.readouterr()
    monkeypatch.setattr(command, "in_turns", lambda steps, *_, **__: {name: [1e-6 * k] for k, name in enumerate(steps)})
    main([str(finished), "--beside", str(other), "--json"])
    rows = json.loads(capsys.readouterr().out)["table"]
    names = [f"LRD-GRU 4/2 ({run}), {form}" for run in (finished, other) for form in ("float32", "int8")]
    assert [row["network"] for row in rows[:4]] == names
    assert [row["us"] for row in rows] == pytest.approx(range(len(rows)))


@pytest.mark.slow
def test_it_says_why_there_is_no_module_for_pytorch(tmp_path, capsys):
    run = tmp_path / "run"
    words = tiny.flags(tiny.changed(tiny.EVEN, model={"parametrization": "monarch", "blocks": 2}))
    train(tiny.EXPERIMENT, [*words, "--workdir", str(run)])
    main([str(run), "--output", str(tmp_path / "out"), "--rounds", "1"])
    said = capsys.readouterr().out
    assert "not written: network.py: a matrix is a Monarch, and the PyTorch module has" in said
    assert "not written: state_dict.npz: cell gru is none of PyTorch's layers" in said
    assert not (tmp_path / "out" / "network.py").exists()


@pytest.mark.slow
def test_a_kept_result_whose_text_is_another_is_exported_without_a_score(tmp_path, monkeypatch, capsys):
    """As on another version of Python, whose documentation is another text."""
    monkeypatch.setattr("lrpt.tasks.text.python_documentation", lambda: "the cat sat on a mat\n" * 2000)
    kept = Path(__file__).parents[2] / "experiments" / "results" / "char_lm" / "quick-lrd-seed0"
    main([str(kept), "--output", str(tmp_path / "out"), "--rounds", "1"])
    said = capsys.readouterr()
    (warning,) = said.err.splitlines()
    assert f"the table has no score of {kept}, because " in warning
    assert "(python 3.11.7)" in warning
    assert " ".join(said.out.splitlines()[0].split()) == "network parameters kB µs a step, batch 1", "without scores"
    assert {"sequence.jax", "step.jax", "network.npz"} <= {path.name for path in (tmp_path / "out").iterdir()}


def test_an_output_that_is_a_file_is_refused_before_the_run_is_read(tmp_path, assert_refused):
    (tmp_path / "file").write_text("")
    assert_refused(main, ["gone", "--output", tmp_path / "file"], f"output is {tmp_path / 'file'}, a file: name a directory")


@pytest.mark.slow
def test_a_full_disk_leaves_no_part_of_a_program(finished, tmp_path, monkeypatch, assert_refused):
    def part(path, content):
        with path.open("wb") as file:
            file.write(content[:10])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("pathlib.Path.write_bytes", part)
    says = f"No space left on device ({tmp_path / 'sequence.jax'}): free space there"
    assert_refused(main, [finished, "--output", tmp_path, "--rounds", "1"], says, code=1)
    assert not list(tmp_path.iterdir())


def test_the_time_of_a_row_is_the_shortest_of_all_rounds(monkeypatch):
    monkeypatch.setattr(command, "in_turns", lambda steps, *_, **__: {name: [4e-6, 3e-6, 5e-6] for name in steps})
    assert command.microseconds([lambda: None], 3) == pytest.approx([3])


@pytest.mark.parametrize(
    ("config", "name", "parameters"),
    [
        (ModelConfig("lstm", 5, layers=2, embedding=3), "PyTorch nn.LSTM 5, dense", 4 * 5 * (3 + 5 + 2) + 4 * 5 * (5 + 5 + 2) + 6 * 2),
        (ModelConfig("gru", 5), "PyTorch nn.GRU 5, dense", 3 * 5 * (7 + 5 + 2) + 6 * 2),
    ],
    ids=["lstm", "gru"],
)
def test_the_dense_layer_of_pytorch_has_the_sizes_of_the_run(config, name, parameters):
    pytest.importorskip("torch")
    trained = SimpleNamespace(recurrent_config=config, interface=SimpleNamespace(input_size=7, output_size=2))
    (row,) = command.of_pytorch(trained)
    assert (row.name, row.parameters, row.kilobytes, row.metrics) == (name, parameters, 4 * parameters / 1000, {})
    row.step()


def test_the_given_directory_of_the_data_is_that_of_every_run(monkeypatch, assert_refused):
    def read_run(path, console, data_dir):
        raise UsageError(f"{path} is read with {data_dir}")

    monkeypatch.setattr(command, "read_run", read_run)
    assert_refused(main, ["mine", "--data.dir", "there"], "mine is read with there")


@pytest.mark.parametrize(
    ("words", "says"), [([], ["no run is given"]), (["gone"], ["config.json cannot be read"]), (["gone", "--rounds", "0"], ["rounds is 0"])]
)
def test_wrong_flags(words, says, assert_refused):
    assert_refused(main, words, *says)


def test_the_latency_is_that_of_the_shortest_round_in_microseconds(monkeypatch):
    monkeypatch.setattr(command, "in_turns", lambda steps, *_, **__: dict(zip(steps, ([3e-6, 2e-6], [5e-6, 9e-6]), strict=True)))
    assert command.microseconds([print, print], 2) == pytest.approx([2.0, 5.0])


def test_each_timed_step_goes_on_from_the_state_of_the_one_before():
    states = []

    def program(x, first, *state):
        states.append([int(each) for each in state])
        return np.zeros(1), *(each + 1 for each in state)

    interface = SimpleNamespace(step=(), dtype=np.int32)
    step = command._stepping(SimpleNamespace(interface=interface, start=lambda rows: SimpleNamespace(carry=[3, 7])), program)
    for _ in range(3):
        step()
    assert states == [[3, 7], [4, 8], [5, 9]]


def test_the_table_has_the_numbers_of_each_network_under_their_heads(capsys):
    row = {"network": "GRU 4", "parameters": 1_234, "kB": 4.936, "test": {"loss": 0.5}, "us": 7.2}
    untrained = {"network": "PyTorch", "parameters": 2_000, "kB": 8.0, "test": {}, "us": 90.0}
    command.show({"table": [row, untrained], "written": [], "not_written": {}, "scaling": {}}, Console())
    _, first, second = (re.split(r"  +", line.strip()) for line in capsys.readouterr().out.splitlines())
    assert first == ["GRU 4", "1,234", "4.9", "0.5", "7"]
    assert second == ["PyTorch", "2,000", "8.0", "90"]
