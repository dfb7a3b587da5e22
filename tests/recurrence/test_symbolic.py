"""Sequences of symbolic sizes, as `jax.export` traces them: one program for any number of rows and steps."""

import jax
import jax.numpy as jnp
import pytest
from jax import export
from table import assert_close

from lrpt.errors import UsageError
from lrpt.networks.sequence_model import ModelConfig
from lrpt.recurrence import LOOPS

INPUTS = 3


def network(**settings):
    model = ModelConfig("gru", size=8, rank=2, parametrization="low_rank_plus_diagonal", **settings).build(INPUTS, 2, "all")
    return model, model.init(jax.random.key(0), jnp.zeros((1, 2, INPUTS)))


def exported(function, *arguments):
    return export.export(jax.jit(function))(*arguments)


def sequences(sizes):
    shape = export.symbolic_shape(sizes)
    return jax.ShapeDtypeStruct((*shape, INPUTS), jnp.float32), jax.ShapeDtypeStruct(shape, jnp.bool_)


@pytest.mark.parametrize("sizes", ["b, 70", "b, t", "4, t"])
@pytest.mark.parametrize("settings", [{}, {"store": "boundaries", "chunk": 3}, {"unroll": 4}], ids=["by rule", "boundaries", "unrolled"])
def test_gradients_of_the_fast_loop(sizes, settings):
    model, variables = network(**settings)

    def loss(variables, xs, mask):
        return jnp.sum(jnp.where(mask[..., None], model.apply(variables, xs, mask), 0.0) ** 2)

    shapes = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), variables)
    program = exported(jax.grad(loss), shapes, *sequences(sizes))
    xs = jax.random.normal(jax.random.key(1), (4, 70, INPUTS))
    mask = jnp.arange(70)[None] < jnp.array([70, 33, 1, 0])[:, None]
    assert_close(program.call(variables, xs, mask), jax.grad(loss)(variables, xs, mask), 1e-4)


@pytest.mark.parametrize("loop", ["fast", "plain"])
def test_predictions_without_a_mask(loop):
    model, variables = network(recurrence=loop)
    program = exported(lambda xs: model.apply(variables, xs), sequences("b, t")[0])
    xs = jax.random.normal(jax.random.key(1), (3, 9, INPUTS))
    assert_close(program.call(xs), model.apply(variables, xs), 1e-5)


def test_chunks_of_a_symbolic_number_of_steps_are_refused():
    assert set(LOOPS) == {"fast", "plain", "checkpoint"}
    model, variables = network(recurrence="checkpoint")
    with pytest.raises(UsageError, match=r"number of steps is symbolic \(t\).*use loop 'fast'.*or 'plain'"):
        exported(lambda xs: model.apply(variables, xs), sequences("b, t")[0])
