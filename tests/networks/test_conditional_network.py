"""The conditional network as a language model: a float64 loop over codes, carried states, and tasks that say too little."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles import sigmoid

from lrpt.errors import UsageError
from lrpt.networks.conditional import ConditionalConfig
from lrpt.networks.counting import count
from lrpt.networks.protocol import Start

SYMBOLS, UNITS, STEPS, BATCH = 3, 4, 6, 2
CONFIG = ConditionalConfig(5, 4)


@pytest.fixture(scope="module")
def trained():
    """A network with random parameters, its inputs, and its compiled forward pass."""
    model, rng = CONFIG.build(SYMBOLS * (1 + UNITS), SYMBOLS, "all"), np.random.default_rng(0)
    shapes = CONFIG.parameter_shapes(SYMBOLS * (1 + UNITS), SYMBOLS)
    params = jax.tree.map(lambda leaf: jnp.asarray(rng.standard_normal(leaf.shape), jnp.float32), shapes)
    inputs = jnp.asarray(rng.integers(0, SYMBOLS * (1 + UNITS), (BATCH, STEPS)), jnp.int32)
    advance = jax.jit(lambda inputs, start: model.apply({"params": params}, inputs, None, start, method="advance"))
    return model, params, inputs, advance


def loop(params, codes):
    """One row, code by code, in float64."""
    w = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), params)
    cell = w["cell"]
    slow, fast, found = np.zeros(4), np.zeros(5), []
    for code in codes:
        unit, symbol = divmod(int(code), SYMBOLS)
        if unit:
            inner = cell["input"]["slow"]["kernel"][unit - 1] + slow @ cell["recurrent"]["slow"]["kernel"] + cell["bias"]["slow"]
            slow = sigmoid(inner)
        own = cell["input"]["fast"]["kernel"][symbol] + fast @ cell["recurrent"]["fast"]["kernel"] + cell["bias"]["fast"]
        fast = sigmoid(own + slow @ cell["input"]["fast_condition"]["kernel"])
        found.append(fast @ w["readout"]["kernel"] + w["readout"]["bias"])
    return np.stack(found), (slow, fast)


def test_predictions_are_those_of_the_float64_loop(trained):
    _, params, inputs, advance = trained
    blank = Start((jnp.zeros((BATCH, 4)), jnp.zeros((BATCH, 5))), jnp.asarray(True))
    logits, carry = advance(inputs, Start(type(advance(inputs, None)[1])(*blank.carry), blank.reset))
    for row in range(BATCH):
        expected, states = loop(params, inputs[row])
        np.testing.assert_allclose(logits[row], expected, rtol=1e-5, atol=1e-5)
        for found, state in zip(carry, states, strict=True):
            np.testing.assert_allclose(found[row], state, rtol=1e-5, atol=1e-6)


def test_a_sequence_goes_on_where_another_ended(trained):
    _, _, inputs, advance = trained
    logits, end = advance(inputs, None)
    _, middle = advance(inputs[:, :3], None)
    continued, carry = advance(inputs[:, 3:], Start(middle, jnp.asarray(False)))
    np.testing.assert_allclose(continued, logits[:, 3:], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(carry.slow, end.slow, rtol=1e-5, atol=1e-6)


def test_tasks_that_say_nothing_of_units_are_refused():
    for sizes in ((27, 27), (28, 27), (271, 27), (9, 27)):
        with pytest.raises(
            UsageError, match=r"reads which word or character a symbol completes, and this task has \d+ inputs for 27 symbols"
        ):
            CONFIG.parameter_shapes(*sizes)
    with pytest.raises(UsageError, match="this task has 5 inputs for 0 symbols"):
        CONFIG.parameter_shapes(5, 0)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"size": 0}, r"model\.size is 0: expected 1 or more"),
        ({"recurrence": "kernel"}, r"model\.loop\.kind is 'kernel': choose from"),
        ({"loop": 3}, r"model\.loop is 3: give a LoopConfig, or its settings by their names"),
        ({"matrices": "dense"}, r"model\.matrices is 'dense': give a StorageConfig"),
        ({"initial_scale": 0.0}, r"model\.initial\.scale is 0\.0: expected a finite number above 0"),
    ],
)
def test_bad_fields_are_one_line(fields, message):
    with pytest.raises(UsageError, match=message):
        ConditionalConfig(**fields)


@pytest.mark.parametrize("code", [-1, SYMBOLS * (1 + UNITS)])
def test_inputs_that_are_no_codes_are_one_line(trained, code):
    model, params, inputs, _ = trained
    with pytest.raises(UsageError, match=rf"the inputs contain the symbol {code}: expected numbers from 0 to 14"):
        model.apply({"params": params}, inputs.at[1, 2].set(code))


def test_one_prediction_for_a_whole_sequence_is_refused():
    with pytest.raises(UsageError, match="a conditional network reads which word"):
        CONFIG.build(SYMBOLS * (1 + UNITS), SYMBOLS, "last")


def test_matrices_of_inputs_are_dense_whatever_those_of_states_are():
    cell = ConditionalConfig(8, 6, parametrization="low_rank", rank=2).parameter_shapes(SYMBOLS * (1 + UNITS), SYMBOLS)["cell"]
    assert {name: arrays["kernel"].shape for name, arrays in cell["input"].items()} == {
        "slow": (UNITS, 6),
        "fast": (SYMBOLS, 8),
        "fast_condition": (6, 8),
    }
    assert all(arrays.keys() == {"left", "right"} for arrays in cell["recurrent"].values())


def test_the_published_size_is_that_of_two_dense_levels_of_one_width():
    def summary(*sizes, **how):
        return ConditionalConfig(*sizes, **how).summarize({"loss": 1.0})

    assert summary(500) == summary(500, 500) == {"loss": 1.0, "paper_equivalent_size": pytest.approx(500 * 2**0.5)}
    assert summary(500, 400) == summary(500, parametrization="low_rank") == {"loss": 1.0}


def test_sizes_and_labels():
    assert CONFIG.label == "CRNN 5-4"
    assert ConditionalConfig(8, parametrization="low_rank", rank=2).label == "LR-CRNN 8-8/2"
    levels = 4 * (UNITS + 4 + 1) + 5 * (SYMBOLS + 5 + 4 + 1)
    assert count(CONFIG, SYMBOLS * (1 + UNITS), SYMBOLS).true == levels + (5 + 1) * SYMBOLS


def test_a_state_without_start_is_one_line(trained):
    model, params, inputs, _ = trained
    with pytest.raises(UsageError, match=r"the state to start from is a tuple: give lrpt\.Start\(carry\)"):
        model.apply({"params": params}, inputs, None, (jnp.zeros((BATCH, 4)), jnp.zeros((BATCH, 5))), method="advance")


def test_a_network_of_bfloat16_parameters_computes_in_bfloat16(trained):
    model, params, inputs, advance = trained
    low = jax.tree.map(lambda leaf: leaf.astype(jnp.bfloat16), params)
    logits, carry = model.apply({"params": low}, inputs, method="advance")
    assert {leaf.dtype for leaf in jax.tree.leaves((logits, carry))} == {jnp.dtype("bfloat16")}
    np.testing.assert_allclose(logits.astype(jnp.float32), advance(inputs, None)[0], rtol=0.05, atol=0.1)


def test_the_initial_state_given_by_hand_changes_nothing(trained):
    model, params, inputs, advance = trained
    for precision in (jnp.float32, jnp.bfloat16):
        cast = jax.tree.map(lambda a, to=precision: a.astype(to), params)
        carry = model.apply({"params": cast}, BATCH, method="initial_carry")
        assert {leaf.dtype for leaf in jax.tree.leaves(carry)} == {jnp.dtype(precision)}
    carry = model.apply({"params": params}, BATCH, method="initial_carry")
    jax.tree.map(np.testing.assert_array_equal, advance(inputs, Start(carry)), advance(inputs, None))
    with pytest.raises(UsageError, match="rows is 0: expected the number of sequences"):
        model.apply({"params": params}, 0, method="initial_carry")


@pytest.mark.parametrize(
    ("change", "mask", "says"),
    [
        (
            lambda codes: codes.astype(float),
            None,
            r"inputs are float32 of shape \(2, 6\): expected integers of shape \(batch, time\) for symbols",
        ),
        (
            lambda codes: codes[0],
            None,
            r"inputs are int32 of shape \(6,\): expected integers of shape \(batch, time\) for symbols below 15",
        ),
        (lambda codes: codes.tolist(), None, "inputs is a list: give an array"),
        (
            lambda codes: codes,
            jnp.ones((STEPS, BATCH), bool),
            r"the mask has shape \(6, 2\): expected \(2, 6\), batch and time of the inputs",
        ),
    ],
    ids=["floats", "one axis", "list", "mask"],
)
def test_inputs_and_masks_of_another_form_are_one_line(change, mask, says, trained):
    model, params, inputs, _ = trained
    with pytest.raises(UsageError, match=says):
        model.apply({"params": params}, change(inputs), mask)


def test_there_is_no_initial_state_without_parameters(trained):
    with pytest.raises(UsageError, match="no collection 'params' of this network: give those that `init` of this model returned"):
        trained[0].apply({}, 2, method="initial_carry")
