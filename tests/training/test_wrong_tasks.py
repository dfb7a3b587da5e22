"""Tasks of a user's own that are not complete: one line before any update says what is missing."""

from dataclasses import dataclass, replace
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

import lrpt
from lrpt.errors import UsageError
from lrpt.losses import cross_entropy
from lrpt.networks.sequence_model import ModelConfig
from lrpt.optim import OptimConfig
from lrpt.tasks import Example, Split, Task
from lrpt.training.config import RunConfig, TrainConfig
from lrpt.training.loop import fit


def right_metrics(predictions, batch):
    return {"loss": cross_entropy(predictions, batch.targets)}


METRICS = {
    "no loss": lambda predictions, batch: {"accuracy": right_metrics(predictions, batch)["loss"]},
    **{
        name: lambda predictions, batch, name=name: {**right_metrics(predictions, batch), name: batch.targets * 0.0}
        for name in ("update", "gradient_norm_own")
    },
    "means": lambda predictions, batch: {"loss": jnp.mean(right_metrics(predictions, batch)["loss"])},
}


@dataclass(frozen=True)
class Wrong:
    kind: str

    def build(self, seed):
        if self.kind == "nothing":
            return None
        names = ("train", "valid") if self.kind == "no test" else ("train", "valid", "test")
        arrays = jnp.zeros((20, 0 if self.kind == "empty" else 4, 2))
        arrays = arrays.tolist() if self.kind == "lists" else arrays
        splits = {name: Split(30 if self.kind == "short" else 20, arrays, self.example) for name in names}
        splits = list(splits) if self.kind == "list of splits" else splits
        if self.kind == "no examples":
            splits["valid"] = replace(splits["valid"], size=0)
        if self.kind == "lengths":
            splits["valid"] = replace(splits["valid"], lengths=np.full(40, 4))
        return Task(splits, 2, 2, "last", METRICS.get(self.kind, right_metrics))

    def example(self, arrays, index):
        return (arrays[index], index % 2) if self.kind == "pairs" else Example(arrays[index], index % 2)


@pytest.mark.parametrize(
    ("kind", "line"),
    [
        ("no test", "the task has the splits train, valid: add test"),
        ("no loss", "the task has the metrics accuracy: add 'loss', which training minimizes"),
        ("means", r"the metric 'loss' has shape \(\) for \d+ examples: return one value for each"),
        ("empty", r"a batch of training inputs has the shape \(4, 0, 2\): sequences need a step or more"),
        ("pairs", "an example of the task is a tuple: return an lrpt.tasks.Example"),
        ("nothing", "build of Wrong returns None: return an lrpt.tasks.Task"),
        ("list of splits", "the splits of the task are a list: give a mapping of 'train', 'valid' and 'test'"),
        ("no examples", "split 'valid' has 0 examples: give it one or more"),
        ("lengths", r"split 'valid' has 20 examples, and lengths of shape \(40,\)"),
        ("update", "the task has a metric 'update', a name that lines of metrics use for something else: rename it"),
        ("gradient_norm_own", "the task has a metric 'gradient_norm_own'"),
        ("short", "split 'train' has size 30, and its last example reads behind the end of an array"),
    ],
)
def test_what_is_missing_is_said_in_one_line(kind, line, tmp_path):
    train = TrainConfig(updates=1, evaluate_every=1, batch_size=4)
    config = RunConfig(ModelConfig("elman", size=3, parametrization="dense"), OptimConfig("adam"), train, Wrong(kind))
    with pytest.raises(UsageError, match=line):
        fit(config, {0: tmp_path / "run"})


@dataclass
class Unfrozen:
    length: int = 4


@dataclass(frozen=True)
class WithArray:
    weights: np.ndarray


class NoDataclass:
    pass


@pytest.mark.parametrize(
    ("data", "line"),
    [
        (Unfrozen(), r"data is a Unfrozen that cannot be hashed \(unhashable type: 'Unfrozen'\): give a frozen dataclass"),
        (
            WithArray(np.ones(2)),
            r"data is a WithArray that cannot be hashed \(.*ndarray'\): give a frozen dataclass whose fields are numbers",
        ),
        (NoDataclass(), "data is .*NoDataclass object.*, and no dataclass: give a frozen dataclass"),
        (Wrong, "data is .*Wrong'>, and no dataclass: give a frozen dataclass"),
    ],
)
def test_a_task_that_is_no_plain_value_is_one_line(data, line, tmp_path):
    model = ModelConfig("elman", size=3, parametrization="dense")
    with pytest.raises(UsageError, match=line):
        fit(RunConfig(model, OptimConfig("adam"), TrainConfig(), data), {0: tmp_path / "run"})


@pytest.mark.parametrize("dtype", ["bool", "int32", "bfloat16"])
def test_metrics_of_other_types_are_means_of_floats(dtype, tmp_path, monkeypatch):
    """A task may return whether an answer is right as booleans."""

    def right(predictions, batch):
        return {**right_metrics(predictions, batch), "odd": (batch.targets == 1).astype(dtype)}

    monkeypatch.setitem(METRICS, "types", right)
    train = TrainConfig(updates=1, evaluate_every=1, batch_size=4, evaluation_batch=8)
    config = RunConfig(ModelConfig("elman", size=3, parametrization="dense"), OptimConfig("adam"), train, Wrong("types"))
    (result,) = fit(config, {0: tmp_path / "run"})
    assert result["metrics"]["test"]["odd"] == result["metrics"]["valid"]["odd"] == 0.5


def test_directories_may_be_strings(tmp_path):
    config = RunConfig(ModelConfig("elman", size=3, parametrization="dense"), OptimConfig("adam"), TrainConfig(), Wrong("no test"))
    with pytest.raises(UsageError, match="add test"):
        fit(config, {0: str(tmp_path / "run")})


@pytest.mark.parametrize(
    ("directories", "line"),
    [
        (Path("runs/x"), r"directories is \w+Path\('runs/x'\): give \{seed: directory\}, such as \{0: 'runs/mine'\}"),
        ("runs/x", r"directories is 'runs/x': give \{seed: directory\}"),
        ([0, 1], r"directories is \[0, 1\]: give \{seed: directory\}"),
        ({}, r"directories is empty: give \{seed: directory\}"),
        ({"0": "runs/x"}, "a seed of directories is '0': expected an integer from 0 to 4294967295"),
        ({-1: "runs/x"}, "a seed of directories is -1: expected an integer from 0 to 4294967295"),
        ({2**32: "runs/x"}, "a seed of directories is 4294967296: expected an integer from 0 to"),
        ({3: None}, r"directories\[3\] is None: give the path of a run directory"),
    ],
)
def test_directories_that_are_no_paths_by_seed(directories, line):
    config = RunConfig(ModelConfig("elman", size=3, parametrization="dense"), OptimConfig("adam"), TrainConfig(), Wrong("none"))
    with pytest.raises(UsageError, match=line):
        fit(config, directories)


CONFIG = RunConfig(
    ModelConfig("elman", size=3, parametrization="dense"),
    OptimConfig("adam"),
    TrainConfig(updates=1, evaluate_every=1, batch_size=4, evaluation_batch=8),
    Wrong("right"),
)


def test_arrays_that_are_lists_are_explained(tmp_path):
    with pytest.raises(TypeError) as error:
        fit(replace(CONFIG, data=Wrong("lists")), {0: tmp_path / "run"})
    assert any("hold the data in `arrays` as arrays of NumPy or JAX" in note for note in error.value.__notes__)


@pytest.mark.parametrize("wrong", [-1, 20])
def test_an_index_of_no_example(wrong):
    split = CONFIG.data.build(0).splits["train"]
    with pytest.raises(UsageError, match=f"indices contain {wrong}: the split has the examples 0 to 19"):
        split.batch(split.arrays, [0, wrong])


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"optim": "adam"}, "optim is a str: give an object of OptimConfig, such as OptimConfig"),
        ({"optim": CONFIG.model}, "optim is a ModelConfig: give an object of OptimConfig"),
        ({"train": TrainConfig}, "train is TrainConfig: give an object of TrainConfig, such as TrainConfig"),
    ],
)
def test_parts_in_wrong_places(changes, line):
    with pytest.raises(UsageError, match=line):
        replace(CONFIG, **changes)


@dataclass(frozen=True)
class FromFile:
    """A task that reads a file and says nothing of it in its metadata."""

    file: str

    def build(self, seed):
        def example(arrays, index):
            return Example(arrays["x"][index], arrays["y"][index])

        arrays = dict(np.load(self.file))
        split = Split(len(arrays["y"]), arrays, example)
        return Task({"train": split, "valid": split, "test": split}, 2, 2, "last", right_metrics)


def test_other_data_are_noticed_in_a_task_that_does_not_identify_them(tmp_path):
    x, y = np.ones((8, 3, 2), np.float32), np.arange(8) % 2
    file, run = str(tmp_path / "data.npz"), tmp_path / "run"
    np.savez(file, x=x, y=y)
    config = replace(CONFIG, data=FromFile(file))
    fit(config, {0: run})
    assert fit(config, {0: run})[0]["updates"] == 1
    assert lrpt.load(run).task.splits["train"].size == 8
    np.savez(file, x=x, y=1 - y)
    longer = replace(config, train=replace(config.train, updates=2))
    for call in (lambda: fit(config, {0: run}), lambda: fit(longer, {0: run}), lambda: lrpt.load(run).task):
        with pytest.raises(UsageError, match="holds a run on other data than its task has now"):
            call()
    Path(file).unlink()
    assert fit(config, {0: run})[0]["updates"] == 1  # a finished run does not need them


def test_a_finished_run_says_so_in_python(tmp_path, capsys):
    for says in ("", f"finished already, see {tmp_path / 'run'}"):
        capsys.readouterr()
        fit(CONFIG, {0: tmp_path / "run"})
        captured = capsys.readouterr()
        assert captured.out == ""
        assert says in captured.err


@dataclass(frozen=True)
class Summarized:
    """A task with a summary of its own."""

    kind: str

    def build(self, seed):
        return replace(Wrong("right").build(seed), summarize=SUMMARIES[self.kind])


SUMMARIES = {
    "arrays": lambda means: {**means, "rmse": jnp.sqrt(means["loss"]), "count": np.int64(3)},
    "no loss": lambda means: {"rmse": 1.0},
    "text": lambda means: {**means, "name": "x"},
    "several": lambda means: {**means, "each": np.ones(2)},
}


def test_a_summary_may_have_numbers_of_numpy_and_jax(tmp_path):
    (result,) = fit(replace(CONFIG, data=Summarized("arrays")), {0: tmp_path / "run"})
    assert result["metrics"]["test"]["rmse"] == pytest.approx(result["metrics"]["test"]["loss"] ** 0.5)
    assert result["metrics"]["test"]["count"] == 3


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("no loss", "summarize of the task returns rmse: add 'loss'"),
        ("text", "summarize of the task returns a str as 'name': return one number for each metric"),
        ("several", "summarize of the task returns an array as 'each': return one number"),
    ],
)
def test_a_wrong_summary_is_refused_after_the_first_updates(kind, says, tmp_path):
    train = TrainConfig(updates=4, evaluate_every=4, batch_size=4, updates_per_call=1)
    with pytest.raises(UsageError, match=says):
        fit(replace(CONFIG, data=Summarized(kind), train=train), {0: tmp_path / "run"})


@dataclass(frozen=True)
class Labelled:
    """A task with one label that is no class."""

    def build(self, seed):
        def example(arrays, index):
            return Example(arrays["x"][index], arrays["y"][index])

        arrays = {"x": np.ones((8, 3, 2), np.float32), "y": np.array([0, 1, 0, 1, 0, 7, 0, 1])}
        split = Split(8, arrays, example)
        valid = replace(split, size=4)
        return Task({"train": split, "valid": valid, "test": valid}, 2, 2, "last", right_metrics)


@pytest.mark.parametrize("recipe", ["adam", "char_lm"])
def test_a_label_that_is_no_class_ends_the_run(recipe, tmp_path):
    """Its loss is NaN and its gradient is not, so that recovery has nothing to recover."""
    train = TrainConfig(updates=4, evaluate_every=4, batch_size=4, order="file")
    with pytest.raises(UsageError, match=r"training loss is nan at update 2.*labels that are no class"):
        fit(replace(CONFIG, data=Labelled(), train=train, optim=OptimConfig(recipe, 0.01)), {0: tmp_path / "run"})
