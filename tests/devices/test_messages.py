"""Messages between processes: whatever is sent arrives, and nothing else is built from what arrives."""

import math
import pickle

import jax.numpy as jnp
import numpy as np
import optax
import pytest

from lrpt.devices.messages import decode, encode
from lrpt.errors import UsageError
from lrpt.training.step import TrainState

VALUES = [
    *(None, True, 3, -0.1, math.inf, "text", [1, (2, [])], {"a": {"b": (1.5, None)}, 3: "number"}),
    (None, ("the disk is full", 1)),
]


@pytest.mark.parametrize("value", VALUES, ids=str)
def test_plain_values_arrive(value):
    found = decode(encode(value))
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint8", "bool", "bfloat16", "uint32"])
def test_arrays_arrive_to_the_last_bit(dtype):
    values = np.asarray([[0.1, 3, -0.0]]).astype(jnp.dtype(dtype))
    found = decode(encode({"w": values}))["w"]
    assert (found.dtype, found.shape) == (values.dtype, values.shape)
    assert found.tobytes() == values.tobytes()
    assert found.flags.writeable, "as on the process that sent it"
    assert decode(encode(np.float32(0.1))) == np.float32(0.1)


def test_the_state_of_training_arrives():
    params = {"w": np.ones((2, 3), np.float32)}
    state = TrainState(**(dict.fromkeys(TrainState._fields) | {"params": params, "opt_state": optax.adam(0.1).init(params)}))
    found = decode(encode(state))
    assert type(found) is TrainState
    assert type(found.opt_state[0]) is optax.ScaleByAdamState
    np.testing.assert_array_equal(found.opt_state[0].mu["w"], 0)


@pytest.mark.parametrize(
    "text",
    [
        pickle.dumps([1]),
        b'["named", "os", "system", ["true"]]',
        b'["named", "builtins", "tuple", [1]]',
        b'["named", "no.such.module", "Name", []]',
        b'["other", 1]',
    ],
)
def test_nothing_else_is_built(text):
    with pytest.raises(ValueError, match=r"."):
        decode(text)


@pytest.mark.parametrize(
    "value", [object(), UsageError("x"), np.asarray([object()]), np.asarray(["a"])], ids=["object", "error", "objects", "text"]
)
def test_what_is_no_data_is_not_sent(value):
    with pytest.raises(TypeError):
        encode([value])
