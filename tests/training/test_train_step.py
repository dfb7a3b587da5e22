"""One update: against the plain formula, compiled once, with recoveries counted, with losses that are not finite."""

import dataclasses
import json
from dataclasses import dataclass
from functools import partial

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from table import assert_close
from tiny import CONFIG, changed, lines

from lrpt.devices import parallel, processes
from lrpt.errors import UsageError
from lrpt.networks.highway_classifier import HighwayConfig, HighwayDropoutConfig
from lrpt.networks.sequence_model import ModelConfig, SequenceModel
from lrpt.networks.variable_computation import VariableConfig
from lrpt.optim import RECIPES, OptimConfig, Recipe, clip_or_shrink
from lrpt.runs.console import Console
from lrpt.runs.run_directory import RunDirectory
from lrpt.tasks import Adding, Chorales, Example, ImageVectors, NextSymbol
from lrpt.tasks.task import Split, Task
from lrpt.training.annealing import Annealing
from lrpt.training.config import RunConfig
from lrpt.training.loop import fit
from lrpt.training.program import Program
from lrpt.training.progress import Progress, Tally
from lrpt.training.run import Run
from lrpt.training.step import ALONE, Collectives, evaluate, init_state, layer_norms, train_step, train_steps

TASK = CONFIG.data.build(0)
MODEL = SequenceModel(CONFIG.model, TASK.input_size, TASK.output_size, TASK.reads)
OPTIMIZER = CONFIG.optim.build()


@partial(jax.jit, static_argnames="split")
def batch(rows, split="train"):
    return TASK.splits[split].batch(TASK.splits[split].arrays, rows)


@pytest.fixture(scope="module")
def state():
    return init_state(MODEL, TASK, OPTIMIZER, 0)


def test_an_update_is_one_of_gradient_descent(state):
    """With plain gradient descent the change of the parameters is the gradient of the mean cross-entropy, which is written out here."""
    descent = optax.sgd(0.5)
    start = state._replace(opt_state=descent.init(state.params))
    examples = batch(np.array([3, 1, 4]))

    def mean_loss(params):
        logits = MODEL.apply({"params": params}, examples.inputs)
        probabilities = jnp.exp(logits) / jnp.exp(logits).sum(-1, keepdims=True)
        return -jnp.log(jnp.take_along_axis(probabilities, examples.targets[..., None], -1)).mean()

    loss, gradient = jax.jit(jax.value_and_grad(mean_loss))(state.params)
    after, figures = jax.jit(partial(train_step, MODEL, TASK, descent))(start, examples)
    assert_close(after.params, jax.tree.map(lambda p, g: p - 0.5 * g, state.params, gradient))
    assert_close(figures["loss"], loss)
    assert_close(figures["gradient_norm"], np.sqrt(sum(np.square(g).sum() for g in jax.tree.leaves(gradient))))
    assert after.update == 1


def test_gradients_of_a_stack_are_measured_by_layer():
    cell = {
        "bias": {"layers_0_reset": jnp.full(4, 1.0), "layers_10_reset": jnp.full(4, 3.0)},
        "recurrent": {"layers_0_reset": {"left": jnp.full((2, 4), 1.0)}, "shared_layers_0": {"right": jnp.full((1, 4), 1.0)}},
    }
    stack = SequenceModel(ModelConfig("gru", 4, rank=2, layers=11), 3, 2)
    norms = layer_norms(stack, {"recurrent": {"cell": cell}, "readout": {"bias": jnp.ones(3)}})
    assert_close(norms, {"gradient_norm_layer_1": 4.0, "gradient_norm_layer_11": 6.0})
    assert layer_norms(MODEL, {"recurrent": {"cell": {"bias": {"reset": jnp.ones(4)}}}}) == {}


@pytest.mark.parametrize("shared", [False, True])
def test_every_parameter_of_the_cells_of_a_stack_belongs_to_one_layer(shared):
    """Also what tied matrices share, scales of weight normalization, operators and biases."""
    config = ModelConfig("unitary", 3, layers=2, shared_layers=shared, weight_norm=True, tied=True, embedding=6)
    params = config.parameter_shapes(3, 2)
    found = config.build(3, 2, "last").by_layer(params)
    assert sorted(found) == [0, 1][: 2 - shared]
    leaves = [leaf for layer in found.values() for leaf in layer]
    assert len(leaves) == len(jax.tree.leaves(params["recurrent"]["cell"]))
    tied = ModelConfig("rhn", 4, depth=2, rank=2, layers=2, tied=True, weight_norm=True)
    params = tied.parameter_shapes(3, 2)
    one, other = tied.build(3, 2, "last").by_layer(params).values()
    assert len(one) + len(other) == len(jax.tree.leaves(params["recurrent"]["cell"]))
    assert len(one) == len(other)


def test_many_updates_in_one_call_are_single_ones(state):
    train = TASK.splits["train"]
    rows = np.random.default_rng(0).permutation(50)[:20].reshape(5, 4)
    together, figures = jax.jit(partial(train_steps, MODEL, TASK, lambda update: OPTIMIZER))(state, train.arrays, rows)
    step = jax.jit(partial(train_step, MODEL, TASK, OPTIMIZER))
    single, losses = state, []
    for row in rows:
        single, one = step(single, batch(row))
        losses.append(one["loss"])
    assert_close(together, single)
    assert_close(figures["loss"], losses)
    assert step._cache_size() == 1, "the step was compiled more than once"


def test_the_rate_of_an_update_is_that_of_the_number_of_updates_before_it(state):
    """Rates that are very different, so that one update more or less would be seen."""
    rates, rows = jnp.asarray([0.5, 0.0, 0.25]), np.arange(12).reshape(3, 4)
    start = state._replace(opt_state=optax.sgd(0.5).init(state.params))
    by_number = partial(train_steps, MODEL, TASK, lambda update: optax.sgd(rates[update]))
    together, _ = jax.jit(by_number)(start, TASK.splits["train"].arrays, rows)
    step = jax.jit(lambda state, batch, rate: train_step(MODEL, TASK, optax.sgd(rate), state, batch)[0])
    for rate, row in zip(rates, rows, strict=True):
        start = step(start, batch(row), rate)
    assert_close(together.params, start.params)


def test_norms_are_of_gradients_and_not_of_updates():
    """So they are the same with a learning rate of 0. Squares of the parts add up to that of the whole."""
    config = VariableConfig("vcgru", 4, parametrization="dense", embedding=4, layers=2)
    model, examples = config.build(TASK.input_size, TASK.output_size, TASK.reads), batch(np.array([3, 1, 4]))
    start = init_state(model, TASK, optax.sgd(0.0), 0)
    step = jax.jit(lambda rate: train_step(model, TASK, optax.sgd(rate), start, examples)[1])
    still, moved = ({name: value for name, value in step(rate).items() if name.startswith("gradient_norm")} for rate in (0.0, 0.5))
    kinds = ("", "_layer_1", "_layer_2", "_scheduler", "_rest")
    assert still.keys() == {f"gradient_norm{kind}" for kind in kinds}
    assert_close(still, moved)
    assert min(still.values()) > 0
    assert_close(still["gradient_norm_scheduler"] ** 2 + still["gradient_norm_rest"] ** 2, still["gradient_norm"] ** 2)


def test_a_recovery_is_counted_in_the_update_that_needs_it(state):
    """A gradient by parameters that are not finite is not finite either."""
    step, found = jax.jit(partial(train_step, MODEL, TASK, OPTIMIZER)), []
    broken = state._replace(params=jax.tree.map(lambda p: jnp.full_like(p, jnp.nan), state.params))
    for _ in range(2):
        broken, figures = step(broken, batch(np.array([3, 1, 4])))
        found.append(int(figures["recoveries"]))
    assert found == [1, 2]
    assert step(state, batch(np.array([3, 1, 4])))[1]["recoveries"] == 0


def text_of_streams(tmp_path):
    """Windows of a text in streams, with real inputs, so that one of them can be infinite."""
    path = tmp_path / "text.txt"
    path.write_text("abcde fghij klmno " * 60)
    return NextSymbol(file=path, reading="stream", steps=5).build(0)


@pytest.mark.parametrize("place", [1, (1, 2)], ids=["a whole state", "one component"])
def test_a_stream_whose_state_is_not_finite_goes_on_from_the_initial_state(tmp_path, place):
    """Without this, all later updates of the epoch would have no gradient. The other stream keeps its state."""
    task, optimizer = text_of_streams(tmp_path), OptimConfig("char_lm", 0.01).build()
    model = ModelConfig("gru", 4, parametrization="dense").build(task.input_size, task.output_size, "all")
    state, examples = init_state(model, task, optimizer, 0, 2), task.splits["train"].batch(task.splits["train"].arrays, jnp.arange(2))
    step = jax.jit(lambda state, reset: train_step(model, task, optimizer, state, examples, reset=reset))
    state, _ = step(state, True)
    broken = jax.tree.map(lambda h: h.at[place].set(jnp.nan), state.carry)
    after, figures = step(state._replace(carry=broken), False)
    expected, _ = step(state, jnp.array([False, True]))
    assert figures["recoveries"] == 0
    assert_close(after.params, expected.params)
    assert_close(after.carry, expected.carry)


class Counting(nn.Module):
    """A network with a mean that may become infinite, a counter, and metrics of short and of whole numbers."""

    output_size: int
    names: tuple[str, str] = ("short", "whole")

    @nn.compact
    def advance(self, inputs, mask=None, start=None, train=False):
        mean, steps = (
            self.variable("stats", "mean", lambda: jnp.zeros(())),
            self.variable("stats", "steps", lambda: jnp.zeros((), jnp.int32)),
        )
        if train:
            mean.value, steps.value = 0.5 * mean.value + jnp.mean(inputs), steps.value + 1
        self.sow("metrics", self.names[0], jnp.ones(len(inputs), jnp.bfloat16))
        self.sow("metrics", self.names[1], jnp.full(len(inputs), 3))
        return nn.Dense(self.output_size)(inputs[:, -1]), None

    def __call__(self, inputs, mask=None, start=None, train=False):
        return self.advance(inputs, mask, start, train)[0]


def numbers_to_sum():
    """Sequences of real numbers, of which the last one is the target."""
    arrays = {"x": jnp.arange(24.0).reshape(8, 3, 1) / 24}
    split = Split(8, arrays, lambda arrays, row: Example(arrays["x"][row], arrays["x"][row, -1], None))
    splits = {"train": split, "valid": split, "test": split}
    return Task(splits, 1, 1, "last", lambda y, batch: {"loss": jnp.square(y - batch.targets)[:, 0]})


def test_statistics_keep_their_last_finite_value_if_the_optimizer_recovers():
    task, model, optimizer = numbers_to_sum(), Counting(1), OptimConfig("char_lm", 0.01).build()
    state, examples = init_state(model, task, optimizer, 0), task.splits["train"].batch(task.splits["train"].arrays, jnp.arange(4))
    first, _ = train_step(model, task, optimizer, state, examples)
    second, figures = train_step(model, task, optimizer, first, examples._replace(inputs=examples.inputs.at[0].set(jnp.inf)))
    assert (figures["recoveries"], second.collections["stats"]["steps"]) == (1, 2)
    assert second.collections["stats"]["mean"] == first.collections["stats"]["mean"] > 0


def test_metrics_of_a_network_may_have_any_type_of_number():
    task, model = numbers_to_sum(), Counting(1)
    state = init_state(model, task, optax.sgd(0.1), 0)
    split, rows = task.splits["valid"], jnp.arange(8).reshape(2, 4)
    sums, weight = evaluate(model, task, split, state.variables, split.arrays, rows, jnp.ones((2, 4)))
    assert (sums["short"], sums["whole"], weight) == (8, 24, 8)


@pytest.mark.parametrize("names", [("loss", "whole"), ("short", "loss")])
def test_a_metric_of_a_network_may_not_replace_one_of_the_task(names):
    task, model = numbers_to_sum(), Counting(1, names)
    state = init_state(model, task, optax.sgd(0.1), 0)
    with pytest.raises(UsageError, match="sows the metric 'loss', which the task or another module has, too"):
        train_step(model, task, optax.sgd(0.1), state, task.splits["train"].batch(task.splits["train"].arrays, jnp.arange(4)))


@pytest.mark.devices(2)
def test_counters_of_a_network_stay_whole_numbers_on_several_devices():
    layout = parallel.Layout(1, 2)
    found = jax.pmap(parallel.average(layout), axis_name=parallel.AXIS)({"steps": jnp.array([3, 3]), "mean": jnp.array([1.0, 2.0])})
    assert (found["steps"].dtype, found["mean"].tolist()) == (jnp.int32, [1.5, 1.5])


DROPPING = changed(model={"output_dropout": 0.5})


@pytest.mark.devices(4)
def test_devices_that_share_a_batch_draw_masks_of_their_own():
    model, still, layout = DROPPING.model.build(TASK.input_size, TASK.output_size, TASK.reads), optax.sgd(0.0), parallel.Layout(1, 4)
    collectives, start = Collectives(key=parallel.own_key(layout)), init_state(model, TASK, still, 0)
    step = parallel.compile_for(layout, lambda state, rows: train_step(model, TASK, still, state, batch(rows), collectives)[1]["loss"])
    losses = np.asarray(step(parallel.place(layout, [start]), np.zeros((4, 2), np.int32)))
    assert len(set(losses.tolist())) == 4


@pytest.mark.devices(2)
def test_devices_that_share_a_batch_average_its_statistics():
    """Batch normalization without a common axis has statistics of each device's own examples."""
    task, still, layout = ImageVectors("digits").build(0), optax.sgd(0.0), parallel.Layout(1, 2)
    config = HighwayConfig(size=3, depth=1, rank=2, dropout=HighwayDropoutConfig(0.0, 0.0, 0.0, 0.0))
    model, train = config.build(task.input_size, 10, task.reads), task.splits["train"]
    start, halves = init_state(model, task, still, 0), np.arange(8, dtype=np.int32).reshape(2, 4)

    def statistics(state, rows, collectives=ALONE):
        return train_step(model, task, still, state, train.batch(train.arrays, rows), collectives)[0].collections

    one, other = (jax.jit(statistics)(start, rows) for rows in halves)
    shared = parallel.compile_for(layout, partial(statistics, collectives=Collectives(parallel.average(layout))))
    found = shared(parallel.place(layout, [start]), halves)
    assert np.abs(np.concatenate([np.ravel(a - b) for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)])).max() > 1e-3
    for device in range(2):
        assert_close(jax.tree.map(lambda leaf, k=device: leaf[k], found), jax.tree.map(lambda a, b: (a + b) / 2, one, other), atol=1e-6)


def test_running_averages_have_the_type_of_the_inputs():
    """Else several updates in one program, which is a loop, would not begin and end with the same types."""
    task, descent = ImageVectors("digits").build(0), optax.sgd(0.1)
    model = HighwayConfig(size=3, depth=1, rank=2).build(task.input_size, 10, task.reads)
    for wide, kind in ((False, jnp.float32), (True, jnp.float64)):
        with jax.enable_x64(wide):
            start = jax.eval_shape(lambda: init_state(model, task, descent, 0))
            steps = partial(train_steps, model, task, lambda update: descent)
            after = jax.eval_shape(steps, start, task.splits["train"].arrays, np.zeros((3, 4), np.int32))[0]
            assert {leaf.dtype for leaf in jax.tree.leaves(after.collections["batch_stats"]["layer_0"])} == {jnp.dtype(kind)}


@pytest.mark.devices(2)
def test_programs_for_several_devices_give_each_its_own_masks():
    """Else two devices with the same examples would have the mean loss of one with these examples, and the same masks."""
    losses = []
    for layout, rows in ((parallel.Layout(1, 1), [[0, 1]]), (parallel.Layout(1, 2), [[0, 1, 0, 1]])):
        program = Program(DROPPING, TASK, layout)
        start = init_state(DROPPING.model.build(TASK.input_size, TASK.output_size, TASK.reads), TASK, OPTIMIZER, 0)
        placed = (parallel.place(layout, [tree]) for tree in (start, TASK.splits["train"].arrays))
        indices = parallel.shard_batch(layout, [np.array(rows, np.int32)])
        _, figures = program.train(*placed, indices, parallel.place(layout, [jnp.float32(0.01)]))
        losses.append(float(parallel.fetch(layout, figures)[0]["loss"][0]))
    assert abs(losses[0] - losses[1]) > 1e-3


def test_masks_are_drawn_anew_for_every_update_and_seed():
    """With a learning rate of 0 nothing else changes the training loss of a batch."""
    model, still = changed(model={"output_dropout": 0.5}).model.build(TASK.input_size, TASK.output_size, TASK.reads), optax.sgd(0.0)
    start = init_state(model, TASK, still, 0)
    rows, arrays = np.tile(np.arange(4), (3, 1)), TASK.splits["train"].arrays
    train = jax.jit(partial(train_steps, model, TASK, lambda update: still))
    losses = [train(state, arrays, rows)[1]["loss"] for state in (start, start, start._replace(key=init_state(model, TASK, still, 1).key))]
    np.testing.assert_array_equal(losses[0], losses[1])
    assert len({float(loss) for loss in np.concatenate(losses[1:])}) == 6


def test_penalties_are_part_of_the_gradient_and_not_of_the_loss():
    """The penalty 0.25 |W|^2 of a Highway network's readout adds 0.5 W to the gradient of W, and nothing to any other."""
    task, descent = ImageVectors("digits").build(0), optax.sgd(1.0)
    examples = task.splits["train"].batch(task.splits["train"].arrays, jnp.arange(4))
    config = HighwayConfig(size=3, depth=1, rank=2, batch_norm=False, dropout=HighwayDropoutConfig(0.0, 0.0, 0.0, 0.0))
    models = [dataclasses.replace(config, readout_penalty=weight).build(task.input_size, 10, task.reads) for weight in (0.0, 0.25)]
    start = init_state(models[0], task, descent, 0)
    found = [jax.jit(partial(train_step, model, task, descent))(start, examples) for model in models]
    (plain, one), (penalized, other) = found
    own = jax.tree.map(jnp.zeros_like, start.params)
    own["readout"]["kernel"] = 0.5 * start.params["readout"]["kernel"]
    assert_close(penalized.params, jax.tree.map(jnp.subtract, plain.params, own))
    assert_close(one["loss"], other["loss"])


def test_the_noise_of_training_has_another_key_than_the_parameters(state):
    """It is that of earlier versions. Else dropout would draw other masks in a run that is resumed."""
    np.testing.assert_array_equal(state.key, jax.random.key_data(jax.random.fold_in(jax.random.key(0), 1)))


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_evaluation_is_the_weighted_sum_over_examples_without_dropout(dropout, state):
    model = changed(model={"state_dropout": dropout, "output_dropout": dropout}).model.build(TASK.input_size, TASK.output_size, TASK.reads)
    test = TASK.splits["test"]
    rows, weights = np.array([[0, 1, 2], [3, 4, 0]]), np.array([[1, 1, 1], [1, 1, 0]], np.float32)
    sums, total = jax.jit(partial(evaluate, model, TASK, test))(state.variables, test.arrays, rows, weights)
    examples = batch(np.arange(5), "test")
    figures = jax.jit(lambda params: TASK.metrics(MODEL.apply({"params": params}, examples.inputs), examples))(state.params)
    assert total == 5
    assert_close(sums, {name: values.sum() for name, values in figures.items()}, rtol=1e-4)


def test_tally_averages_what_is_finite():
    tally = Tally()
    tally.add({"loss": np.array([1.0, np.nan]), "norm": np.array([np.inf, np.inf]), "recoveries": np.array([4, 5])})
    tally.add({"loss": np.array([2.0, 6.0]), "norm": np.array([np.nan, np.inf]), "recoveries": np.array([5, 6])})
    assert tally.means() == {"loss": 3.0, "norm": None, "recoveries": 6.0}
    assert Tally(**json.loads(json.dumps(vars(tally)))).means() == tally.means()


def test_an_update_without_a_finite_loss_counts_for_no_part_of_a_ratio():
    tally = Tally()
    parts = {"nats": np.array([np.nan, 10.0]), "symbols": np.array([100.0, 10.0]), "loss": np.array([np.nan, 1.0])}
    tally.add(parts | {"gradient_norm": np.array([4.0, 2.0])})
    assert tally.means() == {"nats": 10.0, "symbols": 10.0, "loss": 1.0, "gradient_norm": 3.0}


def test_tally_adds_up_in_double_precision():
    """In single precision 2^24 + 1 is 2^24."""
    tally = Tally()
    tally.add({"nats": np.array([2.0**24, *[1.0] * 3], np.float32)})
    assert tally.means() == {"nats": (2**24 + 3) / 4}


def test_progress_is_read_again_as_it_was_written():
    """Time, too: hours of a resumed run are those of all its parts."""
    optim = dataclasses.replace(CONFIG.optim, halve_after=1)
    progress = Progress(Annealing(optim), {"update": 4, "loss": 1.5}, Tally({"loss": 2}, {"loss": 3.0}), 12.5)
    for loss in (1.5, 2.0):
        progress.annealing.evaluated(loss)
    again = Progress.from_metadata(optim, json.loads(json.dumps(progress.to_metadata())))
    assert again.to_metadata() == progress.to_metadata()
    assert (again.seconds, again.annealing.factor, again.tally.means()) == (12.5, 0.5, {"loss": 1.5})


@dataclass(frozen=True)
class Broken(Adding):
    """The adding task with inputs that are not finite in one example."""

    broken: int = 7
    value: float = float("inf")
    splits: tuple[str, ...] = ("train",)

    def build(self, seed) -> Task:
        task = super().build(seed)

        def spoil(split):
            def example(arrays, index):
                good = split.example(arrays, index)
                return good._replace(inputs=jnp.where(index == self.broken, self.value, good.inputs))

            return Split(split.size, split.arrays, example)

        return dataclasses.replace(task, splits={name: spoil(s) if name in self.splits else s for name, s in task.splits.items()})


def broken(recipe, **fields):
    config = changed(optim={"recipe": recipe}, train={"batch_size": 5, "updates": 20, "evaluate_every": 10, "updates_per_call": 10})
    return dataclasses.replace(config, data=Broken(6, train_size=50, test_size=20, **fields))


def update_with(config, example):
    """The first update whose batch has an example."""
    from lrpt.tasks import batch_indices

    indices = batch_indices("epochs", 50, 5, 0, 0, 10)
    return int(np.flatnonzero((indices == example).any(axis=1))[0]) + 1


@pytest.mark.slow
def test_recoveries_reach_the_metrics(tmp_path):
    """The rule of the copy task goes on after a gradient that is not finite; one batch in each epoch of ten updates has one."""
    result = fit(broken("copy_memory"), {0: tmp_path / "run"}, devices=1)[0]
    train = [line for line in lines(tmp_path / "run") if line["split"] == "train"]
    assert [line["recoveries"] for line in train] == [1, 2]
    assert all(np.isfinite(line["loss"]) for line in train)
    assert np.isfinite(result["metrics"]["valid"]["loss"])
    for text in ("metrics.jsonl", "result.json"):
        assert "NaN" not in (tmp_path / "run" / text).read_text()


@pytest.mark.slow
def test_a_training_loss_that_is_not_finite_is_named_with_its_update(tmp_path):
    config = broken("adding")
    with pytest.raises(UsageError) as raised:
        fit(config, {0: tmp_path / "run"}, devices=1)
    said = str(raised.value)
    assert said.startswith(
        f"LRD-GRU 4/2 seed 0 in {tmp_path / 'run'}: training loss is nan at update {update_with(config, 7)}; no checkpoint was due yet"
    )
    assert "\n" not in said
    assert raised.value.code == 1
    failure = json.loads((tmp_path / "run" / "failure.json").read_text())
    assert failure == {"update": update_with(config, 7), "what": "the training loss is nan"}


def test_a_validation_loss_that_is_not_finite_is_named_with_its_update(tmp_path):
    with pytest.raises(UsageError, match="validation loss is nan at update 10; no checkpoint was due yet"):
        fit(broken("adding", splits=("valid",)), {0: tmp_path / "run"}, devices=1)


def test_of_several_checkpoints_the_newest_that_was_evaluated_is_named(tmp_path):
    """The one of update 10 was written by the clock: nothing is known of it."""
    run = Run({}, CONFIG, 0, tmp_path, Console(quiet=True))
    for update in (4, 8, 10):
        (tmp_path / "checkpoints" / str(update)).mkdir(parents=True)
    RunDirectory(tmp_path).append_metrics([{"update": update, "split": "valid", "loss": 1.0} for update in (4, 8)])
    with pytest.raises(UsageError, match="validation loss is nan at update 12; the last good checkpoint, of update 8, is kept in"):
        run.evaluated(12, {"loss": float("nan")}, 0.0)


@pytest.mark.parametrize(("losses", "update"), [([1, np.nan, np.nan, 1], 6), ([1, 1, 1, np.inf], 8), ([np.nan] * 4, 5)])
def test_a_batch_that_fails_is_named_by_its_update_within_the_call(losses, update, tmp_path):
    """The call ends at update 8."""
    run = Run({}, changed(optim={"recipe": "adding"}), 0, tmp_path, Console(quiet=True))
    with pytest.raises(UsageError, match=f"training loss is (nan|inf) at update {update}; "):
        run.trained(8, {"loss": np.array(losses)}, 0.0)
    assert run.directory.failure()["update"] == update


def test_seconds_are_those_of_training_and_of_evaluations(tmp_path):
    run = Run({}, CONFIG, 0, tmp_path, Console(quiet=True))
    for update, seconds in ((3, 2.0), (4, 1.0)):
        run.trained(update, {"loss": np.ones(1)}, seconds)
    run.evaluated(4, {"loss": 1.0}, 0.5)
    assert {line["seconds"] for line in run.directory.metrics()} == {3.5}


@pytest.mark.parametrize(
    ("recipe", "norms", "warns"),
    [
        ("weight_norm", [np.inf, np.nan], True),
        ("weight_norm", [np.inf, 1.0], False),
        ("weight_norm_recovery", [np.inf, np.inf], False),
    ],
)
def test_a_network_that_no_longer_learns_is_told_once(recipe, norms, warns, tmp_path, capsys):
    """Clipping by norm scales a gradient whose norm overflows to zero, and the loss stays finite."""
    run = Run({}, changed(optim={"recipe": recipe}), 0, tmp_path, Console(quiet=True))
    run.start()
    for update in (4, 8):
        run.trained(update, {"loss": np.ones(2), "gradient_norm": np.array(norms), "recoveries": np.zeros(2)}, 0.0)
        run.evaluated(update, {"loss": 1.0}, 0.0)
    said = capsys.readouterr().err
    assert ("at update 4, the norm of no gradient since the last evaluation is finite" in said) is warns
    assert said.count("the norm of no gradient") == warns


@pytest.mark.parametrize("norm", [2.0, np.inf])
def test_a_norm_that_overflows_does_not_change_the_unit_of_the_loss(norm, tmp_path):
    """The loss of chorales is per frame, and the step computes that of a piece."""
    run = Run({}, RunConfig(CONFIG.model, CONFIG.optim, CONFIG.train, Chorales(length=4)), 0, tmp_path, Console(quiet=True))
    means = {"loss": 3.0, "nats": 30.0, "frames": 15.0, "gradient_norm": norm, "gradient_norm_layer_1": 1.0}
    run.trained(4, {name: np.array([value]) for name, value in means.items()}, 0.0)
    run.evaluated(4, {"loss": 1.0}, 0.0)
    logged = {"loss": 2.0, "piece_loss": 3.0, "gradient_norm_layer_1": 1.0, "gradient_norm": norm if np.isfinite(norm) else None}
    assert run.latest["train"] == {**logged, "learning_rate": CONFIG.optim.learning_rate}


def test_means_are_logged_where_a_metric_of_the_task_was_never_finite(tmp_path):
    """A recipe with recovery goes on after such updates."""
    run = Run({}, RunConfig(CONFIG.model, OptimConfig("adding"), CONFIG.train, Chorales(length=4)), 0, tmp_path, Console(quiet=True))
    run.progress.tally.add({"loss": np.array([np.nan]), "nats": np.array([np.nan]), "frames": np.array([15.0])})
    run.evaluated(4, {"loss": 1.0}, 0.0)
    assert run.latest["train"] == {"loss": None, "nats": None, "frames": None, "learning_rate": 1e-3}


@pytest.mark.parametrize(
    ("optim", "rates"), [({"decay": 0.5, "decay_after": 1}, [0.01, 0.005, 0.0025]), ({"halve_after": 1}, [0.01, 0.01, 0.005])]
)
def test_the_learning_rate_of_the_last_update_is_logged(optim, rates, tmp_path):
    """An epoch has 4 updates, and the learning rate changes with the first one of an epoch, or after an evaluation."""
    config = changed(optim=optim, data={"train_size": 16}, train={"updates": 16})
    run = Run({}, config, 0, tmp_path, Console(quiet=True))
    for update, rate in zip((8, 9, 16), rates, strict=True):
        run.evaluated(update, {"loss": 1.0}, 0.0)
        assert run.latest["train"]["learning_rate"] == pytest.approx(rate)


def test_a_rule_for_gradients_that_are_not_finite_is_found_in_the_chain(monkeypatch, tmp_path):
    monkeypatch.setitem(RECIPES, "mine", Recipe("SGD", 0.1, lambda rate: optax.chain(clip_or_shrink(), optax.sgd(rate))))
    run = Run({}, changed(optim={"recipe": "mine"}), 0, tmp_path, Console(quiet=True))
    run.start()
    assert run.recovers
    run.trained(1, {"loss": np.array([np.nan]), "recoveries": np.array([1])}, 0.0)  # an error in a run that does not recover
    with pytest.raises(UsageError, match="training loss is nan at update 2"):  # the gradient was finite
        run.trained(2, {"loss": np.array([np.nan]), "recoveries": np.array([1])}, 0.0)


@pytest.mark.parametrize(("primary", "printed"), [(True, 1), (False, 0)])
def test_a_warning_is_printed_by_one_of_several_processes(primary, printed, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(processes, "count", lambda: 2)
    monkeypatch.setattr(processes, "is_primary", lambda: primary)
    monkeypatch.setattr(processes, "_broadcast", lambda message: (None, None))
    run = Run({}, CONFIG, 0, tmp_path, Console())
    run._warn("metrics.jsonl is not what this run wrote")
    assert capsys.readouterr().err.count("lrpt: warning: ") == printed


def test_extremes_of_metrics_are_those_of_finite_values(tmp_path):
    """A metric may be infinite or undefined in some evaluations."""
    run = Run({"experiment": "custom", "preset": "custom"}, CONFIG, 0, tmp_path, Console(quiet=True))
    run.start()
    for update, metrics in ((4, (3.0, np.inf, np.nan)), (8, (1.0, 9.0, 0.25)), (11, (2.0, 7.0, np.nan))):
        run.trained(update, {"loss": np.ones(1), "recoveries": np.zeros(1)}, 0.0)
        run.evaluated(update, dict(zip(("loss", "perplexity", "accuracy"), metrics, strict=True)), 0.0)
    run.finish(11, {"loss": 1.0})
    run.close()
    expected = {"loss": 1.0, "perplexity": 9.0, "accuracy": 0.25, "lowest_perplexity": 7.0, "highest_accuracy": 0.25}
    assert run.result["metrics"]["valid"] == expected


@pytest.mark.slow
def test_the_last_good_checkpoint_is_kept(tmp_path):
    """The broken example comes in the second epoch only, as the first ends before it."""
    config = broken("adding")
    update = update_with(config, 7)
    config = changed(config, train={"evaluate_every": update - 1, "updates_per_call": update - 1})
    with pytest.raises(UsageError, match=f"at update {update}; the last good checkpoint, of update {update - 1}, is kept in"):
        fit(config, {0: tmp_path / "run"}, devices=1)
    assert [path.name for path in (tmp_path / "run" / "checkpoints").iterdir()] == [str(update - 1)]
    assert [line["update"] for line in lines(tmp_path / "run")] == [update - 1] * 2


class TwoMeans(nn.Module):
    """A network with two running means, of which only the first one may become infinite."""

    @nn.compact
    def advance(self, inputs, mask=None, start=None, train=False):
        means = self.variable("stats", "means", lambda: jnp.zeros(2))
        if train:
            means.value = 0.5 * means.value + jnp.stack([jnp.mean(inputs), jnp.ones(())])
        return nn.Dense(1)(inputs[:, -1]), None

    def __call__(self, inputs, mask=None, start=None, train=False):
        return self.advance(inputs, mask, start, train)[0]


def test_statistics_of_which_one_is_not_finite_keep_their_last_values():
    task, model, optimizer = numbers_to_sum(), TwoMeans(), OptimConfig("char_lm", 0.01).build()
    state, examples = init_state(model, task, optimizer, 0), task.splits["train"].batch(task.splits["train"].arrays, jnp.arange(4))
    first, _ = train_step(model, task, optimizer, state, examples)
    second, _ = train_step(model, task, optimizer, first, examples._replace(inputs=examples.inputs.at[0].set(jnp.inf)))
    np.testing.assert_array_equal(second.collections["stats"]["means"], first.collections["stats"]["means"])
