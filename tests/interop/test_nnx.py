"""Layers for `flax.nnx` against Flax's own on equal parameters, and against those for `flax.linen`."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx
from table import CELLS, RANK, SIZE, assert_close, weighted_sum

from lrpt.cells import Cell as TableCell
from lrpt.errors import UsageError
from lrpt.interop import linen
from lrpt.interop.nnx import RNN, Bidirectional, Cell, Frozen, Linear
from lrpt.parametrizations import MatrixConfig
from lrpt.specs import MatrixSpec

BATCH, STEPS, WIDTH = 3, 7, 4
LENGTHS = jnp.array([7, 1, 4])
LRD = MatrixConfig("low_rank_plus_diagonal", RANK)
FEW = ("gru", "lru", "vclstm")
ARGUMENTS = [
    {},
    {"time_major": True, "return_carry": True, "seq_lengths": LENGTHS},
    {"reverse": True, "return_carry": True, "seq_lengths": LENGTHS, "initial_carry": jnp.full((BATCH, SIZE), 0.5)},
    {"time_major": True, "reverse": True, "keep_order": True, "seq_lengths": LENGTHS},
    {"reverse": True, "keep_order": True, "return_carry": True, "initial_carry": jnp.full((BATCH, SIZE), 0.5)},
]


def inputs(time_major=False):
    return jax.random.normal(jax.random.key(0), (STEPS, BATCH, WIDTH) if time_major else (BATCH, STEPS, WIDTH))


@nnx.jit(static_argnames=("time_major", "reverse", "keep_order", "return_carry"))
def value_and_gradients(module, xs, **arguments):
    def loss(module, xs):
        found = module(xs, **arguments)
        return weighted_sum(found), found

    (_, found), gradients = nnx.value_and_grad(loss, argnums=(0, 1), has_aux=True)(module, xs)
    return found, gradients


def equal_grus():
    """Flax's GRU, and ours with its parameters; (z, r, n) of ours from (r, z, n) stacked."""
    theirs = nnx.GRUCell(WIDTH, SIZE, rngs=nnx.Rngs(0))
    theirs.dense_i.bias[...] = jnp.arange(3 * SIZE) / 10
    ours = Cell("gru_cudnn", WIDTH, SIZE, rngs=nnx.Rngs(1))
    W, U, b = (jnp.split(a[...], 3, axis=-1) for a in (theirs.dense_i.kernel, theirs.dense_h.kernel, theirs.dense_i.bias))
    for k, gate in enumerate(("reset", "update", "candidate")):
        ours.input[gate]["kernel"][...], ours.recurrent[gate]["kernel"][...], ours.bias[gate][...] = W[k], U[k], b[k]
    return theirs, ours


@pytest.mark.slow
@pytest.mark.parametrize("arguments", ARGUMENTS, ids=lambda arguments: "-".join(arguments))
def test_equals_flax_with_every_argument(arguments):
    theirs, ours = equal_grus()
    xs = inputs(arguments.get("time_major", False))
    expected, (of_module, to_xs) = value_and_gradients(nnx.RNN(theirs), xs, **arguments)
    actual, (of_ours, to_our_xs) = value_and_gradients(RNN(ours), xs, **arguments)
    assert_close(actual, expected, atol=1e-5)
    assert_close(to_our_xs, to_xs, atol=1e-5)
    stacked = jnp.concatenate([of_ours.cell.recurrent[gate]["kernel"][...] for gate in ("reset", "update", "candidate")], axis=-1)
    assert_close(stacked, of_module.cell.dense_h.kernel[...], atol=1e-5)
    attributes = {name: value for name, value in arguments.items() if isinstance(value, bool)}
    others = {name: value for name, value in arguments.items() if name not in attributes}
    assert_close(RNN(ours, **attributes)(xs, **others), actual)


@pytest.mark.parametrize("name", [pytest.param(name, marks=() if name in FEW else pytest.mark.slow) for name in CELLS])
def test_every_cell_is_usable_in_flax_as_it_is(name):
    cell = Cell(name, WIDTH, SIZE, LRD, depth=2 if CELLS[name].deep else 1, rngs=nnx.Rngs(0))
    asked = {"return_carry": True, "seq_lengths": LENGTHS}
    expected = nnx.RNN(cell)(inputs(), **asked)
    assert_close(RNN(cell)(inputs(), **asked), expected)
    layer = linen.RNN(cell.module)
    params = layer.init(jax.random.key(0), inputs())["params"]
    ours = nnx.to_pure_dict(nnx.state(cell, nnx.Param))
    assert jax.tree.map(jnp.shape, ours) == jax.tree.map(jnp.shape, params["cell"])
    assert_close(layer.apply({"params": {"cell": ours}}, inputs(), **asked), expected)


def test_bidirectional():
    (one, our_one), (other, our_other) = equal_grus(), equal_grus()
    asked = {"seq_lengths": LENGTHS, "return_carry": True}
    ours = Bidirectional(RNN(our_one), RNN(our_other))
    assert_close(ours(inputs(), **asked), nnx.Bidirectional(nnx.RNN(one), nnx.RNN(other))(inputs(), **asked))


def test_symbols():
    symbols = jax.random.randint(jax.random.key(0), (BATCH, STEPS), 0, WIDTH)
    cell = Cell("gru", WIDTH, SIZE, LRD, symbols=True, rngs=nnx.Rngs(0))
    expected = RNN(Cell("gru", WIDTH, SIZE, LRD, rngs=nnx.Rngs(0)))(jax.nn.one_hot(symbols, WIDTH))
    assert_close(RNN(cell)(symbols), expected)
    assert_close(nnx.RNN(cell)(symbols), expected)


def test_depth_and_storage_of_inputs_are_those_that_were_asked_for():
    low_rank = MatrixConfig("low_rank", RANK)
    cell = Cell("rhn", WIDTH, SIZE, LRD, low_rank, depth=3, rngs=nnx.Rngs(0))
    twin = linen.Cell("rhn", SIZE, LRD, low_rank, depth=3)
    shapes = jax.eval_shape(lambda xs: twin.init(jax.random.key(0), xs, method="bind_to"), inputs()[:, 0])["params"]
    assert jax.tree.map(jnp.shape, nnx.to_pure_dict(nnx.state(cell, nnx.Param))) == jax.tree.map(jnp.shape, shapes)


def test_the_carry_bias_and_the_number_of_layers_are_those_that_were_asked_for():
    cell = Cell("gru", WIDTH, SIZE, layers=2, carry_bias=3.0, rngs=nnx.Rngs(0))
    for layer in range(2):
        assert_close(cell.bias[f"layers_{layer}_update"][...], jnp.full(SIZE, 3.0))
        assert_close(cell.bias[f"layers_{layer}_reset"][...], jnp.zeros(SIZE))
    assert_close(Cell("gru", WIDTH, SIZE, rngs=nnx.Rngs(0)).bias["update"][...], jnp.ones(SIZE))  # if nothing was asked for


@pytest.mark.parametrize(
    ("sizes", "says"),
    [
        ((WIDTH, LRD), r"features is MatrixConfig\(.*\): expected an integer, 1 or more"),
        ((3.0, SIZE), r"in_features is 3\.0: "),
    ],
)
def test_sizes_that_are_no_integers(sizes, says):
    with pytest.raises(UsageError, match=f"^{says}"):
        Cell("gru", *sizes, rngs=nnx.Rngs(0))


def test_arguments_that_do_not_fit_are_one_line():
    with pytest.raises(UsageError, match=r"the cell is a flax\.nnx\..*GRUCell: give a lrpt\.interop\.nnx\.Cell"):
        RNN(nnx.GRUCell(WIDTH, SIZE, rngs=nnx.Rngs(0)))
    with pytest.raises(UsageError, match="loop is 'plain': give a SequenceLoopConfig"):
        RNN(Cell("gru", WIDTH, SIZE, LRD, rngs=nnx.Rngs(0)), loop="plain")(inputs())
    with pytest.raises(UsageError, match=f"seq_lengths contain {STEPS + 1}"):
        RNN(Cell("gru", WIDTH, SIZE, LRD, rngs=nnx.Rngs(0)))(inputs(), seq_lengths=jnp.array([1, STEPS + 1, 2]))
    cell = Cell("gru", WIDTH + 1, SIZE, LRD, rngs=nnx.Rngs(0))
    for call in (lambda: RNN(cell)(inputs()), lambda: cell(jnp.zeros((BATCH, SIZE)), inputs()[:, 0])):
        with pytest.raises(UsageError, match=rf"{WIDTH}\), and the cell was made with in_features={WIDTH + 1}: give inputs of that width"):
            call()
    with pytest.raises(UsageError, match=rf"inputs have shape .*{WIDTH}\), and the cell was made with in_features={WIDTH + 1}"):
        RNN(cell)(inputs().astype(int))
    with pytest.raises(UsageError, match="the inputs contain the symbol 9"):
        RNN(Cell("gru", WIDTH, SIZE, LRD, symbols=True, rngs=nnx.Rngs(0)))(jnp.array([[9]]))


@pytest.mark.slow
def test_resets_are_those_of_the_layer_for_linen():
    rnn = RNN(Cell("gru", WIDTH, SIZE, LRD, rngs=nnx.Rngs(0)))
    resets = jnp.zeros((BATCH, STEPS), bool).at[1, 3].set(True)
    variables = {name: {"cell": part} for name, part in rnn.cell.variables().items()}
    expected = linen.RNN(rnn.cell.module, parent=None).apply(variables, inputs(), resets=resets)
    assert_close(rnn(inputs(), resets=resets), expected)


def test_it_trains():
    xs = jax.random.normal(jax.random.key(0), (64, STEPS, WIDTH))
    ts = (xs[:, 0, 0] > 0).astype(int)
    rngs = nnx.Rngs(0)

    class Classifier(nnx.Module):
        def __init__(self):
            self.rnn = RNN(Cell("gru", WIDTH, 8, LRD, rngs=rngs))
            self.readout = nnx.Linear(8, 2, rngs=rngs)

        def __call__(self, xs):
            return self.readout(self.rnn(xs)[:, -1])

    model = Classifier()
    optimizer = nnx.Optimizer(model, optax.adam(0.03), wrt=nnx.Param)

    @nnx.jit
    def update(model, optimizer):
        def loss(model):
            return optax.softmax_cross_entropy_with_integer_labels(model(xs), ts).mean()

        value, gradients = nnx.value_and_grad(loss)(model)
        optimizer.update(model, gradients)
        return value

    losses = [update(model, optimizer) for _ in range(60)]
    assert losses[-1] < 0.2 < losses[0]


def test_settings_are_no_parameters_and_may_be_changed():
    cell = Cell("vclstm", WIDTH, SIZE, LRD, rngs=nnx.Rngs(0))
    rnn, params = RNN(cell), {"cell": nnx.to_pure_dict(nnx.state(cell, nnx.Param))}
    assert "settings" not in params["cell"]
    found = []
    for sharpness in (1.0, 0.1):
        cell.settings["sharpness"][...] = jnp.asarray(sharpness)
        found.append(rnn(inputs()))
        settings = {"cell": {"sharpness": jnp.asarray(sharpness)}}
        assert_close(found[-1], linen.RNN(cell.module).apply({"params": params, "settings": settings}, inputs()))
    assert jnp.max(jnp.abs(found[0] - found[1])) > 1e-3


@pytest.mark.parametrize("kind", ["adapter", "adapter_plus_diagonal"])
def test_frozen_matrices_are_no_parameters(kind):
    rnn, xs = RNN(Cell("gru", WIDTH, SIZE, MatrixConfig(kind, RANK), rngs=nnx.Rngs(0))), inputs()
    frozen = nnx.state(rnn, Frozen)
    assert {leaf.shape for leaf in jax.tree.leaves(frozen)} == {(SIZE, SIZE)}
    trained = nnx.to_flat_state(nnx.grad(lambda rnn: weighted_sum(rnn(xs)))(rnn))
    assert not {path for path, _ in trained} & {path for path, _ in nnx.to_flat_state(frozen)}
    assert_close(rnn(xs), linen.RNN(rnn.cell.module).apply({name: {"cell": part} for name, part in rnn.cell.variables().items()}, xs))


def test_a_state_as_wide_as_the_inputs(tables):
    def step(params, carry, x):
        h = jnp.tanh(params["a"].apply(x) + params["a"].apply(carry["x"]))
        return {"h": h, "x": x}, (h, ())

    def template(spec):
        return {"a": MatrixSpec(spec.input_size, spec.size, "input")}

    CELLS["mine"] = TableCell(step, template, carry=lambda spec: {"h": spec.size, "x": spec.input_size})
    cell = Cell("mine", WIDTH, SIZE, rngs=nnx.Rngs(0))
    found, expected = (kind(cell)(inputs()) for kind in (RNN, nnx.RNN))
    assert_close(found, expected)
    assert jax.tree.map(jnp.shape, cell.initialize_carry((BATCH, WIDTH))) == {"h": (BATCH, SIZE), "x": (BATCH, WIDTH)}


def test_a_cell_runs_in_the_rnn_of_flax_with_64_bits():
    with jax.enable_x64(True):
        cell = Cell("gru", 5, 4, rngs=nnx.Rngs(0))
        for dtype in (jnp.float32, jnp.float64):
            ys = nnx.RNN(cell)(jnp.ones((2, 3, 5), dtype))
            assert ys.dtype == jnp.float64
            np.testing.assert_allclose(ys, RNN(cell)(jnp.ones((2, 3, 5), dtype)), rtol=1e-12)


@pytest.mark.parametrize("kind", ["low_rank", "sparse", "adapter"])
def test_a_linear_layer_is_that_of_linen(kind):
    matrices = MatrixConfig(kind, RANK, density=0.5)
    layer, twin, xs = Linear(WIDTH, SIZE, matrices, rngs=nnx.Rngs(0)), linen.Linear(SIZE, matrices), inputs()
    layer.bias[...] = jnp.arange(1.0, SIZE + 1)
    variables = layer.variables()
    params = nnx.to_pure_dict(nnx.state(layer, nnx.Param))
    assert jax.tree.map(jnp.shape, params) == jax.tree.map(jnp.shape, twin.init(jax.random.key(0), xs)["params"])
    found, gradients = nnx.jit(nnx.value_and_grad(lambda layer: weighted_sum(layer(xs))))(layer)
    expected, own = jax.value_and_grad(lambda params: weighted_sum(twin.apply({**variables, "params": params}, xs)))(params)
    assert_close((found, nnx.to_pure_dict(gradients)), (expected, own), atol=1e-5)
    assert_close(layer(xs), twin.apply(variables, xs))
    assert Linear(WIDTH, SIZE, matrices, use_bias=False, rngs=nnx.Rngs(0)).names == ("matrix",)


def test_arguments_of_a_linear_layer_that_do_not_fit_are_one_line():
    layer = Linear(WIDTH, SIZE, rngs=nnx.Rngs(0))
    with pytest.raises(UsageError, match=rf"inputs have shape \(2, 3\), and the layer was made with in_features={WIDTH}: give inputs"):
        layer(jnp.ones((2, 3)))
    with pytest.raises(UsageError, match="inputs are int32 of shape"):
        layer(jnp.ones((2, WIDTH), int))
    with pytest.raises(UsageError, match="circulant needs a square matrix"):
        Linear(WIDTH, SIZE, MatrixConfig("circulant"), rngs=nnx.Rngs(0))
    for make in (lambda rngs: Linear(WIDTH, SIZE, rngs=rngs), lambda rngs: Cell("gru", WIDTH, SIZE, rngs=rngs)):
        with pytest.raises(UsageError, match=r"rngs is 0: give nnx\.Rngs, such as nnx\.Rngs\(0\)"):
            make(0)


@pytest.mark.parametrize("kind", ["dense", "low_rank"])
def test_a_linear_layer_with_weight_norm(kind):
    layer = Linear(WIDTH, SIZE, MatrixConfig(kind, 2, weight_norm=True), rngs=nnx.Rngs(0))
    assert layer(jnp.ones((3, WIDTH))).shape == (3, SIZE)
