"""The code of the README and of pages that have Python in them runs, and the files that they name exist."""

import json
import re
from pathlib import Path
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import pytest

from experiments.copy_memory import WIDTHS
from lrpt.tasks import Example

ROOT = Path(__file__).parents[1]
README, EXTENDING, TRAINING = ROOT / "README.md", ROOT / "docs" / "extending.md", ROOT / "docs" / "training.md"
WORDS = 900
"""more than these nobody reads"""


def run_blocks(path):
    """Run the Python of a page as one program."""
    text = path.read_text()
    blocks = re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    assert len(blocks) == text.count("```python") > 0, "a block that is not found is not tested"
    namespace = {"__name__": path.stem}
    exec(compile("\n".join(blocks), str(path), "exec"), namespace)
    return namespace


def test_its_code_runs(capsys, monkeypatch):
    monkeypatch.chdir(ROOT)
    found = run_blocks(README)
    assert found["logits"].shape == (20, 10)
    assert found["sums"].shape == (20, 1)
    assert capsys.readouterr().out == "8714\n"
    dense = found["lrpt"].ModelConfig("gru", size=128, parametrization="dense")
    assert found["lrpt"].count(dense, input_size=1, output_size=10).true == 51_338
    assert "# 8,714 parameters; a dense GRU has 51,338" in README.read_text()


def test_sizes_in_the_table_of_the_main_command():
    """Ten symbols, one-hot inputs, an initial state: the parameters of a GRU by hand."""
    rows = dict(re.findall(r"^((?:LRD?-)?GRU [\d/]+) +([\d,]+) ", README.read_text(), re.MULTILINE))
    assert len(rows) == len(WIDTHS)
    for model in WIDTHS.values():
        n, rank = model["size"], model.get("rank")
        diagonal = n * (model["parametrization"] == "low_rank_plus_diagonal")
        matrix = n * n if rank is None else 2 * rank * n + diagonal
        name = f"{'' if rank is None else 'LRD-' if diagonal else 'LR-'}GRU {n}{'' if rank is None else f'/{rank}'}"
        assert rows[name] == f"{3 * (matrix + 10 * n + n) + n + (n + 1) * 10:,}"


@pytest.mark.slow
@pytest.mark.usefixtures("tables")
def test_extensions_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = run_blocks(EXTENDING)
    task, logits = found["Smoothed"](smoothing=0.3).build(0), jnp.log(jnp.asarray([[0.5, 0.2, 0.3 / 8] + [0.3 / 8] * 7]))
    metrics = task.metrics_of(logits, Example(jnp.zeros((1, 64, 1)), jnp.asarray([1])))
    assert jnp.allclose(metrics["loss"], -0.7 * jnp.log(0.2) - 0.03 * logits.sum())
    result = json.loads((tmp_path / "runs/parity/result.json").read_text())
    assert result["updates"] == 40
    assert result["parameters"]["true"] == 2 * 16 + 2 * (2 * 16 + 16) + 16 + 16 * 2 + 2
    assert 0 < result["metrics"]["test"]["loss"] < 2


@pytest.mark.slow
def test_training_begins_from_a_kept_result(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "experiments").symlink_to(ROOT / "experiments")
    result = run_blocks(TRAINING)["result"]
    assert result["updates"] == 20
    assert result["metrics"]["test"]["loss"] < 0.01, "of guessing: 0.167"


@pytest.mark.slow
def test_networks_are_analysed(monkeypatch):
    monkeypatch.chdir(ROOT)
    found = run_blocks(ROOT / "docs" / "analysis.md")
    assert found["activity"].shape == (2, 4, 20)
    assert found["gates"].update.shape == (10, 2, 16)


def test_runs_are_compared_and_drawn(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "experiments").symlink_to(ROOT / "experiments")
    accuracies = {"GRU 51": [0.8, 0.81, 0.8], "GRU 128": [0.9, 0.91, 0.92], "LRD-GRU 128/8": [0.8, 0.82, 0.79]}
    results = [
        {"model": model, "seed": seed, "metrics": {"test": {"accuracy": accuracy}}}
        for model, own in accuracies.items()
        for seed, accuracy in enumerate(own)
    ]
    (tmp_path / "runs/permuted_mnist").mkdir(parents=True)
    (tmp_path / "runs/permuted_mnist/summary.json").write_text(json.dumps({"results": results}))
    found = run_blocks(ROOT / "docs" / "experiments.md")
    assert found["holm"](found["p_values"]) == [False, True]
    assert [len(curve.updates) > 10 for curve in found["curves"]] == [True] * 3
    assert (tmp_path / "runs/both.png").stat().st_size > 10_000


def test_variable_computation_is_built():
    assert run_blocks(ROOT / "docs" / "variable_computation.md")["logits"].shape == (20, 50, 50)


def test_a_schedule_and_an_observer(monkeypatch):
    monkeypatch.setattr("lrpt.optim.RECIPES", {})
    found, told = run_blocks(ROOT / "docs" / "problems.md"), {}
    params = {"w": jnp.ones(3)}

    @jax.jit  # the trainer traces the learning rate
    def second_change(rate):
        optimizer = found["RECIPES"]["warmup_cosine"].build(rate)
        _, state = optimizer.update(params, optimizer.init(params), params)
        return optimizer.update(params, state, params)[0]["w"]

    assert jnp.allclose(second_change(0.5), -0.5 / 100, rtol=1e-4)  # the second of 100 steps of warmup; Adam makes steps of length 1
    evaluation = SimpleNamespace(update=7, metrics={"valid": {"loss": 0.5}})
    found["Logged"](lambda scores, step: told.update({step: scores})).evaluated(evaluation)
    assert told == {7: {"valid/loss": 0.5}}


def test_files_it_names_exist():
    text = README.read_text()
    named = re.findall(r"\]\(([\w./]+)\)", text) + re.findall(r"`((?:lrpt|experiments|docs)/[\w./]*)`", text)
    assert len(named) > 20
    for name in named:
        assert (ROOT / name).exists(), name


def test_every_package_is_in_it():
    packages = {f"lrpt/{path.parent.name}/" for path in (ROOT / "lrpt").glob("*/__init__.py")}
    assert {name for name in packages if f"`{name}`" not in README.read_text()} == set()


def test_it_is_short():
    assert len(README.read_text().split()) < WORDS
