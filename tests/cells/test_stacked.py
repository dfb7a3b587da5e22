"""Stacks of layers, against a Python loop over the layers of the float64 oracles."""

from dataclasses import replace
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest
from table import BATCH, RANK, SIZE, STEPS, Network, assert_close, by_name, gradients, run

from lrpt.cells import CELLS, CellSpec, LSTMCarry, stacked
from lrpt.errors import UsageError
from lrpt.parametrizations import MatrixConfig, Parameters

SPEC = CellSpec(SIZE, SIZE, depth=2)
LAYERS = 2
STACKS = [
    ("gru", False),
    ("lstm", False),
    ("rhn", False),
    ("lru", False),
    ("vcgru", False),
    ("grid_lstm", False),
    ("grid_lstm_depth_first", True),
]
every_stack = pytest.mark.parametrize(("name", "shared"), STACKS)


def stored_shapes(cell, tied=False):
    kind = MatrixConfig("low_rank_plus_diagonal", RANK, tied)
    module = Parameters(cell.template(SPEC), kind, MatrixConfig("low_rank", RANK, tied))
    return module, jax.eval_shape(module.init, jax.random.key(0))


@cache
def network(name, shared):
    rng = np.random.default_rng(3)

    def normal(*shape):
        return jnp.asarray(rng.standard_normal(shape), jnp.float32)

    cell = stacked(CELLS[name], LAYERS, shared)
    module, shapes = stored_shapes(cell)
    params = module.apply(jax.tree.map(lambda a: 0.7 * normal(*a.shape), shapes))
    carry = jax.tree.map(lambda n: normal(BATCH, n), cell.carry(SPEC))
    return Network(cell, cell.template(SPEC), params, carry, normal(STEPS, BATCH, SIZE))


def one_step(name, layers, carry, x):
    """Each layer by its own oracle."""
    new, gates, m1 = [], {}, np.zeros_like(x)
    for k, (w, h) in enumerate(zip(layers, carry, strict=True)):
        if name.startswith("grid_lstm"):
            h, x, m1, info = oracles.grid_layer(w, h, x, m1, "depth" if name.endswith("depth_first") else None)
        else:
            h, (x, info) = oracles.ORACLES[name].step(w, h, x)
        new.append(h)
        gates |= {f"{k}.{gate}": value for gate, value in info.items()}
    return tuple(new), (x, gates)


def weights_of_layers(net):
    """For each layer, its weights by the names that they have in the cell alone."""
    arrays = net.arrays()
    parts = [
        {name.removeprefix(f"layers.{k}."): value for name, value in arrays.items() if name.startswith(f"layers.{k}.")}
        for k in range(LAYERS)
    ]
    return [part or parts[0] for part in parts]


@every_stack
def test_a_stack_equals_a_loop_over_layers_in_float64(name, shared):
    net = network(name, shared)
    oracle = oracles.Oracle(partial(one_step, name), {}, None)
    start = jax.tree.map(lambda h: np.asarray(h, np.float64), net.carry)
    expected = oracles.loop(oracle, weights_of_layers(net), start, net.xs)
    carry, (ys, info) = run(net.cell, net.params, net.carry, net.xs)
    assert_close((carry, ys, by_name(info)), expected, rtol=5e-6, atol=5e-6)


@pytest.mark.slow
@every_stack
def test_the_fast_loop_equals_the_plain_one(name, shared):
    net = network(name, shared)
    actual, expected = (gradients(net.cell, net.params, net.carry, net.xs, loop=loop) for loop in ("fast", "plain"))
    assert_close(actual, expected, rtol=1e-5, atol=1e-5)


def test_layers_have_names_and_projections_of_their_own():
    stored = stored_shapes(stacked(CELLS["gru"], 2), tied=True)[1]["params"]
    gates = {f"layers_{k}_{gate}" for k in range(2) for gate in ("update", "reset", "candidate")}
    for role in ("recurrent", "input"):
        assert set(stored[role]) == gates | {"shared_layers_0", "shared_layers_1"}
    assert set(stored["bias"]) == gates


def test_both_dimensions_of_a_grid_have_projections_of_their_own():
    stored = stored_shapes(stacked(CELLS["grid_lstm"], 2), tied=True)[1]["params"]
    expected = {f"shared_layers_{k}_{dimension}" for k in range(2) for dimension in ("depth", "time")}
    assert {name for name in stored["recurrent"] if name.startswith("shared")} == expected


def test_settings_of_layers_have_names_of_their_own():
    assert set(stored_shapes(stacked(CELLS["vcrnn"], 2))[1]["settings"]) == {"layers_0_sharpness", "layers_1_sharpness"}


def test_layers_above_the_first_are_as_wide_as_the_layers_below():
    template = stacked(CELLS["gru"], 2).template(CellSpec(3, SIZE))
    assert [layer.update.input.n_in for layer in template.layers] == [3, SIZE]


def test_each_layer_is_as_wide_as_the_layer_below_it_says():
    wide = replace(CELLS["gru"], output_size=lambda spec: spec.size + spec.input_size)
    stack, spec = stacked(wide, 3), CellSpec(3, 8)
    assert [layer.update.input.n_in for layer in stack.template(spec).layers] == [3, 11, 19]
    assert stack.output_size(spec) == 27


def test_one_layer_is_the_cell():
    net = network("grid_lstm", False)
    one = stacked(CELLS["grid_lstm"], 1)
    expected = CELLS["grid_lstm"].step(net.params.layers[0], net.carry[0], net.xs[0])
    (carry,), (y, (info,)) = one.step(net.params._replace(layers=net.params.layers[:1]), net.carry[:1], net.xs[0])
    assert isinstance(carry, LSTMCarry)
    assert_close((carry, (y, info)), expected)


def test_penalties_of_layers_are_added():
    cell = CELLS["unitary_without_fourier"]
    module, shapes = stored_shapes(stacked(cell, 2))
    params = module.apply(jax.tree.map(lambda a: jnp.full(a.shape, 0.5), shapes))
    assert stacked(cell, 2).penalty(params) == 2 * cell.penalty(params.layers[0])
    assert cell.penalty(params.layers[0]) == 5 * SIZE * 0.25
    assert stacked(CELLS["gru"], 2).penalty is None


def test_a_stack_is_made_once():
    assert stacked(CELLS["gru"], 2) is stacked(CELLS["gru"], 2)


def test_bad_stacks_are_refused():
    with pytest.raises(UsageError, match="layers is 0: expected 1 or more"):
        stacked(CELLS["gru"], 0)
    with pytest.raises(UsageError, match=f"widths 3 and {SIZE}"):
        stacked(CELLS["gru"], 2, shared=True).template(CellSpec(3, SIZE))
    stacked(CELLS["gru"], 1, shared=True).template(CellSpec(3, SIZE))  # one layer has nothing to share
    with pytest.raises(UsageError, match=f"lru has inputs of width 3 and a state of width {SIZE}"):
        stacked(CELLS["lru"], 2).template(CellSpec(3, SIZE))
