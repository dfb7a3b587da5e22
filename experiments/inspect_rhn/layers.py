"""Subcommands on the layers of one step: activity of their gates, and the loss with one layer's gates held."""

from dataclasses import dataclass
from pathlib import Path

from experiments.inspect_rhn.numbers import gates_of, lesions_of
from lrpt.analysis.gates import gate_figure
from lrpt.analysis.lesions import lesion_figure
from lrpt.cli.finished.run_commands import OnRun
from lrpt.runs.console import Console
from lrpt.runs.files import write_json
from lrpt.trained.loading import Loaded


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

    counts = ("examples",)

    examples: int | None = None
    """first examples that the loss is averaged over (None: the whole training split)"""


def show_gates(options: Gates, trained: Loaded, console: Console) -> Path:
    """Print the mean activity of each layer over steps and examples, and plot its means over units."""
    found, activity = gates_of(trained, options.examples, options.gate)
    write_json(options.numbers / f"{options.gate}_gates.json", [one._asdict() for one in found])
    names = list(dict.fromkeys(one.network for one in found))
    of = {(one.network, one.layer): one for one in found}
    rows = [
        [str(layer), *(f"{figure:.3f}" for name in names for figure in (of[name, layer].mean, of[name, layer].deviation))]
        for layer in dict.fromkeys(one.layer for one in found)
    ]
    columns = [f"{name}{what}" for name in names for what in ("", ": deviation over steps")]
    console.table(["layer", *columns], rows, f"mean {options.gate} gate")
    return gate_figure(activity, options.figures / f"{options.gate}_gates.png", trained.label, options.gate)


def show_lesions(options: Held, trained: Loaded, console: Console) -> Path:
    """Print and plot the training loss with the gates of each layer held."""
    found = lesions_of(trained, options.examples)
    write_json(options.numbers / "lesions.json", found._asdict())
    rows = [
        [str(layer), *(f"{value:.5g}" for value in (shut, shut - found.intact, opened, opened - found.intact))]
        for layer, (shut, opened) in enumerate(zip(found.shut, found.opened, strict=True), start=1)
    ]
    read = "the whole training split" if options.examples is None else f"the first {options.examples} training examples"
    columns = ["layer", "gate closed", "increase", "gate held open", "increase"]
    console.table(columns, [["none", f"{found.intact:.5g}", "", "", ""], *rows], f"loss on {read}")
    return lesion_figure(found, options.figures / "lesions.png", trained.label)
