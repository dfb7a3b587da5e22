"""The start that the original code of the lattice units has."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lrpt.networks.conditional import ConditionalConfig
from lrpt.networks.sequence_model import ModelConfig
from lrpt.symbols import CodedSize

WIDTH, SYMBOLS = 64, 300


def assert_uniform_within(values, bound):
    """These are uniform within the bound, as far as their number lets one see."""
    values = np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(values)])
    assert np.abs(values).max() <= bound
    assert np.std(values) == pytest.approx(bound / np.sqrt(3), rel=0.05)


@pytest.mark.parametrize("kind", ["dense", "low_rank_plus_diagonal"])
def test_a_lattice_starts_as_in_the_original_code(kind):
    config = ModelConfig(
        "lru", WIDTH, parametrization=kind, rank=16, carry_bias=0.0, initialization="lru", layers=2, trainable_initial_state=False
    )
    params = config.build(SYMBOLS, SYMBOLS, "all").init(jax.random.key(0), jnp.zeros((1, 1), jnp.int32))["params"]
    table = params["embedding"]["table"]
    assert (table.shape, float(jnp.std(table))) == ((SYMBOLS, WIDTH), pytest.approx(1, rel=0.05))
    assert_uniform_within(params["recurrent"]["cell"], WIDTH**-0.5)
    assert_uniform_within(params["readout"], WIDTH**-0.5)
    assert len(params["readout"]["bias"]) == SYMBOLS


@pytest.mark.parametrize("config", [ModelConfig(size=WIDTH, initialization="uniform"), ConditionalConfig(WIDTH, initialization="uniform")])
def test_uniform_starts_are_those_of_readouts_too(config):
    params = config.build(CodedSize(SYMBOLS, 1), SYMBOLS, "all").init(jax.random.key(0), jnp.zeros((1, 1), jnp.int32))["params"]
    assert_uniform_within(params["readout"], config.initial.scale)
    assert np.std(params["readout"]["bias"]) > 0


def test_an_input_matrix_goes_by_the_width_of_its_outputs():
    config = ModelConfig("elman", 100, parametrization="dense", initialization="lru")
    params = config.build(SYMBOLS, 5, "last").init(jax.random.key(0), jnp.zeros((1, 1), jnp.int32))["params"]
    assert_uniform_within(params["recurrent"]["cell"]["input"], 0.1)
