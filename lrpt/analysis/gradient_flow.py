r"""Jacobians over several steps, and bounds of their norms by the singular values of the recurrent matrices.

Zilly et al. 2017, section 3. Over k steps the temporal Jacobian is a product of the Jacobians of one step (eq. 2):

.. math::
    \frac{\partial y^{[t + k]}}{\partial y^{[t]}} = J^{[t + k]} \cdots J^{[t + 1]}

For a plain network, :math:`y^{[t]} = f(W x^{[t]} + R y^{[t-1]} + b)`, the norm of one of them is at most :math:`\gamma \sigma_{max}`
(eq. 3), where :math:`\sigma_{max}` is the largest singular value of R and :math:`\gamma` a bound of |f'|: 1 for tanh, 1/4 for the logistic
function. Gradients vanish if the product is below 1. The paper gives no such bound for its own network. `step_bound` applies the same
argument, the triangle inequality and the bound of a product, to each layer of eq. 10.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from lrpt.analysis.plots import saved_figure
from lrpt.cells import RHNLayer, UncoupledRHNLayer, rhn, rhn_uncoupled
from lrpt.cells.deep_transition import ShortcutLayer, TransitionLayer
from lrpt.cells.elman import ElmanParams
from lrpt.errors import UsageError
from lrpt.symbols import type_of_input

TANH, LOGISTIC = 1.0, 0.25
"""gamma: the largest derivative of the function."""

GAMMAS = {"candidate": TANH, "transform": LOGISTIC, "carry": LOGISTIC, "shortcut": TANH}
"""Name of a matrix -> gamma of the function that is applied to its product with the state."""


class MatrixNorm(NamedTuple):
    """A recurrent matrix of one layer, counted from 1: its largest singular value, and gamma of its function."""

    layer: int
    name: str
    largest: float
    gamma: float

    @property
    def bound(self) -> float:
        """Return gamma sigma_max (eq. 3)."""
        return self.gamma * self.largest


def layers_of(params: PyTree) -> tuple[Any, ...]:
    """Return the layers of a recurrent highway, deep transition or Elman network.

    Raises:
      UsageError: these are parameters of another cell.
    """
    layers = (params,) if isinstance(params, ElmanParams) else params
    known = (ElmanParams, TransitionLayer, ShortcutLayer, RHNLayer, UncoupledRHNLayer)
    if not (isinstance(layers, tuple) and layers and all(isinstance(layer, known) for layer in layers)):
        raise UsageError("bounds by singular values are known for rhn, rhn_uncoupled, dt_rnn, dts_rnn and elman: name a run of one of them")
    return layers


def _matrices(layer: Any) -> Iterator[tuple[str, Float[Array, "n n"]]]:
    for name, part in layer._asdict().items():
        yield name, (part if name == "shortcut" else part.recurrent).to_dense()


def matrix_norms(params: PyTree) -> list[MatrixNorm]:
    """Return the largest singular value of each recurrent matrix, computed in float64, first layer to last.

    Raises:
      UsageError: see `layers_of`.
    """
    layers = enumerate(layers_of(params), start=1)
    return [MatrixNorm(i, name, _largest(matrix), GAMMAS[name]) for i, layer in layers for name, matrix in _matrices(layer)]


def _largest(matrix: Float[Array, "n n"]) -> float:
    return float(np.linalg.norm(np.asarray(matrix, np.float64), 2))


def step_bound(params: PyTree, s: Float[Array, "b n"], x: type_of_input) -> Float[np.ndarray, " b"]:
    r"""Bound the spectral norm of the temporal Jacobian of one step, from singular values and the gates.

    For a highway layer, with the largest singular values :math:`\sigma` of its matrices and maxima over units,

    .. math::
        \|J_l\| \le \max c + \max|t (1 - h^2)| \sigma_H + \max|h t (1 - t)| \sigma_T + \max|s_{l-1} c (1 - c)| \sigma_C

    For coupled gates the last two terms are :math:`\max|(h - s_{l-1}) t (1 - t)| \sigma_T`. The bound of a step is the product over
    layers. For transitions without gates it is :math:`\prod_l \gamma \sigma_{max}(R_l)`, where a shortcut adds its own
    :math:`\sigma_{max}` to the product of its layer (eq. 3 for each layer).

    Args:
      params: parameters of a cell of `layers_of`.
      s: state before the step, (b, n).
      x: input of the step, (b, m) or (b,).

    Raises:
      UsageError: see `layers_of`.
    """
    layers = layers_of(params)
    largest: dict[int, dict[str, float]] = {}
    for found in matrix_norms(params):
        largest.setdefault(found.layer - 1, {})[found.name] = found.largest
    if isinstance(layers[0], RHNLayer | UncoupledRHNLayer):
        return _highway_bound(params, s, x, largest)
    bound = 1.0
    for of_layer in largest.values():
        bound = TANH * (of_layer["candidate"] * bound + of_layer.get("shortcut", 0.0))
    return np.full(len(s), bound)


def _highway_bound(params: PyTree, s: Array, x: type_of_input, largest: Mapping[int, Mapping[str, float]]) -> Float[np.ndarray, " b"]:
    coupled = isinstance(params[0], RHNLayer)
    _, (_, info) = (rhn if coupled else rhn_uncoupled)(params, s, x)

    def top(values: Array) -> Float[np.ndarray, " b"]:
        return np.asarray(jnp.max(jnp.abs(values), axis=-1), np.float64)

    bound: Any = 1.0
    for layer, (h, t, c) in enumerate(info):
        norms = largest[layer]
        factor = top(c) + top(t * (1 - h**2)) * norms["candidate"]
        if coupled:
            factor += top((h - s) * t * c) * norms["transform"]
        else:
            factor += top(h * t * (1 - t)) * norms["transform"] + top(s * c * (1 - c)) * norms["carry"]
        bound, s = bound * factor, h * t + s * c
    return bound


def products(of_step: Float[np.ndarray, "s b k k"]) -> Float[np.ndarray, "s b k k"]:
    """Return the Jacobians over 1, 2, ..., s steps from those of consecutive steps, in float64 (eq. 2)."""
    found = [np.asarray(of_step[0], np.float64)]
    for after in of_step[1:]:
        found.append(np.asarray(after, np.float64) @ found[-1])
    return np.stack(found)


def flow_figure(norms: Mapping[str, Float[np.ndarray, "s b"]], path: str | Path, title: str = "") -> Path:
    """Plot norms of Jacobians against the number of steps, and write a PNG and a PDF.

    Thin lines are examples, a thick line is their median.
    """
    with saved_figure(path) as figure:
        axes = figure.subplots()
        for number, (name, of_network) in enumerate(norms.items()):
            steps = range(1, len(of_network) + 1)
            axes.plot(steps, of_network, color=f"C{number}", alpha=0.25, linewidth=0.7)
            axes.plot(steps, np.median(of_network, axis=1), color=f"C{number}", label=name)
        axes.axhline(1, color="0.5", linestyle="--", linewidth=0.8)
        axes.set(yscale="log", xlabel="steps k", ylabel=r"$\|\partial y^{[t+k]} / \partial y^{[t]}\|_2$")
        axes.set_title(title)
        axes.legend()
    return Path(path)
