"""Tables and plots of the studies of the lattice paper."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from experiments.lattice.efficiency_figure import efficiency_figure
from experiments.lattice.epochs_figure import epochs_figure
from experiments.lattice.gradients_figure import layer_gradients_figure, mean_norms, top_to_bottom
from experiments.lattice.losses_figure import losses_figure
from experiments.lattice.models import NAMES
from experiments.lattice.options import Efficiency, Gradients, Options
from experiments.lattice.ranking import ranked
from lrpt.cli.studies import Finished, Row, grouped
from lrpt.cli.summary import mean_and_deviation
from lrpt.runs.console import Console
from lrpt.runs.layout import FIGURES


def by_model(finished: Sequence[Finished]) -> dict[str, list[Row]]:
    """Group the runs by the name of their model in tables, with its start if there are several."""
    rows = [one.row for one in finished]
    several = len({row["initialization"] for row in rows}) > 1
    return grouped([{**row, "title": NAMES[row["model"]] + several * f", {row['initialization']} start"} for row in rows], "title")


def at_cap(run: Mapping[str, Any], epochs: int, patience: int | None) -> bool:
    """Return whether the last epoch allowed ended a run before its patience did, so that more epochs might be better."""
    return run["epochs"] >= epochs and epochs - run["epochs_to_best"] < (patience or 1)


def show_convergence(options: Options, finished: Sequence[Finished], console: Console) -> Mapping[str, Any]:
    """Print a row for each model and the significant differences from the LRU. Draw learning curves and the box plot."""
    groups = by_model(finished)
    rows = [
        [name, f"{runs[0]['parameters']:,}", str(len(runs)), *_spread(runs, "loss"), *_bounded(options, runs)]
        for name, runs in groups.items()
    ]
    columns = ["model", "parameters", "seeds", "test nats per character", "deviation", "epochs until the best", "deviation"]
    console.table(columns, rows, _title(options))
    said = rankings([one.row for one in finished])
    for sentence in said:
        console.say(sentence)
    figures = options.workdir / FIGURES
    epochs_figure(_epochs(groups), figures / "epochs.png", _title(options))
    for start, own in grouped([one.row for one in finished], "initialization").items():
        curves = {NAMES[name]: [run["losses"] for run in runs] for name, runs in grouped(own, "model").items()}
        losses_figure(curves, figures / f"losses_{start}.png", f"{_title(options)}, start {start}")
    return {"rankings": said}


def rankings(rows: Sequence[Row]) -> list[str]:
    """Return a sentence for each start: which models the LRU's test loss differs from, by paired seeds."""
    sentences = []
    for start, own in grouped(rows, "initialization").items():
        scores = {name: {run["seed"]: run["loss"] for run in runs} for name, runs in grouped(own, "model").items()}
        if said := ranked(scores):
            sentences.append(f"test loss, start {start}: {said}")
    return sentences


def _bounded(options: Options, runs: Sequence[Row]) -> list[str]:
    """Return mean and deviation of epochs until the best; at least as many if the cap ended a run."""
    mean, deviation = _spread(runs, "epochs_to_best", "{:.1f}")
    return [(">= " if any(at_cap(run, options.epochs, options.patience) for run in runs) else "") + mean, deviation]


def _spread(runs: Sequence[Row], name: str, form: str = "{:.3f}") -> list[str]:
    return mean_and_deviation([run[name] for run in runs], form)


def _epochs(groups: Mapping[str, Sequence[Row]]) -> dict[str, list[float]]:
    return {name: [float(run["epochs_to_best"]) for run in runs] for name, runs in groups.items()}


def show_efficiency(options: Efficiency, finished: Sequence[Finished], console: Console) -> Mapping[str, Any]:
    """Print a row for each model with a column for each share. Plot the losses, and the box plot over all shares."""
    groups = {name: by_share(runs) for name, runs in by_model(finished).items()}
    shares = sorted(options.shares)
    rows = [
        [name, *(f"{np.mean(of_share[share]):.3f}" if share in of_share else "" for share in shares)] for name, of_share in groups.items()
    ]
    console.table(["model", *(f"{share:g} %" for share in shares)], rows, f"test nats per character, {options.test} test split")
    figures = options.workdir / FIGURES
    title = f"{_title(options)}, {options.test} test split"
    efficiency_figure(groups, figures / f"efficiency_{options.test}.png", title, "test nats per character")
    epochs_figure(_epochs(by_model(finished)), figures / f"epochs_{options.test}_shares.png", f"{title}, all shares")
    return {}


def by_share(runs: Sequence[Row]) -> dict[float, list[float]]:
    """Group test losses by per cent of the data."""
    return {share: [run["loss"] for run in own] for share, own in grouped(runs, "share").items()}


def show_gradients(options: Gradients, finished: Sequence[Finished], console: Console) -> Mapping[str, Any]:
    """Print the ratio of last to first layer by epoch, and draw the heat maps with the ratios."""
    norms = {name: mean_norms([run["gradient_norms"] for run in runs]) for name, runs in by_model(finished).items()}
    longest = max(found.shape[1] for found in norms.values())
    rows = [[name, *(f"{ratio:.3g}" for ratio in top_to_bottom(found))] for name, found in norms.items()]
    rows = [row + [""] * (1 + longest - len(row)) for row in rows]
    console.table(["model", *(f"epoch {k}" for k in range(1, longest + 1))], rows, "norm of gradients, last layer over first layer")
    layer_gradients_figure(norms, options.workdir / FIGURES / "gradients.png")
    return {}


def _title(options: Options) -> str:
    seeds = f"{options.seeds} seed{'s' if options.seeds > 1 else ''}"
    return f"about {options.parameters:,} parameters, {options.layers} layers, {seeds}"
