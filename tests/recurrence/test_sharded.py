"""Within `jax.shard_map`, with its check of what varies, every loop gives the numbers and gradients of the whole batch."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P
from table import BATCH, SPEC, STEPS, Row, assert_close, every_kind_of_state, network

from lrpt.cells import CELLS
from lrpt.interop import linen
from lrpt.interop.linen import RNN, Bidirectional
from lrpt.matrices import Dense
from lrpt.networks.sequence_model import ModelConfig
from lrpt.recurrence import LOOPS, Tuning, recur

DEVICES = 2
pytestmark = pytest.mark.devices(DEVICES)
MASK = np.arange(STEPS)[:, None] < np.array([[6, 2, 4, 1]])
GRU = Row("gru", "low_rank_plus_diagonal")
READOUT = Dense(jnp.asarray(np.random.default_rng(0).standard_normal((6, 5)), jnp.float32))


def mesh_of(kind):
    return jax.make_mesh((DEVICES,), ("data",), axis_types=(kind,), devices=jax.devices()[:DEVICES])


def sharded(function, specs, out_specs):
    mesh = mesh_of(AxisType.Auto)
    return jax.jit(jax.shard_map(function, mesh=mesh, in_specs=specs, out_specs=out_specs))


def gradients(row, params, xs, mask, axis=None, **choices):
    """Return (loss, gradients of (parameters, readout), gradient of inputs) from a state of zeros, which varies over no axis."""

    def loss(params, xs):
        carry = CELLS[row.cell].zero_carry(SPEC, xs.shape[1:2])
        results = recur(CELLS[row.cell].step, params[0], carry, xs, mask, readout=params[1], **choices)
        return sum(jnp.sum(jnp.sin(3 * a)) for a in jax.tree.leaves(results))

    value, found = jax.value_and_grad(loss, (0, 1))(params, xs)
    return (jax.lax.psum(value, axis) if axis else value), *found


def check(row, mask=None, readout=None, **choices):
    net = network(row)
    params = net.params, readout
    by_row, tuned = P(None, "data"), partial(gradients, row, **choices)
    split = sharded(partial(tuned, axis="data"), (P(), by_row, by_row), (P(), P(), by_row))
    assert_close(split(params, net.xs, mask), jax.jit(tuned)(params, net.xs, mask), rtol=1e-4, atol=1e-5)


@every_kind_of_state
def test_the_fast_loop(row):
    check(row, loop="fast", tuning=Tuning(chunk=4))


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("outputs", ["all", "last"])
def test_a_mask_and_a_readout(loop, outputs):
    check(GRU, MASK, READOUT, loop=loop, outputs=outputs)


@pytest.mark.parametrize("loop", ["fast", *(pytest.param(loop, marks=pytest.mark.slow) for loop in LOOPS if loop != "fast")])
def test_packed_rows(loop):
    check(GRU, MASK, READOUT, loop=loop, tuning=Tuning(pack="always"))


@pytest.mark.parametrize("tuning", [Tuning(chunk=1), Tuning(chunk=4, store="boundaries")], ids=["steps", "boundaries"])
@pytest.mark.parametrize("kind", ["dense", "low_rank"])
def test_choices_of_the_fast_loop(kind, tuning):
    """Of a kernel stored both ways, and of projections side by side."""
    check(Row("gru", kind), loop="fast", outputs="last", tuning=tuning)


def test_outputs_that_are_no_state():
    """The last output of an LSTM with a mask is carried beside the state, from zeros."""
    check(Row("vclstm", "dense"), MASK, loop="fast", outputs="last")


def test_a_network():
    model = ModelConfig("gru", size=8, rank=2, state_dropout=0.5).build(input_size=3, output_size=2, reads="last")
    xs = jax.random.normal(jax.random.key(0), (BATCH, 5, 3))
    variables = model.init(jax.random.key(1), xs)
    split = sharded(model.apply, (P(), P("data")), P("data"))
    assert_close(split(variables, xs), model.apply(variables, xs))


def test_explicit_axes_of_a_mesh():
    """`jax.make_mesh` makes explicit axes by default: shardings are part of the types of arrays."""
    mesh = mesh_of(AxisType.Explicit)
    net = network(GRU)
    params = net.params, READOUT
    xs = jax.device_put(net.xs, jax.NamedSharding(mesh, P(None, "data")))
    for choices in ({"loop": "fast"}, {"loop": "plain", "outputs": "last"}):
        tuned = partial(gradients, GRU, **choices)
        found = jax.jit(tuned)(params, xs, MASK)
        assert_close(found, jax.jit(tuned)(params, net.xs, MASK), rtol=1e-4, atol=1e-5)
        assert jax.typeof(found[2]).sharding.spec[1] == "data"


@pytest.mark.parametrize(("outputs", "axis"), [("all", 1), ("last", 0)])
def test_outputs_are_sharded_by_rows_as_inputs_are(outputs, axis):
    net = network(GRU)
    xs = jax.device_put(net.xs, jax.NamedSharding(mesh_of(AxisType.Explicit), P(None, "data")))
    end, ys = jax.jit(partial(recur, net.cell.step, outputs=outputs))(net.params, net.carry, xs)
    assert jax.typeof(end).sharding.spec[0] == "data"
    assert jax.typeof(ys).sharding.spec[axis] == "data"


def test_rows_may_be_sharded_by_the_state_alone():
    net = network(GRU)
    carry = jax.device_put(net.carry, jax.NamedSharding(mesh_of(AxisType.Explicit), P("data")))
    run = jax.jit(partial(recur, net.cell.step))
    found = run(net.params, carry, net.xs)
    assert_close(found, run(net.params, net.carry, net.xs))
    assert [jax.typeof(a).sharding.spec[axis] for a, axis in zip(found, (0, 1), strict=True)] == ["data", "data"]


def test_outputs_without_rows_are_not_sharded():
    xs = jnp.ones((STEPS, BATCH, 3))

    def step(params, h, x):
        h = h + x
        return h, (h, jnp.sum(h, 0))

    split = jax.device_put(xs, jax.NamedSharding(mesh_of(AxisType.Explicit), P(None, "data")))
    _, (ys, sums) = jax.jit(partial(recur, step, None, outputs="info"))(xs[0], split)
    np.testing.assert_allclose(sums, np.sum(ys, 1))
    assert [jax.typeof(a).sharding.spec[1] for a in (ys, sums)] == ["data", None]


def test_rows_may_be_sharded_over_two_axes():
    mesh = jax.make_mesh((1, DEVICES), ("hosts", "data"), axis_types=(AxisType.Explicit,) * 2, devices=jax.devices()[:DEVICES])
    net = network(GRU)
    xs = jax.device_put(net.xs, jax.NamedSharding(mesh, P(None, ("hosts", "data"))))
    run = jax.jit(partial(gradients, GRU, loop="fast"))
    found = run((net.params, READOUT), xs, MASK)
    assert_close(found, run((net.params, READOUT), net.xs, MASK), rtol=1e-4, atol=1e-5)
    assert jax.typeof(found[2]).sharding.spec[1] == ("hosts", "data")


@pytest.mark.parametrize("inputs", [3, None])
def test_a_network_on_explicit_axes(inputs):
    mesh = mesh_of(AxisType.Explicit)
    model = ModelConfig("lstm", size=6, rank=2, tied=True, parametrization="low_rank").build(inputs or 7, 2, "all")
    xs = jax.random.normal(jax.random.key(0), (4, 5, 3)) if inputs else jax.random.randint(jax.random.key(0), (4, 5), 0, 7)
    variables = model.init(jax.random.key(1), xs)
    update = jax.jit(jax.grad(lambda variables, xs: jnp.sum(model.apply(variables, xs) ** 2)))
    expected = update(variables, xs)
    with jax.set_mesh(mesh):
        assert_close(update(variables, jax.device_put(xs, jax.NamedSharding(mesh, P("data")))), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("choices", [{"cell": "unitary_without_fourier"}, {"rank": 5, "materialize": "always"}], ids=["merged", "dense"])
def test_sharded_parameters_get_another_form_before_the_loop(choices):
    mesh = mesh_of(AxisType.Explicit)
    model, xs = ModelConfig(size=6, **choices).build(3, 2, "all"), jax.random.normal(jax.random.key(0), (4, 5, 3))
    variables = model.init(jax.random.key(1), xs)
    update = jax.jit(jax.grad(lambda variables: jnp.sum(model.apply(variables, xs) ** 2)))

    def split(array):
        by_column = array.ndim and array.shape[-1] % DEVICES == 0
        return jax.device_put(array, jax.NamedSharding(mesh, P(*[None] * (array.ndim - 1), "data") if by_column else P()))

    expected = update(variables)
    with jax.set_mesh(mesh):
        assert_close(update(jax.tree.map(split, variables)), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "layer", [RNN, lambda cell: RNN(cell, reverse=True, keep_order=True), lambda cell: Bidirectional(RNN(cell), RNN(cell))]
)
def test_a_layer_for_flax_on_explicit_axes(layer):
    """With lengths, which select each row's last state, and the order of a reversed row."""
    mesh = mesh_of(AxisType.Explicit)
    model = layer(linen.Cell("gru", 6))
    xs, lengths = jax.random.normal(jax.random.key(0), (4, 5, 3)), jnp.asarray([5, 0, 3, 1])
    params = model.init(jax.random.key(1), xs)

    def loss(params, xs):
        carry, ys = model.apply(params, xs, seq_lengths=lengths, return_carry=True)
        return sum(jnp.sum(jnp.sin(a)) for a in jax.tree.leaves((carry, ys)))

    update = jax.jit(jax.grad(loss))
    split = jax.device_put(xs, jax.NamedSharding(mesh, P("data")))
    assert_close(update(params, split), update(params, xs), rtol=1e-4, atol=1e-5)
