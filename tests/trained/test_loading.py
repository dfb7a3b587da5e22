"""Trained networks read again: steps give the numbers of the sequence, classes are found or named, nothing is guessed."""

import json
import os
import pickle
import platform
import re
import shutil
import sys
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny

import lrpt
from lrpt.cli.command import main
from lrpt.errors import UsageError
from lrpt.networks.conditional import ConditionalConfig
from lrpt.networks.highway_classifier import HighwayConfig
from lrpt.networks.sequence_model import ModelConfig
from lrpt.networks.variable_computation import VariableConfig
from lrpt.optim import OptimConfig
from lrpt.parametrizations import PARAMETRIZATIONS, Parametrization
from lrpt.pytrees import register_fields
from lrpt.runs import weights
from lrpt.runs.files import sealed
from lrpt.tasks import CopyMemory
from lrpt.tasks.images import ImageVectors
from lrpt.trained.loading import Loaded, load, pack
from lrpt.trained.recorded import Parts, configuration, identity_of
from lrpt.training.config import RunConfig, TrainConfig
from lrpt.training.interface import Interface
from lrpt.training.loop import fit
from lrpt.training.step import init_state

TRAIN = TrainConfig(updates=1, batch_size=2, evaluate_every=1, evaluation_batch=4, updates_per_call=1)
STEPS = 6
KEPT = sorted(path.parent for path in (Path(__file__).parents[2] / "experiments" / "results").glob("*/*/model.npz"))


@dataclass(frozen=True)
class Own(CopyMemory):
    """A task of the user's."""


def fitted(path, model=tiny.CONFIG.model, data=tiny.CONFIG.data, train=TRAIN):
    fit(RunConfig(model, OptimConfig("copy_memory", 0.01), train, data), {0: path}, devices=1)
    return path


@pytest.fixture(scope="module")
def custom(tmp_path_factory):
    """A run that no experiment knows."""
    return fitted(tmp_path_factory.mktemp("custom") / "run", data=Own("fixed", lag=3, train_size=8, test_size=4))


@pytest.fixture(scope="module")
def worse(tmp_path_factory):
    """A run with seed 3, whose second update makes the validation loss three times as large."""
    path = tmp_path_factory.mktemp("worse") / "run"
    config = RunConfig(tiny.CONFIG.model, OptimConfig("copy_memory", 1.0), replace(TRAIN, updates=2), CopyMemory("fixed", 3, 8, 4))
    fit(config, {3: path}, devices=1)
    return path


class Untrained(Loaded):
    """A network with drawn weights, which streams as a trained one does."""

    def __init__(self, config, interface):
        self.config, self.interface, self.is_kept, self.seed = config, interface, True, 1
        self.variables = self.initial
        self.path = "here"


def untrained(model, reads="all", symbols=5, step=()):
    interface = Interface(symbols, 5, reads, False, step, "float32" if step else "int32", True, None)
    return Untrained(SimpleNamespace(model=model), interface)


NETWORKS = {
    "gru": ModelConfig("gru", 6, rank=2),
    "lstm, two layers": ModelConfig("lstm", 6, rank=2, layers=2),
    "rhn": ModelConfig("rhn", 6, depth=2, rank=2, embedding=4),
    "unitary": ModelConfig("unitary", 6),
    "lattice": ModelConfig("lru", 6, rank=2, embedding=6, layers=2),
    "vcgru": VariableConfig("vcgru", 6, parametrization="dense", embedding=6),
    "conditional": ConditionalConfig(size=6),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
def test_steps_give_the_numbers_of_the_sequence(name):
    trained = untrained(NETWORKS[name], symbols=15 if name == "conditional" else 5)
    inputs = jax.random.randint(jax.random.key(0), (3, STEPS), 0, 5)
    whole = trained.model.apply(trained.variables, inputs)
    state, ys = trained.start(3), []
    for x in inputs.T:
        state, y = trained.step(state, x)
        ys.append(y)
    np.testing.assert_allclose(jnp.stack(ys, 1), whole, rtol=1e-5, atol=1e-6)
    assert trained._inference._step._cache_size() == 1


def test_a_step_refuses_symbols_that_the_network_does_not_have():
    trained = untrained(NETWORKS["gru"])
    with pytest.raises(UsageError, match="the inputs contain the symbol 5: expected numbers from 0 to 4"):
        trained.step(trained.start(2), jnp.asarray([0, 5]))


def test_a_step_takes_lists_and_a_start_needs_rows():
    trained = untrained(NETWORKS["gru"])
    expected = trained.step(trained.start(2), jnp.asarray([0, 1]))[1]
    np.testing.assert_array_equal(trained.step(trained.start(2), [0, 1])[1], expected)
    for rows in (0, 2.0, "2", True):
        with pytest.raises(UsageError, match=f"rows is {rows!r}: expected the number of sequences, an integer, 1 or more"):
            trained.start(rows)


def test_variables_are_parameters_and_settings_and_no_metrics():
    assert untrained(NETWORKS["vcgru"]).initial.keys() == {"params", "settings"}


@pytest.mark.parametrize(("x", "wanted"), [(jnp.zeros((2, STEPS), int), "of symbols"), (jnp.zeros((2, 1, 5)), "features")])
def test_a_step_refuses_sequences(x, wanted):
    trained = untrained(NETWORKS["gru"])
    with pytest.raises(UsageError, match=f"expected one step of each sequence, .*{wanted}"):
        trained.step(trained.start(2), x)


def test_integers_are_numbers_in_a_step_of_a_network_that_reads_vectors():
    trained = untrained(NETWORKS["gru"], "last", 2, (2,))
    expected = trained.step(trained.start(1), jnp.asarray([[1.0, 0.0]]))[1]
    np.testing.assert_array_equal(trained.step(trained.start(1), np.asarray([[1, 0]]))[1], expected)
    with pytest.raises(UsageError, match=r"x has shape \(2,\): expected one step of each sequence, \(sequences, features\)"):
        trained.step(trained.start(2), np.asarray([1, 0]))


@pytest.mark.slow
def test_a_classifier_of_vectors_says_what_it_has_read_so_far():
    trained = untrained(NETWORKS["gru"], "last", 3, (3,))
    inputs = jax.random.normal(jax.random.key(0), (2, STEPS, 3))
    state = trained.start(2)
    for t in range(STEPS):
        state, y = trained.step(state, inputs[:, t])
        np.testing.assert_allclose(y, trained.model.apply(trained.variables, inputs[:, : t + 1]), rtol=1e-5, atol=1e-6)


def test_predictions_are_compiled_once_and_refuse_unknown_symbols():
    trained = untrained(NETWORKS["gru"])
    for seed in range(2):
        inputs = jax.random.randint(jax.random.key(seed), (2, STEPS), 0, 5)
        np.testing.assert_allclose(trained.predict(inputs), trained.model.apply(trained.variables, inputs), rtol=1e-5, atol=1e-6)
    assert trained._inference._predict._cache_size() == 1
    with pytest.raises(UsageError, match="the inputs contain the symbol 5: expected numbers from 0 to 4"):
        trained.predict(jnp.full((2, STEPS), 5))


def test_text_is_refused_and_says_how_to_encode_it():
    trained = untrained(NETWORKS["gru"])
    for text in ("hello", b"hello", ["hello"]):
        with pytest.raises(UsageError, match=r"inputs are text: encode them, as in trained\.vocabulary\.encode\(text\)\[None\]"):
            trained.predict(text)
    with pytest.raises(UsageError, match="x is text: encode it"):
        trained.step(trained.start(1), "h")


def test_a_language_model_continues_a_prompt():
    """A kept network of characters. Texts of one length are compiled once, at any temperature."""
    trained = load(RESULTS / "char_lm" / "quick-lrd-seed0")
    texts = [trained.sample("The ", 12, temperature=temperature, seed=seed) for temperature, seed in ((0.5, 0), (0.5, 0), (0.5, 1), (0, 1))]
    assert texts[0] == texts[1] != texts[2] != texts[3] == trained.sample("The ", 12, temperature=0, seed=2)
    assert all(text.startswith("The ") and len(text) == 16 for text in texts)
    assert trained.writer._sample._cache_size() == 1
    pickle.loads(pickle.dumps(trained))
    with pytest.warns(UserWarning, match="the text that was learned has no character '\u2603': the network reads the unknown symbol"):
        assert trained.sample("a\u2603", 0) == "a\u2603"
    with pytest.raises(UsageError, match="expected at least one character of the text that was learned"):
        trained.sample("\u2603")
    with pytest.raises(UsageError, match="holds a run of adding, which is no language model: name a run of a language model"):
        load(RESULTS / "adding" / "adding-lrd-seed2").sample()


def test_vectors_of_another_width_are_not_offered_symbols():
    trained = untrained(NETWORKS["gru"], "last", 2, (2,))
    for shape in ((2, STEPS, 5), (STEPS, 2), (2,)):
        with pytest.raises(UsageError) as raised:
            trained.predict(jnp.zeros(shape))
        assert str(raised.value) == f"inputs are float32 of shape {shape}: expected numbers of shape (batch, time, 2)"


def test_a_state_of_other_rows_than_the_inputs_names_both():
    trained = untrained(NETWORKS["gru"], "last", 2, (2,))
    with pytest.raises(UsageError, match="the state has 3 rows and the inputs have 2: give a state with one row"):
        trained.step(trained.start(rows=3), jnp.zeros((2, 2)))


def test_a_state_that_is_none_says_where_to_get_one():
    trained = untrained(NETWORKS["gru"], "last", 2, (2,))
    state, x = trained.start(2), jnp.zeros((2, 2))
    for given, says in ((x, r"an array of shape \(2, 2\)"), (state.carry, r"an array of shape \(2, 6\)"), ((1, 2), "of type tuple")):
        with pytest.raises(UsageError, match=rf"state is {says}: give what start\(\) or step\(\) returned"):
            trained.step(given, x)


def test_a_loaded_network_says_what_it_is(custom):
    trained = lrpt.load(custom)
    assert repr(trained) == f"Loaded('{custom}': {trained.label}, update {trained.update})"


def test_a_network_that_was_used_can_be_pickled(custom):
    """A pool of processes pickles it."""
    trained = lrpt.load(custom)
    example = trained.task.splits["test"].batch(trained.task.splits["test"].arrays, jnp.zeros(1, jnp.int32)).inputs
    expected = trained.predict(example)
    trained.step(trained.start(), example[:, 0])
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(trained)).predict(example), expected)


def test_a_trained_run(custom):
    trained = lrpt.load(custom)
    assert (trained.experiment, trained.seed, trained.update, trained.is_kept) == ("custom", 0, 1, False)
    assert trained.config == RunConfig(tiny.CONFIG.model, OptimConfig("copy_memory", 0.01), TRAIN, Own("fixed", 3, 8, 4))
    assert trained.vocabulary is None
    result = json.loads((custom / "result.json").read_text())
    assert trained.evaluate()["test"] == pytest.approx(result["metrics"]["test"], rel=1e-6)


def test_the_best_state_and_the_last_one(worse):
    best, last = (load(worse, state=state) for state in ("best", "last"))
    assert (best.update, last.update, load(worse).update) == (1, 2, 1)
    assert best.evaluate().keys() == {"test"}, "validation examples are the test examples"
    lines = [line for line in tiny.lines(worse) if line["split"] == "valid"]
    for trained, line in zip((best, last), lines, strict=True):
        assert trained.evaluate()["test"]["loss"] == pytest.approx(line["loss"], rel=1e-6)
    assert best.evaluate(variables=last.variables) == last.evaluate()


def test_a_damaged_best_checkpoint_is_replaced_by_the_last_one(worse, tmp_path):
    path, said = shutil.copytree(worse, tmp_path / "run"), []
    (path / "checkpoints" / "1" / "seal.json").write_text("{}")
    assert load(path, warn=said.append).update == 2
    (warning,) = said
    assert warning.startswith("the best checkpoint, of update 1, in ")
    assert warning.endswith("these are the weights of update 2")


def test_the_state_of_a_run_that_was_interrupted_before_its_first_evaluation(tmp_path):
    with tiny.interrupted_after(1):
        fitted(tmp_path / "run", train=replace(TRAIN, updates=4, evaluate_every=4))
    assert load(tmp_path / "run").update == 1


def test_a_run_with_checkpoints_is_no_kept_result_even_if_its_weights_are_kept_there_too(worse, tmp_path):
    path = shutil.copytree(worse, tmp_path / "run")
    weights.keep(path, *pack(load(path)))
    last = load(path, state="last")
    assert (last.is_kept, last.update) == (False, 2)
    shutil.rmtree(path / "checkpoints")
    kept = load(path)
    assert (kept.is_kept, kept.update) == (True, 1)


def changed(trained):
    trained.variables = jax.tree.map(lambda array: 1.5 * array, trained.variables)
    return trained


def assert_saved(trained, inputs, path):
    """Save a network with other variables, and load it again: it predicts the same, and no file has metrics."""
    before, wanted = trained.predict(inputs), changed(trained).predict(inputs)
    assert not np.allclose(before, wanted)
    trained.save(path)
    assert sorted(file.name for file in path.iterdir()) == ["config.json", "model.npz", "weights.json"]
    assert [file.name for file in path.parent.iterdir()] == [path.name], "nothing is left beside it"
    assert "loss" not in (path / "weights.json").read_text()
    found = load(path)
    assert (found.is_kept, found.update, found.config) == (True, trained.update, trained.config)
    np.testing.assert_array_equal(found.predict(inputs), wanted)
    return found


def test_a_run_with_checkpoints_is_saved_with_other_variables(worse, tmp_path):
    before = tiny.tree(worse)
    found = assert_saved(load(worse), jnp.asarray([[1, 2, 3, 4, 5, 6]]), tmp_path / "a" / "tuned")
    assert tiny.tree(worse) == before
    assert found.evaluate() == changed(load(worse)).evaluate()
    ids = [json.loads((path / "config.json").read_text())["run"] for path in (worse, found.path)]
    assert ids[0] != ids[1]
    assert weights.metadata_of(found.path)["origin"] == ids[0]
    with pytest.raises(UsageError, match="keeps the weights of the best state alone"):
        load(found.path, state="last")


def test_a_kept_network_is_saved_with_other_variables(tmp_path):
    inputs = np.random.default_rng(0).random((2, 5, 2)).astype(np.float32)
    again = assert_saved(load(KEPT), inputs, tmp_path / "a" / "tuned")
    assert_saved(again, inputs, tmp_path / "b" / "again")
    assert_saved(pickle.loads(pickle.dumps(load(KEPT))), inputs, tmp_path / "c" / "pickled")


def test_no_run_is_overwritten_and_nothing_else_either(worse, tmp_path):
    trained = load(worse)
    (tmp_path / "file").write_text("")
    (tmp_path / "empty").mkdir()
    trained.save(str(tmp_path / "empty"))
    before = tiny.tree(tmp_path)
    for path, kind in {worse: "a run", tmp_path / "empty": "a run", tmp_path: "files"}.items():
        with pytest.raises(UsageError, match=f"^directory is {path}, which holds {kind}: name a new or an empty directory"):
            trained.save(path)
    for path, kind in {tmp_path / "file": "a file", tmp_path / "file" / "below": f"below the file {tmp_path / 'file'}"}.items():
        with pytest.raises(UsageError, match=f"^directory is {path}, {kind}: name a directory"):
            trained.save(path)
    assert tiny.tree(tmp_path) == before


def test_no_run_begins_in_the_directory_of_a_saved_network(worse, tmp_path):
    load(worse).save(tmp_path / "tuned")
    before = tiny.tree(tmp_path)
    with pytest.raises(UsageError, match="holds a network that was saved without a run: name another --workdir"):
        fit(tiny.CONFIG, {0: tmp_path / "tuned"}, devices=1)
    assert tiny.tree(tmp_path) == before


def test_variables_that_are_not_of_the_network_are_not_saved(worse, tmp_path):
    trained, own = load(worse), load(worse).variables
    for variables, says in (({"params": {}}, "is missing"), (jax.tree.map(lambda a: a * np.nan, own), "not finite")):
        trained.variables = variables
        with pytest.raises(UsageError, match=says):
            trained.save(tmp_path / "new")
    assert list(tmp_path.iterdir()) == []


def test_a_saved_directory_is_complete_or_absent(worse, tmp_path, monkeypatch):
    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(weights, "keep", fail)
    with pytest.raises(UsageError, match=r"cannot be written \(No space left on device\)"):
        load(worse).save(tmp_path / "new")
    assert list(tmp_path.iterdir()) == []


def test_a_text_that_is_another_now_is_named_as_the_result_names_it(monkeypatch):
    monkeypatch.setattr("lrpt.tasks.text.python_documentation", lambda: "the cat sat on a mat\n" * 2000)
    path = KEPT.parents[1] / "char_lm" / "quick-lrd-seed0"
    says = rf"^{path} holds a run on a text with SHA-256 6d5b\w+ \(python 3\.11\.7\), and python {platform.python_version()} has "
    with pytest.raises(UsageError, match=says):
        load(path).task  # noqa: B018


def test_kept_weights_that_were_changed_are_refused(worse, tmp_path):
    shutil.copy(worse / "config.json", tmp_path)
    weights.keep(tmp_path, *pack(load(worse)))
    load(tmp_path)
    shutil.copy(KEPT / "model.npz", tmp_path)
    with pytest.raises(UsageError, match=r"model\.npz was changed"):
        load(tmp_path)


def test_initial_variables_are_those_of_the_seed(worse):
    trained = load(worse)
    expected = init_state(trained.model, trained.task, trained.config.optim.build(), 3).variables
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-6), trained.initial, expected)


def test_steps_that_do_not_count_change_no_prediction(worse):
    trained, inputs = load(worse), jnp.asarray([[1, 2, 3, 4, 5, 6]])
    counted = jnp.asarray([[True, True, False, False, True, True]])
    found, expected = trained.predict(inputs, counted), trained.predict(inputs[:, [0, 1, 4, 5]])
    np.testing.assert_allclose(found[counted], expected[0], rtol=1e-5, atol=1e-6)


def test_reading_leaves_a_run_as_it_was(custom):
    before = tiny.tree(custom)
    load(custom)
    assert tiny.tree(custom) == before


def with_config(custom, tmp_path, **changes):
    """A directory with a changed `config.json`, and the checkpoints of the run."""
    content = json.loads((custom / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**content, **changes}))
    (tmp_path / "checkpoints").symlink_to(custom / "checkpoints")
    return tmp_path


def test_a_class_that_cannot_be_imported_is_given(custom, tmp_path):
    names = {"model": "lrpt.networks.sequence_model:ModelConfig", "data": "gone:Task"}
    path = with_config(custom, tmp_path, classes=names)
    with pytest.raises(UsageError, match=r"class gone:Task cannot be imported: give the class itself.* or run where module"):
        load(path)
    assert load(path, data=Own).config.data == Own("fixed", 3, 8, 4)


def test_a_run_without_names_of_classes(custom, tmp_path):
    path = with_config(custom, tmp_path, classes={})
    with pytest.raises(UsageError, match=r"config\.json names no classes: give them to lrpt\.load as model= and data="):
        load(path)
    assert load(path, model=ModelConfig, data=Own).update == 1


def altered(run, path, **changes):
    """A copy of a run with other settings of a group in `config.json`."""
    shutil.copytree(run, path, dirs_exist_ok=True)
    content = json.loads((path / "config.json").read_text())
    (path / "config.json").write_text(json.dumps(content | {name: content[name] | own for name, own in changes.items()}))
    return path


def test_a_configuration_that_the_result_contradicts(custom, tmp_path):
    path = altered(custom, tmp_path / "run", optim={"learning_rate": 0.5}, data={"lag": 4}, train={"updates": 9})
    with pytest.raises(UsageError, match=r"config\.json: optim\.learning_rate is 0\.5, and result\.json has 0\.01: restore config"):
        load(path)
    (path / "result.json").unlink()
    assert load(path).config.optim.initial_learning_rate == 0.5


def test_what_a_resumed_run_may_change_is_no_contradiction(custom, tmp_path):
    assert load(altered(custom, tmp_path / "run", train={"updates": 9, "evaluation_batch": 2})).config.train.updates == 9


def test_a_result_that_is_damaged_or_of_another_run_contradicts_nothing(custom, tmp_path):
    path = altered(custom, tmp_path / "run", optim={"learning_rate": 0.5})
    result = json.loads((path / "result.json").read_text())
    for content in ("{", "[]", json.dumps(result | {"updates": 2}), json.dumps(sealed(result | {"run": "another"}))):
        (path / "result.json").write_text(content)
        assert load(path).config.optim.initial_learning_rate == 0.5


@pytest.mark.parametrize("content", ["[" * 100_000, "[]", "{"], ids=["nested", "list", "cut"])
def test_a_configuration_that_is_no_object(content, tmp_path):
    (tmp_path / "config.json").write_text(content)
    with pytest.raises(UsageError, match=r"config\.json is damaged, or not of a run"):
        load(tmp_path)


def test_a_configuration_that_is_a_pipe(tmp_path):
    os.mkfifo(tmp_path / "config.json")
    with pytest.raises(UsageError, match=r"config\.json cannot be read \(a device or a pipe\)"):
        load(tmp_path)


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.name)
def test_a_kept_result_needs_no_experiment(path, monkeypatch):
    monkeypatch.setitem(sys.modules, "experiments", None)
    identity = identity_of(path)
    assert {"model", "data"} == identity["classes"].keys()
    assert configuration(path, identity, Parts()).model.label


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"model": {"sise": 4}}, "model.sise is no setting of ModelConfig"),
        ({"model": {"rank": 9, "size": 4}}, "rank"),
        ({"data": {"variant": "fixed", "lag": None}}, "data.lag is None: expected a whole number"),
    ],
)
def test_settings_that_do_not_fit_are_one_line(changes, says, custom, tmp_path):
    with pytest.raises(UsageError, match=re.escape(says)):
        load(with_config(custom, tmp_path, **changes))


@pytest.mark.slow
def test_networks_without_steps_do_not_stream(tmp_path):
    model = HighwayConfig(depth=1, size=4, rank=2)
    trained = load(fitted(tmp_path / "run", model, ImageVectors("digits")))
    assert trained.variables.keys() == {"params", "batch_stats"}
    with pytest.raises(UsageError, match="which reads no sequences"):
        trained.start()
    with pytest.raises(UsageError, match="name a run of a recurrent network"):
        trained.over_time(np.ones((2, 64)))


MINE = """
from lrpt import CELLS
CELLS["mine"] = CELLS["gru"]
"""


@pytest.mark.slow
@pytest.mark.usefixtures("tables")
def test_a_module_is_imported_first(tmp_path, monkeypatch, assert_refused):
    (tmp_path / "mine_to_import.py").write_text(MINE)
    monkeypatch.syspath_prepend(tmp_path)
    run = ["--import", "mine_to_import", *tiny.flags(tiny.changed(train={"updates": 1})), "--model.cell", "gru"]
    words = [*run[:-1], "mine", "--workdir", str(tmp_path / "run")]
    assert_refused(partial(main, tiny.EXPERIMENT), words[2:], "model.cell is 'mine'")
    main(tiny.EXPERIMENT, words)
    del lrpt.CELLS["mine"]
    with pytest.raises(UsageError, match=r"model\.cell is 'mine'"):
        load(tmp_path / "run")
    sys.modules.pop("mine_to_import")
    assert load(tmp_path / "run", imports=["mine_to_import"]).config.model.cell == "mine"
    assert_refused(partial(main, tiny.EXPERIMENT), ["--import"], "--import names no module")
    assert_refused(partial(main, tiny.EXPERIMENT), ["--import=no_such"], "module 'no_such' cannot be imported")
    assert_refused(
        partial(main, tiny.EXPERIMENT), ["--import=a/mine.py"], "give its name, mine, in its folder or with the folder on PYTHONPATH"
    )


@pytest.mark.parametrize(
    ("recorded", "given", "found"),
    [
        ("PATH", None, None),
        ("PATH", "there", Path("there")),
        ("here", None, Path("here")),
        ("here", "there", Path("there")),
        (None, None, None),
    ],
)
def test_data_are_looked_for_elsewhere(recorded, given, found, tmp_path):
    result = KEPT.parents[1] / "bit_lm" / "bits-annealed-rnn-64-seed0"
    content = json.loads((result / "config.json").read_text())
    for name in ("model.npz", "weights.json"):
        (tmp_path / name).symlink_to(result / name)
    (tmp_path / "config.json").write_text(json.dumps({**content, "data": {**content["data"], "dir": recorded}}))
    assert load(tmp_path, data_dir=given).config.data.dir == found


def test_a_task_without_a_directory_of_data_is_not_changed(custom):
    assert load(custom, data_dir="elsewhere").config.data == Own("fixed", 3, 8, 4)


KEPT = Path(__file__).parents[2] / "experiments" / "results" / "adding" / "adding-lrd-seed2"


def test_weights_may_be_used_first_under_jit():
    """Weights that are read while JAX traces are arrays, and stay."""
    trained, xs = load(KEPT), jnp.ones((1, 3, 2))
    state = trained.start(rows=1)
    for x in jnp.swapaxes(xs, 0, 1):
        state, streamed = trained.step(state, x)
    again = load(KEPT)
    whole = jax.jit(lambda xs: again.model.apply(again.variables, xs))(xs)
    assert all(isinstance(leaf, jax.Array) and not isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(again.variables))
    np.testing.assert_allclose(streamed, whole, atol=1e-5)


RESULTS = KEPT.parents[1]


@pytest.mark.parametrize("name", ["adding/adding-lrd-seed2", "char_lm/quick-lrd-seed0", "bit_lm/bits-vcrnn-seed0", "jsb/quick-rhn-seed0"])
def test_the_recurrent_part_over_time_ends_in_the_state_of_the_network(name):
    """Vectors, symbols that are embedded, settings of a cell, and standardized inputs."""
    trained, rng = load(RESULTS / name), np.random.default_rng(0)
    own = trained.interface
    inputs = rng.integers(0, own.input_size, (2, 5)) if own.step == () else rng.normal(size=(2, 5, *own.step)).astype(np.float32)
    state = trained.start(rows=2)
    for x in np.swapaxes(inputs, 0, 1):
        state, _ = trained.step(state, x)
    parts = trained.over_time(inputs)
    carry, _ = lrpt.recur(*parts)
    for mine, theirs in zip(jax.tree.leaves(carry), jax.tree.leaves(state.carry), strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-5)
    standardized = trained.over_time(trained.scaling.standardize(jnp.asarray(inputs)), standardized=True)
    np.testing.assert_array_equal(standardized.xs, parts.xs)
    before = lrpt.recur(*trained.over_time(inputs, trained.initial))[0]
    assert not np.allclose(jax.tree.leaves(before)[0], jax.tree.leaves(carry)[0], atol=1e-2)


def test_only_sequences_of_recurrent_networks_are_over_time():
    with pytest.raises(UsageError, match=r"inputs have shape \(5,\): expected whole sequences"):
        load(RESULTS / "char_lm" / "quick-lrd-seed0").over_time(np.arange(5))
    with pytest.raises(UsageError, match=r"expected numbers of shape \(batch, time, 2\)"):
        load(KEPT).over_time(np.ones((2, 2)))


def test_a_state_of_another_name_is_refused():
    with pytest.raises(UsageError, match="state is 'newest': choose from best, last"):
        load(KEPT, state="newest")
    with pytest.raises(UsageError, match="keeps the weights of the best state alone: choose --state best"):
        load(KEPT, state="last")


def test_integers_are_numbers_if_the_network_reads_vectors():
    trained, numbers = load(KEPT), np.arange(12).reshape(2, 3, 2) % 2
    np.testing.assert_array_equal(trained.predict(numbers), trained.predict(numbers.astype(np.float32)))


def test_a_run_with_a_cell_of_the_users_says_how_to_import_it(tmp_path):
    recorded = json.loads((KEPT / "config.json").read_text())
    recorded["model"]["cell"] = "mine"
    (tmp_path / "config.json").write_text(json.dumps(recorded))
    with pytest.raises(UsageError, match=r"model\.cell is 'mine': choose from .*; or import the module that adds it, with --import"):
        load(tmp_path)


def test_one_module_may_be_named_without_a_list():
    with pytest.raises(UsageError, match="module 'no_such_module' cannot be imported"):
        load(KEPT, imports="no_such_module")


def test_a_directory_of_several_runs_is_told_with_one_of_them(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "config.json").write_text("{}")
    with pytest.raises(UsageError, match=rf"name the directory of a run, such as {tmp_path / 'b'}$"):
        load(tmp_path)
    with pytest.raises(UsageError, match=r"name the directory of a run$"):
        load(tmp_path / "a")


@register_fields
@dataclass(frozen=True, eq=False)
class Gathered:
    """A circulant matrix that indexes its array."""

    row: jax.Array

    def apply(self, v):
        return v @ self.to_dense()

    def to_dense(self):
        n = jnp.arange(self.row.size)
        return self.row[(n[None] - n[:, None]) % self.row.size]


class GatheredMatrices(Parametrization):
    settings = ()

    @nn.compact
    def __call__(self):
        return {name: Gathered(**self.factor(name, row=(spec.n_out,))) for name, spec in self.specs.items()}


def test_a_matrix_may_index_its_arrays(tmp_path, monkeypatch):
    """Those of a file are of NumPy, which traced numbers do not index."""
    monkeypatch.setitem(PARAMETRIZATIONS, "gathered", GatheredMatrices)
    train = TrainConfig(updates=1, batch_size=4, evaluate_every=1, evaluation_batch=10)
    fit(RunConfig(ModelConfig("gru", 4, parametrization="gathered"), OptimConfig("adam"), train, CopyMemory(lag=2)), {0: tmp_path / "run"})
    trained = load(tmp_path / "run")
    inputs = trained.task.splits["test"].batch(trained.task.splits["test"].arrays, [0, 1]).inputs
    expected = trained.predict(inputs)
    numbers = {**trained.variables, "params": jax.tree.map(np.asarray, trained.variables["params"])}
    for found in (trained.model.apply(numbers, inputs), jax.jit(lambda xs: trained.model.apply(numbers, xs))(inputs)):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    assert lrpt.recur(*trained.over_time(inputs))[1].shape[1:] == (2, 4)


def test_sequences_of_several_lengths_are_explained():
    with pytest.raises(UsageError, match=r"inputs have several lengths: pad them to one length, and give a mask \(batch, time\)"):
        load(KEPT).predict([np.ones((3, 2)), np.ones((4, 2))])
