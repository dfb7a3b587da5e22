"""Recurrent highway networks: how their two forms relate."""

import jax
import jax.numpy as jnp
from table import Row, assert_close, network, run

from lrpt.cells import CELLS, UncoupledRHNLayer


def test_a_carry_gate_that_is_the_opposite_of_the_transform_gate_is_the_coupled_one():
    net = network(Row("rhn", "dense"))
    layers = tuple(UncoupledRHNLayer(*layer, carry=jax.tree.map(jnp.negative, layer.transform)) for layer in net.params)
    assert_close(run(CELLS["rhn_uncoupled"], layers, net.carry, net.xs), run(net.cell, net.params, net.carry, net.xs))
