"""Subcommands on the layers of one step: activity of their gates, and the loss with one layer's gates held."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from experiments.inspect_rhn.reading import both, check_highway, loss_of, reading
from lrpt.analysis.gates import gate_activity, gate_figure
from lrpt.analysis.lesions import lesion_figure, lesions
from lrpt.cli.run_commands import OnRun
from lrpt.recurrence import recur
from lrpt.runs.console import Console
from lrpt.training.loading import Loaded


@dataclass(frozen=True)
class Gates(OnRun):
    """Plot the activity of gates after training as one heat map for each example, and print it before and after training."""

    counts = ("examples",)

    examples: int = 4
    """examples in the plot and in the means"""
    gate: str = "transform"
    """transform, carry or candidate"""


@dataclass(frozen=True)
class Held(OnRun):
    """Plot the increase of the training loss with each layer's gates closed, and held open, as bars."""

    examples: int | None = None
    """first examples that the loss is averaged over (None: the whole training split)"""

    counts = ("examples",)


def show_gates(options: Gates, trained: Loaded, console: Console) -> Path:
    """Print the mean activity of each layer over steps and examples, and plot its means over units."""
    found = {name: _activity(options, trained, variables) for name, variables in both(trained).items()}
    layers = range(found["trained"].shape[1])
    rows = [[str(i + 1), *(f"{f(found[name][:, i]):.3f}" for name in found for f in (np.nanmean, np.nanstd))] for i in layers]
    columns = [f"{name}{what}" for name in found for what in ("", ": deviation over steps")]
    console.table(["layer", *columns], rows, f"mean {options.gate} gate")
    return gate_figure(found["trained"], options.figures / f"{options.gate}_gates.png", trained.label, options.gate)


def _activity(options: Gates, trained: Loaded, variables: Any) -> Float[np.ndarray, "b l t"]:
    """Return the mean over units of the gate, by example, layer and step."""
    network, params, carry, xs, mask = reading(trained, variables, options.examples)
    check_highway(options, network)
    info = jax.jit(lambda params, xs: recur(network.cell.step, params, carry, xs, mask, outputs="info")[1][1])(params, xs)
    return gate_activity(info, options.gate, mask)


def show_lesions(options: Held, trained: Loaded, console: Console) -> Path:
    """Print and plot the training loss with the gates of each layer held."""
    check_highway(options, reading(trained, trained.variables, options.examples or 1).network)
    found = lesions(trained.variables["params"], loss_of(trained, options.examples))
    rows = [
        [str(layer), *(f"{value:.5g}" for value in (shut, shut - found.intact, opened, opened - found.intact))]
        for layer, (shut, opened) in enumerate(zip(found.shut, found.opened, strict=True), start=1)
    ]
    read = "the whole training split" if options.examples is None else f"the first {options.examples} training examples"
    columns = ["layer", "gate closed", "increase", "gate held open", "increase"]
    console.table(columns, [["none", f"{found.intact:.5g}", "", "", ""], *rows], f"loss on {read}")
    return lesion_figure(found, options.figures / "lesions.png", trained.label)
