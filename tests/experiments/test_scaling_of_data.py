"""A task that standardizes its data: programs, modules and `predict` work in the units of the file, and the constants are kept."""

import json
import re
from pathlib import Path

import jax
import numpy as np
import pytest

import lrpt
from experiments.export import main as export
from experiments.sequences import EXPERIMENT
from lrpt.cli.command import main
from lrpt.datasets.splits import random_parts
from lrpt.errors import UsageError
from lrpt.interop import factorized
from lrpt.runs import weights
from lrpt.scaling import UNSCALED, Moments, Scaling
from lrpt.trained.loading import pack

DOCS = Path(__file__).parents[2] / "docs"

pytest.importorskip("flatbuffers")

COUNT, STEPS = 60, 4
RNG = np.random.default_rng(0)
INPUTS = RNG.normal((500, 0.5), (30, 0.03), (COUNT, STEPS, 2)).astype(np.float32)
TARGETS = np.stack([1000 + 7 * INPUTS[:, -1, 0], -5 + INPUTS[:, 0, 1]], 1)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    root = tmp_path_factory.mktemp("own")
    np.savez(root / "mine.npz", inputs=INPUTS, targets=TARGETS)
    flags = "--no-compare --model.cell gru_reset_after --model.size 4 --model.rank 2 --train.updates 4 --train.evaluate-every 2 --devices 1"
    main(EXPERIMENT, [*flags.split(), "--data.file", str(root / "mine.npz"), "--workdir", str(root / "run")])
    return root / "run"


@pytest.fixture(scope="module")
def result(run):
    return json.loads((run / "result.json").read_text())


@pytest.mark.slow
def test_the_blocks_of_the_pages_run(tmp_path, monkeypatch):
    """The page on small devices continues that on own data."""
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    for page in ("own_data", "small_devices"):
        path = DOCS / f"{page}.md"
        block = re.findall(r"```python\n(.*?)```", path.read_text(), re.DOTALL)[0]
        exec(compile(block, str(path), "exec"), names)
    assert names["shorter"].shape == (3, 1)
    assert np.allclose(names["shorter"][0], names["predictions"][0])
    assert not np.allclose(names["shorter"][1:], names["predictions"][1:])


@pytest.mark.slow
def test_the_page_samples_a_text(monkeypatch, capsys):
    monkeypatch.chdir(DOCS.parent)
    _, block = re.findall(r"```python\n(.*?)```", (DOCS / "own_data.md").read_text(), re.DOTALL)
    names: dict = {}
    exec(compile(block, "own_data.md", "exec"), names)
    said = capsys.readouterr().out
    assert said.startswith("The function ")
    assert len(said) == len("The function ") + 200 + len("\n")
    vocabulary = names["trained"].vocabulary
    assert vocabulary.decode(vocabulary.encode("a∑")) == "a<unk>"


def rmse(predictions):
    """Return the root mean squared error of the test split in the units of the file."""
    return np.sqrt(np.mean((np.asarray(predictions, np.float64) - TARGETS)[random_parts(COUNT) == "test"] ** 2))


def test_a_loaded_run_predicts_in_the_units_of_the_file(run, result):
    trained = lrpt.load(run)
    assert rmse(trained.predict(INPUTS)) == pytest.approx(result["metrics"]["test"]["rmse"], rel=1e-4)
    whole = np.trunc(INPUTS[:3])
    np.testing.assert_array_equal(trained.predict(whole.astype(np.int16)), trained.predict(whole))
    assert trained.scaling.to_json() == result["data"]["scaling"]
    state = trained.start(COUNT)
    for x in np.swapaxes(INPUTS, 0, 1):
        state, y = trained.step(state, x)
    np.testing.assert_allclose(y, trained.predict(INPUTS), rtol=1e-4)


def test_the_lowest_rmse_is_the_best(run, result):
    evaluations = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    valid = [line["rmse"] for line in evaluations if line["split"] == "valid"]
    assert result["metrics"]["valid"]["lowest_rmse"] == min(valid)
    assert "highest_rmse" not in result["metrics"]["valid"]


def test_kept_weights_keep_the_scaling(run, tmp_path):
    trained = lrpt.load(run)
    content, metadata = pack(trained)
    (tmp_path / "config.json").write_text((run / "config.json").read_text())
    weights.keep(tmp_path, content, json.loads(json.dumps(metadata)))
    assert lrpt.load(tmp_path).scaling == trained.scaling != UNSCALED


@pytest.mark.slow
def test_programs_and_modules_reproduce_the_metric_from_the_file_alone(run, result, tmp_path, capsys):
    export([str(run), "--output", str(tmp_path), "--rounds", "1"])
    said = capsys.readouterr().out
    assert "state_dict.npz cannot: give it (x - mean) / standard_deviation" in said.replace("\n", " ")
    assert json.loads((tmp_path / "scaling.json").read_text()) == result["data"]["scaling"]
    for end, tolerance in (("", 1e-4), ("-int8", 0.05)):
        programs = {name: jax.export.deserialize((tmp_path / f"{name}{end}.jax").read_bytes()) for name in ("sequence", "step")}
        found = programs["sequence"].call(INPUTS)
        assert rmse(found) == pytest.approx(result["metrics"]["test"]["rmse"], rel=tolerance)
        state = [np.zeros((COUNT, *aval.shape[1:]), aval.dtype) for aval in programs["step"].in_avals[2:]]
        for t in range(STEPS):
            y, *state = programs["step"].call(INPUTS[:, t], t == 0, *state)
        np.testing.assert_allclose(y, found, rtol=1e-4)


def test_the_module_of_pytorch_has_the_constants_of_the_run(run, result):
    trained = lrpt.load(run)
    arrays = factorized.of_model(trained.variables["params"], trained.config.model, 2, "last", trained.scaling)
    assert json.loads(arrays["config"].item())["scaling"] == result["data"]["scaling"]


@pytest.mark.slow
def test_the_module_of_pytorch_reproduces_the_metric(run, result):
    torch = pytest.importorskip("torch")
    trained = lrpt.load(run)
    arrays = factorized.of_model(trained.variables["params"], trained.config.model, 2, "last", trained.scaling)
    namespace = {"__name__": "network"}
    exec(compile(factorized.source(), "network.py", "exec"), namespace)
    network = namespace["Network"](json.loads(arrays.pop("config").item()), arrays)
    with torch.no_grad():
        assert rmse(network(torch.tensor(INPUTS))[0].numpy()) == pytest.approx(result["metrics"]["test"]["rmse"], rel=1e-4)


def test_another_number_of_features_is_one_line():
    scaling = Scaling(Moments((1.0, 2.0), (1.0, 1.0)))
    with pytest.raises(UsageError, match=r"values have shape \(3, 1\): expected 2 components in the last axis"):
        scaling.standardize(np.zeros((3, 1), np.float32))
    assert Scaling.from_json(scaling.to_json()) == scaling
    assert scaling.restore("as it is") == "as it is"
