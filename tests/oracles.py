"""Each cell once more: a float64 NumPy loop, written from the paper's equations with full matrices, using nothing of the library."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np


class Oracle(NamedTuple):
    """Hold the independent twin of a cell.

    step: `(weights, carry, x) -> (carry, (y, gates))`; weights by name ('update.input', 'update.recurrent', 'update.bias'), gates by name.
    carry_bias: the biases that start at a multiple of the carry bias, with that multiple; all others start at zero.
    passed: the part of a carry that goes through a step unchanged when the gates are saturated so, None where there is none.
    closed: biases of further gates that must be shut for that.
    """

    step: Callable[[dict[str, np.ndarray], Any, np.ndarray], tuple[Any, tuple[np.ndarray, dict[str, np.ndarray]]]]
    carry_bias: dict[str, int]
    passed: Callable[[Any], Any] | None
    closed: tuple[str, ...] = ()


def sigmoid(a):
    return 1 / (1 + np.exp(-a))


def elman(w, h, x):
    """Compute Jernite et al. 2017, eq. 3, and a bias."""
    h = np.tanh(h @ w["candidate.recurrent"] + x @ w["candidate.input"] + w["candidate.bias"])
    return h, (h, {})


def gru(w, h, x):
    """Compute Miceli Barone 2018, eq. 2, transposed: rows are examples."""
    omega = sigmoid(x @ w["reset.input"] + h @ w["reset.recurrent"] + w["reset.bias"])
    gamma = sigmoid(x @ w["update.input"] + h @ w["update.recurrent"] + w["update.bias"])
    pi = np.tanh(x @ w["candidate.input"] + (omega * h) @ w["candidate.recurrent"] + w["candidate.bias"])
    h = pi * (1 - gamma) + h * gamma
    return h, (h, {"update": gamma, "reset": omega, "candidate": pi})


def gru_reset_after(w, h, x):
    """Compute Miceli Barone 2016, eq. 7."""
    omega = sigmoid(x @ w["reset.input"] + h @ w["reset.recurrent"] + w["reset.bias"])
    gamma = sigmoid(x @ w["update.input"] + h @ w["update.recurrent"] + w["update.bias"])
    pi = np.tanh(x @ w["candidate.input"] + omega * (h @ w["candidate.recurrent"]) + w["candidate.bias"])
    h = pi * (1 - gamma) + h * gamma
    return h, (h, {"update": gamma, "reset": omega, "candidate": pi})


def gru_cudnn(w, h, x):
    """Compute the equations of torch.nn.GRU, with one bias where it has a sum of two."""
    r = sigmoid(x @ w["reset.input"] + w["reset.bias"] + h @ w["reset.recurrent"])
    z = sigmoid(x @ w["update.input"] + w["update.bias"] + h @ w["update.recurrent"])
    inside = h @ w["candidate.recurrent"] + w["candidate.recurrent_bias"]
    n = np.tanh(x @ w["candidate.input"] + w["candidate.bias"] + r * inside)
    h = (1 - z) * n + z * h
    return h, (h, {"update": z, "reset": r, "candidate": n})


def lstm(w, carry, x):
    """Compute Miceli Barone 2016, eqs. 8 and 9."""
    c, h = carry
    omega = sigmoid(x @ w["output.input"] + h @ w["output.recurrent"] + w["output.bias"])
    gamma = sigmoid(x @ w["forget.input"] + h @ w["forget.recurrent"] + w["forget.bias"])
    tau = sigmoid(x @ w["input.input"] + h @ w["input.recurrent"] + w["input.bias"])
    pi = np.tanh(x @ w["candidate.input"] + h @ w["candidate.recurrent"] + w["candidate.bias"])
    c = pi * tau + c * gamma
    h = omega * np.tanh(c)
    return type(carry)(c, h), (h, {"input": tau, "forget": gamma, "candidate": pi, "output": omega})


def highway_layers(w, s, x, coupled):
    """Compute Zilly et al. 2017, eqs. 6 to 9."""
    gates = {}
    for layer in range(1 + max(int(name.split(".")[0]) for name in w)):

        def affine(gate, layer=layer, s=s):
            name = f"{layer}.{gate}"
            return (x @ w[f"{name}.input"] if layer == 0 else 0) + s @ w[f"{name}.recurrent"] + w[f"{name}.bias"]

        h, t = np.tanh(affine("candidate")), sigmoid(affine("transform"))
        c = 1 - t if coupled else sigmoid(affine("carry"))
        s = h * t + s * c
        gates |= {f"{layer}.candidate": h, f"{layer}.transform": t, f"{layer}.carry": c}
    return s, (s, gates)


def rhn(w, s, x):
    return highway_layers(w, s, x, coupled=True)


def rhn_uncoupled(w, s, x):
    return highway_layers(w, s, x, coupled=False)


def transition_layers(w, h, x):
    """Compute deep transitions of Pascanu et al. 2014 with hyperbolic tangents. Layers are numbered from 0."""
    z, states = h, {}
    for layer in range(1 + max(int(name.split(".")[0]) for name in w)):
        a = z @ w[f"{layer}.candidate.recurrent"] + w[f"{layer}.candidate.bias"]
        if layer == 0:
            a = a + x @ w["0.candidate.input"]
        if f"{layer}.shortcut" in w:
            a = a + h @ w[f"{layer}.shortcut"]
        z = np.tanh(a)
        states[f"{layer}.candidate"] = z
    return z, (z, states)


def unitary_matrix(w, fourier):
    """Return W of Arjovsky et al. 2016, eq. 6, as a full matrix for columns, or that of lowrank-gru: scales, no Fourier transforms."""
    n = w["rotations.0"].size
    d1, d2, d3 = (np.diag(np.exp(1j * w[f"rotations.{k}"])) for k in range(3))
    v1, v2 = (w[f"reflections.{k}"][:n] + 1j * w[f"reflections.{k}"][n:] for k in range(2))
    r1, r2 = (np.eye(n) - 2 / np.vdot(v, v).real * np.outer(v.conj(), v) for v in (v1, v2))
    permutation = np.eye(n)[np.random.RandomState(1234).permutation(n)]
    if fourier:
        f = np.exp(-2j * np.pi * np.outer(np.arange(n), np.arange(n)) / n) / np.sqrt(n)
        return d3 @ r2 @ f.conj().T @ d2 @ permutation @ r1 @ f @ d1
    return np.diag(w["scale"]) @ d3 @ r2 @ d2 @ permutation @ r1 @ d1


def mod_relu(w, h, vx, fourier):
    """Compute complex_RNN, models.py. The state is [Re | Im]."""
    n = vx.shape[-1]
    z = h[..., :n] + 1j * h[..., n:]
    a = z @ unitary_matrix(w, fourier).T + vx
    rescale = np.maximum(np.abs(a) + w["bias"], 0) / (np.abs(a) + 1e-5)
    h = np.concatenate([a.real, a.imag], axis=-1) * np.concatenate([rescale, rescale], axis=-1)
    return h, (h, {"rescale": rescale})


def unitary(w, h, x):
    real, imaginary = np.split(x @ w["input"], 2, axis=-1)
    return mod_relu(w, h, real + 1j * imaginary, fourier=True)


def unitary_without_fourier(w, h, x):
    return mod_relu(w, h, x @ w["input_real"] + 1j * (x @ w["input_imaginary"]), fourier=False)


def of_both(w, gate, h1, h2):
    """Return [h1; h2] times the gate's matrix, which is [depth part; time part], and its bias."""
    return np.concatenate([h1, h2], -1) @ np.concatenate([w[f"{gate}.input"], w[f"{gate}.recurrent"]]) + w[f"{gate}.bias"]


def lattice(w, h2, h1, new):
    """Compute Ahuja and Morency 2018, eqs. 7 to 18. One gate may do for both streams. new: whether z lets in the new state."""
    gates = {name[: -len(".bias")]: None for name in w if name.endswith(".bias")}
    gates = {name: sigmoid(of_both(w, name, h1, h2)) for name in gates if not name.startswith("projected")}
    z1, z2, r1, r2 = (gates.get(f"{name}_{k}", gates.get(name)) for name in ("update", "reset") for k in (1, 2))
    p1 = np.tanh(of_both(w, "projected_1", h1, r2 * h2))
    p2 = np.tanh(of_both(w, "projected_2", r1 * h1, h2))
    if new:
        y, h2 = z1 * p2 + (1 - z1) * h1, z2 * p1 + (1 - z2) * h2
    else:
        y, h2 = z1 * h1 + (1 - z1) * p2, z2 * h2 + (1 - z2) * p1
    return h2, (y, gates | {"projected_1": p1, "projected_2": p2})


def grid_dimension(w, name, h1, h2, m):
    """Compute LSTM(h1, h2, m, W) of Ahuja and Morency 2018, eqs. 5 and 6."""
    i, f, o = (sigmoid(of_both(w, f"{name}.{gate}", h1, h2)) for gate in ("input", "forget", "output"))
    g = np.tanh(of_both(w, f"{name}.candidate", h1, h2))
    m = f * m + i * g
    gates = {"input": i, "forget": f, "candidate": g, "output": o}
    return o * np.tanh(m), m, {f"{name}.{gate}": value for gate, value in gates.items()}


def grid_layer(w, carry, h1, m1, first):
    """Return (carry, h1', m1', gates) of one layer. first: the dimension whose new hidden state the other one sees."""
    m2, h2 = carry
    if first == "time":
        new_h2, new_m2, time = grid_dimension(w, "time", h1, h2, m2)
        new_h1, new_m1, depth = grid_dimension(w, "depth", h1, new_h2, m1)
    else:
        new_h1, new_m1, depth = grid_dimension(w, "depth", h1, h2, m1)
        new_h2, new_m2, time = grid_dimension(w, "time", new_h1 if first == "depth" else h1, h2, m2)
    return type(carry)(new_m2, new_h2), new_h1, new_m1, depth | time


def grid(w, carry, h1, first=None):
    carry, y, _, gates = grid_layer(w, carry, h1, np.zeros_like(h1), first)
    return carry, (y, gates)


def variable(w, h, x, epsilon=1e-5):
    """Return (weights of the unit, m, mask) of Jernite et al. 2017, eqs. 7 and 8."""
    m = sigmoid(x @ w["scheduler.input"] + h @ w["scheduler.recurrent"] + w["scheduler.bias"])
    n = h.shape[-1]
    e = sigmoid(w["sharpness"] * (m * n - np.arange(1, n + 1)))
    e = np.where(e > 1 - epsilon, 1, np.where(e < epsilon, 0, e))
    return {name.removeprefix("unit."): value for name, value in w.items()}, m[..., 0], e


def with_schedule(m, e, gates):
    return {"proportion": m, "mask": e} | {f"unit.{name}": value for name, value in gates.items()}


def vcrnn(w, h, x):
    """Compute Jernite et al. 2017, eq. 13."""
    w, m, e = variable(w, h, x)
    g = np.tanh((e * h) @ w["candidate.recurrent"] + (e * x) @ w["candidate.input"] + w["candidate.bias"])
    h = e * g + (1 - e) * h
    return h, (h, with_schedule(m, e, {}))


def vcgru(w, h, x):
    """Compute Jernite et al. 2017, eqs. 14 to 16, with z = 1 - update."""
    w, m, e = variable(w, h, x)
    hm, xm = e * h, e * x
    r = sigmoid(hm @ w["reset.recurrent"] + xm @ w["reset.input"] + w["reset.bias"])
    update = sigmoid(hm @ w["update.recurrent"] + xm @ w["update.input"] + w["update.bias"])
    z = e * (1 - update)
    candidate = np.tanh((r * hm) @ w["candidate.recurrent"] + xm @ w["candidate.input"] + w["candidate.bias"])
    h = z * candidate + (1 - z) * h
    return h, (h, with_schedule(m, e, {"update": update, "reset": r, "candidate": candidate}))


def vclstm(w, carry, x):
    """Compute the VCLSTM like the VCGRU: gates of masked vectors, and a mask on what they let in and out."""
    c, h = carry
    w, m, e = variable(w, h, x)
    i, f, o, g = (
        (e * x) @ w[f"{gate}.input"] + (e * h) @ w[f"{gate}.recurrent"] + w[f"{gate}.bias"]
        for gate in ("input", "forget", "output", "candidate")
    )
    i, f, o, g = sigmoid(i), sigmoid(f), sigmoid(o), np.tanh(g)
    c = e * i * g + (1 - e + e * f) * c
    h = e * o * np.tanh(c) + (1 - e) * h
    return type(carry)(c, h), (h, with_schedule(m, e, {"input": i, "forget": f, "candidate": g, "output": o}))


def whole_state(carry):
    return carry


def memory(carry):
    return carry.c


ORACLES = {
    "elman": Oracle(elman, {}, None),
    "gru": Oracle(gru, {"update.bias": 1}, whole_state),
    "gru_reset_after": Oracle(gru_reset_after, {"update.bias": 1}, whole_state),
    "gru_cudnn": Oracle(gru_cudnn, {"update.bias": 1}, whole_state),
    "lstm": Oracle(lstm, {"forget.bias": 1}, memory, closed=("input.bias",)),
    "rhn": Oracle(rhn, {"0.transform.bias": -1, "1.transform.bias": -1}, whole_state),
    "rhn_uncoupled": Oracle(
        rhn_uncoupled, {"0.transform.bias": -1, "0.carry.bias": 1, "1.transform.bias": -1, "1.carry.bias": 1}, whole_state
    ),
    "dt_rnn": Oracle(transition_layers, {}, None),
    "dts_rnn": Oracle(transition_layers, {}, None),
    "unitary": Oracle(unitary, {}, None),
    "unitary_without_fourier": Oracle(unitary_without_fourier, {}, None),
    "lru_ps": Oracle(partial(lattice, new=False), {"update.bias": 1}, whole_state),
    "lru_ps_code": Oracle(partial(lattice, new=True), {"update.bias": -1}, whole_state),
    "lru_rg": Oracle(partial(lattice, new=False), {"update.bias": 1}, whole_state),
    "lru_rg_code": Oracle(partial(lattice, new=True), {"update.bias": -1}, whole_state),
    "lru": Oracle(partial(lattice, new=True), {"update_1.bias": -1, "update_2.bias": -1}, whole_state),
    **{
        name: Oracle(partial(grid, first=first), {"depth.forget.bias": 1, "time.forget.bias": 1}, memory, closed=("time.input.bias",))
        for name, first in (("grid_lstm", None), ("grid_lstm_depth_first", "depth"), ("grid_lstm_time_first", "time"))
    },
    "vcrnn": Oracle(vcrnn, {}, None),
    "vcgru": Oracle(vcgru, {"unit.update.bias": 1}, whole_state),
    "vclstm": Oracle(vclstm, {"unit.forget.bias": 1}, memory, closed=("unit.input.bias",)),
}


def loop(oracle, weights, carry, xs):
    """Run the oracle over time. Return (last carry, outputs, gates), each with a leading axis of steps."""
    outputs, gates = [], []
    for x in np.asarray(xs, np.float64):
        carry, (y, info) = oracle.step(weights, carry, x)
        outputs.append(y)
        gates.append(info)
    return carry, np.stack(outputs), {name: np.stack([g[name] for g in gates]) for name in gates[0]}
