"""Tests of mean gates by hand, and of networks with closed layers against an oracle without them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles import ORACLES, loop
from table import INPUT_SIZE, SIZE, Row, network, run

from lrpt.analysis.gates import gate_activity, gate_figure
from lrpt.analysis.lesions import Lesions, lesion_figure, lesions, shut_layer, transform_layers
from lrpt.cells import GRUInfo, RHNInfo
from lrpt.errors import UsageError
from lrpt.networks.sequence_model import ModelConfig, SequenceModel

DEPTH = 3


@pytest.mark.parametrize("gate", ["transform", "carry"])
def test_activity_is_the_mean_over_units(gate):
    net = network(Row("rhn_uncoupled", "dense"))
    mask = np.arange(len(net.xs))[:, None] < np.array([6, 2, 3, 1])
    _, (_, info) = run(net.cell, net.params, net.carry, net.xs)
    _, _, gates = loop(ORACLES["rhn_uncoupled"], net.arrays(), np.asarray(net.carry, np.float64), net.xs)
    expected = np.stack([gates[f"{layer}.{gate}"].mean(-1).T for layer in range(2)], axis=1)
    np.testing.assert_allclose(gate_activity(info, gate), expected, rtol=1e-5)
    masked = gate_activity(info, gate, jnp.asarray(mask))
    np.testing.assert_array_equal(np.isnan(masked), np.broadcast_to(~mask.T[:, None], masked.shape))
    np.testing.assert_allclose(np.nan_to_num(masked), np.where(mask.T[:, None], expected, 0), rtol=1e-5)


def test_means_over_units_are_exact_for_gates_of_half_precision():
    values = jnp.asarray(np.random.default_rng(0).random((3, 2, 300)), jnp.bfloat16)
    info = [RHNInfo(1 - values, values, 1 - values)]
    expected = np.asarray(values).astype(np.float64).mean(-1).T[:, None]
    np.testing.assert_allclose(gate_activity(info), expected, rtol=1e-14)


def test_a_gate_that_is_none_is_named():
    with pytest.raises(UsageError, match="gate is 'reset': choose from candidate, transform, carry"):
        gate_activity(RHNInfo(*jnp.ones((3, 5, 2, 4))), "reset")


@pytest.mark.parametrize(
    ("info", "given"),
    [((jnp.zeros(3), (jnp.zeros(3),)), r"\(array, tuple\)"), (jnp.zeros(3), "ArrayImpl"), ([], r"\(\)"), (None, "NoneType")],
    ids=["pair", "array", "empty", "None"],
)
def test_what_is_no_info_of_a_highway_network_is_named(info, given):
    with pytest.raises(UsageError, match=rf"info is {given}: give that of a cell rhn or rhn_uncoupled, as in carry, \(y, info\)"):
        gate_activity(info)


def test_gates_of_another_cell_are_named():
    with pytest.raises(UsageError, match=r"; its own gates are info\.update, info\.reset, info\.candidate$"):
        gate_activity(GRUInfo(*jnp.ones((3, 5, 2, 4))), "update")


def test_the_gates_of_one_layer_need_no_list():
    info = RHNInfo(*jnp.ones((3, 5, 2, 4)))
    np.testing.assert_array_equal(gate_activity(info), gate_activity([info]))


def model(cell="rhn"):
    net = SequenceModel(ModelConfig(cell, SIZE, DEPTH if "rhn" in cell else 1, parametrization="dense"), INPUT_SIZE, 2, "all")
    inputs = np.random.default_rng(1).standard_normal((2, 4, INPUT_SIZE)).astype(np.float32)
    rng = np.random.default_rng(0)
    shapes = jax.eval_shape(net.init, jax.random.key(0), inputs)["params"]
    return net, jax.tree.map(lambda a: rng.standard_normal(a.shape).astype(np.float32), shapes), inputs


def oracle_loss(name, params, inputs, held=None, bias=-500.0):
    """Compute the sum of squares of the outputs in a float64 loop; one layer's transform gate has a constant bias."""
    cell = params["recurrent"]["cell"]
    weights = {f"{gate}.{role}": np.float64(m["kernel"]) for role in ("recurrent", "input") for gate, m in cell[role].items()}
    weights |= {f"{gate}.bias": np.float64(b) for gate, b in cell["bias"].items()}
    weights = {name.replace("_", ".", 1): value for name, value in weights.items()}
    if held is not None:
        weights[f"{held}.transform.bias"] = np.full(SIZE, bias)
    start = np.tile(np.float64(params["recurrent"]["initial_state"]), (2, 1))
    _, ys, _ = loop(ORACLES[name], weights, start, np.swapaxes(inputs, 0, 1))
    return np.sum((ys @ np.float64(params["readout"]["kernel"]) + params["readout"]["bias"]) ** 2)


@pytest.mark.parametrize("name", ["rhn", "rhn_uncoupled"])
def test_lesions_are_the_losses_with_one_gate_at_zero(name):
    net, params, inputs = model(name)
    found = lesions(params, jax.jit(lambda params: jnp.sum(net.apply({"params": params}, inputs) ** 2)))
    assert found.intact == pytest.approx(oracle_loss(name, params, inputs), rel=1e-4)
    assert found.shut == pytest.approx([oracle_loss(name, params, inputs, layer) for layer in range(DEPTH)], rel=1e-4)
    assert found.opened == pytest.approx([oracle_loss(name, params, inputs, layer, 500.0) for layer in range(DEPTH)], rel=1e-4)
    assert found.increases_open == tuple(loss - found.intact for loss in found.opened)
    assert found.increases == tuple(loss - found.intact for loss in found.shut)


def test_only_one_bias_is_changed():
    _, params, _ = model()
    shut = shut_layer(params, 1)
    bias = ("recurrent", "cell", "bias", "1_transform")
    for path, leaf in jax.tree_util.tree_leaves_with_path(shut):
        names = tuple(key.key for key in path)
        before = params
        for name in names:
            before = before[name]
        np.testing.assert_array_equal(leaf, np.full(SIZE, -1e4) if names == bias else before)
    assert transform_layers(params) == [0, 1, 2]


def test_what_has_no_layers_is_refused():
    _, params, _ = model("gru")
    with pytest.raises(UsageError, match="not of a recurrent highway network with one layer: give those of"):
        lesions(params, lambda params: 0.0)
    with pytest.raises(UsageError, match=r"layer is 3: expected one of \[0, 1, 2\]"):
        shut_layer(model()[1], 3)


def test_figures_are_pngs(tmp_path):
    activity = np.random.default_rng(0).random((2, DEPTH, 9))
    activity[1, :, 5:] = np.nan
    paths = (
        gate_figure(activity, tmp_path / "gates.png"),
        lesion_figure(Lesions(1.0, (3.0, 1.5, 1.2), (1.5, 2.0, 0.8)), tmp_path / "lesions.png"),
    )
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in paths)
