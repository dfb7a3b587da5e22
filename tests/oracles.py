"""Each cell once more: a float64 NumPy loop, written from the paper's equations with full matrices, using nothing of the library."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np


class Oracle(NamedTuple):
    """The independent twin of a cell.

    step: `(weights, carry, x) -> (carry, (y, gates))`; weights by name ('update.input', 'update.recurrent', 'update.bias'), gates by name.
    passed: the part of a carry that goes through a step unchanged when the carry gate is saturated open.
    """

    step: Callable[[dict[str, np.ndarray], Any, np.ndarray], tuple[Any, tuple[np.ndarray, dict[str, np.ndarray]]]]
    passed: Callable[[Any], Any]


def sigmoid(a):
    return 1 / (1 + np.exp(-a))


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


def whole_state(carry):
    return carry


ORACLES = {
    "gru": Oracle(gru, whole_state),
    "gru_reset_after": Oracle(gru_reset_after, whole_state),
}


def loop(oracle, weights, carry, xs):
    """The oracle over time: (last carry, outputs, gates), each with a leading axis of steps."""
    outputs, gates = [], []
    for x in np.asarray(xs, np.float64):
        carry, (y, info) = oracle.step(weights, carry, x)
        outputs.append(y)
        gates.append(info)
    return carry, np.stack(outputs), {name: np.stack([g[name] for g in gates]) for name in gates[0]}
