"""The recurrent part of a network over sequences ends in the state that the network itself ends in."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lrpt
from lrpt.networks.over_time import over_time
from lrpt.networks.sequence_model import ModelConfig, recurrent_of
from lrpt.networks.variable_computation import VariableConfig
from lrpt.parametrizations import ADAPTERS

CONFIGS = {
    "gru": ModelConfig("gru", 6, rank=2),
    "layers": ModelConfig("lstm", 6, rank=2, layers=2),
    "settings": VariableConfig("vcgru", 6, parametrization="dense", sharpness=0.7),
    **{kind: ModelConfig("gru", 6, parametrization=kind, rank=2) for kind in ADAPTERS},
}


@pytest.mark.parametrize("name", CONFIGS)
def test_the_last_state_is_that_of_the_network(name):
    config, xs = CONFIGS[name], jax.random.normal(jax.random.key(0), (3, 5, 6))
    reads_symbols = name == "settings"
    if reads_symbols:
        xs = jax.random.randint(jax.random.key(0), (3, 5), 0, 6)
    model = config.build(6, 2, "all")
    variables = model.init(jax.random.key(1), xs)
    variables = jax.tree.map(lambda leaf: leaf + 0.1, dict(variables))  # a trained state is not the first one
    read = model.apply(variables, xs, method=lambda model, xs: model.embedding(xs)) if reads_symbols else xs
    expected = model.apply(variables, xs, method="advance")[1]
    carry, (ys, _) = lrpt.recur(*over_time(recurrent_of(config, 6), variables, jnp.swapaxes(read, 0, 1)), outputs="info")
    assert jax.tree.leaves(ys)[0].shape[:2] == (5, 3)
    for mine, theirs in zip(jax.tree.leaves(carry), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-5)
