"""Subcommands on the temporal Jacobian: Gershgorin discs, norms over several steps, bounds of eq. 3, initialization."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from experiments.inspect_rhn.numbers import EXAMPLES, bounds_of, discs_of, flow_of, steps_of_discs, steps_of_flow
from experiments.inspect_rhn.reading import reading
from lrpt.analysis.gradient_flow import flow_figure
from lrpt.analysis.initial_spectra import initialization_sweep, sweep_figure
from lrpt.analysis.jacobian import gershgorin_figure
from lrpt.cli.finished.run_commands import OnRun
from lrpt.cli.limits import refuse_memory
from lrpt.errors import UsageError
from lrpt.runs.console import Console
from lrpt.runs.files import write_json
from lrpt.trained.loading import Loaded


@dataclass(frozen=True)
class Discs(OnRun):
    """Plot Gershgorin discs at initialization and after training."""

    counts = ("examples",)

    examples: int = EXAMPLES
    """examples that the means of the table cover, if they have the step; the first one is plotted"""
    steps: tuple[int, ...] | None = None
    """steps of the Jacobians, counted from 1 (None: those of 1, 8 and 24 that the examples have)"""


@dataclass(frozen=True)
class Flow(OnRun):
    """Plot norms of Jacobians over 1, 2, ... steps (eq. 2) at initialization and after training."""

    counts = ("examples", "start", "steps")

    examples: int = EXAMPLES
    """examples that the means of the table cover, if they are long enough"""
    start: int = 1
    """first step of the products, counted from 1"""
    steps: int | None = None
    """largest number of steps (None: 16, or as many as the examples have)"""


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
    """add the identity matrix to each recurrent matrix"""
    huge: bool = False
    """go on even if the estimate exceeds the limit"""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.sizes or min(self.sizes) < 1:
            raise UsageError(f"sizes is {' '.join(map(str, self.sizes)) or 'empty'}: expected widths of 1 or more")
        if not self.huge:
            largest = max(self.sizes)
            refuse_memory(f"sizes is {largest}: a matrix", 4 * largest**2, "choose smaller --sizes")
        if not self.spreads or not all(0 < spread < math.inf for spread in self.spreads):
            raise UsageError(f"spreads is {' '.join(map(str, self.spreads)) or 'empty'}: expected finite numbers above 0")


def show_discs(options: Discs, trained: Loaded, console: Console) -> Path:
    """Print discs and eigenvalues at each step, and plot those of one example."""
    steps = steps_of_discs(trained, options.examples, options.steps)
    found, firsts = discs_of(trained, options.examples, steps=steps)
    write_json(options.numbers / "discs.json", [one._asdict() for one in found])
    rows = [[one.network, str(one.step), *(f"{figure:.4f}" for figure in one[2:])] for one in found]
    console.table(["network", "step", "mean centre", "mean radius", "spectral radius", "its logarithm"], rows)
    return gershgorin_figure(firsts, options.figures / "discs.png")


def show_flow(options: Flow, trained: Loaded, console: Console) -> Path:
    """Print norms of the Jacobians over several steps beside their bounds, and plot the norms."""
    steps = steps_of_flow(trained, options.examples, options.start, options.steps)
    spans, norms = flow_of(trained, options.examples, options.start, steps)
    write_json(options.numbers / "flow.json", [one._asdict() for one in spans])
    rows = [
        [one.network, str(one.steps), f"{one.norm:.4g}", f"{one.by_step:.4f}", f"{one.spectral_radius:.4g}", _bound(one.bound)]
        for one in spans
    ]
    columns = ["network", "steps", "norm", "norm by step", "spectral radius", "bound of the norm"]
    console.table(columns, rows, f"Jacobians from step {options.start}, geometric means of {norms['trained'].shape[1]} examples")
    return flow_figure(norms, options.figures / "flow.png", trained.label)


def _bound(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


def show_bounds(options: Bounds, trained: Loaded, console: Console) -> None:
    """Print the largest singular values of the recurrent matrices, times gamma."""
    found = bounds_of(trained)
    write_json(options.numbers / "bounds.json", {name: [one._asdict() for one in norms] for name, norms in found.items()})
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
    write_json(options.numbers / "starts.json", [start._asdict() for start in starts])
    rows = [
        [str(start.size), f"{start.spread:g}", *(f"{value:.4f}" for value in (start.centre, start.radius, start.spectral_radius))]
        for start in starts
    ]
    console.table(["units", "spread", "mean centre", "mean radius", "spectral radius"], rows)
    return sweep_figure(starts, options.figures / "starts.png", f"{config.cell}, depth {spec.depth}")
