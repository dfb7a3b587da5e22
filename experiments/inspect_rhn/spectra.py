"""Subcommands on the temporal Jacobian: Gershgorin discs, norms over several steps, bounds of eq. 3, initialization."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from experiments.inspect_rhn.reading import Reading, all_jacobians, both, jacobians, reading
from lrpt.analysis.gradient_flow import flow_figure, layers_of, matrix_norms, products, step_bound
from lrpt.analysis.initial_spectra import initialization_sweep, sweep_figure
from lrpt.analysis.jacobian import eigenvalues, gersgorin_discs, gersgorin_figure, states_before
from lrpt.cli.limits import GO_ON, memory, refuse
from lrpt.cli.run_commands import OnRun
from lrpt.errors import UsageError
from lrpt.runs.console import Console
from lrpt.training.loading import Loaded


@dataclass(frozen=True)
class Discs(OnRun):
    """Plot Gershgorin discs at initialization and after training."""

    counts = ("examples",)

    examples: int = 8
    """examples that the means of the table cover, if they have the step; the first one is plotted"""
    steps: tuple[int, ...] = (1, 8, 24)
    """steps of the Jacobians, counted from 1"""


@dataclass(frozen=True)
class Flow(OnRun):
    """Plot norms of Jacobians over 1, 2, ... steps (eq. 2) at initialization and after training."""

    counts = ("examples", "start", "steps")

    examples: int = 8
    """examples that the means of the table cover, if they are long enough"""
    start: int = 1
    """first step of the products, counted from 1"""
    steps: int = 16
    """largest number of steps"""


@dataclass(frozen=True)
class Bounds(OnRun):
    """Print gamma sigma_max of each recurrent matrix (eq. 3) at initialization and after training."""


@dataclass(frozen=True)
class Starts(OnRun):
    """Plot eigenvalues at initialization, at the last step of the first examples, for the cell and depth of the run."""

    counts = ("examples",)

    examples: int = 4
    """examples that the means cover"""
    spreads: tuple[float, ...] = (0.001, 0.01, 0.03, 0.1, 0.3, 1.0)
    """standard deviations of recurrent entries"""
    sizes: tuple[int, ...] = (16, 64)
    """widths of the state"""
    identity: bool = False
    """add the unit matrix to each recurrent matrix"""
    huge: bool = False
    """go on even if the estimate exceeds the limit"""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.sizes or min(self.sizes) < 1:
            raise UsageError(f"sizes is {' '.join(map(str, self.sizes)) or 'empty'}: expected widths of 1 or more")
        if not self.huge:
            refuse("bytes of a matrix of --sizes", 4 * max(self.sizes) ** 2 >> 20, memory() >> 20, " MiB", GO_ON)
        if not self.spreads or not all(0 < spread < math.inf for spread in self.spreads):
            raise UsageError(f"spreads is {' '.join(map(str, self.spreads)) or 'empty'}: expected finite numbers above 0")


def show_discs(options: Discs, trained: Loaded, console: Console) -> Path:
    """Print discs and eigenvalues at each step, and plot those of one example."""
    found, rows = {}, []
    for name, variables in both(trained).items():
        for step, J in zip(options.steps, jacobians(reading(trained, variables, options.examples), options.steps), strict=True):
            found[f"{name}, step {step}"] = J[0]
            discs, largest = gersgorin_discs(J), np.abs(eigenvalues(J)).max(axis=-1)
            figures = discs.centres.mean(), discs.radii.mean(), largest.mean(), np.log(largest).mean()
            rows.append([name, str(step), *(f"{figure:.4f}" for figure in figures)])
    console.table(["network", "step", "mean centre", "mean radius", "spectral radius", "its logarithm"], rows)
    return gersgorin_figure(found, options.figures / "discs.png")


def show_flow(options: Flow, trained: Loaded, console: Console) -> Path:
    """Print norms of the Jacobians over several steps beside their bounds, and plot the norms."""
    steps, rows, norms = range(options.start, options.start + options.steps), [], {}
    for name, variables in both(trained).items():
        read = reading(trained, variables, options.examples)
        found = all_jacobians(read, steps)
        whole = found.counted.all(axis=0)
        over = products(found.of_step[:, whole])
        norms[name] = np.linalg.norm(over, 2, axis=(-2, -1))
        bounds = _bounds(read, steps)
        for k in _powers(options.steps):
            mean, radius = _geometric(norms[name][k - 1]), _geometric(np.abs(eigenvalues(over[k - 1])).max(axis=-1))
            bound = "" if bounds is None else f"{_geometric(bounds[:k, whole].prod(axis=0)):.4g}"
            rows.append([name, str(k), f"{mean:.4g}", f"{mean ** (1 / k):.4f}", f"{radius:.4g}", bound])
    columns = ["network", "steps", "norm", "norm by step", "spectral radius", "bound of the norm"]
    console.table(columns, rows, f"Jacobians from step {options.start}, geometric means of {norms['trained'].shape[1]} examples")
    return flow_figure(norms, options.figures / "flow.png", trained.label)


def _geometric(values: Float[np.ndarray, " b"]) -> float:
    """Return the geometric mean of numbers that may be 0, which count as the smallest normal number."""
    return float(np.exp(np.log(np.maximum(values, np.finfo(np.float64).tiny)).mean()))


def _powers(largest: int) -> list[int]:
    """Return 1, 2, 4, ... up to the largest number of steps, and that number."""
    return sorted({*(2**i for i in range(largest.bit_length())), largest})


def _bounds(read: Reading, steps: Sequence[int]) -> Float[np.ndarray, "s b"] | None:
    """Return the bound of each step's Jacobian for each example, or None if the cell has no bound by singular values."""
    try:
        layers_of(read.params)
    except UsageError:
        return None
    before = states_before(read.network.cell.step, read.params, read.carry, read.xs, read.mask)
    return np.stack([step_bound(read.params, before[step - 1], read.xs[step - 1]) for step in steps])


def show_bounds(options: Bounds, trained: Loaded, console: Console) -> None:
    """Print the largest singular values of the recurrent matrices, times gamma."""
    found = {name: matrix_norms(reading(trained, variables, 1).params) for name, variables in both(trained).items()}
    rows = [
        [name, str(one.layer), one.name, f"{one.largest:.4f}", f"{one.gamma:g}", f"{one.bound:.4f}", "yes" if one.bound < 1 else "no"]
        for name, norms in found.items()
        for one in norms
    ]
    columns = ["network", "layer", "matrix", "sigma_max", "gamma", "gamma sigma_max", "below 1"]
    console.table(columns, rows, "bound of eq. 3 for a plain network with this matrix alone", left=3)


def show_starts(options: Starts, trained: Loaded, console: Console) -> Path:
    """Print and plot eigenvalues for newly drawn matrices. The run gives the cell, its depth, its carry bias and the inputs."""
    read = reading(trained, trained.variables, options.examples)
    config, spec = read.network.config, read.network.spec
    if config.layers > 1:
        raise UsageError(f"{options.run} holds a network of {config.layers} layers: name a run of one")
    vectors = read.xs if jnp.issubdtype(read.xs.dtype, jnp.floating) else jax.nn.one_hot(read.xs, spec.input_size)
    how: dict[str, Any] = {"depth": spec.depth, "carry_bias": spec.carry_bias, "identity": options.identity}
    starts = initialization_sweep(config.cell, vectors, options.spreads, options.sizes, **how)
    rows = [
        [str(start.size), f"{start.spread:g}", *(f"{value:.4f}" for value in (start.centre, start.radius, start.spectral_radius))]
        for start in starts
    ]
    console.table(["units", "spread", "mean centre", "mean radius", "spectral radius"], rows)
    return sweep_figure(starts, options.figures / "starts.png", f"{config.cell}, depth {spec.depth}")
