r"""The temporal Jacobian of a cell, its eigenvalues, and the Gershgorin discs that contain them.

**Orientation.** J_ij is the derivative of component i of the state after a step with respect to component j of the state before it.
Zilly et al. 2017 write its transpose, A (eqs. 2 and 10 to 13); both have the same eigenvalues. Rows of J are columns of A, and discs can
be formed along either (Gershgorin 1931): every eigenvalue is within :math:`\sum_{j \ne i} |J_{ij}|` of some J_ii.

**Equation 14 of the paper has an index slip.** By eq. 10, :math:`A_{ij} = H'_{ij} t_j + C'_{ij} y_j + T'_{ij} h_j` for :math:`i \ne j`.
Eq. 14 prints t_i, y_i and h_i in the radii instead. Its centres are correct, but its discs need not contain the eigenvalues: two units
suffice for an eigenvalue at a distance of 2.1 from both discs (`tests/analysis/test_jacobian.py`). The discs here are the discs of J.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Bool, Complex, Float, PyTree

from lrpt.analysis.plots import saved_figure
from lrpt.cells import RHNLayer, UncoupledRHNLayer, rhn, rhn_uncoupled
from lrpt.errors import UsageError, check_choice
from lrpt.recurrence import Step, recur
from lrpt.symbols import type_of_input

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Along = Literal["rows", "columns"]
RHNParams = tuple[RHNLayer, ...] | tuple[UncoupledRHNLayer, ...]


def states_before(step: Step, params: PyTree, carry: PyTree, xs: PyTree, mask: Bool[Array, "t b"] | None = None) -> PyTree:
    """Return the state before each step of a sequence, each leaf (t, b, ...). Arguments are those of `lrpt.recurrence.recur`.

    Masked steps have zeros.
    """

    def body(params: PyTree, carry: PyTree, x: PyTree) -> tuple[Any, tuple[Any, tuple[()]]]:
        return step(params, carry, x)[0], (carry, ())

    return recur(body, params, carry, xs, mask)[1]


def rhn_jacobian(params: RHNParams, s: Float[Array, "b n"], x: type_of_input) -> Float[Array, "b n n"]:
    r"""Compute the temporal Jacobian of a recurrent highway network of any depth in closed form.

    .. math::
        J = J_L \cdots J_1, \quad
        J_l = \mathrm{diag}(c) + \mathrm{diag}(t (1 - h^2)) R_H + \mathrm{diag}(h t (1 - t)) R_T + \mathrm{diag}(s_{l-1} c (1 - c)) R_C

    with the gates h, t, c of layer l and the matrices R in the paper's orientation, R s. For coupled gates c = 1 - t, and the last term is
    :math:`-\mathrm{diag}(s_{l-1} t (1 - t)) R_T`. For L = 1 this is the transpose of eq. 10 of Zilly et al. 2017, but with the inputs and
    biases that the equation omits.

    Args:
      params: the parameters of `rhn` or `rhn_uncoupled`.
      s: state before the step, (b, n).
      x: input of the step, (b, m) or (b,).
    """
    return jax.vmap(_rhn_jacobian, (None, 0, 0))(params, s, x)


def _rhn_jacobian(params: RHNParams, s: Float[Array, " n"], x: type_of_input) -> Float[Array, "n n"]:
    cell: Any = rhn_uncoupled if isinstance(params[0], UncoupledRHNLayer) else rhn
    _, (_, info) = cell(params, s, x)
    product = jnp.eye(s.size)
    for layer, (h, t, c) in zip(params, info, strict=True):
        factor = jnp.diag(c) + _scaled_rows(t * (1 - h**2), layer.candidate)
        if isinstance(layer, UncoupledRHNLayer):
            factor += _scaled_rows(h * t * (1 - t), layer.transform) + _scaled_rows(s * c * (1 - c), layer.carry)
        else:
            factor += _scaled_rows((h - s) * t * c, layer.transform)
        product = factor @ product
        s = h * t + s * c
    return product


def _scaled_rows(scale: Float[Array, " n"], gate: Any) -> Float[Array, "n n"]:
    """Return diag(scale) R, where R is a gate's matrix for column vectors."""
    return scale[:, None] * gate.recurrent.to_dense().T


def step_jacobian(step: Step, params: PyTree, carry: PyTree, x: PyTree) -> Float[Array, "b k k"]:
    """Compute the temporal Jacobian of any cell by reverse-mode differentiation of its step.

    Args:
      step: a cell, `(params, carry, x) -> (carry, (y, info))`.
      params: the cell's parameters.
      carry: state before the step, each leaf (b, ...). k is the total size of one example's leaves, in their order.
      x: input of the step, each leaf (b, ...).

    Raises:
      UsageError: x has other rows than the carry, as inputs of several steps have.
    """
    rows, given = ({leaf.shape[:1] for leaf in jax.tree.leaves(tree)} for tree in (carry, x))
    if rows != given:
        shapes = ", ".join(str(leaf.shape) for leaf in jax.tree.leaves(x))
        raise UsageError(
            f"x has shape {shapes}, and the carry {len(jax.tree.leaves(carry)[0])} rows: give the input of one step, as xs[-1]"
        )

    def of_example(carry: PyTree, x: PyTree) -> Float[Array, "k k"]:
        flat, unravel = ravel_pytree(carry)
        return jax.jacrev(lambda flat: ravel_pytree(step(params, unravel(flat), x)[0])[0])(flat)

    return jax.vmap(of_example)(carry, x)


class Discs(NamedTuple):
    """Gershgorin discs in the complex plane: `centres` and `radii`, (..., n)."""

    centres: Float[np.ndarray, "*b n"]
    radii: Float[np.ndarray, "*b n"]

    def distance(self, points: Complex[np.ndarray, "*b k"]) -> Float[np.ndarray, "*b k"]:
        """Return the distance of each point from the nearest disc; zero or negative inside a disc."""
        to_centres = np.abs(points[..., :, None] - self.centres[..., None, :])
        return np.min(to_centres - self.radii[..., None, :], axis=-1)


def gershgorin_discs(jacobian: Float[np.ndarray, "*b n n"] | Float[Array, "*b n n"], along: Along = "rows") -> Discs:
    """Compute the discs in double precision. Disc i has centre J_ii, and its radius is the sum of |J_ij| over j other than i.

    Along columns the radius is the sum of |J_ji|.

    Raises:
      UsageError: `along` is neither 'rows' nor 'columns'.
    """
    check_choice("along", along, get_args(Along))
    J = _in_double_precision(jacobian)
    centres = np.diagonal(J, axis1=-2, axis2=-1)
    magnitudes = np.abs(J * (1 - np.eye(J.shape[-1])))
    return Discs(centres, magnitudes.sum(axis=-1 if along == "rows" else -2))


def eigenvalues(jacobian: Float[np.ndarray, "*b n n"] | Float[Array, "*b n n"]) -> Complex[np.ndarray, "*b n"]:
    """Compute the eigenvalues in double precision, in no particular order."""
    return np.linalg.eigvals(_in_double_precision(jacobian)).astype(np.complex128)


def _in_double_precision(jacobian: Any) -> np.ndarray:
    """Return a Jacobian in float64, or in complex128 if it is complex."""
    return np.asarray(jacobian, np.complex128 if jnp.iscomplexobj(jacobian) else np.float64)


def gershgorin_figure(jacobians: Mapping[str, Any], path: str | Path) -> Path:
    """Plot the discs along rows and the eigenvalues of named matrices (n, n) with the unit circle side by side. Write a PNG and a PDF."""
    with saved_figure(path, 2.6 * len(jacobians), 2.9) as figure:
        panels = figure.subplots(1, len(jacobians), squeeze=False, sharex=True, sharey=True)[0]
        reach = max(_reach(gershgorin_discs(jacobian)) for jacobian in jacobians.values())
        for axes, (name, jacobian) in zip(panels, jacobians.items(), strict=True):
            _draw(axes, gershgorin_discs(jacobian), eigenvalues(jacobian), reach)
            axes.set_title(name)
        panels[0].set_ylabel("imaginary part")
    return Path(path)


def _reach(discs: Discs) -> float:
    """Return the largest distance from the origin that a plot has to show."""
    return max(1.1, float(np.max(np.abs(discs.centres) + discs.radii)))


def _draw(axes: "Axes", discs: Discs, values: Complex[np.ndarray, " n"], reach: float) -> None:
    from matplotlib.collections import PatchCollection
    from matplotlib.patches import Circle

    circles = [Circle((centre, 0), radius) for centre, radius in zip(discs.centres, discs.radii, strict=True)]
    axes.add_collection(PatchCollection(circles, facecolor="#0072B2", edgecolor="#0072B2", alpha=min(0.3, 1.5 / len(circles))))
    axes.add_patch(Circle((0, 0), 1, fill=False, linestyle="--", color="0.3", linewidth=0.8))
    axes.plot(np.real(values), np.imag(values), "o", color="#D55E00", markersize=2.5)
    axes.set(aspect="equal", xlim=(-reach, reach), ylim=(-reach, reach), xlabel="real part")
