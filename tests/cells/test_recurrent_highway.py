"""Recurrent highway networks: how their two forms relate, and the sizes of the paper's networks."""

import jax
import jax.numpy as jnp
import pytest
from table import Row, assert_close, network, run

from lrpt.cells import CELLS, CellSpec, UncoupledRHNLayer
from lrpt.matrices import MatrixSpec


def test_a_carry_gate_that_is_the_opposite_of_the_transform_gate_is_the_coupled_one():
    net = network(Row("rhn", "dense"))
    layers = tuple(UncoupledRHNLayer(*layer, carry=jax.tree.map(jnp.negative, layer.transform)) for layer in net.params)
    assert_close(run(CELLS["rhn_uncoupled"], layers, net.carry, net.xs), run(net.cell, net.params, net.carry, net.xs))


@pytest.mark.parametrize(
    ("symbols", "embedding", "depth", "size", "expected"),
    [
        (10_000, 1275, 1, 1275, 32_015_050),
        (10_000, 1000, 5, 1000, 32_020_000),
        (10_000, 830, 10, 830, 31_782_400),
        (205, 205, 10, 1000, 20_677_230),
        (27, 27, 10, 1500, 45_152_256),
    ],
)
def test_counts_are_those_of_the_papers_networks(symbols, embedding, depth, size, expected):
    """The cell between an embedding and a dense, biased readout: Zilly et al. 2017, Figure 5a, and sizes printed for enwik8 and text8."""
    specs = jax.tree.leaves(CELLS["rhn"].template(CellSpec(embedding, size, depth=depth)))
    own = sum(spec.n_in * spec.n_out if isinstance(spec, MatrixSpec) else spec.size for spec in specs)
    assert symbols * embedding + own + size * symbols + symbols == expected
