"""Cells with several transitions inside a step: any depth, and what they are at depth one or with parts of them at zero."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest
from table import BATCH, INPUT_SIZE, SIZE, SPEC, STEPS, Network, assert_close, assert_equal, by_name, run

from lrpt.cells import CELLS, CellSpec, ElmanParams, TransitionLayer
from lrpt.matrices import Bias, Dense
from lrpt.parametrizations import MatrixConfig, Parameters
from lrpt.specs import MatrixSpec, OperatorSpec

DEEP = [name for name, cell in CELLS.items() if cell.deep]


def deep_network(name, depth):
    """A network with full matrices, of which nothing is small or zero."""
    rng = np.random.default_rng(depth)
    template = CELLS[name].template(dataclasses.replace(SPEC, depth=depth))

    def drawn(spec):
        assert not isinstance(spec, OperatorSpec)
        shape = (spec.n_in, spec.n_out) if isinstance(spec, MatrixSpec) else (spec.size,)
        array = jnp.asarray(0.7 * rng.standard_normal(shape), jnp.float32)
        return Dense(array) if isinstance(spec, MatrixSpec) else Bias(array)

    carry, xs = (jnp.asarray(rng.standard_normal(s), jnp.float32) for s in ((BATCH, SIZE), (STEPS, BATCH, INPUT_SIZE)))
    return Network(CELLS[name], template, jax.tree.map(drawn, template), carry, xs)


@pytest.mark.parametrize("depth", [1, 5])
@pytest.mark.parametrize("name", DEEP)
def test_any_depth_equals_the_float64_loop(name, depth):
    net = deep_network(name, depth)
    carry, (ys, info) = run(net.cell, net.params, net.carry, net.xs)
    assert len(info) == depth
    expected = oracles.loop(oracles.ORACLES[name], net.arrays(), np.asarray(net.carry, np.float64), net.xs)
    assert_close((carry, ys, by_name(info)), expected, rtol=4e-6, atol=4e-6)


@pytest.mark.parametrize("name", ["dt_rnn", "dts_rnn"])
def test_one_layer_is_an_elman_network(name):
    net = deep_network(name, 1)
    (layer,) = net.params
    expected = run(CELLS["elman"], ElmanParams(layer.candidate), net.carry, net.xs)
    carry, (ys, _) = run(net.cell, net.params, net.carry, net.xs)
    assert_close((carry, ys), (expected[0], expected[1][0]))


def test_shortcuts_of_zero_are_none():
    net = deep_network("dts_rnn", 3)
    first, *rest = net.params
    zero = tuple(layer._replace(shortcut=Dense(jnp.zeros((SIZE, SIZE)))) for layer in rest)
    without = (first, *(TransitionLayer(layer.candidate) for layer in rest))
    expected = run(CELLS["dt_rnn"], without, net.carry, net.xs)
    assert_close(run(net.cell, (first, *zero), net.carry, net.xs), expected)


def test_tied_matrices_of_the_state_before_the_step_share_a_projection():
    template = CELLS["dts_rnn"].template(dataclasses.replace(SPEC, depth=3))
    module = Parameters(template, MatrixConfig("low_rank", 2, tied=True), MatrixConfig())
    (first, *rest), variables = module.init_with_output(jax.random.key(0))
    stored = variables["params"]["recurrent"]
    names = {"0_candidate", "1_candidate", "1_shortcut", "2_candidate", "2_shortcut"}
    assert set(stored) == names | {"shared_0", "shared_1", "shared_2"}
    for layer in rest:
        assert_equal(layer.shortcut.right, stored["shared_0"]["right"])
    for group, layer in enumerate((first, *rest)):
        assert_equal(layer.candidate.recurrent.right, stored[f"shared_{group}"]["right"])


# Of the JSB networks of 88 inputs, with a biased readout of 88 outputs, in matrices and biases of n units and L layers.
COUNTS = {
    "dt_rnn": lambda n, depth: 88 * n + depth * n**2 + depth * n,
    "dts_rnn": lambda n, depth: 88 * n + (2 * depth - 1) * n**2 + depth * n,
    "rhn": lambda n, depth: 2 * 88 * n + 2 * depth * n**2 + 2 * depth * n,
    "rhn_uncoupled": lambda n, depth: 3 * 88 * n + 3 * depth * n**2 + 3 * depth * n,
}


@pytest.mark.parametrize("depth", [1, 2, 4, 6])
@pytest.mark.parametrize("name", DEEP)
def test_counts_grow_with_depth_as_the_equations_say(name, depth):
    specs = jax.tree.leaves(CELLS[name].template(CellSpec(88, 215, depth=depth)))
    assert sum(s.n_in * s.n_out if isinstance(s, MatrixSpec) else s.size for s in specs) == COUNTS[name](215, depth)
