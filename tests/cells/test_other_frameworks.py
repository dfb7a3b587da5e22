"""The GRU with the reset gate after the product is the GRU of Flax and PyTorch, but for their second bias, which is set to zero here."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from table import INPUT_SIZE, SIZE, Row, assert_close, gradients, network

GATES = ("reset", "update", "candidate")

pytestmark = pytest.mark.parametrize("row", [Row("gru_reset_after", kind) for kind in ("dense", "low_rank_plus_diagonal")], ids=str)


def outputs_and_gradients(row):
    net = network(row)
    (_, (carry, ys)), (_, to_carry, to_xs) = gradients(net.cell, net.params, net.carry, net.xs)
    return net, (carry, ys, to_carry, to_xs)


def weights(net):
    """Cosines that `table.weighted_sum` gives the last state and the outputs."""
    sizes = net.carry.size, net.xs.shape[0] * net.carry.size
    return [np.cos(np.arange(size, dtype=np.float32)) for size in sizes]


def test_equals_flax(row):
    net, expected = outputs_and_gradients(row)
    w = {name: jnp.asarray(array, jnp.float32) for name, array in net.arrays().items()}
    params = {}
    for ours, theirs in zip(GATES, "rzn", strict=True):
        params[f"i{theirs}"] = {"kernel": w[f"{ours}.input"], "bias": w[f"{ours}.bias"]}
        params[f"h{theirs}"] = {"kernel": w[f"{ours}.recurrent"]}
    params["hn"]["bias"] = jnp.zeros(SIZE)
    cell = nn.GRUCell(SIZE)

    @jax.jit
    def run(carry, xs):
        return jax.lax.scan(lambda h, x: cell.apply({"params": params}, h, x), carry, xs)

    (carry, ys), pull = jax.vjp(run, net.carry, net.xs)
    cotangents = [jnp.asarray(w.reshape(a.shape)) for w, a in zip(weights(net), (carry, ys), strict=True)]
    assert_close((carry, ys, *pull(tuple(cotangents))), expected, atol=1e-5)


def test_equals_pytorch(row):
    torch = pytest.importorskip("torch")
    net, expected = outputs_and_gradients(row)
    w = net.arrays()
    gru = torch.nn.GRU(INPUT_SIZE, SIZE).double()
    stacked = {
        "weight_ih_l0": np.concatenate([w[f"{gate}.input"].T for gate in GATES]),
        "weight_hh_l0": np.concatenate([w[f"{gate}.recurrent"].T for gate in GATES]),
        "bias_ih_l0": np.concatenate([w[f"{gate}.bias"] for gate in GATES]),
        "bias_hh_l0": np.zeros(3 * SIZE),
    }
    gru.load_state_dict({name: torch.tensor(array) for name, array in stacked.items()})
    xs, carry = (torch.tensor(np.asarray(a, np.float64), requires_grad=True) for a in (net.xs, net.carry[None]))
    ys, end = gru(xs, carry)
    of_end, of_ys = (torch.tensor(w.astype(np.float64)) for w in weights(net))
    ((end.ravel() * of_end).sum() + (ys.ravel() * of_ys).sum()).backward()
    actual = (end[0].detach().numpy(), ys.detach().numpy(), carry.grad[0].numpy(), xs.grad.numpy())
    assert_close(actual, expected, atol=1e-5)
