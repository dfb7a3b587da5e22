"""Exported programs give the network's numbers for any batch and length, whole or step by step, with matrices in 8 bits too."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from table import assert_close

from lrpt.compression.quantization import Quantized, dequantize, num_bytes, quantize
from lrpt.errors import UsageError
from lrpt.interop import export
from lrpt.networks.conditional import ConditionalConfig
from lrpt.networks.highway_classifier import HighwayConfig
from lrpt.networks.sequence_model import ModelConfig, SequenceModel

NETWORKS = {
    "gru": (ModelConfig("gru", 24, rank=4), "last", None),
    "lstm": (ModelConfig("lstm", 16, rank=4, layers=2, embedding=5), "all", 11),
    "lattice": (ModelConfig("lru", 8, rank=2, embedding=8), "all", 11),
}


def made(name, batch, steps):
    config, reads, symbols = NETWORKS[name]
    model = SequenceModel(config, symbols or 3, 7, reads)
    key = jax.random.key(0)
    xs = jax.random.randint(key, (batch, steps), 0, symbols) if symbols else jax.random.normal(key, (batch, steps, 3))
    return model, xs, {"params": model.init(jax.random.key(1), xs)["params"]}


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("in_8_bits", [False, True])
def test_programs_equal_the_network(name, in_8_bits):
    pytest.importorskip("flatbuffers")
    model, xs, variables = made(name, 3, 5)
    stored = quantize(variables) if in_8_bits else variables
    step, dtype = xs.shape[2:], str(xs.dtype)
    whole = jax.export.deserialize(export.sequence(model, stored, step, dtype).serialize())
    assert set(whole.platforms) == {"cpu", "cuda", "tpu"}
    streaming = jax.export.deserialize(export.one_step(model, stored, step, dtype).serialize())
    for batch, steps in ((3, 5), (1, 2)):
        _, xs, _ = made(name, batch, steps)
        expected = model.apply(dequantize(stored), xs)
        assert_close(whole.call(xs), expected)
        state = [np.full((batch, *aval.shape[1:]), np.nan, aval.dtype) for aval in streaming.in_avals[2:]]  # ignored by the first step
        for t in range(steps):
            y, *state = streaming.call(xs[:, t], t == 0, *state)
        assert_close(y, expected if model.reads == "last" else expected[:, -1])


def test_programs_have_the_plain_loop_and_matrices_as_they_are_stored():
    for name in NETWORKS:
        loop = export.portable(made(name, 1, 2)[0]).config.loop
        assert (loop.kind, loop.materialize) == ("plain", "never")


def test_programs_of_networks_without_steps_take_any_batch():
    pytest.importorskip("flatbuffers")
    model, xs = HighwayConfig(depth=1, size=4, rank=2).build(6, 3, "last"), jax.random.normal(jax.random.key(0), (5, 6))
    variables = model.init(jax.random.key(1), xs)
    program = export.sequence(model, variables, (6,), "float32", is_sequence=False)
    for rows in (5, 1):
        assert_close(program.call(xs[:rows]), model.apply(variables, xs[:rows]))


def test_programs_of_conditional_networks():
    pytest.importorskip("flatbuffers")
    model, xs = ConditionalConfig(size=6).build(15, 5, "all"), jax.random.randint(jax.random.key(0), (3, 4), 0, 15)
    variables = {"params": model.init(jax.random.key(1), xs)["params"]}
    whole, streaming = export.sequence(model, variables, (), "int32"), export.one_step(model, variables, (), "int32", reads="all")
    with pytest.raises(UsageError, match="ConditionalNetwork has no attribute 'reads': give reads='last' or reads='all'"):
        export.one_step(model, variables, (), "int32")
    expected = model.apply(variables, xs)
    assert_close(whole.call(xs), expected)
    state = [np.full((3, *aval.shape[1:]), np.nan, aval.dtype) for aval in streaming.in_avals[2:]]  # ignored by the first step
    for t in range(4):
        y, *state = streaming.call(xs[:, t], t == 0, *state)
        assert_close(y, expected[:, t])


def test_quantized_matrices_are_near_and_small():
    params = {"left": np.random.default_rng(0).standard_normal((3, 50)).astype(np.float32), "bias": np.ones(50, np.float32)}
    params["left"][1] = 0
    found = quantize(params)
    assert found["bias"] is params["bias"]
    assert isinstance(found["left"], Quantized)
    assert found["left"].values.dtype == np.int8
    assert found["left"].scale.shape == (3, 1)
    assert num_bytes(found) == 150 + 3 * 4 + 50 * 4
    step = np.abs(params["left"]).max(1, keepdims=True) / 127
    assert (np.abs(dequantize(found)["left"] - params["left"]) <= step / 2 + 1e-7).all()
    assert np.abs(found["left"].values[[0, 2]]).max() == 127


@pytest.mark.parametrize("largest", [1e-44, 2.54e-43, 1e-38])
def test_numbers_too_small_for_a_scale_become_zero(largest):
    """The scale 1e-44 / 127 is 0 in float32. Subnormal ones are so coarse that w / s exceeds 127."""
    found = quantize(np.array([[largest, 0, 0], [1, 2, 3]], np.float32))
    np.testing.assert_array_equal(found.values[0], 0)
    assert found.scale[0] == 1
    np.testing.assert_array_equal(found.values[1], [42, 85, 127])


@pytest.mark.parametrize("largest", [1e-4, 3e-4, 1e-3, 1.0])
def test_half_precision_is_quantized_as_well(largest):
    weights = (largest * np.random.default_rng(0).uniform(-1, 1, (3, 50))).astype(np.float16)
    step = np.abs(weights.astype(np.float32)).max(1, keepdims=True) / 127
    assert (np.abs(dequantize(quantize(weights)) - weights.astype(np.float32)) <= 0.51 * step).all()


def test_readouts_have_a_scale_for_each_output():
    kernel = np.stack([np.ones(20), 100 * np.ones(20)], 1)
    assert_close(dequantize(quantize(kernel)), jnp.asarray(kernel, jnp.float32), 1e-6)


def test_parameters_that_are_not_finite():
    with pytest.raises(UsageError, match="not finite, because training diverged: name a run that did not"):
        quantize(np.full((2, 2), np.nan))
