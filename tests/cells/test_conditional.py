"""The conditional network, with words and characters and with characters and bits, against a float64 loop."""

from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles import sigmoid
from table import RANK, Network, assert_close, assert_equal, run, weighted_sum

from lrpt.cells import CellSpec, ConditionalCarry, ConditionalInput, conditional_cell
from lrpt.errors import UsageError
from lrpt.parametrizations import MatrixConfig, Parameters
from lrpt.recurrence import recur

SYMBOLS, UNITS, SLOW, SIZE, STEPS, BATCH = 6, 7, 4, 5, 9, 3
KINDS = ("dense", "low_rank", "low_rank_plus_diagonal")


@cache
def network(kind, tied=False):
    cell, spec, rng = conditional_cell(UNITS, SLOW), CellSpec(SYMBOLS, SIZE), np.random.default_rng(2)
    module = Parameters(cell.template(spec), MatrixConfig(kind, RANK, tied), MatrixConfig("low_rank" if tied else "dense", RANK, tied))
    shapes = jax.eval_shape(module.init, jax.random.key(0))
    params = module.apply(jax.tree.map(lambda a: jnp.asarray(rng.standard_normal(a.shape), jnp.float32), shapes))
    carry = jax.tree.map(lambda n: jnp.asarray(rng.standard_normal((BATCH, n)), jnp.float32), cell.carry(spec))
    symbols, units = (jnp.asarray(rng.integers(0, k, (STEPS, BATCH))) for k in (SYMBOLS, UNITS))
    return Network(cell, cell.template(spec), params, carry, ConditionalInput(symbols, units, symbols == 0))


def loop(w, carry, xs):
    """mixed-rnn/WordModule.cpp, one symbol at a time: the word's state changes before the separator's."""
    slow, fast = (np.asarray(h, np.float64) for h in carry)
    ys = []
    for symbol, unit, boundary in zip(*map(np.asarray, xs), strict=True):
        new = sigmoid(w["slow.input"][unit] + slow @ w["slow.recurrent"] + w["slow.bias"])
        slow = np.where(boundary[:, None], new, slow)
        fast = sigmoid(w["fast.input"][symbol] + fast @ w["fast.recurrent"] + slow @ w["fast.condition"] + w["fast.bias"])
        ys.append((fast, slow))
    return ConditionalCarry(slow, fast), ys


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("tied", [False, True])
def test_outputs_equal_the_float64_loop(kind, tied):
    if tied and kind == "dense":
        pytest.skip("full matrices have no projection")
    net = network(kind, tied)
    assert np.any(net.xs.boundary)
    end, steps = loop(net.arrays(), net.carry, net.xs)
    carry, (ys, info) = run(net.cell, net.params, net.carry, net.xs)
    expected = end, np.stack([y for y, _ in steps]), np.stack([slow for _, slow in steps])
    assert_close((carry, ys, info.slow), expected, rtol=2e-6, atol=2e-6)
    assert_equal(info.fast, ys)


def test_the_fast_loop_equals_the_plain_one():
    net = network("low_rank_plus_diagonal")

    @partial(jax.jit, static_argnames="loop")
    def gradient(params, carry, loop):
        return jax.grad(lambda *at: weighted_sum(recur(net.cell.step, *at, net.xs, loop=loop)), argnums=(0, 1))(params, carry)

    assert_close(gradient(net.params, net.carry, "fast"), gradient(net.params, net.carry, "plain"), rtol=1e-5, atol=1e-5)


def test_widths():
    assert conditional_cell(UNITS).carry(CellSpec(SYMBOLS, SIZE)) == (SIZE, SIZE)
    for units, slow in ((0, None), (3, 0)):
        with pytest.raises(UsageError, match=r"units is .* and slow_size is .*: expected 1 or more for each"):
            conditional_cell(units, slow)
