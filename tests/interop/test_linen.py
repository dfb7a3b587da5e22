"""Layers for `flax.linen` against Flax's own on equal parameters: values and gradients, every argument, every cell of the table."""

from functools import partial

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import orbax.checkpoint as ocp
import pytest
from flax import serialization
from flax.training.train_state import TrainState
from table import CELLS, FAST_KINDS, IN_EVERY_CELL, RANK, SIZE, SIZES, assert_close, assert_equal, can_be_tied, has_rows, weighted_sum

from lrpt.cells import Cell as TableCell
from lrpt.compression.network import compress
from lrpt.errors import UsageError
from lrpt.interop.linen import RNN, Bidirectional, Cell, Layers, Linear
from lrpt.interop.pytorch import read
from lrpt.matrices import Dense
from lrpt.networks.configuration import SequenceLoopConfig
from lrpt.networks.recurrent import Recurrent
from lrpt.networks.sequence_model import ModelConfig
from lrpt.parametrizations import ALL_FORMS, FORMS, PARAMETRIZATIONS, MatrixConfig, Parametrization, Structured, SumForm
from lrpt.specs import MatrixSpec

BATCH, STEPS, WIDTH = 3, 7, 4
LENGTHS = jnp.array([7, 1, 4])
FLAX = {"gru_cudnn": nn.GRUCell, "lstm": nn.OptimizedLSTMCell}
LRD = MatrixConfig("low_rank_plus_diagonal", RANK)
FEW = ("gru", "lru")
"""Cells that the fast tier takes: one of any inputs, and one that embeds them."""


def inputs(time_major=False, seed=0):
    return jax.random.normal(jax.random.key(seed), (STEPS, BATCH, WIDTH) if time_major else (BATCH, STEPS, WIDTH))


def value_and_gradients(module, params, xs, **arguments):
    """Outputs and the gradients to parameters, inputs and initial state."""
    carry = arguments.pop("initial_carry", None)

    @jax.jit
    def both(params, xs, carry):
        def loss(params, xs, carry):
            found = module.apply({"params": params}, xs, initial_carry=carry, **arguments)
            return weighted_sum(found), found

        return jax.value_and_grad(loss, argnums=(0, 1, 2), has_aux=True)(params, xs, carry)

    (_, found), gradients = both(params, xs, carry)
    return found, gradients


NAMES = "time_major", "reverse", "keep_order", "return_carry", "has_lengths", "has_carry"
ARGUMENTS = [
    (False, False, False, False, False, False),
    (True, False, False, True, True, True),
    (False, True, False, True, False, True),
    (True, True, True, False, True, False),
    (False, True, True, True, True, True),
    (False, False, True, False, True, True),
    (True, True, False, True, True, False),
]
"""Each pair of values of two arguments at least once."""


@pytest.mark.slow
@pytest.mark.parametrize("name", FLAX)
@pytest.mark.parametrize("values", ARGUMENTS, ids=lambda values: "-".join(name for name, is_so in zip(NAMES, values, strict=True) if is_so))
def test_equals_flax_with_every_argument(name, values):
    *flags, has_lengths, has_carry = values
    given = dict(zip(NAMES, flags, strict=False))
    xs, lengths = inputs(given["time_major"]), LENGTHS if has_lengths else None
    theirs, ours = nn.RNN(FLAX[name](SIZE), **given), RNN(Cell(name, SIZE), **given)
    foreign = jax.tree.map(lambda a: a + 0.3, theirs.init(jax.random.key(1), xs)["params"])  # no bias is zero
    params, _ = read(foreign["cell"])
    carry = jax.tree.map(lambda a: a + 0.5, theirs.cell.initialize_carry(jax.random.key(0), (BATCH, WIDTH))) if has_carry else None
    expected, (d_foreign, *d_expected) = value_and_gradients(theirs, foreign, xs, initial_carry=carry, seq_lengths=lengths)
    actual, (d_params, *d_actual) = value_and_gradients(ours, params, xs, initial_carry=carry, seq_lengths=lengths)
    assert_close(jax.tree.leaves((actual, d_actual)), jax.tree.leaves((expected, d_expected)), atol=1e-5)
    assert_close(d_params, read(d_foreign["cell"])[0], atol=1e-5)
    if has_carry and given["return_carry"]:
        assert jax.tree.structure(actual[0]) == jax.tree.structure(carry)


def test_arguments_of_the_call_come_before_attributes():
    module, other = RNN(Cell("gru", SIZE)), RNN(Cell("gru", SIZE), time_major=True, return_carry=True, reverse=True, keep_order=True)
    params = module.init(jax.random.key(1), inputs())
    for one, flag in ((module, True), (other, False)):
        attributes = dict.fromkeys(NAMES[:4], flag)
        twin = other if flag else module
        assert_close(one.apply(params, inputs(flag), **attributes), twin.apply(params, inputs(flag)), 0, 0)


def test_the_gate_that_passes_the_state_on_starts_with_a_bias_of_one():
    bias = RNN(Cell("gru", SIZE)).init(jax.random.key(0), inputs())["params"]["cell"]["bias"]
    assert_equal(bias["update"], np.ones(SIZE, np.float32))
    assert_equal(bias["reset"], np.zeros(SIZE, np.float32))


@pytest.mark.parametrize("axes", [(), (2, 3)], ids=str)
@pytest.mark.parametrize("time_major", [False, True])
def test_any_number_of_batch_axes(axes, time_major):
    theirs, ours = nn.RNN(nn.GRUCell(SIZE), return_carry=True), RNN(Cell("gru_cudnn", SIZE), return_carry=True)
    xs = jax.random.normal(jax.random.key(0), (STEPS, *axes, WIDTH) if time_major else (*axes, STEPS, WIDTH))
    foreign = theirs.init(jax.random.key(1), xs, time_major=time_major)["params"]
    found = ours.apply({"params": read(foreign["cell"])[0]}, xs, time_major=time_major)
    assert_close(found, theirs.apply({"params": foreign}, xs, time_major=time_major))


@pytest.mark.parametrize("name", [pytest.param(name, marks=() if name in FEW else pytest.mark.slow) for name in CELLS])
def test_every_cell_is_usable_in_flax_as_it_is(name):
    """And gives the numbers of our layer, gradients too, with the parameters of either."""
    cell = Cell(name, SIZE, LRD, depth=2 if CELLS[name].deep else 1)
    ours, theirs, xs = RNN(cell), nn.RNN(cell), inputs()
    params = ours.init(jax.random.key(1), xs)["params"]
    assert jax.tree.map(jnp.shape, theirs.init(jax.random.key(1), xs)["params"]) == jax.tree.map(jnp.shape, params)
    asked = {"return_carry": True, "seq_lengths": LENGTHS}
    assert_close(value_and_gradients(ours, params, xs, **asked), value_and_gradients(theirs, params, xs, **asked), atol=1e-5)


STORED = [kind for kind in FAST_KINDS if "adapter" not in kind]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "layers"), [*((kind, 1) for kind in STORED), *((kind, 2) for kind in IN_EVERY_CELL)])
def test_every_parametrization_and_stacks(kind, layers):
    matrices = MatrixConfig(kind, RANK, tied=can_be_tied(kind), weight_norm=has_rows(kind), **SIZES)
    cell = Cell("lstm", SIZE, matrices, MatrixConfig("low_rank", RANK), layers=layers)
    xs = inputs()
    params = RNN(cell).init(jax.random.key(1), xs)["params"]
    assert_close(value_and_gradients(RNN(cell), params, xs), value_and_gradients(nn.RNN(cell), params, xs), atol=1e-5)


@pytest.mark.slow
def test_bidirectional():
    theirs = nn.Bidirectional(nn.RNN(nn.GRUCell(SIZE)), nn.RNN(nn.GRUCell(SIZE)))
    ours = Bidirectional(RNN(Cell("gru_cudnn", SIZE)), RNN(Cell("gru_cudnn", SIZE)))
    foreign = theirs.init(jax.random.key(1), inputs())["params"]
    params = {name: read(part["cell"])[0] for name, part in foreign.items()}
    asked = {"seq_lengths": LENGTHS, "return_carry": True}
    assert_close(ours.apply({"params": params}, inputs(), **asked), theirs.apply({"params": foreign}, inputs(), **asked))


@pytest.mark.parametrize("name", ["gru", "lru"])
def test_symbols(name):
    """Integers stand for one-hot vectors, or are embedded for a cell that acts on the components of its inputs."""
    ours = RNN(Cell(name, SIZE, LRD, symbols=WIDTH), return_carry=True)
    symbols = jax.random.randint(jax.random.key(0), (BATCH, STEPS), 0, WIDTH)
    params = ours.init(jax.random.key(1), symbols)["params"]
    asked = {"seq_lengths": LENGTHS, "reverse": True}
    found = ours.apply({"params": params}, symbols, **asked)
    assert_close(found, nn.RNN(ours.cell, return_carry=True).apply({"params": params}, symbols, **asked))
    if name == "gru":
        assert_close(
            found, RNN(Cell(name, SIZE, LRD), return_carry=True).apply({"params": params}, jax.nn.one_hot(symbols, WIDTH), **asked)
        )
    with pytest.raises(UsageError, match="give integers"):
        ours.apply({"params": params}, inputs())


@pytest.mark.parametrize(("width", "embeds"), [(WIDTH, False), (1, False), (WIDTH, True)])
def test_a_state_as_wide_as_the_inputs(width, embeds, tables):
    """The state of a cell that keeps its last input, which is embedded if the cell needs inputs of another width."""

    def step(params, carry, x):
        h = jnp.tanh(params["a"].apply(x) + params["a"].apply(carry["x"]) + params["u"].apply(carry["h"]))
        return {"h": h, "x": x}, (h, ())

    def template(spec):
        return {"a": MatrixSpec(spec.input_size, spec.size, "input"), "u": MatrixSpec(spec.size, spec.size, "recurrent")}

    sizes = {"carry": lambda spec: {"h": spec.size, "x": spec.input_size}, "input_size": (lambda spec: 2) if embeds else None}
    CELLS["mine"] = TableCell(step, template, **sizes)
    ours, xs = RNN(Cell("mine", SIZE), return_carry=True), inputs()[..., :width]
    params = ours.init(jax.random.key(1), xs)
    found = ours.apply(params, xs, seq_lengths=LENGTHS)
    assert_close(found, nn.RNN(ours.cell, return_carry=True).apply(params, xs, seq_lengths=LENGTHS))
    assert jax.tree.map(jnp.shape, found[0]) == {"h": (BATCH, SIZE), "x": (BATCH, 2 if embeds else width)}
    if not embeds:
        network = Recurrent(ModelConfig("mine", SIZE, parametrization="dense", trainable_initial_state=False), width)
        _, expected = network.apply(params, jnp.swapaxes(xs, 0, 1))
        assert_close(ours.apply(params, xs)[1], jnp.swapaxes(expected, 0, 1))


def test_integers_are_vectors_without_symbols():
    xs = jax.random.randint(jax.random.key(0), (BATCH, STEPS, WIDTH), 0, 5)
    module = RNN(Cell("gru", SIZE))
    params = module.init(jax.random.key(1), xs)
    assert_close(module.apply(params, xs), module.apply(params, xs.astype(float)))


@pytest.mark.parametrize("length", [0, STEPS])
def test_a_sequence_without_steps_keeps_its_state(length):
    module, carry = RNN(Cell("gru", SIZE)), jnp.full((BATCH, SIZE), 0.5)
    params = module.init(jax.random.key(1), inputs())
    end, ys = module.apply(params, inputs(), initial_carry=carry, seq_lengths=jnp.full(BATCH, length), return_carry=True)
    assert_close(end, carry if length == 0 else ys[:, -1])


def test_a_batch_without_steps_keeps_its_state():
    module, carry = RNN(Cell("gru", SIZE), return_carry=True), jnp.full((BATCH, SIZE), 0.5)
    params, lengths = module.init(jax.random.key(1), inputs()), jnp.zeros(BATCH, int)
    end, ys = module.apply(params, inputs()[:, :0], initial_carry=carry, seq_lengths=lengths)
    assert_close(end, carry)
    assert ys.shape == (BATCH, 0, SIZE)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["plain", "checkpoint"])
def test_loops_are_twins(kind):
    cell, xs = Cell("gru", SIZE, LRD), inputs()
    params = RNN(cell).init(jax.random.key(1), xs)["params"]
    asked = {"seq_lengths": LENGTHS, "return_carry": True}
    twin = RNN(cell, loop=SequenceLoopConfig(kind))
    assert_close(value_and_gradients(twin, params, xs, **asked), value_and_gradients(RNN(cell), params, xs, **asked), atol=1e-5)


RESETS = jnp.zeros((BATCH, STEPS), bool).at[0, 3].set(True).at[1, 0].set(True).at[2, jnp.array([2, 5])].set(True)


@pytest.mark.parametrize("kind", ["plain", "fast"])
def test_a_reset_begins_an_episode_with_a_state_of_zeros(kind):
    """Each episode is the sequence that begins there; steps before the first reset have the initial state."""
    layer, xs = RNN(Cell("lstm", SIZE, LRD), return_carry=True, loop=SequenceLoopConfig(kind)), inputs()
    params = layer.init(jax.random.key(1), xs)
    carry = jax.tree.map(lambda h: h + 0.5, layer.cell.initialize_carry(None, (BATCH, WIDTH)))
    end, ys = layer.apply(params, xs, initial_carry=carry, resets=RESETS)
    for row, starts in enumerate(([0, 3], [0], [0, 2, 5])):
        for start, stop in zip(starts, [*starts[1:], STEPS], strict=True):
            first = jax.tree.map(lambda h, row=row: h[row : row + 1], carry)
            own = None if start or row == 1 else first
            last, expected = layer.apply(params, xs[row : row + 1, start:stop], initial_carry=own)
            assert_close(ys[row : row + 1, start:stop], expected)
        assert_close(jax.tree.map(lambda h, row=row: h[row : row + 1], end), last)


@pytest.mark.parametrize("asked", [{}, {"seq_lengths": LENGTHS, "return_carry": True}, {"reverse": True, "keep_order": True}])
def test_resets_follow_the_axes_and_the_direction_of_the_inputs(asked):
    layer, xs = RNN(Cell("gru", SIZE, LRD)), inputs()
    params = layer.init(jax.random.key(1), xs)
    found = layer.apply(params, xs, resets=RESETS, **asked)
    turned = layer.apply(params, jnp.moveaxis(xs, 1, 0), resets=RESETS.T, time_major=True, **asked)
    assert_close(jax.tree.leaves(found)[-1], jnp.moveaxis(jax.tree.leaves(turned)[-1], 0, 1))
    assert_close(layer.apply(params, xs, resets=jnp.zeros_like(RESETS), **asked), layer.apply(params, xs, **asked))


@pytest.mark.parametrize("lengths", [None, jnp.array([3, 7, 6])])
def test_in_reverse_each_episode_is_read_from_its_end(lengths):
    """The first row of three steps ends where padding would begin an episode, and its end keeps the given state."""
    layer, xs = RNN(Cell("gru", SIZE, LRD), reverse=True, keep_order=True), inputs()
    params = layer.init(jax.random.key(1), xs)
    carry = jnp.full((BATCH, SIZE), 0.5)
    ys = layer.apply(params, xs, initial_carry=carry, resets=RESETS, seq_lengths=lengths)
    for row, starts in enumerate(([0, 3], [0], [0, 2, 5])):
        length = STEPS if lengths is None else int(lengths[row])
        starts = [start for start in starts if start < length]
        for start, stop in zip(starts, [*starts[1:], length], strict=True):
            own = carry[row : row + 1] if stop == length else None
            expected = layer.apply(params, xs[row : row + 1, start:stop], initial_carry=own)
            assert_close(ys[row : row + 1, start:stop], expected)


@pytest.mark.slow
def test_gradients_with_resets_are_those_of_the_plain_loop():
    cell, xs = Cell("gru", SIZE, LRD), inputs()
    params = RNN(cell).init(jax.random.key(1), xs)["params"]
    twin = RNN(cell, loop=SequenceLoopConfig("plain"))
    carry = jnp.full((BATCH, SIZE), 0.5)
    found = [value_and_gradients(one, params, xs, resets=RESETS, initial_carry=carry, return_carry=True) for one in (RNN(cell), twin)]
    assert_close(found[0], found[1], atol=1e-5)


def test_parameters_are_those_of_our_networks():
    """So that the weights of runs and compressed weights fit."""
    cell = Cell("gru_cudnn", SIZE)
    xs = inputs()
    params = RNN(cell).init(jax.random.key(1), xs)["params"]
    config = ModelConfig("gru_cudnn", SIZE, parametrization="dense", trainable_initial_state=False)
    network = Recurrent(config, WIDTH)
    _, expected = network.apply({"params": params}, jnp.swapaxes(xs, 0, 1))
    assert_close(RNN(cell, time_major=True).apply({"params": params}, jnp.swapaxes(xs, 0, 1)), expected)
    found = compress(params, network, rank=SIZE)
    smaller = RNN(Cell("gru_cudnn", SIZE, MatrixConfig("low_rank_plus_diagonal", SIZE)), time_major=True)
    assert_close(smaller.apply({"params": found.params}, jnp.swapaxes(xs, 0, 1)), expected, atol=1e-4)


class Classifier(nn.Module):
    """A user's network: the layer is the only line that differs."""

    rnn: nn.Module

    @nn.compact
    def __call__(self, xs):
        return nn.Dense(2)(self.rnn(xs)[:, -1])


@pytest.mark.slow
@pytest.mark.parametrize("rnn", [nn.RNN(nn.GRUCell(features=8)), RNN(Cell("gru", 8, LRD))], ids=["flax", "ours"])
def test_it_trains_with_the_users_loop_and_is_saved_by_her_code(rnn, tmp_path):
    xs = jax.random.normal(jax.random.key(0), (64, STEPS, WIDTH))
    ts = (xs[:, 0, 0] > 0).astype(int)
    model = Classifier(rnn)
    state = TrainState.create(apply_fn=model.apply, params=model.init(jax.random.key(1), xs)["params"], tx=optax.adam(0.03))

    @jax.jit
    def update(state):
        def loss(params):
            return optax.softmax_cross_entropy_with_integer_labels(state.apply_fn({"params": params}, xs), ts).mean()

        value, gradient = jax.value_and_grad(loss)(state.params)
        return state.apply_gradients(grads=gradient), value

    losses = []
    for _ in range(60):
        state, value = update(state)
        losses.append(value)
    assert losses[-1] < 0.2 < losses[0]
    restored = serialization.from_bytes(state.params, serialization.to_bytes(state.params))
    assert_close(model.apply({"params": restored}, xs), model.apply({"params": state.params}, xs), 0, 0)
    with ocp.StandardCheckpointer() as checkpointer:
        checkpointer.save(tmp_path / "params", state.params)
        checkpointer.wait_until_finished()
        again = checkpointer.restore(tmp_path / "params", jax.tree.map(np.zeros_like, state.params))
    assert_close(again, state.params, 0, 0)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"cell": "grew"}, "cell is 'grew': choose from gru"),
        ({"features": 0}, "features is 0: expected an integer, 1 or more"),
        ({"features": 8.0}, "features is 8.0: expected an integer, 1 or more"),
        ({"features": "8"}, "features is '8': expected an integer"),
        ({"features": True}, "features is True: expected an integer"),
        ({"layers": 1.5}, "layers is 1.5: expected an integer"),
        ({"depth": None}, "depth is None: expected an integer"),
        ({"symbols": True}, "symbols is True: expected an integer"),
        ({"layers": 0}, "layers is 0"),
        ({"depth": 2}, "depth is 2: expected 1 for gru"),
        ({"carry_bias": "1"}, "carry_bias is '1': expected a number"),
        ({"carry_bias": float("nan")}, "carry_bias is nan: expected a finite number"),
    ],
)
def test_settings_that_do_not_fit(settings, says):
    with pytest.raises(UsageError, match=says):
        Cell(**{"cell": "gru", "features": 3, **settings})


def test_an_entry_of_the_table_that_is_no_cell(monkeypatch):
    monkeypatch.setitem(CELLS, "mine", CELLS["gru"].step)
    with pytest.raises(UsageError, match=r"CELLS\['mine'\] is a function: wrap it in lrpt\.Cell\(step, template\)"):
        Cell("mine", 3)


def test_inputs_without_time():
    with pytest.raises(UsageError, match=r"inputs have shape \(4,\): expected \(\*batch, time, features\)"):
        RNN(Cell("gru", 3)).init(jax.random.key(0), jnp.zeros(4))


def test_arguments_that_do_not_fit_are_one_line():
    with pytest.raises(UsageError, match=r"matrices is 'low_rank': give a MatrixConfig"):
        Cell("gru", SIZE, "low_rank")
    with pytest.raises(UsageError, match=r"inputs is 'low_rank': give a MatrixConfig"):
        Cell("gru", SIZE, inputs="low_rank")
    layer = RNN(Cell("gru", SIZE, LRD))
    params = jax.eval_shape(layer.init, jax.random.key(0), inputs())
    for arguments, says in (
        ({"seq_lengths": jnp.array([STEPS + 1, 1, 1])}, rf"seq_lengths contain {STEPS + 1}, and the sequences have {STEPS} steps"),
        ({"seq_lengths": np.array([1, 0, -1])}, "seq_lengths contain -1"),
        ({"seq_lengths": jnp.ones(3)}, "seq_lengths are float32: give integers"),
        ({"seq_lengths": LENGTHS[:2]}, r"seq_lengths has the batch \(2,\), and inputs have the batch \(3,\)"),
        ({"initial_carry": jnp.zeros((2, SIZE))}, r"the state before the first step has the batch \(2,\)"),
        ({"initial_carry": (jnp.zeros((3, SIZE)),) * 2}, "the state has 2 arrays: this cell expects 1"),
        ({"resets": jnp.zeros((BATCH, STEPS))}, r"resets are float32 of shape \(3, 7\): give booleans of shape \(3, 7\)"),
        ({"resets": jnp.zeros((STEPS, BATCH), bool)}, r"resets are bool of shape \(7, 3\): give booleans of shape \(3, 7\)"),
    ):
        with pytest.raises(UsageError, match=says):
            jax.eval_shape(lambda params, chosen=arguments: layer.apply(params, inputs(), **chosen), params)


def test_lengths_are_unknown_inside_of_a_compiled_function():
    layer = RNN(Cell("gru", SIZE, LRD))
    params = layer.init(jax.random.key(0), inputs())
    outputs = jax.jit(lambda lengths: layer.apply(params, inputs(), seq_lengths=lengths))(jnp.array([STEPS + 1, 1, 1]))
    assert outputs.shape == (3, STEPS, SIZE)


@pytest.mark.parametrize("symbol", [-1, 4, 9])
def test_symbols_out_of_range(symbol):
    layer = RNN(Cell("gru", SIZE, LRD, symbols=4))
    params = layer.init(jax.random.key(0), jnp.zeros((1, 2), int))
    with pytest.raises(UsageError, match=f"the inputs contain the symbol {symbol}: expected numbers from 0 to 3"):
        layer.apply(params, jnp.array([[0, symbol]]))
    assert jax.jit(layer.apply)(params, jnp.array([[0, symbol]])).shape == (1, 2, SIZE)


def test_the_embedding_has_vectors_of_zeros_for_numbers_that_are_no_symbols():
    cell = Cell("lru", SIZE, LRD, symbols=4)
    params = cell.init(jax.random.key(0), jnp.zeros(1, int), method="bind_to")
    embedded = jax.jit(lambda symbols: cell.apply(params, symbols, method="bind_to")[1])  # type: ignore[index]
    table = params["params"]["embedding"]["embedding"]
    assert_close(embedded(jnp.array([-1, 3, 4, 9])), jnp.zeros((4, SIZE)).at[1].set(table[3]))


def test_a_cell_of_flax_is_refused():
    with pytest.raises(UsageError, match=r"the cell is a flax\.linen\.\w+\.GRUCell: give a lrpt\.interop\.linen\.Cell"):
        RNN(nn.GRUCell(8)).init(jax.random.key(0), inputs())


@pytest.mark.parametrize("loop", ["fast", "plain"])
def test_a_layer_stays_in_the_precision_of_its_parameters_and_inputs(loop):
    layer, inputs = RNN(Cell("gru", 6, MatrixConfig("low_rank", 2)), loop=SequenceLoopConfig(loop)), jnp.ones((2, 3, 4))
    variables = layer.init(jax.random.key(0), inputs)
    low = jax.tree.map(lambda a: a.astype(jnp.bfloat16), variables)
    assert layer.apply(low, inputs.astype(jnp.bfloat16)).dtype == jnp.bfloat16
    assert layer.apply(low, inputs).dtype == jnp.float32
    with jax.enable_x64(True):
        assert layer.apply(variables, inputs).dtype == jnp.float32
        assert nn.RNN(layer.cell).apply(variables, inputs).dtype == jnp.float32


@pytest.mark.parametrize("name", ["gru", "lstm"])
def test_a_cell_runs_in_the_rnn_of_flax_with_64_bits(name):
    """Parameters that are drawn with 64 bits enabled have them, whatever the inputs have."""
    with jax.enable_x64(True):
        for dtype in (jnp.float32, jnp.float64):
            ys, variables = nn.RNN(Cell(name, 4)).init_with_output(jax.random.key(0), jnp.ones((2, 3, 5), dtype))
            assert {ys.dtype, *(leaf.dtype for leaf in jax.tree.leaves(variables))} == {jnp.dtype("float64")}
            np.testing.assert_allclose(ys, RNN(Cell(name, 4)).apply(variables, jnp.ones((2, 3, 5), dtype)), rtol=1e-12)


def test_a_list_of_lengths_is_refused():
    layer = RNN(Cell("gru", SIZE, LRD))
    params = layer.init(jax.random.key(0), inputs())
    with pytest.raises(UsageError, match=r"seq_lengths are a list: give an array, such as jnp\.asarray"):
        layer.apply(params, inputs(), seq_lengths=[1, 1, 1])


def test_the_name_of_a_loop_alone_is_refused():
    with pytest.raises(UsageError, match="loop is 'plain': give a SequenceLoopConfig"):
        RNN(Cell("gru", 6), loop="plain").init(jax.random.key(0), jnp.ones((2, 3, 4)))


@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_a_restored_state_of_many_layers_keeps_their_order(cell):
    """msgpack restores a stack as a dict, whose keys JAX sorts as '0', '1', '10', '11', '2'."""
    layer = RNN(Cell(cell, 3, layers=12), return_carry=True)
    xs = jax.random.normal(jax.random.key(0), (2, 4, 3))
    variables = layer.init(jax.random.key(1), xs)
    carry, _ = layer.apply(variables, xs)
    restored = serialization.msgpack_restore(serialization.to_bytes(carry))
    expected, ys = layer.apply(variables, xs, initial_carry=carry)
    found, same = layer.apply(variables, xs, initial_carry=restored)
    np.testing.assert_array_equal(same, ys)
    assert jax.tree.structure(found) == jax.tree.structure(restored)
    jax.tree.map(np.testing.assert_array_equal, found, serialization.to_state_dict(expected))


def test_every_layer_of_several_knows_the_lengths():
    """Padded sequences have the outputs of shorter ones. The backward direction of the second layer must not start in the padding."""
    layers = Layers([Bidirectional(RNN(Cell("gru", SIZE, LRD)), RNN(Cell("gru", SIZE, LRD))) for _ in range(2)])
    params = layers.init(jax.random.key(0), inputs())
    padded = layers.apply(params, inputs(), seq_lengths=LENGTHS)
    for row, length in enumerate(LENGTHS.tolist()):
        assert_close(padded[row, :length], layers.apply(params, inputs()[row : row + 1, :length])[0])


@pytest.mark.parametrize("shape", [(2, SIZE), (SIZE,), (BATCH, SIZE + 1)])
@pytest.mark.parametrize("symbols", [None, WIDTH])
def test_a_state_of_other_rows_than_the_inputs_is_one_line(shape, symbols):
    cell, xs = Cell("lstm", SIZE, symbols=symbols), inputs()[:, 0] if symbols is None else jnp.zeros(BATCH, int)
    params = cell.init(jax.random.key(0), cell.initialize_carry(None, xs.shape), xs)
    given = ", ".join(map(str, shape))
    says = rf"an array of shape \({given},?\), and inputs have the batch \({BATCH},\): give \({BATCH}, {SIZE}\)"
    with pytest.raises(UsageError, match=says):
        cell.apply(params, (jnp.zeros(shape),) * 2, xs)


def test_the_rnn_of_flax_stays_in_bfloat16_with_a_state_that_is_cast_too():
    """The state of `initialize_carry` is at least float32, so that inputs of float32 do not change its type within the loop."""
    theirs, xs = nn.RNN(Cell("lstm", SIZE)), inputs()
    low, narrow = (jax.tree.map(lambda a: a.astype(jnp.bfloat16), tree) for tree in (theirs.init(jax.random.key(0), xs), xs))
    carry = theirs.cell.initialize_carry(None, (BATCH, WIDTH))
    assert theirs.apply(low, narrow).dtype == theirs.apply(low, xs).dtype == jnp.float32
    cast = jax.tree.map(lambda h: h.astype(jnp.bfloat16), carry)
    assert theirs.apply(low, narrow, initial_carry=cast).dtype == jnp.bfloat16


def test_layers_return_the_outputs_alone():
    layers = Layers([RNN(Cell("gru", SIZE))])
    params = layers.init(jax.random.key(0), inputs())
    with pytest.raises(UsageError, match="Layers takes seq_lengths only, and not return_carry: call its layers one after another"):
        layers.apply(params, inputs(), return_carry=True)
    with_state = Layers([RNN(Cell("gru", SIZE)), RNN(Cell("gru", SIZE), return_carry=True)])
    with pytest.raises(UsageError, match="layer 1 of Layers returns its final state, too: make it without return_carry=True"):
        with_state.init(jax.random.key(0), inputs())


@pytest.mark.parametrize(("cell", "layers"), [("gru", 1), ("lstm", 1), ("lstm", 2)])
def test_the_initial_state_of_a_trained_network_begins_a_layer(cell, layers):
    """As docs/flax.md repeats it for a number of rows, whatever arrays it has."""
    network = Recurrent(ModelConfig(cell, SIZE, parametrization="dense", layers=layers), WIDTH)
    xs = jnp.swapaxes(inputs(), 0, 1)
    params = jax.tree.map(lambda a: a + 0.3, network.init(jax.random.key(0), xs)["params"])
    start = jax.tree.map(lambda h: jnp.broadcast_to(h, (BATCH, *h.shape)), params["initial_state"])
    ys = RNN(Cell(cell, SIZE, layers=layers), time_major=True).apply({"params": params}, xs, initial_carry=start)
    assert_close(ys, network.apply({"params": params}, xs)[1])


def test_an_adapter_needs_the_collection_frozen():
    layer = RNN(Cell("gru", SIZE, MatrixConfig("adapter", RANK)))
    variables = layer.init(jax.random.key(0), inputs())
    assert variables.keys() == {"params", "frozen"}
    with pytest.raises(UsageError, match=r"the variables do not fit them: .* all collections of variables that it returned"):
        layer.apply({"params": variables["params"]}, inputs())
    cell = variables["frozen"]["cell"]
    with pytest.raises(UsageError, match="the variables do not fit them"):
        layer.apply({**variables, "frozen": {"cell": {name: cell[name] for name in list(cell)[1:]}}}, inputs())


OTHERS = "takes vectors of width|do not divide|needs a square matrix|does not fit the input matrix"
"""What parametrizations say, whose arrays cannot have the other width at all."""


@pytest.mark.parametrize(
    ("settings", "width"),
    [
        ({"cell": "gru"}, WIDTH),
        ({"cell": "lstm", "layers": 2, "inputs": MatrixConfig("low_rank", RANK, tied=True)}, WIDTH),
        ({"cell": "gru", "inputs": MatrixConfig("block_diagonal", blocks=2)}, WIDTH),
        ({"cell": "gru", "inputs": MatrixConfig("kronecker", blocks=2, weight_norm=False)}, WIDTH),
        ({"cell": "lru"}, WIDTH),
        ({"cell": "lru"}, SIZE),
    ],
    ids=str,
)
def test_inputs_of_another_width_than_that_of_the_parameters_are_one_line(settings, width):
    layer = RNN(Cell(features=SIZE, **settings))
    shapes = jax.eval_shape(layer.init, jax.random.key(0), jnp.zeros((BATCH, STEPS, width)))
    cell = {name: part["cell"] for name, part in shapes.items()}

    def run(variables, xs):
        return layer.apply(variables, xs)

    assert jax.eval_shape(run, shapes, jnp.zeros((BATCH, STEPS, width))).shape == (BATCH, STEPS, SIZE)
    for xs in (jnp.zeros((BATCH, STEPS, 2)), jnp.zeros((BATCH, STEPS, 8))):
        says = (
            rf"inputs are float32 of shape \({BATCH}, {STEPS}, \d\), and the variables do not fit them: give inputs of the width|{OTHERS}"
        )
        with pytest.raises(UsageError, match=says):
            jax.eval_shape(run, shapes, xs)
        with pytest.raises(UsageError, match=rf"the variables do not fit them|{OTHERS}"):
            jax.eval_shape(lambda v, x: layer.cell.apply(v, layer.cell.initialize_carry(None, x.shape), x), cell, xs[:, 0])
    with pytest.raises(UsageError, match=rf"inputs are int32 of shape .*, or make the cell with symbols= if they are symbols|{OTHERS}"):
        jax.eval_shape(run, shapes, jnp.zeros((BATCH, STEPS), int))


@pytest.mark.parametrize("name", FEW)
def test_another_number_of_symbols_than_that_of_the_parameters_is_one_line(name):
    tokens = jnp.zeros((BATCH, STEPS), int)
    shapes = jax.eval_shape(RNN(Cell(name, SIZE, symbols=WIDTH)).init, jax.random.key(0), tokens)
    says = r"the variables do not fit them: .* \(symbols: of the number\) that `init` had, .* returned(?!, or make)"
    with pytest.raises(UsageError, match=says):
        jax.eval_shape(lambda variables: RNN(Cell(name, SIZE, symbols=5)).apply(variables, tokens), shapes)


def test_a_step_returns_the_state_in_the_structure_in_which_it_was_given():
    cell, xs = Cell("lstm", SIZE), inputs()[:, 0]
    variables = cell.init(jax.random.key(0), xs, method="bind_to")
    own = cell.initialize_carry(None, xs.shape)
    (c, h), ys = cell.apply(variables, (own.c + 0.5, own.h), xs)
    new, _ = cell.apply(variables, own._replace(c=own.c + 0.5), xs)
    assert_close((c, h), (new.c, new.h))
    assert_close(h, ys)
    for carry in ((own.c, own.h), {"c": own.c, "h": own.h}, own):
        assert jax.tree.structure(cell.apply(variables, carry, xs)[0]) == jax.tree.structure(carry)


def test_cells_have_as_many_transitions_as_were_asked_for():
    config = ModelConfig("rhn", SIZE, parametrization="dense", depth=3, trainable_initial_state=False)
    shapes = jax.eval_shape(RNN(Cell("rhn", SIZE, depth=3)).init, jax.random.key(0), inputs())
    assert shapes == jax.eval_shape(Recurrent(config, WIDTH).init, jax.random.key(0), jnp.swapaxes(inputs(), 0, 1))


def test_a_first_state_of_another_width_is_one_line():
    layer = RNN(Cell("lstm", SIZE, LRD))
    shapes = jax.eval_shape(layer.init, jax.random.key(0), inputs())
    for width in (SIZE - 1, 2 * SIZE):
        carry = (jnp.zeros((BATCH, width)),) * 2
        says = rf"the state before the first step has an array of shape \({BATCH}, {width}\): the cell expects \({BATCH}, {SIZE}\)"
        with pytest.raises(UsageError, match=says):
            jax.eval_shape(lambda variables, carry=carry: layer.apply(variables, inputs(), initial_carry=carry), shapes)


def dense_of(kind, arrays, width):
    """Return the dense form of the matrix of a linear layer."""
    matrix = ALL_FORMS[kind].matrix("matrix", MatrixSpec(width, SIZE, "input"), MatrixConfig(kind, RANK, **SIZES), arrays)
    return matrix.to_dense()


def drawn(shapes, seed=0):
    rng = np.random.default_rng(seed)
    return jax.tree.map(lambda a: jnp.asarray(rng.standard_normal(a.shape), jnp.float32), shapes)


NOT_SQUARE = ["dense", "low_rank", "block_diagonal", "monarch", "kronecker", "tensor_train", "sparse", "adapter"]


@pytest.mark.parametrize(
    ("kind", "width"),
    [*((kind, SIZE) if kind in FAST_KINDS else pytest.param(kind, SIZE, marks=pytest.mark.slow) for kind in ALL_FORMS)]
    + [(kind, 4) for kind in NOT_SQUARE],
)
def test_a_linear_layer_is_the_product_with_its_dense_matrix(kind, width):
    layer, xs = Linear(SIZE, MatrixConfig(kind, RANK, **SIZES)), jax.random.normal(jax.random.key(0), (2, 3, width))
    variables = drawn(jax.eval_shape(layer.init, jax.random.key(1), xs))
    frozen = variables.get("frozen", {}).get("matrix", {})

    def plain(params, xs):
        return xs @ dense_of(kind, {**params["matrix"], **frozen}, width) + params["bias"][None, None]

    def ours(params, xs):
        return layer.apply({**variables, "params": params}, xs)

    def both(function):
        def loss(params, xs):
            return weighted_sum(function(params, xs))

        return jax.jit(lambda *args: (function(*args), jax.grad(loss, argnums=(0, 1))(*args)))(variables["params"], xs)

    assert_close(both(ours), both(plain), atol=1e-5)


def test_a_linear_layer_takes_any_leading_axes_and_is_mapped_and_compiled():
    layer, xs = Linear(SIZE, MatrixConfig("low_rank", RANK)), jax.random.normal(jax.random.key(0), (2, 3, WIDTH))
    variables = drawn(jax.eval_shape(layer.init, jax.random.key(1), xs))
    ys = jax.jit(layer.apply)(variables, xs)
    assert ys.shape == (2, 3, SIZE)
    assert_close(layer.apply(variables, xs[0, 0]), ys[0, 0])
    assert_close(jax.vmap(layer.apply, (None, 0))(variables, xs), ys)
    twice = jax.tree.map(lambda a: jnp.stack([a, a]), variables)
    assert_close(jax.vmap(layer.apply)(twice, xs), ys)
    without = Linear(SIZE, MatrixConfig("low_rank", RANK), use_bias=False)
    matrix = {"params": {"matrix": variables["params"]["matrix"]}}
    assert jax.tree.map(jnp.shape, without.init(jax.random.key(1), xs)) == jax.tree.map(jnp.shape, matrix)
    assert_close(without.apply(matrix, xs), ys - variables["params"]["bias"][None, None])


def test_a_linear_layer_has_one_matrix_so_that_none_is_tied():
    layers = (Linear(SIZE, MatrixConfig("low_rank", RANK, tied=tied)) for tied in (False, True))
    shapes, tied = (jax.eval_shape(layer.init, jax.random.key(0), inputs()) for layer in layers)
    assert shapes == tied


def test_a_linear_layer_with_weight_normalization_has_the_norms_of_its_rows():
    layer, xs = Linear(SIZE, MatrixConfig("dense", weight_norm=True)), jax.random.normal(jax.random.key(0), (3, WIDTH))
    params = layer.init(jax.random.key(1), xs)["params"]
    assert jax.tree.map(jnp.shape, params) == {
        "bias": (SIZE,),
        "matrix": {"kernel": (WIDTH, SIZE)},
        "scale": {"matrix": {"kernel": (SIZE,)}},
    }
    V = params["matrix"]["kernel"]
    assert_close(layer.apply({"params": params}, xs), xs @ V)
    scales = jnp.arange(1.0, SIZE + 1)
    params = {**params, "scale": {"matrix": {"kernel": scales}}}
    assert_close(layer.apply({"params": params}, xs), xs @ (V / jnp.linalg.norm(V, axis=0, keepdims=True) * scales[None]))
    low_rank = Linear(SIZE, MatrixConfig("low_rank", RANK, weight_norm=True)).init(jax.random.key(1), xs)["params"]
    assert low_rank.keys() == {"bias", "matrix", "scale"}


def test_the_initial_outputs_of_linear_layers_are_as_large_as_the_docstring_says():
    n, d = 256, 32
    xs = jax.random.normal(jax.random.key(0), (200, n))
    sizes = {}
    for name, layer in {"flax": nn.Dense(n), "dense": Linear(n), "low rank": Linear(n, MatrixConfig("low_rank", d))}.items():
        variables = layer.init(jax.random.key(1), xs)
        sizes[name] = float(jnp.std(layer.apply(variables, xs)))
        assert not variables["params"]["bias"].any()
    np.testing.assert_allclose(sizes["dense"] / sizes["flax"], 1, rtol=0.05)
    np.testing.assert_allclose(sizes["low rank"] / sizes["flax"], 2 * (d / n) ** 0.5 / (1 + d / n), rtol=0.05)


def test_a_linear_layer_stays_in_the_precision_of_its_parameters_and_inputs():
    layer, xs = Linear(SIZE, MatrixConfig("low_rank_plus_diagonal", RANK)), jnp.ones((2, SIZE))
    variables = layer.init(jax.random.key(0), xs)
    low = jax.tree.map(lambda a: a.astype(jnp.bfloat16), variables)
    assert layer.apply(low, xs.astype(jnp.bfloat16)).dtype == jnp.bfloat16
    assert layer.apply(low, xs).dtype == layer.apply(variables, xs.astype(jnp.bfloat16)).dtype == jnp.float32
    with jax.enable_x64(True):
        assert {leaf.dtype for leaf in jax.tree.leaves(layer.init(jax.random.key(0), xs))} == {jnp.dtype("float64")}


@pytest.mark.parametrize("kind", ALL_FORMS)
def test_a_linear_layer_of_another_width_than_its_parameters_is_one_line(kind):
    layer = Linear(SIZE, MatrixConfig(kind, RANK, **SIZES))
    shapes = jax.eval_shape(layer.init, jax.random.key(0), jnp.zeros((2, SIZE)))
    with pytest.raises(UsageError, match=rf"inputs are float32 of shape \(2, 4\), and the variables do not fit|{OTHERS}"):
        jax.eval_shape(lambda variables: layer.apply(variables, jnp.zeros((2, 4))), shapes)


@pytest.mark.parametrize(
    ("matrices", "xs", "says"),
    [
        (
            MatrixConfig(),
            jnp.zeros((2, 3), int),
            r"inputs are int32 of shape \(2, 3\): expected floating-point numbers .*nn\.Embed of symbols",
        ),
        (MatrixConfig(), jnp.zeros(()), r"inputs are float32 of shape \(\): expected"),
        (MatrixConfig("circulant"), jnp.zeros((2, 3)), f"circulant needs a square matrix, and the input matrix 'matrix' is 3 x {SIZE}"),
        (MatrixConfig("low_rank"), jnp.zeros((2, 3)), f"rank 24 does not fit the input matrix 'matrix' of 3 x {SIZE}"),
        (MatrixConfig("monarch", blocks=2), jnp.zeros((2, 3)), f"blocks 2 do not divide the input matrix 'matrix' of 3 x {SIZE}"),
    ],
)
def test_what_does_not_fit_a_linear_layer_is_one_line(matrices, xs, says):
    with pytest.raises(UsageError, match=says):
        jax.eval_shape(Linear(SIZE, matrices).init, jax.random.key(0), xs)


def test_settings_of_a_linear_layer_that_do_not_fit():
    with pytest.raises(UsageError, match=r"features is 6\.0: expected an integer, 1 or more"):
        Linear(6.0)
    with pytest.raises(UsageError, match="matrices is 'low_rank': give a MatrixConfig"):
        Linear(SIZE, "low_rank")
    layer = Linear(SIZE, MatrixConfig("adapter", RANK))
    variables = layer.init(jax.random.key(0), inputs())
    with pytest.raises(UsageError, match="all collections of variables that it returned"):
        layer.apply({"params": variables["params"]}, inputs())


@pytest.mark.usefixtures("tables")
def test_the_arrays_of_a_parametrization_of_the_user_may_have_any_axes():
    """Their names do not tell the width of the inputs."""

    class Transposed(Parametrization):
        @nn.compact
        def __call__(self):
            shapes = {name: (spec.n_out, spec.n_in) for name, spec in self.specs.items()}
            return {name: Dense(self.factor(name, kernel=shape)["kernel"].T) for name, shape in shapes.items()}

    class Bare(Parametrization):
        @nn.compact
        def __call__(self):
            return {name: Dense(self.param(name, nn.initializers.ones, (s.n_in, s.n_out))) for name, s in self.specs.items()}

    for name, kind in {"transposed": Transposed, "bare": Bare}.items():
        PARAMETRIZATIONS[name] = kind
        for layer in (Linear(SIZE, MatrixConfig(name)), RNN(Cell("gru", SIZE, MatrixConfig(name), MatrixConfig(name)))):
            assert layer.apply(layer.init(jax.random.key(0), inputs()), inputs()).shape == (BATCH, STEPS, SIZE)


@pytest.mark.usefixtures("tables")
def test_a_linear_layer_has_parametrizations_of_the_user():
    PARAMETRIZATIONS["mine"] = partial(Structured, form=SumForm((FORMS["monarch"], FORMS["low_rank"])))
    layer, xs = Linear(SIZE, MatrixConfig("mine", RANK, blocks=2)), jnp.ones((2, 4))
    variables = layer.init(jax.random.key(0), xs)
    assert variables["params"]["matrix"].keys() == {"first", "second", "left", "right"}
    assert layer.apply(variables, xs).shape == (2, SIZE)


def test_an_rnn_sows_the_penalty_of_its_cell_where_it_is_asked_for():
    layer, xs = RNN(Cell("unitary_without_fourier", 4)), jnp.ones((2, 3, 5))
    variables = layer.init(jax.random.key(0), xs)
    assert "penalties" not in variables
    ys, sown = layer.apply(variables, xs, mutable=["penalties"])
    np.testing.assert_array_equal(ys, layer.apply(variables, xs))
    params, _ = layer.apply(variables, xs, method=lambda rnn, xs: rnn.cell.bind_to(xs))
    assert sown["penalties"]["cell_penalty"] == (CELLS["unitary_without_fourier"].penalty(params),)
    gru = RNN(Cell("gru", 4))
    assert gru.apply(gru.init(jax.random.key(0), xs), xs, mutable=["penalties"])[1] == {}
