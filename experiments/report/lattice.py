"""The studies of Ahuja and Morency 2018, as a section of the report."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from experiments.lattice.efficiency_figure import efficiency_figure
from experiments.lattice.epochs_figure import epochs_figure
from experiments.lattice.gradients_figure import layer_gradients_figure
from experiments.lattice.models import NAMES
from experiments.report.markdown import NONE, RESULTS, table
from experiments.report.records import FIGURES, anonymous, load_summary
from lrpt.cli.summary import spread

PTB = "--data.source ptb_joined --data.text-share 10 --data.dir DIR"
BOOK = "--data.file BOOK.txt --data.text-share 18"
COMMANDS = {
    "lattice_convergence_ptb": f"convergence {PTB}",
    "lattice_convergence_warpeace": f"convergence {BOOK}",
    "lattice_efficiency_ptb": f"efficiency {PTB}",
    "lattice_gradients_ptb": f"gradients {PTB}",
}
"""File of a study, without `.json` -> the arguments of `experiments.lattice` that make it, as `<name of the study>.json`."""

# Table 1, 10 M parameters: epochs, test loss in nats per character.
TABLE_1 = {
    "ptb": {
        "LSTM": (53, 0.972),
        "GRU": (9, 0.972),
        "Grid-LSTM": (10, 0.970),
        "RHN": (19, 0.986),
        "PS-LRU": (8, 0.971),
        "RG-LRU": (6, 0.971),
        "LRU": (8, 0.965),
    },
    "warpeace": {
        "LSTM": (15, 1.158),
        "GRU": (11, 1.163),
        "Grid-LSTM": (43, 1.148),
        "RHN": (19, 1.225),
        "PS-LRU": (8, 1.148),
        "RG-LRU": (11, 1.143),
        "LRU": (8, 1.141),
    },
}
TITLES = {"ptb": "Penn Treebank, the three parts as one text", "warpeace": "War and Peace"}

SHARES = (20, 40, 60, 80, 100)
# Figure 5, Penn Treebank, 10 M parameters: read off the figure, +-0.003.
FIGURE_5 = {
    "LSTM": (1.182, 1.035, 1.011, 0.995, 0.972),
    "GRU": (1.120, 1.003, 0.997, 0.981, 0.973),
    "Grid-LSTM": (1.162, 1.016, 1.002, 0.985, 0.970),
    "RHN": (1.154, 1.019, 1.013, 0.991, 0.986),
    "PS-LRU": (1.117, 1.005, 1.009, 0.984, 0.971),
    "RG-LRU": (1.119, 1.006, 1.002, 0.980, 0.972),
    "LRU": (1.111, 0.993, 0.991, 0.970, 0.965),
}

INTRODUCTION = """\
Ahuja and Morency, "Lattice Recurrent Unit: improving convergence and statistical efficiency for sequence modeling" (AAAI 2018). Published:
10 M parameters, batches of 250, single runs; losses are nats per character on the test part at the lowest validation loss, epochs those
until it. Ours are at smaller scale, as each table says: compare orders, not figures."""

GRADIENTS = """\
Published, Figure 7: in a GRU of ten layers gradients are concentrated in the last layers, in an LRU they are spread more evenly. Widths and
the norm are not given. Ours are means over the minibatches of an epoch of the norm of the gradient of all parameters of a layer."""

Runs = Sequence[Mapping[str, Any]]


def section(root: Path) -> str:
    """All studies; where a result file is missing, what would make it.

    Raises:
      UsageError: a result file is damaged.
    """
    found = {name: load_summary(root / RESULTS / f"{name}.json") for name in COMMANDS}
    parts = ["## Lattice recurrent units", _flat(INTRODUCTION)]
    for text, title in TITLES.items():
        name = f"lattice_convergence_{text}"
        parts += [f"### {title}: losses, and epochs until the best", *_study(name, found[name]), _losses(text, found[name])]
    name = "lattice_efficiency_ptb"
    parts += ["### Statistical efficiency, Penn Treebank", *_study(name, found[name]), _efficiency(found[name])]
    name = "lattice_gradients_ptb"
    parts += ["### Gradients by layer", _flat(GRADIENTS), *_study(name, found[name])]
    if summary := found[name]:
        parts += [_gradients(summary)]
    return "\n\n".join(parts)


def draw(root: Path) -> None:
    """The figures of the studies that are kept."""
    for name in COMMANDS:
        summary = load_summary(root / RESULTS / f"{name}.json")
        if summary is None:
            continue
        path, title = root / figure(name), _scale(summary)
        if summary["study"] == "convergence":
            epochs_figure({model: [run["epochs_to_best"] for run in runs] for model, runs in by_model(summary).items()}, path, title)
        elif summary["study"] == "efficiency":
            efficiency_figure({model: _by_share(runs) for model, runs in by_model(summary).items()}, path, title, "test nats per character")
        else:
            layer_gradients_figure({model: np.asarray(norms) for model, norms in summary["norms"].items()}, path)


def figure(name: str) -> Path:
    """Where the figure of a study is drawn, from the top of the repository."""
    return Path(RESULTS / FIGURES / f"{name}.png")


def by_model(summary: Mapping[str, Any]) -> dict[str, list[Mapping[str, Any]]]:
    """Name as the paper prints it -> the runs of its seeds."""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for run in summary["runs"]:
        groups.setdefault(NAMES[run["model"]], []).append(run)
    return groups


def _flat(text: str) -> str:
    return text.replace("\n", " ")


def _study(name: str, summary: Mapping[str, Any] | None) -> list[str]:
    """What was run, and its figure; or that nothing was."""
    if summary is None:
        return [f"Not yet run: `python -m experiments.lattice {COMMANDS[name]}`"]
    seconds, environment = sum(run["seconds"] for run in summary["runs"]), summary["environment"]
    command = f"`{anonymous(environment['command'])}`"
    ours = f"Ours: {_scale(summary)}. Training took {seconds / 60:.0f} core-minutes on a machine with {environment['cpus']} cores, "
    return [f"{ours}which had other work to do: {command}", f"![{name.replace('_', ' ')}]({figure(name)})"]


def _scale(summary: Mapping[str, Any]) -> str:
    options, runs = summary["options"], summary["runs"]
    share = options["data"]["text_share"]
    text = "all of the text" if share is None else f"{share:g} % of the text"
    seeds = len({run["seed"] for run in runs})
    return (
        f"about {options['parameters']:,} parameters, {options['layers']} layers, {text}, batches of {options['batch_size']}, "
        f"learning rate {options['learning_rate']:g}, {max(run['epochs'] for run in runs)} epochs at most, {seeds} seed{'s' * (seeds > 1)}"
    )


def _losses(text: str, summary: Mapping[str, Any] | None) -> str:
    groups = by_model(summary) if summary else {}
    rows = []
    for model, (epochs, loss) in TABLE_1[text].items():
        runs = groups.get(model, [])
        parameters = f"{runs[0]['parameters']:,}" if runs else NONE
        rows.append([model, f"{loss:.3f}", str(epochs), parameters, str(len(runs) or NONE), *_spreads(runs)])
    columns = ["model", "loss, published", "epochs, published", "parameters", "seeds", "loss, ours", "epochs, ours"]
    ours = {model: float(np.mean([run["loss"] for run in runs])) for model, runs in groups.items()}
    orders = [f"Published, best first: {_order({model: loss for model, (_, loss) in TABLE_1[text].items()})}."]
    orders += [f"Ours: {_order(ours)}."] * bool(ours)
    return f"{table(columns, rows)}\n\n{' '.join(orders)}"


def _spreads(runs: Runs) -> list[str]:
    """Loss and epochs."""
    return [_spread([run[name] for run in runs], form) for name, form in (("loss", "{:.3f}"), ("epochs_to_best", "{:.1f}"))]


def _spread(values: Sequence[float], form: str) -> str:
    return spread(values, form) if values else "not yet run"


def _order(losses: Mapping[str, float]) -> str:
    return ", ".join(sorted(losses, key=lambda model: losses[model]))


def _efficiency(summary: Mapping[str, Any] | None) -> str:
    groups = {model: _by_share(runs) for model, runs in by_model(summary).items()} if summary else {}
    rows = []
    for model, published in FIGURE_5.items():
        rows.append([model, "published (figure)", *(f"{loss:.3f}" for loss in published)])
        if model in groups:
            rows.append([model, "ours", *(_spread(groups[model].get(share, []), "{:.3f}") for share in SHARES)])
    which = "" if summary is None else f" Ours have the {summary['options']['test']} test part."
    remark = "Published losses are of test parts that differ from share to share: the original code shortens the text and then cuts it."
    return f"{table(['model', '', *(f'{share} %' for share in SHARES)], rows, left=2)}\n\n{remark}{which}"


def _by_share(runs: Runs) -> dict[float, list[float]]:
    groups: dict[float, list[float]] = {}
    for run in runs:
        groups.setdefault(run["share"], []).append(run["loss"])
    return groups


def _gradients(summary: Mapping[str, Any]) -> str:
    rows = []
    for model, norms in summary["norms"].items():
        layers = np.mean(norms, axis=1)
        runs = by_model(summary)[model]
        rows.append(
            [
                model,
                *(f"{value:.2g}" for value in layers),
                f"{layers[-1] / layers[0]:.1f}",
                _spread([run["loss"] for run in runs], "{:.3f}"),
            ]
        )
    count = max(len(norms) for norms in summary["norms"].values())
    columns = ["model", *(f"layer {k}" for k in range(1, count + 1)), "last / first", "test loss"]
    return f"Norms, means over epochs:\n\n{table(columns, rows)}"
