"""Tasks of streams: the state is carried from window to window, through checkpoints, devices and evaluation."""

import dataclasses
import json
import shutil
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from table import assert_close, cell_without_a_state
from tiny import interrupted_after, lines, tree, write_stream

import lrpt
from lrpt.cells import CELLS
from lrpt.devices import parallel
from lrpt.errors import UsageError
from lrpt.losses import cross_entropy
from lrpt.networks.sequence_model import ModelConfig, SequenceModel
from lrpt.optim import OptimConfig
from lrpt.runs.files import sealed, write_json
from lrpt.tasks import NextSymbol
from lrpt.tasks.order import batch_indices
from lrpt.trained.one_stream import in_windows
from lrpt.training.config import RunConfig, TrainConfig
from lrpt.training.interface import Interface
from lrpt.training.loop import fit
from lrpt.training.program import Program, evaluator_of_one
from lrpt.training.step import init_state, streams_to_reset, train_step, train_steps

STEPS, ROWS = 5, 4


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    """A text of 13 windows a row in the training part; 32 updates are two passes and a bit, in calls of one length."""
    path = write_stream(tmp_path_factory.mktemp("text") / "text.txt")
    train = TrainConfig(updates=32, batch_size=ROWS, order="stream", evaluate_every=8, evaluation_batch=2, updates_per_call=4)
    model = ModelConfig(cell="lstm", size=6, rank=2, carry_bias=0.0)
    return RunConfig(model, OptimConfig("adam", 0.01), train, NextSymbol(file=path, reading="stream", steps=STEPS))


@pytest.mark.slow
def test_state_is_carried_within_a_pass_and_begins_anew_with_the_next(config):
    task = config.data.build(0)
    train = task.splits["train"]
    windows = train.size // ROWS
    model, optimizer = SequenceModel(config.model, task.input_size, task.output_size, "all"), config.optim.build()
    state = init_state(model, task, optimizer, 0, ROWS)
    update = jax.jit(lambda state, batch, reset: train_step(model, task, optimizer, state, batch, reset=reset))
    read = jax.jit(lambda params, inputs: model.apply(params, inputs, method="advance"))
    for position in (0, 1, 2, 0):
        rows = jnp.arange(ROWS) * windows + position
        before, batch = state, train.batch(train.arrays, rows)
        if position == 0:
            inputs = batch.inputs
            expected = read({"params": before.params}, inputs)[1]
        state, _ = update(before, batch, position == 0)
        if position == 0:
            assert_close(state.carry, expected)
        else:
            assert np.abs(np.asarray(state.carry.h) - np.asarray(read({"params": before.params}, batch.inputs)[1].h)).max() > 1e-4


def test_streams_start_afresh_one_after_the_other():
    """Three streams of seven windows, each afresh once in six updates."""
    found = [streams_to_reset(jnp.asarray([0, 7, 14]) + place, jnp.asarray(place), 7, 21, 6) for place in range(7)]
    rows = [[True] * 3, [False] * 3, [False, False, True], [False] * 3, [False, True, False], [False] * 3, [True, False, False]]
    assert np.asarray(found).tolist() == rows
    assert bool(streams_to_reset(jnp.asarray([0]), jnp.asarray(0), 7, 7, None))
    assert not bool(streams_to_reset(jnp.asarray([3]), jnp.asarray(3), 7, 7, None))


def test_streams_that_hardly_ever_start_afresh_do_so_at_their_first_update_only():
    """A row times the interval exceeds 32 bits."""
    rows = jnp.arange(32) * 1_000
    assert np.asarray(streams_to_reset(rows, jnp.asarray(0), 1_000, 32_000, 2**31 - 1)).all()
    assert not np.asarray(streams_to_reset(rows + 1, jnp.asarray(1), 1_000, 32_000, 2**31 - 1)).any()


def test_starts_are_spread_over_an_interval_that_is_no_multiple_of_the_streams():
    """Three streams in an interval of five updates: 5 / 3 of an update lies between two starts, rounded down from the last one."""
    found = [streams_to_reset(jnp.asarray([0, 7, 14]) + place, jnp.asarray(place), 7, 21, 5) for place in range(1, 6)]
    assert [np.flatnonzero(row).tolist() for row in np.asarray(found)] == [[], [2], [], [1], [0]]


def test_rows_that_start_afresh_read_from_the_initial_state(config):
    task, every = config.data.build(0), 3
    train = task.splits["train"]
    windows = train.size // ROWS
    model, optimizer = SequenceModel(config.model, task.input_size, task.output_size, "all"), config.optim.build()
    start = init_state(model, task, optimizer, 0, ROWS)
    indices = jnp.asarray(batch_indices("stream", train.size, ROWS, 0, 0, 5))
    update = jax.jit(lambda state, rows, reset: train_step(model, task, optimizer, state, train.batch(train.arrays, rows), reset=reset)[0])
    expected = start
    for place, rows in enumerate(indices):
        expected = update(expected, rows, streams_to_reset(rows, jnp.asarray(place), windows, train.size, every))
    steps = jax.jit(
        lambda reset_every: train_steps(
            model, task, lambda made: optimizer, start, train.arrays, indices, epoch=windows, reset_every=reset_every
        )[0],
        static_argnums=0,
    )
    assert_close(steps(every).params, expected.params)
    assert np.abs(np.asarray(steps(every).carry.h) - np.asarray(steps(None).carry.h)).max() > 1e-4
    own = update(start, indices[0], True).carry.h
    alone = update(start._replace(carry=jax.tree.map(jnp.ones_like, start.carry)), indices[0], jnp.arange(ROWS) == 1).carry.h
    assert_close(alone[1], own[1])
    assert np.abs(np.asarray(alone[0] - own[0])).max() > 1e-4


def test_a_cell_without_a_state_reads_streams(config, tables, tmp_path):
    """With an optimizer that recovers, which looks for states that are not finite."""
    CELLS["mine"] = cell_without_a_state(())
    train = dataclasses.replace(config.train, updates=4, evaluate_every=2, updates_per_call=2)
    own = dataclasses.replace(config, model=ModelConfig("mine", 4, parametrization="dense"), optim=OptimConfig("char_lm"), train=train)
    fit(own, {0: tmp_path / "run"}, devices=1)
    assert lrpt.load(tmp_path / "run").update == 4


@pytest.mark.parametrize("every", [None, 5])
def test_the_program_of_a_run_starts_streams_afresh_at_epochs_and_every_few_updates(every, config):
    """54 windows are four rows of 13, so update 13 begins the second epoch; the windows that are left over do not count."""
    task, layout, updates = config.data.build(0), parallel.Layout(1, 1), 16
    train = task.splits["train"]
    assert train.size == 54
    program = Program(dataclasses.replace(config, train=dataclasses.replace(config.train, fresh_every=every)), task, layout)
    model, optimizer = SequenceModel(config.model, task.input_size, task.output_size, "all"), config.optim.build()
    state, indices = init_state(model, task, optimizer, 0, ROWS), batch_indices("stream", train.size, ROWS, 0, 0, updates)
    host = jax.device_get(state)
    placed = parallel.place(layout, [host._replace(carry=None)])._replace(carry=parallel.scatter(layout, [host.carry]))
    arrays, rate = (parallel.place(layout, [tree]) for tree in (train.arrays, jnp.float32(config.optim.initial_learning_rate)))
    _, found = program.train(placed, arrays, parallel.shard_batch(layout, [indices]), rate)

    update = jax.jit(lambda state, rows, reset: train_step(model, task, optimizer, state, train.batch(train.arrays, rows), reset=reset))
    losses = []
    for number, rows in enumerate(indices):
        place = number % 13
        reset = [place == 0 or (every is not None and (place + row * every // ROWS) % every == 0) for row in range(ROWS)]
        state, metrics = update(state, rows, jnp.asarray(reset))
        losses.append(metrics["loss"])
    assert_close(parallel.fetch(layout, found)[0]["loss"], losses, rtol=1e-5)


@pytest.mark.parametrize("order", ["epochs", "stream"])
def test_states_that_are_not_carried_cannot_start_afresh(order, config, tmp_path):
    data = dataclasses.replace(config.data, reading="sentences") if order == "epochs" else config.data
    train = dataclasses.replace(config.train, order=order, fresh_every=2, updates=4, evaluate_every=4)
    run = partial(fit, dataclasses.replace(config, data=data, train=train), {0: tmp_path / "run"}, devices=1)
    if order == "stream":
        assert run()[0]["updates"] == 4
    else:
        with pytest.raises(UsageError, match=r"train\.fresh_every is 2, and only order stream carries states"):
            run()


def test_evaluation_in_one_stream_reads_the_whole_text(config):
    """As one sequence from the first symbol to the last, from the initial state that was trained."""
    task = config.data.build(0)
    model = SequenceModel(config.model, task.input_size, task.output_size, "all")
    variables = init_state(model, task, config.optim.build(), 0, ROWS).variables
    own = variables["params"]["recurrent"]
    own["initial_state"] = jax.tree.map(jnp.ones_like, own["initial_state"])
    figures = evaluator_of_one(model, task, "valid", 1)(variables)
    text = np.asarray(task.splits["valid"].arrays["text"][: task.metadata["symbols"]["valid"] + 1], np.int32)
    losses = cross_entropy(model.apply(variables, text[None, :-1])[0], jnp.asarray(text[1:]))
    assert figures["loss"] == pytest.approx(float(losses.mean()), rel=1e-5)
    assert figures["bits_per_character"] == pytest.approx(float(losses.mean()) / np.log(2), rel=1e-5)


@pytest.mark.parametrize("words", [None, 2], ids=["symbols", "words"])
def test_a_split_in_other_windows_is_that_of_a_task_with_such_windows(words, config):
    """Inputs that mark the ends of words stay inputs of this kind."""
    data = dataclasses.replace(config.data, words=words)
    found = in_windows(data.build(0).splits["test"], 7)
    expected = dataclasses.replace(data, steps=7).build(0).splits["test"]
    assert found.size == expected.size
    rows = jnp.arange(found.size)
    jax.tree.map(np.testing.assert_array_equal, found.batch(found.arrays, rows), expected.batch(expected.arrays, rows))


@pytest.mark.slow
def test_a_resumed_run_goes_on_in_the_middle_of_the_streams(config, whole, tmp_path):
    with interrupted_after(7):
        fit(config, {0: tmp_path / "run"}, devices=1)
    fit(config, {0: tmp_path / "run"}, devices=1)
    assert lines(tmp_path / "run") == lines(whole)
    results = [json.loads((path / "result.json").read_text())["metrics"] for path in (tmp_path / "run", whole)]
    assert results[0] == results[1]


@pytest.mark.devices(2)
@pytest.mark.slow
def test_rows_on_two_devices_are_those_of_one_but_for_rounding(config, whole, tmp_path):
    fit(config, {0: tmp_path / "run"}, devices=2)
    for found, expected in zip(lines(tmp_path / "run"), lines(whole), strict=True):
        assert_close(found["loss"], expected["loss"], rtol=1e-4)


@pytest.mark.devices(2)
@pytest.mark.slow
def test_an_odd_number_of_streams_is_evaluated_alike_on_two_devices(config, tmp_path):
    odd = dataclasses.replace(config, train=dataclasses.replace(config.train, evaluation_batch=3))
    one, two = (fit(odd, {0: tmp_path / str(devices)}, devices=devices)[0]["metrics"] for devices in (1, 2))
    for split in ("valid", "test"):
        assert_close(two[split]["loss"], one[split]["loss"], rtol=1e-4)


def test_what_is_reported_is_of_the_whole_corpus(whole):
    result = json.loads((whole / "result.json").read_text())
    valid = result["metrics"]["valid"]
    assert {"loss", "perplexity", "bits_per_character", "lowest_perplexity", "lowest_bits_per_character"} == valid.keys()
    assert valid["perplexity"] == pytest.approx(np.exp(valid["loss"]))
    assert result["data"]["text"].endswith("text.txt")


def test_a_run_that_is_read_again_is_evaluated_in_as_many_streams(config, whole):
    trained, result = lrpt.load(whole), json.loads((whole / "result.json").read_text())
    assert trained.task.splits["valid"].size > config.train.evaluation_batch
    for split, found in trained.evaluate().items():
        assert found == pytest.approx({name: result["metrics"][split][name] for name in found}, rel=1e-6)


def test_the_test_split_is_evaluated_in_as_many_streams(config, tmp_path):
    train = dataclasses.replace(config.train, updates=8, evaluation_batch=1)
    (result,) = fit(dataclasses.replace(config, train=train), {0: tmp_path / "run"}, devices=1)
    trained = lrpt.load(tmp_path / "run")
    assert trained.task.splits["test"].size > 1
    assert trained.evaluate()["test"]["loss"] == pytest.approx(result["metrics"]["test"]["loss"], rel=1e-6)


def test_a_finished_run_of_a_text_that_was_replaced_is_refused(config, whole, tmp_path):
    """One whose text is gone is finished, because it needs none."""
    path = shutil.copytree(whole, tmp_path / "run")
    text = shutil.copy(config.data.file, tmp_path / "text.txt")
    moved = dataclasses.replace(config, data=dataclasses.replace(config.data, file=text))
    for name in ("config.json", "result.json"):
        content = json.loads((path / name).read_text())
        content.get("config", content)["data"]["file"] = str(text)
        write_json(path / name, sealed(content) if name == "result.json" else content)
    before = tree(path)
    (found,) = fit(moved, {0: path}, devices=1)
    text.write_text(text.read_text().translate(str.maketrans("ab", "ba")))  # the network fits this text, too
    longer = dataclasses.replace(moved, train=dataclasses.replace(moved.train, updates=40))
    with pytest.raises(UsageError, match=f"{path} holds a run on a text with SHA-256 .*name another --workdir"):
        fit(longer, {0: path}, devices=1)
    with pytest.raises(UsageError, match=f"{path} holds a run on a text with SHA-256 {found['data']['sha256']}, and {text} has "):
        fit(moved, {0: path}, devices=1)
    with pytest.raises(UsageError, match=f"{path} holds a run on a text with SHA-256 .*name another run"):
        lrpt.load(path).evaluate()
    text.unlink()
    assert fit(moved, {0: path}, devices=1) == [found]
    assert tree(path) == before


def test_a_network_is_used_without_its_text(config, whole, tmp_path):
    """As on another machine. A run that was trained before its task was described reads the text, and so does one with a damaged file."""
    path = shutil.copytree(whole, tmp_path / "run")
    text = shutil.copy(config.data.file, tmp_path / "text.txt")
    content = json.loads((path / "config.json").read_text())
    content["data"]["file"] = str(text)
    write_json(path / "config.json", content)
    (path / "result.json").unlink()
    usual = lrpt.load(path)
    interface, vocabulary = Interface.of(usual.task), usual.task.vocabulary
    symbols = np.arange(6)[None] % interface.input_size
    expected = usual.predict(symbols)

    text.unlink()
    alone = lrpt.load(path)
    assert (alone.interface, alone.vocabulary) == (interface, vocabulary)
    np.testing.assert_array_equal(alone.predict(symbols), expected)
    with pytest.raises(UsageError, match=f"{text}"):
        alone.evaluate()
    for damage in (lambda file: file.write_text(file.read_text().replace('"all"', '"last"')), lambda file: file.unlink()):
        damage(path / "task.json")
        with pytest.raises(UsageError, match=f"{text}"):
            lrpt.load(path)
    shutil.copy(config.data.file, text)
    np.testing.assert_array_equal(lrpt.load(path).predict(symbols), expected)


def test_the_number_of_streams_of_an_evaluation_does_not_change(config, whole):
    other = dataclasses.replace(config, train=dataclasses.replace(config.train, evaluation_batch=3, updates=40))
    with pytest.raises(UsageError, match=f"{whole} holds a run with train.evaluation_batch = 2, not 3: repeat its flags"):
        fit(other, {0: whole}, devices=1)


@pytest.mark.parametrize(("reading", "order"), [("stream", "epochs"), ("sentences", "stream")])
def test_streams_are_read_in_order_and_nothing_else_is(config, tmp_path, reading, order):
    data, train = dataclasses.replace(config.data, reading=reading), dataclasses.replace(config.train, order=order)
    with pytest.raises(UsageError, match=f"train.order is {order}"):
        fit(dataclasses.replace(config, data=data, train=train), {0: tmp_path / "run"}, devices=1)
