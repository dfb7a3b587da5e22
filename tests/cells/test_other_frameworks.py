"""Cells that Flax and PyTorch have too, on the same parameters: values, and gradients to the first state and the inputs."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from table import INPUT_SIZE, RANK, SIZE, Row, assert_close, gradients, network, run

from lrpt.cells import LSTMCarry

GRU_GATES = {"r": "reset", "z": "update", "n": "candidate"}
LSTM_GATES = {"i": "input", "f": "forget", "g": "candidate", "o": "output"}
CELLS = ("gru_reset_after", "gru_cudnn", "lstm")

every_row = pytest.mark.parametrize("row", [Row(cell, kind) for cell in CELLS for kind in ("dense", "low_rank_plus_diagonal")], ids=str)


def outputs_and_gradients(row):
    """The row and (last carry, outputs, gradients to carry and inputs) of the loss that `table.gradients` differentiates."""
    net = network(row)
    (_, (carry, ys)), (_, to_carry, to_xs) = gradients(net.cell, net.params, net.carry, net.xs)
    return net, (carry, ys, to_carry, to_xs)


def cosines(tree):
    """The weights that `table.weighted_sum` gives the numbers of a tree."""
    return jax.tree.map(lambda a: np.cos(np.arange(a.size, dtype=np.float32)).reshape(a.shape), tree)


def flax_gru(w):
    params = {f"i{k}": {"kernel": w[f"{gate}.input"], "bias": w[f"{gate}.bias"]} for k, gate in GRU_GATES.items()}
    params |= {f"h{k}": {"kernel": w[f"{gate}.recurrent"]} for k, gate in GRU_GATES.items()}
    params["hn"]["bias"] = w.get("candidate.recurrent_bias", jnp.zeros(SIZE))
    return nn.GRUCell(SIZE), params


def flax_lstm(w):
    params = {f"i{k}": {"kernel": w[f"{gate}.input"]} for k, gate in LSTM_GATES.items()}
    params |= {f"h{k}": {"kernel": w[f"{gate}.recurrent"], "bias": w[f"{gate}.bias"]} for k, gate in LSTM_GATES.items()}
    return nn.OptimizedLSTMCell(SIZE), params


@every_row
def test_equals_flax(row):
    net, expected = outputs_and_gradients(row)
    w = {name: jnp.asarray(array, jnp.float32) for name, array in net.arrays().items()}
    cell, params = flax_lstm(w) if row.cell == "lstm" else flax_gru(w)

    @jax.jit
    def run(carry, xs):
        return jax.lax.scan(lambda h, x: cell.apply({"params": params}, h, x), carry, xs)

    carry = tuple(net.carry) if row.cell == "lstm" else net.carry
    (end, ys), pull = jax.vjp(run, carry, net.xs)
    assert_close(jax.tree.leaves((end, ys, pull(cosines((end, ys))))), jax.tree.leaves(expected), atol=1e-5)


def load_into_torch(torch, module, w, gates, recurrent_bias=None):
    """Copies the weights of a cell into a module of one layer."""
    stacked = {
        "weight_ih_l0": np.concatenate([w[f"{gate}.input"].T for gate in gates]),
        "weight_hh_l0": np.concatenate([w[f"{gate}.recurrent"].T for gate in gates]),
        "bias_ih_l0": np.concatenate([w[f"{gate}.bias"] for gate in gates]),
        "bias_hh_l0": np.zeros(len(gates) * SIZE),
    }
    if recurrent_bias is not None:
        stacked["bias_hh_l0"][-SIZE:] = recurrent_bias
    module.load_state_dict({name: torch.tensor(array) for name, array in stacked.items()})
    return module


def torch_gru(torch, w):
    return load_into_torch(torch, torch.nn.GRU(INPUT_SIZE, SIZE).double(), w, GRU_GATES.values(), w.get("candidate.recurrent_bias"))


def torch_lstm(torch, w):
    return load_into_torch(torch, torch.nn.LSTM(INPUT_SIZE, SIZE).double(), w, LSTM_GATES.values())


@every_row
def test_equals_pytorch(row):
    torch = pytest.importorskip("torch")
    net, expected = outputs_and_gradients(row)
    module = (torch_lstm if row.cell == "lstm" else torch_gru)(torch, net.arrays())
    leaves, treedef = jax.tree.flatten((net.carry, net.xs))
    leaves = [torch.tensor(np.asarray(a, np.float64), requires_grad=True) for a in leaves]
    carry, xs = treedef.unflatten(leaves)
    if row.cell == "lstm":
        ys, (h, c) = module(xs, (carry.h[None], carry.c[None]))
        end = LSTMCarry(c[0], h[0])
    else:
        ys, end = module(xs, carry[None])
        end = end[0]
    weights = cosines(jax.tree.map(lambda a: a.detach().numpy(), (end, ys)))
    sum((a * torch.tensor(w)).sum() for a, w in zip(jax.tree.leaves((end, ys)), jax.tree.leaves(weights), strict=True)).backward()
    actual = [*(a.detach().numpy() for a in jax.tree.leaves((end, ys))), *(a.grad.numpy() for a in leaves)]
    assert_close(actual, jax.tree.leaves(expected), atol=1e-5)


@pytest.mark.slow
def test_a_tied_low_rank_lstm_is_pytorchs_lstm_with_projection():
    """Whose output is the projected state r = h R."""
    torch = pytest.importorskip("torch")
    net = network(Row("lstm", "low_rank", tied=True))
    w, right = net.arrays(), np.asarray(net.params.input.recurrent.right, np.float64)
    module = torch.nn.LSTM(INPUT_SIZE, SIZE, proj_size=RANK).double()
    stacked = {
        "weight_ih_l0": np.concatenate([w[f"{gate}.input"].T for gate in LSTM_GATES.values()]),
        "weight_hh_l0": np.concatenate([getattr(net.params, gate).recurrent.left.T for gate in LSTM_GATES.values()]).astype(np.float64),
        "bias_ih_l0": np.concatenate([w[f"{gate}.bias"] for gate in LSTM_GATES.values()]),
        "bias_hh_l0": np.zeros(4 * SIZE),
        "weight_hr_l0": right,
    }
    module.load_state_dict({name: torch.tensor(array) for name, array in stacked.items()})
    c, h, xs = (np.asarray(a, np.float64) for a in (*net.carry, net.xs))
    rs, (_, end) = module(torch.tensor(xs), (torch.tensor(h[None] @ right.T), torch.tensor(c[None])))
    carry, (ys, _) = run(net.cell, net.params, net.carry, net.xs)
    assert_close((np.asarray(ys, np.float64) @ right.T, carry.c), (rs.detach().numpy(), end[0].detach().numpy()), rtol=1e-5)
