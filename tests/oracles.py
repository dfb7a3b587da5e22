"""Each cell once more: a float64 NumPy loop, written from the paper's equations with full matrices, using nothing of the library."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np


class Oracle(NamedTuple):
    """The independent twin of a cell.

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
    """Jernite et al. 2017, eq. 3, and a bias."""
    h = np.tanh(h @ w["candidate.recurrent"] + x @ w["candidate.input"] + w["candidate.bias"])
    return h, (h, {})


def gru(w, h, x):
    """Miceli Barone 2018, eq. 2, transposed: rows are examples."""
    omega = sigmoid(x @ w["reset.input"] + h @ w["reset.recurrent"] + w["reset.bias"])
    gamma = sigmoid(x @ w["update.input"] + h @ w["update.recurrent"] + w["update.bias"])
    pi = np.tanh(x @ w["candidate.input"] + (omega * h) @ w["candidate.recurrent"] + w["candidate.bias"])
    h = pi * (1 - gamma) + h * gamma
    return h, (h, {"update": gamma, "reset": omega, "candidate": pi})


def gru_reset_after(w, h, x):
    """Miceli Barone 2016, eq. 7."""
    omega = sigmoid(x @ w["reset.input"] + h @ w["reset.recurrent"] + w["reset.bias"])
    gamma = sigmoid(x @ w["update.input"] + h @ w["update.recurrent"] + w["update.bias"])
    pi = np.tanh(x @ w["candidate.input"] + omega * (h @ w["candidate.recurrent"]) + w["candidate.bias"])
    h = pi * (1 - gamma) + h * gamma
    return h, (h, {"update": gamma, "reset": omega, "candidate": pi})


def gru_cudnn(w, h, x):
    """The equations of torch.nn.GRU, with one bias where it has a sum of two."""
    r = sigmoid(x @ w["reset.input"] + w["reset.bias"] + h @ w["reset.recurrent"])
    z = sigmoid(x @ w["update.input"] + w["update.bias"] + h @ w["update.recurrent"])
    inside = h @ w["candidate.recurrent"] + w["candidate.recurrent_bias"]
    n = np.tanh(x @ w["candidate.input"] + w["candidate.bias"] + r * inside)
    h = (1 - z) * n + z * h
    return h, (h, {"update": z, "reset": r, "candidate": n})


def lstm(w, carry, x):
    """Miceli Barone 2016, eqs. 8 and 9."""
    c, h = carry
    omega = sigmoid(x @ w["output.input"] + h @ w["output.recurrent"] + w["output.bias"])
    gamma = sigmoid(x @ w["forget.input"] + h @ w["forget.recurrent"] + w["forget.bias"])
    tau = sigmoid(x @ w["input.input"] + h @ w["input.recurrent"] + w["input.bias"])
    pi = np.tanh(x @ w["candidate.input"] + h @ w["candidate.recurrent"] + w["candidate.bias"])
    c = pi * tau + c * gamma
    h = omega * np.tanh(c)
    return type(carry)(c, h), (h, {"input": tau, "forget": gamma, "candidate": pi, "output": omega})


def highway_layers(w, s, x, coupled):
    """Zilly et al. 2017, eqs. 6 to 9."""
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
    """Pascanu et al. 2014, deep transitions with hyperbolic tangents: layers are numbered from 0, shortcuts are there or not."""
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
    """W of Arjovsky et al. 2016, eq. 6, as a full matrix for columns; or as lowrank-gru has it, with scales and no Fourier transforms."""
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
    """complex_RNN, models.py: the state is [Re | Im]."""
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
}


def loop(oracle, weights, carry, xs):
    """The oracle over time: (last carry, outputs, gates), each with a leading axis of steps."""
    outputs, gates = [], []
    for x in np.asarray(xs, np.float64):
        carry, (y, info) = oracle.step(weights, carry, x)
        outputs.append(y)
        gates.append(info)
    return carry, np.stack(outputs), {name: np.stack([g[name] for g in gates]) for name in gates[0]}
