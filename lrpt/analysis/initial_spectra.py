"""Gershgorin discs and eigenvalues of the temporal Jacobian at initialization, for different scales of the recurrent matrices."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from lrpt.analysis.jacobian import eigenvalues, gershgorin_discs, states_before, step_jacobian
from lrpt.analysis.plots import saved_figure
from lrpt.cells import CellSpec, cell_named
from lrpt.errors import UsageError
from lrpt.matrices import Bias, Dense
from lrpt.specs import MatrixSpec, OperatorSpec


class InitialSpectrum(NamedTuple):
    """One initialization and its spectrum, in means over examples and units.

    Attributes:
      size: number of units.
      spread: standard deviation of the entries of recurrent matrices.
      centre: centre of the discs.
      radius: radius of the discs along rows.
      spectral_radius: the largest magnitude of an eigenvalue, in the mean over examples.
    """

    size: int
    spread: float
    centre: float
    radius: float
    spectral_radius: float


def drawn_params(template: PyTree, spread: float, identity: bool = False, seed: int = 0) -> PyTree:
    """Draw parameters with dense matrices.

    Recurrent entries are normal with standard deviation `spread`, input entries are normal with variance 1/m, and biases have their initial
    values. With `identity` the identity matrix is added to each recurrent matrix (Le et al. 2015; the second circle of Zilly et al. 2017,
    Figure 2).

    Raises:
      UsageError: the cell has operators that are not matrices.
    """
    rng = np.random.default_rng(seed)

    def draw(spec: Any) -> Dense | Bias:
        if isinstance(spec, OperatorSpec):
            raise UsageError("this cell has operators that are not matrices, which have no spread: choose another cell")
        if not isinstance(spec, MatrixSpec):
            return Bias(jnp.full(spec.size, spec.initial))
        kernel = rng.standard_normal((spec.n_in, spec.n_out))
        if spec.role == "input":
            return Dense(jnp.asarray(kernel / np.sqrt(spec.n_in), jnp.float32))
        return Dense(jnp.asarray(spread * kernel + identity * np.eye(spec.n_in), jnp.float32))

    return jax.tree.map(draw, template)


def initialization_sweep(
    cell: str,
    inputs: Float[Array, "t b m"],
    spreads: Sequence[float],
    sizes: Sequence[int],
    *,
    depth: int = 1,
    carry_bias: float = 0.0,
    identity: bool = False,
    seed: int = 0,
) -> list[InitialSpectrum]:
    """Compute the spectrum of the temporal Jacobian at the last step of a sequence, for each size and spread.

    This follows Zilly et al. 2017, section 3 and Figure 2.

    Args:
      cell: a name in `CELLS`.
      inputs: a batch of sequences, read from the zero state.
      spreads: standard deviations of recurrent entries. All spreads scale the same random numbers.
      sizes: widths of the state.
      depth, carry_bias: as in `CellSpec`.
      identity, seed: as in `drawn_params`.

    Raises:
      UsageError: the cell is unknown, or has no recurrent matrices.
    """
    entry = cell_named(cell)
    step = entry.step

    @jax.jit
    def last_jacobian(params: PyTree, carry: PyTree) -> Float[Array, "b k k"]:
        before = jax.tree.map(lambda states: states[-1], states_before(step, params, carry, inputs))
        return step_jacobian(step, params, before, inputs[-1])

    spectra = []
    for size in sizes:
        spec = CellSpec(inputs.shape[-1], size, carry_bias, depth)
        carry = entry.zero_carry(spec, (inputs.shape[1],))
        for spread in spreads:
            params = drawn_params(entry.template(spec), spread, identity, seed)
            spectra.append(_summary(size, spread, last_jacobian(params, carry)))
    return spectra


def _summary(size: int, spread: float, jacobian: Float[Array, "b k k"]) -> InitialSpectrum:
    discs = gershgorin_discs(jacobian)
    largest = np.abs(eigenvalues(jacobian)).max(axis=-1)
    return InitialSpectrum(size, spread, float(discs.centres.mean()), float(discs.radii.mean()), float(largest.mean()))


def sweep_figure(spectra: Sequence[InitialSpectrum], path: str | Path, title: str = "") -> Path:
    """Plot the spectral radius and the mean radius of the discs against the spread, a line for each size, and write a PNG and a PDF."""
    with saved_figure(path) as figure:
        axes = figure.subplots()
        for size in dict.fromkeys(one.size for one in spectra):
            of_size = [one for one in spectra if one.size == size]
            spreads = [one.spread for one in of_size]
            (line,) = axes.plot(
                spreads, [one.spectral_radius for one in of_size], "o-", markersize=3, label=f"{size} units, spectral radius"
            )
            axes.plot(spreads, [one.radius for one in of_size], "--", color=line.get_color(), label=f"{size} units, mean radius of discs")
        axes.axhline(1, color="0.3", linewidth=0.8)
        axes.set(xscale="log", yscale="log", xlabel="standard deviation of recurrent entries", ylabel="radius")
        axes.set_title(title)
        axes.legend()
    return Path(path)
