r"""Approximation of any Highway network by a Highway network whose matrices have rank 1.

Miceli Barone 2016, section 2.2, claims, as easily shown: for a Highway network with state size n and T layers and any epsilon > 0, a
low-rank Highway network with d = 1, state size at most 2n and at most nT layers computes the same function within epsilon. The paper gives
no construction and does not say on which inputs. The theorem below holds, and `rank_one_network` builds the network.

**Theorem.** Let N have layers :math:`y = t \odot h + (1 - t) \odot x`, :math:`h = g(V x + c)`, :math:`t = \sigma(W x + b)` (columns, as in
the papers), with g the rectifier or the hyperbolic tangent. For every radius r and epsilon > 0 there is a Highway network with the same g,
biases, matrices of rank 1, state size 2n and exactly nT layers. For all x with :math:`\|x\|_\infty \le r`, the first n components of its
output on (x, 0) are within epsilon of N(x).

**Why one layer per row suffices.** A layer of rank 1 reads two numbers from the state, :math:`p = \rho \cdot x` for the candidates and
:math:`q = \omega \cdot x` for the gates. Let z be the first half of the state, which holds x, and s the second half. One layer replaces z_i
by component i of y, with p = v_i x and q = w_i x; all other gates are closed by a bias of -B. This overwrites x_i, which later rows need.
The same layer therefore saves p: s_i becomes an affine function of p, with its gate held open by a bias of B. After the rows of a set S,
the state holds :math:`v_i x` for i in S and :math:`x_i` for all other i. If these n functionals are independent, the next v_j x and w_j x
are linear combinations of them. After n layers z = y, and s can be reused.

- The functionals are independent if the leading minors of V, in the order of the rows, are nonzero. Each step takes the row with the
  largest pivot. A pivot smaller than `pivot` is moved away from zero: `pivot` is added to a diagonal entry of V, which changes the network.
- The rectifier saves p exactly, as :math:`g(p + C)`, where C bounds :math:`|p|`. The hyperbolic tangent saves :math:`\tanh(\theta p)`, an
  approximation of :math:`\theta p` with an error of at most :math:`(\theta |p|)^3 / 3`. Any locally Lipschitz g with a nonzero derivative
  somewhere would serve in the same way.
- Gates are closed and open up to :math:`\delta = \sigma(-B)`.

**Constants.** Let E_k be the distance after layer k of N. Then E_0 = 0 and :math:`E_k \le \Lambda_k E_{k-1} + \iota_k`.

- :math:`\Lambda_k` is the Lipschitz constant of layer k, at most :math:`\max_i \|w_i\|_1 (H_i + r_k) / 4 + \max(\|v_i\|_1, 1)`. Here
  :math:`H_i = \|v_i\|_1 r_k + |c_i|` (1 for the hyperbolic tangent) bounds h_i. r_k bounds the state: r_{k+1} = max(r_k, max_i H_i) up to
  errors.
- :math:`\iota_k` is the error added by n layers of rank 1. A row whose pivot was moved adds `pivot` r_k. A number computed as a linear
  combination with weights a adds the sum of :math:`|a_i|` times the errors of the functionals. The error of a functional starts with
  :math:`\theta^2 C^3 / 3` (0 for the rectifier) plus :math:`\delta` times the old value of s_i, and grows by :math:`\delta` times its size
  in every layer.

To leading order the distance is at most :math:`a\, \text{pivot} + b\, \theta^2 + c\, \delta`, where b and c grow with the weights.
Therefore `pivot` is chosen first, then :math:`\theta`, then B. `RankOneNetwork.error` is the full bound; it holds in exact arithmetic. If
a pivot may be moved only a little, the saved numbers come close to the rounding of float64: for V a cycle of three rows, epsilon = 1e-3 can
be reached and 1e-5 cannot.

**Assumptions and limits.** Inputs must be bounded: C and r enter everywhere, and a nearly closed gate scales the carried state by
:math:`1 - \delta`, so that the distance grows with x. Biases are needed, because a gate that ignores the state would be 1/2 without them.
Gates are coupled, and each is a function of a product of rank 1. Nothing is claimed for fewer layers, for a state smaller than 2n, or for
epsilon = 0. The network is not smaller: it has 12 n^2 T parameters, the original 2 (n^2 + n) T.

**Why the obvious construction fails.** It computes y row by row into a second copy of x and needs neither functionals nor pivots. But the
first copy still holds x, where the next layer needs y. A layer of rank 1 cannot copy two unrelated components, so T layers of N cost about
n (2T - 1). This proves the claim for T = 1 only. With T + 1 copies, all but one of which are written at once, it takes nT layers and a
state of (T + 1) n.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from lrpt.cells.cell import StateGate
from lrpt.cells.highway import ACTIVATIONS, HighwayParams, highway_stack
from lrpt.errors import UsageError, check_choice
from lrpt.matrices import Bias, LowRank

_run = jax.jit(highway_stack, static_argnums=2)


@dataclass(frozen=True)
class Precision:
    """Small constants of the construction.

    Attributes:
      gate_bias: B; gates that ignore the state are within sigma(-B) of 0 or 1.
      pivot: amount added to a diagonal entry of V whose pivot would be smaller than this.
      slope: theta, the factor by which a number is scaled before the hyperbolic tangent saves it; without effect for rectifiers.
    """

    gate_bias: float
    pivot: float
    slope: float = 1.0


@dataclass(frozen=True)
class RankOneNetwork:
    """A Highway network with matrices of rank 1 that approximates another network of half its width.

    Attributes:
      layers: its parameters; each leaf is float64 with a leading axis of nT layers.
      error: a bound on the distance to the approximated network, in any component, on inputs within the given radius. It holds in exact
        arithmetic; float64 adds its rounding, times the condition of the functionals.
      activation: a name in `lrpt.cells.highway.ACTIVATIONS`.
    """

    layers: HighwayParams
    error: float
    activation: str

    def __call__(self, x: Float[Array, "*b n"]) -> Float[Array, "*b n"]:
        """Apply the network to (x, 0), and return the first half of its state.

        Reaching the bound needs 64-bit floats (`jax.enable_x64`).
        """
        wide = jnp.concatenate([x, jnp.zeros_like(x)], axis=-1)
        return _run(self.layers, wide, ACTIVATIONS[self.activation])[..., : x.shape[-1]]


def rank_one_network(layers: Sequence[HighwayParams], radius: float, epsilon: float, activation: str = "relu") -> RankOneNetwork:
    """Build a network of rank 1 with a proven distance of at most `epsilon` from the given one.

    Half of epsilon is available for pivots, a quarter for saving, and the rest for the gates.

    Args:
      layers: the parameters of each layer, with matrices of any kind.
      radius: bound on every component of the inputs.
      epsilon: bound on every component of the difference.
      activation: g, 'relu' or 'tanh'.

    Raises:
      UsageError: there are no layers, radius or epsilon are not positive, the activation is unknown, or float64 cannot reach epsilon.
    """
    if not layers or not 0 < radius < math.inf or not 0 < epsilon < math.inf:
        raise UsageError(
            f"{len(layers)} layers, radius {radius}, epsilon {epsilon}: expected at least one layer, and finite numbers above 0"
        )

    def search(change: Callable[[float], Precision], values: Iterable[float], share: float) -> Precision:
        for value in values:
            precision = change(value)
            if compile_network(layers, radius, precision, activation).error <= share * epsilon:
                return precision
        raise UsageError(
            f"epsilon is {epsilon}: the bound for {len(layers)} layers on radius {radius} is larger in float64: choose a larger one"
        )

    powers = [2.0**-k for k in range(200)]
    precision = search(lambda pivot: Precision(math.inf, pivot, slope=1e-100), powers, 0.5)
    precision = search(lambda slope: replace(precision, slope=slope), powers, 0.75)
    precision = search(lambda bias: replace(precision, gate_bias=bias), np.arange(4.0, 700.0).tolist(), 1.0)
    return compile_network(layers, radius, precision, activation)


def compile_network(layers: Sequence[HighwayParams], radius: float, precision: Precision, activation: str = "relu") -> RankOneNetwork:
    """Build a network of rank 1 with the given precision. Its `error` bounds the distance; see `rank_one_network`.

    Raises:
      UsageError: the activation is unknown.
    """
    check_choice("activation", activation, ACTIVATIONS)
    error, compiled = 0.0, []
    dense = [_Layer.of(layer) for layer in layers]
    magnitude = np.concatenate([np.full(dense[0].size, float(radius)), np.zeros(dense[0].size)])
    for layer in dense:
        sweep = _Sweep(layer, magnitude, precision, activation)
        compiled += [sweep.step() for _ in range(layer.size)]
        error = layer.lipschitz(sweep.radius, activation) * error + sweep.errors_z.max()
        magnitude = sweep.magnitude
    return RankOneNetwork(jax.tree.map(lambda *leaves: np.stack(leaves), *compiled), float(error), activation)


class _Layer(NamedTuple):
    """A layer of the given network in float64: rows of V and W, and biases."""

    v: np.ndarray
    c: np.ndarray
    w: np.ndarray
    b: np.ndarray

    @classmethod
    def of(cls, params: HighwayParams) -> "_Layer":
        gates: list[Any] = [params.candidate, params.transform]
        return cls(*(np.asarray(a, np.float64) for gate in gates for a in (gate.recurrent.to_dense().T, gate.bias.bias)))

    @property
    def size(self) -> int:
        return len(self.c)

    def lipschitz(self, radius: float, activation: str) -> float:
        """Bound the Lipschitz constant of the layer on states within the radius, for any component.

        sigma has slope 1/4 at most, g has 1.
        """
        v, w = np.abs(self.v).sum(1), np.abs(self.w).sum(1)
        candidate = v * radius + np.abs(self.c) if activation == "relu" else 1.0
        return float(np.max(w / 4 * (candidate + radius) + np.maximum(v, 1)))


class _Reading(NamedTuple):
    """A functional of x, computed from the current state: row . state + constant, up to error."""

    row: np.ndarray
    constant: float
    error: float


class _Saving(NamedTuple):
    """The saved form of p: g(scale p + offset). It is scale p + offset up to `error` * scale, and at most `magnitude`."""

    scale: float
    offset: float
    error: float
    magnitude: float


class _Sweep:
    """The n layers of rank 1 that replace one layer, built row by row, with bounds on the errors of their state.

    Errors are relative to exact arithmetic with ideal gates on the state x at the start of the sweep.

    Args:
      layer: the layer to replace.
      magnitude: bounds on the components of the state (z, s) at the start.
      precision: constants of the construction.
      activation: g, 'relu' or 'tanh'.
    """

    def __init__(self, layer: _Layer, magnitude: np.ndarray, precision: Precision, activation: str) -> None:
        n = layer.size
        self.layer, self.precision, self.activation = layer, precision, activation
        self.magnitude = magnitude.copy()
        self.radius = float(magnitude[:n].max())
        self.leak = float(np.exp(-np.logaddexp(0.0, precision.gate_bias)))  # sigma(-B), for an infinite B too
        self.functionals = np.eye(n)  # row i: the functional of x that is known instead of x_i
        self.saved = np.zeros(n, bool)  # whether s_i holds that functional; else z_i still holds x_i
        self.scale, self.offset = np.ones(n), np.zeros(n)
        self.errors_z, self.errors_s = np.zeros(n), np.zeros(n)

    def step(self) -> HighwayParams:
        """Build the layer that replaces the next z_i, and saves in s_i the number that is lost."""
        i, shift = self._next_row()
        functional = self.layer.v[i] + shift * np.eye(self.layer.size)[i]
        p, q = self._read(functional), self._read(self.layer.w[i])
        saving = self._saving(float(np.abs(functional).sum()) * self.radius, p.error)
        self._account(i, abs(shift), p, q, saving)
        self.functionals[i], self.saved[i] = functional, True
        self.scale[i], self.offset[i] = saving.scale, saving.offset
        return self._emit(i, p, q, saving)

    def _next_row(self) -> tuple[int, float]:
        """Return the remaining row with the largest pivot, and the shift of its diagonal entry."""
        pivots = np.diag(np.linalg.solve(self.functionals.T, self.layer.v.T))
        i = int(np.argmax(np.where(self.saved, -1.0, np.abs(pivots))))
        return i, math.copysign(self.precision.pivot, pivots[i]) if abs(pivots[i]) < self.precision.pivot else 0.0

    def _read(self, functional: np.ndarray) -> _Reading:
        weights = np.linalg.solve(self.functionals.T, functional)
        of_s = np.where(self.saved, weights / self.scale, 0.0)
        row = np.concatenate([np.where(self.saved, 0.0, weights), of_s])
        errors = np.where(self.saved, self.errors_s, self.errors_z)
        return _Reading(row, -float(of_s @ self.offset), float(np.abs(weights) @ errors))

    def _saving(self, bound: float, error: float) -> _Saving:
        if self.activation == "relu":
            return _Saving(1.0, bound, 0.0, 2 * bound + error)
        theta = self.precision.slope
        return _Saving(theta, 0.0, theta**2 * bound**3 / 3, 1.0)

    def _account(self, i: int, shift: float, p: _Reading, q: _Reading, saving: _Saving) -> None:
        """Update the bounds after a step.

        They follow from |t' h' + (1 - t') z' - t h - (1 - t) z| <= |t' - t| |h - z| + max(|h' - h|, |z' - z|).
        """
        n, x = self.layer.size, self.radius
        candidate = np.abs(self.layer.v[i]).sum() * x + abs(self.layer.c[i]) if self.activation == "relu" else 1.0
        error_z = q.error / 4 * (candidate + x) + max(p.error + shift * x, self.errors_z[i])
        error_s = p.error + saving.error + self.leak * (saving.magnitude + self.magnitude[n + i]) / saving.scale
        self.errors_z += self.leak * self.magnitude[:n]
        self.errors_s += self.leak * self.magnitude[n:] / self.scale
        self.errors_z[i], self.errors_s[i] = error_z, error_s
        largest = candidate + shift * x + p.error if self.activation == "relu" else 1.0
        self.magnitude[i] = max(self.magnitude[i], largest)
        self.magnitude[n + i] = max(self.magnitude[n + i], saving.magnitude)

    def _emit(self, i: int, p: _Reading, q: _Reading, saving: _Saving) -> HighwayParams:
        n = self.layer.size
        z, s = np.eye(2 * n)[[i, n + i]]
        candidate = z * (p.constant + self.layer.c[i]) + s * (saving.scale * p.constant + saving.offset)
        closed = np.full(2 * n, -self.precision.gate_bias)
        transform = np.where(z == 1, q.constant + self.layer.b[i], np.where(s == 1, -closed, closed))
        return HighwayParams(_rank_one(z + saving.scale * s, p.row, candidate), _rank_one(z, q.row, transform))


def _rank_one(left: np.ndarray, right: np.ndarray, bias: np.ndarray) -> StateGate:
    return StateGate(LowRank(left[None], right[None]), Bias(bias))  # type: ignore[arg-type]
